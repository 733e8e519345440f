"""The one table of programs that run others: shells, wrappers and interpreters.

`danger` follows the command that such a program carries.  A template (`hooks`) may
give some of them a value; `TAKEN` and `PLAIN` say which words of their own may stand
before the command or the script, and a program without such words gets no value.
"""

from __future__ import annotations


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _in_order(text: str) -> list[str]:
    return text.split()


SHELLS = _in_order("sh bash rbash dash ash zsh ksh lksh mksh yash csh tcsh fish")

# Wrapper -> options that take a word, words of its own before the command.
WRAPPERS = {
    **dict.fromkeys(_in_order(
        "command builtin nohup setsid busybox toybox unbuffer cross-env numactl "
        "prlimit entr firejail fakeroot catchsegv uvicorn winpty rlwrap unshare ts "
        "chronic ifne torsocks torify arch eatmydata dbus-run-session coproc "
        "valgrind with-env dbus-launch"
    ), ("", 0)),
    **dict.fromkeys(("taskset", "chrt", "doppler", "setarch"), ("", 1)),
    "exec": ("-a", 0), "nice": ("-n", 0), "ionice": ("-c -n -p", 0),
    "time": ("-f -o", 0), "timeout": ("-k -s --kill-after --signal", 1),
    "stdbuf": ("-i -o -e", 0), "caffeinate": ("-t -w", 0), "strace": ("-e -o -p -s", 0),
    "ltrace": ("-e -o", 0), "xvfb-run": ("-s -n", 0), "dotenv": ("-e -f", 0),
    "watch": ("-n --interval", 0),
    "hyperfine": ("-w -r -n --warmup --runs --prepare --cleanup --setup --conclude", 0),
    "watchexec": ("-e -w -i -f -s -d --exts --watch --ignore --filter --signal", 0),
    "setpriv": ("--reuid --regid --groups --inh-caps --bounding-set", 0),
    "cgexec": ("-g", 0), "chpst": ("-u -U -e -n -l -L -m -d -o -p -f -c", 0),
    "daemonize": ("-c -o -e -p -l -u -E", 0), "softlimit": ("-m -d -s -l -a -o -p", 0),
    "setuidgid": ("", 1), "envdir": ("", 1), "trickle": ("-u -d", 0),
    "nodemon": ("--exec -x -w", 0), "direnv": ("", 2), "aws-vault": ("", 2),
    "systemd-run": ("-u -p --unit --property", 0), "flock": ("-w -E", 1),
    "wsl": ("-d -u --cd", 0), "script": ("-c --command", 1), "gtimeout": ("-k -s", 1),
    "bwrap": ("--bind --ro-bind", 0), "proxychains": ("-f", 0),
    "proxychains4": ("-f", 0), "sshpass": ("-p -f", 0), "faketime": ("-f", 1),
    "retry": ("-n -d", 0), "xcrun": ("--sdk", 0), "cpulimit": ("-l", 0),
    "perf": ("-e -o", 1),
}  # fmt: skip
# Wrappers that run a command as another user -> their options that take a word.
ROOT = {
    "sudoedit": "-u",
    "sudo": "-u -g -p -C -h -r -t -T -U -D -R --user --group --host --prompt",
    "doas": "-u -C", "pkexec": "--user", "gosu": "", "su-exec": "", "run0": "-u",
    "gsudo": "", "dzdo": "-u -g", "chroot": "--userspec --groups",
}  # fmt: skip
# A wrapper's own words before the command that a template may write, ended by NUL.
TAKEN = {
    **dict.fromkeys(_in_order("exec nohup busybox toybox command time"), r"-p\0"),
    "env": r"(?:-i?|--ignore-environment|-u\0?\w+|--unset=\w+)\0",
    "nice": r"(?:-n\0)?-?n?\d+\0|--adjustment=-?\d+\0",
    "setsid": r"-[cfw]+\0",
    "timeout": r"(?:-v|--foreground|--preserve-status|-[ks]\0?\w+|[\d.]+[smhd]?)\0",
    **dict.fromkeys(("sudo", "doas"), r"(?:-[nEHk]+|-[ug]\0?\w+)\0"),
    "stdbuf": r"-[ioe]\0?\w+\0",
    "ionice": r"(?:-t|-[cn]\0?\d)\0",
    "caffeinate": r"-[dimsu]+\0",
}

# Interpreter -> the options that bring the text of a script.
INTERPRETERS = {
    **dict.fromkeys(_in_order(
        "osascript lua luajit rscript r groovy swift ghc clojure irb scala jshell"
    ), r"-e"),
    "python": r"-\w*c", "pypy": r"-\w*c", "perl": r"-\w*[eE]", "ruby": r"-\w*e",
    "node": r"-[ep]+|--eval|--print", "nodejs": r"-[ep]+|--eval|--print", "php": r"-r",
    "deno": r"eval", "expect": r"-\w*c", "tclsh": r"-c",
    "wish": r"-c", "emacs": r"--?eval|--?execute", "julia": r"-[eE]",
    "elixir": r"-e|--eval", "guile": r"-c", "java": r"(?!)", "tsx": r"-e|--eval",
    "ts-node": r"-\w*e|--eval", "ipython": r"-c",
}  # fmt: skip
# Options before a script that a template may write.
PLAIN = {
    **dict.fromkeys(SHELLS, r"-[abefhkmnpruvx]+|--norc|--posix"),
    **dict.fromkeys(("python", "pypy"), r"-[bBdEIOPqsSuv]+"),
    "perl": r"-[wWtTX]+",
    "ruby": r"-[wW]\d?",
    "node": r"--(?:no-|enable-|experimental-)[a-z-]+",
    "php": r"-[nq]",
    **dict.fromkeys(_in_order("osascript lua luajit julia rscript tclsh"), "(?!)"),
}
# Others that run one of their arguments, or read one as code.
RUN_ARGUMENTS = words_of(
    "make gmake just rake ninja ant gradle gradlew mvn mvnw cmake bazel meson npx "
    "pnpx bunx yarn pnpm uvx uv pipx pip poetry pipenv pdm hatch conda mamba bundle "
    "gem cargo go dotnet nix nix-shell corepack nvm asdf mise bun pwsh powershell "
    "octave ghci erl iex ocaml racket sbcl xargs parallel at batch crontab ssh rsh "
    "mosh su sg newgrp runuser nsenter tmux screen zellij docker podman nerdctl "
    "kubectl oc lxc machinectl gdb lldb m4 gnuplot psql sqlite mysql mariadb mongo "
    "mongosh redis-cli duckdb ed ex vi vim nvim view emacsclient nano less more "
    "most man code xdg-open open start run-parts tar bsdtar gtar zip rsync scp sftp "
    "wget mail mailx mutt socat nc ncat netcat concurrently chokidar onchange "
    "npm-run-all run-s run-p lint-staged cross-env-shell foreman honcho proot "
    "start-stop-daemon split ip ssh-agent when-changed"
)
EVALUATES = (
    RUN_ARGUMENTS
    | (WRAPPERS.keys() | ROOT.keys()) - TAKEN.keys()
    | INTERPRETERS.keys() - PLAIN.keys() - words_of("nodejs java")
)
