"""Batches, snapshots and transactions."""

import threading

import pytest

import esker


def test_a_batch_is_written_at_the_end_of_its_block(db):
    users = db.keyspace("users")
    with db.batch() as batch:
        batch[b"a"] = b"1"
        batch.put(b"ada", b"analyst", keyspace=users)
        batch.put(b"gone", b"", ttl=0)
        assert len(batch) == 3 and db.get(b"a") is None
    assert list(db) == [b"a"] and users[b"ada"] == b"analyst"
    with pytest.raises(ZeroDivisionError):
        with db.batch() as batch:
            del batch[b"a"]
            1 / 0
    assert db[b"a"] == b"1"


def test_a_batch_is_of_its_keyspace(db):
    users = db.keyspace("users")
    batch = users.batch(sync=True)
    batch[b"ada"] = b"analyst"
    other = db.batch()
    other.delete_range(prefix=b"a")
    other.put(b"b", b"2")
    batch.append(other)
    assert batch.nbytes > 0
    batch.write()
    batch.clear()
    batch.write()
    assert len(batch) == 0 and bool(batch)
    assert list(users) == [b"ada"] and list(db) == [b"b"]


def test_a_batch_merges(db):
    words = db.keyspace("words", merge="append")
    with db.batch() as batch:
        batch.merge(b"key", b"a", keyspace=words)
        batch.merge(b"key", b"b", keyspace=words)
    assert words[b"key"] == b"ab"


def test_a_snapshot_stays_as_it_was(db):
    users = db.keyspace("users")
    db[b"a"], users[b"ada"] = b"1", b"analyst"
    with db.snapshot() as before:
        db[b"a"], db[b"b"], users[b"ada"] = b"2", b"3", b"author"
        assert before[b"a"] == b"1" and b"b" not in before
        assert list(before) == [b"a"] == list(before.keys())
        assert before.get(b"ada", keyspace=users) == b"analyst"
        assert before.get_many([b"ada", b"x"], keyspace=users) == [b"analyst", None]
        assert list(before.items(keyspace=users)) == [(b"ada", b"analyst")]
        assert list(before.values(reverse=True)) == [b"1"]
        assert before.get(b"b", b"none") == b"none"
        with pytest.raises(KeyError):
            before[b"b"]
    with pytest.raises(esker.ClosedError):
        before.get(b"a")
    before.close()


def test_a_transaction_commits_or_rolls_back(db):
    users = db.keyspace("users")
    with db.transaction() as tx:
        tx[b"a"] = b"1"
        tx.put(b"ada", b"analyst", keyspace=users)
        assert tx[b"a"] == b"1" and b"a" in tx and b"a" not in db
        assert tx.get(b"ada", keyspace=users) == b"analyst"
    assert db[b"a"] == b"1" and users[b"ada"] == b"analyst"
    with pytest.raises(ZeroDivisionError):
        with db.transaction() as tx:
            del tx[b"a"]
            1 / 0
    assert db[b"a"] == b"1"
    with db.transaction() as tx:
        tx[b"b"] = b"2"
        tx.rollback()
    assert b"b" not in db
    with pytest.raises(esker.TransactionEndedError):
        tx.get(b"a")
    with pytest.raises(esker.TransactionEndedError):
        tx.commit()


def test_an_iterator_of_a_transaction_sees_its_writes(db):
    for number in range(200):
        db[b"%03d" % number] = b""
    with db.transaction() as tx:
        seen = []
        for key in tx.keys():
            seen.append(key)
            if key == b"002":
                tx[b"0025"] = b""
                del tx[b"003"]
        assert seen[:5] == [b"000", b"001", b"002", b"0025", b"004"]
        assert len(seen) == 200
        assert list(tx.keys(reverse=True)) == seen[::-1]
        items = tx.items(prefix=b"00")
        assert next(items) == (b"000", b"")
        tx.rollback()
    with pytest.raises(esker.TransactionEndedError):
        next(items)


def test_an_optimistic_transaction_fails_at_its_commit(db):
    db[b"a"] = b"1"
    tx = db.transaction(optimistic=True)
    assert tx.get_for_update(b"a") == b"1"
    db[b"a"] = b"2"
    tx[b"a"] = b"3"
    with pytest.raises(esker.ConflictError) as conflict:
        tx.commit()
    assert isinstance(conflict.value, esker.TransientError)
    assert db[b"a"] == b"2"


def test_a_lock_is_waited_for_and_no_longer(db):
    with db.transaction() as holder:
        holder[b"a"] = b"1"
        other = db.transaction(lock_timeout=0.01)
        with pytest.raises(TimeoutError) as timeout:
            other[b"a"] = b"2"
        assert isinstance(timeout.value, esker.LockTimeoutError)
    assert db[b"a"] == b"1"


def test_transactions_of_threads_do_not_lose_updates(db):
    db[b"n"] = b"0"

    def count(tx):
        tx[b"n"] = b"%d" % (int(tx.get_for_update(b"n")) + 1)

    def work():
        for _ in range(50):
            db.transact(count, lock_timeout=60)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db[b"n"] == b"200"


def test_transact_runs_again_after_a_conflict(db):
    db[b"n"] = b"0"
    runs = []

    def work(tx):
        value = int(tx.get_for_update(b"n"))
        runs.append(value)
        if len(runs) == 1:
            db[b"n"] = b"10"
        tx[b"n"] = b"%d" % (value + 1)
        return value

    assert db.transact(work, optimistic=True) == 10
    assert runs == [0, 10] and db[b"n"] == b"11"


def test_transact_passes_other_errors_on(db):
    def fails(tx):
        tx[b"a"] = b"1"
        raise ValueError("no")

    with pytest.raises(ValueError):
        db.transact(fails)
    assert b"a" not in db


def test_transact_ends_when_it_always_conflicts(db):
    runs = []

    def conflicts(tx):
        runs.append(tx)
        raise esker.ConflictError("again")

    with pytest.raises(esker.ConflictError):
        db.transact(conflicts)
    assert len(runs) == 100


def test_unknown_options_are_refused(db):
    with pytest.raises(esker.InvalidSettingError, match="snapshot"):
        db.transaction(isolation="none")
    with pytest.raises(TypeError):
        db.transaction(level=1)


def test_savepoints(db):
    with db.transaction() as tx:
        tx[b"a"] = b"1"
        tx.set_savepoint()
        tx[b"b"] = b"2"
        tx.rollback_to_savepoint()
        with pytest.raises(esker.NoSavepointError):
            tx.rollback_to_savepoint()
    assert list(db) == [b"a"]


def test_two_phases(db):
    for key, id in ((b"a", b"order 1"), (b"b", b"order 2")):
        tx = db.transaction()
        tx[key] = b"1"
        tx.prepare(id)
    assert sorted(db.prepared()) == [b"order 1", b"order 2"]
    db.commit_prepared(b"order 1")
    db.rollback_prepared(b"order 2")
    assert list(db) == [b"a"] and db.prepared() == []
    with pytest.raises(esker.PreparedError):
        db.commit_prepared(b"order 3")
