"""The interface of plyvel, over Esker.

A program that uses plyvel runs on Esker with one changed line. Files of LevelDB are not read.

>>> from esker import plyvel
>>> db = plyvel.DB("data", create_if_missing=True)
>>> db.put(b"ada", b"analyst")
>>> db.get(b"ada")
b'analyst'
>>> users = db.prefixed_db(b"user/")
>>> users.put(b"bob", b"builder")
>>> list(db)
[(b'ada', b'analyst'), (b'user/bob', b'builder')]
>>> list(users)
[(b'bob', b'builder')]

Options that tune LevelDB's files are checked and have no effect. A comparator is refused, because keys
sort bytewise.
"""

from __future__ import annotations

import os
import re
from typing import Any

from . import _esker
from .errors import (
    ClosedError,
    CorruptionError,
    DatabaseExistsError,
    EskerError,
    IoError,
    NotADatabaseError,
    OpenError,
)

__all__ = [
    "DB",
    "CorruptionError",
    "Error",
    "IOError",
    "IteratorInvalidError",
    "destroy_db",
    "repair_db",
]

# The release of LevelDB whose interface this is.
__leveldb_version__ = "1.23"

Error = EskerError
IOError = IoError
Iterator = _esker.Items

_SEGMENT_BYTES_MIN = 64 << 10
_SEGMENT_BYTES_MAX = 1 << 30
_MEMORY_BYTES = 1 << 30


class IteratorInvalidError(Error):
    """The iterator is on no entry."""


def _path(name: Any) -> str:
    if not isinstance(name, (str, bytes)):
        raise TypeError("'name' arg must be a byte string or a unicode string")
    return os.fsdecode(name)


def _settings(
    *,
    paranoid_checks: bool | None = None,
    write_buffer_size: int | None = None,
    max_open_files: int | None = None,
    lru_cache_size: int | None = None,
    block_size: int | None = None,
    block_restart_interval: int | None = None,
    max_file_size: int | None = None,
    compression: str | bytes | None = "snappy",
    bloom_filter_bits: int = 0,
    comparator: Any = None,
    comparator_name: bytes | None = None,
) -> dict[str, Any]:
    """The settings that stand for the options of LevelDB."""
    numbers = {
        "write_buffer_size": write_buffer_size,
        "max_open_files": max_open_files,
        "lru_cache_size": lru_cache_size,
        "block_size": block_size,
        "block_restart_interval": block_restart_interval,
        "max_file_size": max_file_size,
        "bloom_filter_bits": bloom_filter_bits,
    }
    for name, number in numbers.items():
        if number is not None and not isinstance(number, int):
            raise TypeError(f"'{name}' must be a number")
    if isinstance(compression, bytes):
        compression = compression.decode()
    if not isinstance(compression, (str, type(None))):
        raise TypeError("'compression' must be None or a string")
    if compression not in (None, "snappy"):
        raise ValueError("'compression' must be None or 'snappy'")
    if not isinstance(comparator_name, (bytes, type(None))):
        raise TypeError("'comparator_name' must be a byte string")
    if (comparator is None) != (comparator_name is None):
        raise ValueError("'comparator' and 'comparator_name' must be specified together")
    if comparator is not None:
        if not callable(comparator):
            raise TypeError("custom comparator object must be callable")
        raise Error("Esker sorts keys bytewise: encode keys so that their bytes sort as you want")

    default: dict[str, Any] = {"compression": "none" if compression is None else "lz4"}
    if bloom_filter_bits > 0:
        default["filter_bits"] = min(bloom_filter_bits, 32)
    settings: dict[str, Any] = {"default": default}
    memory = _MEMORY_BYTES
    if write_buffer_size is not None:
        segment = min(max(write_buffer_size, _SEGMENT_BYTES_MIN), _SEGMENT_BYTES_MAX)
        settings["segment_bytes"] = segment
        memory = max(memory, 4 * segment)
    settings["memory_bytes"] = memory + (lru_cache_size or 0)
    return settings


