"""Every family of sockets: IPv6, raw, packet, netlink, vsock, crypto, Bluetooth, …"""

import socket

outcomes = {}
for family in range(64):
    for kind in (1, 2, 3, 4, 5, 10):
        try:
            socket.socket(family, kind, 0).close()
            outcome = "ok"
        except OSError as error:
            outcome = errno.errorcode[error.errno]
        outcomes.setdefault(outcome, set()).add(family)
for outcome, families in sorted(outcomes.items()):
    print(f"{outcome}: {len(families)} families")
