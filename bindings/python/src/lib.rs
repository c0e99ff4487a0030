//! The module `esker._esker`: the engine as classes of Python.
//!
//! ```text
//! Keyspace ── reads and writes, and makes ──► Batch, Snapshot, Transaction, Items
//!    └─ Db    a keyspace, "default", with the calls for the whole database
//! ```
//!
//! * `handle` has the keyspace, and `keyspace` its methods: so no two files need each other.
//! * `open` has the state that handles share: whether the database is closed.
//! * `scan` reads entries ahead, in `chunk`s; `items` is the iterator over it.
//! * `reader` reads files of Python, and values as files.
//! * `input` is what Python passes, `output` and `errors` what it gets.
//!
//! A call that may wait (for the device, a lock or a flush) releases the global interpreter lock. A get
//! that memory can answer keeps it: the answer takes less time than to give the lock away.
//!
//! The documentation comments are docstrings, whose examples the tests run. `esker/_esker.pyi` has the
//! types.

mod backup;
mod batch;
mod chunk;
mod columns;
mod database;
mod errors;
mod handle;
mod input;
mod items;
mod keyspace;
mod open;
mod output;
mod plyvel;
mod reader;
mod scan;
mod snapshot;
mod transaction;
mod transaction_state;
mod view;

use pyo3::prelude::*;

/// The engine. Use the module `esker`.
#[pymodule]
mod _esker {
    #[pymodule_export]
    use super::backup::{backups, prune_backups, repair, restore};
    #[pymodule_export]
    use super::batch::Batch;
    #[pymodule_export]
    use super::database::Db;
    #[pymodule_export]
    use super::handle::Keyspace;
    #[pymodule_export]
    use super::items::Items;
    #[pymodule_export]
    use super::plyvel::PlyvelDb;
    #[pymodule_export]
    use super::reader::RawReader;
    #[pymodule_export]
    use super::snapshot::Snapshot;
    #[pymodule_export]
    use super::transaction::Transaction;
}
