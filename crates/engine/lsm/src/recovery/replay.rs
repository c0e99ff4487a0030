//! Recovery: builds the state of the database from the files.
//!
//! 1. `CURRENT` names the manifest. Its edits give the current tables and logs.
//! 2. Every table file must exist and be long enough, and every table in it must have a footer that
//!    this version can read. Nothing is written or removed before that is known. The exception is a
//!    footer that the storage reports as permanently lost: each read of that table fails, and all else
//!    can be used.
//! 3. The logs are scanned in the order of their epochs. Their frames must continue, by sequence
//!    number, where the tables end. The first place where they do not is the end of the log, which a
//!    crash left there. It is corruption, not a torn tail, if a later frame shows that the missing
//!    writes were durable, or if a log is shorter than an earlier recovery found it.
//! 4. What was recovered is synced, and a new manifest records where each log ends, before anything
//!    else is written. So what was rejected once stays rejected, however often recovery is interrupted.

use super::unlisted_files::file_names::file_id_in;
use crate::history::staged_copy::RESTORING;
use crate::log::pmem_wal::POOL_ALIGNMENT;
use crate::log::torn_tail::{FramesBehind, TornTail};
use crate::log::wal_files::{log_file_name, parse_log_file_name};
use crate::log::wal_reader::{LoadedWal, WalSource, write_again};
use crate::manifest::manifest_file::{
    CURRENT, parse_manifest_file_name, read_current, read_manifest, torn_tail_offset,
};
use crate::manifest::manifest_state::{LogRecord, ManifestState};
use crate::manifest::manifest_tail;
use crate::manifest::version_edit::LogEnd;
use crate::parallel;
use crate::version::{TableMeta, parse_data_file_name, table_file_name};
use esker_base::{Background, Error, Result, Seqno};
use esker_memtable::{MemTable, ScanEnd, ScanResult};
use esker_storage::{ReadableFile, Storage};
use esker_table::Table;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is on a storage before it is opened.
pub(crate) enum DirectoryState {
    /// A database: the manifest's name.
    Database(String),
    /// Nothing, or the beginnings of a creation that was truncated.
    Nothing,
}

/// Looks whether `storage` holds a database. Anything else in it is an error: it is not ours to
/// write to.
pub(crate) fn look(storage: &dyn Storage) -> Result<DirectoryState> {
    if storage.exists(CURRENT)? {
        return Ok(DirectoryState::Database(read_current(storage)?));
    }
    let ours = |name: &str| {
        matches!(name, "LOCK" | "CURRENT.new") || parse_manifest_file_name(name).is_some()
    };
    let data =
        |name: &str| parse_data_file_name(name).is_some() || parse_log_file_name(name).is_some();
    let names = storage.list()?;
    let dir = storage.describe();
    if names.iter().any(|name| name == RESTORING) {
        let reason = "a restore into it was interrupted; run the restore again";
        return Err(Error::NotADatabase { dir, reason: reason.into() });
    }
    if names.iter().any(|name| data(name)) {
        let reason = "it holds tables or logs, but no CURRENT file to say which are current; \
                      restore that file, or run `esker repair`";
        return Err(Error::NotADatabase { dir, reason: reason.into() });
    }
    // A creation that was cut off leaves a manifest of one edit.
    let in_force = |name: &&String| {
        parse_manifest_file_name(name).is_some()
            && read_manifest(storage, name).is_ok_and(|(_, records)| records.len() > 1)
    };
    if let Some(name) = names.iter().find(in_force) {
        let reason = format!(
            "it has no CURRENT file, and {name} was the current manifest; restore CURRENT, or run \
             `esker repair`"
        );
        return Err(Error::NotADatabase { dir, reason });
    }
    match names.iter().find(|name| !ours(name)) {
        None => Ok(DirectoryState::Nothing),
        Some(name) => Err(Error::NotADatabase {
            dir,
            reason: format!("it holds other files ({name:?}); give an empty or a new directory"),
        }),
    }
}

/// The state that the manifest `name` describes, and the database's identity.
pub(crate) fn load_state(storage: &Arc<dyn Storage>, name: &str) -> Result<(u64, ManifestState)> {
    let loaded = manifest_tail::load(storage, name)?;
    Ok((loaded.identity, loaded.state))
}

/// Where the manifest `name` goes on with bytes that are no edit, if it does.
pub(crate) fn manifest_cut_off(storage: &dyn Storage, name: &str) -> Result<Option<u64>> {
    let (_, records) = read_manifest(storage, name)?;
    torn_tail_offset(storage, name, &records)
}

