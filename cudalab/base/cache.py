"""The folder that keeps compiled code between runs.

Code from the cache is run. So its folders belong to the user alone, and what the lab itself keeps there ends with a
digest: an entry that is damaged, or that another user can write, is made again.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import shlex
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from cudalab.base import files, scratch
from cudalab.base.errors import Broken, Unavailable, why

# Each library that compiles has a variable for its cache folder.
VARIABLES = (
    "CUDALAB_CACHE", "PYCUDA_CACHE_DIR", "CUPY_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR",
    "CUDA_CACHE_PATH",
)  # fmt: skip
# The libraries that would keep code elsewhere, such as Inductor in /tmp/torchinductor_$USER, where others may put some.
LIBRARIES = {"TORCHINDUCTOR_CACHE_DIR": "torch", "TRITON_CACHE_DIR": "triton", "PYCUDA_CACHE_DIR": "pycuda"}
NOBITS = 8  # the type of a section in ELF that takes no room in the file
SEAL = b"\ncudalab-sha256:"  # between an entry and its digest; dlopen does not look at what follows an object
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
TEMPORARY = Path("/tmp")  # not TMPDIR, which a run sets for its processes
DIGEST = hashlib.sha256().digest_size


@contextlib.contextmanager
def fresh() -> Iterator[None]:
    """Give the processes started inside empty compiler caches; the caches of the user are not touched."""
    before = {name: os.environ.get(name) for name in VARIABLES}
    with scratch.folder("cudalab-fresh-") as made:
        for name in VARIABLES:
            empty = made / name.lower()
            empty.mkdir(mode=0o700)  # PyCUDA does not create this folder itself
            os.environ[name] = str(empty)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value


def folder(name: str) -> Path:
    """Return the subfolder `name` of the cache; create it if necessary.

    The cache is $CUDALAB_CACHE, else the user's cache folder: $XDG_CACHE_HOME/cudalab or ~/.cache/cudalab on Linux.
    Raises Unavailable for one that cannot be written, or that others can write or replace; Broken where the disk is
    full.
    """
    chosen = os.environ.get("CUDALAB_CACHE")
    return _ready(Path(chosen) if chosen else _of_user(), name, bool(chosen))


def places(name: str) -> Iterator[Path]:
    """Folders of this user alone that are the same whichever cache is used: for locks, not for code.

    One is where the user's machines or containers may share it, one is the same whatever the environment says.
    """
    for base in (_of_user, lambda: TEMPORARY / f"cudalab-{os.geteuid()}"):
        with contextlib.suppress(Unavailable):
            yield _ready(base(), name, chosen=False)


def _ready(base: Path, name: str, chosen: bool) -> Path:
    """The subfolder `name` of a cache, which the user may have chosen. Raises as `folder` does."""
    base = base.absolute()
    path = base / name
    if exposed := _exposed(base):
        raise Unavailable(f"cudalab does not run code from the cache {path}: {exposed}")
    try:
        _make(path)
        _refuse_others(base, chosen, is_base=True)
        if path != base:
            _refuse_others(path, chosen)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _unwritable(path, error) from None
    return path


def of_libraries() -> dict[str, str]:
    """Variables that keep libraries' code in the cache, for the environment of a process of a run.

    Those that the user has set are left out. Without a cache the code goes to the scratch folder, which must be held.
    """
    found = {}
    for variable, name in LIBRARIES.items():
        if not os.environ.get(variable):
            try:
                found[variable] = str(folder(name))
            except Unavailable:
                with scratch.held() as place:
                    (place / name).mkdir(exist_ok=True)  # PyCUDA does not create it
                    found[variable] = str(place / name)
    return found


def use_for(variable: str) -> Path:
    """Let a library keep its code in the cache, in this process and its children; returns the folder.

    The user's own choice in the environment stays. Raises Unavailable as `folder` does.
    """
    chosen = os.environ.get(variable) or str(folder(LIBRARIES[variable]))
    os.environ[variable] = chosen
    mend(Path(chosen))
    return Path(chosen)


@functools.cache
def mend(place: Path) -> None:
    """Remove damaged files from a library's cache, which would take them for whole: once a process.

    An object or JSON file that is empty or cut off is damaged, and what a process that is gone has not renamed yet.
    One that a process is writing is left to it.
    """
    for where, _, names in os.walk(place):  # which passes over folders that vanish
        for path in (Path(where, name) for name in names if os.path.splitext(name)[1] in DAMAGED):
            with contextlib.suppress(OSError):
                before = path.stat()
                if DAMAGED[path.suffix](path) and not _is_open(before) and _version(path.stat()) == _version(before):
                    path.unlink()


def _version(found: os.stat_result) -> tuple[int, ...]:
    """What changes when a file is written or replaced."""
    return found.st_ino, found.st_size, found.st_mtime_ns


def _is_open(found: os.stat_result) -> bool:
    """Whether a process of this user holds the file open."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for name in os.listdir(process / "fd"):
                with contextlib.suppress(OSError):
                    if os.path.samestat(os.stat(process / "fd" / name), found):
                        return True
    return False


