//! The one error type. Each message says what happened, to what, and what to do about it.

use std::sync::Arc;

/// A result with the engine's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong. Cloneable, because one failed group commit fails many writers.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused something.
    #[error("could not {action} {path}: {source}{}", advice(source))]
    Io {
        /// What was tried, as a verb phrase: "open", "write to".
        action: &'static str,
        /// The file or directory it was tried on.
        path: String,
        /// The system's own error.
        #[source]
        source: Arc<std::io::Error>,
    },

    /// Stored bytes are not what was written.
    #[error(
        "{}; restore the file from a copy; in a database directory `esker check` shows how far it goes, \
         and `esker repair` keeps what is sound and gives up the rest",
        damaged(file, *offset, what)
    )]
    Corruption {
        /// The damaged file.
        file: String,
        /// Where in it, in bytes.
        offset: u64,
        /// What does not hold there.
        what: String,
    },

    /// Whole frames follow a frame of the log that does not hold, and the caller does not accept that.
    #[error(
        "{file} is torn or damaged at offset {offset}: {what}; a power loss before a sync may leave this, \
         and so may damage; to keep the writes before seqno {first_seqno}, open with \
         `Recovery::Prefix` (`--accept-torn-log`), which sets the rest aside"
    )]
    TornLog {
        /// The log.
        file: String,
        /// Where in it the frame starts that does not hold, in bytes.
        offset: u64,
        /// What does not hold there, and what follows.
        what: String,
        /// The first write that would not be kept.
        first_seqno: u64,
    },

    /// A part of a file is gone for good, as the storage that has the file says: no reading again brings it back. What
    /// else is in the file can be read.
    #[error("could not read {file} at byte {offset}: {what}")]
    Lost {
        /// The file.
        file: String,
        /// Where in it the read met the part, in bytes.
        offset: u64,
        /// What became of it, and what can be done.
        what: String,
    },

    /// A table that compaction leaves alone because a read of it failed. Its readers get the error itself.
    #[error(
        "cannot read {file} (keys {smallest} to {largest}): {cause}; compaction skips it; run `esker \
         repair`"
    )]
    TableUnreadable {
        /// The table's file.
        file: String,
        /// Its smallest key, with what is not printable escaped.
        smallest: String,
        /// Its largest key, with what is not printable escaped.
        largest: String,
        /// Why the read failed.
        cause: Arc<Error>,
    },

    /// An empty key, in a store that takes none.
    #[error(
        "the key is empty, and this store takes keys of 1 to 65,536 bytes; a database that this \
         version creates takes it: export this one and import it there"
    )]
    EmptyKey,

    /// A key beyond [`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES).
    #[error("the key is {bytes} bytes long; keys are at most 65,536 bytes long")]
    KeyTooLong {
        /// The key's length.
        bytes: usize,
    },

    /// A value that, with its key, does not fit a quarter of a segment.
    #[error(
        "the key of {key_bytes} bytes and its value of {bytes} bytes take {entry_bytes} bytes, and at \
         most {limit} fit (a quarter of a log segment); split the value, or open the database with \
         larger segments"
    )]
    ValueTooLarge {
        /// The value's length.
        bytes: usize,
        /// The key's length.
        key_bytes: usize,
        /// What both take, as they are encoded.
        entry_bytes: usize,
        /// The most that fits.
        limit: usize,
    },

    /// A range delete without an end in a database that an early release created. It does not fit a
    /// quarter of a segment.
    #[error(
        "cannot delete a range without an end: an early release created this database, where that takes \
         {entry_bytes} bytes, and at most {limit} fit (a quarter of a log segment); open the database \
         with segments of {segment_bytes} bytes or more, or give the range an end"
    )]
    OpenRangeTooLarge {
        /// What it takes, as it is encoded.
        entry_bytes: usize,
        /// The most that fits.
        limit: usize,
        /// Bytes of a segment that has room for it.
        segment_bytes: usize,
    },

    /// A batch that does not fit its share of the memory budget.
    #[error(
        "the batch takes {bytes} bytes in {entries} entries, and at most {limit} bytes in \
         {entries_limit} entries fit; write it in several batches, or open the database with larger \
         segments and a larger memory budget"
    )]
    BatchTooLarge {
        /// The batch's encoded size.
        bytes: usize,
        /// The largest that fits.
        limit: usize,
        /// Its puts and deletes.
        entries: usize,
        /// The most that fit.
        entries_limit: usize,
    },

    /// A batch with more range deletes than one MemTable may have.
    #[error(
        "the batch has {range_deletes} range deletes, and at most {limit} fit; write it in several batches"
    )]
    TooManyRangeDeletes {
        /// Its range deletes.
        range_deletes: usize,
        /// The most that fit.
        limit: usize,
    },

    /// A range whose end is not after its start.
    #[error("the range is empty: its end is not after its start")]
    EmptyRange,

    /// No keyspace of that name.
    #[error("there is no keyspace {name:?}; create it first, or list those that exist")]
    UnknownKeyspace {
        /// The name, or the id, that was asked for.
        name: String,
    },

    /// A handle that another open database made, or an earlier open of this one.
    #[error(
        "{what} can't be used in {store}: another database, or an earlier open of this one, made the \
         handle; get the handle from this database"
    )]
    ForeignHandle {
        /// The handle.
        what: String,
        /// The database that refused it.
        store: String,
    },

    /// A name that can't be given to a keyspace.
    #[error("{name:?} can't name a keyspace: {reason}")]
    BadKeyspaceName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// The database is open for writing already, in another process or in this one.
    #[error("{dir} is in use by {}", holder(pid))]
    Locked {
        /// The database directory.
        dir: String,
        /// The holder's process id, or `unknown`.
        pid: String,
    },

    /// The process that has a database open answers no requests.
    #[error(
        "could not ask the process that has {dir} open: it answers no requests; ask it to make the \
         checkpoint itself, or close the database there and try again"
    )]
    Unanswered {
        /// The database directory.
        dir: String,
    },

    /// The process that has a database open could not do what it was asked for.
    #[error("the process that has {dir} open could not do it: {cause}")]
    RequestFailed {
        /// The database directory.
        dir: String,
        /// What it said.
        cause: String,
    },

    /// A call in a forked child on what its parent had opened.
    #[error(
        "could not use {what} in a forked child: it was opened before the fork; open it after the \
         fork, or use it in the parent only"
    )]
    Forked {
        /// The database, or the store.
        what: String,
    },

    /// The directory is no database of ours.
    #[error("{dir} is not an Esker database: {reason}")]
    NotADatabase {
        /// The directory.
        dir: String,
        /// How that was seen.
        reason: String,
    },

    /// A database would be written over.
    #[error("{dir} holds a database already: give an empty or a new directory")]
    DatabaseExists {
        /// The directory.
        dir: String,
    },

    /// The caller stopped an operation before its end.
    #[error("the {what} was cancelled; nothing of it is left")]
    Cancelled {
        /// The operation.
        what: &'static str,
    },

    /// Written by a newer release.
    #[error(
        "{file} has format version {found}; this program reads up to {supported}: use a newer one"
    )]
    NewerVersion {
        /// The file.
        file: String,
        /// Its version.
        found: u32,
        /// The newest version known here.
        supported: u32,
    },

    /// Written with features this release lacks.
    #[error("{file} needs format features {flags:#x}, unknown to this program: use a newer one")]
    UnknownFeatures {
        /// The file.
        file: String,
        /// The feature flags not known here.
        flags: u32,
    },

    /// A persistent-memory pool that can't be used as it is asked to be.
    #[error("the pool {pool} can't be used: {reason}")]
    PoolRefused {
        /// The pool's file.
        pool: String,
        /// Why, which data that concerns, and what can be done.
        reason: String,
    },

    /// A persistent-memory pool whose own bytes are not what was written.
    #[error(
        "the pool {pool} is damaged at offset {offset}: {what}; writes that no table has yet are in \
         it alone, all others are safe; run `esker pmem check` to see how far it goes; restore the \
         pool from a copy, or else `esker repair DB --pool FILE` mends what it says of its extents, if \
         its header is sound, and `esker repair DB --give-up-logs`, without `--pool`, goes on with what \
         is in tables"
    )]
    PoolDamaged {
        /// The pool's file.
        pool: String,
        /// Where in it, in bytes.
        offset: u64,
        /// What does not hold there.
        what: String,
    },

    /// A hash store whose bytes are not what was written.
    #[error(
        "the hash store {store} is damaged at offset {offset}: {what}; store or delete a damaged key again, or run \
         `esker hash repair`, which keeps what is sound (`esker hash scrub` lists all damage)"
    )]
    HashStoreDamaged {
        /// The store's file or device.
        store: String,
        /// Where in it, in bytes.
        offset: u64,
        /// What does not hold there.
        what: String,
    },

    /// A hash store without room for what should be stored.
    #[error(
        "capacity exceeded: the hash store {store} {what}; nothing was stored; delete something, or make a \
         larger store"
    )]
    CapacityExceeded {
        /// The store's file or device.
        store: String,
        /// What there is no room for.
        what: String,
    },

    /// A value that a hash store has no place for, however empty it is.
    #[error(
        "the value is {bytes} bytes long; in this hash store values are at most {limit} bytes long"
    )]
    ValueTooLong {
        /// The value's length.
        bytes: usize,
        /// The longest.
        limit: usize,
    },

    /// Something that this kind of store does not do.
    #[error("{store} can't {what}; {instead}")]
    NotOffered {
        /// The kind of store.
        store: &'static str,
        /// What was asked for.
        what: &'static str,
        /// What to do instead.
        instead: &'static str,
    },

    /// A setting out of its range.
    #[error("{setting} is {value}: {reason}")]
    InvalidSetting {
        /// The setting's name.
        setting: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        reason: String,
    },

    /// A read that no correct store can have answered so.
    #[error("a read of key {key} was answered wrongly: {what}")]
    WrongAnswer {
        /// The key, with what is not printable escaped.
        key: String,
        /// What came back, and why that can't be.
        what: String,
    },

    /// A write through a read-only handle.
    #[error("the database is open read-only; open it for writing to change it")]
    ReadOnly,

    /// The log failed earlier. Reads go on.
    #[error(
        "the log failed, so nothing more is written: {cause}; \
         reads go on; mend the cause and open the database again, which recovers every acknowledged write"
    )]
    LogFailed {
        /// The first failure.
        cause: Arc<Error>,
    },

    /// An attempt to drop the keyspace failed, and so did every attempt to undo it in the manifest.
    /// Writes to the keyspace are rejected until one succeeds. Reads go on.
    #[error(
        "writes to keyspace {keyspace:?} are rejected, because an attempt to drop it failed and may \
         still take effect at the next open: {cause}; fix the cause and write again"
    )]
    DropUndecided {
        /// The keyspace's name.
        keyspace: String,
        /// Why the last attempt to undo it failed.
        cause: Arc<Error>,
    },

    /// The database was closed, by this handle or another one.
    #[error("the database is closed")]
    Closed,

    /// The answer is not in memory.
    #[error("the answer is not in memory; ask again with a call that may block")]
    WouldBlock,

    /// Another transaction changed what this one read or writes.
    #[error(
        "the transaction conflicts with another that changed key {key} since it began; roll back and \
         run it again"
    )]
    Conflict {
        /// The key, with what is not printable escaped.
        key: String,
    },

    /// This transaction waited for one that waited for it, and was chosen to give way.
    #[error(
        "the transaction was given up to resolve a deadlock of {transactions} transactions, when it \
         asked for key {key}; roll back and run it again"
    )]
    Deadlock {
        /// How many waited for each other.
        transactions: usize,
        /// The key that was asked for last, with what is not printable escaped.
        key: String,
    },

    /// A lock was not got in time.
    #[error(
        "key {key} was locked by another transaction for longer than the lock timeout of {waited:?}; \
         roll back and run the transaction again, or allow it more time"
    )]
    LockTimeout {
        /// The key, with what is not printable escaped.
        key: String,
        /// How long was waited.
        waited: std::time::Duration,
    },

    /// A call after a transaction's end.
    #[error("the transaction has ended: it was {how}; begin another")]
    TransactionEnded {
        /// "committed", "rolled back" and so on.
        how: &'static str,
    },

    /// Nothing to go back to.
    #[error("the transaction has no savepoint to go back to; set one first")]
    NoSavepoint,
}

