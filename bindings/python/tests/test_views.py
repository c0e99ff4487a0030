"""Memory that is lent: views and Arrow."""

import gc

import pytest

import esker


@pytest.mark.parametrize("length", [0, 1, 30, 31, 5000, 100_000])
def test_a_view_is_the_value_and_outlives_all(db, length):
    value = bytes(n % 251 for n in range(length))
    db[b"key"] = value
    in_memory = db.get_view(b"key")
    db.flush()
    in_table = db.get_view(b"key")
    db[b"key"] = b"other"
    db.compact()
    db.close()
    gc.collect()
    for view in (in_memory, in_table):
        assert view == value and view.readonly and view.nbytes == length
        assert view.contiguous and view.format == "B" and view.ndim == 1
        with pytest.raises(TypeError):
            view[0:0] = b""


def test_a_view_of_no_value_is_none(db):
    assert db.get_view(b"missing") is None


def test_arrow(many):
    pa = pytest.importorskip("pyarrow")
    reader = many.to_arrow(1000)
    assert reader.schema == pa.schema(
        [pa.field("key", pa.binary(), False), pa.field("value", pa.binary(), False)]
    )
    batches = list(reader)
    assert [batch.num_rows for batch in batches] == [1000, 1000, 1000]
    for batch in batches:
        batch.validate(full=True)
    table = pa.Table.from_batches(batches)
    many.close()
    assert table.column("key").to_pylist() == [b"%05d" % n for n in range(3000)]
    assert table.column("value").to_pylist() == [b"value %d" % n for n in range(3000)]


def test_arrow_of_a_range_and_of_columns(many):
    pytest.importorskip("pyarrow")
    last = many.to_arrow(7, start=b"02990", reverse=True).read_all()
    assert last.column("key").to_pylist() == [b"%05d" % n for n in range(2999, 2989, -1)]
    keys = many.keys(prefix=b"0000").to_arrow().read_all()
    assert keys.column_names == ["key"] and keys.num_rows == 10
    values = many.values(prefix=b"0000").to_arrow(3).read_all()
    assert values.column_names == ["value"] and values.num_rows == 10
    assert many.to_arrow(prefix=b"x").read_all().num_rows == 0
    with pytest.raises(ValueError):
        many.to_arrow(0)


def test_arrow_goes_on_where_an_iterator_is(many):
    pytest.importorskip("pyarrow")
    items = many.items()
    for _ in range(30):
        next(items)
    rest = items.to_arrow(100).read_all()
    rest.validate(full=True)
    assert rest.column("key").to_pylist() == [b"%05d" % n for n in range(30, 3000)]


def test_arrow_reads_a_transaction(db):
    pytest.importorskip("pyarrow")
    db[b"a"] = b"1"
    with db.transaction() as tx:
        tx[b"b"] = b"2"
        rows = tx.items().to_arrow().read_all().to_pylist()
    assert rows == [{"key": b"a", "value": b"1"}, {"key": b"b", "value": b"2"}]


def test_arrow_without_values_has_empty_columns(db):
    pytest.importorskip("pyarrow")
    db[b""] = b""
    table = db.to_arrow().read_all()
    assert table.to_pylist() == [{"key": b"", "value": b""}]


def test_arrow_of_a_closed_database(many):
    pytest.importorskip("pyarrow")
    reader = many.to_arrow(100)
    reader.read_next_batch()
    many.close()
    with pytest.raises(esker.ClosedError):
        reader.read_next_batch()
