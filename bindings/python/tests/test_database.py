"""Opening, settings, upkeep, and what is refused."""

import copy
import gc
import os
import pickle
import threading

import pytest
from conftest import SMALL

import esker
from esker import plyvel


def test_data_is_there_after_a_close(tmp_path):
    with esker.open(tmp_path, **SMALL) as db:
        db[b"ada"] = b"analyst"
        assert not db.closed and db.path == tmp_path
    assert db.closed
    db.close()
    with esker.open(str(tmp_path), create=False) as db:
        assert db[b"ada"] == b"analyst"


def test_data_is_there_without_a_close(tmp_path):
    db = esker.open(tmp_path, **SMALL)
    db[b"ada"] = b"analyst"
    del db
    gc.collect()
    with esker.open(tmp_path) as db:
        assert db[b"ada"] == b"analyst"


def test_opens_that_fail(tmp_path):
    with pytest.raises(esker.NotADatabaseError):
        esker.open(tmp_path / "missing", create=False)
    (tmp_path / "000001.sst").write_bytes(b"")
    (tmp_path / "CURRENT").write_bytes(b"MANIFEST-000001\n")
    with pytest.raises(esker.OpenError):
        esker.open(tmp_path)
    with pytest.raises(TypeError):
        esker.open(7)
    with esker.open(tmp_path / "data", **SMALL):
        with pytest.raises(esker.LockedError):
            esker.open(tmp_path / "data")
    file = tmp_path / "file"
    file.write_bytes(b"")
    with pytest.raises(OSError) as error:
        esker.open(file)
    assert isinstance(error.value, esker.EskerError)


def test_settings(tmp_path):
    with pytest.raises(esker.InvalidSettingError, match="memory_bytes"):
        esker.open(tmp_path / "a", memory_byte=1)
    with pytest.raises(ValueError, match="files"):
        esker.open(tmp_path / "a", sync="always", log="none")
    with pytest.raises(esker.InvalidSettingError, match="slow_call"):
        esker.open(tmp_path / "a", slow_call=[])
    with pytest.raises(esker.InvalidSettingError, match="default.compression"):
        esker.open(tmp_path / "a", default={"compression": "gzip"})
    settings = {"direct_reads": False, "segment_bytes": 1 << 20, "background_threads": 1}
    with esker.open(tmp_path / "b", **settings, default={"compression": "zstd"}) as db:
        assert db.settings()["default.compression"] == "zstd"
        assert db.settings()["background_threads"] == "1"
        db.set("background_write_rate", "20MiB")
        db.set("default.compression", None)
        assert db.settings()["default.compression"] == "none"
        with pytest.raises(esker.InvalidSettingError):
            db.set("background_write_rat", "20MiB")


def test_a_reader_and_a_follower(tmp_path):
    with esker.open(tmp_path, **SMALL) as db:
        db[b"a"] = b"1"
        with esker.open(tmp_path, read_only=True) as reader:
            follower = esker.open(tmp_path, follow=0)
            db[b"b"] = b"2"
            assert list(reader) == [b"a"]
            follower.catch_up()
            assert list(follower) == [b"a", b"b"]
            follower.close()
            with pytest.raises(esker.ReadOnlyError):
                reader[b"c"] = b"3"
            with pytest.raises(esker.EskerError):
                reader.catch_up()


def test_upkeep(many, tmp_path):
    many.sync()
    many.flush()
    many.compact()
    many.keyspace("users").compact()
    many.checkpoint(tmp_path / "copy")
    with esker.open(tmp_path / "copy") as copied:
        assert copied.count() == 3000
    stats = many.stats()
    assert stats["writes"] == 3000
    assert "writes" in many.stats_text()
    assert 'database="main"' in many.prometheus("main")
    assert 2500 <= many.approximate_len() <= 3500


def test_backups(db, tmp_path):
    repository = tmp_path / "backups"
    db[b"a"] = b"1"
    first = db.backup(repository)
    db[b"a"] = b"2"
    second = db.backup(repository)
    listed = esker.backups(repository)
    assert [number for number, _, _ in listed] == [first, second]
    assert all(begun > 1e9 and size > 0 for _, begun, size in listed)
    esker.restore(repository, tmp_path / "old", first)
    esker.restore(repository, tmp_path / "new")
    for name, value in (("old", b"1"), ("new", b"2")):
        with esker.open(tmp_path / name) as restored:
            assert restored[b"a"] == value
    esker.prune_backups(repository, 1)
    assert [number for number, _, _ in esker.backups(repository)] == [second]
    with pytest.raises(esker.BackupError):
        esker.restore(repository, tmp_path / "gone", first)
    with pytest.raises(esker.EskerError):
        esker.backups(tmp_path / "none")


def test_a_repair_keeps_what_is_there(tmp_path):
    with esker.open(tmp_path, **SMALL) as db:
        db[b"a"] = b"1"
    esker.repair(tmp_path)
    with esker.open(tmp_path) as db:
        assert db[b"a"] == b"1"


