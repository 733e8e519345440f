"""A release on a static host: installed over HTTPS, cut, changed, and as an upgrade."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import build
from feishuperm import __version__
from tests.conftest import ROOT, clean_env, free_port, missing, need
from tests.e2e.test_install import Machine, answer, output
from tests.test_build import commit_tree, copy_tree, run_build

FOLDER = "/some/folder"


class StaticHost:
    """Serves files over TLS, one of them as `change` makes it."""

    def __init__(self, files: dict[str, bytes], certificate: Path) -> None:
        self.files = files
        self.change: Callable[[bytes], bytes] = lambda data: data
        self.says_length = True
        host = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path[len(FOLDER) + 1 :]
                if not self.path.startswith(FOLDER) or name not in host.files:
                    self.send_error(404)
                    return
                data = sent = host.files[name]
                if name == "feishuperm.pyz":
                    sent = host.change(data)
                self.send_response(200)
                if host.says_length:
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://localhost:{self.server.server_port}{FOLDER}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A company's own CA, and a key with a certificate that it gave to localhost."""
    need("openssl")
    need("curl")
    folder = tmp_path_factory.mktemp("tls")
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    ca = [*new, "-subj", "/CN=private CA", "-keyout", "ca.key", "-out", "ca.pem"]
    own = [*new, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    own += ["-addext", "basicConstraints=critical,CA:false"]
    own += [
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-keyout",
        "own.key",
        "-out",
        "own.pem",
    ]
    for command in (ca, own):
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    both = folder / "both.pem"
    both.write_bytes(
        b"".join((folder / f"own.{x}").read_bytes() for x in ("key", "pem"))
    )
    return folder / "ca.pem", both


@pytest.fixture(scope="module")
def release(
    tmp_path_factory: pytest.TempPathFactory,
    authority: tuple[Path, Path],
    pythons: list[build.Python],
) -> Iterator[StaticHost]:
    """What `build.py release` writes, on the host that it was written for."""
    if not set(build.RELEASE_MINORS) <= {python.minor for python in pythons}:
        missing("one of the CPythons of a release is not installed (pyenv install)")
    host = StaticHost({}, authority[1])
    tree = tmp_path_factory.mktemp("release") / "tree"
    copy_tree(ROOT, tree, 0o644, 1_700_000_000)
    shutil.copy(ROOT / "CHANGELOG.md", tree)
    commit_tree(tree, "CHANGELOG.md")
    run_build(tree, "release", "--url", host.url + "/")
    dist = tree / "dist"
    host.files.update({path.name: path.read_bytes() for path in dist.iterdir()})
    yield host
    host.close()


@pytest.fixture
def machine(home: Path, authority: tuple[Path, Path]) -> Iterator[Machine]:
    made = Machine(home, Path("/nonexistent"))
    made.environ["CURL_CA_BUNDLE"] = str(authority[0])
    yield made
    made.close()


def curl_sh(
    machine: Machine, host: StaticHost, options: str = "", **environ: str
) -> subprocess.CompletedProcess[str]:
    """As the README says it."""
    pipe = f"curl -fsSL {host.url}/install.sh | sh -s -- {options}"
    return machine.call("sh", "-c", pipe, **environ)


def test_release_names_its_version_address_and_checksum(release: StaticHost) -> None:
    names = {"feishuperm.pyz", "SHA256SUMS", "install.sh", "CHANGELOG.md"}
    assert set(release.files) == names
    digest = hashlib.sha256(release.files["feishuperm.pyz"]).hexdigest()
    assert release.files["SHA256SUMS"].decode() == f"{digest}  feishuperm.pyz\n"
    script = release.files["install.sh"].decode().splitlines()
    assert f"version='{__version__}'" in script
    assert f"url='{release.url}/feishuperm.pyz'" in script
    assert f"sha256='{digest}'" in script
    notes = release.files["CHANGELOG.md"].decode()
    assert notes.startswith(f"## {__version__} (") and "Unreleased" not in notes
    assert len(release.files["feishuperm.pyz"]) <= 1_500_000


def kept(machine: Machine) -> tuple[bytes, list[str]]:
    """The settings, and the beginnings of the ledger's lines."""
    config = machine.home / ".config/feishuperm/config.env"
    ledger = machine.home / ".local/state/feishuperm/ledger.jsonl"
    return config.read_bytes(), ledger.read_text("utf-8").splitlines()


def test_release_is_installed_and_upgrades_itself(
    machine: Machine, release: StaticHost
) -> None:
    options = f"--service background --port {free_port()}"
    result = curl_sh(machine, release, options, FEISHUPERM_LANG="en")
    assert result.returncode == 0, result.stdout + result.stderr
    archive = machine.home / ".local/share/feishuperm/feishuperm.pyz"
    assert archive.read_bytes() == release.files["feishuperm.pyz"]
    first = machine.hook(command="echo one")
    answer(machine.waiting(), "allow")
    assert json.loads(output(first))
    pending = machine.hook(command="echo two")
    before = machine.waiting()
    config, ledger = kept(machine)
    assert ledger
    result = curl_sh(machine, release)
    assert result.returncode == 0, result.stdout + result.stderr
    again, lines = kept(machine)
    assert (again, lines[: len(ledger)]) == (config, ledger)
    after = machine.waiting()
    assert [one["id"] for one in after["waiting"]] == [
        one["id"] for one in before["waiting"]
    ]
    answer(after, "allow")
    decision = json.loads(output(pending))["hookSpecificOutput"]["decision"]
    assert decision["behavior"] == "allow"
    assert machine.run("log", "verify").returncode == 0
    assert archive.read_bytes() == release.files["feishuperm.pyz"]


def test_host_that_the_ca_does_not_vouch_for_is_refused(
    machine: Machine, release: StaticHost
) -> None:
    """Neither the script nor, if that came another way, the file."""
    del machine.environ["CURL_CA_BUNDLE"]
    assert "certificate" in curl_sh(machine, release).stderr
    script = machine.home / "given.sh"
    script.write_bytes(release.files["install.sh"])
    result = machine.call("sh", str(script))
    assert result.returncode == 1
    assert f"cannot download {release.url}/feishuperm.pyz" in result.stderr
    assert os.listdir(machine.home) == ["given.sh"]


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    **{f"cut at {n}/8": lambda data, n=n: data[: len(data) * n // 8] for n in range(8)},
    "one byte short": lambda data: data[:-1],
    "one byte changed": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "another file": lambda data: b"#!/bin/sh\ntouch ran\n".ljust(len(data), b"\n"),
}


@pytest.mark.parametrize("says_length", [True, False])
def test_file_that_is_not_the_released_one_is_refused(
    machine: Machine, release: StaticHost, says_length: bool
) -> None:
    release.says_length = says_length
    for name, change in CHANGES.items():
        release.change = change
        try:
            result = curl_sh(machine, release)
        finally:
            release.change = lambda data: data
        assert result.returncode == 1, name
        said = "wrong checksum" in result.stderr or "cannot download" in result.stderr
        assert said, (name, result.stderr)
        assert os.listdir(machine.home) == [], name
    release.says_length = True


def test_script_of_a_release_that_was_cut_does_nothing(
    home: Path, tmp_path: Path, release: StaticHost
) -> None:
    script = release.files["install.sh"]
    sizes = [len(script) * n // 40 for n in range(1, 40)]
    sizes += [len(script) - n for n in range(2, 20)]
    spy = tmp_path / "python3.14"
    build.write_file(spy, f"#!/bin/sh\ntouch {tmp_path}/ran\n".encode(), 0o755)
    environ = clean_env(home, PATH=f"{tmp_path}:/usr/bin:/bin")
    for size in sizes:
        subprocess.run(
            ["sh"],
            input=script[:size],
            env=environ,
            cwd=home,
            capture_output=True,
            timeout=30,
        )
        assert os.listdir(home) == [] and not (tmp_path / "ran").exists(), size
