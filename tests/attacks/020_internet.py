"""Talks to the internet, a cloud's metadata service and a name server."""

import socket
import urllib.request

attempt("tcp", lambda: socket.create_connection(("1.1.1.1", 443), timeout=5))
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("1.1.1.1", 53)))
attempt("metadata", lambda: socket.create_connection(("169.254.169.254", 80), timeout=5))
attempt("dns", lambda: socket.getaddrinfo("example.com", 443))
attempt("http", lambda: urllib.request.urlopen("http://169.254.169.254/latest/meta-data", timeout=5))
with open("/proc/net/dev") as devices:
    print("devices:", *sorted(line.split(":")[0].strip() for line in devices if ":" in line))
with open("/proc/net/route") as routes:
    print("routes:", len(routes.readlines()) - 1)
