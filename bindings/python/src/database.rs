//! Databases.

use crate::errors::{OrRaise, invalid};
use crate::handle::Keyspace;
use crate::input::{Input, Seconds, setting};
use crate::open::Open;
use esker::backup::Repository;
use esker::options::SettingChange;
use esker::stats::prometheus;
use esker::{Error, KeyspaceSettings, Settings};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// An open database: its keyspace "default", and the calls for the whole.
///
/// The directory is created if it is missing. `create=False` opens an existing database only,
/// `read_only=True` opens it for reading at its present state, and `follow` for reading what another
/// process writes: a time, after which the follower catches up, again and again; 0 is `catch_up` alone.
/// Settings are passed by their names, and `default={...}` has those of the keyspace "default".
///
/// Threads may share it. Leaving the `with` block closes it.
///
/// >>> import esker
/// >>> with esker.Db("data", memory_bytes="64MiB", segment_bytes="4MiB") as db:
/// ...     db[b"ada"] = b"analyst"
/// >>> db.closed
/// True
/// >>> with esker.Db("data", read_only=True) as db:
/// ...     db[b"ada"]
/// b'analyst'
#[pyclass(frozen, subclass, extends = Keyspace, module = "esker")]
pub(crate) struct Db {
    open: Arc<Open>,
}

/// The settings of a database from keyword arguments.
fn settings(py: Python<'_>, given: Option<Bound<'_, PyDict>>) -> PyResult<Settings> {
    let mut settings = Settings::default();
    let mut set = |name: &str, value: &Bound<'_, PyAny>| {
        let text = setting(name, value)?;
        settings.set_by_name(name, &text).map_err(|why| invalid(py, why))
    };
    // `sync` is checked against the log.
    let mut given: Vec<(String, Bound<'_, PyAny>)> = given.map_or(Ok(Vec::new()), |given| {
        given.iter().map(|(name, value)| Ok::<_, PyErr>((name.extract()?, value))).collect()
    })?;
    given.sort_by_key(|(name, _)| name == "sync");
    for (name, value) in given {
        match value.cast::<PyDict>() {
            Ok(default) if name == "default" => {
                for (name, value) in default.iter() {
                    set(&format!("default.{}", name.extract::<String>()?), &value)?;
                }
            }
            _ => set(&name, &value)?,
        }
    }
    Ok(settings)
}

/// A keyspace to drop: the handle, or the name.
#[derive(FromPyObject)]
enum Named<'py> {
    Handle(Bound<'py, Keyspace>),
    Name(String),
}

