"""The directory rule: a cache of code is code, so no other user may be able to write it.

"Me" is the user of this process. Every ancestor of a cache directory belongs to root, to me, or to a root that this
user namespace does not map. No other user can write an ancestor, unless it is sticky; the cache directory must not be
writable even then. A private group counts as its user. Symbolic links are followed: each link and each directory on its
way falls under the same rule. For root the owner of the home directory counts as me, because ``sudo`` may keep HOME.
Root reads in such a home but makes no file there: its owner could neither use nor remove it. If root serves a user
(see `served`), it makes files and gives them to that user.

    check            before a cache directory is used: it and its ancestors
    check_folder     a folder in a checked directory
    check_database   a database in a checked directory
    check_writer     before files are made: would they lock another user out?
    make_trusted     both checks, and makes the directory
    file_fault       an opened file, by its status; `read` asks it
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress
from io import FileIO

from kcl.base import process
from kcl.errors import UnusableDirectory

# How kcl opens its own files: through no link at the end of the path, and not for children.
PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# Opening a FIFO in place of a file does not block.
READ = os.O_RDONLY | PLAIN | getattr(os, "O_NONBLOCK", 0)
LOCK = os.O_RDWR | os.O_CREAT | PLAIN
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | PLAIN

# The largest file that is read, in bytes; no entry is larger.
LARGEST = 1 << 30
# The kernel shows this uid for an owner without a place in this user namespace.
_UNMAPPED = 65534
# SQLite opens these beside a database, any sort of file among them
SIDECARS = ("-journal", "-wal", "-shm")
_LOOSE = stat.S_IWGRP | stat.S_IWOTH
ELSEWHERE = "set KCL_CACHE_DIR to a directory of your own"
_TRUST = "KCL_TRUST_UID"
_NETWORK = (
    "9p afs beegfs ceph cifs coda fuse.ceph fuse.glusterfs fuse.juicefs fuse.s3fs fuse.sshfs "
    "glusterfs gpfs lustre ncpfs nfs nfs3 nfs4 ocfs2 orangefs panfs pvfs2 smb2 smb3 smbfs wekafs"
)


def check(path: str, others: frozenset[int] = frozenset()) -> bool:
    """Raise `UnusableDirectory` unless only I, root and `others` can write below the directory.

    Returns True if the directory exists. For a missing directory the existing ancestors are checked: check again once
    the directory is made.
    """
    # On Windows owner and mode bits do not tell who can write.
    if sys.platform == "win32":
        return os.path.isdir(path)
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            # The system refuses a loop of links, in which `_walk` would not end.
            os.stat(path)
        owners = my_uids() | {0} | others
        # The working directory may have been removed: it counts for a relative path alone.
        absolute = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
        place, _shared = _walk(absolute, owners)
        _check(place, os.lstat(place), owners)
        return True
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        raise UnusableDirectory(
            f"the cache directory {path!r} cannot be used: {error}; {ELSEWHERE}"
        ) from error


def refuse_root_owned(path: str) -> None:
    """Raise `UnusableDirectory` if root owns `path`, two folders below the root of my cache, and I am not root."""
    if sys.platform != "win32" and os.geteuid() != 0 and os.stat(path).st_uid == 0:
        root = os.path.dirname(os.path.dirname(path))
        raise UnusableDirectory(
            f"{path} belongs to root and is no cache of yours: read it by KCL_SITE={_quoted(root)}"
        )


def open_file(path: str, flags: int, mode: int = 0o600) -> int:
    """Open a file of kcl's, and return its descriptor; raises `OSError`.

    If root makes a file in a folder of the user whom it serves, the file is given to that user, or removed if that fails.
    """
    descriptor, uid = os.open(path, flags, mode), served()
    try:
        folder = os.stat(os.path.dirname(path)) if uid else None
        if folder is not None and folder.st_uid == uid and not os.fstat(descriptor).st_uid:
            os.fchown(descriptor, uid, folder.st_gid)
    except OSError:
        os.close(descriptor)
        with suppress(OSError):
            (os.rmdir if os.path.isdir(path) else os.unlink)(path)
        raise
    return descriptor


def open_to_read(path: str, flags: int = READ) -> FileIO:
    """Open a file to read; raises `OSError`, by default also for a symbolic link."""
    return open(path, "rb", 0, opener=lambda place, _flags: os.open(place, flags))


def read(
    path: str,
    most: int,
    others: frozenset[int] = frozenset(),
    strict: bool = True,
    flags: int = READ,
) -> tuple[bytes, os.stat_result]:
    """Return the first `most` bytes of a file, and its status; raises `OSError`.

    The error's number is EPERM for a fault that `file_fault` finds, and EFBIG for a file above `LARGEST`.
    """
    descriptor = os.open(path, flags)
    try:
        # The status is that of the opened file: the path may name another file by now.
        status = os.fstat(descriptor)
        if (fault := file_fault(status, others, strict)) is not None:
            raise PermissionError(errno.EPERM, fault, path)
        if status.st_size > LARGEST:
            raise OSError(
                errno.EFBIG, f"its {status.st_size} bytes are above the limit of {LARGEST}", path
            )
        length, blob = min(most, status.st_size), b""
        # One call may read a part only.
        while piece := os.read(descriptor, length - len(blob)):
            blob += piece
        return blob, status
    finally:
        os.close(descriptor)


def make_folder(path: str, mode: int = 0o700) -> None:
    """Make a directory whose parent exists; raises `OSError`."""
    os.mkdir(path, mode)
    if served():
        os.close(open_file(path, FOLDER))


def make_directory(path: str, mode: int = 0o700) -> None:
    """Make a directory and its missing ancestors, all with this mode; an existing directory is no error."""
    if os.path.isdir(path):
        return
    if (parent := os.path.dirname(path)) not in ("", path):
        make_directory(parent, mode)
    try:
        make_folder(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def make_trusted(path: str, mode: int = 0o700) -> None:
    """Make a missing directory, and check it before and after; raise `UnusableDirectory` or `OSError`.

    Raises `PermissionError` if root would write into the home of another user, even for an existing directory.
    """
    check_writer(path, gives=True)
    if not check(path):
        try:
            make_directory(path, mode)
        except FileNotFoundError as error:
            # The parent allows no new directory, or has vanished.
            says = f"the cache directory {error.filename!r} cannot be made: {error.strerror}"
            raise UnusableDirectory(f"{says}; {ELSEWHERE}") from error
        # Another process may have made the directory after the first check.
        check(path)


def check_writer(path: str, gives: bool = False) -> None:
    """Raise `PermissionError` if root would make files that lock another user out of a directory.

    With `gives`, the caller makes its files by `open_file`, which gives them to the user whom root serves: that user is
    excused.
    """
    others = my_uids() - {0, served() if gives else 0} if _is_root() else ()
    if others and (owner := os.stat(nearest(path)).st_uid) in others:
        words = f"root makes no files in a home that HOME names and uid {owner} owns; use sudo -H"
        raise PermissionError(
            errno.EPERM, f"{words}, or {_cure(owner) if gives else ELSEWHERE}", path
        )


def check_folder(path: str, others: frozenset[int] = frozenset()) -> None:
    """Raise `UnusableDirectory` unless a path in a checked directory is a folder that only I and `others` can write.

    Raises `FileNotFoundError` for a missing folder. A link is not followed.
    """
    _check(path, os.lstat(path), my_uids() | {0} | others)


def file_fault(
    status: os.stat_result, others: frozenset[int] = frozenset(), strict: bool = True
) -> str | None:
    """Describe why a file may not be read: it must be mine, or one of `others`' own. ``None`` if it may be read.

    With `strict` a file that a private group can write is a fault, too.
    """
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if sys.platform == "win32":
        return None
    # A listing asks this of each file, and most are mine.
    if status.st_uid != os.geteuid() and status.st_uid not in my_uids() | others:
        return f"it belongs to uid {status.st_uid}, not to uid {os.geteuid()}"
    if status.st_mode & _LOOSE if strict else _loose(status):
        return f"others can write it (mode {stat.S_IMODE(status.st_mode):04o})"
    return None


def check_database(path: str) -> None:
    """Raise `UnusableDirectory` if a database is no regular file that only I can write, `OSError` if it is missing."""
    refuse_root_owned(path)
    # `lstat`: a link is a fault, whatever it points to.
    fault = file_fault(os.lstat(path))
    if fault is not None:
        raise UnusableDirectory(f"{path} cannot be the cache: {fault}; remove it")


def database_uri(path: str, mode: str) -> str:
    """Return the URI by which SQLite opens an existing database to read (``ro``) or to change (``rw``)."""
    # The percent sign is replaced first, since each replacement brings one.
    for character in "%?#":
        path = path.replace(character, f"%{ord(character):02x}")
    return f"file:{'///' + path.replace(os.sep, '/') if os.name == 'nt' else path}?mode={mode}"


def my_uids() -> frozenset[int]:
    """Return the uids that count as me: my own, and for root those of HOME's owner and of the user whom root serves."""
    if sys.platform == "win32":
        return frozenset()
    return frozenset([0, _owner_of_home(), served()] if _is_root() else [os.geteuid()])


