"""A program that mypy checks: its types are those of the stubs."""

from datetime import timedelta
from pathlib import Path
from typing import assert_type

import esker
import esker.aio
from esker import plyvel


def reads(path: Path) -> None:
    with esker.open(path, memory_bytes="64MiB", default={"ttl": timedelta(days=1)}) as db:
        assert_type(db, esker.Db)
        assert_type(db[b"a"], bytes)
        assert_type(db.get(b"a"), bytes | None)
        assert_type(db.get(b"a", 7), bytes | int)
        assert_type(db.get_view(b"a"), memoryview | None)
        assert_type(db.get_many([b"a", bytearray()]), list[bytes | None])
        assert_type(db.get_reader(b"a"), esker.ValueReader | None)
        assert_type(list(db), list[bytes])
        assert_type(list(db.items(prefix=b"a")), list[tuple[bytes, bytes]])
        assert_type(db.values().prev(), bytes)
        users = db.keyspace("users", compression="zstd")
        assert_type(users, esker.Keyspace)
        db.drop_keyspace(users)


def writes(db: esker.Db) -> None:
    db.put(b"a", memoryview(b"1"), ttl=3.5, sync=True)
    with open("film", "rb") as film:
        assert_type(db.put_reader(b"film", film), int)
    with db.batch() as batch:
        batch[b"a"] = b"1"
    with db.transaction(isolation="serializable") as tx:
        assert_type(tx.get_for_update(b"a", b"0"), bytes)
    assert_type(db.transact(lambda tx: tx.get(b"a")), bytes | None)
    db.get("text")  # type: ignore[call-overload]
    db.transaction(isolation="none")  # type: ignore[arg-type]


def errors() -> None:
    try:
        esker.open("data")
    except esker.LockedError as error:
        assert_type(error, esker.LockedError)


async def asynchronous() -> None:
    async with await esker.aio.open("data") as db:
        await db.put(b"a", b"1")


def old(db: plyvel.DB) -> None:
    with db.write_batch(transaction=True) as batch:
        batch.put(b"a", b"1")
