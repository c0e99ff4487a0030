//! Prepares log segments ahead of writers, and grows the active one.

use crate::engine::Engine;
use crate::log::segment_provider::{Extent, LogSegment, Spare, salt_of};
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::scheduler::state::{Job, SchedulerState};
use crate::version::readers::super_version::SuperVersion;
use crate::write::{LOOKS_AHEAD_AT, eighths_of};
use esker_base::{Error, Result};
use esker_memtable::{MemTable, Room};
use esker_storage::Pace;
use std::sync::Arc;

/// The active segment doubles once half of it is used, by [`STEP_BYTES_MAX`] at most, and grows to what
/// writers wait for. One that gave space back begins with small steps again: what counts is what was used
/// and added since.
pub(super) fn next_growth(inner: &Engine, jobs: &mut SchedulerState) -> Option<Job> {
    let segment = jobs.growing.take_if(|segment| segment.memtable.is_sealed());
    drop(segment);
    let memtable = &jobs.growing.as_ref()?.memtable;
    let (used, room, whole) = (memtable.used(), memtable.room(), memtable.whole_room());
    let wanted = jobs.expected_entries.filter(|(epoch, _)| *epoch == memtable.epoch());
    let wanted = wanted.map_or(room, |(_, wanted)| wanted);
    let grow = |used: u32, room: u32, wanted: u32, whole: u32, most: u32| {
        let next = if used >= room / 2 { room.saturating_add(room.min(most)) } else { room };
        let next = next.max(wanted).max(room);
        // What would be left is no step worth taking.
        if whole.saturating_sub(next) < next - room { whole } else { next }
    };
    let from = memtable.lowered_at();
    let wanted_bytes = wanted.bytes.next_multiple_of(PAGE_BYTES).saturating_sub(from);
    let (used_since, added) = (used.bytes - from, room.bytes - from);
    let next = Room {
        bytes: from + grow(used_since, added, wanted_bytes, whole.bytes - from, STEP_BYTES_MAX),
        entries: grow(used.entries, room.entries, wanted.entries, whole.entries, u32::MAX),
    };
    if next == room {
        return None;
    }
    let is_late = !room.holds(wanted) || used_since > added / 4 * 3;
    let pace = match inner.commit.syncs_each_write() {
        _ if is_late => Pace::Hurried,
        true => Pace::AheadOfSyncs,
        false => Pace::AheadOfWrites,
    };
    Some(Job::Grow(jobs.growing.clone()?, next, pace))
}

/// Zeroing so much takes a fraction of the time in which writers at full speed use it. A writer that
/// still catches up waits for one step at most.
const STEP_BYTES_MAX: u32 = 8 << 20;

/// Segments grow by whole pages.
const PAGE_BYTES: u32 = 4 << 10;

pub(super) fn next_segment(inner: &Engine, jobs: &SchedulerState) -> Option<Job> {
    let view = inner.tree.view.pin();
    let wanted = wants_segments(inner, jobs, &view) && can_prepare(inner, jobs, &view);
    (wanted || !jobs.unneeded.is_empty()).then_some(Job::Prepare)
}

/// How many segments are to be in readiness: one as long as flushes keep up, and the log's number once
/// they do not.
fn segments_ahead(inner: &Engine, view: &SuperVersion) -> usize {
    let is_behind = view.memtables.iter().any(|memtable| memtable.is_sealed());
    if is_behind { inner.tree.logs.segments_ahead() } else { 1 }
}

/// Whether so few segments are in readiness that more are to be prepared.
pub(crate) fn wants_segments(inner: &Engine, jobs: &SchedulerState, view: &SuperVersion) -> bool {
    let is_used = jobs.needs_segment || inner.tree.logs.pool().is_some() || is_active_used(view);
    let are_few = is_used && jobs.prepared.len() * 2 <= segments_ahead(inner, view);
    jobs.wants_segment && (are_few || !jobs.are_gathered(jobs.segments_wanted))
}

/// Whether there is no active segment, or so much of it is used that the next one is worth preparing: half.
/// While MemTables wait for their flush, three quarters, because the next one can have the memory that a flush
/// leaves. Of small ones half: there is little to save, and little time.
fn is_active_used(view: &SuperVersion) -> bool {
    let active = view.memtables.first().filter(|memtable| !memtable.is_sealed());
    let may_wait = |memtable: &MemTable| memtable.whole_room().bytes >= WAITS_FOR_MEMORY_BYTES;
    let is_flushing = view.memtables.iter().any(|it| it.is_sealed() && may_wait(it));
    let [half, most] = LOOKS_AHEAD_AT;
    let eighths = if is_flushing { most } else { half };
    active.is_none_or(|memtable| {
        let (used, at) = (memtable.used(), eighths_of(memtable.whole_room(), eighths));
        used.bytes >= at.bytes || used.entries >= at.entries
    })
}

