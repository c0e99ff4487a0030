//! The indexes of an open database, and the epoch at which each became part of writes.
//!
//! A write loads the epoch, adds index entries to its batch, and hands both to the write path. The
//! epoch is compared once more under the short lock that gives out seqnos. If an index was added since,
//! the batch is prepared again. So from a certain seqno on, every batch carries the entries of the
//! index, and the build starts with a snapshot above that seqno.

use super::index_keys::{IndexFunction, IndexKeys};
use super::settings::IndexStatus;
use super::stripes::Stripes;
use crate::reserved::parse_index_keyspace;
use crate::version::Version;
use arc_swap::{ArcSwap, Guard};
use esker_base::background::Running;
use esker_base::{Background, Error, IndexError, KeyspaceId, Result, Seqno};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The epoch of a database that has had no index since it was opened.
pub(crate) const NO_INDEXES: u64 = 0;

/// The indexes by the keyspace of their rows.
pub(crate) type IndexMap = BTreeMap<KeyspaceId, Vec<Arc<IndexSlot>>>;

/// See the file's head.
pub(crate) struct IndexRegistry {
    epoch: AtomicU64,
    map: ArcSwap<IndexMap>,
    stripes: OnceLock<LockTables>,
    /// Held while indexes are registered, created or dropped.
    pub(crate) changes: Mutex<()>,
    pub(crate) background: Arc<dyn Background>,
    /// Those that build.
    pub(crate) builders: Mutex<Vec<Box<dyn Running>>>,
}

/// Taken in this order.
#[derive(Default)]
pub(crate) struct LockTables {
    pub(crate) rows: Stripes,
    pub(crate) unique_keys: Stripes,
}

/// An index.
pub(crate) struct IndexSlot {
    pub(crate) name: String,
    /// The keyspace of its rows.
    pub(crate) rows: KeyspaceId,
    pub(crate) rows_name: String,
    /// The keyspace of its entries.
    pub(crate) entries: KeyspaceId,
    registered: OnceLock<Registered>,
    /// It is dropped or replaced.
    pub(crate) is_gone: AtomicBool,
    /// All entries are there, for readers at or above `ready_from`.
    is_ready: AtomicBool,
    ready_from: AtomicU64,
    /// How many rows the build has passed.
    pub(crate) rows_built: AtomicU64,
    pub(crate) build: Mutex<BuildState>,
    pub(crate) build_ended: Condvar,
    /// Held by the thread that builds.
    pub(crate) builder: Mutex<()>,
}

/// What the caller gave.
pub(crate) struct Registered {
    pub(crate) function: Box<IndexFunction>,
    pub(crate) version: u32,
    pub(crate) is_unique: bool,
}

/// How a build fares.
#[derive(Default)]
pub(crate) enum BuildState {
    /// Nothing is known before the function is given.
    #[default]
    Idle,
    Running,
    Failed(Error),
    Ready,
}

impl IndexRegistry {
    /// The indexes that `version` has keyspaces of, none of them registered.
    pub(crate) fn new(background: Arc<dyn Background>, version: &Version) -> Self {
        let mut map = IndexMap::new();
        for keyspace in version.keyspaces.values() {
            let Some((rows, name)) = parse_index_keyspace(&keyspace.name) else { continue };
            let Some(of) = version.keyspaces.get(&rows) else { continue };
            let slot = IndexSlot::new(name, rows, &of.name, keyspace.id);
            map.entry(rows).or_default().push(Arc::new(slot));
        }
        IndexRegistry {
            epoch: AtomicU64::new(NO_INDEXES + u64::from(!map.is_empty())),
            map: ArcSwap::from_pointee(map),
            stripes: OnceLock::new(),
            changes: Mutex::default(),
            background,
            builders: Mutex::default(),
        }
    }

    /// The epoch, to be loaded before the batch is prepared.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn load(&self) -> Guard<Arc<IndexMap>> {
        self.map.load()
    }

    pub(crate) fn stripes(&self) -> &LockTables {
        self.stripes.get_or_init(LockTables::default)
    }

    /// The indexes of the rows in `keyspace`.
    pub(crate) fn of(&self, keyspace: KeyspaceId) -> Vec<Arc<IndexSlot>> {
        self.map.load().get(&keyspace).cloned().unwrap_or_default()
    }

    /// The index `name` of the rows in `keyspace`.
    pub(crate) fn find(&self, keyspace: KeyspaceId, name: &str) -> Option<Arc<IndexSlot>> {
        let map = self.map.load();
        map.get(&keyspace)?.iter().find(|slot| slot.name == name).cloned()
    }

    /// Changes the map and begins an epoch, which `begin` passes to the write path. The caller holds
    /// `changes`.
    ///
    /// A writer loads the epoch, then the map, and the write path compares its epoch. So the write path
    /// comes first: from there on it accepts no batch of the old epoch, whichever map the writer found.
    /// The epoch here comes last: a reader of the new epoch finds the new map.
    pub(crate) fn change(&self, begin: impl FnOnce(u64), change: impl FnOnce(&mut IndexMap)) {
        let mut map = IndexMap::clone(&self.map.load());
        change(&mut map);
        map.retain(|_, slots| !slots.is_empty());
        let epoch = self.epoch() + 1;
        begin(epoch);
        self.map.store(Arc::new(map));
        self.epoch.store(epoch, Ordering::Release);
    }
}

