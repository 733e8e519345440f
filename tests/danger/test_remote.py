"""On another machine or in a container: paths are not ours, some rights are."""

from __future__ import annotations

from feishuperm.danger.interpreter import (
    DOWNLOADED,
    NOTHING,
    SECRET,
    Arg,
    Output,
)
from feishuperm.danger.paths import UNKNOWN
from tests.danger.stage import Stage
from tests.tables import every_row


@every_row(
    ("command", "calls"),
    [
        ("ssh -p 22 me@a.b rm x", ["rm x"]),
        ("ssh a.b -t 'rm x; cat y'", ["rm x", "cat y"]),
        ("ssh -o 'ProxyCommand=rm x' a.b", ["rm x"]),
        ("ssh a.b", []),
        ("docker run -v a:b -e C=d image rm x", ["rm x"]),
        ("docker compose -f y exec db rm x", ["rm x"]),
        ("docker build rm x", []),
        ("kubectl exec pod -- rm x", ["rm x"]),
        ("ansible all -m shell -a 'rm x'", ["rm x"]),
        ("ansible all -m copy -a 'rm x'", []),
        ("adb -s 1 shell rm x", ["rm x"]),
        ("adb push rm x", []),
    ],
)
def test_command_runs_elsewhere(command: str, calls: list[str]) -> None:
    stage = Stage()
    stage.play(command)
    assert stage.calls == calls and not stage.state.foreign


@every_row(
    ("command", "notes"),
    [
        ("ssh me@a.b", ["fact.host a.b"]),
        ("ssh a.b ls", ["fact.host a.b", "fact.remote ssh a.b ls"]),
        ("docker run -v /:/x a", ["danger.root docker -v /:/x"]),
        ("docker run --mount src=/etc,dst=/x a",
         ["danger.root docker -v src=/etc,dst=/x"]),
        ("docker run -v ~:/x a", ["danger.root docker -v ~:/x"]),
        ("docker run -itv /:/x a", ["danger.root docker -v /:/x"]),
        ("docker run -v/:/x a", ["danger.root docker -v /:/x"]),
        ("docker run -v ./x:/x a", []),
        ("docker run -v./x:/x a", []),
        ("docker run --volumes-from x a", []),
        ("docker run --privileged a", ["danger.root docker --privileged"]),
        ("docker run --pid host a", ["danger.root docker --pid"]),
        ("docker run --cap-add=NET_BIND a", []),
        ("docker volume prune", ["danger.data docker volume prune"]),
        ("docker cp a:/x /srv/x", ["danger.overwrite /srv/x"]),
        ("docker cp x a:/srv/x", []),
        ("docker save -o /srv/x a", ["danger.overwrite /srv/x"]),
        ("docker run -v", []),
        ("docker pull a", ["fact.installs a"]),
        ("kubectl delete pod x", ["danger.machine kubectl delete pod x"]),
        ("kubectl run --overrides hostPID",
         ["danger.root kubectl run --overrides hostPID"]),
        ("kubectl get -f https://a.b/x",
         ["danger.downloaded https://a.b/x", "fact.host a.b"]),
        ("ansible all -m file -a state=absent", [
            "danger.machine ansible all -m file -a",
            "fact.remote ansible all -m file -a"]),
    ],
)  # fmt: skip
def test_what_it_means_here_is_noted(command: str, notes: list[str]) -> None:
    stage = Stage()
    stage.play(command)
    assert stage.notes == notes


def test_all_containers_are_removed() -> None:
    stage = Stage()
    some = stage.play("docker ps -q --filter x")
    stage.follow("docker", [Arg("kill"), Arg(UNKNOWN, *some.trace)], some)
    assert stage.notes == ["fact.container docker kill …"]
    all_ = stage.play("docker ps -q")
    stage.follow("docker", [Arg("kill"), Arg(UNKNOWN, *all_.trace)], all_)
    assert "danger.machine docker kill …" in stage.notes


def test_what_comes_back_was_downloaded_and_what_goes_may_leak() -> None:
    stage = Stage()
    out = stage.play("ssh a.b cat x", Output("x", SECRET, ".env"))
    assert out.origin == DOWNLOADED and "danger.leak .env → a.b" in stage.notes
    assert stage.play("kubectl get secret x").origin == SECRET
    stage.play("kubectl apply -f -", Output("x", "", "y"))
    assert not [note for note in stage.notes if note.startswith("danger.downloaded")]
    stage.play("kubectl apply -f -", Output(None, DOWNLOADED, "a.b"))
    assert "danger.downloaded a.b" in stage.notes


def test_text_that_flows_in_is_run_there() -> None:
    stage = Stage()
    stage.play("ssh a.b", Output("rm x"))
    stage.play("ssh a.b", Output(" "))
    stage.play("ssh a.b", Output(None))
    assert stage.calls == ["rm x"] and stage.notes == ["fact.host a.b"]


def test_paths_of_another_machine_are_not_shown_as_ours() -> None:
    stage = Stage()
    stage.play("ssh a.b 'cat > src/x'", NOTHING)
    assert "danger.overwrite src/x" in stage.notes