/// Whether writers will fill the active segment soon, so that the memory of one that was flushed is worth
/// keeping: half of it is used, or more is to be flushed.
pub(super) fn is_filling(view: &SuperVersion) -> bool {
    view.memtables.iter().any(|memtable| memtable.is_sealed()) || is_active_used(view)
}

/// From this size on, a segment waits for the memory of another.
const WAITS_FOR_MEMORY_BYTES: u32 = 16 << 20;

/// Whether another segment may be prepared and the log has a place for it.
pub(crate) fn can_prepare(inner: &Engine, jobs: &SchedulerState, view: &SuperVersion) -> bool {
    // A flushed MemTable that nobody reads any more gives its extent back.
    let has_log = || {
        inner.tree.logs.has_room()
            || !jobs.doubtful.is_empty()
            || jobs.retired.iter().any(is_unused)
    };
    match inner.tree.logs.pool() {
        // A pool is there to be filled.
        Some(_) => has_log(),
        None => has_room(inner, view),
    }
}

/// Whether another segment may be prepared. One beyond the limit may, or writers could never fill
/// the limit.
fn has_room(inner: &Engine, view: &SuperVersion) -> bool {
    let sealed = view.memtables.iter().filter(|memtable| memtable.is_sealed()).count();
    // A flush gives memory back.
    let waits_for_flush = sealed > 0 && inner.share.resources().is_short();
    sealed <= inner.tree.settings.sealed_segments && !waits_for_flush
}

pub(super) fn grow(inner: &Engine, segment: &LogSegment, room: Room, pace: Pace) -> Result<()> {
    let resources = inner.share.resources();
    // A flush frees the segment's memory. Of an empty one, a large batch waits for more.
    let seal = || {
        let is_sealed = inner.commit.lock_active().seal_segment(&segment.memtable);
        inner.share_segment_memory();
        is_sealed
    };
    if resources.is_short() {
        resources.relieve();
        if resources.is_over() && seal() {
            return Ok(());
        }
    }
    match inner.tree.logs.grow(segment, room, pace) {
        // A flush removes the log.
        Err(error) if error.is_out_of_space() && seal() => return Ok(()),
        grown => grown?,
    }
    {
        let mut jobs = inner.schedule.jobs.lock();
        let epoch = segment.memtable.epoch();
        jobs.growing.take_if(|it| it.memtable.epoch() == epoch && it.memtable.is_whole());
        jobs.expected_entries.take_if(|(wants, wanted)| *wants == epoch && room.holds(*wanted));
    }
    inner.commit.look_ahead_again();
    inner.share_segment_memory();
    Ok(())
}

/// Grows prepared segments that a large batch waits for. Returns whether there were any.
fn make_whole(inner: &Engine) -> Result<bool> {
    let growing: Vec<LogSegment> = {
        let jobs = inner.schedule.jobs.lock();
        let wanted = jobs.prepared.iter().take(jobs.segments_wanted);
        wanted.filter(|segment| !segment.memtable.is_whole()).cloned().collect()
    };
    for segment in &growing {
        inner.tree.logs.grow(segment, segment.memtable.whole_room(), Pace::Hurried)?;
    }
    Ok(!growing.is_empty())
}

