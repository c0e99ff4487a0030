//! Transactions.

use crate::errors::OrRaise;
use crate::handle::Keyspace;
use crate::input::{Bounds, Input, Seconds};
use crate::items::{From, Items, What};
use crate::output::{or_default, or_key_error};
use crate::transaction_state::Shared;
use esker::TransactionOptions;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use pyo3::{PyTraverseError, PyVisit};
use std::sync::Arc;

/// Reads and writes that commit together or not at all.
///
/// Its calls are for the keyspace that it was begun from, unless they name another. Leaving the `with`
/// block commits; after an exception in the block the transaction is rolled back. A `TransientError`
/// says that the same transaction may succeed if it runs again: `Keyspace.transact` does that.
///
/// >>> db[b"ada"] = b"100"
/// >>> try:
/// ...     with db.transaction() as tx:
/// ...         tx[b"ada"] = b"0"
/// ...         raise ValueError("no")
/// ... except ValueError:
/// ...     db[b"ada"]
/// b'100'
#[pyclass(frozen, module = "esker")]
pub(crate) struct Transaction {
    shared: Arc<Shared>,
    keyspace: Py<Keyspace>,
}

impl Transaction {
    pub(crate) fn begin(
        keyspace: Bound<'_, Keyspace>,
        options: TransactionOptions,
    ) -> PyResult<Self> {
        let open = keyspace.get().open.clone();
        let begun = open.with(keyspace.py(), |db| db.transaction_with(options))?;
        let shared = Arc::new(Shared::new(begun, open));
        Ok(Transaction { shared, keyspace: keyspace.unbind() })
    }

    /// Runs a read in a keyspace.
    fn read<T: Send>(
        &self,
        py: Python<'_>,
        keyspace: Option<Bound<'_, Keyspace>>,
        step: impl FnOnce(&mut esker::Transaction, &esker::Keyspace) -> esker::Result<T> + Send,
    ) -> PyResult<T> {
        let keyspace = &Keyspace::chosen(&keyspace, &self.keyspace).keyspace;
        py.detach(|| self.shared.with(|transaction| step(transaction, keyspace))).or_raise()
    }

    /// Runs a write in a keyspace.
    fn write<T: Send>(
        &self,
        py: Python<'_>,
        keyspace: Option<Bound<'_, Keyspace>>,
        step: impl FnOnce(&mut esker::Transaction, &esker::Keyspace) -> esker::Result<T> + Send,
    ) -> PyResult<T> {
        self.shared.change();
        self.read(py, keyspace, step)
    }

    fn end(
        &self,
        py: Python<'_>,
        how: &'static str,
        end: impl FnOnce(esker::Transaction) -> esker::Result<()> + Send,
    ) -> PyResult<()> {
        py.detach(|| self.shared.end(how, end)).or_raise()
    }

    fn iterate(
        &self,
        py: Python<'_>,
        what: What,
        bounds: Bounds<'_>,
        reverse: bool,
        keyspace: Option<Bound<'_, Keyspace>>,
    ) -> PyResult<Items> {
        let from = (From::Transaction(&self.shared), Keyspace::chosen(&keyspace, &self.keyspace));
        Items::new(py, from, bounds.range(), (what, reverse))
    }
}

fn roll_back(transaction: esker::Transaction) -> esker::Result<()> {
    transaction.rollback();
    Ok(())
}

