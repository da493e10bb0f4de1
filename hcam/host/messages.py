"""What a worker and the process that started it tell each other: single bytes for steps, JSON for everything else."""

import json
import socket
from typing import Any

# A command or an answer is the number of a group, which has taken its step; or one of these.
RESET = 100  # added to a group's number: begin episodes, from the seeds in shared memory
READY, ERROR, FOUND = 201, 202, 203  # answers; the last two are followed by JSON

Json = dict[str, Any]


class GoneError(EOFError):
    """The process at the other end has ended."""


def send(channel: socket.socket, number: int, content: Json | None = None) -> None:
    data = b"" if content is None else json.dumps(content).encode()
    head = bytes([number]) + (b"" if content is None else len(data).to_bytes(4, "big"))
    try:
        channel.sendall(head + data)
    except OSError as error:
        raise GoneError from error


def receive(channel: socket.socket, with_json: tuple[int, ...] = (ERROR, FOUND)) -> tuple[int, Json]:
    """A number and, for some numbers, what follows it."""
    number = _exactly(channel, 1)[0]
    if number not in with_json:
        return number, {}
    size = int.from_bytes(_exactly(channel, 4), "big")
    found: Json = json.loads(_exactly(channel, size))
    return number, found


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        try:
            part = channel.recv(size - len(data))
        except OSError as error:
            raise GoneError from error
        if not part:
            raise GoneError
        data += part
    return data
