"""Which program does what: one row per function, with the names it answers to."""

from __future__ import annotations

from feishuperm.danger import (
    builtins,
    deeds,
    elsewhere,
    files,
    network,
    packages,
    runners,
    system,
)
from feishuperm.danger.arguments import SHELLS, grep, look_through
from feishuperm.danger.git import git
from feishuperm.danger.scene import ANY, Program
from feishuperm.danger.strangers import by_words, unknown

ROWS: tuple[tuple[Program, str], ...] = (
    (unknown, ANY),
    (runners.as_root, " ".join(runners.ROOT)),
    (runners.su, "su runuser"),
    (runners.env, "env"),
    (runners.daemon, "start-stop-daemon"),
    (runners.namespace, "ip"),
    (runners.shell, " ".join(SHELLS)),
    (runners.interpreter, " ".join(runners.CODE_OPTIONS)),
    (runners.evaluate, "eval"),
    (runners.source, "source ."),
    (runners.xargs, "xargs"),
    (runners.find, "find gfind"),
    (runners.fd, "fd fdfind"),
    (runners.parallel, "parallel sem"),
    (elsewhere.ssh, "ssh mosh rsh autossh"),
    (runners.manual, "man"),
    (elsewhere.container, "docker podman nerdctl docker-compose"),
    (elsewhere.kubectl, "kubectl oc"),
    (runners.terminals, "tmux screen zellij concurrently"),
    (runners.editor, "vi vim nvim ex view gdb lldb ed"),
    (elsewhere.device, "adb"),
    (elsewhere.ansible, "ansible"),
    (runners.environment, "printenv history"),
    (files.rm, "rm unlink rmdir trash grm rimraf del del-cli trash-put trash-cli"),
    (files.ls, "ls"),
    (files.desktop, "gio"),
    (files.patch, "patch"),
    (files.shred, "shred srm wipe"),
    (files.truncate, "truncate"),
    (files.move, "cp mv ln install rsync scp gcp gmv"),
    (files.dd, "dd"),
    (files.tee, "tee sponge"),
    (files.reader, "cat head tail less more bat tac nl strings hexdump od"),
    (files.sed, "sed gsed"),
    (files.awk, "awk gawk mawk nawk"),
    (files.change_mode, "chmod"),
    (files.change_owner, "chown chgrp"),
    (files.unlock, "chattr chflags"),
    (files.makes, "mkdir touch mkfifo"),
    (files.in_place_option, "yq dasel gofmt prettier"),
    (files.keygen, "ssh-keygen"),
    (files.unpack, "tar bsdtar gtar unzip 7z cpio zip"),
    (files.decoder, " ".join(files.DECODERS)),
    (grep, "grep egrep rg"),
    (files.sort, "sort"),
    (look_through, "uniq cut wc column fold jq paste"),
    (builtins.echo, "echo print"),
    (builtins.printf, "printf"),
    (builtins.prints, " ".join(builtins.PRINTED)),
    (builtins.which, "which"),
    (builtins.passes, "basename dirname"),
    (builtins.nothing, "true false : exit return break continue shift wait sleep"),
    (builtins.set_options, "set"),
    (builtins.process, "pgrep pidof"),
    (builtins.nothing, "shopt [ [[ (( test"),
    (builtins.cd, "cd pushd"),
    (builtins.declare, "export local readonly declare typeset"),
    (builtins.read_variable, "read"),
    (builtins.trap, "trap"),
    (builtins.alias, "alias"),
    (network.download, "curl wget aria2c http https xh axel lynx fetch ftp curlie"),
    (network.netcat, "nc ncat netcat socat telnet"),
    (network.sends, "dig nslookup host drill ping whois mail mailx mutt sftp lftp"),
    (git, "git"),
    (packages.packages, " ".join(packages.MANAGERS)),
    (packages.make, "make gmake just task rake"),
    (system.sql_client, " ".join(system.SQL_CLIENTS)),
    (system.crontab, "crontab"),
    (system.at, "at batch"),
    (system.kill, "kill"),
    (system.kill_named, "pkill killall"),
    (system.lsof, "lsof"),
    (system.powershell, "pwsh powershell"),
    (system.cmd, "cmd"),
)


def _table() -> dict[str, Program]:
    table: dict[str, Program] = dict.fromkeys(deeds.names(), by_words)
    table.update(
        {name: runners.wrapped(*row) for name, row in runners.WRAPPERS.items()}
    )
    for program, names in ROWS:
        table.update(dict.fromkeys(names.split(), program))
    return table


PROGRAMS = _table()
