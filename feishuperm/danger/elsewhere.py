"""Programs that run others on another machine or in a container.

Paths there are not ours; what is shared with a container is, and so are its rights.
"""

from __future__ import annotations

import re

from feishuperm.danger.arguments import (
    HOST,
    behind,
    behind_dashes,
    has,
    look,
    operands,
    outputs,
    recognise,
    value_of,
    words,
)
from feishuperm.danger.scene import DOWNLOADED, Arg, Args, Flow, Scene
from feishuperm.danger.strangers import by_words, printed_secret

_SSH_RUNS = re.compile(
    r"(?:-o)?(?:proxy|local|knownhosts)command[= ]\s*(.+)", re.IGNORECASE | re.DOTALL
)


_SSH_OPENS = re.compile(r"(?:-o)?remoteforward[= ]", re.IGNORECASE)


def ssh(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = operands_until(
        args, "-i -p -l -o -F -J -L -R -D -W -b -c -E -S -w -m -Q -B -e -I -O"
    )
    for option in args:
        match = _SSH_RUNS.match(option)
        if match:
            scene.run(Arg(match[1], *option.trace))
    if not rest:
        return Flow()
    own = [arg for arg in args if not any(arg is word for word in rest)]
    if value_of(own, "-R") or any(_SSH_OPENS.match(arg) for arg in own):
        scene.note("danger.tunnel", words(name, args))
    host = rest[0].rpartition("@")[2]
    scene.note("fact.host", host)
    scene.leaks(flow, host)
    if len(rest) > 1:
        scene.note("fact.remote", words("ssh", rest))
        scene.run(Arg(" ".join(rest[1:])), foreign=True, given=flow)
    elif flow.text is not None and flow.text.strip():
        scene.run(Arg(flow.text), foreign=True)
    return Flow(None, DOWNLOADED, host)


def operands_until(args: Args, valued: str) -> Args:
    """A host and the command behind it: options end with the first word."""
    rest = behind(args, valued)
    if len(rest) > 1 and rest[1].startswith("-"):
        return [rest[0], *behind(rest[1:], valued)]
    return rest


def container(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """docker and its kin: what runs inside, what is shared with it, what is removed."""
    recognise(scene, name, args)
    rest = behind(
        args, "-H --host --context -c -f --file -p --project-name -l --log-level"
    )
    if rest[:1] == ["compose"]:
        rest = behind(rest[1:], "-f --file -p --project-name --profile --env-file")
    if rest[:1] in (["run"], ["exec"], ["create"]):
        return _contained(scene, name, rest[1:], flow)
    listed = rest[:1] in (["ps"], ["images"]) or rest[:2] == ["image", "ls"]
    if listed and not has(rest, "f", "--filter"):
        return Flow(None, "", _ALL)
    outputs(scene, name, rest)
    if rest[:1] == ["pull"]:
        scene.note("fact.installs", " ".join(operands(rest[1:])[:2]))
    elif any(arg.what == _ALL for arg in rest):
        scene.note("danger.machine", words(name, rest))
    elif rest[:1] == ["cp"]:
        for path in operands(rest[1:])[-1:]:
            if ":" not in path:
                scene.writes(path)
    return Flow()


_SYSTEM_PART = re.compile(
    r"/(?:etc|root|home|Users|usr|var|boot|proc|sys|dev)?|.*/docker\.sock"
)

_ALL = "docker ps"  # what came from a list: all that there are

_SHARES = re.compile(r"(?:-[a-z]*?v|--volume(?!s)|--mount)=?(.*)", re.DOTALL)

_HOST_RIGHTS = re.compile(
    r"--privileged(?:=true)?|(?:--(?:pid|userns|ipc|uts)[= ])host"
    r"|--cap-add[= ](?:ALL|(?:CAP_)?SYS_(?:ADMIN|PTRACE|MODULE))"
    r"|--security-opt[= ]\w+[=:]unconfined|--device[= ]/dev/(?:sd|nvme|mem|kmsg).*",
    re.IGNORECASE,
)

_DOCKER_VALUED = (
    "-v --volume -e --env -p --publish -w --workdir --name -u --user --network --net -m"
    " --mount --entrypoint --env-file --memory --cpus -l --label --platform --gpus -h"
    " --add-host --pull --hostname --restart --ulimit --shm-size --tmpfs --device --pid"
    " --cap-add --ipc -a --dns --log-driver --security-opt --volumes-from --index"
    " --link"
)


def _contained(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    for arg, following in zip(args, [*args[1:], Arg("")]):
        match = _SHARES.fullmatch(arg)
        shared = (match[1] or following) if match else ""
        if shared and _is_host(scene, shared):
            scene.note("danger.root", words(name, ["-v", shared]))
        if _HOST_RIGHTS.fullmatch(arg) or _HOST_RIGHTS.fullmatch(f"{arg} {following}"):
            scene.note("danger.root", words(name, [arg]))
    image, *command = behind(args, _DOCKER_VALUED) or [Arg("")]
    named = re.sub(r"(?:-cli)?(?:[:@].*)?\Z", "", image.rpartition("/")[2])
    if recognise(scene, named, command):  # the image is what it is called by
        return Flow()
    return _elsewhere(scene, command, flow)


def _elsewhere(scene: Scene, command: Args, flow: Flow) -> Flow:
    """A command that runs where the paths are not ours."""
    before, scene.foreign = scene.foreign, True
    out = scene.call(command, flow) if command else Flow()
    scene.foreign = before
    return out


def _is_host(scene: Scene, shared: str) -> bool:
    source = re.search(r"(?:source|src)=([^,]+)", shared)
    path = source[1] if source else shared.partition(":")[0]
    path = path.rstrip("/") or "/"
    return path in ("~", scene.ground.home) or bool(_SYSTEM_PART.fullmatch(path))


_POD_RIGHTS = re.compile(
    r"hostPID|hostPath|hostNetwork|--profile=sysadmin|--privileged|privileged\W+true"
)


def kubectl(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    recognise(scene, "kubectl", args)
    if any(_POD_RIGHTS.search(arg[:2000]) for arg in args):
        scene.note("danger.root", words(name, args))
    file = value_of(args, "-f", "--filename")
    if file is not None and (HOST.match(file) or (file == "-" and flow.origin)):
        scene.note("danger.downloaded", file if HOST.match(file) else flow.what)
    look(scene, args)
    if "--" in args:
        return _elsewhere(scene, behind_dashes(args), flow)
    return printed_secret(name, args) or Flow()


_ANSIBLE_ENDS = re.compile(r"\bstate=(?:absent|stopped|removed)\b")


def ansible(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """A module on other machines; some are a shell."""
    scene.note("fact.remote", words(name, args))
    text = value_of(args, "-a", "--args") or Arg("")
    module = value_of(args, "-m", "--module-name") or "command"
    if re.search(r"(?:shell|command|raw|script)\Z", module):
        return scene.run(text, foreign=True)
    if _ANSIBLE_ENDS.search(text):
        scene.note("danger.machine", words(name, args))
    return Flow()


def device(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """adb: a shell on a telephone."""
    rest = behind(args, "-s -t -H -P")
    if rest[:1] == ["shell"] and rest[1:]:
        return scene.run(Arg(" ".join(rest[1:])), foreign=True)
    return by_words(scene, name, args, flow)
