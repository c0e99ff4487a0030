"""The calls for asyncio."""

import asyncio

import pytest
from conftest import SMALL

import esker
import esker.aio


def run(path, body):
    async def main():
        async with await esker.aio.open(path, threads=4, **SMALL) as db:
            return await body(db)

    return asyncio.run(main())


def test_reads_and_writes(tmp_path):
    async def body(db):
        await db.put(b"ada", b"analyst")
        assert await db.get(b"ada") == b"analyst"
        assert await db.get(b"bob", b"none") == b"none"
        assert await db.put_if_absent(b"ada", b"x") == b"analyst"
        assert await db.get_many([b"ada", b"x"]) == [b"analyst", None]
        users = await db.keyspace("users", merge="append")
        await users.merge(b"a", b"1")
        await users.merge(b"a", b"2")
        assert await users.get(b"a") == b"12" and users.name == "users"
        batch = users.batch()
        batch.put(b"b", b"3")
        await users.write(batch)
        assert [key async for key in users.keys()] == [b"a", b"b"]
        await users.delete(b"a")
        await users.delete_range(prefix=b"b")
        assert await users.count() == 0
        await db.drop_keyspace(users)
        await db.sync()
        await db.flush()
        assert await db.get(b"ada") == b"analyst"
        assert await db.run(lambda: db.blocking[b"ada"]) == b"analyst"

    run(tmp_path, body)
    with esker.open(tmp_path) as db:
        assert list(db) == [b"ada"]


def test_iterators_read_all(tmp_path):
    async def body(db):
        for number in range(1000):
            await db.put(b"%04d" % number, b"%d" % number)
        items = [entry async for entry in db.items(start=b"0100")]
        assert items == [(b"%04d" % n, b"%d" % n) for n in range(100, 1000)]
        assert [value async for value in db.values(prefix=b"000", reverse=True)][0] == b"9"
        snapshot = db.snapshot()
        await db.put(b"0000", b"changed")
        async with snapshot:
            assert await snapshot.get(b"0000") == b"0"
        with pytest.raises(esker.ClosedError):
            await snapshot.get(b"0000")

    run(tmp_path, body)


def test_transactions(tmp_path):
    async def body(db):
        users = await db.keyspace("users")
        async with db.transaction() as tx:
            await tx.put(b"n", b"0")
            await tx.put(b"ada", b"analyst", keyspace=users)
            assert await tx.get(b"ada", keyspace=users) == b"analyst"
            assert [key async for key in tx.keys()] == [b"n"]
        with pytest.raises(ZeroDivisionError):
            async with db.transaction() as tx:
                await tx.delete(b"n")
                1 / 0

        async def count(tx):
            await tx.put(b"n", b"%d" % (int(await tx.get_for_update(b"n")) + 1))

        async def work():
            for _ in range(10):
                await db.transact(count, optimistic=True)

        await asyncio.gather(*(work() for _ in range(3)))
        assert await db.get(b"n") == b"30"

    run(tmp_path, body)


def test_a_failed_open_raises(tmp_path):
    async def main():
        await esker.aio.open(tmp_path / "missing", create=False)

    with pytest.raises(esker.NotADatabaseError):
        asyncio.run(main())


def test_a_closed_database_says_so(tmp_path):
    async def main():
        db = await esker.aio.open(tmp_path, **SMALL)
        await db.close()
        assert db.closed
        with pytest.raises(esker.ClosedError):
            await db.get(b"a")

    asyncio.run(main())


def test_closed_calls_and_a_second_close(tmp_path):
    async def main():
        db = await esker.aio.open(tmp_path, **SMALL)
        users = await db.keyspace("users")
        await asyncio.gather(db.close(), db.close())
        await db.close()
        for call in (db.put(b"a", b"b"), users.get_many([b"a"]), db.keyspace("x"), db.flush()):
            with pytest.raises(esker.ClosedError):
                await call
        with pytest.raises(esker.ClosedError):
            async for _ in db.items():
                pass
        with pytest.raises(esker.ClosedError):
            async with db.transaction():
                pass

    asyncio.run(main())


