//! What `esker.plyvel` calls most often: with the signatures of plyvel.

use crate::handle::Keyspace;
use crate::input::{Bounds, Input};
use crate::items::{From, Items, What};
use crate::output::or_default;
use crate::snapshot::Snapshot;
use esker::KeyRange;
use esker::stats::TableMeta;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};

/// The reads and writes of `esker.plyvel.DB`.
#[pyclass(frozen, subclass, module = "esker._esker")]
pub(crate) struct PlyvelDb {
    keyspace: Py<Keyspace>,
}

#[pymethods]
impl PlyvelDb {
    #[new]
    #[pyo3(signature = (keyspace, *_arguments, **_named))]
    fn new(
        keyspace: Py<Keyspace>,
        _arguments: Bound<'_, PyAny>,
        _named: Option<Bound<'_, PyAny>>,
    ) -> Self {
        PlyvelDb { keyspace }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.keyspace)
    }

    #[pyo3(signature = (key, default = None, *, verify_checksums = None, fill_cache = None))]
    #[inline]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bound<'py, PyBytes>,
        default: Option<Bound<'py, PyAny>>,
        verify_checksums: Option<Bound<'py, PyAny>>,
        fill_cache: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = (verify_checksums, fill_cache);
        Ok(or_default(py, self.keyspace.get().read(py, key.as_bytes())?, default))
    }

    #[pyo3(signature = (key, value, *, sync = false))]
    fn put(
        &self,
        py: Python<'_>,
        key: Bound<'_, PyBytes>,
        value: Input<'_>,
        sync: bool,
    ) -> PyResult<()> {
        self.keyspace.get().put_synced(py, key.as_bytes(), &value, sync)
    }

    #[pyo3(signature = (key, *, sync = false))]
    fn delete(&self, py: Python<'_>, key: Bound<'_, PyBytes>, sync: bool) -> PyResult<()> {
        self.keyspace.get().delete_synced(py, key.as_bytes(), sync)
    }

    /// An iterator over the keys of a range that start with `prefix`, which it leaves out of them.
    #[pyo3(signature = (prefix, start, end, reverse, with_key, with_value, snapshot = None))]
    #[expect(clippy::too_many_arguments, reason = "they are what the range and the entries are")]
    fn _iterate(
        &self,
        py: Python<'_>,
        prefix: Input<'_>,
        start: Option<Input<'_>>,
        end: Option<Input<'_>>,
        reverse: bool,
        with_key: bool,
        with_value: bool,
        snapshot: Option<Bound<'_, Snapshot>>,
    ) -> PyResult<Items> {
        let what = match (with_key, with_value) {
            (true, true) => What::Items,
            (true, false) => What::Keys,
            (false, true) => What::Values,
            (false, false) => What::Nothing,
        };
        let own = prefix.to_vec();
        let range = Bounds(Some(prefix), start, end).range();
        let snapshot = snapshot.map(|snapshot| snapshot.get().at()).transpose()?;
        let from = snapshot.as_deref().map_or(From::Newest, From::Snapshot);
        let items = Items::new(py, (from, self.keyspace.get()), range, (what, reverse))?;
        Ok(items.without_prefix(own))
    }

    /// How many tables a level has.
    fn _tables_on_level(&self, py: Python<'_>, level: usize) -> PyResult<usize> {
        let tables = self.tables(py)?;
        Ok(tables.iter().filter(|(on, _)| *on == level).count())
    }

    /// The tables as text, one on a line.
    fn _tables(&self, py: Python<'_>) -> PyResult<String> {
        let line = |(level, table): &(usize, TableMeta)| {
            let (smallest, largest) = (table.smallest.escape_ascii(), table.largest.escape_ascii());
            format!("level {level}: {} bytes, {smallest} to {largest}\n", table.bytes)
        };
        Ok(self.tables(py)?.iter().map(line).collect())
    }

    /// Estimates the bytes of the tables in each range: tables that are partly in it count half.
    fn _approximate_sizes(
        &self,
        py: Python<'_>,
        ranges: Vec<(Bound<'_, PyBytes>, Bound<'_, PyBytes>)>,
    ) -> PyResult<Vec<u64>> {
        let tables = self.tables(py)?;
        let size = |(start, end): &(Bound<'_, PyBytes>, Bound<'_, PyBytes>)| {
            let range = KeyRange::from(start.as_bytes()..end.as_bytes());
            let bytes = |(_, table): &(usize, TableMeta)| {
                let ends = [&table.smallest, &table.largest].map(|key| range.contains(key));
                let is_outside =
                    range.ends_before(&table.smallest) || range.starts_after(&table.largest);
                match ends {
                    _ if is_outside => 0,
                    [true, true] => table.bytes,
                    _ => table.bytes / 2,
                }
            };
            tables.iter().map(bytes).sum()
        };
        Ok(ranges.iter().map(size).collect())
    }
}

impl PlyvelDb {
    /// The tables with their levels.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<(usize, TableMeta)>> {
        let keyspace = self.keyspace.get();
        let trees = keyspace.open.with(py, |db| Ok(db.levels()))?;
        let own = trees.into_iter().filter(|tree| tree.id == keyspace.keyspace.id());
        let levels = own.flat_map(|tree| tree.levels);
        let tables = levels.flat_map(|level| {
            let tables = level.runs.into_iter().flat_map(|run| run.tables);
            tables.map(move |table| (level.level, table))
        });
        Ok(tables.collect())
    }
}
