//! Backups of an open database, each of which restores the whole of it.
//!
//! ```text
//! database ─► LiveFiles ─► backup ─► repository: files, one record a backup ─► restore ─► database
//! ```
//!
//! Tables never change, so a backup copies only files that no earlier backup has. `repository` is the
//! directory and its lock, `record` what it knows of a backup, `stored` the names of its files, and
//! `copying` copies a file and its checksum.
//! `create`, `restore`, `verify` and `prune` are the calls. `ship` adds the log since a backup, a file
//! of `shipment` at a time, and `point_in_time` restores what was between backups.
//!
//! What must hold:
//!
//! * A record is written when all of its files are durable, and removed before any of them is.
//! * A file of a repository never changes. It is there as a whole or under another name.
//! * A file whose name is not a backup's is never removed.
//! * `CURRENT` is the last file of a restored directory, so half of a database never opens.

#![forbid(unsafe_code)]

mod copying;
mod create;
mod fuzz;
mod history;
mod point_in_time;
mod prune;
mod record;
mod repository;
mod restore;
mod ship;
mod shipment;
mod stored;
mod verify;

pub use create::BackupReport;
pub use esker_base::BackupError;
#[doc(hidden)]
pub use fuzz::fuzz_repository;
pub use point_in_time::{PointInTime, Restorable};
pub use prune::PruneReport;
pub use record::{Backup, BackupFile};
pub use repository::{Progress, Repository};
pub use restore::RestoreReport;
pub use ship::ShipReport;
pub use shipment::{Piece, Shipment};
pub use verify::VerifyReport;