/// The holder of a lock, and what to do.
fn holder(pid: &str) -> String {
    match pid == std::process::id().to_string() {
        true => "this process; close its other handles first, or use one of them".to_owned(),
        false => format!("process {pid}; close it there first"),
    }
}

fn damaged(of: &str, offset: u64, what: &str) -> String {
    format!("{of} is damaged at offset {offset}: {what}")
}

impl Error {
    /// An I/O error about `path`.
    pub fn io(action: &'static str, path: impl Into<String>, source: std::io::Error) -> Self {
        Error::Io { action, path: path.into(), source: Arc::new(source) }
    }

    /// A corruption report.
    pub fn corruption(file: impl Into<String>, offset: u64, what: impl Into<String>) -> Self {
        Error::Corruption { file: file.into(), offset, what: what.into() }
    }

    /// What happened, to what: the message without the advice on damage, for who follows that already.
    pub fn fact(&self) -> String {
        match self {
            Error::Corruption { file: of, offset, what }
            | Error::PoolDamaged { pool: of, offset, what }
            | Error::HashStoreDamaged { store: of, offset, what } => damaged(of, *offset, what),
            Error::TornLog { file, offset, what, .. } => {
                format!("{file} is torn or damaged at offset {offset}: {what}")
            }
            other => other.to_string(),
        }
    }