impl IndexSlot {
    pub(crate) fn new(
        name: &str,
        rows: KeyspaceId,
        rows_name: &str,
        entries: KeyspaceId,
    ) -> IndexSlot {
        IndexSlot {
            name: name.to_owned(),
            rows,
            rows_name: rows_name.to_owned(),
            entries,
            registered: OnceLock::new(),
            is_gone: AtomicBool::new(false),
            is_ready: AtomicBool::new(false),
            ready_from: AtomicU64::new(0),
            rows_built: AtomicU64::new(0),
            build: Mutex::default(),
            build_ended: Condvar::new(),
            builder: Mutex::default(),
        }
    }

    /// What the caller gave, or the error of a write without it.
    #[inline]
    pub(crate) fn registered(&self) -> Result<&Registered> {
        self.registered.get().ok_or_else(|| {
            let (keyspace, index) = (self.rows_name.clone(), self.name.clone());
            IndexError::NotRegistered { keyspace, index }.into()
        })
    }

    /// Sets `keys` to those that the function gives the row, sorted.
    pub(crate) fn keys_of(&self, key: &[u8], value: &[u8], keys: &mut IndexKeys) -> Result<()> {
        let function = &*self.registered()?.function;
        keys.fill(function, key, value).map_err(|message| {
            let (index, key) = (self.name.clone(), key.escape_ascii().to_string());
            IndexError::FunctionPanicked { index, key, message }.into()
        })
    }

    /// The error of a call by a handle of an index that was dropped or replaced.
    #[cold]
    pub(crate) fn gone(&self) -> Error {
        let (keyspace, index) = (self.rows_name.clone(), self.name.clone());
        IndexError::Unknown { keyspace, index }.into()
    }

    /// How far the index is.
    pub(crate) fn status(&self) -> IndexStatus {
        if self.is_gone.load(Ordering::Acquire) {
            return IndexStatus::Failed(self.gone());
        }
        match &*self.build.lock() {
            BuildState::Ready => IndexStatus::Ready,
            BuildState::Failed(error) => IndexStatus::Failed(error.clone()),
            BuildState::Running => {
                IndexStatus::Building { rows: self.rows_built.load(Ordering::Relaxed) }
            }
            BuildState::Idle => IndexStatus::NotRegistered,
        }
    }

    pub(crate) fn register(&self, registered: Registered) {
        assert!(self.registered.set(registered).is_ok(), "an index is registered once");
    }

    /// Whether all rows have their entries.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    /// All rows have their entries, at `seqno` and above.
    pub(crate) fn set_ready(&self, seqno: Seqno) {
        self.ready_from.store(seqno, Ordering::Release);
        self.is_ready.store(true, Ordering::Release);
        self.end_build(BuildState::Ready);
    }

    pub(crate) fn end_build(&self, state: BuildState) {
        *self.build.lock() = state;
        self.build_ended.notify_all();
    }

    /// Fails unless a reader may look for all rows.
    pub(crate) fn check_ready(&self) -> Result<()> {
        if self.is_gone.load(Ordering::Acquire) {
            return Err(self.gone());
        }
        if self.is_ready() {
            return Ok(());
        }
        self.registered()?;
        let index = self.name.clone();
        Err(match &*self.build.lock() {
            BuildState::Failed(cause) => {
                IndexError::BuildFailed { index, cause: Arc::new(cause.clone()) }.into()
            }
            _ => {
                let rows = self.rows_built.load(Ordering::Relaxed);
                let state = format!("its build has passed {rows} rows");
                IndexError::NotReady { index, state }.into()
            }
        })
    }

    /// The same at a snapshot.
    pub(crate) fn check_ready_at(&self, snapshot: Seqno) -> Result<()> {
        self.check_ready()?;
        let ready_from = self.ready_from.load(Ordering::Acquire);
        match snapshot >= ready_from {
            true => Ok(()),
            false => {
                let state = format!("the snapshot at {snapshot} is older than its build");
                Err(IndexError::NotReady { index: self.name.clone(), state }.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::background::Stepped;

    #[test]
    fn the_write_path_begins_an_epoch_before_a_writer_finds_the_change() {
        let registry = IndexRegistry::new(Arc::new(Stepped), &Version::default());
        let (rows, entries) = (KeyspaceId(1), KeyspaceId(2));
        let slot = Arc::new(IndexSlot::new("by_name", rows, "users", entries));
        let begin = |epoch| {
            assert_eq!((epoch, registry.epoch()), (NO_INDEXES + 1, NO_INDEXES));
            assert!(registry.load().is_empty());
        };
        registry.change(begin, |map| _ = map.insert(rows, vec![slot]));
        assert_eq!((registry.epoch(), registry.of(rows).len()), (NO_INDEXES + 1, 1));
    }
}
