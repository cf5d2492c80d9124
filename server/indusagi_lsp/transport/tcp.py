"""One client over TCP on this machine, for tests. It must know a secret, which the server checks."""

from __future__ import annotations

import os
import socket
import sys


def accept_one(port: int) -> tuple[int, int]:
    """Listen on the loopback interface until one client has connected, then listen no more.

    Args:
        port: the port; 0 lets the system choose.

    Returns:
        Descriptors to read and to write. The address is announced in one line on stderr.

    Raises:
        OSError: the port cannot be had.
    """
    with socket.create_server(("127.0.0.1", port), backlog=1) as listener:
        host, bound = listener.getsockname()
        sys.stderr.write(f"listening on {host}:{bound}\n")
        sys.stderr.flush()
        client, _ = listener.accept()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    fd = client.detach()
    return fd, os.dup(fd)
