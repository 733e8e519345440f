"""Files, folders and links that an install makes and an uninstall takes back.

Every folder is for this user alone, whatever the umask.  What the file system refuses
is raised as `FileError`, with a text that names the path.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable

from feishuperm.errors import FileError
from feishuperm.lib.files import failure, private_dir


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def modified(path: str) -> float:
    """When a file was written, 0 without one."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def missing_folders(*folders: str) -> list[str]:
    """The folders that will have to be made, outermost first."""
    missing: list[str] = []
    for folder in folders:
        chain = []
        while folder and not os.path.isdir(folder):
            chain.append(folder)
            folder = os.path.dirname(folder)
        missing.extend(path for path in reversed(chain) if path not in missing)
    return missing


def make_folder(folder: str) -> None:
    """Make a folder and those above it."""
    try:
        private_dir(folder)
    except OSError as error:
        raise failure("cannot make", folder, error) from None


def remove_folders(folders: Iterable[str]) -> None:
    """Remove the folders we made, innermost first, unless something is in them."""
    for folder in sorted(set(folders), key=len, reverse=True):
        try:
            os.rmdir(folder)
        except OSError:
            pass


def remove_file(path: str) -> None:
    """Remove a file or link if it is there; an empty path is none."""
    try:
        if path:
            os.unlink(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise failure("cannot remove", path, error) from None


def replace_link(path: str, target: str) -> None:
    """Make a link, or let one lead elsewhere, with no moment without it."""
    temporary = f"{path}.{os.getpid()}"
    try:
        os.symlink(target, temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise failure("cannot link", path, error) from None


def check_writable(path: str) -> None:
    """Raise FileError if a file cannot be replaced; asked before anything changes."""
    target = os.path.realpath(path)
    while not os.path.lexists(target):
        target = os.path.dirname(target)
    place = target
    if not os.path.isdir(target) or target == os.path.realpath(path):
        place = os.path.dirname(target)
        if not os.stat(target).st_mode & stat.S_IWUSR:
            raise failure("cannot write", path, ValueError("it is read-only"))
    if not os.access(place, os.W_OK) or not os.stat(place).st_mode & stat.S_IWUSR:
        raise FileError(f"cannot write {path}: its folder {place} is read-only")