#[pymethods]
impl Db {
    #[new]
    #[pyo3(signature = (path, *, create = true, read_only = false, follow = None, **settings))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        create: bool,
        read_only: bool,
        follow: Option<Seconds>,
        settings: Option<Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let settings = self::settings(py, settings)?;
        let opened = py.detach(|| match follow {
            Some(Seconds(interval)) => {
                esker::Db::open_follower(&path, settings, (!interval.is_zero()).then_some(interval))
            }
            None if read_only => esker::Db::open_read_only(&path, settings),
            None if create => esker::Db::open(&path, settings),
            None => esker::Db::open_existing(&path, settings),
        });
        let db = opened.or_raise()?;
        let keyspace = db.default_keyspace();
        let open = Arc::new(Open::new(db, path));
        let base = PyClassInitializer::from(Keyspace { open: open.clone(), keyspace });
        Ok(base.add_subclass(Db { open }))
    }

    /// The directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.open.path.clone()
    }

    /// Whether the database is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.open.is_closed()
    }

    /// Closes the database: flushes what is in memory, stops background work, and releases the files.
    /// Further calls raise `ClosedError`. Does nothing if it is closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.open.close()).or_raise()
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _class: Option<Bound<'_, PyType>>,
        _error: Option<Bound<'_, PyAny>>,
        _trace: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.close(py)
    }

    /// Opens the keyspace `name`, or creates it if it is missing.
    ///
    /// With settings, an existing keyspace must have these, or `KeyspaceSettingsDifferError` is raised.
    ///
    /// >>> events = db.keyspace("events", compression="zstd", ttl="30d")
    /// >>> db.keyspace("events").name
    /// 'events'
    #[pyo3(name = "keyspace", signature = (name, **settings))]
    fn keyspace_named(
        &self,
        py: Python<'_>,
        name: &str,
        settings: Option<Bound<'_, PyDict>>,
    ) -> PyResult<Keyspace> {
        let mut asked = KeyspaceSettings::default();
        for (name, value) in settings.iter().flat_map(|settings| settings.iter()) {
            let name = name.extract::<String>()?;
            let text = setting(&name, &value)?;
            asked.set_by_name(&name, &text).map_err(|why| invalid(py, why))?;
        }
        let is_any = settings.is_none_or(|settings| settings.is_empty());
        let keyspace = self.open.with(py, |db| match is_any.then(|| db.open_keyspace(name)) {
            None | Some(Err(Error::UnknownKeyspace { .. })) => db.keyspace(name, asked),
            Some(opened) => opened,
        })?;
        Ok(Keyspace { open: self.open.clone(), keyspace })
    }

    /// Returns the names of all keyspaces.
    ///
    /// >>> db.keyspace("users").put(b"ada", b"analyst")
    /// >>> db.keyspaces()
    /// ['default', 'users']
    fn keyspaces(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let keyspaces = self.open.with(py, |db| Ok(db.keyspaces()))?;
        Ok(keyspaces.into_iter().map(|keyspace| keyspace.name).collect())
    }

    /// Removes a keyspace, named or by its handle, with its data. The keyspace "default" stays.
    fn drop_keyspace(&self, py: Python<'_>, keyspace: Named<'_>) -> PyResult<()> {
        let keyspace = match &keyspace {
            Named::Handle(keyspace) => keyspace.get().keyspace.clone(),
            Named::Name(name) => self.open.with(py, |db| db.open_keyspace(name))?,
        };
        self.open.with(py, |db| db.drop_keyspace(&keyspace))
    }

    /// Makes all writes up to now survive power loss.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.open.with(py, |db| db.sync())
    }

    /// Writes what is in memory to tables.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.open.with(py, |db| db.flush())
    }

    /// Compacts all keyspaces fully, and waits for it.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        self.open.with(py, |db| db.compact())
    }

    /// Writes a copy of the database at its present state into the directory `path`, which must be
    /// missing or empty. Files are linked where that is possible.
    fn checkpoint(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.open.with(py, |db| db.checkpoint(&path))
    }

    /// Backs the database up into the repository in the directory `repository`, which is created if it
    /// is missing. Copies the files that no earlier backup has. Returns the number of the backup.
    ///
    /// >>> import esker
    /// >>> db[b"ada"] = b"analyst"
    /// >>> number = db.backup("backups")
    /// >>> esker.restore("backups", "restored")
    /// >>> esker.Db("restored")[b"ada"]
    /// b'analyst'
    fn backup(&self, py: Python<'_>, repository: PathBuf) -> PyResult<u64> {
        self.open.with(py, |db| Ok(Repository::create(&repository)?.back_up(db)?.number))
    }

    /// Shows what the other process has written up to now. Returns the number of the last write that
    /// reads see. For a database that was opened with `follow`.
    fn catch_up(&self, py: Python<'_>) -> PyResult<u64> {
        self.open.with(py, |db| Ok(db.catch_up()?.through))
    }

    /// Changes a setting of the open database, such as "background_write_rate" or
    /// "default.compression".
    ///
    /// >>> db.set("background_write_rate", "20MiB")
    /// >>> db.settings()["background_write_rate"]
    /// '20MiB'
    fn set(&self, py: Python<'_>, name: &str, value: Bound<'_, PyAny>) -> PyResult<()> {
        let change = format!("{name}={}", setting(name, &value)?);
        let change: SettingChange = change.parse().map_err(|why| invalid(py, why))?;
        self.open.with(py, |db| db.set(&change))
    }

    /// Returns the settings that `set` changes, with their values.
    fn settings(&self, py: Python<'_>) -> PyResult<BTreeMap<String, String>> {
        let settings = self.open.with(py, |db| db.settings())?;
        Ok(settings.into_iter().map(|it| (it.name, it.value)).collect())
    }

    /// Returns all statistics, as a dictionary.
    ///
    /// >>> db[b"ada"] = b"analyst"
    /// >>> db.stats()["writes"]
    /// 1
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stats = self.open.with(py, |db| Ok(db.stats()))?;
        let json = serde_json::to_string(&stats).map_err(|why| invalid(py, why.to_string()))?;
        py.import("json")?.call_method1("loads", (json,))
    }

    /// Returns the most important statistics as text for people.
    fn stats_text(&self, py: Python<'_>) -> PyResult<String> {
        self.open.with(py, |db| Ok(db.stats().to_string()))
    }

    /// Returns all statistics as a page for Prometheus, with the label `database="name"`.
    fn prometheus(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        self.open.with(py, |db| Ok(prometheus::page([(name, &db.watched_stats())])))
    }

    /// Returns the ids of prepared transactions that are not decided.
    fn prepared<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let prepared = self.open.with(py, |db| db.prepared())?;
        Ok(prepared.iter().map(|transaction| PyBytes::new(py, &transaction.id)).collect())
    }

    /// Commits the transaction that was prepared under `id`.
    fn commit_prepared(&self, py: Python<'_>, id: Input<'_>) -> PyResult<()> {
        let id = &*id;
        self.open.with(py, |db| db.commit_prepared(id))
    }

    /// Discards the transaction that was prepared under `id`.
    fn rollback_prepared(&self, py: Python<'_>, id: Input<'_>) -> PyResult<()> {
        let id = &*id;
        self.open.with(py, |db| db.rollback_prepared(id))
    }

    fn __repr__(&self) -> String {
        let closed = if self.open.is_closed() { ", closed" } else { "" };
        format!("<esker.Db {:?}{closed}>", self.open.path)
    }

    fn _repr_html_<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("esker._display")?.call_method1("database", (slf,))
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("a database cannot be pickled: open it where it is used"))
    }
}
