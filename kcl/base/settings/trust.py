"""The directory rule: a cache of code is code, so no other user may be able to write it.

"Me" is the user of this process. Every ancestor of a cache directory belongs to root, to me, or to a root that this
user namespace does not map. No other user can write an ancestor, unless it is sticky; the cache directory must not be
writable even then. A private group counts as its user. Symbolic links are followed: each link and each directory on its
way falls under the same rule. For root the owner of the home directory counts as me, because ``sudo`` may keep HOME.
Root reads there and makes nothing: that user could neither use nor remove a file of root.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress

from kcl.errors import UnusableDirectory

# How kcl opens its own files: through no link at the end of the path, and not for children.
PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
AT_ONCE = PLAIN | getattr(os, "O_NONBLOCK", 0)  # opening a FIFO in place of a file does not block
READ = os.O_RDONLY | AT_ONCE
LOCK = os.O_RDWR | os.O_CREAT | PLAIN
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | PLAIN

_UNMAPPED = 65534  # the kernel shows this uid for an owner without a place in this user namespace
SIDECARS = ("-journal", "-wal", "-shm")  # SQLite opens these beside a database, any sort of file among them
_LINK_LIMIT = 40
_LOOSE = stat.S_IWGRP | stat.S_IWOTH
ELSEWHERE = "set KCL_CACHE_DIR to a directory of your own"
_NETWORK = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse.ceph", "fuse.glusterfs", "fuse.juicefs", "fuse.s3fs"}
    | {"fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "panfs"}
    | {"pvfs2", "smb2", "smb3", "smbfs", "wekafs"}
)


def check(path: str, others: frozenset[int] = frozenset()) -> bool:
    """Raise `UnusableDirectory` unless only I, root and `others` can write below the directory.

    Returns True if the directory exists. For a missing directory the existing ancestors are checked: check again once
    the directory is made.
    """
    if sys.platform == "win32":  # owner and mode bits do not tell the writers there
        return os.path.isdir(path)
    try:
        return _walk(path, my_uids() | {0} | others)
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        raise UnusableDirectory(f"the cache directory {path!r} cannot be used: {error}; {ELSEWHERE}") from error


def refuse_roots(path: str) -> None:
    """Raise `UnusableDirectory` if root owns a directory two folders below the root of my cache, and I am not root."""
    if sys.platform != "win32" and os.geteuid() != 0 and os.stat(path).st_uid == 0:
        root = os.path.dirname(os.path.dirname(path))
        raise UnusableDirectory(f"{path} belongs to root and is no cache of yours: read it by KCL_SITE={_quoted(root)}")


def make_directory(path: str, mode: int = 0o700) -> None:
    """Make a directory and its missing ancestors, all with this mode; an existing directory is no error."""
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    except FileNotFoundError:
        parent = os.path.dirname(path)
        if parent in ("", path):
            raise
        make_directory(parent, mode)
        # one more attempt only: some parents, such as /proc, exist and allow no new directory
        with suppress(FileExistsError):
            os.mkdir(path, mode)


def make_trusted(path: str, mode: int = 0o700) -> None:
    """Make a missing directory, and check it before and after; raise `UnusableDirectory` or `OSError`.

    Raises `PermissionError` if root would write into the home of another user, even for an existing directory.
    """
    check_writer(path)
    if not check(path):
        try:
            make_directory(path, mode)
        except FileNotFoundError as error:  # the parent allows no new directory, or has vanished
            says = f"the cache directory {error.filename!r} cannot be made: {error.strerror}"
            raise UnusableDirectory(f"{says}; {ELSEWHERE}") from error
        if not check(path):  # another process may have made it before the first check
            raise UnusableDirectory(f"the cache directory {path} vanished while it was made; {ELSEWHERE}")


def check_writer(path: str) -> None:
    """Raise `PermissionError` where root would make files in the home of another user: that user is locked out."""
    others = my_uids() - {os.geteuid()} if sys.platform != "win32" else frozenset()
    if others and _nearest(path).st_uid in others:
        words = f"root makes no files in a home that HOME names and uid {min(others)} owns; use sudo -H"
        raise PermissionError(errno.EPERM, f"{words}, or {ELSEWHERE}", path)


def check_folder(path: str, others: frozenset[int] = frozenset()) -> None:
    """Raise `UnusableDirectory` unless a path in a checked directory is a folder that only I and `others` can write.

    Raises `FileNotFoundError` for a missing folder. A link is not followed.
    """
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise UnusableDirectory(f"{path} is not a directory; remove it")
    if sys.platform != "win32":
        _check_owner(path, status, my_uids() | {0} | others, True)
        _check_mode(path, status, 0)


def file_fault(status: os.stat_result, others: frozenset[int] = frozenset()) -> str | None:
    """Return the fault of a file that should be mine alone, or that of one of `others`; ``None`` for no fault."""
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if sys.platform == "win32":
        return None
    if status.st_uid not in my_uids() | others | {os.geteuid()}:
        return f"it belongs to uid {status.st_uid}, not to uid {os.geteuid()}"
    if status.st_mode & _LOOSE:
        return f"others can write it (mode {stat.S_IMODE(status.st_mode):04o})"
    return None


def check_database(path: str) -> None:
    """Raise `UnusableDirectory` for a database that is no regular file of mine alone, `OSError` for a missing one."""
    refuse_roots(path)
    fault = file_fault(os.lstat(path))
    if fault is not None:
        raise UnusableDirectory(f"{path} cannot be the cache: {fault}; remove it")


def check_sidecars(path: str) -> None:
    """Raise `UnusableDirectory` where SQLite would wait for a FIFO, or write through a link, beside a database."""
    for suffix in SIDECARS:
        with suppress(FileNotFoundError):
            check_database(path + suffix)


def special_file(path: str) -> str:
    """Return the first path of a database and its sidecars that exists and is no regular file; else an empty text."""
    for place in (path, *(path + suffix for suffix in SIDECARS)):
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(place).st_mode):
                return f"{place} is not a regular file"
    return ""


def database_uri(path: str, mode: str) -> str:
    """Return the URI by which SQLite opens a database to read (``ro``) or to change (``rw``), and never makes it."""
    for character in "%?#":
        path = path.replace(character, f"%{ord(character):02x}")
    return f"file:{'///' + path.replace(os.sep, '/') if os.name == 'nt' else path}?mode={mode}"


def my_uids() -> frozenset[int]:
    """Return the uids that count as me: my own, and for root that of HOME's owner."""
    me = os.geteuid()
    if me != 0:
        return frozenset([me])
    try:
        home = os.path.expanduser("~")  # any user may own a relative one, such as "~" itself
        return frozenset([me, os.stat(home).st_uid] if os.path.isabs(home) else [me])
    except OSError:
        return frozenset([me])


