"""The same calls for asyncio: none blocks the event loop.

A get that memory can answer returns at once. Other calls run on threads, 16 at most unless `open` is
told otherwise. As many further ones wait for row locks, and a transaction that has locks always gets a
thread, so that those that wait for it do not keep it from its commit.

A cancelled call that has begun is done as a whole, and its result is discarded. An iterator keeps what a
cancelled step has read for the next one.

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
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, Callable, Coroutine

from . import _esker
from ._reader import ValueReader
from ._transact import Attempts
from .errors import ClosedError, TransientError, WouldBlockError

__all__ = ["Db", "Items", "Keyspace", "Snapshot", "Transaction", "open"]

# An iterator reads as many entries in one call on another thread.
_ENTRIES = 256

# More than a process can have: who holds a lock never waits for a thread.
_UNBOUNDED = 1 << 16


class _Threads:
    """The threads of a database."""

    def __init__(self, count: int) -> None:
        # Calls without row locks.
        self.plain = ThreadPoolExecutor(count, thread_name_prefix="esker")
        # Calls of transactions that have no lock yet: they may wait for those that have.
        self.waiting = ThreadPoolExecutor(count, thread_name_prefix="esker-wait")
        # Calls of transactions that may have locks.
        self.holding = ThreadPoolExecutor(_UNBOUNDED, thread_name_prefix="esker-hold")
        self.is_closed = False

    async def run(self, pool: Executor, call: Callable[[], Any]) -> Any:
        if self.is_closed:
            raise ClosedError("the database is closed")
        return await asyncio.get_running_loop().run_in_executor(pool, call)

    def close(self) -> None:
        self.is_closed = True
        for pool in (self.plain, self.waiting, self.holding):
            pool.shutdown(wait=False)


async def _whole(steps: Coroutine[Any, Any, Any]) -> Any:
    """Awaits `steps`, which go on to their end if the caller is cancelled."""
    task = asyncio.ensure_future(steps)
    # An error after a cancellation is nobody's.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(task)


def _fixed(argument: Any) -> Any:
    """Bytes that the caller may change are copied before the call returns to the event loop."""
    if isinstance(argument, bytearray):
        return bytes(argument)
    if isinstance(argument, memoryview) and argument.format == "B":
        return bytes(argument)
    return argument


class _Caller:
    """Runs calls on the threads of a database."""

    def __init__(self, threads: _Threads) -> None:
        self._threads = threads

    async def _run(self, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return await self._on_thread(_prepared(call, *args, **named))

    async def _on_thread(self, call: Callable[[], Any]) -> Any:
        return await self._threads.run(self._threads.plain, call)


def _prepared(call: Callable[..., Any], *args: Any, **named: Any) -> Callable[[], Any]:
    fixed = {name: _fixed(argument) for name, argument in named.items()}
    return partial(call, *map(_fixed, args), **fixed)


class Items:
    """An asynchronous iterator over entries."""

    def __init__(self, owner: _Caller, make: Callable[[], Any]) -> None:
        self._owner = owner
        self._make = make
        self._items: Any = None
        self._ahead: list[Any] = []
        # A fetch that has begun. Its entries are of the iterator, also if the step was cancelled that
        # began it.
        self._fetching: asyncio.Task[Any] | None = None
        self._is_closed = False

    def __aiter__(self) -> Items:
        return self

    async def __anext__(self) -> Any:
        while not self._ahead:
            if self._is_closed:
                raise ClosedError("the iterator is closed")
            if self._fetching is None:
                self._fetching = asyncio.ensure_future(self._owner._run(self._fetch))
            fetching = self._fetching
            try:
                entries = await asyncio.shield(fetching)
            finally:
                # Of several steps that wait for it, the first takes the entries.
                is_first = self._fetching is fetching and fetching.done()
                if is_first and (fetching.cancelled() or fetching.exception() is not None):
                    self._fetching = None
            if is_first:
                self._fetching = None
                if not entries:
                    raise StopAsyncIteration
                entries.reverse()
                self._ahead = entries
        return self._ahead.pop()

    def _fetch(self) -> list[Any]:
        if self._items is None:
            self._items = self._make()
        return list(self._items.fetch(_ENTRIES))

    async def aclose(self) -> None:
        """Frees what the iterator holds. Further steps raise `ClosedError`."""
        self._is_closed = True
        self._ahead = []
        if self._fetching is not None:
            await asyncio.wait([self._fetching])
            self._fetching = None
        if self._items is not None:
            self._items.close()


class _Reads(_Caller):
    """Iteration, which keyspaces, snapshots and transactions share."""

    def __init__(self, threads: _Threads, inner: Any) -> None:
        super().__init__(threads)
        self._inner = inner

    def items(self, **options: Any) -> Items:
        """Iterates over entries, as `esker.Keyspace.items` does."""
        return Items(self, _prepared(self._inner.items, **_plain(options)))

    def keys(self, **options: Any) -> Items:
        """Iterates over keys, as `esker.Keyspace.keys` does."""
        return Items(self, _prepared(self._inner.keys, **_plain(options)))

    def values(self, **options: Any) -> Items:
        """Iterates over values, as `esker.Keyspace.values` does."""
        return Items(self, _prepared(self._inner.values, **_plain(options)))

    async def get_many(self, keys: Any, **options: Any) -> Any:
        """Returns the values of `keys`, with `None` for each key that does not exist."""
        keys = [_fixed(key) for key in keys]
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

    async def put_reader(self, key: Any, file: Any) -> int:
        """Sets `key` to all that `file` has. Its `read` is called on a thread of the database."""
        return int(await self._run(self._inner.put_reader, key, file))

    async def get_reader(self, key: Any) -> ValueReader | None:
        """Returns the value of `key` as a file, or `None`. Its calls block: use `run` for them."""
        reader: ValueReader | None = await self._run(self._inner.get_reader, key)
        return reader

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

    async def clear(self) -> None:
        """Deletes all keys."""
        await self._run(self._inner.clear)

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
        """Closes the database, and ends its threads. Does nothing if it is closed."""
        if not self._threads.is_closed:
            await _whole(self._close())

    async def _close(self) -> None:
        try:
            await self._run(self._inner.close)
        finally:
            self._threads.close()

    async def __aenter__(self) -> Db:
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.close()


class Snapshot(_Reads):
    """A snapshot: `esker.Snapshot` for asyncio."""

    async def get(self, key: Any, default: Any = None, **options: Any) -> Any:
        """Returns the value of `key`, or `default`."""
        return await self._run(self._inner.get, key, default, **_plain(options))

    async def get_reader(self, key: Any, **options: Any) -> ValueReader | None:
        """Returns the value of `key` as a file, whose own calls wait, or `None`."""
        get = self._inner.get_reader
        reader: ValueReader | None = await self._run(get, key, **_plain(options))
        return reader

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

    def __init__(self, threads: _Threads, begin: Callable[[], Any]) -> None:
        super().__init__(threads, None)
        self._begin = begin
        # Calls take turns, so that each knows whether one before it has taken a lock.
        self._turn = asyncio.Lock()
        self._may_hold_locks = False

    async def _on_thread(self, call: Callable[[], Any]) -> Any:
        threads = self._threads
        async with self._turn:
            pool = threads.holding if self._may_hold_locks else threads.waiting
            return await threads.run(pool, call)

    async def _lock(self, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        try:
            return await self._run(call, *args, **_plain(named))
        finally:
            # After a cancellation, too: the call goes on.
            self._may_hold_locks = True

    async def _end(self, call: Callable[..., Any], *args: Any) -> None:
        # It has to go on whoever waits.
        self._may_hold_locks = True
        await _whole(self._run(call, *args))

    async def get(self, key: Any, default: Any = None, **options: Any) -> Any:
        """Returns the value of `key`, or `default`."""
        return await self._run(self._inner.get, key, default, **_plain(options))

    async def get_for_update(self, key: Any, default: Any = None, **options: Any) -> Any:
        """Reads as `get` does, and excludes that others change `key` before the commit."""
        return await self._lock(self._inner.get_for_update, key, default, **options)

    async def put(self, key: Any, value: Any, **options: Any) -> None:
        """Sets `key` to `value`."""
        await self._lock(self._inner.put, key, value, **options)

    async def merge(self, key: Any, operand: Any, **options: Any) -> None:
        """Merges `operand` into the value of `key`, which it reads."""
        await self._lock(self._inner.merge, key, operand, **options)

    async def delete(self, key: Any, **options: Any) -> None:
        """Deletes `key`."""
        await self._lock(self._inner.delete, key, **options)

    async def set_savepoint(self) -> None:
        """Sets a savepoint. Savepoints nest."""
        await self._run(self._inner.set_savepoint)

    async def rollback_to_savepoint(self) -> None:
        """Undoes all writes since the last savepoint, and removes it."""
        await self._run(self._inner.rollback_to_savepoint)

    async def prepare(self, id: Any) -> None:
        """Prepares the transaction under `id`: the first phase of a two-phase commit."""
        await self._end(self._inner.prepare, id)

    async def commit(self) -> None:
        """Commits."""
        await self._end(self._inner.commit)

    async def rollback(self) -> None:
        """Discards all writes."""
        await self._end(self._inner.rollback)

    async def __aenter__(self) -> Transaction:
        self._inner = await self._run(self._begin)
        return self

    async def __aexit__(self, *error: Any) -> None:
        if self._threads.is_closed and error[0] is not None:
            # The database has discarded it, and the block's own error says more.
            return
        await self._end(self._inner.__exit__, *error)


async def open(path: Any, *, threads: int = 16, **options: Any) -> Db:
    """Opens a database as `esker.Db` does, whose calls run on as many threads at most. Transactions that
    wait for row locks have as many of their own."""
    of_database = _Threads(threads)
    try:
        inner = await _Caller(of_database)._run(_esker.Db, path, **options)
    except BaseException:
        of_database.close()
        raise
    return Db(of_database, inner)
