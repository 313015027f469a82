"""Messages between two processes, which may come with open files."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

HEAD = struct.Struct("<QI")  # bytes of a message, and its files
LONGEST = 1 << 26  # bytes of a message
PART = 1 << 16  # bytes that are read at once
FILES = 250  # in one message; Linux takes 253


class Channel:
    """One end of a connected stream socket. Its methods raise EOFError where the other end is closed, and OSError.

    `receive` raises ValueError for what is no message.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._read = bytearray()
        self._files: list[int] = []

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """One end, and the socket of the other one."""
        mine, theirs = socket.socketpair()
        return cls(mine), theirs

    def send(self, message: bytes, files: Sequence[int] = ()) -> None:
        data = HEAD.pack(len(message), len(files)) + message
        if files:
            data = data[socket.send_fds(self._socket, [data], list(files)) :]
        self._socket.sendall(data)

    def receive(self) -> tuple[bytes, list[int]]:
        """The next message, and its files, which are the caller's to close."""
        self._wait_for(HEAD.size)
        length, count = HEAD.unpack_from(self._read)
        if length > LONGEST:
            raise ValueError(f"a message of {length:,} bytes")
        end = HEAD.size + length
        self._wait_for(end)
        message, files = bytes(self._read[HEAD.size : end]), self._files[:count]
        del self._read[:end], self._files[:count]  # the next message may have been read with it
        return message, files

    def _wait_for(self, size: int) -> None:
        while len(self._read) < size:
            part, files, *_ = socket.recv_fds(self._socket, PART, FILES)
            if not part:
                raise EOFError
            self._read += part
            self._files += files

    def close(self) -> None:
        self._socket.close()
