//! A store without a log: flushes and compactions over a manifest's state, and a plain history of
//! writes to compare it with.

use crate::compaction::execute::subcompaction::{CompactionResult, execute_part};
use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::pick::manual::full;
use crate::compaction::pick::{pick, pick_aged, pick_idle};
use crate::compaction::plan::CompactionPlan;
use crate::compaction::space::budget::PickerContext;
use crate::compaction::testing::{ListCursor, ListEntry};
use crate::manifest::invariants;
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::options::settings::{KeyspaceSettings, Shape};
use crate::options::sizes::SizeTargets;
use crate::options::space_policy::Dedup;
use crate::output::job_context::JobContext;
use crate::output::output_files::write_table;
use crate::output::value_output::ValueOutput;
use crate::output::version_filter::VersionFilter;
use crate::read::level_iter::LevelIter;
use crate::read::merging_iter::MergingIter;
use crate::version::{KeyspaceVersion, TableMeta, ValueFiles, table_file_name};
use esker_base::{
    EntryCursor, Error, KeyspaceId, Kind, MAX_SEQNO, RangeTombstone, Result, Seqno, WriteHint,
    hash64,
};
use esker_storage::Storage;
use esker_table::{BlockCache, Compression, PartLimits, ReadPurpose, TableOptions, TableWriter};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const FINGERPRINT_BITS: u8 = 8;

/// A write.
#[derive(Clone, Debug)]
pub enum Write {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

pub struct Store {
    pub storage: Arc<dyn Storage>,
    pub cache: Arc<BlockCache>,
    pub state: ManifestState,
    pub sizes: SizeTargets,
    pub settings: KeyspaceSettings,
    pub next_file: AtomicU64,
    pub cancelled: AtomicBool,
    /// All writes; the seqno is the place, from 1.
    pub history: Vec<Write>,
    pub flushed: usize,
    pub snapshots: Vec<Seqno>,
    pub busy: InProgressCompactions,
}

impl Store {
    pub fn new(storage: Arc<dyn Storage>, shape: Shape, segment_bytes: u64) -> Self {
        Self::deduplicating(storage, shape, Dedup::None, segment_bytes)
    }

    pub fn deduplicating(
        storage: Arc<dyn Storage>,
        shape: Shape,
        dedup: Dedup,
        segment_bytes: u64,
    ) -> Self {
        let compression = Compression::None;
        let settings = KeyspaceSettings::default()
            .shape(shape)
            .dedup(dedup)
            .compression(compression)
            .filter_bits(8);
        let mut store = Store {
            storage,
            cache: Arc::new(BlockCache::new(1 << 20)),
            state: ManifestState::default(),
            sizes: SizeTargets { segment_bytes },
            settings,
            next_file: AtomicU64::new(1),
            cancelled: AtomicBool::new(false),
            history: Vec::new(),
            flushed: 0,
            snapshots: Vec::new(),
            busy: InProgressCompactions::default(),
        };
        store.install(&VersionEdit::of([VersionChange::CreateKeyspace {
            id: KeyspaceId::DEFAULT,
            name: "default".into(),
            settings,
            retention_seqno: None,
        }]));
        store
    }

    pub fn keyspace(&self) -> &KeyspaceVersion {
        &self.state.version.keyspaces[&KeyspaceId::DEFAULT]
    }

    pub fn last_seqno(&self) -> Seqno {
        self.history.len() as Seqno
    }

    pub fn install(&mut self, edit: &VersionEdit) {
        let gone = self.state.apply(edit, &self.storage).unwrap();
        let used = self.state.files();
        for table in gone.iter().filter(|table| !used.contains(&table.meta.id.file)) {
            table.file().expect("a table in a file").mark_obsolete();
        }
        invariants::check(&self.state.version).unwrap();
        self.state.version.open_tables(&self.cache).unwrap();
    }

