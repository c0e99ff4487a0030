//! Installs the tables of an ingest at a seqno of their own. See the room's head.

use super::placement;
use crate::background::executor::update_debt;
use crate::compaction::in_progress::ArrivingTables;
use crate::engine::Engine;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::manifest::version_set::FailedInstall;
use crate::stats::cumulative::CumulativeStats;
use crate::tree::unknown_keyspace;
use crate::version::TableMeta;
use crate::write::ingest_slot::IngestSlot;
use esker_base::{Error, KeyspaceId, Result, Seqno};

/// What one keyspace gets: tables in key order, which do not overlap. Not empty.
pub(super) struct IngestPart {
    pub(super) keyspace: KeyspaceId,
    pub(super) tables: Vec<TableMeta>,
}

/// Where the tables are.
pub(super) struct Installed {
    pub(super) seqno: Seqno,
    /// The level of each part.
    pub(super) levels: Vec<usize>,
}

/// Writers wait for the flush of what was written since the last one. So it is flushed before, and so
/// often again as long as it is more than this, in bytes.
const FLUSHED_AGAIN: u64 = 4 << 20;
const FLUSHES_BEFORE: usize = 4;

/// Installs `parts`. After an error that says that it is undecided, the next open may find them
/// installed; after any other, none will.
pub(super) fn install(
    inner: &Engine,
    parts: &[IngestPart],
) -> std::result::Result<Installed, FailedInstall> {
    let decided = |error| FailedInstall { error, is_undecided: false };
    let _turn = inner.ingests.lock();
    for _ in 0..FLUSHES_BEFORE {
        inner.flush_all().map_err(decided)?;
        let active = inner.tree.view.load().memtables.first().map(|active| active.bytes_used());
        if active.unwrap_or(0) < FLUSHED_AGAIN {
            break;
        }
    }
    let barrier = Barrier::begin(inner, parts[0].keyspace).map_err(decided)?;
    let seqno = barrier.seqno();
    inner.await_flushed(seqno - 1).map_err(decided)?;
    let held = HeldPlaces::choose(inner, parts).map_err(decided)?;
    for (part, place) in parts.iter().zip(&held.places) {
        inner.tree.known_empty.cut_range(part.keyspace, &place.span.smallest, &place.span.largest);
        if let Some(dram_table) = &inner.tree.dram_table {
            dram_table.raise_invalidation_floor(part.keyspace, seqno);
        }
    }
    let mut levels = Vec::new();
    inner.tree.try_install(
        cost_of(parts),
        |state| {
            let mut changes = Vec::new();
            for (part, place) in parts.iter().zip(&held.places) {
                let keyspace = state.version.keyspaces.get(&part.keyspace);
                let keyspace = keyspace.ok_or_else(|| unknown_keyspace(part.keyspace))?;
                let is_free = placement::is_free(keyspace, place.level, &part.tables);
                debug_assert!(place.level == 0 || is_free, "the place was held");
                levels.push(place.level);
                changes.extend(part.tables.iter().map(|meta| VersionChange::AddTable {
                    keyspace: part.keyspace,
                    level: place.level,
                    run: place.run,
                    meta: at_seqno(meta, seqno),
                }));
            }
            Ok(VersionEdit { changes })
        },
        |view| view.ingesting = None,
    )?;
    barrier.release();
    drop(held);
    inner.open_new_tables();
    inner.look_at_space();
    update_debt(inner);
    inner.schedule.wake();
    Ok(Installed { seqno, levels })
}

fn at_seqno(meta: &TableMeta, seqno: Seqno) -> TableMeta {
    let global_seqno = Some(seqno);
    TableMeta { min_seqno: seqno, max_seqno: seqno, global_seqno, ..meta.clone() }
}

fn cost_of(parts: &[IngestPart]) -> CumulativeStats {
    let tables = || parts.iter().flat_map(|part| &part.tables);
    CumulativeStats {
        user_bytes: tables().map(|table| table.raw_bytes).sum(),
        flush_bytes: tables().map(|table| table.bytes).sum(),
        ..CumulativeStats::default()
    }
}

/// Keeps later writes from being visible, until the ingest is installed or has failed.
struct Barrier<'a> {
    inner: &'a Engine,
    slot: Option<IngestSlot<'a>>,
    seqno: Seqno,
}

impl<'a> Barrier<'a> {
    fn begin(inner: &'a Engine, keyspace: KeyspaceId) -> Result<Self> {
        let announce = |seqno| inner.tree.view.change(|view| view.ingesting = seqno);
        let begun = inner.commit.begin_ingest(keyspace, inner, announce);
        let slot = begun.inspect_err(|_| announce(None))?;
        update_debt(inner);
        inner.schedule.wake();
        Ok(Barrier { inner, seqno: slot.seqno(), slot: Some(slot) })
    }

    fn seqno(&self) -> Seqno {
        self.seqno
    }

    /// The version has the tables.
    fn release(mut self) {
        if let Some(slot) = self.slot.take() {
            slot.release();
        }
    }
}

impl Drop for Barrier<'_> {
    fn drop(&mut self) {
        if self.slot.is_some() {
            self.inner.tree.view.change(|view| view.ingesting = None);
        }
        self.slot = None;
    }
}

/// The places of the parts. Compactions leave them alone.
struct HeldPlaces<'a> {
    inner: &'a Engine,
    places: Vec<ArrivingTables>,
}

impl<'a> HeldPlaces<'a> {
    fn choose(inner: &'a Engine, parts: &[IngestPart]) -> Result<Self> {
        // Above the runs of all flushes that came before, and below those of all to come.
        let fresh = inner.tree.installer.next_file();
        let mut held = HeldPlaces { inner, places: Vec::new() };
        let mut jobs = inner.schedule.jobs.lock();
        if jobs.closing {
            return Err(Error::Closed);
        }
        let view = inner.tree.view.load();
        for part in parts {
            let keyspace = view.version.keyspaces.get(&part.keyspace);
            let keyspace = keyspace.ok_or_else(|| inner.tree.unknown(part.keyspace));
            match keyspace {
                Ok(keyspace) => {
                    let place = placement::place(keyspace, &part.tables, &jobs.busy, fresh);
                    jobs.busy.hold_arriving(&place);
                    held.places.push(place);
                }
                Err(error) => {
                    drop(jobs);
                    return Err(error);
                }
            }
        }
        drop(jobs);
        Ok(held)
    }
}

impl Drop for HeldPlaces<'_> {
    fn drop(&mut self) {
        let mut jobs = self.inner.schedule.jobs.lock();
        self.places.iter().for_each(|place| jobs.busy.release_arriving(place));
        drop(jobs);
        self.inner.schedule.progress.notify_all();
    }
}
