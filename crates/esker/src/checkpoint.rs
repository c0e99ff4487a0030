//! Checkpoints, changes of settings, and the status, of a database that another process has open.

use crate::Result;
use crate::options::SettingChange;
use crate::stats::LiveStatus;
use esker_base::{Seqno, SystemClock, seed_from_os};
use std::path::Path;

pub use esker_lsm::Requested;

/// Asks the process that has the database in `dir` open to write a checkpoint into `target`.
///
/// Waits until the checkpoint is complete, as long as `goes_on` returns true. The checkpoint is that
/// of [`Db::checkpoint`](crate::Db::checkpoint), which a process with the database open calls
/// instead. `target` must name the same directory in both processes.
///
/// # Errors
/// * [`Error::Unanswered`](crate::Error::Unanswered) if that process does not accept requests: it
///   was opened without [`Settings::answers_requests`](crate::Settings::answers_requests).
/// * [`Error::RequestFailed`](crate::Error::RequestFailed) with the cause, if the checkpoint failed
///   there.
/// * [`Error::Cancelled`](crate::Error::Cancelled) if `goes_on` returned false before that process
///   accepted the request.
/// * [`Error::Io`](crate::Error::Io) if the request cannot be written to `dir`.
///
/// # Examples
///
/// ```
/// use esker::checkpoint::{Requested, request};
/// use esker::{Db, Settings};
///
/// # let dir = tempfile::tempdir()?;
/// # let (dir, target) = (dir.path().join("data"), dir.path().join("copy"));
/// Db::open(&dir, Settings::default())?.close()?;
/// assert_eq!(request(&dir, &target, || true)?, Requested::NotOpen);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn request(
    dir: impl AsRef<Path>,
    target: impl AsRef<Path>,
    goes_on: impl Fn() -> bool,
) -> Result<Requested> {
    let (clock, seed) = (SystemClock::new(), seed_from_os());
    esker_lsm::request_checkpoint(dir.as_ref(), target.as_ref(), &clock, seed, &goes_on)
}

/// Asks the process that has the database in `dir` open to make `change`, as
/// [`Db::set`](crate::Db::set) does there.
///
/// Waits until it is done, as long as `goes_on` returns true.
///
/// # Errors
/// As for [`request`]: [`Error::RequestFailed`](crate::Error::RequestFailed) with the cause if the
/// change failed there.
///
/// # Examples
///
/// ```
/// use esker::checkpoint::{Requested, request_change};
/// use esker::{Db, Settings};
///
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path().join("data");
/// let db = Db::open(&dir, Settings::default().answers_requests(true))?;
/// // In another process:
/// let change = "background_write_rate=20MiB".parse()?;
/// assert_eq!(request_change(&dir, &change, || true)?, Requested::Done);
/// assert_eq!(db.stats().background_write_rate, Some(20 << 20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn request_change(
    dir: impl AsRef<Path>,
    change: &SettingChange,
    goes_on: impl Fn() -> bool,
) -> Result<Requested> {
    let (clock, seed) = (SystemClock::new(), seed_from_os());
    esker_lsm::request_change(dir.as_ref(), change, &clock, seed, &goes_on)
}

/// Asks the process that has the database in `dir` open for its status, as
/// [`Db::status`](crate::Db::status) returns it there. Returns `None` if no process has it open.
///
/// Waits until it is there, as long as `goes_on` returns true: about a tenth of a second, longer if that
/// process carries out another request.
///
/// # Errors
/// As for [`request`].
///
/// # Examples
///
/// ```
/// use esker::checkpoint::request_status;
/// use esker::{Db, Settings};
///
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path().join("data");
/// let db = Db::open(&dir, Settings::default().answers_requests(true))?;
/// db.put(&db.default_keyspace(), "key", "value")?;
/// // In another process:
/// let status = request_status(&dir, || true)?.expect("it is open");
/// assert_eq!(status.metric("esker_writes_total"), 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn request_status(
    dir: impl AsRef<Path>,
    goes_on: impl Fn() -> bool,
) -> Result<Option<LiveStatus>> {
    let (clock, seed) = (SystemClock::new(), seed_from_os());
    esker_lsm::request_status(dir.as_ref(), &clock, seed, &goes_on)
}

/// Asks the process that has the database in `dir` open to keep logs for the change consumer `name`, up to
/// `bound_bytes`, and to sync its log. The consumer has processed all writes up to `acknowledged`.
///
/// Returns the sequence number up to which the log survives a power loss, or `None` if no process has the database
/// open. Waits as long as `goes_on` returns true. A backup of the log is made so:
/// [`Repository::ship_beside`](crate::backup::Repository::ship_beside).
///
/// # Errors
/// As for [`request`]. [`Error::Cancelled`](crate::Error::Cancelled) if `goes_on` returned false.
///
/// # Examples
///
/// ```
/// use esker::checkpoint::request_log;
/// use esker::{Db, Settings};
///
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path().join("data");
/// let db = Db::open(&dir, Settings::default().answers_requests(true))?;
/// db.default_keyspace().put("ada", "analyst")?;
/// assert_eq!(request_log(&dir, "mirror", 1 << 30, 0, || true)?, Some(1));
/// assert_eq!(db.change_consumers()[0].name, "mirror");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn request_log(
    dir: impl AsRef<Path>,
    name: &str,
    bound_bytes: u64,
    acknowledged: Seqno,
    goes_on: impl Fn() -> bool,
) -> Result<Option<Seqno>> {
    let (clock, seed) = (SystemClock::new(), seed_from_os());
    let consumer = (name, bound_bytes, acknowledged);
    esker_lsm::request_log(dir.as_ref(), consumer, &clock, seed, &goes_on)
}
