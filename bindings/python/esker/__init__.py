"""Esker, an embedded key-value storage engine.

A database is a directory of ordered keyspaces. Keys and values are bytes, and keys sort bytewise.

>>> import esker
>>> with esker.open("data") as db:
...     db[b"ada"] = b"analyst"
...     db[b"bob"] = b"builder"
...     dict(db.items(prefix=b"a"))
{b'ada': b'analyst'}

`esker.aio` has the same calls for asyncio, and `esker.plyvel` has the interface of plyvel.
"""

from __future__ import annotations

from ._esker import (
    Batch,
    Db,
    Items,
    Keyspace,
    Snapshot,
    Transaction,
    backups,
    prune_backups,
    repair,
    restore,
)
from ._reader import ValueReader
from .errors import *  # noqa: F403

open = Db

__all__ = [
    "Batch",
    "Db",
    "Items",
    "Keyspace",
    "Snapshot",
    "Transaction",
    "ValueReader",
    "backups",
    "open",
    "prune_backups",
    "repair",
    "restore",
    # The exceptions.
    "BackupError",
    "BadKeyspaceNameError",
    "ClosedError",
    "ClosedReaderError",
    "ConflictError",
    "CorruptionError",
    "DatabaseExistsError",
    "DeadlockError",
    "EncryptionError",
    "EskerError",
    "FollowerError",
    "ForeignHandleError",
    "ForkedError",
    "InvalidArgumentError",
    "InvalidSettingError",
    "IoError",
    "KeyspaceError",
    "KeyspaceSettingsDifferError",
    "LockTimeoutError",
    "LockedError",
    "LogFailedError",
    "LostError",
    "MergeError",
    "NewerFormatError",
    "NoSavepointError",
    "NotADatabaseError",
    "OpenError",
    "OutOfSpaceError",
    "PoolError",
    "PreparedError",
    "ReadOnlyError",
    "TooLargeError",
    "TornLogError",
    "TransactionEndedError",
    "TransactionError",
    "TransientError",
    "UnknownKeyspaceError",
    "WouldBlockError",
]
