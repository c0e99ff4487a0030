"""The exceptions. All of them are `EskerError`.

A message says what failed, why, and what to do.

>>> import esker
>>> issubclass(esker.ConflictError, esker.TransientError)
True
>>> try:
...     esker.open("missing", create=False)
... except esker.NotADatabaseError:
...     print("no database")
no database
"""

from __future__ import annotations

__all__ = [
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


class EskerError(Exception):
    """An error of the engine."""


# Arguments.


class InvalidArgumentError(EskerError, ValueError):
    """An argument is not valid."""


class InvalidSettingError(InvalidArgumentError):
    """A setting has an unknown name, or a value that is not valid."""


class TooLargeError(InvalidArgumentError):
    """A key, a value or a batch exceeds its limit."""


class MergeError(EskerError):
    """The keyspace has no merge operator, or it rejected an operand."""


# Files.


class IoError(EskerError, OSError):
    """The operating system failed an operation on a file."""


class OutOfSpaceError(IoError):
    """The disk is full, or a quota is exceeded."""


class LogFailedError(IoError):
    """The log cannot be written, so the database takes no more writes. Open it again."""


class CorruptionError(EskerError):
    """A file is damaged."""


class LostError(EskerError):
    """The storage has permanently lost a part of a file."""


class BackupError(EskerError):
    """A backup cannot be made, or a database not be restored from one."""


# Opening.


class OpenError(EskerError):
    """The database cannot be opened."""


class NotADatabaseError(OpenError):
    """The directory holds no database, or files of another program."""


class DatabaseExistsError(OpenError):
    """The directory holds a database already."""


class LockedError(OpenError):
    """Another process, or this one, has the database open."""


class NewerFormatError(OpenError):
    """A newer release wrote the files."""


class TornLogError(OpenError):
    """The log is torn, and the setting `recovery` is "strict"."""


class EncryptionError(OpenError):
    """The files are encrypted."""


class PoolError(OpenError):
    """The pool of persistent memory cannot be used."""


# Handles.


class ClosedError(EskerError, RuntimeError):
    """The database, the iterator, the snapshot or the reader is closed."""


class ClosedReaderError(ClosedError, ValueError):
    """The reader of a value is closed: a `ValueError`, as other files of Python raise."""


class ForkedError(EskerError, RuntimeError):
    """The database was opened before a fork, and this is the child."""


class ReadOnlyError(EskerError):
    """The database is open for reading."""


class FollowerError(EskerError):
    """The database is no follower, or cannot follow on."""


class WouldBlockError(EskerError):
    """The answer is not in memory, and the call may not wait."""


class KeyspaceError(EskerError):
    """A keyspace cannot be used."""


class UnknownKeyspaceError(KeyspaceError, LookupError):
    """There is no keyspace of this name, or it was dropped."""


class KeyspaceSettingsDifferError(KeyspaceError):
    """The keyspace exists with other settings."""


class BadKeyspaceNameError(KeyspaceError, ValueError):
    """No keyspace can have this name, or this one cannot be dropped."""


class ForeignHandleError(KeyspaceError):
    """The keyspace is of another database, or of an earlier open."""


# Transactions.


class TransactionError(EskerError):
    """A transaction cannot go on."""


class TransientError(TransactionError):
    """The same transaction may succeed if it runs again from its start."""


class ConflictError(TransientError):
    """Another transaction changed a key that this one read or writes."""


class DeadlockError(TransientError):
    """Transactions waited for each other in a cycle."""


class LockTimeoutError(TransientError, TimeoutError):
    """Another transaction held a lock for too long."""


class TransactionEndedError(TransactionError, RuntimeError):
    """The transaction was committed or rolled back already."""


class NoSavepointError(TransactionError):
    """The transaction has no savepoint."""


class PreparedError(TransactionError):
    """The id of a prepared transaction is not valid, in use, or unknown."""
