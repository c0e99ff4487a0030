"""Reads and writes of keyspaces."""

import array
import datetime
import mmap

import pytest

import esker


def test_a_keyspace_is_like_a_dictionary(db):
    db[b"ada"] = b"analyst"
    assert db[b"ada"] == b"analyst"
    assert b"ada" in db and b"bob" not in db
    with pytest.raises(KeyError) as missing:
        db[b"bob"]
    assert missing.value.args == (b"bob",)
    del db[b"ada"]
    assert db.get(b"ada") is None
    del db[b"ada"]


def test_a_default_is_returned_as_it_is(db):
    default = object()
    assert db.get(b"ada", default) is default
    assert db.get(b"ada", default=default) is default


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\0", b"k" * 65536])
def test_keys_of_any_bytes(db, key):
    db[key] = b"value"
    assert list(db.items()) == [(key, b"value")]


def test_long_and_empty_values(db):
    for value in (b"", b"x" * 30, b"y" * 31, b"z" * 200_000):
        db[b"key"] = value
        assert db[b"key"] == value
        db.flush()
        assert db[b"key"] == value


def test_buffers_are_copied_in(db):
    key, value = bytearray(b"ada"), bytearray(b"analyst")
    db[key] = value
    key[:], value[:] = b"bob", b"builder"
    assert list(db.items()) == [(b"ada", b"analyst")]
    db[memoryview(b"xadax")[1:4]] = memoryview(b"a-u-t-h-o-r")[::2]
    assert db[b"ada"] == b"author"
    with mmap.mmap(-1, 4) as mapped:
        mapped[:] = b"mmap"
        db[b"mapped"] = mapped
    assert db[b"mapped"] == b"mmap"


@pytest.mark.parametrize("key", ["ada", 7, None, [1, 2], array.array("i", [1])])
def test_what_is_no_bytes_is_refused(db, key):
    for call in (db.get, db.delete, db.__getitem__, db.__contains__):
        with pytest.raises(TypeError):
            call(key)
    with pytest.raises(TypeError):
        db.put(b"key", key)


def test_text_is_refused_with_a_hint(db):
    with pytest.raises(TypeError, match="encode the text"):
        db["ada"]


def test_many_keys_are_read_at_once(many):
    keys = [b"02000", b"missing", b"00000", b"02000"]
    assert many.get_many(iter(keys)) == [b"value 2000", None, b"value 0", b"value 2000"]
    assert many.get_many([]) == []
    with pytest.raises(TypeError):
        many.get_many([b"a", "b"])


def test_entries_expire(db):
    db.put(b"long", b"1", ttl=3600)
    db.put(b"longer", b"2", ttl=datetime.timedelta(days=1))
    db.put(b"gone", b"3", ttl=0)
    assert list(db.keys()) == [b"long", b"longer"]
    with pytest.raises(ValueError):
        db.put(b"negative", b"", ttl=-1)
    with pytest.raises(TypeError):
        db.put(b"text", b"", ttl="1h")


def test_ranges_are_deleted_and_counted(many):
    assert many.count() == 3000
    assert many.count(prefix=b"000") == 100
    assert many.count(start=b"00010", end=b"00020") == 10
    assert many.count(start=b"2", end=b"1") == 0
    many.delete_range(prefix=b"000")
    assert many.count() == 2900
    many.delete_range(start=b"02", end=b"025")
    assert many.count() == 2400
    with pytest.raises(esker.InvalidArgumentError):
        many.delete_range(start=b"2", end=b"1")
    many.clear()
    assert list(many) == []


def test_keyspaces_are_separate_and_can_be_dropped(db):
    users = db.keyspace("users", compression="zstd")
    users[b"ada"] = b"analyst"
    assert b"ada" not in db
    assert users.name == "users" and db.name == "default"
    assert db.keyspace("users") == users != db
    assert len({db.keyspace("users"), users, db}) == 2
    with pytest.raises(esker.KeyspaceSettingsDifferError):
        db.keyspace("users", compression="none")
    db.drop_keyspace(users)
    with pytest.raises(esker.UnknownKeyspaceError):
        users[b"ada"]
    with pytest.raises(LookupError):
        db.drop_keyspace("users")
    with pytest.raises(esker.BadKeyspaceNameError):
        db.drop_keyspace("default")


def test_a_put_if_absent_returns_what_is_there(db):
    assert db.put_if_absent(b"job", b"1") is None
    assert db.put_if_absent(b"job", b"2") == b"1"
    assert db[b"job"] == b"1"


def test_merges_need_an_operator(db):
    with pytest.raises(esker.MergeError):
        db.merge(b"key", b"1")
    words = db.keyspace("words", merge="append")
    words.merge(b"key", b"a")
    words.merge(b"key", b"b")
    assert words[b"key"] == b"ab"


def test_messages_name_the_reason(db):
    day = datetime.timedelta(days=1)
    for ttl, error, reason in [
        (-day, ValueError, "negative"),
        (True, TypeError, "bool"),
        ("1h", TypeError, "str"),
    ]:
        with pytest.raises(error, match=reason):
            db.put(b"a", b"", ttl=ttl)
    with pytest.raises(TypeError, match="cast it to bytes"):
        db.put(memoryview(b"abcdabcd").cast("I"), b"")
    for number in (-1, 1.5):
        with pytest.raises(esker.InvalidSettingError, match=str(number)):
            db.set("background_threads", number)


def test_a_part_of_a_millisecond_is_kept(db):
    db.set("slow_call", datetime.timedelta(microseconds=1500))
    assert db.settings()["slow_call"] == "1500us"
