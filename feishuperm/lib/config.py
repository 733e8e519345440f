"""Where things are kept, and the settings in force.

The strongest first: the administrator's policy, the environment, config.env, the
administrator's own config.env, the default.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Mapping

from feishuperm import wire
from feishuperm.errors import UsageError
from feishuperm.messages import message_of, msg

TYPE_CHECKING = False
if TYPE_CHECKING:
    # A place that values come from, as people call it, and the values.
    Source = tuple[str, Mapping[str, str]]
    from feishuperm.models.settings import Settings

MAX_SOCKET = 103  # bytes of a socket's path that every system takes
# Where Claude Code looks for what its administrator gives.
MANAGED = "/etc/claude-code"
MANAGED_ON_MAC = "/Library/Application Support/ClaudeCode"
# What an administrator lays down for everybody on this machine, in `system_folder`.
POLICY = "policy.env"
# The hook has no time to look whether a policy may be obeyed.
NOT_IN_POLICY = "PERMISSION_SOCKET_PATH"


def config_path(environ: Mapping[str, str] = os.environ) -> str:
    """The settings file, by the same rule as the hook client."""
    encoded = {os.fsencode(key): os.fsencode(environ[key]) for key in environ}
    return os.fsdecode(wire.config_path(encoded))


def home(environ: Mapping[str, str] = os.environ) -> str:
    """The user's folder, by the same rule as the hook client."""
    return environ.get("HOME") or os.fsdecode(wire.home({}))


def config_dir(environ: Mapping[str, str] = os.environ) -> str:
    """The folder of config.env and of the pinned interpreter."""
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(home(environ), ".config")
    return os.path.join(base, "feishuperm")


def state_dir(environ: Mapping[str, str] = os.environ) -> str:
    """The folder of log, ledger, signing key and supervisor state."""
    base = environ.get("XDG_STATE_HOME") or os.path.join(
        home(environ), ".local", "state"
    )
    return os.path.join(base, "feishuperm")


def own_socket(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """A socket in the state folder, or in /tmp where that is too deep for one."""
    path = os.path.join(state_dir(environ), name)
    if path.startswith("/") and len(os.fsencode(path)) <= MAX_SOCKET:
        return path
    checksum = zlib.crc32(os.fsencode(path))
    return f"/tmp/feishuperm-{os.getuid()}-{checksum:08x}.sock"


def gateway_socket(environ: Mapping[str, str] = os.environ) -> str:
    """Where a gateway of this user is asked; both ends check whose it is."""
    return own_socket("gateway.sock", environ)


# A project's, for everybody and for one person.
SHARED_SETTINGS, LOCAL_SETTINGS = ".claude/settings.json", ".claude/settings.local.json"


def claude_dir(environ: Mapping[str, str] = os.environ) -> str:
    """Claude Code's own folder of user settings."""
    return environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home(environ), ".claude")


def claude_settings(
    project: str, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The settings files Claude Code reads, by its own names, the strongest last."""
    return {
        "userSettings": os.path.join(claude_dir(environ), "settings.json"),
        "projectSettings": os.path.join(project, SHARED_SETTINGS),
        "localSettings": os.path.join(project, LOCAL_SETTINGS),
    }


def managed_settings() -> list[str]:
    """Claude Code's settings from an administrator, who goes before everybody."""
    folder = MANAGED_ON_MAC if sys.platform == "darwin" else MANAGED
    more = os.path.join(folder, "managed-settings.d")
    try:
        names = sorted(name for name in os.listdir(more) if name.endswith(".json"))
    except OSError:
        names = []
    main = os.path.join(folder, "managed-settings.json")
    return [main, *(os.path.join(more, name) for name in names)]


def load_settings(
    environ: Mapping[str, str] = os.environ, lenient: bool = False
) -> Settings:
    """The settings in force. Raises UsageError; `lenient` takes the default instead."""
    # Late: most hook events ask for a folder only, and the table is long.
    from feishuperm.models.settings import BY_KEY, Settings

    values: dict[str, str] = {}
    for _, given in reversed(sources(environ, lenient)):
        values.update({key: given[key] for key in BY_KEY if given.get(key)})
    return Settings(values, lenient)


def sources(
    environ: Mapping[str, str] = os.environ, lenient: bool = False
) -> list[Source]:
    """Where settings come from, the strongest first. Raises UsageError.

    `lenient` passes over a file that cannot be read.
    """
    common = os.fsdecode(wire.SYSTEM_CONFIG)

    def read(path: str) -> dict[str, str]:
        try:
            return read_config(path)
        except UsageError:
            if not lenient:
                raise
            return {}

    laid_down = {} if policy_problem() else read(policy_path())
    laid_down.pop(NOT_IN_POLICY, None)
    return [
        (policy_path(), laid_down),
        (msg("environment"), environ),
        ("config.env", read(config_path(environ))),
        (common, read(common)),
    ]


def policy_path() -> str:
    return os.path.join(os.path.dirname(os.fsdecode(wire.SYSTEM_CONFIG)), POLICY)


def policy_problem() -> str:
    """Why a policy that is there is not obeyed: others than root could have written it.

    Empty where it is obeyed, and where there is none.
    """
    path = policy_path()
    for place in (path, os.path.dirname(path)):
        try:
            found = os.stat(place)
        except OSError:  # nobody laid anything down
            return ""
        if found.st_uid or found.st_mode & 0o022:
            return msg("{} is not obeyed: only root may own and write {}", path, place)
    return ""


def policy_in_force() -> str:
    """What people are told of the policy: its keys, or why it is not obeyed."""
    keys = ", ".join(sources(lenient=True)[0][1])
    found = msg("{} sets {}", policy_path(), keys) if keys else ""
    return policy_problem() or found


def read_config(path: str) -> dict[str, str]:
    """The keys of a config.env; a missing file is empty. Raises UsageError."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UsageError(msg("cannot read {}: {}", path, message_of(error))) from None
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith(b"#") and b"=" not in line:
            raise UsageError(msg("{}, line {}: expected KEY=VALUE", path, number))
    values = wire.parse_config(data)
    return {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in values.items()
    }


def keys_of(data: bytes) -> frozenset[bytes]:
    """The keys that some lines of a config.env set."""
    return frozenset(wire.parse_config(data))


def find_key(path: str, key: str) -> int:
    """The number of the line that sets a key, 0 without one."""
    with open(path, "rb") as file:
        lines = file.read().splitlines()
    for number in range(len(lines), 0, -1):
        if os.fsencode(key) in keys_of(lines[number - 1]):
            return number
    return 0
