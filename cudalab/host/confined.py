"""Takes rights from a process, by Landlock of Linux: it can then read files, and change hardly anything but itself.

A confined process cannot write, make, remove or execute files, open TCP connections, send signals to other processes or
look into their memory, root's included. Which of these the kernel takes away depends on its version: from Linux 5.13 on
files and memory, from 6.7 on connections, from 6.12 on signals. Without Landlock a process keeps its rights.
"""

from __future__ import annotations

import ctypes
from functools import cache

# Numbers of system calls, the same on all architectures.
CREATE_RULESET, RESTRICT_SELF = 444, 446
VERSION = 1  # a flag of the former: return the version
PR_SET_NO_NEW_PRIVS = 38
# <linux/landlock.h>: by the version that has them first, rights to files, to the network, and what is scoped.
EXECUTE, WRITE_FILE, REMOVE_AND_MAKE, REFER, TRUNCATE, IOCTL_DEV = 1, 2, 0x1FF0, 1 << 13, 1 << 14, 1 << 15
FILES = {1: EXECUTE | WRITE_FILE | REMOVE_AND_MAKE, 2: REFER, 3: TRUNCATE, 5: IOCTL_DEV}
NETWORK = {4: 3}  # bind and connect of TCP
SCOPES = {6: 3}  # abstract sockets, signals


class Ruleset(ctypes.Structure):
    """What the process may no longer do."""

    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


@cache
def version() -> int:
    """The version of Landlock's interface; 0 where this system has none."""
    return max(0, ctypes.CDLL(None).syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION))


def confine() -> bool:
    """Take the rights from this thread and those that it starts, for good. Whether the system did."""
    libc, have = ctypes.CDLL(None), version()
    if not have or libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    fields = (FILES, NETWORK, SCOPES)
    rules = Ruleset(*(sum(bits for since, bits in one.items() if since <= have) for one in fields))
    size = 8 * (1 if have < min(NETWORK) else 2 if have < min(SCOPES) else 3)
    fd = libc.syscall(CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), 0)
    return bool(fd >= 0 and libc.syscall(RESTRICT_SELF, fd, 0) == 0 and libc.close(fd) == 0)
