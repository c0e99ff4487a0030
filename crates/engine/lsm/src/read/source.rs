//! The sources of a walk: the runs and MemTables of one view, and its range tombstones.
//!
//! A walk that is renewed keeps the source of each run that the new view has too, with the blocks
//! and buffers that it holds. It takes all MemTables anew, because each may have new entries.

use super::level_iter::LevelIter;
use super::merging_iter::MergingIter;
use crate::fold::expiry::Time;
use crate::tree::Tree;
use crate::version::aging::Expired;
use crate::version::readers::super_version::SuperVersion;
use crate::version::{KeyspaceVersion, Run, TableHandle, TableId, TableMeta, Version};
use esker_api::KeyRange;
use esker_base::{EntryCursor, FragmentedTombstones, KeyspaceId, Kind, Result, Seqno};
use esker_memtable::MemTableCursor;
use esker_table::ReadPurpose;
use std::borrow::Cow;
use std::sync::Arc;

/// One sorted source of versions.
#[expect(
    clippy::large_enum_variant,
    reason = "most sources are runs, and a box costs a cache miss a step"
)]
pub(crate) enum Source {
    MemTable(MemTableCursor),
    Run(LevelIter),
}

macro_rules! each_source {
    ($self:ident, $cursor:ident => $call:expr) => {
        match $self {
            Source::MemTable($cursor) => $call,
            Source::Run($cursor) => $call,
        }
    };
}

impl EntryCursor for Source {
    #[inline]
    fn valid(&self) -> bool {
        each_source!(self, cursor => cursor.valid())
    }
    fn seek_first(&mut self) -> Result<()> {
        each_source!(self, cursor => cursor.seek_first())
    }
    fn seek_last(&mut self) -> Result<()> {
        each_source!(self, cursor => cursor.seek_last())
    }
    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        each_source!(self, cursor => cursor.seek(key, seqno))
    }
    #[inline]
    fn misses_seeks(&self) -> bool {
        each_source!(self, cursor => cursor.misses_seeks())
    }
    fn begin_seek(&mut self, key: &[u8], seqno: Seqno) {
        each_source!(self, cursor => cursor.begin_seek(key, seqno))
    }
    fn seek_before(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        each_source!(self, cursor => cursor.seek_before(key, seqno))
    }
    #[inline]
    fn next(&mut self) -> Result<()> {
        each_source!(self, cursor => cursor.next())
    }
    #[inline]
    fn prev(&mut self) -> Result<()> {
        each_source!(self, cursor => cursor.prev())
    }
    #[inline]
    fn key(&self) -> &[u8] {
        each_source!(self, cursor => cursor.key())
    }
    #[inline]
    fn seqno(&self) -> Seqno {
        each_source!(self, cursor => cursor.seqno())
    }
    #[inline]
    fn kind(&self) -> Kind {
        each_source!(self, cursor => cursor.kind())
    }
    #[inline]
    fn value(&self) -> &[u8] {
        each_source!(self, cursor => cursor.value())
    }
}

/// A view that a walk reads. It keeps the MemTables and table files of the walk's sources.
pub(crate) struct PinnedView {
    /// Those of MemTables, then those of tables.
    tombstones: Arc<[Arc<FragmentedTombstones>]>,
    table_tombstones: Vec<Arc<FragmentedTombstones>>,
    view: Arc<SuperVersion>,
}

impl PinnedView {
    /// The view `own`, or the current one, without tombstones until [`PinnedView::set_runs`].
    pub(crate) fn new(tree: &Tree, own: Option<&Arc<SuperVersion>>) -> PinnedView {
        PinnedView {
            tombstones: Arc::default(),
            table_tombstones: Vec::new(),
            view: own.cloned().unwrap_or_else(|| tree.view.load()),
        }
    }

    /// Whether it is the view `own`, or else no newer view was published.
    pub(crate) fn is_current(&self, tree: &Tree, own: Option<&Arc<SuperVersion>>) -> bool {
        match own {
            Some(own) => Arc::ptr_eq(own, &self.view),
            None => std::ptr::eq(&**tree.view.pin(), &*self.view),
        }
    }

    /// Takes the view `own`, or the current one. The sources stay those of the old one until
    /// [`PinnedView::set_runs`].
    pub(crate) fn load(&mut self, tree: &Tree, own: Option<&Arc<SuperVersion>>) {
        self.view = own.cloned().unwrap_or_else(|| tree.view.load());
    }

    /// The version of the view.
    pub(crate) fn version(&self) -> &Version {
        &self.view.version
    }

    /// What of a keyspace has expired by its age.
    pub(crate) fn expired(&self, keyspace: KeyspaceId) -> Expired {
        let found = self.view.version.keyspaces.get(&keyspace);
        found.map_or_else(Expired::default, |found| found.expired())
    }

