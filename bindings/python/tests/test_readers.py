"""Values that are put from files, and read as files."""

import asyncio
import io
import pathlib
import shutil
import sys
import threading
import time

import pytest

import esker
import esker.aio


def value(size):
    return bytes(at // 7 % 256 for at in range(size))


# The last two are larger than an entry of the log.
@pytest.mark.parametrize("size", [0, 1, 100, 200_000, 1_500_000, 3_000_000])
def test_values_of_any_size(db, size):
    assert db.put_reader(b"film", io.BytesIO(value(size))) == size
    assert db[b"film"] == value(size)
    with db.get_reader(b"film") as film:
        assert film.size == size and film.readable() and film.seekable() and not film.writable()
        assert film.read() == value(size) and film.read() == b"" == film.read(5)
        assert film.seek(size // 2) == film.tell() == size // 2
        assert film.read(9) == value(size)[size // 2 :][:9]
        assert film.seek(-min(5, size), io.SEEK_END) == max(size - 5, 0)
        assert film.read(-1) == value(size)[-5:]
        assert film.seek(5, io.SEEK_CUR) == size + 5 and film.read(7) == b""
    assert film.closed and "closed" in repr(film)


def test_a_reader_is_a_file(db, tmp_path):
    text = "".join(f"line {number} é\n" for number in range(100_000))
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text(text, encoding="utf-8")
    with source.open("rb") as file:
        db.put_reader(bytearray(b"text"), file)
    with db.get_reader(b"text") as film, target.open("wb") as file:
        shutil.copyfileobj(film, file)
    assert target.read_bytes() == source.read_bytes()
    with io.TextIOWrapper(db.get_reader(b"text"), encoding="utf-8") as lines:
        assert list(lines) == text.splitlines(keepends=True)
    with db.get_reader(b"text") as film:
        assert film.readline() == b"line 0 \xc3\xa9\n"
        assert film.peek(4)[:4] == b"line" and film.tell() == 10
        part = bytearray(6)
        assert film.readinto(part) == 6 and part == b"line 1"
        assert 0 < len(film.read1()) and len(film.read1(3)) == 3
    with io.BufferedReader(db.get_reader(b"text")) as film:
        assert film.read() == source.read_bytes()


def test_a_look_ahead_stays_in_the_part_in_memory(db):
    db.put_reader(b"film", io.BytesIO(value(3_000_000)))
    film = db.get_reader(b"film")
    part = 256 << 10
    film.seek(part - 10)
    assert film.peek() == value(3_000_000)[part - 10 : part]
    film.seek(part)
    assert len(film.peek(9)) >= 9
    # All lines, and then the end, where the whole value is checked.
    film.seek(0)
    assert b"".join(film) == value(3_000_000)


def test_a_reader_keeps_its_value(db):
    db.put_reader(b"film", io.BytesIO(value(3_000_000)))
    with db.snapshot() as before:
        db[b"film"] = b"new"
        film, other = before.get_reader(b"film"), db.get_reader(b"film")
        assert before.get_reader(b"none") is None
        assert before.get_reader(b"film", keyspace=db.keyspace("users")) is None
    db.compact()
    assert film.read() == value(3_000_000) and other.read() == b"new"
    assert db.get_reader(b"none") is None
    film.seek(0)
    db.close()
    with pytest.raises(esker.ClosedError):
        film.read(1)
    film.close()
    for call in (film.read, film.tell, film.peek, lambda: film.seek(0), lambda: film.size):
        with pytest.raises(esker.ClosedError, match="the reader is closed"):
            call()


def test_a_closed_reader_fails_as_other_files_do(db):
    db[b"film"] = b"line"
    film = db.get_reader(b"film")
    film.close()
    film.close()
    calls = [film.read, film.read1, film.peek, film.readline, film.readlines, film.tell]
    calls += [film.readable, film.seekable, film.__enter__, film.__iter__]
    calls += [lambda: film.readinto(bytearray(1)), lambda: film.seek(0), lambda: film.size]
    for call in [*calls, lambda: next(film)]:
        with pytest.raises(ValueError, match="closed"):
            call()


def test_a_position_is_waited_for_without_the_interpreters_lock(db):
    """While a thread asks for the position, and another one reads, a third one goes on."""
    db.put_reader(b"film", io.BytesIO(bytes(30_000_000)))
    film = db.get_reader(b"film")
    steps, went_on, ended = 0, False, threading.Event()

    def read():
        while not ended.is_set():
            film.seek(0)
            film.read()

    def ask():
        nonlocal went_on
        # Threads change only where one gives the interpreter's lock away.
        for _ in range(1000):
            before = steps
            film.tell()
            if steps != before:
                went_on = True
                break
        ended.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        threads = [threading.Thread(target=target) for target in (read, ask)]
        for thread in threads:
            thread.start()
        while not ended.is_set():
            steps += 1
            time.sleep(0)
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert went_on


class Failing:
    """A file whose second read fails, or returns what it must not."""

    def __init__(self, second):
        self.second = second
        self.reads = 0

    def read(self, size):
        self.reads += 1
        if self.reads == 1:
            return bytes(size)
        if isinstance(self.second, BaseException):
            raise self.second
        return self.second(size)


@pytest.mark.parametrize(
    ("second", "error"),
    [
        (OSError("the disk"), OSError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (lambda size: "text", TypeError),
        (lambda size: None, TypeError),
        (lambda size: bytes(size + 1), ValueError),
    ],
    ids=str,
)
def test_a_file_that_fails_changes_nothing(db, second, error):
    db[b"film"] = b"before"
    with pytest.raises(error):
        db.put_reader(b"film", Failing(second))
    assert db[b"film"] == b"before"
    with pytest.raises(AttributeError):
        db.put_reader(b"film", b"bytes")


def test_a_file_may_use_the_database(db):
    """The call holds neither the interpreter's lock nor one of the engine while it reads."""

    class Reading:
        parts = 5

        def read(self, size):
            self.parts -= 1
            other = threading.Thread(target=lambda: db.put(b"%d" % self.parts, b"x" * 1000))
            other.start()
            other.join()
            db.put_reader(b"inner", io.BytesIO(bytes(2_000_000)))
            return bytes(size) if self.parts > 0 else b""

    size = db.put_reader(b"outer", Reading())
    assert db.get_reader(b"outer").size == size and db[b"0"] == b"x" * 1000


def test_positions_that_cannot_be_are_refused(db):
    db[b"k"] = b"value"
    with db.get_reader(b"k") as film:
        for offset, whence in ((-1, 0), (-6, 2), (0, 3)):
            with pytest.raises(ValueError):
                film.seek(offset, whence)
        assert film.tell() == 0


def test_damage_is_found(db):
    db.put_reader(b"film", io.BytesIO(value(3_000_000)))
    files = sorted(pathlib.Path(db.path).iterdir(), key=lambda file: file.stat().st_size)
    with files[-1].open("r+b") as file:
        file.seek(2_000_000)
        byte = file.read(1)
        file.seek(2_000_000)
        file.write(bytes([byte[0] ^ 1]))
    with db.get_reader(b"film") as film:
        with pytest.raises(esker.CorruptionError):
            film.read()
        assert film.tell() == 0 and film.read(100) == value(100)


def test_asyncio(tmp_path):
    async def main():
        async with await esker.aio.open(tmp_path / "data") as db:
            assert await db.put_reader(b"film", io.BytesIO(value(3_000_000))) == 3_000_000
            film = await db.get_reader(b"film")
            assert film.read() == value(3_000_000)
            assert await db.get_reader(b"none") is None
            async with db.snapshot() as before:
                await db.put(b"film", b"new")
                film = await before.get_reader(b"film")
                assert film.read() == value(3_000_000)

    asyncio.run(main())
