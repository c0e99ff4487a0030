//! What running plans claim. A plan runs until its edit is installed. A plan cannot claim a table
//! known to be unreadable, because it would fail.

use super::plan::{CompactionPlan, CompactionReason, RunPosition};
use crate::version::key_bounds::KeyBounds;
use crate::version::{TableHandle, TableId};
use esker_base::KeyspaceId;
use std::collections::HashSet;

/// The tables and the ranges of keys and places that running plans hold. The owner claims a plan
/// when it starts and releases it when its edit is installed or it failed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct InProgressCompactions {
    tables: HashSet<TableId>,
    claims: Vec<ClaimedRegion>,
    arriving: Vec<ArrivingTables>,
}

/// Tables of an ingest that is about to be installed, and their place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrivingTables {
    /// Their keyspace.
    pub keyspace: KeyspaceId,
    /// Their key bounds.
    pub span: KeyBounds,
    /// Their level.
    pub level: usize,
    /// The run of that level that they join or make.
    pub run: u64,
    /// The tables.
    pub tables: Vec<TableId>,
}

impl ArrivingTables {
    /// Whether the plan could put tables where these arrive. In level 0 they have a run of their own.
    fn meets(&self, claim: &ClaimedRegion) -> bool {
        self.level > 0 && claim.crosses(self.keyspace, self.level, &self.span)
    }
}

/// A plan's span, from its newest input's place to the oldest that it takes from or puts to.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ClaimedRegion {
    keyspace: KeyspaceId,
    span: KeyBounds,
    newest: RunPosition,
    oldest: RunPosition,
    /// The level and the run of the output. `None` for a plan that only drops tables.
    output: Option<(usize, u64)>,
    expected_bytes: u64,
    reason: CompactionReason,
}

impl ClaimedRegion {
    fn of(plan: &CompactionPlan) -> Self {
        ClaimedRegion {
            keyspace: plan.keyspace,
            span: plan.span.clone(),
            newest: plan.newest_place(),
            oldest: plan.oldest_place(),
            output: (!plan.is_drop()).then_some((plan.output_level, plan.output_run)),
            expected_bytes: plan.expected_bytes,
            reason: plan.reason,
        }
    }

    /// Whether the plan takes from `level`, puts to it or passes it, within `span`.
    fn crosses(&self, keyspace: KeyspaceId, level: usize, span: &KeyBounds) -> bool {
        self.keyspace == keyspace
            && self.output.is_some()
            && (self.newest.level..=self.oldest.level).contains(&level)
            && self.span.overlaps(span)
    }

    /// Whether the two plans may not run together. A plan that only drops tables moves no data past
    /// others, so only its tables matter.
    fn meets(&self, other: &ClaimedRegion) -> bool {
        self.keyspace == other.keyspace
            && self.output.is_some()
            && other.output.is_some()
            && self.newest <= other.oldest
            && other.newest <= self.oldest
            && self.span.overlaps(&other.span)
    }
}

/// What a running plan holds, without a hold on its tables' files.
#[derive(Clone, Debug)]
pub struct CompactionClaim {
    tables: Vec<TableId>,
    claim: ClaimedRegion,
}

impl CompactionClaim {
    /// What `plan` holds.
    pub fn by(plan: &CompactionPlan) -> Self {
        let tables = plan.tables().map(|table| table.meta.id).collect();
        CompactionClaim { tables, claim: ClaimedRegion::of(plan) }
    }
}

impl InProgressCompactions {
    /// Whether no other plan can have a table: it is an input of a running one, or unreadable.
    pub fn holds(&self, table: &TableHandle) -> bool {
        table.is_unreadable() || self.tables.contains(&table.meta.id)
    }

    /// Whether the table is an input of a running plan.
    pub(super) fn has_input(&self, table: TableId) -> bool {
        self.tables.contains(&table)
    }

    /// Whether `plan` can be done, and may run concurrently with those in progress. A table that can't be read can be dropped.
    pub fn permits(&self, plan: &CompactionPlan) -> bool {
        (plan.is_drop() || !plan.takes_unreadable()) && !self.meets(plan)
    }

