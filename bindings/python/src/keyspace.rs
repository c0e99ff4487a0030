//! What Python calls of a keyspace.

use crate::batch::Batch;
use crate::errors::OrRaise;
use crate::handle::Keyspace;
use crate::input::{Bounds, Input, Seconds, is_empty, keys_of};
use crate::items::{From, Items, What};
use crate::output::{list, or_default, or_key_error};
use crate::reader::{RawReader, put_from};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use crate::transaction_state::options;
use crate::view::View;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMemoryView};

impl Keyspace {
    fn iterate(
        &self,
        py: Python<'_>,
        what: What,
        bounds: Bounds<'_>,
        reverse: bool,
    ) -> PyResult<Items> {
        Items::new(py, (From::Newest, self), bounds.range(), (what, reverse))
    }
}

#[pymethods]
impl Keyspace {
    /// The name.
    #[getter]
    fn name(&self) -> &str {
        self.keyspace.name()
    }

    /// Returns the value of `key`, or `default` if the key does not exist.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Input<'_>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Ok(or_default(py, self.read(py, &key)?, default))
    }

    /// Returns the value of `key` as a read-only `memoryview`, or `None`.
    ///
    /// A long value is not copied: the view keeps the block in memory that has it.
    ///
    /// >>> db[b"ada"] = b"analyst"
    /// >>> bytes(db.get_view(b"ada")[:3])
    /// b'ana'
    fn get_view<'py>(
        &self,
        py: Python<'py>,
        key: Input<'_>,
    ) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
        self.read(py, &key)?.map(|value| View::over(py, value)).transpose()
    }

    /// Returns the values of `keys` at one snapshot, in their order, with `None` for each key that does
    /// not exist. Faster than as many calls of `get` if the values are not in memory.
    ///
    /// >>> db[b"ada"] = b"analyst"
    /// >>> db.get_many([b"ada", b"bob"])
    /// [b'analyst', None]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let objects = keys_of(&keys)?;
        let keys: Vec<Input<'_>> =
            objects.iter().map(|key| key.extract()).collect::<PyResult<_>>()?;
        let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
        list(py, py.detach(|| self.keyspace.multi_get(keys)).or_raise()?)
    }

    /// Returns the value of `key` if it is in memory, without a wait for the device.
    #[pyo3(signature = (key, default = None))]
    fn _try_get<'py>(
        &self,
        py: Python<'py>,
        key: Input<'_>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Ok(or_default(py, self.keyspace.try_get(&*key).or_raise()?, default))
    }

    #[inline]
    fn __getitem__<'py>(&self, py: Python<'py>, key: Input<'_>) -> PyResult<Bound<'py, PyBytes>> {
        or_key_error(py, self.read(py, &key)?, &key)
    }

    #[inline]
    fn __setitem__(&self, py: Python<'_>, key: Input<'_>, value: Input<'_>) -> PyResult<()> {
        self.put_synced(py, &key, &value, false)
    }

    /// Deletes the key, and raises no `KeyError` if it does not exist: that would take a read.
    #[inline]
    fn __delitem__(&self, py: Python<'_>, key: Input<'_>) -> PyResult<()> {
        self.delete_synced(py, &key, false)
    }

    fn __contains__(&self, py: Python<'_>, key: Input<'_>) -> PyResult<bool> {
        Ok(self.read(py, &key)?.is_some())
    }

    /// Iterates over the keys.
    fn __iter__(&self, py: Python<'_>) -> PyResult<Items> {
        self.iterate(py, What::Keys, Bounds(None, None, None), false)
    }

    /// Sets `key` to `value`.
    ///
    /// With `ttl`, a `timedelta` or a number of seconds, the key exists for that time. With `sync`, the
    /// write survives power loss when the call returns, whatever the setting `sync` is.
    ///
    /// >>> db.put(b"session", b"ada", ttl=3600)
    /// >>> db.put(b"order", b"7", sync=True)
    #[pyo3(signature = (key, value, *, ttl = None, sync = false))]
    fn put(
        &self,
        py: Python<'_>,
        key: Input<'_>,
        value: Input<'_>,
        ttl: Option<Seconds>,
        sync: bool,
    ) -> PyResult<()> {
        match ttl {
            None => self.put_synced(py, &key, &value, sync),
            Some(Seconds(ttl)) => self.write(py, sync, |batch| {
                batch.put_with_ttl(&self.keyspace, &*key, &*value, ttl);
            }),
        }
    }

    /// Sets `key` to all that `file` has from its position on, at most 4 GiB, and returns how many bytes
    /// that is. `file` is open for reading bytes, or another object with such a method `read`.
    ///
    /// The value is not held in memory: a large one is written a part at a time, becomes visible at
    /// once, and survives power loss when the call returns. After an exception the key is as it was.
    ///
    /// >>> import io
    /// >>> db.put_reader(b"film", io.BytesIO(bytes(3_000_000)))
    /// 3000000
    fn put_reader(&self, py: Python<'_>, key: Input<'_>, file: Bound<'_, PyAny>) -> PyResult<u64> {
        let key = &*key;
        put_from(py, file, |reader| self.keyspace.put_reader(key, reader))
    }

    /// Returns the value of `key` as a file that is open for reading, an `esker.ValueReader`, or `None`.
    ///
    /// A large value is read a part at a time. What the file has never changes, also if the key is
    /// overwritten meanwhile. Close it, or leave its `with` block, when it is no longer needed.
    ///
    /// >>> db[b"song"] = b"la la la"
    /// >>> with db.get_reader(b"song") as song:
    /// ...     song.seek(3), song.read(2), song.read()
    /// (3, b'la', b' la')
    fn get_reader<'py>(
        &self,
        py: Python<'py>,
        key: Input<'_>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = &*key;
        RawReader::over(py, py.detach(|| self.keyspace.get_reader(key)).or_raise()?)
    }

    /// Sets `key` to `value` if the key does not exist, and returns `None`. Otherwise returns the
    /// present value. It is a transaction.
    ///
    /// >>> db.put_if_absent(b"job", b"worker 1")
    /// >>> db.put_if_absent(b"job", b"worker 2")
    /// b'worker 1'
    fn put_if_absent<'py>(
        &self,
        py: Python<'py>,
        key: Input<'_>,
        value: Input<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (key, value) = (&*key, &*value);
        let put = self.open.with(py, |db| db.put_if_absent(&self.keyspace, key, value))?;
        Ok(or_default(py, put, None))
    }

    /// Merges `operand` into the value of `key`, by the merge operator of the keyspace, without a read.
    ///
    /// >>> visits = db.keyspace("visits", merge="add_i64")
    /// >>> for _ in range(3):
    /// ...     visits.merge(b"/", (1).to_bytes(8, "little"))
    /// >>> int.from_bytes(visits[b"/"], "little")
    /// 3
    fn merge(&self, py: Python<'_>, key: Input<'_>, operand: Input<'_>) -> PyResult<()> {
        let (key, operand) = (&*key, &*operand);
        py.detach(|| self.keyspace.merge(key, operand)).or_raise()
    }

    /// Deletes `key`, whether it exists or not.
    #[pyo3(signature = (key, *, sync = false))]
    fn delete(&self, py: Python<'_>, key: Input<'_>, sync: bool) -> PyResult<()> {
        self.delete_synced(py, &key, sync)
    }

    /// Deletes all keys that start with `prefix`, from `start` on, up to and without `end`. It costs
    /// about as much as one put.
    ///
    /// >>> db[b"a1"], db[b"a2"], db[b"b1"] = b"", b"", b""
    /// >>> db.delete_range(prefix=b"a")
    /// >>> list(db)
    /// [b'b1']
    #[pyo3(signature = (*, prefix = None, start = None, end = None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        prefix: Option<Input<'_>>,
        start: Option<Input<'_>>,
        end: Option<Input<'_>>,
    ) -> PyResult<()> {
        let range = Bounds(prefix, start, end).range();
        py.detach(|| self.keyspace.delete_range(range)).or_raise()
    }

    /// Deletes all keys.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.keyspace.clear()).or_raise()
    }

    /// Iterates over entries, as tuples of key and value: those whose keys start with `prefix`, from
    /// `start` on, up to and without `end`.
    ///
    /// >>> db[b"a1"], db[b"a2"], db[b"b1"] = b"x", b"y", b"z"
    /// >>> list(db.items(prefix=b"a"))
    /// [(b'a1', b'x'), (b'a2', b'y')]
    /// >>> list(db.items(start=b"a2", reverse=True))
    /// [(b'b1', b'z'), (b'a2', b'y')]
    #[pyo3(signature = (*, prefix = None, start = None, end = None, reverse = false))]
    fn items(
        &self,
        py: Python<'_>,
        prefix: Option<Input<'_>>,
        start: Option<Input<'_>>,
        end: Option<Input<'_>>,
        reverse: bool,
    ) -> PyResult<Items> {
        self.iterate(py, What::Items, Bounds(prefix, start, end), reverse)
    }

    /// Iterates over keys, as `items` does over entries.
    #[pyo3(signature = (*, prefix = None, start = None, end = None, reverse = false))]
    fn keys(
        &self,
        py: Python<'_>,
        prefix: Option<Input<'_>>,
        start: Option<Input<'_>>,
        end: Option<Input<'_>>,
        reverse: bool,
    ) -> PyResult<Items> {
        self.iterate(py, What::Keys, Bounds(prefix, start, end), reverse)
    }

    /// Iterates over values, as `items` does over entries.
    #[pyo3(signature = (*, prefix = None, start = None, end = None, reverse = false))]
    fn values(
        &self,
        py: Python<'_>,
        prefix: Option<Input<'_>>,
        start: Option<Input<'_>>,
        end: Option<Input<'_>>,
        reverse: bool,
    ) -> PyResult<Items> {
        self.iterate(py, What::Values, Bounds(prefix, start, end), reverse)
    }

    /// Returns a `pyarrow.RecordBatchReader` over the entries: see `Items.to_arrow`.
    #[pyo3(signature = (batch_size = 65536, *, prefix = None, start = None, end = None, reverse = false))]
    fn to_arrow<'py>(
        &self,
        py: Python<'py>,
        batch_size: usize,
        prefix: Option<Input<'_>>,
        start: Option<Input<'_>>,
        end: Option<Input<'_>>,
        reverse: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let items = self.iterate(py, What::Items, Bounds(prefix, start, end), reverse)?;
        py.import("esker._arrow")?.call_method1("reader", (items, batch_size))
    }

    /// Counts the keys of a range. It reads all of them.
    #[pyo3(signature = (*, prefix = None, start = None, end = None))]
    fn count(
        &self,
        py: Python<'_>,
        prefix: Option<Input<'_>>,
        start: Option<Input<'_>>,
        end: Option<Input<'_>>,
    ) -> PyResult<u64> {
        let range = Bounds(prefix, start, end).range();
        if is_empty(&range) {
            return Ok(0);
        }
        py.detach(|| self.keyspace.count(range)).or_raise()
    }

    /// Estimates the number of keys, without a scan.
    fn approximate_len(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.keyspace.approximate_len()).or_raise()
    }

    /// Compacts the keyspace fully, and waits for it.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        self.open.with(py, |db| db.compact_keyspace(&self.keyspace))
    }

    /// Returns an empty batch, whose writes go to this keyspace unless they name another.
    ///
    /// >>> with db.batch() as batch:
    /// ...     batch.put(b"ada", b"analyst")
    /// ...     batch.delete(b"bob")
    #[pyo3(signature = (*, sync = false))]
    fn batch(slf: Bound<'_, Self>, sync: bool) -> Batch {
        Batch::new(slf.get(), sync)
    }

    /// Takes a snapshot of the whole database. Its reads are of this keyspace unless they name another.
    ///
    /// >>> db[b"ada"] = b"analyst"
    /// >>> with db.snapshot() as before:
    /// ...     db[b"ada"] = b"author"
    /// ...     before[b"ada"]
    /// b'analyst'
    fn snapshot(slf: Bound<'_, Self>) -> PyResult<Snapshot> {
        Snapshot::new(slf)
    }

    /// Begins a transaction over the whole database. Its calls are for this keyspace unless they name
    /// another.
    ///
    /// `isolation` is "read-committed", "snapshot" or "serializable". An optimistic transaction takes no
    /// locks, and its commit fails after a conflict. `lock_timeout` is how long the others wait for a
    /// lock. Leaving the `with` block commits, or rolls back after an exception.
    ///
    /// >>> db[b"ada"] = b"100"
    /// >>> with db.transaction() as tx:
    /// ...     tx[b"ada"] = b"70"
    /// ...     tx[b"bob"] = b"30"
    #[pyo3(signature = (*, isolation = "snapshot", optimistic = false, lock_timeout = None))]
    fn transaction(
        slf: Bound<'_, Self>,
        isolation: &str,
        optimistic: bool,
        lock_timeout: Option<Seconds>,
    ) -> PyResult<Transaction> {
        Transaction::begin(slf, options(isolation, optimistic, lock_timeout)?)
    }

    /// Runs `work(tx)` in a transaction, commits it, and returns what `work` returned.
    ///
    /// After a conflict `work` runs again, in a new transaction, at most 100 times. So it should change
    /// nothing outside of the transaction. The arguments are those of `transaction`.
    ///
    /// >>> def visit(tx):
    /// ...     visits = int(tx.get_for_update(b"visits", b"0")) + 1
    /// ...     tx[b"visits"] = b"%d" % visits
    /// ...     return visits
    /// >>> db.transact(visit), db.transact(visit)
    /// (1, 2)
    #[pyo3(signature = (work, **options))]
    fn transact<'py>(
        slf: Bound<'py, Self>,
        work: Bound<'py, PyAny>,
        options: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        py.import("esker._transact")?.getattr("transact")?.call((slf, work), options.as_ref())
    }

    fn __repr__(&self) -> String {
        let closed = if self.open.is_closed() { ", closed" } else { "" };
        format!("<esker.Keyspace {:?} of {:?}{closed}>", self.keyspace.name(), self.open.path)
    }

    fn _repr_html_<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("esker._display")?.call_method1("keyspace", (slf,))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Keyspace>().is_ok_and(|other| other.get().keyspace == self.keyspace)
    }

    fn __hash__(&self) -> u64 {
        u64::from(self.keyspace.id().0)
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("a database cannot be pickled: open it where it is used"))
    }
}
