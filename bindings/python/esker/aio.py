"""The same calls for asyncio: none blocks the event loop.

A get that memory can answer returns at once. Other calls run on threads, 16 at most unless `open` is
told otherwise. A cancelled call that has begun is done as a whole, and its result is discarded.

>>> import asyncio, esker.aio
>>> async def main():
...     async with await esker.aio.open("data") as db:
...         await db.put(b"ada", b"analyst")
...         async with db.transaction() as tx:
...             await tx.put(b"bob", b"builder")
...         async for key, value in db.items():
...             print(key, value)
>>> asyncio.run(main())
b'ada' b'analyst'
b'bob' b'builder'
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Callable

from . import _esker
from ._transact import Attempts
from .errors import TransientError, WouldBlockError

__all__ = ["Db", "Items", "Keyspace", "Snapshot", "Transaction", "open"]

# An iterator reads as many entries in one call on another thread.
_ENTRIES = 256


class _Caller:
    """Runs calls on the threads of a database."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads

    async def _run(self, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(call, *args, **named))


class Items(_Caller):
    """An asynchronous iterator over entries."""

    def __init__(self, threads: ThreadPoolExecutor, make: Callable[[], Any]) -> None:
        super().__init__(threads)
        self._make = make
        self._items: Any = None
        self._ahead: list[Any] = []

    def __aiter__(self) -> Items:
        return self

    async def __anext__(self) -> Any:
        if not self._ahead:
            self._ahead = await self._run(self._fetch)
            self._ahead.reverse()
        if not self._ahead:
            raise StopAsyncIteration
        return self._ahead.pop()

    def _fetch(self) -> list[Any]:
        if self._items is None:
            self._items = self._make()
        return list(self._items.fetch(_ENTRIES))


class _Reads(_Caller):
    """Iteration, which keyspaces, snapshots and transactions share."""

    def __init__(self, threads: ThreadPoolExecutor, inner: Any) -> None:
        super().__init__(threads)
        self._inner = inner

    def items(self, **options: Any) -> Items:
        """Iterates over entries, as `esker.Keyspace.items` does."""
        return Items(self._threads, partial(self._inner.items, **_plain(options)))

    def keys(self, **options: Any) -> Items:
        """Iterates over keys, as `esker.Keyspace.keys` does."""
        return Items(self._threads, partial(self._inner.keys, **_plain(options)))

    def values(self, **options: Any) -> Items:
        """Iterates over values, as `esker.Keyspace.values` does."""
        return Items(self._threads, partial(self._inner.values, **_plain(options)))

    async def get_many(self, keys: Any, **options: Any) -> Any:
        """Returns the values of `keys`, with `None` for each key that does not exist."""
        return await self._run(self._inner.get_many, keys, **_plain(options))

    def __repr__(self) -> str:
        return f"<esker.aio of {self._inner!r}>"


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """The options with the synchronous keyspace, if they name one."""
    keyspace = options.get("keyspace")
    return {**options, "keyspace": keyspace._inner} if isinstance(keyspace, Keyspace) else options