def served() -> int:
    """Return the uid of the user for whom root keeps the cache that KCL_CACHE_DIR names; 0 for nobody.

    KCL_TRUST_UID names that user. Without it, root serves HOME's owner if the list of users has no entry for it: root
    runs that user's code anyway, and nobody logs in as that user.
    """
    if not _is_root() or not os.path.isabs(os.environ.get("KCL_CACHE_DIR", "")):
        return 0
    home, named = _owner_of_home(), os.environ.get(_TRUST, "").strip()
    uid = int(named[:10]) if named.isdecimal() else 0 if named or _name_of(home) else home
    # The uid of unmapped owners stands for any number of users.
    return 0 if uid == _UNMAPPED else uid


def _is_root() -> bool:
    return sys.platform != "win32" and os.geteuid() == 0


def _name_of(uid: int) -> str:
    """Return the name of a user in the list of users; empty if there is none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _owner_of_home() -> int:
    # A relative home, such as "~" itself, may belong to any user.
    home = os.path.expanduser("~")
    try:
        return os.stat(home).st_uid if os.path.isabs(home) else 0
    except OSError:
        return 0


def is_network(path: str) -> bool:
    """Return True if a path lies on a network file system; always `False` outside Linux."""
    try:
        number = os.stat(nearest(path)).st_dev
        # The form of the device in the third field of a line of `mountinfo`.
        device = f"{os.major(number)}:{os.minor(number)}"
        with process.proc("self/mountinfo") as stream:
            halves = [os.fsdecode(line).partition(" - ") for line in stream]
    except (OSError, AttributeError):
        return False
    return any(
        right.partition(" ")[0] in _NETWORK.split()
        for left, _, right in halves
        if left.split(" ")[2:3] == [device]
    )


def _walk(path: str, owners: frozenset[int]) -> tuple[str, bool]:
    """Check every component of an absolute path, one lstat each; raises `FileNotFoundError` at the first missing one.

    Returns the path without links, and True if every user can make files there.
    """
    current, shared = "/", _check("/", os.lstat("/"), owners, False, stat.S_ISVTX)
    for name in path.split("/"):
        if name in ("", "."):
            continue
        place = os.path.dirname(current) if name == ".." else os.path.join(current, name)
        status = os.lstat(place)
        if stat.S_ISLNK(status.st_mode):
            _check_owner(place, status, owners, shared)
            current, shared = _walk(os.path.join(current, os.readlink(place)), owners)
        else:
            current, shared = place, _check(place, status, owners, shared, stat.S_ISVTX)
    return current, shared


def nearest(path: str) -> str:
    """Return the nearest existing directory on the way to a path, or the path if it exists."""
    while not os.path.exists(path) and (above := os.path.dirname(path) or ".") != path:
        path = above
    return path


def _check(
    place: str, status: os.stat_result, owners: frozenset[int], shared: bool = True, excuse: int = 0
) -> bool:
    """Check one directory; return True if every user can make files in it.

    `shared` says that every user can make files in its parent. With the mode bit `excuse` (the sticky bit) a directory
    that others can write passes.
    """
    if not stat.S_ISDIR(status.st_mode):
        raise UnusableDirectory(f"{place} is not a directory; remove it, or {ELSEWHERE}")
    if sys.platform == "win32":
        return False
    _check_owner(place, status, owners, shared)
    if not status.st_mode & excuse and (loose := _loose(status)):
        who = "go-w" if loose & stat.S_IWOTH else "g-w"
        raise UnusableDirectory(
            f"others can write {place} (mode {stat.S_IMODE(status.st_mode):04o}), and a cache of code is code: "
            f"chmod {who} {_quoted(place)}, or {ELSEWHERE}"
        )
    return bool(status.st_mode & stat.S_IWOTH)


def _check_owner(place: str, status: os.stat_result, owners: frozenset[int], shared: bool) -> None:
    if status.st_uid in owners:
        return
    # In a directory where every user can make files, an unmapped owner may be any user.
    if status.st_uid == _UNMAPPED and not shared and _root_is_unmapped():
        return
    raise UnusableDirectory(
        f"{place} belongs to uid {status.st_uid}, and a cache of code is code: "
        f"chown {os.geteuid()} {_quoted(place)}, or {_cure(status.st_uid)}"
    )


def _cure(owner: int) -> str:
    """Return the advice of an error about a directory of another user: the variable to set."""
    is_named = (
        _is_root() and os.path.isabs(os.environ.get("KCL_CACHE_DIR", "")) and owner != _UNMAPPED
    )
    return (
        f"{ELSEWHERE}, or {_TRUST}={owner} if root may run that user's code"
        if is_named
        else ELSEWHERE
    )


def _loose(status: os.stat_result) -> int:
    """Return the mode bits by which others can write. A group with the owner, or me, as its only user does not count."""
    loose = status.st_mode & _LOOSE
    if loose == stat.S_IWGRP and any(
        _is_group_of(status.st_gid, uid) for uid in (status.st_uid, os.geteuid())
    ):
        return 0
    return loose


def _is_group_of(gid: int, uid: int) -> bool:
    import grp

    user = _name_of(uid)
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        # A container may lack an entry for its user.
        return gid == uid
    # `gr_mem` lacks the users whose primary group this is, so a private group is known by its number or name.
    return (gid == uid or group.gr_name == user) and set(group.gr_mem) <= {user}


def _root_is_unmapped() -> bool:
    try:
        with process.proc("self/uid_map") as stream:
            ranges = [[int(field) for field in line.split()] for line in stream]
        return not any(outer <= 0 < outer + count for _, outer, count in ranges)
    except (OSError, ValueError):
        return False


def _quoted(path: str) -> str:
    import shlex

    return shlex.quote(path)