def _open(path: str, create: bool, fail_if_exists: bool, settings: dict[str, Any]) -> _esker.Db:
    if fail_if_exists:
        try:
            _esker.Db(path, read_only=True).close()
        except NotADatabaseError:
            pass
        else:
            raise DatabaseExistsError(f"{path} holds a database already (error_if_exists is true)")
    try:
        return _esker.Db(path, create=create, **settings)
    except NotADatabaseError as error:
        # LevelDB would fail to lock the directory before it sees that no database is there.
        if os.path.isdir(path) and not os.access(path, os.W_OK):
            raise IOError(f"{path} cannot be written to: {error}") from error
        raise


def _end_of(prefix: bytes) -> bytes | None:
    """The first key after all keys that start with `prefix`."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


class _Reader:
    """What databases and snapshots share: iteration over the keys with a prefix."""

    def _iterate(self, *args: Any) -> _esker.Items[Any]:
        raise NotImplementedError

    def _prefix(self) -> bytes:
        return b""

    def __iter__(self) -> _esker.Items[Any]:
        return self.iterator()

    def iterator(
        self,
        *,
        reverse: bool = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: bytes | None = None,
        include_key: bool = True,
        include_value: bool = True,
        verify_checksums: bool = False,
        fill_cache: bool = True,
    ) -> _esker.Items[Any]:
        """Iterates over the entries of a range. The iterator can be moved, also back."""
        if prefix is not None:
            if start is not None or stop is not None:
                raise TypeError("'prefix' cannot be used together with 'start' or 'stop'")
            start, stop = prefix, _end_of(prefix)
        else:
            # The first key after a key is that key with a zero byte.
            if start is not None and not include_start:
                start += b"\0"
            if stop is not None and include_stop:
                stop += b"\0"
        own = self._prefix()
        start = None if start is None else own + start
        stop = None if stop is None else own + stop
        return self._iterate(own, start, stop, reverse, include_key, include_value)

    def raw_iterator(
        self, *, verify_checksums: bool = False, fill_cache: bool = True
    ) -> RawIterator:
        """Returns an iterator with the interface of LevelDB's own."""
        return RawIterator(self.iterator())


class DB(_esker.PlyvelDb, _Reader):
    """A database: `plyvel.DB`."""

    _db: _esker.Db
    _name: str | bytes

    def __new__(
        cls,
        name: str | bytes,
        *,
        create_if_missing: bool = False,
        error_if_exists: bool = False,
        **options: Any,
    ) -> DB:
        path, settings = _path(name), _settings(**options)
        db = _open(path, create_if_missing, error_if_exists, settings)
        made = super().__new__(cls, db)
        made._db, made._name = db, name
        return made

    @property
    def name(self) -> str | bytes:
        """The directory, as it was given."""
        return self._name

    @property
    def closed(self) -> bool:
        """Whether the database is closed."""
        return self._db.closed

    def close(self) -> None:
        """Closes the database. Does nothing if it is closed."""
        self._db.close()

    def __enter__(self) -> DB:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = " (closed)" if self.closed else ""
        return f"<esker.plyvel.DB with name {self.name!r}{closed} at {id(self):#x}>"

    def _iterate(self, *args: Any) -> _esker.Items[Any]:
        return _esker.PlyvelDb._iterate(self, *args)

    def write_batch(self, *, transaction: bool = False, sync: bool = False) -> WriteBatch:
        """Returns an empty batch. Its `with` block writes it, also after an exception unless
        `transaction` is true."""
        return WriteBatch(self, b"", transaction, sync)

    def snapshot(self) -> Snapshot:
        """Takes a snapshot."""
        return Snapshot(self, b"")

    def prefixed_db(self, prefix: bytes) -> PrefixedDB:
        """Returns a view of the keys that start with `prefix`, without it."""
        return PrefixedDB(db=self, prefix=prefix)

    def get_property(self, name: bytes) -> bytes | None:
        """Returns a property of the database, or `None`."""
        if not isinstance(name, bytes):
            raise TypeError("the name of a property is a byte string")
        if name == b"leveldb.stats":
            return self._db.stats_text().encode()
        if name == b"leveldb.sstables":
            return self._tables().encode()
        if name == b"leveldb.approximate-memory-usage":
            return b"%d" % self._db.stats()["memory_charged_bytes"]
        level = re.fullmatch(rb"leveldb\.num-files-at-level(\d)", name)
        return b"%d" % self._tables_on_level(int(level[1])) if level else None

    def compact_range(self, *, start: bytes | None = None, stop: bytes | None = None) -> None:
        """Compacts the whole database."""
        self._db.compact()

    def approximate_size(self, start: bytes, stop: bytes) -> int:
        """Estimates how many bytes of tables a range has."""
        return self.approximate_sizes((start, stop))[0]

    def approximate_sizes(self, *ranges: tuple[bytes, bytes]) -> list[int]:
        """Estimates how many bytes of tables each range has."""
        for start, stop in ranges:
            if not isinstance(start, bytes) or not isinstance(stop, bytes):
                raise TypeError("Start and stop of range must be byte strings")
        return self._approximate_sizes(list(ranges))