    /// The range tombstones of all sources.
    #[inline]
    pub(crate) fn tombstones(&self) -> &Arc<[Arc<FragmentedTombstones>]> {
        &self.tombstones
    }

    /// Makes the runs of a keyspace the only sources of `merge`.
    pub(crate) fn set_runs(
        &mut self,
        merge: &mut MergingIter<Source>,
        tree: &Tree,
        keyspace: KeyspaceId,
        range: &KeyRange,
    ) -> Result<()> {
        let PinnedView { view, table_tombstones, .. } = self;
        let tables = view.version.keyspaces.get(&keyspace);
        let tables = tables.ok_or_else(|| tree.unknown(keyspace))?;
        table_tombstones.clear();
        for run in tables.levels.iter().flat_map(|level| &level.runs) {
            let deletes_in = |meta: &TableMeta| meta.range_tombstones > 0 && meta.meets(range);
            for handle in run.tables().iter().filter(|table| deletes_in(&table.meta)) {
                table_tombstones.push(handle.reader(&tree.cache)?.tombstones().clone());
            }
        }
        table_tombstones.retain(|list| !list.is_empty());
        let skipped = expired_tables(tree, tables);
        self.tombstones = table_tombstones.iter().cloned().collect();
        merge.change_children(|sources| {
            let mut old = std::mem::take(sources);
            for run in tables.levels.iter().flat_map(|level| &level.runs) {
                let is_same = |source: &Source| match source {
                    Source::Run(cursor) => cursor.is_of(run),
                    Source::MemTable(_) => false,
                };
                let run = &*without(run, &skipped);
                let mut cursor = match old.iter().position(is_same).map(|at| old.swap_remove(at)) {
                    Some(Source::Run(cursor)) => cursor,
                    _ => LevelIter::new(run.clone(), tree.cache.clone(), ReadPurpose::Read),
                };
                cursor.bind(range);
                if !cursor.is_empty() {
                    sources.push(Source::Run(cursor));
                }
            }
        });
        Ok(())
    }

    /// Puts those MemTables before the runs of `merge` that have something of a keyspace at the
    /// snapshot.
    pub(crate) fn set_memtables(
        &mut self,
        merge: &mut MergingIter<Source>,
        keyspace: KeyspaceId,
        snapshot: Seqno,
    ) {
        let (mut sources, mut lists) = (Vec::new(), Vec::new());
        for memtable in self.view.memtables.iter().filter(|one| one.first_seqno() <= snapshot) {
            let cursor = memtable.cursor(keyspace, snapshot);
            if !cursor.is_empty() {
                sources.push(Source::MemTable(cursor));
            }
            lists.extend(memtable.range_tombstones(keyspace));
        }
        lists.retain(|list| !list.is_empty());
        if !lists.is_empty() || self.tombstones.len() != self.table_tombstones.len() {
            lists.extend_from_slice(&self.table_tombstones);
            self.tombstones = lists.into();
        }
        if !sources.is_empty() {
            merge.change_children(|children| drop(children.splice(0..0, sources)));
        }
    }
}

/// The tables that a scan need not read, because everything in them has expired. In order.
fn expired_tables(tree: &Tree, keyspace: &KeyspaceVersion) -> Vec<TableId> {
    if !tree.time.is_used() && keyspace.aging.is_none() {
        return Vec::new();
    }
    let expired = keyspace.expired_tables(tree.time.now_if_used(), |_| true);
    let times = expired.iter().filter_map(|table| table.meta.expires_by());
    if let Some(latest) = times.max() {
        // The walk passes it unseen.
        tree.time.has_passed(latest);
    }
    let mut ids: Vec<TableId> = expired.into_iter().map(|table| table.meta.id).collect();
    ids.sort_unstable();
    ids
}

/// `run` without the tables `skipped`.
fn without<'r>(run: &'r Arc<Run>, skipped: &[TableId]) -> Cow<'r, Arc<Run>> {
    let is_skipped = |table: &Arc<TableHandle>| skipped.binary_search(&table.meta.id).is_ok();
    if skipped.is_empty() || !run.tables().iter().any(is_skipped) {
        return Cow::Borrowed(run);
    }
    let rest = run.tables().iter().filter(|table| !is_skipped(table)).cloned().collect();
    Cow::Owned(Arc::new(Run::new(run.id, rest)))
}

/// Drops the MemTables of a walk that waits to be renewed, and what its runs hold of blocks.
pub(crate) fn keep_runs_at_rest(merge: &mut MergingIter<Source>) {
    merge.change_children(|sources| {
        sources.retain_mut(|source| match source {
            Source::Run(cursor) => {
                cursor.rest();
                true
            }
            Source::MemTable(_) => false,
        });
    });
}