def test_waiters_for_a_lock_do_not_keep_its_holder_from_the_commit(tmp_path):
    tasks = 12

    async def main():
        async with await esker.aio.open(tmp_path, threads=2, **SMALL) as db:

            async def count(tx):
                number = int(await tx.get_for_update(b"n", b"0"))
                # Others run, and wait for the lock.
                for _ in range(10):
                    await asyncio.sleep(0)
                await tx.put(b"n", b"%d" % (number + 1))

            await asyncio.gather(*(db.transact(count, lock_timeout=60) for _ in range(tasks)))
            assert await db.get(b"n") == b"%d" % tasks

    asyncio.run(main())


def test_calls_of_one_transaction_take_turns(tmp_path):
    async def body(db):
        async with db.transaction() as tx:
            await asyncio.gather(*(tx.put(b"%d" % n, b"x") for n in range(50)))
            await tx.set_savepoint()
            await tx.delete(b"1")
            await tx.rollback_to_savepoint()
        assert await db.count() == 50
        await db.clear()
        assert await db.count() == 0

    run(tmp_path, body)


def test_a_cancelled_step_of_an_iterator_loses_nothing(tmp_path):
    async def body(db):
        expected = [b"%04d" % n for n in range(3000)]
        batch = db.batch()
        for key in expected:
            batch.put(key, b"")
        await db.write(batch)
        keys = db.keys()
        read = []
        while True:
            # Cancelled after it has begun.
            step = asyncio.ensure_future(keys.__anext__())
            await asyncio.sleep(0)
            step.cancel()
            try:
                read.append(await step)
            except asyncio.CancelledError:
                pass
            try:
                for _ in range(256):
                    read.append(await keys.__anext__())
            except StopAsyncIteration:
                break
        assert read == expected

    run(tmp_path, body)


def test_steps_of_an_iterator_may_overlap(tmp_path):
    async def body(db):
        for number in range(10):
            await db.put(b"%d" % number, b"")
        keys = db.keys()
        steps = await asyncio.gather(*(keys.__anext__() for _ in range(10)))
        assert steps == [b"%d" % n for n in range(10)]
        with pytest.raises(StopAsyncIteration):
            await keys.__anext__()
        await keys.aclose()
        with pytest.raises(esker.ClosedError):
            await keys.__anext__()

    run(tmp_path, body)


def test_a_cancelled_end_of_a_transaction_releases_its_locks(tmp_path):
    async def body(db):
        async def hold():
            async with db.transaction() as tx:
                await tx.put(b"a", b"1")
                raise ZeroDivisionError

        holder = asyncio.ensure_future(hold())
        while not holder.done():
            await asyncio.sleep(0)
            holder.cancel()
        # Without the lock of the other.
        async with db.transaction(lock_timeout=60) as tx:
            await tx.put(b"a", b"2")
        assert await db.get(b"a") == b"2"

    run(tmp_path, body)


def test_a_snapshot_is_closed_while_a_cancelled_read_of_it_goes_on(tmp_path):
    async def body(db):
        keys = [b"%d" % n for n in range(2000)]
        for key in keys[:100]:
            await db.put(key, key)
        for _ in range(20):
            async with db.snapshot() as snapshot:
                read = asyncio.ensure_future(snapshot.get_many(keys))
                await asyncio.sleep(0)
                read.cancel()
            with pytest.raises(esker.ClosedError):
                await snapshot.get(b"1")

    run(tmp_path, body)


def test_bytes_are_those_of_the_call(tmp_path):
    async def body(db):
        key = bytearray(b"a")
        put = asyncio.ensure_future(db.put(key, memoryview(key)))
        await asyncio.sleep(0)
        key[:] = b"b"
        await put
        assert await db.get(b"a") == b"a"

    run(tmp_path, body)
