"""Iterators."""

import itertools
import random

import pytest

import esker


def test_bounds(db):
    names = [b"a1", b"a2", b"b1", b"b2", b"\xff", b"\xff\xff"]
    for name in names:
        db[name] = name.upper()

    def keys(**bounds):
        forward = list(db.keys(**bounds))
        assert list(db.keys(**bounds, reverse=True)) == forward[::-1]
        assert list(db.values(**bounds)) == [key.upper() for key in forward]
        return forward

    assert keys() == names
    assert keys(prefix=b"a") == [b"a1", b"a2"]
    assert keys(prefix=b"\xff") == [b"\xff", b"\xff\xff"]
    assert keys(start=b"a2", end=b"b2") == [b"a2", b"b1"]
    assert keys(prefix=b"a", start=b"a2") == [b"a2"]
    assert keys(prefix=b"a", start=b"0") == [b"a1", b"a2"]
    assert keys(prefix=b"a", end=b"a2") == [b"a1"]
    assert keys(prefix=b"a", end=b"z") == [b"a1", b"a2"]
    assert keys(prefix=b"a", start=b"b") == []
    assert keys(start=b"b", end=b"a") == keys(start=b"a", end=b"a") == keys(end=b"") == []


def test_an_iterator_sees_one_snapshot(many):
    items = many.items()
    assert next(items) == (b"00000", b"value 0")
    many[b"00001"] = b"changed"
    del many[b"02999"]
    many.flush()
    rest = list(items)
    assert rest[0] == (b"00001", b"value 1") and rest[-1][0] == b"02999"
    assert len(rest) == 2999


def test_an_iterator_goes_both_ways(many):
    it = many.keys()
    with pytest.raises(StopIteration):
        it.prev()
    assert [next(it) for _ in range(50)] == [b"%05d" % n for n in range(50)]
    assert [it.prev() for _ in range(50)] == [b"%05d" % n for n in range(49, -1, -1)]
    it.seek(b"02000")
    assert it.prev() == b"01999" and next(it) == b"01999" and next(it) == b"02000"
    it.seek_to_stop()
    assert next(it, None) is None and it.prev() == b"02999"
    it.seek_to_start()
    assert next(it) == b"00000"
    back = many.keys(reverse=True)
    assert next(back) == b"02999"
    back.seek(b"00100")
    assert next(back) == b"00099" and back.prev() == b"00099" and back.prev() == b"00100"


def test_random_moves_agree_with_a_list(many):
    """A gap in a sorted list is the model."""
    rng = random.Random(7)
    keys = [b"%05d" % n for n in range(500, 2500)]
    for is_reverse in (False, True):
        it = many.keys(start=keys[0], end=b"02500", reverse=is_reverse)
        gap = len(keys) if is_reverse else 0
        for _ in range(3000):
            move = rng.choices(["next", "prev", "seek", "start", "stop"], [50, 30, 5, 1, 1])[0]
            if move == "seek":
                target = rng.randrange(400, 2600)
                it.seek(b"%05d" % target)
                gap = min(max(target - 500, 0), len(keys))
                continue
            if move in ("start", "stop"):
                getattr(it, f"seek_to_{move}")()
                gap = 0 if move == "start" else len(keys)
                continue
            for _ in range(rng.choice([1, 1, 1, 40])):
                is_back = (move == "prev") != is_reverse
                expected = None
                if is_back and gap > 0:
                    gap -= 1
                    expected = keys[gap]
                elif not is_back and gap < len(keys):
                    expected = keys[gap]
                    gap += 1
                try:
                    found = next(it) if move == "next" else it.prev()
                except StopIteration:
                    found = None
                assert found == expected


def test_an_iterator_that_ended_stays_ended(db):
    db[b"a"] = b"1"
    it = db.keys()
    assert list(it) == [b"a"]
    db[b"b"] = b"2"
    assert list(it) == []


def test_fetch(many):
    it = many.keys(start=b"02990")
    assert it.fetch(4) == [b"02990", b"02991", b"02992", b"02993"]
    assert len(it.fetch(100)) == 6
    assert it.fetch(1) == []


def test_large_values_are_read_one_by_one(db):
    values = [bytes([n]) * 100_000 for n in range(20)]
    for number, value in enumerate(values):
        db[b"%02d" % number] = value
    assert list(db.values()) == values
    assert list(db.values(reverse=True)) == values[::-1]


def test_a_closed_iterator_says_so(many):
    with many.keys() as it:
        next(it)
    for call in (it.__next__, it.prev, it.seek_to_start, lambda: it.seek(b"")):
        with pytest.raises(esker.ClosedError):
            call()


def test_an_iterator_of_a_closed_database_says_so(many):
    it = many.keys()
    next(it)
    many.close()
    with pytest.raises(esker.ClosedError):
        next(it)
    with pytest.raises(esker.ClosedError):
        many.keys()


def test_iterators_in_loops_do_not_add_up(many):
    for _ in range(300):
        assert len(list(itertools.islice(many.items(), 3))) == 3