    fn meets(&self, plan: &CompactionPlan) -> bool {
        let claim = ClaimedRegion::of(plan);
        plan.tables().any(|table| self.tables.contains(&table.meta.id))
            || self.claims.iter().any(|other| other.meets(&claim))
            || self.arriving.iter().any(|arriving| arriving.meets(&claim))
    }

    /// Whether a running plan takes from `level`, puts to it or passes it, within `span`.
    pub(crate) fn crosses(&self, keyspace: KeyspaceId, level: usize, span: &KeyBounds) -> bool {
        self.claims.iter().any(|claim| claim.crosses(keyspace, level, span))
    }

    /// Keeps plans off tables that arrive, and off their place.
    pub(crate) fn hold_arriving(&mut self, arriving: &ArrivingTables) {
        self.tables.extend(&arriving.tables);
        self.arriving.push(arriving.clone());
    }

    /// Ends what [`InProgressCompactions::hold_arriving`] began.
    pub(crate) fn release_arriving(&mut self, arriving: &ArrivingTables) {
        arriving.tables.iter().for_each(|table| _ = self.tables.remove(table));
        self.arriving.retain(|other| other != arriving);
    }

    /// Marks `plan` as running. One of its tables may have been marked as unreadable since the plan was permitted.
    pub fn claim(&mut self, plan: &CompactionPlan) {
        debug_assert!(!self.meets(plan), "plans that run together must not meet");
        self.tables.extend(plan.tables().map(|table| table.meta.id));
        self.claims.push(ClaimedRegion::of(plan));
    }

    /// Marks a plan, claimed before, as no longer running.
    pub fn release(&mut self, held: &CompactionClaim) {
        for table in &held.tables {
            self.tables.remove(table);
        }
        let at = self.claims.iter().position(|other| *other == held.claim);
        self.claims.swap_remove(at.expect("only a claimed plan is released"));
    }

    /// About how many bytes the running plans of `keyspace` write in all.
    pub fn expected_bytes(&self, keyspace: KeyspaceId) -> u64 {
        self.claims_of(keyspace).map(|claim| claim.expected_bytes).sum()
    }

    /// How many running plans of `keyspace` were begun for `reason`.
    pub fn begun_for(&self, keyspace: KeyspaceId, reason: CompactionReason) -> usize {
        self.claims_of(keyspace).filter(|claim| claim.reason == reason).count()
    }

    /// Whether a running plan of any keyspace was begun for `reason`.
    pub fn runs_for(&self, reason: CompactionReason) -> bool {
        self.claims.iter().any(|claim| claim.reason == reason)
    }

    /// How many plans of `keyspace` are running.
    pub fn count(&self, keyspace: KeyspaceId) -> usize {
        self.claims_of(keyspace).count()
    }

    /// The run of `level` that a running plan of `keyspace` writes to.
    pub(crate) fn output_run(&self, keyspace: KeyspaceId, level: usize) -> Option<u64> {
        let arriving = self.arriving.iter().filter(|arriving| arriving.keyspace == keyspace);
        let arriving = arriving.map(|arriving| (arriving.level, arriving.run));
        let outputs = self.claims_of(keyspace).filter_map(|claim| claim.output);
        outputs.chain(arriving).find(|output| output.0 == level).map(|(_, run)| run)
    }

    /// Whether no plan of `keyspace` is running.
    pub fn is_idle(&self, keyspace: KeyspaceId) -> bool {
        self.count(keyspace) == 0
    }

    fn claims_of(&self, keyspace: KeyspaceId) -> impl Iterator<Item = &ClaimedRegion> {
        self.claims.iter().filter(move |claim| claim.keyspace == keyspace)
    }

    /// Each running plan: its keyspace, its reason, the level of its newest input, that of its output
    /// unless it only drops tables, and about how many bytes it writes.
    pub(crate) fn running(
        &self,
    ) -> impl Iterator<Item = (KeyspaceId, CompactionReason, usize, Option<usize>, u64)> {
        self.claims.iter().map(|claim| {
            let output = claim.output.map(|(level, _)| level);
            (claim.keyspace, claim.reason, claim.newest.level, output, claim.expected_bytes)
        })
    }

    /// The number of running plans.
    pub fn len(&self) -> usize {
        self.claims.len()
    }

    /// Whether no plan is running.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}