    /// Whether the same transaction, run again from its start, may well succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Error::Conflict { .. } | Error::Deadlock { .. } | Error::LockTimeout { .. })
    }

    /// The kind of the system's error, if there is one at the root.
    pub fn io_kind(&self) -> Option<std::io::ErrorKind> {
        match self {
            Error::Io { source, .. } => Some(source.kind()),
            Error::LogFailed { cause }
            | Error::DropUndecided { cause, .. }
            | Error::TableUnreadable { cause, .. } => cause.io_kind(),
            _ => None,
        }
    }

    /// Whether the cause is a full disk or an exhausted quota.
    pub fn is_out_of_space(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self.io_kind(), Some(StorageFull | QuotaExceeded))
    }

    /// Whether a storage says that a part of a file is gone for good.
    pub fn is_lost(&self) -> bool {
        match self {
            Error::TableUnreadable { cause, .. } => cause.is_lost(),
            other => matches!(other, Error::Lost { .. }),
        }
    }

    /// Whether stored bytes were found damaged.
    pub fn is_corruption(&self) -> bool {
        match self {
            Error::TableUnreadable { cause, .. } => cause.is_corruption(),
            Error::Corruption { .. }
            | Error::PoolDamaged { .. }
            | Error::HashStoreDamaged { .. } => true,
            _ => false,
        }
    }
}

fn advice(source: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; free some space and try again; nothing acknowledged is lost"
        }
        ErrorKind::PermissionDenied => "; check the owner and mode of the path",
        _ => "",
    }
}
