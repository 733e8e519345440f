"""On another machine or in a container: paths are not ours, some rights are."""

from __future__ import annotations

from feishuperm.danger import elsewhere
from feishuperm.danger.places import UNKNOWN
from feishuperm.danger.scene import DOWNLOADED, NOTHING, SECRET, Arg, Flow, Program
from tests.danger.stage import Stage
from tests.tables import every_row

ssh, container, kubectl = elsewhere.ssh, elsewhere.container, elsewhere.kubectl


@every_row(
    ("program", "command", "calls"),
    [
        (ssh, "ssh -p 22 me@a.b rm x", ["rm x"]),
        (ssh, "ssh a.b -t 'rm x; cat y'", ["rm x", "cat y"]),
        (ssh, "ssh -o 'ProxyCommand=rm x' a.b", ["rm x"]),
        (ssh, "ssh a.b", []),
        (container, "docker run -v a:b -e C=d image rm x", ["rm x"]),
        (container, "docker compose -f y exec db rm x", ["rm x"]),
        (container, "docker build rm x", []),
        (kubectl, "kubectl exec pod -- rm x", ["rm x"]),
        (elsewhere.ansible, "ansible all -m shell -a 'rm x'", ["rm x"]),
        (elsewhere.ansible, "ansible all -m copy -a 'rm x'", []),
        (elsewhere.device, "adb -s 1 shell rm x", ["rm x"]),
        (elsewhere.device, "adb push rm x", []),
    ],
)
def test_command_runs_elsewhere(
    program: Program, command: str, calls: list[str]
) -> None:
    stage = Stage()
    stage.play(program, command)
    assert stage.calls == calls and not stage.scene.foreign


@every_row(
    ("program", "command", "notes"),
    [
        (ssh, "ssh me@a.b", ["fact.host a.b"]),
        (ssh, "ssh a.b ls", ["fact.host a.b", "fact.remote ssh a.b ls"]),
        (container, "docker run -v /:/x a", ["danger.root docker -v /:/x"]),
        (container, "docker run --mount src=/etc,dst=/x a",
         ["danger.root docker -v src=/etc,dst=/x"]),
        (container, "docker run -v ~:/x a", ["danger.root docker -v ~:/x"]),
        (container, "docker run -itv /:/x a", ["danger.root docker -v /:/x"]),
        (container, "docker run -v/:/x a", ["danger.root docker -v /:/x"]),
        (container, "docker run -v ./x:/x a", []),
        (container, "docker run -v./x:/x a", []),
        (container, "docker run --volumes-from x a", []),
        (container, "docker run --privileged a", ["danger.root docker --privileged"]),
        (container, "docker run --pid host a", ["danger.root docker --pid"]),
        (container, "docker run --cap-add=NET_BIND a", []),
        (container, "docker volume prune", ["danger.data docker volume prune"]),
        (container, "docker cp a:/x /srv/x", ["danger.overwrite /srv/x"]),
        (container, "docker cp x a:/srv/x", []),
        (container, "docker save -o /srv/x a", ["danger.overwrite /srv/x"]),
        (container, "docker run -v", []),
        (container, "docker pull a", ["fact.installs a"]),
        (kubectl, "kubectl delete pod x", ["danger.machine kubectl delete pod x"]),
        (kubectl, "kubectl run --overrides hostPID",
         ["danger.root kubectl run --overrides hostPID"]),
        (kubectl, "kubectl get -f https://a.b/x",
         ["danger.downloaded https://a.b/x", "fact.host a.b"]),
        (elsewhere.ansible, "ansible all -m file -a state=absent", [
            "danger.machine ansible all -m file -a",
            "fact.remote ansible all -m file -a"]),
    ],
)  # fmt: skip
def test_what_it_means_here_is_noted(
    program: Program, command: str, notes: list[str]
) -> None:
    stage = Stage()
    stage.play(program, command)
    assert stage.notes == notes


def test_all_containers_are_removed() -> None:
    stage = Stage()
    some = stage.play(container, "docker ps -q --filter x")
    container(stage.scene, "docker", [Arg("kill"), Arg(UNKNOWN, *some.trace)], some)
    assert stage.notes == ["fact.container docker kill …"]
    all_ = stage.play(container, "docker ps -q")
    container(stage.scene, "docker", [Arg("kill"), Arg(UNKNOWN, *all_.trace)], all_)
    assert "danger.machine docker kill …" in stage.notes


def test_what_comes_back_was_downloaded_and_what_goes_may_leak() -> None:
    stage = Stage()
    out = stage.play(ssh, "ssh a.b cat x", Flow("x", SECRET, ".env"))
    assert out.origin == DOWNLOADED and "danger.leak .env → a.b" in stage.notes
    assert stage.play(kubectl, "kubectl get secret x").origin == SECRET
    stage.play(kubectl, "kubectl apply -f -", Flow("x", "", "y"))
    assert not [note for note in stage.notes if note.startswith("danger.downloaded")]
    stage.play(kubectl, "kubectl apply -f -", Flow(None, DOWNLOADED, "a.b"))
    assert "danger.downloaded a.b" in stage.notes


def test_text_that_flows_in_is_run_there() -> None:
    stage = Stage()
    stage.play(ssh, "ssh a.b", Flow("rm x"))
    stage.play(ssh, "ssh a.b", Flow(" "))
    stage.play(ssh, "ssh a.b", Flow(None))
    assert stage.calls == ["rm x"] and stage.notes == ["fact.host a.b"]


def test_paths_of_another_machine_are_not_shown_as_ours() -> None:
    stage = Stage()
    stage.play(ssh, "ssh a.b 'cat > src/x'", NOTHING)
    assert "danger.overwrite src/x" in stage.notes