/// Where each table starts in its file, and its length, by file.
fn tables_by_file(state: &ManifestState) -> BTreeMap<u64, Vec<(u64, u64)>> {
    let mut files: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for keyspace in state.version.keyspaces.values() {
        for (_, _, table) in keyspace.tables() {
            let TableMeta { id, bytes, .. } = table.meta;
            files.entry(id.file).or_default().push((id.offset, bytes));
        }
    }
    files
}

/// Checks that every table file is there and long enough.
pub(crate) fn check_table_files(storage: &dyn Storage, state: &ManifestState) -> Result<()> {
    let mut files = tables_by_file(state).into_iter();
    files.try_for_each(|(file, tables)| table_file(storage, file, &tables).map(|_| ()))
}

/// The same, and that every table in them ends with a footer that can be read here, or that is lost; several files at
/// once. Fails with what is wrong with the first in which something is. Returns about how much memory the tables take once they
/// are open.
pub(crate) fn check_table_ends(
    storage: &Arc<dyn Storage>,
    state: &ManifestState,
    background: &dyn Background,
) -> Result<u64> {
    let storage = storage.clone();
    let check = move |(number, tables): (u64, Vec<(u64, u64)>)| {
        let file = table_file(&*storage, number, &tables)?;
        let tables = tables.into_iter();
        let end = |(start, bytes)| match Table::check_end(file.clone(), number, start, bytes) {
            // It will take none.
            Err(error) if error.is_lost() => Ok(0),
            checked => checked,
        };
        tables.map(end).sum::<Result<u64>>()
    };
    let files = tables_by_file(state).into_iter().collect();
    parallel::for_each(background, parallel::helpers(), files, check).into_iter().sum()
}

/// The file `number`, long enough for `tables`.
fn table_file(
    storage: &dyn Storage,
    number: u64,
    tables: &[(u64, u64)],
) -> Result<Arc<dyn ReadableFile>> {
    let name = table_file_name(number);
    let path = || format!("{}/{name}", storage.describe());
    let file = match storage.open(&name) {
        Err(_) if !storage.exists(&name)? => {
            let what = "the manifest lists the file and it is missing";
            return Err(Error::corruption(path(), 0, what));
        }
        opened => opened?,
    };
    let length = file.len()?;
    let needed =
        tables.iter().map(|(start, bytes)| start.saturating_add(*bytes)).max().unwrap_or(0);
    if length < needed {
        let what = format!("the file ends here, and the manifest says {needed} bytes");
        return Err(Error::corruption(path(), length, what));
    }
    Ok(file)
}

/// What the logs held.
pub(crate) struct RecoveredState {
    /// Newest first.
    pub(crate) memtables: Vec<Arc<MemTable>>,
    /// The logs that hold them, with their ends.
    pub(crate) logs: BTreeMap<u32, LogRecord>,
    /// Those of them whose end no earlier recovery has decided.
    pub(crate) unsettled: Vec<u32>,
    /// The last seqno recovered.
    pub(crate) last_seqno: Seqno,
    /// What they held beyond that.
    pub(crate) torn: Option<TornTail>,
    /// The logs of which whole frames were rejected.
    pub(crate) rejected: Vec<Rejected>,
    /// The logs that hold only frames of a batch without its last frame.
    pub(crate) unfinished: Vec<u32>,
}

/// A log of which whole frames were rejected.
pub(crate) struct Rejected {
    /// Its file's name.
    pub(crate) name: String,
    /// Its content up to the end of the last of these frames.
    pub(crate) bytes: Vec<u8>,
}

impl RecoveredState {
    /// From logs that hold nothing after `last_seqno`.
    pub(crate) fn nothing_after(last_seqno: Seqno) -> Self {
        RecoveredState {
            memtables: Vec::new(),
            logs: BTreeMap::new(),
            unsettled: Vec::new(),
            last_seqno,
            torn: None,
            rejected: Vec::new(),
            unfinished: Vec::new(),
        }
    }
}

