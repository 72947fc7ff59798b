"""Health check of a worker's container: 0 when a worker of this host is on the list of the living in Redis.

A worker's heart beats only while its judge makes progress, so this also tells a worker that hangs. It leans on the
redis package alone: a check that runs every few seconds must cost little.
"""

import json
import os
import socket
import sys

import redis


def main() -> int:
    """The exit status."""
    queue = os.environ.get("MICROCODER_QUEUE") or "microcoder"
    url = os.environ.get("MICROCODER_REDIS_URL") or os.environ["REDIS_URL"]
    with redis.Redis.from_url(url, socket_timeout=8, socket_connect_timeout=8, decode_responses=True) as client:
        seconds, microseconds = client.time()
        for worker in client.zrangebyscore(f"{queue}:workers", seconds + microseconds / 1e6, "+inf"):
            told = client.get(f"{queue}:worker:{worker}")
            if told is not None and json.loads(told)["host"] == socket.gethostname():
                return 0
    print(f"No worker of host {socket.gethostname()} reports to Redis.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