def test_a_closed_database_says_so(db):
    users = db.keyspace("users")
    snapshot, batch, tx = db.snapshot(), db.batch(), db.transaction()
    batch[b"a"] = b"1"
    db.close()
    calls = [
        lambda: db[b"a"],
        lambda: users.get(b"a"),
        lambda: db.put(b"a", b"1"),
        lambda: db.put(b"a", b"1", sync=True),
        lambda: b"a" in db,
        lambda: list(users),
        lambda: snapshot.get(b"a"),
        lambda: list(snapshot),
        batch.write,
        lambda: tx.get(b"a"),
        db.flush,
        db.keyspaces,
        db.snapshot,
        db.transaction,
        db.stats,
    ]
    for call in calls:
        with pytest.raises(esker.ClosedError):
            call()
    assert issubclass(esker.ClosedError, RuntimeError)


def test_a_handle_of_another_database_is_refused(db, tmp_path):
    with esker.open(tmp_path / "other", **SMALL) as other:
        with pytest.raises(esker.ForeignHandleError):
            db.drop_keyspace(other.keyspace("users"))
        with db.snapshot() as snapshot:
            with pytest.raises(esker.ForeignHandleError):
                snapshot.get(b"a", keyspace=other)
        batch = db.batch()
        batch.put(b"a", b"1", keyspace=other)
        with pytest.raises(esker.ForeignHandleError):
            batch.write()


def test_a_forked_child_is_refused(db):
    db[b"a"] = b"1"
    child = os.fork()
    if child == 0:
        try:
            db[b"a"]
        except esker.ForkedError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert db[b"a"] == b"1"


def test_nothing_is_pickled_or_copied(db):
    things = [db, db.keyspace("users"), db.batch(), db.snapshot(), db.transaction(), db.items()]
    for thing in things:
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(TypeError, match="pickled"):
                pickle.dumps(thing, protocol)
        for copier in (copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="pickled"):
                copier(thing)


def test_errors_can_be_pickled():
    error = pickle.loads(pickle.dumps(esker.LockTimeoutError("too long")))
    assert isinstance(error, TimeoutError) and str(error) == "too long"


def test_what_is_too_large_is_refused(db):
    with pytest.raises(esker.TooLargeError):
        db[b"k" * 65537] = b""
    with pytest.raises(ValueError):
        db.put_if_absent(b"k", b"v" * (1 << 20))


def test_what_is_shown(db):
    users = db.keyspace("users")
    users[b"<ada>"] = b"x" * 100
    assert repr(db).startswith("<esker.Db ") and repr(db).endswith('data">')
    assert "users" in repr(users)
    with db.transaction() as tx:
        assert "active" in repr(tx)
    assert "committed" in repr(tx)
    assert repr(db.batch()) == "<esker.Batch of 0 writes>"
    page = users._repr_html_()
    assert "&lt;ada&gt;" in page and "x" * 60 + "…" in page and "x" * 61 not in page
    assert "users" in db._repr_html_()
    for number in range(20):
        users[b"%d" % number] = b""
    assert "21 keys" in users._repr_html_()
    db.close()
    assert repr(db).endswith(", closed>") and "closed" in db._repr_html_()


def test_threads_share_a_database(db):
    """Each thread reads what it has written, while the others write and flush."""

    def work(number):
        try:
            own = db.keyspace(f"own {number}")
            for step in range(300):
                own[b"%d" % step] = b"%d" % number
                assert own[b"%d" % (step // 2)] == b"%d" % number
                if step % 100 == 0:
                    db.flush()
                    assert own.count() == step + 1 == len(list(own.items()))
        except BaseException as error:
            failures.append(error)

    failures = []
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_reference_cycle_is_collected(tmp_path):
    class Own(esker.Db):
        pass

    for hold in (esker.Db.snapshot, esker.Db.transaction, esker._esker.PlyvelDb):
        db = Own(tmp_path, **SMALL)
        db.held = hold(db)
        del db
        gc.collect()
        esker.open(tmp_path, **SMALL).close()


def test_a_snapshot_is_closed_while_other_threads_read(db):
    for number in range(1000):
        db[b"%d" % number] = b"x"
    keys = [b"%d" % number for number in range(1000)]
    for _ in range(20):
        snapshot = db.snapshot()
        errors = []

        def read():
            try:
                while True:
                    snapshot.get_many(keys)
            except Exception as error:
                errors.append(type(error))

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        snapshot.close()
        for thread in threads:
            thread.join()
        assert errors == [esker.ClosedError] * 2


def test_a_destroyed_database_leaves_no_files(tmp_path):
    path = tmp_path / "data"
    with esker.open(path, default={"separation_threshold": "1KiB"}, **SMALL) as db:
        db[b"long"] = bytes(100_000)
        db.flush()
    assert list(path.glob("*.values"))
    plyvel.destroy_db(str(path))
    assert not path.exists()
