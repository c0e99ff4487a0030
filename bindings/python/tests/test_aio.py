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
