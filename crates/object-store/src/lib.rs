//! Repositories of backups in object stores: Amazon S3, Google Cloud Storage, Azure Blob Storage, and any
//! other [`ObjectStore`].
//!
//! [`ObjectStorage`] is a storage whose files are objects. A [`Repository`](esker::backup::Repository) in it
//! works as one in a directory does: incremental, with points in time, encrypted if the caller wants it.
//! A database itself cannot be opened there, because an object cannot be written in place.
//!
//! # Examples
//!
//! ```
//! # fn main() -> esker::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let dir = dir.path();
//! use esker::backup::Repository;
//! use esker::env::SystemClock;
//! use esker::{Db, Settings};
//! use esker_object_store::ObjectStorage;
//! use std::sync::Arc;
//!
//! let storage = ObjectStorage::open("memory:///backups")?; // with the feature `aws`: "s3://bucket/backups"
//! let repository = Repository::of(Arc::new(storage), Arc::new(SystemClock::new()));
//!
//! let db = Db::open(dir.join("db"), Settings::default())?;
//! db.default_keyspace().put("ada", "analyst")?;
//! repository.back_up(&db)?;
//!
//! repository.restore(None, dir.join("restored"))?;
//! let restored = Db::open(dir.join("restored"), Settings::default())?;
//! assert_eq!(restored.default_keyspace().get("ada")?.as_deref(), Some(&b"analyst"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! # What an object store must offer
//!
//! * An object that was written is seen by every later read and list, which all of the above promise.
//! * It writes an object only if there is none (`If-None-Match`). The lock of the repository needs it. A
//!   store without it is refused when the lock is taken.

#![forbid(unsafe_code)]

mod calls;
mod lease;
mod reader;
mod storage;
mod writer;

pub use object_store::ObjectStore;
pub use storage::ObjectStorage;
