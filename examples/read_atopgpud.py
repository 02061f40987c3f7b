"""Print what atopgpud serves: the types of the GPUs, and their statistics."""

from __future__ import annotations

import socket

with socket.socket(socket.AF_UNIX) as daemon:
    daemon.connect('\0atopgpud_nvidia')
    for request in (b'T\x02', b'S\x02'):  # version 2 of the protocol
        daemon.sendall(request)
        length = int.from_bytes(daemon.recv(4, socket.MSG_WAITALL)[1:], 'big')
        print(daemon.recv(length, socket.MSG_WAITALL).decode())