pub(super) fn prepare(inner: &Engine) -> Result<()> {
    inner.tree.installer.mend()?;
    if give_back_unneeded(inner)? || make_whole(inner)? {
        return Ok(());
    }
    let (wanted, settled) = {
        let mut jobs = inner.schedule.jobs.lock();
        let view = inner.tree.view.pin();
        // A writer may have given back what this job was for.
        if !(wants_segments(inner, &jobs, &view) && can_prepare(inner, &jobs, &view)) {
            return Ok(());
        }
        let ahead =
            segments_ahead(inner, &view).max(jobs.with_one_for_others(jobs.segments_wanted));
        let wanted = ahead.saturating_sub(jobs.prepared.len()).max(1);
        (wanted, std::mem::take(&mut jobs.doubtful))
    };
    settled.into_iter().for_each(|epoch| inner.tree.logs.retire(epoch));
    let epochs = next_epochs(inner, wanted)?;
    if inner.tree.logs.pool().is_some() {
        // The epochs are known to be given out before extents say so. An open with its logs in files does
        // not see the extents, and must not give the epochs to log files. Not longer before than need be: to
        // an older copy of the manifest, what lies in a pool unlisted and was given out holds no writes.
        inner.tree.installer.install(&inner.tree.view, |_| Ok(VersionEdit::of([])), |_| {})?;
    }
    let mut segments = Vec::new();
    for epoch in epochs {
        match begin(inner, epoch) {
            Ok(segment) => segments.push(segment),
            // Some are enough; the next try tells why.
            Err(error) if segments.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    if inner.tree.logs.is_kept() {
        let began = || segments.iter().map(|segment| segment.memtable.epoch());
        let added = |_: &ManifestState| {
            Ok(VersionEdit::of(began().map(|epoch| VersionChange::AddLog { epoch, end: None })))
        };
        inner.tree.installer.install(&inner.tree.view, added, |_| {}).inspect_err(|_| {
            // The edit may be in the manifest despite the error. The next open must find the
            // segments that it lists, with nothing in them.
            inner.schedule.jobs.lock().doubtful.extend(began());
        })?;
    }
    let mut jobs = inner.schedule.jobs.lock();
    jobs.prepared.extend(segments);
    // The batch may have been refused meanwhile.
    jobs.set_unneeded_aside(inner.tree.logs.segments_ahead());
    drop(jobs);
    inner.share_segment_memory();
    Ok(())
}

/// Drops segments that were prepared for a large batch that was refused: the space that they use may be
/// what a flush needs. Returns whether there were any.
pub(crate) fn give_back_unneeded(inner: &Engine) -> Result<bool> {
    let unneeded = std::mem::take(&mut inner.schedule.jobs.lock().unneeded);
    if unneeded.is_empty() {
        return Ok(false);
    }
    let epochs = || unneeded.iter().map(|segment| segment.memtable.epoch());
    if inner.tree.logs.is_kept() {
        let removed =
            |_: &ManifestState| Ok(VersionEdit::of(epochs().map(VersionChange::RemoveLog)));
        let installed = inner.tree.installer.mend();
        let installed = installed
            .and_then(|()| inner.tree.installer.install(&inner.tree.view, removed, |_| {}));
        if let Err(error) = installed {
            // Whether the manifest lists them is unknown, so no writer may have them, and the files stay.
            if !matches!(error, Error::Closed) {
                inner.schedule.jobs.lock().unneeded.extend(unneeded);
            }
            return Err(error);
        }
    }
    let epochs: Vec<u32> = epochs().collect();
    // A pool's extent is free once its MemTable is gone.
    drop(unneeded);
    epochs.into_iter().for_each(|epoch| inner.tree.logs.discard(epoch));
    inner.share_segment_memory();
    Ok(true)
}

/// Epochs that were never given out.
fn next_epochs(inner: &Engine, count: usize) -> Result<Vec<u32>> {
    let epoch = |_| {
        u32::try_from(inner.tree.installer.next_file()).map_err(|_| Error::InvalidSetting {
            setting: "log epoch",
            value: "beyond 4,294,967,295".into(),
            reason: "the database has used up its file ids; export it and import it into a new one"
                .into(),
        })
    };
    (0..count).map(epoch).collect()
}

/// While no sealed segment is at hand, indexes have space for entries of this size. Smaller ones fill the index before
/// the segment; more space is touched for nothing, as a rule, while writers wait.
const ENTRY_BYTES_GUESSED: usize = 128;

/// A segment that the manifest does not list yet.
fn begin(inner: &Engine, epoch: u32) -> Result<LogSegment> {
    let newest =
        inner.tree.view.load().memtables.iter().find(|memtable| memtable.is_sealed()).cloned();
    // Before it is known how large entries are. The pool's segments may be larger than all of the memory.
    let most_entries = (inner.tree.settings.segment_bytes / ENTRY_BYTES_GUESSED)
        .min(inner.tree.settings.memory_bytes / 8 / MemTable::INDEX_BYTES_AN_ENTRY);
    let salt = salt_of(inner.salt, epoch);
    let (is_for_batch, was_filled) = {
        let jobs = inner.schedule.jobs.lock();
        (jobs.segments_wanted > 0, !jobs.retired.is_empty())
    };
    let resources = inner.share.resources();
    if resources.is_short() {
        resources.relieve();
    }
    let like = newest.as_deref();
    // Writers will fill this one, too: what they filled last is not flushed, or somebody still reads it.
    let is_busy = was_filled || like.is_some_and(is_well_filled);
    let extent = match is_for_batch {
        // It reserves all its parts at once.
        true => Extent::Whole,
        false if is_busy && !resources.is_short() => Extent::WholeIndex,
        // Writers are ahead of no step of growth for long.
        false => Extent::Growing,
    };
    let (memtable, file) =
        inner.tree.logs.begin(epoch, salt, spare(inner), like, most_entries, extent)?;
    Ok(LogSegment { memtable: Arc::new(memtable), file })
}

/// What a retired MemTable leaves, if one is free.
fn spare(inner: &Engine) -> Spare {
    let mut jobs = inner.schedule.jobs.lock();
    let free = jobs.retired.iter().position(is_unused);
    let memtable = free.and_then(|at| Arc::try_unwrap(jobs.retired.swap_remove(at)).ok());
    drop(jobs);
    memtable.map(Spare::of).unwrap_or_default()
}

/// Whether the memory of a segment is there as a whole, and so much of it was used that the next one is to have it.
pub(super) fn is_well_filled(memtable: &MemTable) -> bool {
    let (used, room, whole) = (memtable.used(), memtable.room(), memtable.whole_room());
    room.bytes == whole.bytes && used.bytes > whole.bytes / 2
}

/// Whether only the schedule still holds a flushed MemTable.
fn is_unused(memtable: &Arc<MemTable>) -> bool {
    Arc::strong_count(memtable) == 1
}

#[cfg(test)]
mod tests {
    use super::super::steps::step_lane;
    use crate::options::settings::Settings;
    use crate::resources::lanes::JobClass;
    use crate::{Db, Env, Log};
    use esker_base::background::Stepped;
    use esker_memtable::Room;
    use esker_storage::MemoryStorage;
    use std::sync::Arc;

    const SEGMENT: usize = 16 << 20;

    fn open() -> Db {
        open_with(Settings::default())
    }

    fn open_with(settings: Settings) -> Db {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        Db::open_with(env, Settings { segment_bytes: SEGMENT, ..settings }).unwrap()
    }

    /// Puts until so much of the active segment is used, and prepares what is due.
    fn fill_to(db: &Db, next: &mut u32, sixteenths: usize) {
        let (inner, keyspace) = (db.inner(), db.default_keyspace());
        let used = || {
            let tail = inner.commit.lock_active();
            tail.active().map_or(0, |segment| segment.memtable.used().bytes as usize)
        };
        while used() < SEGMENT / 16 * sixteenths {
            db.put(&keyspace, next.to_be_bytes(), [7; 1000]).unwrap();
            *next += 1;
            while step_lane(inner, JobClass::Prepare) {}
        }
    }

    #[test]
    fn the_next_segment_is_prepared_at_half_and_later_while_a_flush_may_leave_its_memory() {
        let (db, mut next) = (open(), 0);
        let mut prepared_at = |sixteenths| {
            fill_to(&db, &mut next, sixteenths);
            db.inner().schedule.jobs.lock().prepared.len()
        };
        assert_eq!(prepared_at(7), 0);
        assert_eq!(prepared_at(9), 1);
        db.inner().commit.lock_active().seal();
        assert_eq!(prepared_at(11), 0, "the full one waits for its flush");
        assert_eq!(prepared_at(13), 1);
    }

    #[test]
    fn the_memory_of_a_flushed_segment_is_kept_only_if_the_next_is_filled_soon() {
        for (sixteenths, kept) in [(1, 0), (9, 1)] {
            let (db, mut next) = (open(), 0);
            let inner = db.inner();
            fill_to(&db, &mut next, 15);
            inner.commit.lock_active().seal();
            fill_to(&db, &mut next, sixteenths);
            while step_lane(inner, JobClass::Flush) {}
            assert_eq!(inner.schedule.jobs.lock().retired.len(), kept, "{sixteenths} sixteenths");
        }
    }

    #[test]
    fn a_segment_after_a_full_one_is_ready_before_its_memory_is_touched() {
        let (db, mut next) = (open_with(Settings::default().log(Log::None)), 0);
        fill_to(&db, &mut next, 15);
        db.inner().commit.lock_active().seal();
        fill_to(&db, &mut next, 13);
        let ready = db.inner().schedule.jobs.lock().prepared[0].memtable.clone();
        assert_eq!(ready.room(), Room { bytes: SEGMENT as u32 / 2, ..ready.whole_room() });
        db.inner().commit.lock_active().seal();
        fill_to(&db, &mut next, 15);
        assert!(ready.is_whole(), "memory is touched ahead of writers");
    }
}
