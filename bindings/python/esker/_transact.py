"""Transactions that run again after a conflict."""

from __future__ import annotations

import random
import time
from typing import Any, Callable

from .errors import LockTimeoutError, TransientError

ATTEMPTS_MAX = 100
# The caller has chosen how long to wait for a lock.
LOCK_TIMEOUTS_MAX = 3
PAUSE_MAX_SECONDS = 0.005


class Attempts:
    """How often a transaction has failed."""

    def __init__(self) -> None:
        self.count = 0
        self.lock_timeouts = 0

    def pause(self, error: TransientError) -> float:
        """Returns how long to wait before the next attempt, or raises the error."""
        self.count += 1
        self.lock_timeouts += isinstance(error, LockTimeoutError)
        if self.count >= ATTEMPTS_MAX or self.lock_timeouts >= LOCK_TIMEOUTS_MAX:
            raise error
        longest = min(PAUSE_MAX_SECONDS, 0.0001 * 2 ** min(self.count, 10))
        return random.uniform(0, longest)


def transact(keyspace: Any, work: Callable[[Any], Any], **options: Any) -> Any:
    attempts = Attempts()
    while True:
        try:
            with keyspace.transaction(**options) as tx:
                done = work(tx)
            return done
        except TransientError as error:
            pause = attempts.pause(error)
        time.sleep(pause)
