//! The error type of all crates. Each message says what happened, to what, and what to do next.

mod backup;
pub mod changes;
mod encryption;
mod index;
mod kinds;
mod large_value;
mod lock_wait;
mod messages;
mod prepared;

use messages::{advice, cycle, damaged, holder, lock_timeout, pool_damaged};
use std::sync::Arc;
pub use {backup::BackupError, encryption::EncryptionError, index::IndexError};
pub use {large_value::LargeValueError, lock_wait::LockWait, prepared::PreparedError};

/// A result whose error is [`Error`] by default.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of every call of the engine.
///
/// A message names what failed, why, and what to do next. [`Error::is_transient`],
/// [`Error::is_out_of_space`], [`Error::is_corruption`] and [`Error::is_lost`] answer what programs
/// most often ask. Errors are cloneable, because one failed group commit fails many writers.
///
/// # Examples
///
/// ```
/// # mod esker { pub use esker_base::*; }
/// use esker::Error;
///
/// let conflict = Error::Conflict { key: "stock/42".into() };
/// assert!(conflict.is_transient() && !Error::ReadOnly.is_transient());
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system failed an operation on a file or a directory.
    ///
    /// Fix the cause, such as a full disk or missing permissions, and try again.
    #[error("could not {action} {path}: {source}{}", advice(source))]
    Io {
        /// The operation, as a verb phrase: "open", "write to".
        action: &'static str,
        /// The file or the directory.
        path: String,
        /// The error of the system.
        #[source]
        source: Arc<std::io::Error>,
    },

    /// The bytes of a file differ from those written: a checksum or an invariant fails.
    ///
    /// Restore the file from a copy. `esker check` lists all damage in a database directory; `esker
    /// repair` keeps what is intact and drops the rest.
    #[error(
        "{}; restore the file from a copy; in a database directory `esker check` shows how far it goes, \
         and `esker repair` keeps what is sound and drops the rest",
        damaged(file, *offset, what)
    )]
    Corruption {
        /// The damaged file.
        file: String,
        /// The offset of the damage, in bytes.
        offset: u64,
        /// What is wrong there.
        what: String,
    },

    /// The log has an invalid frame with whole frames after it, and the caller asked for strict
    /// recovery.
    ///
    /// A power loss before a sync leaves such a log, and so does damage. Open with
    /// `Recovery::Prefix` to keep the writes before the invalid frame.
    #[error(
        "{file} is torn or damaged at offset {offset}: {what}; a power loss before a sync may leave this, \
         and so may damage; to keep the writes before seqno {first_seqno}, open with \
         `Recovery::Prefix` (`--accept-torn-log`), which sets the rest aside"
    )]
    TornLog {
        /// The log.
        file: String,
        /// The offset of the invalid frame, in bytes.
        offset: u64,
        /// What is wrong there, and what follows.
        what: String,
        /// The sequence number of the first write that would be dropped.
        first_seqno: u64,
    },

    /// The storage has permanently lost a part of a file, such as a failed chunk of a flash device. The
    /// other parts of the file can be read. The message says what to do.
    #[error("could not read {file} at byte {offset}: {what}")]
    Lost {
        /// The file.
        file: String,
        /// The offset in bytes at which the read met the lost part.
        offset: u64,
        /// What happened to it, and what to do.
        what: String,
    },

    /// A read of a table failed, so compaction skips the table.
    ///
    /// Reads of the table get the cause itself. Compaction tries the table again after an I/O
    /// error. After damage, restore the file from a copy, or run `esker repair`.
    #[error(
        "cannot read {file} (keys {smallest} to {largest}): {cause}; compaction skips it; run `esker \
         repair`"
    )]
    TableUnreadable {
        /// The file of the table.
        file: String,
        /// The smallest key of the table, with unprintable bytes escaped.
        smallest: String,
        /// The largest key of the table, with unprintable bytes escaped.
        largest: String,
        /// The error of the read.
        #[source]
        cause: Arc<Error>,
    },

    /// The key is empty, and the store does not accept the empty key.
    ///
    /// Hash stores do not, nor do databases that a pre-release build created. Export such a database
    /// and import it into a new one.
    #[error(
        "the key is empty, and this store takes keys of 1 to 65,536 bytes; a database that this \
         version creates takes it: export this one and import it there"
    )]
    EmptyKey,

    /// The key is longer than [`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES), 64 KiB. Use a shorter key.
    #[error("the key is {bytes} bytes long; keys are at most 65,536 bytes long")]
    KeyTooLong {
        /// The length of the key, in bytes.
        bytes: usize,
    },

    /// The value, with its key, is larger than a quarter of a log segment, and the call takes no such value: a
    /// transaction, a merge, an ingest, or a put with a time to live. Put it outside of one, or split it.
    #[error(
        "the key of {key_bytes} bytes and its value of {bytes} bytes take {entry_bytes} bytes, and at \
         most {limit} fit here (a quarter of a log segment); split the value, put it by a plain put or \
         batch, or open the database with larger segments"
    )]
    ValueTooLarge {
        /// The length of the value, in bytes.
        bytes: usize,
        /// The length of the key, in bytes.
        key_bytes: usize,
        /// The encoded length of both, in bytes.
        entry_bytes: usize,
        /// The largest encoded length, in bytes.
        limit: usize,
    },

    /// A range delete without an end does not fit a quarter of a log segment.
    ///
    /// This occurs only in databases that a pre-release build created. Give the range an end, or open
    /// the database with segments of `segment_bytes` or more.
    #[error(
        "cannot delete a range without an end: a pre-release build created this database, where that takes \
         {entry_bytes} bytes, and at most {limit} fit (a quarter of a log segment); open the database \
         with segments of {segment_bytes} bytes or more, or give the range an end"
    )]
    OpenRangeTooLarge {
        /// The encoded length of the range delete, in bytes.
        entry_bytes: usize,
        /// The largest encoded length, in bytes.
        limit: usize,
        /// A segment size that is large enough, in bytes.
        segment_bytes: usize,
    },

    /// The batch exceeds its share of the memory budget. Split it, or raise the budget.
    #[error(
        "the batch takes {bytes} bytes in {entries} entries, and at most {limit} bytes in \
         {entries_limit} entries fit; write it in several batches, or open the database with larger \
         segments and a larger memory budget"
    )]
    BatchTooLarge {
        /// The encoded size of the batch, in bytes.
        bytes: usize,
        /// The largest encoded size, in bytes.
        limit: usize,
        /// The number of its puts and deletes.
        entries: usize,
        /// The largest number of puts and deletes.
        entries_limit: usize,
    },

    /// The batch has more range deletes than one MemTable may hold. Split the batch.
    #[error(
        "the batch has {range_deletes} range deletes, and at most {limit} fit; write it in several batches"
    )]
    TooManyRangeDeletes {
        /// The number of its range deletes.
        range_deletes: usize,
        /// The largest number of range deletes.
        limit: usize,
    },

    /// The entries to ingest are not in ascending order of their keys. Sort them, each key once.
    #[error(
        "entry {position} to ingest is out of order: its key {key} is not above the key before it, \
         {before}; sort the entries, and keep one of each key"
    )]
    NotSorted {
        /// The position of the entry, from 1.
        position: u64,
        /// Its key, with unprintable bytes escaped.
        key: String,
        /// The key before it, with unprintable bytes escaped.
        before: String,
    },

    /// Two sorted writers of one ingest overlap. Give each a range of keys of its own.
    #[error(
        "two sorted writers overlap: one has {first}, another {second}; give each a range of keys of its \
         own, or ingest them one after the other"
    )]
    OverlappingWriters {
        /// The keys of one writer.
        first: String,
        /// The keys of the other.
        second: String,
    },

    /// The range ends at or before its start. Pass a range with at least one key.
    #[error("the range is empty: its end is not after its start")]
    EmptyRange,

    /// There is no keyspace with this name or id. Create it, or list those that exist.
    #[error("there is no keyspace {name:?}; create it first, or list those that exist")]
    UnknownKeyspace {
        /// The name or the id that was asked for.
        name: String,
    },

    /// Another database, or an earlier open of this one, made the handle or the snapshot. Get a new one.
    #[error(
        "{what} can't be used in {store}: another database, or an earlier open of this one, made the \
         handle; get the handle from this database"
    )]
    ForeignHandle {
        /// The handle or the snapshot.
        what: String,
        /// The database that rejected it.
        store: String,
    },

    /// The keyspace exists with other settings than the caller asked for. Nothing was changed.
    ///
    /// Ask for the stored settings, or open the keyspace without any.
    #[error(
        "keyspace {name:?} exists with other settings: {difference}; ask for these, or open it as an \
         existing keyspace"
    )]
    KeyspaceSettingsDiffer {
        /// The name of the keyspace.
        name: String,
        /// Each setting that differs, with its stored value and the one asked for.
        difference: String,
    },

    /// The keyspace has no merge operator, or this open lacks it. Nothing was written. Values without
    /// merges can be read. The message says what to do.
    #[error("could not merge in keyspace {keyspace:?}: {reason}")]
    NoMergeOperator {
        /// The name of the keyspace.
        keyspace: String,
        /// Why, and what to do.
        reason: String,
    },

    /// The merge operator of the keyspace rejected an operand, or failed to merge the key's operands.
    ///
    /// Nothing is lost: other keys can be read, and this one once it is put or deleted, or the operator
    /// is fixed.
    #[error("could not merge key {key} of keyspace {keyspace:?}: {what}")]
    MergeFailed {
        /// The key, with unprintable bytes escaped.
        key: String,
        /// The name of the keyspace.
        keyspace: String,
        /// The name of the operator, and its message.
        what: String,
    },

    /// The compaction filter of a keyspace failed. The entry stays as it is, and the others are compacted.
    #[error("could not filter key {key} of keyspace {keyspace:?}: {what}; the entry was kept")]
    FilterFailed {
        /// The key, with unprintable bytes escaped.
        key: String,
        /// The name of the keyspace.
        keyspace: String,
        /// The name of the filter, and its message.
        what: String,
    },

    /// A keyspace cannot have this name, or the keyspace with this name cannot be dropped.
    #[error("{name:?} can't name a keyspace: {reason}")]
    BadKeyspaceName {
        /// The name.
        name: String,
        /// Why, and what to do.
        reason: &'static str,
    },

    /// The database is open for writing, in another process or in this one. Close it there first.
    #[error("{dir} is in use by {}", holder(pid))]
    Locked {
        /// The database directory.
        dir: String,
        /// The id of the process that has it open, or `unknown`.
        pid: String,
    },

    /// The process that has the database open does not accept requests.
    ///
    /// Make the checkpoint in that process, or close the database there and try again.
    #[error(
        "could not ask the process that has {dir} open: it answers no requests; ask it to make the \
         checkpoint itself, or close the database there and try again"
    )]
    Unanswered {
        /// The database directory.
        dir: String,
    },

    /// The process that has the database open could not carry out the request. Fix the cause and try again.
    #[error("the process that has {dir} open could not do it: {cause}")]
    RequestFailed {
        /// The database directory.
        dir: String,
        /// The message of its error.
        cause: String,
    },

    /// A forked child used what its parent had opened. Open it after the fork instead.
    #[error(
        "could not use {what} in a forked child: it was opened before the fork; open it after the \
         fork, or use it in the parent only"
    )]
    Forked {
        /// The database, the store or the shared resources.
        what: String,
    },

    /// The directory has no database that can be opened.
    ///
    /// Check the path. The reason says whether files are missing, or other files are there.
    #[error("{dir} is not an Esker database: {reason}")]
    NotADatabase {
        /// The directory.
        dir: String,
        /// Why, and what to do.
        reason: String,
    },

    /// The directory already holds a database. Name an empty or a new directory.
    #[error("{dir} holds a database already: give an empty or a new directory")]
    DatabaseExists {
        /// The directory.
        dir: String,
    },

    /// The caller stopped the operation before it was complete. Nothing of it remains.
    #[error("the {what} was cancelled; nothing of it is left")]
    Cancelled {
        /// The operation.
        what: &'static str,
    },

    /// A newer release wrote the file. Use that release or a later one.
    #[error(
        "{file} has format version {found}; this program reads up to {supported}: use a newer one"
    )]
    NewerVersion {
        /// The file.
        file: String,
        /// Its format version.
        found: u32,
        /// The newest format version that this release reads.
        supported: u32,
    },

    /// The file uses format features that this release lacks. Use a newer release.
    #[error("{file} needs format features {flags:#x}, unknown to this program: use a newer one")]
    UnknownFeatures {
        /// The file.
        file: String,
        /// The bits of the unknown features.
        flags: u32,
    },

    /// The pool of persistent memory cannot be used as requested. The reason says what to do.
    #[error("the pool {pool} can't be used: {reason}")]
    PoolRefused {
        /// The file of the pool.
        pool: String,
        /// Why, and what to do.
        reason: String,
    },

    /// The bytes of a pool of persistent memory differ from those written.
    ///
    /// Writes that are in the pool only may be lost; writes in tables are safe. Run `esker pmem
    /// check`. Restore the pool from a copy, or run `esker repair DB --pool FILE`. Without the
    /// pool, `esker repair DB --give-up-logs` keeps what is in tables.
    #[error("the pool {}", pool_damaged(pool, *offset, what))]
    PoolDamaged {
        /// The file of the pool.
        pool: String,
        /// The offset of the damage, in bytes.
        offset: u64,
        /// What is wrong there.
        what: String,
    },

    /// The bytes of a hash store differ from those written.
    ///
    /// `esker hash scrub` lists all damage. Store or delete a damaged key again, or run `esker hash
    /// repair`, which keeps what is intact.
    #[error(
        "the hash store {store} is damaged at offset {offset}: {what}; store or delete a damaged key again, or run \
         `esker hash repair`, which keeps what is sound (`esker hash scrub` lists all damage)"
    )]
    HashStoreDamaged {
        /// The file or the device of the store.
        store: String,
        /// The offset of the damage, in bytes.
        offset: u64,
        /// What is wrong there.
        what: String,
    },

    /// The hash store has no free space for the value. Delete keys, or create a larger store.
    #[error(
        "capacity exceeded: the hash store {store} {what}; nothing was stored; delete something, or make a \
         larger store"
    )]
    CapacityExceeded {
        /// The file or the device of the store.
        store: String,
        /// What does not fit.
        what: String,
    },

    /// The value is longer than the hash store accepts. Split it, or use a database.
    #[error(
        "the value is {bytes} bytes long; in this hash store values are at most {limit} bytes long"
    )]
    ValueTooLong {
        /// The length of the value, in bytes.
        bytes: usize,
        /// The largest length, in bytes.
        limit: usize,
    },

    /// This kind of store does not support the operation.
    #[error("{store} can't {what}; {instead}")]
    NotOffered {
        /// The kind of store.
        store: &'static str,
        /// The operation.
        what: &'static str,
        /// What to do instead.
        instead: &'static str,
    },

    /// A setting is out of range. The reason gives the range.
    #[error("{setting} is {value}: {reason}")]
    InvalidSetting {
        /// The name of the setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// The valid values.
        reason: String,
    },

    /// A verifying client read an answer that no correct store can give: a bug in the store or the client.
    #[error("a read of key {key} was answered wrongly: {what}")]
    WrongAnswer {
        /// The key, with unprintable bytes escaped.
        key: String,
        /// The answer, and why it is wrong.
        what: String,
    },

    /// The handle is read-only. Open the database for writing to change it.
    #[error("the database is open read-only; open it for writing to change it")]
    ReadOnly,

    /// A write or a sync of the log failed, now or earlier, so all further writes are rejected.
    ///
    /// Reads continue. Fix the cause and open the database again: that recovers every acknowledged
    /// write.
    #[error(
        "the log failed, so nothing more is written: {cause}; \
         reads go on; mend the cause and open the database again, which recovers every acknowledged write"
    )]
    LogFailed {
        /// The first failure.
        #[source]
        cause: Arc<Error>,
    },

    /// Dropping the keyspace failed, and restoring the manifest failed as well.
    ///
    /// Writes to the keyspace are rejected, because the next open may find it dropped. Reads
    /// continue. Fix the cause and write again: each write first tries to restore the manifest.
    #[error(
        "writes to keyspace {keyspace:?} are rejected, because an attempt to drop it failed and may \
         still take effect at the next open: {cause}; fix the cause and write again"
    )]
    DropUndecided {
        /// The name of the keyspace.
        keyspace: String,
        /// Why the last attempt to restore the manifest failed.
        #[source]
        cause: Arc<Error>,
    },

    /// This or another handle has closed the database. Open it again.
    #[error("the database is closed")]
    Closed,

    /// The answer is not in memory, and the call may not block.
    #[error("the answer is not in memory; ask again with a call that may block")]
    WouldBlock,

    /// Another transaction changed a key that this one read or writes.
    #[error(
        "the transaction conflicts with another that changed key {key} since it began; roll back and \
         run it again"
    )]
    Conflict {
        /// The key, with unprintable bytes escaped.
        key: String,
    },

    /// Transactions waited for each other in a cycle, and this one was chosen to fail.
    #[error("the transaction was aborted to resolve a deadlock{}", cycle(key, waits))]
    Deadlock {
        /// The key that this transaction asked for, with unprintable bytes escaped.
        key: String,
        /// Who waited for which key, this transaction first; each waited for the next.
        waits: Box<[LockWait]>,
    },

    /// Another transaction held the lock of a key for longer than the lock timeout.
    #[error("{}", lock_timeout(key, holder, *waited))]
    LockTimeout {
        /// The key, with unprintable bytes escaped.
        key: String,
        /// Who had locked it: `transaction 12`, or `the prepared transaction order-7`.
        holder: String,
        /// The lock timeout.
        waited: std::time::Duration,
    },

    /// The transaction has ended.
    #[error("the transaction has ended: it was {how}; begin another")]
    TransactionEnded {
        /// How it ended: "committed", "rolled back" and so on.
        how: &'static str,
    },

    /// The transaction has no savepoint to roll back to. Set one first.
    #[error("the transaction has no savepoint to go back to; set one first")]
    NoSavepoint,

    /// A transaction cannot be prepared, or a prepared one not decided.
    #[error(transparent)]
    Prepared(PreparedError),

    /// A secondary index does not allow the call.
    #[error(transparent)]
    Index(Box<IndexError>),

    /// A value that is larger than a log entry may be is not written.
    #[error(transparent)]
    LargeValue(Box<LargeValueError>),

    /// A backup cannot be made, or a database not restored from one.
    #[error(transparent)]
    Backup(Box<BackupError>),

    /// The files of a database cannot be decrypted, or must not be written.
    #[error(transparent)]
    Encryption(Box<EncryptionError>),

    /// A change feed cannot go on, or a consumer not be registered.
    #[error(transparent)]
    Changes(Box<changes::ChangesError>),
}