/// Reads the logs of `state`: each by itself, as many at once as there are processors; then, in
/// order, where they follow from each other; then each becomes a MemTable, again at once.
pub(crate) fn read_logs(source: &WalSource<'_>, state: &ManifestState) -> Result<RecoveredState> {
    let helpers = parallel::helpers();
    let read = state.logs.iter().map(|(&epoch, log)| source.read(epoch, log));
    let read = read.collect::<Result<Vec<_>>>()?;
    let scanned = parallel::for_each(source.background, helpers, read, |mut read| {
        let scanned = read.scan(None);
        (read, scanned)
    });
    let mut recovered = RecoveredState::nothing_after(state.version.flushed_through);
    let mut accepted = Vec::new();
    for (read, scanned) in follow(scanned, &mut recovered)? {
        if read.known_end.is_none() {
            recovered.unsettled.push(read.header.epoch);
        }
        let last_seqno = scanned.frames.last().map_or(0, |frame| frame.next_seqno() - 1);
        let settled = LogEnd { offset: scanned.end, last_seqno };
        recovered.logs.insert(read.header.epoch, LogRecord { end: Some(settled) });
        accepted.push((read, scanned));
    }
    let next_keyspace = state.next_keyspace;
    let memtables = parallel::for_each(source.background, helpers, accepted, move |log| {
        become_memtable(log, next_keyspace)
    });
    // Newest first.
    recovered.memtables = memtables.into_iter().rev().collect::<Result<_>>()?;
    // The mark of an ingest in the log may be lost. Its seqno is in use, and so are all before it.
    recovered.last_seqno = recovered.last_seqno.max(state.version.tables_through);
    Ok(recovered)
}

/// Follows the logs, in their order, from the last seqno recovered as far as they go on from each other,
/// and returns those that hold something. What comes after the end must not have been durable.
fn follow(
    scanned: Vec<(LoadedWal, Result<ScanResult>)>,
    recovered: &mut RecoveredState,
) -> Result<Vec<(LoadedWal, ScanResult)>> {
    let mut expected = recovered.last_seqno + 1;
    let mut accepted = Vec::new();
    // Where the log ends as far as is known, and what later frames say was durable.
    let mut end: Option<LogEndpoint> = None;
    let mut durable_through = 0;
    let mut later: Option<FramesBehind> = None;
    let mut rejected = Vec::new();
    let in_pool = scanned.iter().any(|(read, _)| read.header.alignment == POOL_ALIGNMENT);
    for (mut read, scanned) in scanned {
        let mut scanned = scanned?;
        let goes_on = scanned.frames.first().is_some_and(|frame| frame.first_seqno == expected);
        if !goes_on {
            // It was scanned as if it could start with any seqno.
            scanned = read.scan(Some(expected))?;
        }
        if let Some(found) = scanned.later {
            durable_through = found.durable_through.max(durable_through);
            let path = || read.path.clone();
            let none = || FramesBehind { path: path(), offset: found.offset, frames: 0 };
            later.get_or_insert_with(none).frames += found.frames;
            if !in_pool {
                rejected.push(Rejected {
                    name: log_file_name(read.header.epoch),
                    bytes: read.memory.contents()[..found.end as usize].to_vec(),
                });
            }
        }
        if let Some(frame) = scanned.frames.last() {
            expected = frame.next_seqno();
        }
        check_known_end(&read, &scanned, expected)?;
        if scanned.frames.is_empty() {
            // Prepared and never used, cut off from what came before, or its first frame does not hold.
            let here = LogEndpoint::of(&read, &scanned);
            let was_sound = end.as_ref().is_none_or(|end| !end.is_bad);
            if here.is_bad && was_sound && later.is_none() {
                end = Some(here);
            } else {
                end.get_or_insert(here);
            }
        } else {
            end = Some(LogEndpoint::of(&read, &scanned));
            accepted.push((read, scanned));
        }
    }
    // If whole frames follow, the batch may have been acknowledged.
    let keeps = later.is_some() && !in_pool;
    if let Some(left_out) = leave_out_unfinished(&mut accepted, keeps) {
        expected = left_out.first_seqno;
        end = Some(left_out.begins);
        recovered.unfinished = left_out.epochs;
        let is_new = |log: &Rejected| rejected.iter().all(|other| other.name != log.name);
        let logs: Vec<_> = left_out.logs.into_iter().filter(is_new).collect();
        rejected.splice(0..0, logs);
    }
    recovered.last_seqno = expected - 1;
    let Some(end) = end.filter(|end| end.is_bad || later.is_some()) else { return Ok(accepted) };
    if durable_through >= expected {
        let what = format!(
            "{}; frames behind it show that writes up to seqno {durable_through} were durable, and \
             those from {expected} on are damaged",
            end.what
        );
        return Err(Error::corruption(end.path, end.offset, what));
    }
    let LogEndpoint { path, offset, what, .. } = end;
    let kept_in = Vec::new();
    let first_seqno = expected;
    recovered.torn = Some(TornTail { path, offset, what, first_seqno, later, in_pool, kept_in });
    recovered.rejected = rejected;
    Ok(accepted)
}

/// A batch of several frames that was left out because its last frame is not there.
struct LeftOut {
    /// Where it begins.
    begins: LogEndpoint,
    first_seqno: Seqno,
    /// The logs that hold its frames, if they are to be kept.
    logs: Vec<Rejected>,
    /// The logs that hold nothing else.
    epochs: Vec<u32>,
}