#[pymethods]
impl Transaction {
    /// Returns the value of `key` as the transaction sees it, its own writes included, or `default`.
    #[pyo3(signature = (key, default = None, *, keyspace = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Input<'_>,
        default: Option<Bound<'py, PyAny>>,
        keyspace: Option<Bound<'py, Keyspace>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = &*key;
        Ok(or_default(py, self.read(py, keyspace, |tx, keyspace| tx.get(keyspace, key))?, default))
    }

    /// Reads as `get` does, and excludes that others change `key` before the commit.
    #[pyo3(signature = (key, default = None, *, keyspace = None))]
    fn get_for_update<'py>(
        &self,
        py: Python<'py>,
        key: Input<'_>,
        default: Option<Bound<'py, PyAny>>,
        keyspace: Option<Bound<'py, Keyspace>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = &*key;
        let value = self.read(py, keyspace, |tx, keyspace| tx.get_for_update(keyspace, key))?;
        Ok(or_default(py, value, default))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Input<'_>) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.read(py, None, |tx, keyspace| tx.get(keyspace, &*key))?;
        or_key_error(py, value, &key)
    }

    fn __contains__(&self, py: Python<'_>, key: Input<'_>) -> PyResult<bool> {
        self.read(py, None, |tx, keyspace| tx.contains_key(keyspace, &*key))
    }

    /// Sets `key` to `value`, for the time `ttl` after the commit if it is given.
    #[pyo3(signature = (key, value, *, ttl = None, keyspace = None))]
    fn put(
        &self,
        py: Python<'_>,
        key: Input<'_>,
        value: Input<'_>,
        ttl: Option<Seconds>,
        keyspace: Option<Bound<'_, Keyspace>>,
    ) -> PyResult<()> {
        let (key, value) = (&*key, &*value);
        self.write(py, keyspace, |tx, keyspace| match ttl {
            None => tx.put(keyspace, key, value),
            Some(Seconds(ttl)) => tx.put_with_ttl(keyspace, key, value, ttl),
        })
    }

    fn __setitem__(&self, py: Python<'_>, key: Input<'_>, value: Input<'_>) -> PyResult<()> {
        self.put(py, key, value, None, None)
    }

    /// Deletes `key`.
    #[pyo3(signature = (key, *, keyspace = None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: Input<'_>,
        keyspace: Option<Bound<'_, Keyspace>>,
    ) -> PyResult<()> {
        let key = &*key;
        self.write(py, keyspace, |tx, keyspace| tx.delete(keyspace, key))
    }

    fn __delitem__(&self, py: Python<'_>, key: Input<'_>) -> PyResult<()> {
        self.delete(py, key, None)
    }

    /// Merges `operand` into the value of `key`, which it reads.
    #[pyo3(signature = (key, operand, *, keyspace = None))]
    fn merge(
        &self,
        py: Python<'_>,
        key: Input<'_>,
        operand: Input<'_>,
        keyspace: Option<Bound<'_, Keyspace>>,
    ) -> PyResult<()> {
        let (key, operand) = (&*key, &*operand);
        self.write(py, keyspace, |tx, keyspace| tx.merge(keyspace, key, operand))
    }

    /// Iterates over the keys.
    fn __iter__(&self, py: Python<'_>) -> PyResult<Items> {
        self.iterate(py, What::Keys, Bounds(None, None, None), false, None)
    }

    /// Iterates over entries, the writes of the transaction included: see `Keyspace.items`.
    #[pyo3(signature = (*, prefix = None, start = None, end = None, reverse = false, keyspace = None))]
    fn items(
        &self,
        py: Python<'_>,
        prefix: Option<Input<'_>>,
        start: Option<Input<'_>>,
        end: Option<Input<'_>>,
        reverse: bool,
        keyspace: Option<Bound<'_, Keyspace>>,
    ) -> PyResult<Items> {
        self.iterate(py, What::Items, Bounds(prefix, start, end), reverse, keyspace)
    }

    /// Iterates over keys, as `items` does over entries.
    #[pyo3(signature = (*, prefix = None, start = None, end = None, reverse = false, keyspace = None))]
    fn keys(
        &self,
        py: Python<'_>,
        prefix: Option<Input<'_>>,
        start: Option<Input<'_>>,
        end: Option<Input<'_>>,
        reverse: bool,
        keyspace: Option<Bound<'_, Keyspace>>,
    ) -> PyResult<Items> {
        self.iterate(py, What::Keys, Bounds(prefix, start, end), reverse, keyspace)
    }

    /// Iterates over values, as `items` does over entries.
    #[pyo3(signature = (*, prefix = None, start = None, end = None, reverse = false, keyspace = None))]
    fn values(
        &self,
        py: Python<'_>,
        prefix: Option<Input<'_>>,
        start: Option<Input<'_>>,
        end: Option<Input<'_>>,
        reverse: bool,
        keyspace: Option<Bound<'_, Keyspace>>,
    ) -> PyResult<Items> {
        self.iterate(py, What::Values, Bounds(prefix, start, end), reverse, keyspace)
    }

    /// Sets a savepoint. Savepoints nest.
    fn set_savepoint(&self, py: Python<'_>) -> PyResult<()> {
        self.write(py, None, |tx, _| tx.set_savepoint())
    }

    /// Undoes all writes since the last savepoint, and removes it.
    ///
    /// >>> with db.transaction() as tx:
    /// ...     tx[b"ada"] = b"analyst"
    /// ...     tx.set_savepoint()
    /// ...     tx[b"eve"] = b"auditor"
    /// ...     tx.rollback_to_savepoint()
    /// >>> list(db)
    /// [b'ada']
    fn rollback_to_savepoint(&self, py: Python<'_>) -> PyResult<()> {
        self.write(py, None, |tx, _| tx.rollback_to_savepoint())
    }

    /// Commits. The transaction has ended then, also after an error.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, "committed", esker::Transaction::commit)
    }

    /// Discards all writes and ends the transaction.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, "rolled back", roll_back)
    }

    /// Prepares the transaction under `id`: the first phase of a two-phase commit. `Db.commit_prepared`
    /// or `Db.rollback_prepared` decide.
    fn prepare(&self, py: Python<'_>, id: Input<'_>) -> PyResult<()> {
        let id = &*id;
        self.end(py, "prepared", |transaction| transaction.prepare(id))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.keyspace)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// Ends the transaction, unless the block has ended it.
    fn __exit__(
        &self,
        py: Python<'_>,
        class: Option<Bound<'_, PyType>>,
        _error: Option<Bound<'_, PyAny>>,
        _trace: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        match class {
            _ if self.shared.ended().is_some() => Ok(()),
            None => self.commit(py),
            Some(_) => self.rollback(py),
        }
    }

    fn __repr__(&self) -> String {
        let state = self.shared.ended().unwrap_or("active");
        format!("<esker.Transaction on {:?}, {state}>", self.shared.open.path)
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("a transaction cannot be pickled: it is of an open database"))
    }
}