def is_network(path: str, mounts: str = "/proc/self/mountinfo") -> bool:
    """Return True if a path lies on a network file system; `False` on systems that do not report it (not Linux)."""
    try:
        number = _nearest(path).st_dev
        device = f"{os.major(number)}:{os.minor(number)}"  # as in the third field
        with open(mounts, encoding="utf-8", errors="surrogateescape") as stream:
            halves = [line.partition(" - ") for line in stream]
    except (OSError, AttributeError):
        return False
    return any(right.partition(" ")[0] in _NETWORK for left, _, right in halves if left.split(" ")[2:3] == [device])


def _walk(path: str, owners: frozenset[int]) -> bool:
    """Check every component from the root on, one lstat each; `FileNotFoundError` at the first missing component."""
    pending = _components(path if os.path.isabs(path) else os.path.join(os.getcwd(), path))
    current, links = "/", 0
    shared = _check_ancestor(current, os.lstat(current), owners, False)
    while pending:
        name = pending.pop()
        if name == "..":
            current = os.path.dirname(current)
            shared = _is_shared(os.lstat(current))
            continue
        place = os.path.join(current, name)
        status = os.lstat(place)
        if not stat.S_ISLNK(status.st_mode):
            current, shared = place, _check_ancestor(place, status, owners, shared)
            continue
        links += 1
        if links > _LINK_LIMIT:
            raise UnusableDirectory(f"{path} leads through more than {_LINK_LIMIT} symbolic links; {ELSEWHERE}")
        _check_owner(place, status, owners, shared)
        target = os.readlink(place)
        current = "/" if os.path.isabs(target) else current
        shared = _is_shared(os.lstat(current))
        pending += _components(target)
    status = os.lstat(current)
    _check_owner(current, status, owners, True)
    _check_mode(current, status, 0)
    return True


def _nearest(path: str) -> os.stat_result:
    """Return the status of the nearest existing directory on the way."""
    while True:
        try:
            return os.stat(path)
        except OSError:
            path, before = os.path.dirname(path) or ".", path
            if path == before:
                raise


def _components(path: str) -> list[str]:
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _is_shared(status: os.stat_result) -> bool:
    return bool(status.st_mode & stat.S_IWOTH)


def _check_ancestor(place: str, status: os.stat_result, owners: frozenset[int], shared: bool) -> bool:
    """Check one directory on the way; return True if every user can make files in it."""
    if not stat.S_ISDIR(status.st_mode):
        raise UnusableDirectory(f"{place} is not a directory; remove it, or {ELSEWHERE}")
    _check_owner(place, status, owners, shared)
    _check_mode(place, status, stat.S_ISVTX)
    return _is_shared(status)


def _check_owner(place: str, status: os.stat_result, owners: frozenset[int], shared: bool) -> None:
    if status.st_uid in owners:
        return
    # in a directory where every user can make files, an unmapped owner may be any user
    if status.st_uid == _UNMAPPED and not shared and _root_is_unmapped():
        return
    raise UnusableDirectory(
        f"{place} belongs to uid {status.st_uid}, and a cache of code is code: "
        f"chown {os.geteuid()} {_quoted(place)}, or {ELSEWHERE}"
    )


def _check_mode(place: str, status: os.stat_result, excuse: int) -> None:
    loose = status.st_mode & _LOOSE
    if not loose or status.st_mode & excuse:
        return
    if loose == stat.S_IWGRP and is_private_group(status.st_gid, status.st_uid):
        return
    who = "go-w" if loose & stat.S_IWOTH else "g-w"
    raise UnusableDirectory(
        f"others can write {place} (mode {stat.S_IMODE(status.st_mode):04o}), and a cache of code is code: "
        f"chmod {who} {_quoted(place)}, or {ELSEWHERE}"
    )


def is_private_group(gid: int, owner: int) -> bool:
    """Return True if a group has one user only: the owner of the directory, or me."""
    return any(_is_group_of(gid, uid) for uid in (owner, os.geteuid()))


def _is_group_of(gid: int, uid: int) -> bool:
    import grp
    import pwd

    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = ""
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return gid == uid  # a container without an entry for its user
    # gr_mem leaves out the users with this primary group, hence the demand on number or name
    return (gid == uid or group.gr_name == user) and set(group.gr_mem) <= {user}


def _root_is_unmapped() -> bool:
    try:
        with open("/proc/self/uid_map", "rb") as stream:
            ranges = [[int(field) for field in line.split()] for line in stream]
        return not any(outer <= 0 < outer + count for _, outer, count in ranges)
    except (OSError, ValueError):
        return False


def _quoted(path: str) -> str:
    import shlex

    return shlex.quote(path)