class Keyspace(_Reads):
    """A keyspace: `esker.Keyspace` for asyncio."""

    @property
    def name(self) -> str:
        """The name."""
        return str(self._inner.name)

    @property
    def blocking(self) -> Any:
        """The keyspace whose calls block, for `run`."""
        return self._inner

    async def get(self, key: Any, default: Any = None) -> Any:
        """Returns the value of `key`, or `default`. Does not wait if memory has the answer."""
        try:
            return self._inner._try_get(key, default)
        except WouldBlockError:
            return await self._run(self._inner.get, key, default)

    async def put(self, key: Any, value: Any, **options: Any) -> None:
        """Sets `key` to `value`."""
        await self._run(self._inner.put, key, value, **options)

    async def put_if_absent(self, key: Any, value: Any) -> Any:
        """Sets `key` to `value` unless it exists; then returns the present value."""
        return await self._run(self._inner.put_if_absent, key, value)

    async def merge(self, key: Any, operand: Any) -> None:
        """Merges `operand` into the value of `key`."""
        await self._run(self._inner.merge, key, operand)

    async def delete(self, key: Any, **options: Any) -> None:
        """Deletes `key`."""
        await self._run(self._inner.delete, key, **options)

    async def delete_range(self, **options: Any) -> None:
        """Deletes the keys of a range."""
        await self._run(self._inner.delete_range, **options)

    async def count(self, **options: Any) -> int:
        """Counts the keys of a range."""
        return int(await self._run(self._inner.count, **options))

    async def write(self, batch: _esker.Batch) -> None:
        """Writes a batch of `batch`."""
        await self._run(batch.write)

    def batch(self, **options: Any) -> _esker.Batch:
        """Returns an empty batch. `write` writes it; its `with` block would block."""
        batch: _esker.Batch = self._inner.batch(**options)
        return batch

    def snapshot(self) -> Snapshot:
        """Takes a snapshot."""
        return Snapshot(self._threads, self._inner.snapshot())

    def transaction(self, **options: Any) -> Transaction:
        """Returns a transaction, for `async with`. The options are those of `esker.Keyspace`."""
        return Transaction(self._threads, partial(self._inner.transaction, **options))

    async def transact(self, work: Callable[[Transaction], Any], **options: Any) -> Any:
        """Runs `await work(tx)` in a transaction, again after a conflict, and commits it."""
        attempts = Attempts()
        while True:
            try:
                async with self.transaction(**options) as tx:
                    done = await work(tx)
                return done
            except TransientError as error:
                pause = attempts.pause(error)
            await asyncio.sleep(pause)

    async def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Runs `call(*args)` on a thread of the database: several reads and writes at the cost of one
        switch of threads. `blocking` has the calls that it may make."""
        return await self._run(call, *args)


class Db(Keyspace):
    """A database: `esker.Db` for asyncio. `esker.aio.open` opens one."""

    @property
    def closed(self) -> bool:
        """Whether the database is closed."""
        return bool(self._inner.closed)

    async def keyspace(self, name: str, **settings: Any) -> Keyspace:
        """Opens the keyspace `name`, or creates it."""
        return Keyspace(self._threads, await self._run(self._inner.keyspace, name, **settings))

    async def drop_keyspace(self, keyspace: Keyspace | str) -> None:
        """Removes a keyspace with its data."""
        inner = keyspace._inner if isinstance(keyspace, Keyspace) else keyspace
        await self._run(self._inner.drop_keyspace, inner)

    async def sync(self) -> None:
        """Makes all writes up to now survive power loss."""
        await self._run(self._inner.sync)

    async def flush(self) -> None:
        """Writes what is in memory to tables."""
        await self._run(self._inner.flush)

    async def close(self) -> None:
        """Closes the database, and ends its threads."""
        await self._run(self._inner.close)
        self._threads.shutdown(wait=False)

    async def __aenter__(self) -> Db:
        return self

    async def __aexit__(self, *error: Any) -> None:
        if not self.closed:
            await self.close()


class Snapshot(_Reads):
    """A snapshot: `esker.Snapshot` for asyncio."""

    async def get(self, key: Any, default: Any = None, **options: Any) -> Any:
        """Returns the value of `key`, or `default`."""
        return await self._run(self._inner.get, key, default, **_plain(options))

    def close(self) -> None:
        """Lets the snapshot go."""
        self._inner.close()

    async def __aenter__(self) -> Snapshot:
        return self

    async def __aexit__(self, *error: Any) -> None:
        self.close()


class Transaction(_Reads):
    """A transaction: `esker.Transaction` for asyncio. It begins with the `async with` block, and ends
    with it."""

    def __init__(self, threads: ThreadPoolExecutor, begin: Callable[[], Any]) -> None:
        super().__init__(threads, None)
        self._begin = begin

    async def get(self, key: Any, default: Any = None, **options: Any) -> Any:
        """Returns the value of `key`, or `default`."""
        return await self._run(self._inner.get, key, default, **_plain(options))

    async def get_for_update(self, key: Any, default: Any = None, **options: Any) -> Any:
        """Reads as `get` does, and excludes that others change `key` before the commit."""
        return await self._run(self._inner.get_for_update, key, default, **_plain(options))

    async def put(self, key: Any, value: Any, **options: Any) -> None:
        """Sets `key` to `value`."""
        await self._run(self._inner.put, key, value, **_plain(options))

    async def delete(self, key: Any, **options: Any) -> None:
        """Deletes `key`."""
        await self._run(self._inner.delete, key, **_plain(options))

    async def commit(self) -> None:
        """Commits."""
        await self._run(self._inner.commit)

    async def rollback(self) -> None:
        """Discards all writes."""
        await self._run(self._inner.rollback)

    async def __aenter__(self) -> Transaction:
        self._inner = await self._run(self._begin)
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._run(self._inner.__exit__, *error)


async def open(path: Any, *, threads: int = 16, **options: Any) -> Db:
    """Opens a database as `esker.Db` does, whose calls run on as many threads at most."""
    pool = ThreadPoolExecutor(threads, thread_name_prefix="esker")
    try:
        inner = await _Caller(pool)._run(_esker.Db, path, **options)
    except BaseException:
        pool.shutdown(wait=False)
        raise
    return Db(pool, inner)