    /// Writes what was not flushed yet to a new run of level 0.
    pub fn flush(&mut self) {
        let mut entries: Vec<ListEntry> = Vec::new();
        let mut tombstones = Vec::new();
        for (at, write) in self.history.iter().enumerate().skip(self.flushed) {
            let seqno = at as Seqno + 1;
            match write.clone() {
                Write::Put(key, value) => entries.push((key, seqno, Kind::Put, value)),
                Write::Delete(key) => entries.push((key, seqno, Kind::Delete, Vec::new())),
                Write::DeleteRange(start, end) => {
                    tombstones.push(RangeTombstone { start, end, seqno });
                }
            }
        }
        let file_id = self.next_file.fetch_add(1, Ordering::Relaxed);
        let mut file = self.storage.create(&table_file_name(file_id), WriteHint::table(0)).unwrap();
        let options = TableOptions {
            keyspace: KeyspaceId::DEFAULT,
            compression: self.settings.compression,
            fingerprint_bits: FINGERPRINT_BITS,
            level: 0,
            file_id,
            sample_level: 0,
            parts: PartLimits::default(),
        };
        let writer = TableWriter::new(&mut *file, options);
        let mut cursor = ListCursor::new(entries);
        cursor.seek_first().unwrap();
        let mut fold = VersionFilter::new(self.snapshots.clone(), false);
        let values = &mut ValueOutput::none();
        let meta = write_table(writer, &mut cursor, tombstones, &mut fold, values).unwrap();
        file.sync().unwrap();
        self.flushed = self.history.len();
        let mut changes = vec![VersionChange::FlushedThrough(self.last_seqno())];
        let keyspace = KeyspaceId::DEFAULT;
        changes.extend(meta.map(|meta| VersionChange::AddTable {
            keyspace,
            level: 0,
            run: file_id,
            meta,
        }));
        self.install(&VersionEdit::of(changes));
    }

    /// What to do next.
    pub fn pick(&self) -> Option<CompactionPlan> {
        pick(self.keyspace(), &self.busy, self.sizes, &self.surroundings())
    }

    /// What to do next in idle time.
    pub fn pick_idle(&self) -> Option<CompactionPlan> {
        let around = self.surroundings();
        self.pick().or_else(|| pick_idle(self.keyspace(), &self.busy, self.sizes, &around))
    }

    /// What to do next for deletes as old as the write `through`.
    pub fn pick_aged(&self, through: Seqno) -> Option<CompactionPlan> {
        let around = PickerContext { aged_through: through, ..self.surroundings() };
        pick_aged(self.keyspace(), &self.busy, self.sizes, &around)
    }

    /// What to do next to have everything in one run.
    pub fn full(&self, before_file: u64) -> Option<CompactionPlan> {
        full(self.keyspace(), before_file, &self.busy, self.sizes, &self.surroundings())
    }

    fn surroundings(&self) -> PickerContext {
        PickerContext { snapshots: self.snapshots.clone(), ..PickerContext::default() }
    }

    /// Executes `plan` in `parts` parts.
    pub fn execute(&self, plan: &CompactionPlan, parts: usize) -> Result<CompactionResult> {
        let next_file_id = || self.next_file.fetch_add(1, Ordering::Relaxed);
        let context = JobContext {
            storage: self.storage.clone(),
            cache: self.cache.clone(),
            next_file_id: &next_file_id,
            snapshots: self.snapshots.clone(),
            settings: self.settings,
            filter: None,
            merger: None,
            now: 0,
            expired: Default::default(),
            cancelled: &self.cancelled,
            throttle: &|bytes| bytes,
            table_bytes: self.sizes.table_bytes(),
            fingerprint_bits: FINGERPRINT_BITS,
            sample_level: 0,
            part_limits: PartLimits::default(),
            expected_lifetime: None,
            values: ValueFiles::default(),
            collected: BTreeSet::new(),
            origin: None,
        };
        let mut outcome = CompactionResult::default();
        for part in plan.parts(parts) {
            let done = execute_part(plan, &part, &context);
            outcome.join(done.map_err(|failure| failure.error)?);
        }
        Ok(outcome)
    }

    /// Puts a plan's result in place.
    pub fn install_plan(&mut self, plan: &CompactionPlan, outcome: Option<&CompactionResult>) {
        let remove = plan
            .tables()
            .map(|table| VersionChange::RemoveTable { keyspace: plan.keyspace, id: table.meta.id });
        let add = |(level, run): (usize, u64), meta: &TableMeta| VersionChange::AddTable {
            keyspace: plan.keyspace,
            level,
            run,
            meta: meta.clone(),
        };
        let output = (plan.output_level, plan.output_run);
        let held = (plan.inputs[0].level, plan.inputs[0].run);
        let mut changes: Vec<VersionChange> = remove.collect();
        match outcome {
            Some(outcome) => {
                changes.extend(outcome.outputs.iter().map(|meta| add(output, meta)));
                changes.extend(outcome.held_back.iter().map(|meta| add(held, meta)));
            }
            None => changes.extend(plan.tables().map(|table| add(output, &table.meta))),
        }
        self.install(&VersionEdit::of(changes));
    }