class PrefixedDB(_Reader):
    """The keys of a database that start with a prefix: `plyvel.PrefixedDB`."""

    def __init__(self, *, db: DB, prefix: bytes) -> None:
        if not isinstance(prefix, bytes):
            raise TypeError("a prefix is a byte string")
        self.db = db
        self.prefix = prefix

    def __repr__(self) -> str:
        return f"<esker.plyvel.PrefixedDB with prefix {self.prefix!r} at {id(self):#x}>"

    def _prefix(self) -> bytes:
        return self.prefix

    def _iterate(self, *args: Any) -> _esker.Items[Any]:
        return self.db._iterate(*args)

    def get(self, key: bytes, default: Any = None, **options: Any) -> Any:
        """Returns the value of `key`, or `default`."""
        return self.db.get(self.prefix + key, default, **options)

    def put(self, key: bytes, value: Any, *, sync: bool = False) -> None:
        """Sets `key` to `value`."""
        self.db.put(self.prefix + key, value, sync=sync)

    def delete(self, key: bytes, *, sync: bool = False) -> None:
        """Deletes `key`."""
        self.db.delete(self.prefix + key, sync=sync)

    def write_batch(self, *, transaction: bool = False, sync: bool = False) -> WriteBatch:
        """Returns an empty batch."""
        return WriteBatch(self.db, self.prefix, transaction, sync)

    def snapshot(self) -> Snapshot:
        """Takes a snapshot."""
        return Snapshot(self.db, self.prefix)

    def prefixed_db(self, prefix: bytes) -> PrefixedDB:
        """Returns a view of the keys that start with both prefixes."""
        return PrefixedDB(db=self.db, prefix=self.prefix + prefix)


class WriteBatch:
    """Writes that are applied together: `plyvel.WriteBatch`."""

    def __init__(self, db: DB, prefix: bytes, transaction: bool, sync: bool) -> None:
        self._batch = db._db.batch(sync=sync)
        self._db = db
        self._prefix = prefix
        self._transaction = transaction

    def _open(self) -> _esker.Batch:
        if self._db.closed:
            raise ClosedError("Database is closed")
        return self._batch

    def put(self, key: bytes, value: Any) -> None:
        """Adds a write that sets `key` to `value`."""
        self._open().put(self._prefix + key, value)

    def delete(self, key: bytes) -> None:
        """Adds a write that deletes `key`."""
        self._open().delete(self._prefix + key)

    def clear(self) -> None:
        """Removes all writes."""
        self._open().clear()

    def write(self) -> None:
        """Writes the batch."""
        self._batch.write()

    def append(self, source: WriteBatch) -> None:
        """Adds the writes of another batch."""
        self._open().append(source._batch)

    def approximate_size(self) -> int:
        """Returns how many bytes the writes need."""
        return self._batch.nbytes

    def __enter__(self) -> WriteBatch:
        return self

    def __exit__(self, error: Any, *rest: Any) -> None:
        if error is not None and self._transaction:
            self.clear()
        else:
            self.write()