def _cut_object(path: Path) -> bool:
    """Whether an object in ELF ends before one of its tables or sections."""
    data = path.read_bytes()
    if len(data) < 64 or data[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
        return True
    segments, sections = struct.unpack_from("<QQ", data, 32)
    segment_size, segment_count, size, count = struct.unpack_from("<HHHH", data, 54)
    if len(data) < max(segments + segment_size * segment_count, sections + size * count) or (count and size < 64):
        return True
    for at in range(sections, sections + size * count, size):
        kind, offset, length = struct.unpack_from("<4xI16xQQ", data, at)
        if kind != NOBITS and len(data) < offset + length:
            return True
    return False


def _cut_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return True
    return False


def _abandoned(path: Path) -> bool:
    """Whether a temporary file of Inductor, .PROCESS.THREAD.tmp, is of a process that is gone."""
    pid = path.name.split(".")[1:2]
    return bool(pid) and pid[0].isdigit() and not os.path.exists(f"/proc/{pid[0]}") and os.path.exists("/proc/self")


DAMAGED = {".so": _cut_object, ".cubin": _cut_object, ".json": _cut_json, ".tmp": _abandoned}


def put(path: Path, data: bytes) -> None:
    """Keep an entry, with its digest. Raises Unavailable if it cannot be written, Broken where the disk is full.

    A link in its place is removed: the file behind it is no entry, and may be anything.
    """
    try:
        if path.is_symlink():
            path.unlink(missing_ok=True)
        files.write(path, data + SEAL + hashlib.sha256(data).digest(), mode=0o600)
    except OSError as error:
        raise _unwritable(path.parent, error) from None


def _unwritable(path: Path, error: OSError) -> Unavailable:
    """A full disk had room before, and may have for another size; a folder of others is so for the whole run."""
    kind = Broken if error.errno in FULL else Unavailable
    return kind(f"cannot write to the cache {path}: {why(error)}; set CUDALAB_CACHE")


def get(path: Path) -> bytes | None:
    """An entry as it was put there; None if it is not there, is damaged, or is one that others can write."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or _others_write(found):
                return None
            data = file.read()
    except OSError:
        return None
    end = len(data) - DIGEST - len(SEAL)
    sealed = end >= 0 and data[end : end + len(SEAL)] == SEAL
    return data[:end] if sealed and hashlib.sha256(data[:end]).digest() == data[-DIGEST:] else None


def _of_user() -> Path:
    """The cache of a user who has chosen none."""
    from platformdirs import user_cache_path

    try:
        # Older platformdirs return a path with ~ where this raises: the user of a container may have no home folder.
        return user_cache_path("cudalab").expanduser()
    except RuntimeError:
        raise Unavailable("there is no home folder for the cache; set CUDALAB_CACHE to a folder") from None


def _make(path: Path) -> None:
    """Make a folder and those above it, for this user alone whatever the umask."""
    if not path.exists():
        if path.parent != path:
            _make(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def _others_write(found: os.stat_result) -> bool:
    """Whether another user than this one and root can write a file or folder."""
    return found.st_uid not in (os.geteuid(), 0) or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _exposed(path: Path) -> str:
    """Why others can replace `path`, in a folder above it that all can write, and what to type; "" if they cannot.

    The sticky bit, as that of /tmp, leaves it to the owner of that folder.
    """
    for parent in dict.fromkeys((*path.parents, *path.resolve().parents)):
        with contextlib.suppress(OSError):  # it is not there yet
            found = parent.stat()
            mine = found.st_uid in (os.geteuid(), 0)
            if not found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_ISVTX and mine):
                continue
            mend = f"type chmod +t {shlex.quote(str(parent))}, or " if mine else ""
            return (
                f"other users can replace it, since {parent} is open to all (mode {stat.S_IMODE(found.st_mode):04o}); "
                f"{mend}set CUDALAB_CACHE to a folder of yours elsewhere"
            )
    return ""


def _refuse_others(path: Path, chosen: bool, is_base: bool = False) -> None:
    """Raise Unavailable if others can put files into a folder: what is there is run.

    In a folder with the sticky bit, such as /tmp, others cannot replace a folder of this user. The user's own cache
    folder, made with a umask that lets the group write, is closed.
    """
    found = path.stat()
    if not _others_write(found) or (is_base and found.st_mode & stat.S_ISVTX and found.st_uid in (os.geteuid(), 0)):
        return
    if found.st_uid == os.geteuid() and not chosen:
        path.chmod(stat.S_IMODE(found.st_mode) & 0o755)
        return
    named = shlex.quote(str(path))
    if found.st_uid != os.geteuid():
        reason, mend = (
            f"it belongs to user {found.st_uid}",
            "set CUDALAB_CACHE to a folder of yours",
        )
    else:
        reason = f"other users can write to it (mode {stat.S_IMODE(found.st_mode):04o})"
        mend = f"remove it (rm -r {named}), or set CUDALAB_CACHE to a folder of yours that no other user can write"
    raise Unavailable(f"cudalab does not run code from the cache {path}: {reason}; {mend}")