    /// Executes and installs a plan.
    pub fn run(&mut self, plan: &CompactionPlan, parts: usize) {
        let outcome = match plan.is_drop() {
            true => Some(CompactionResult::default()),
            false if plan.is_trivial_move() => None,
            false => Some(self.execute(plan, parts).unwrap()),
        };
        self.install_plan(plan, outcome.as_ref());
    }

    /// What a reader at `snapshot` should see.
    pub fn expected(&self, snapshot: Seqno) -> Pairs {
        let mut pairs = Pairs::new();
        for write in self.history[..self.flushed].iter().take(snapshot as usize) {
            match write.clone() {
                Write::Put(key, value) => {
                    pairs.insert(key, value);
                }
                Write::Delete(key) => {
                    pairs.remove(&key);
                }
                Write::DeleteRange(start, end) => {
                    pairs.retain(|key, _| *key < start || *key >= end);
                }
            }
        }
        pairs
    }

    /// What a scan of everything at `snapshot` sees.
    pub fn scanned(&self, snapshot: Seqno) -> Pairs {
        let runs = self.keyspace().levels.iter().flat_map(|level| &level.runs);
        let cursors =
            runs.map(|run| LevelIter::new(run.clone(), self.cache.clone(), ReadPurpose::Read));
        let mut merge = MergingIter::new(cursors.collect());
        let mut pairs = Pairs::new();
        let mut seen = BTreeSet::new();
        merge.seek_first().unwrap();
        while merge.valid() {
            if merge.seqno() <= snapshot && seen.insert(merge.key().to_vec()) {
                let deleted = self.newest_tombstone(merge.key(), snapshot) > merge.seqno();
                if merge.kind() == Kind::Put && !deleted {
                    pairs.insert(merge.key().to_vec(), merge.value().to_vec());
                }
            }
            merge.next().unwrap();
        }
        pairs
    }

    fn newest_tombstone(&self, key: &[u8], snapshot: Seqno) -> Seqno {
        let tables = self.keyspace().tables().map(|(_, _, table)| table);
        let over = tables.filter(|table| table.meta.range_tombstones > 0);
        let readers = over.map(|table| table.reader(&self.cache).unwrap());
        readers.map(|table| table.tombstones().covering(key, snapshot)).max().unwrap_or(0)
    }

    /// What a get sees that goes from the newest place to the oldest and ends at the first hit.
    pub fn got(&self, key: &[u8], snapshot: Seqno) -> Option<Vec<u8>> {
        let mut deleted_before = 0;
        for run in self.keyspace().levels.iter().flat_map(|level| &level.runs) {
            let Some(table) = run.table_for(key) else { continue };
            let table = table.reader(&self.cache).unwrap();
            deleted_before = deleted_before.max(table.tombstones().covering(key, snapshot));
            if let Some(found) = table.get(key, hash64(key), snapshot).unwrap() {
                let lives = found.kind == Kind::Put && found.seqno >= deleted_before;
                return lives.then(|| found.value.bytes().to_vec());
            }
        }
        None
    }

    /// Checks that every registered reader, and one at present, sees what it should.
    pub fn check_readers(&self, context: &str) {
        for &snapshot in self.snapshots.iter().chain(&[MAX_SEQNO]) {
            let expected = self.expected(snapshot);
            assert_eq!(self.scanned(snapshot), expected, "{context}: a scan at {snapshot}");
            let written = self.history.iter().filter_map(|write| match write {
                Write::Put(key, _) | Write::Delete(key) => Some(key),
                Write::DeleteRange(..) => None,
            });
            for key in written.collect::<BTreeSet<_>>() {
                let got = self.got(key, snapshot);
                assert_eq!(got.as_ref(), expected.get(key), "{context}: a get at {snapshot}");
            }
        }
    }

    /// Checks that the storage holds the files in use and no others.
    pub fn check_files(&self) {
        let mut names = self.storage.list().unwrap();
        names.sort();
        let used: Vec<String> = self.state.files().into_iter().map(table_file_name).collect();
        assert_eq!(names, used);
    }
}

/// Whether `result` is the error of a cancelled compaction.
pub fn is_cancelled<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Closed))
}