/// Takes the frames at the end of the logs out whose batch has no last frame. A batch is recovered whole or
/// not at all.
fn leave_out_unfinished(
    accepted: &mut Vec<(LoadedWal, ScanResult)>,
    keeps: bool,
) -> Option<LeftOut> {
    let mut left_out = None;
    while let Some((read, scanned)) = accepted.last_mut() {
        let end = scanned.end;
        let Some(first_seqno) = scanned.leave_out_unfinished() else { break };
        let (mut logs, mut epochs) = left_out
            .take()
            .map_or_else(Default::default, |LeftOut { logs, epochs, .. }| (logs, epochs));
        if keeps {
            let bytes = read.memory.contents()[..end as usize].to_vec();
            logs.insert(0, Rejected { name: log_file_name(read.header.epoch), bytes });
        }
        let what = "the last frame of the batch that begins here is missing".to_owned();
        let begins =
            LogEndpoint { path: read.path.clone(), offset: scanned.end, what, is_bad: true };
        let is_empty = scanned.frames.is_empty();
        if is_empty {
            epochs.push(read.header.epoch);
            accepted.pop();
        }
        left_out = Some(LeftOut { begins, first_seqno, logs, epochs });
        if !is_empty {
            break;
        }
    }
    left_out
}

/// The MemTable of a log. What is in persistent memory is durable from here on.
fn become_memtable(
    (mut read, scanned): (LoadedWal, ScanResult),
    next_keyspace: u32,
) -> Result<Arc<MemTable>> {
    if read.known_end.is_none() {
        read.memory.make_durable(&scanned);
    }
    let memtable = MemTable::recover(read.memory, read.header, &scanned);
    // A keyspace's creation is durable before the first frame that names it.
    let named = memtable.keyspace_sizes().expect("what was recovered was weighed").iter();
    if let Some((unknown, _)) = named.copied().find(|(id, _)| id.0 >= next_keyspace) {
        let what = format!("frames name keyspace {unknown}, which the manifest never created");
        return Err(Error::corruption(read.path, 0, what));
    }
    Ok(Arc::new(memtable))
}

/// The place where the log ends.
struct LogEndpoint {
    path: String,
    offset: u64,
    what: String,
    /// Whether there is a frame that is invalid and was not reported yet.
    is_bad: bool,
}

impl LogEndpoint {
    fn of(read: &LoadedWal, scanned: &ScanResult) -> LogEndpoint {
        LogEndpoint {
            path: read.path.clone(),
            offset: scanned.end,
            what: describe_stop(&scanned.stop),
            is_bad: read.known_end.is_none() && matches!(scanned.stop, ScanEnd::Bad { .. }),
        }
    }
}

fn describe_stop(stop: &ScanEnd) -> String {
    match stop {
        ScanEnd::Full | ScanEnd::Blank => "the log ends here".into(),
        ScanEnd::Bad { what, .. } => what.clone(),
    }
}

/// A log whose end was decided by an earlier recovery was synced then: it must reach that end.
fn check_known_end(read: &LoadedWal, scanned: &ScanResult, expected: Seqno) -> Result<()> {
    match read.known_end {
        Some(end) if scanned.end != end.offset || expected != end.last_seqno + 1 => {
            let what = format!(
                "{}; an earlier recovery found valid frames up to offset {} and seqno {}",
                describe_stop(&scanned.stop),
                end.offset,
                end.last_seqno
            );
            Err(Error::corruption(&read.path, scanned.end, what))
        }
        _ => Ok(()),
    }
}

/// Makes what was recovered survive power loss: from now on it is relied on.
///
/// A sync alone would prove nothing: see [`write_again`]. Logs whose end was decided before went through
/// this then.
pub(crate) fn sync_logs(storage: &dyn Storage, recovered: &RecoveredState) -> Result<()> {
    let unsettled = |memtable: &&Arc<MemTable>| {
        // What lies in persistent memory was made durable before it became a MemTable.
        recovered.unsettled.contains(&memtable.epoch()) && !memtable.is_in_pmem()
    };
    for memtable in recovered.memtables.iter().rev().filter(unsettled) {
        let start = memtable.start();
        let end = memtable.completed(start);
        write_again(storage, memtable.epoch(), start.offset(), memtable.bytes(start, end))?;
    }
    Ok(())
}

/// A file id above that of every file on the storages: orphaned files included, so that no id ever names two
/// different files.
pub(crate) fn next_file_seen(storages: &[&dyn Storage]) -> Result<u64> {
    let mut next = 0;
    for storage in storages {
        for name in storage.list()? {
            next = file_id_in(&name).map_or(next, |id| next.max(id + 1));
        }
    }
    Ok(next)
}