class Snapshot(_Reader):
    """A consistent view of a database: `plyvel.Snapshot`."""

    def __init__(self, db: DB, prefix: bytes) -> None:
        self._snapshot = db._db.snapshot()
        self._db = db
        self._own = prefix

    def _prefix(self) -> bytes:
        return self._own

    def _iterate(self, *args: Any) -> _esker.Items[Any]:
        return self._db._iterate(*args, self._snapshot)

    def get(
        self,
        key: bytes,
        default: Any = None,
        *,
        verify_checksums: bool = False,
        fill_cache: bool = True,
    ) -> Any:
        """Returns the value of `key`, or `default`."""
        return self._snapshot.get(self._own + key, default)

    def close(self) -> None:
        """Lets the snapshot go. Does nothing if it is closed."""
        self._snapshot.close()

    release = close

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class RawIterator:
    """An iterator that is on an entry, or on none: `plyvel.RawIterator`."""

    def __init__(self, items: _esker.Items[Any]) -> None:
        self._items = items
        self._entry: tuple[bytes, bytes] | None = None
        # On which side of the current entry the iterator over gaps is.
        self._is_after = False

    def _forward(self) -> None:
        self._entry, self._is_after = next(self._items, None), True

    def _back(self) -> None:
        try:
            self._entry = self._items.prev()
        except StopIteration:
            self._entry = None
        self._is_after = False

    def _current(self) -> tuple[bytes, bytes]:
        if not self.valid():
            raise IteratorInvalidError()
        assert self._entry is not None
        return self._entry

    def valid(self) -> bool:
        """Whether the iterator is on an entry."""
        self._items._check_open()
        return self._entry is not None

    def seek_to_first(self) -> None:
        """Moves to the first entry."""
        self._items.seek_to_start()
        self._forward()

    def seek_to_last(self) -> None:
        """Moves to the last entry."""
        self._items.seek_to_stop()
        self._back()

    def seek(self, target: bytes) -> None:
        """Moves to the first entry whose key is `target` or after it."""
        self._items.seek(target)
        self._forward()

    def next(self) -> None:
        """Moves to the next entry."""
        self._current()
        if not self._is_after:
            next(self._items)
        self._forward()

    def prev(self) -> None:
        """Moves to the previous entry."""
        self._current()
        if self._is_after:
            self._items.prev()
        self._back()

    def key(self) -> bytes:
        """Returns the key of the current entry."""
        return self._current()[0]

    def value(self) -> bytes:
        """Returns the value of the current entry."""
        return self._current()[1]

    def item(self) -> tuple[bytes, bytes]:
        """Returns key and value of the current entry."""
        return self._current()

    def close(self) -> None:
        """Frees what the iterator holds."""
        self._items.close()

    def __enter__(self) -> RawIterator:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def repair_db(name: str | bytes, **options: Any) -> None:
    """Repairs a damaged database that is not open: keeps what is intact."""
    _settings(**options)
    _esker.repair(_path(name))


def destroy_db(name: str | bytes) -> None:
    """Removes a database that is not open, and its directory unless other files are there."""
    path = _path(name)
    if not os.path.isdir(path):
        return
    try:
        _esker.Db(path, create=False).close()
    except NotADatabaseError:
        return
    except OpenError as error:
        raise IOError(str(error)) from error
    for file in filter(_is_own, os.listdir(path)):
        os.remove(os.path.join(path, file))
    try:
        os.rmdir(path)
    except OSError:
        # Other files stay, with the directory.
        pass


# The files of a database.
_NAMES = {"CURRENT", "CURRENT.new", "LOCK"}
_ENDINGS = (".log", ".manifest", ".tables", ".values", ".ingest", ".damaged")


def _is_own(file: str) -> bool:
    return file in _NAMES or file.startswith("lost-") or file.endswith(_ENDINGS)
