//! Backups, restores and repairs: what is done without an open database.

use crate::errors::OrRaise;
use esker::backup::Repository;
use esker::inspect::{Inspector, MissingLogPolicy};
use pyo3::prelude::*;
use std::path::PathBuf;

/// Returns the backups of a repository, the oldest first: the number of each, when it was begun in
/// seconds since 1970, and its size in bytes.
#[pyfunction]
pub(crate) fn backups(py: Python<'_>, repository: PathBuf) -> PyResult<Vec<(u64, f64, u64)>> {
    let backups = py.detach(|| Repository::open(&repository)?.backups()).or_raise()?;
    let row = |it: &esker::backup::Backup| (it.number, it.made as f64 / 1000.0, it.bytes());
    Ok(backups.iter().map(row).collect())
}

/// Makes a database in the directory `path`, which must be missing or empty, from a backup: the newest
/// one, or that with this number.
#[pyfunction]
#[pyo3(signature = (repository, path, number = None))]
pub(crate) fn restore(
    py: Python<'_>,
    repository: PathBuf,
    path: PathBuf,
    number: Option<u64>,
) -> PyResult<()> {
    py.detach(|| Repository::open(&repository)?.restore(number, &path)).or_raise()?;
    Ok(())
}

/// Removes all backups but the newest `keep`, and the files that only they used.
#[pyfunction]
pub(crate) fn prune_backups(py: Python<'_>, repository: PathBuf, keep: usize) -> PyResult<()> {
    py.detach(|| Repository::open(&repository)?.prune(keep)).or_raise()?;
    Ok(())
}

/// Repairs a damaged database that is not open: keeps what is intact. Raises an exception if a log is
/// missing.
#[pyfunction]
pub(crate) fn repair(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    let repair = || Inspector::open(&path, None)?.repair(MissingLogPolicy::Refuse);
    py.detach(repair).or_raise()?;
    Ok(())
}
