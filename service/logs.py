"""Logs: one line per event, `key=value`, on stderr. Submitted code, inputs and outputs are never in one."""

import logging
import sys
import time

_QUIET = ("rq", "rq.worker", "rq.job", "rq.registry", "rq.queue", "httpx", "docker", "urllib3")
"""Libraries that speak too much: warnings only."""


class KeyValueFormatter(logging.Formatter):
    """`time=… level=… logger=… message`, with the trace, if there is one, on the lines below."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        """Use the one format."""
        super().__init__("time=%(asctime)s level=%(levelname)s logger=%(name)s %(message)s")


def configure_logging(level: str = "INFO") -> None:
    """Send the logs of this process to stderr. Called by what is a process of its own, never by a library."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
