"""When to try again, and how long to wait before: pure arithmetic, no clock and no network.

Exponential, with jitter so that a thousand clients that were refused together don't come back together. What the
service says in `Retry-After` is a floor, never cut short.
"""

import email.utils
import random
import time
from dataclasses import dataclass

RETRIED_STATUSES = frozenset({429, 502, 503, 504})
"""Full (429, 503), or a proxy whose service is starting (502, 504)."""


@dataclass(frozen=True)
class Backoff:
    """Seconds before the first retry, growth per retry, and the longest pause."""

    first: float = 0.25
    factor: float = 2.0
    longest: float = 20.0

    def pause(self, failures: int, retry_after: float | None = None, jitter: float | None = None) -> float:
        """Seconds to wait after `failures` failures in a row. `jitter` in [0, 1) is drawn where it isn't given."""
        drawn = random.random() if jitter is None else jitter
        grown = min(self.longest, self.first * self.factor ** min(failures - 1, 30))
        if retry_after is None:
            return grown * (0.5 + drawn / 2)
        return retry_after + min(grown, max(retry_after, 1.0)) * drawn / 2


def read_retry_after(value: str | None, now: float | None = None) -> float | None:
    """Seconds out of a `Retry-After` header: a number or an HTTP date. None for anything else."""
    if value is None:
        return None
    text = value.strip()
    if text.isdigit():
        return float(text)
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - (time.time() if now is None else now))
