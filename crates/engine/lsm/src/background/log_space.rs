//! Gives back the log space that an idle database does not need.
//!
//! A database that is written to keeps whole log files: the active one, the next one, and up to two for
//! reuse. So writers wait for no file to be allocated. Once nothing was written for [`IDLE_AFTER`], or a
//! caller waits until all background work is done, this lane
//!
//! * removes the files that wait for reuse;
//! * frees what is prepared of the next segment and of the active one beyond a small part.
//!
//! Both segments keep their memory. They grow again as new ones do (`segments`): in small steps that double,
//! each allocated before any sequence number is reserved in it. So a database with a write now and then does
//! not prepare the same space again and again.

use crate::engine::Engine;
use crate::log::segment_provider::{LogSegment, SegmentProvider};
use crate::log::wal_files::WalFiles;
use crate::scheduler::state::{Job, LogUsed, SchedulerState};
use crate::version::readers::super_version::SuperVersion;
use crate::write::MemTableSwitch;
use esker_memtable::MemTable;
use std::time::Duration;

/// A database to which nothing was written for so long is idle.
const IDLE_AFTER: Duration = Duration::from_secs(10);

/// What is given back begins at a page.
const PAGE_BYTES: u32 = 4 << 10;

pub(super) fn next_give_back(
    inner: &Engine,
    jobs: &mut SchedulerState,
    now: Duration,
) -> Option<Job> {
    let view = inner.tree.view.pin();
    let used = log_used(&view);
    let space = &mut jobs.log_space;
    if space.used != used {
        (space.used, space.since) = (used, now);
    }
    let since = space.since.max(jobs.opened_at);
    let is_waited_for = space.waiters > 0 && space.used_for_waiters == used;
    let is_idle = is_waited_for || now.saturating_sub(since) >= IDLE_AFTER;
    (is_idle && has_surplus(inner, jobs, &view)).then_some(Job::GiveBack)
}

/// How much of the log is used. It changes with every write.
pub(super) fn log_used(view: &SuperVersion) -> LogUsed {
    let active = view.memtables.first().filter(|memtable| !memtable.is_sealed());
    active.map(|memtable| (memtable.epoch(), memtable.used().bytes))
}

/// Whether there is something to give back, and no writer is about to need it.
pub(super) fn has_surplus(inner: &Engine, jobs: &SchedulerState, view: &SuperVersion) -> bool {
    let SegmentProvider::Files(files) = &inner.tree.logs else { return false };
    let is_sealed = view.memtables.iter().any(|memtable| memtable.is_sealed());
    if is_sealed || jobs.needs_segment || jobs.segments_wanted > 0 {
        return false;
    }
    let active = view.memtables.first();
    let prepared = jobs.prepared.iter().map(|segment| &segment.memtable);
    let has_parts = || active.into_iter().chain(prepared).any(|it| surplus_from(it).is_some());
    files.has_retired() || (files.gives_back() && has_parts())
}

/// The offset from which the log file of `memtable` gives back what is prepared. `None` if that is little.
fn surplus_from(memtable: &MemTable) -> Option<u32> {
    let (used, room, whole) = (memtable.used(), memtable.room(), memtable.whole_room());
    let ahead = MemTable::first_room(whole.bytes as usize).bytes;
    let from = used.bytes.saturating_add(ahead).checked_next_multiple_of(PAGE_BYTES)?;
    (room.bytes >= from.saturating_add(ahead)).then_some(from)
}

pub(super) fn give_back(inner: &Engine) {
    let SegmentProvider::Files(files) = &inner.tree.logs else { return };
    files.remove_retired();
    if files.gives_back() {
        give_back_prepared(inner, files);
        give_back_active(inner, files);
    }
    inner.schedule.jobs.lock().log_space.rounds += 1;
}

fn give_back_prepared(inner: &Engine, files: &WalFiles) {
    // A writer that comes meanwhile waits until they are there again.
    let prepared = std::mem::take(&mut inner.schedule.jobs.lock().prepared);
    for LogSegment { memtable, file } in &prepared {
        let Some((from, file)) = surplus_from(memtable).zip(file.as_deref()) else { continue };
        let before = memtable.room();
        files.forget_whole(memtable.epoch());
        memtable.begin_with(from);
        if !files.give_back(file, from) {
            memtable.grow(before);
        }
    }
    inner.put_back(prepared.into());
}

fn give_back_active(inner: &Engine, files: &WalFiles) {
    let mut tail = inner.commit.lock_active();
    let Some(segment) = tail.active().cloned() else { return };
    let LogSegment { memtable, file } = &segment;
    let Some((from, file)) = surplus_from(memtable).zip(file.as_deref()) else { return };
    let before = memtable.room();
    // While the segment is active: once it is flushed, another epoch could take the file over.
    files.forget_whole(memtable.epoch());
    if !tail.lower(from) {
        return;
    }
    // Under the writers' lock: a segment that follows is noted after this one.
    inner.schedule.jobs.lock().growing = Some(segment.clone());
    drop(tail);
    if !files.give_back(file, from) {
        memtable.grow(before);
        inner.commit.look_ahead_again();
    }
}
