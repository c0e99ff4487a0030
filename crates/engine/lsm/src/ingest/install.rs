//! Installs the tables of an ingest at a seqno of their own. See the room's head.

use super::large_values::{refused, refused_by};
use super::placement;
use crate::background::executor::update_debt;
use crate::compaction::in_progress::ArrivingTables;
use crate::engine::Engine;
use crate::index::maintain::bypassed;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::manifest::version_set::FailedInstall;
use crate::stats::cumulative::CumulativeStats;
use crate::tree::unknown_keyspace;
use crate::version::{TableMeta, ValueFileMeta};
use crate::write::ingest_slot::IngestSlot;
use esker_base::{Error, KeyspaceId, Result, Seqno};
use std::collections::BTreeSet;

/// What one keyspace gets: tables in key order, which do not overlap. Not empty.
pub(super) struct IngestPart {
    pub(super) keyspace: KeyspaceId,
    pub(super) tables: Vec<TableMeta>,
    /// The files of large values that the tables refer to.
    pub(super) values: Vec<ValueFileMeta>,
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
    // An index that is created later begins after this ingest.
    parts.iter().try_for_each(|part| refuse_indexed(inner, part.keyspace)).map_err(decided)?;
    for _ in 0..FLUSHES_BEFORE {
        inner.flush_all().map_err(decided)?;
        let active = inner.tree.view.load().memtables.first().map(|active| active.bytes_used());
        if active.unwrap_or(0) < FLUSHED_AGAIN {
            break;
        }
    }
    // Writers wait from here on.
    let unlimited = inner.gate.limiter.lift_for_flushes();
    let keyspaces: BTreeSet<_> = parts.iter().map(|part| part.keyspace).collect();
    let keyspaces: Vec<_> = keyspaces.into_iter().collect();
    let barrier = Barrier::begin(inner, &keyspaces).map_err(decided)?;
    let seqno = barrier.seqno();
    inner.await_flushed(seqno - 1).map_err(decided)?;
    drop(unlimited);
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
                // The settings may have changed since the value was begun.
                let has_large = part.values.iter().any(|file| file.in_blocks);
                if let Some(reason) = refused_by(&keyspace.settings).filter(|_| has_large) {
                    return Err(refused(inner, keyspace, reason));
                }
                let is_free = placement::is_free(keyspace, place.level, &part.tables);
                debug_assert!(place.level == 0 || is_free, "the place was held");
                levels.push(place.level);
                let keyspace = part.keyspace;
                let add =
                    |meta: &ValueFileMeta| VersionChange::AddValueFile { keyspace, meta: *meta };
                changes.extend(part.values.iter().map(add));
                changes.extend(part.tables.iter().map(|meta| VersionChange::AddTable {
                    keyspace: part.keyspace,
                    level: place.level,
                    run: place.run,
                    meta: meta.clone().ingested_at(seqno),
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

/// Fails if `keyspace` has indexes: an ingest would not add their entries.
pub(super) fn refuse_indexed(inner: &Engine, keyspace: KeyspaceId) -> Result<()> {
    match inner.indexes.of(keyspace).first() {
        None => Ok(()),
        Some(slot) => Err(bypassed(
            slot,
            "ingest into",
            "put the entries in batches, or drop the indexes and create them again afterwards",
        )),
    }
}

fn cost_of(parts: &[IngestPart]) -> CumulativeStats {
    let tables = || parts.iter().flat_map(|part| &part.tables);
    let values = || parts.iter().flat_map(|part| &part.values);
    CumulativeStats {
        user_bytes: tables().map(|table| table.raw_bytes).sum::<u64>()
            + values().map(|file| file.value_bytes).sum::<u64>(),
        flush_bytes: tables().map(|table| table.bytes).sum::<u64>()
            + values().map(|file| file.bytes).sum::<u64>(),
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
    fn begin(inner: &'a Engine, keyspaces: &[KeyspaceId]) -> Result<Self> {
        let announce = |seqno| inner.tree.view.change(|view| view.ingesting = seqno);
        let slot = inner.commit.begin_ingest(keyspaces, inner, announce)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::get::{ReadTier, get};
    use crate::version::readers::snapshot_tracker::Snapshot;
    use crate::version::readers::super_version::SuperVersion;
    use crate::{Db, Env, Settings};
    use esker_base::WriteHint;
    use esker_base::background::Stepped;
    use esker_storage::{FileSystemWrapper, MemoryStorage, Storage, WritableFile};
    use parking_lot::Mutex;
    use std::sync::{Arc, OnceLock};

    /// What a program finds that inspects the database in the middle of a call.
    struct Look {
        snapshot: Snapshot,
        view: Arc<SuperVersion>,
    }

    #[derive(Default)]
    struct Watch {
        db: OnceLock<Db>,
        looks: Mutex<Vec<Look>>,
    }

    impl Watch {
        fn look(&self) {
            if let Some(db) = self.db.get() {
                let (snapshot, view) = (db.snapshot(), db.inner().tree.view.load());
                self.looks.lock().push(Look { snapshot, view });
            }
        }
    }

    /// Looks before and after each write and sync of a file.
    struct Watched {
        below: MemoryStorage,
        watch: Arc<Watch>,
    }

    struct WatchedFile {
        file: Box<dyn WritableFile>,
        watch: Arc<Watch>,
    }

    impl WritableFile for WatchedFile {
        fn append(&mut self, bytes: &[u8]) -> Result<()> {
            self.watch.look();
            self.file.append(bytes)
        }
        fn len(&self) -> u64 {
            self.file.len()
        }
        fn sync(&mut self) -> Result<()> {
            self.watch.look();
            let synced = self.file.sync();
            self.watch.look();
            synced
        }
        fn start_writeback(&mut self) -> Result<()> {
            self.file.start_writeback()
        }
    }

    impl FileSystemWrapper for Watched {
        fn below(&self) -> &dyn Storage {
            &self.below
        }
        fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
            let file = self.below.create(name, hint)?;
            Ok(Box::new(WatchedFile { file, watch: self.watch.clone() }))
        }
    }

    fn watched() -> (Db, Arc<Watch>) {
        let watch = Arc::new(Watch::default());
        let storage = Watched { below: MemoryStorage::new(), watch: watch.clone() };
        let env = Env::over(Arc::new(storage)).background(Arc::new(Stepped));
        (Db::open_with(env, Settings::default()).unwrap(), watch)
    }

    /// Puts, an ingest over them with looks in between, and where S is.
    fn ingest_watched() -> (Db, Vec<Look>, Seqno) {
        let (db, watch) = watched();
        let keyspace = db.default_keyspace();
        keyspace.put("a", "old").unwrap();
        keyspace.put("b", "old").unwrap();
        db.flush().unwrap();
        keyspace.put("c", "old").unwrap();
        assert!(watch.db.set(db.clone()).is_ok());
        let ingested = keyspace.ingest(["a", "b", "c", "d"].map(|key| (key, "new"))).unwrap();
        let looks = std::mem::take(&mut *watch.looks.lock());
        assert!(looks.len() > 8, "{}", looks.len());
        (db, looks, ingested.seqno.unwrap())
    }

    #[test]
    fn a_snapshot_taken_in_the_middle_of_an_ingest_never_sees_it() {
        let (db, looks, seqno) = ingest_watched();
        let keyspace = db.default_keyspace();
        for Look { snapshot, .. } in looks {
            assert!(snapshot.seqno() < seqno, "nothing was durable then");
            for key in ["a", "b", "c", "d"] {
                let expected = (key != "d").then_some(&b"old"[..]);
                assert_eq!(snapshot.get(&keyspace, key).unwrap().as_deref(), expected);
            }
            assert_eq!(snapshot.count(&keyspace, ..).unwrap(), 3);
        }
        assert_eq!(keyspace.count(..).unwrap(), 4);
    }

    /// A reader may pin its view before an ingest, and load the visible seqno after it.
    #[test]
    fn a_reader_whose_view_lacks_the_tables_reads_before_the_ingest_and_caches_nothing_for_later() {
        let (db, looks, seqno) = ingest_watched();
        let (keyspace, inner) = (db.default_keyspace(), db.inner());
        keyspace.put("e", "newer").unwrap();
        let now = inner.commit.visible();
        assert!(now > seqno);
        for Look { view, .. } in looks {
            let get = |key: &str| {
                get(&inner.tree, &view, keyspace.id(), key.as_bytes(), now, ReadTier::MayBlock)
            };
            assert_eq!(get("a").unwrap().as_deref(), Some(&b"old"[..]));
            assert_eq!(get("e").unwrap(), None, "what came after the ingest");
            assert_eq!(keyspace.get("a").unwrap().as_deref(), Some(&b"new"[..]));
        }
    }

    #[test]
    fn a_dropped_keyspace_is_found_before_anything_is_written_and_holds_up_nobody() {
        let (db, _watch) = watched();
        let inner = db.inner();
        let id = crate::version::TableId { file: 9, offset: 0 };
        let meta = TableMeta { bytes: 1, entries: 2, ..TableMeta::new(id, "a", "b") };
        let (keyspace, values) = (KeyspaceId(77), Vec::new());
        let part = IngestPart { keyspace, tables: vec![meta], values };
        let failed = install(inner, &[part]).err().unwrap();
        assert!(matches!(failed.error, Error::UnknownKeyspace { .. }) && !failed.is_undecided);
        assert_eq!(inner.tree.view.load().ingesting, None);
        assert!(inner.schedule.jobs.lock().busy.is_empty());
        db.default_keyspace().put("a", "visible").unwrap();
        assert_eq!(db.default_keyspace().count(..).unwrap(), 1);
    }
}
