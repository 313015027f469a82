"""Removes what a process that was killed has left: its processes, its scratch folder, its half-written files.

This file is also a program. It starts with Python's standard library alone, waits until its standard input ends, which
is when the process that started it has ended, whatever ended it, and then cleans up (`cudalab.base.scratch`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "CUDALAB_SCRATCH"  # in the environment of every process of a run: its scratch folder
CACHES = (
    b"TORCHINDUCTOR_CACHE_DIR",
    b"TRITON_CACHE_DIR",
    b"PYCUDA_CACHE_DIR",
)  # in the environment of a process that compiles
WRITTEN = ".written"  # in a scratch folder: the files that are written beside their final places
PREFIX = "cudalab-run-"  # of the names of scratch folders
HALF = re.compile(r"\.[0-9a-f]{8}\.half")  # the end of the name of a file that is being written
TRIES, PAUSE = 100, 0.02  # looks at the processes that are left, and seconds between two


def locked(fd: int) -> bool:
    """Take the lock of an open file or folder, which ends with the process; False if another process has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # or a file system without locks: nothing there is known to be left over
        return False
    return True


def sweep_halves(target: Path) -> bool:
    """Remove the half-written files beside `target` of processes that are gone; False if one is still held."""
    swept = True
    with contextlib.suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if entry.name.startswith(f".{target.name}") and HALF.fullmatch(entry.name[1 + len(target.name) :]):
                try:
                    with _free(entry.path, os.O_RDWR):
                        os.unlink(entry.path)
                except BlockingIOError:
                    swept = False
                except OSError:  # it is gone, a link, or another user's
                    continue
    return swept


def sweep_folders(place: Path) -> None:
    """Remove the scratch folders in `place` of processes that are gone."""
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with contextlib.suppress(OSError), _free(entry.path, os.O_RDONLY | os.O_DIRECTORY):
                    shutil.rmtree(entry.path, ignore_errors=True)


def in_use(folder: str) -> bool:
    """Whether a run of this user holds this scratch folder. One that is set by hand would never be removed."""
    try:
        with _free(folder, os.O_RDONLY | os.O_DIRECTORY):
            return False
    except BlockingIOError:
        return os.path.basename(folder).startswith(PREFIX)
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def _free(path: str, flags: int) -> Iterator[None]:
    """Hold the lock of a file of this user. Raises OSError if it is another user's, or another process has the lock."""
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(fd)
        if found.st_uid != os.geteuid() or not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise PermissionError
        if not locked(fd):
            raise BlockingIOError
        yield
    finally:
        os.close(fd)


def end_processes(name: str, value: str) -> None:
    """Kill the processes that were started with this in their environment, until none is left."""
    mark = b"\0" + os.fsencode(f"{name}={value}") + b"\0"
    for _ in range(TRIES):
        if not [pid for pid in _others() if _killed(pid, mark)]:
            return
        time.sleep(PAUSE)


def _others() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    except OSError:  # not Linux
        return []


def end_children(keep: int) -> None:
    """Kill the children of this process and theirs, but for one."""
    parents = dict(_parents())
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours and pid not in {*ours, keep}}:
        ours |= more
    for pid in ours - {os.getpid()}:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _parents() -> Iterator[tuple[int, int]]:
    """The processes and their parents."""
    for pid in _others():
        with contextlib.suppress(OSError):
            yield pid, int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


def end_group(group: int) -> None:
    """Kill the processes of a group, and remove what they had begun to write in the caches of libraries.

    They are stopped first: otherwise those that start others do so while this looks at each.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGSTOP)
    for pid in _others():
        with contextlib.suppress(OSError):
            if os.getpgid(pid) == group:
                _forget_half_written(pid, Path(f"/proc/{pid}/environ").read_bytes())
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _forget_half_written(pid: int, environment: bytes) -> None:
    """Remove the files that a process is writing in the caches of libraries, before it is killed.

    A compiler writes to the final place. torch would take what is there for the whole, in every later run.
    """
    given = dict(line.partition(b"=")[::2] for line in environment.split(b"\0"))
    caches = [os.path.realpath(os.fsdecode(given[name])) + "/" for name in CACHES if given.get(name)]
    for number in os.listdir(f"/proc/{pid}/fd") if caches else ():
        with contextlib.suppress(OSError):
            path = os.readlink(f"/proc/{pid}/fd/{number}")
            if path.startswith(tuple(caches)) and not path.endswith(".lock") and _writes(pid, number):
                os.unlink(path)


def _writes(pid: int, number: str) -> bool:
    found = re.search(r"^flags:\s*([0-7]+)", Path(f"/proc/{pid}/fdinfo/{number}").read_text(), re.MULTILINE)
    return found is not None and int(found[1], 8) & os.O_ACCMODE != os.O_RDONLY


def _killed(pid: int, mark: bytes) -> bool:
    """Kill a process that has the mark. It is held by a descriptor: its number may be another's by then."""
    try:
        held = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        if mark not in b"\0" + environment + b"\0":
            return False
        _forget_half_written(pid, environment)
        signal.pidfd_send_signal(held, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(held)
    return True


def clean(folder: Path) -> None:
    """End the processes of a run, and remove what is half-written of the files that it writes, and its folder.

    The kernel closes the files of a killed process one after the other. Its end is seen when the first is closed, and
    then it may still hold the locks of others: they are asked for again.
    """
    end_processes(VARIABLE, str(folder))
    written: set[bytes] = set()
    with contextlib.suppress(OSError):
        written = set((folder / WRITTEN).read_bytes().split(b"\0")[:-1])
    for _ in range(TRIES):
        written = {path for path in written if not sweep_halves(Path(os.fsdecode(path)))}
        if not written:
            break
        time.sleep(PAUSE)
    for _ in range(TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return
        time.sleep(PAUSE)


def main(folder: Path) -> None:
    """Wait for the end of the process that started this one, and clean up."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    sweep_folders(folder.parent)
    sys.stdin.buffer.read()
    clean(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
