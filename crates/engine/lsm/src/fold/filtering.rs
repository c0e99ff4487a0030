//! The compaction filters of an open database, and what they did.
//!
//! A filter changes what readers at present see, without a write. So nothing may remember values of
//! its keyspace by their sequence numbers: the DRAMTable and [`hot`](super::hot) leave such
//! keyspaces out.

use super::compaction_filters::CompactionFilters;
use super::operators::OperatorName;
use crate::user_keys::KeyFormat;
use esker_api::{CompactionFilter, FilterDecision, FilterError};
use esker_base::{Error, KeyspaceId};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a compaction did by a filter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filtered {
    /// Entries that were dropped.
    pub dropped: u64,
    /// Entries that have another value.
    pub replaced: u64,
    /// Entries that stay because the filter failed.
    pub failed: u64,
    /// The key of the last of these, and why.
    pub failure: Option<(String, String)>,
}

impl Filtered {
    /// Whether a reader could see a difference.
    pub fn is_seen(&self) -> bool {
        self.dropped + self.replaced > 0
    }

    /// Adds what the next part of the compaction did.
    pub fn join(&mut self, next: Filtered) {
        self.dropped += next.dropped;
        self.replaced += next.replaced;
        self.failed += next.failed;
        self.failure = next.failure.or_else(|| self.failure.take());
    }
}

/// The filter of a keyspace, for a compaction.
#[derive(Clone)]
pub struct ValueFilter {
    name: OperatorName,
    filter: Arc<dyn CompactionFilter>,
    keys: KeyFormat,
}

impl ValueFilter {
    /// What the filter decides about a stored key, and its value. If it fails, the entry stays.
    pub(crate) fn decide(
        &self,
        stored_key: &[u8],
        value: &[u8],
        did: &mut Filtered,
    ) -> FilterDecision {
        let key = self.keys.user(stored_key);
        // The filter is shared and not ours: what a panic leaves in it is its own.
        let decided = catch_unwind(AssertUnwindSafe(|| self.filter.filter(&key, value)));
        let too_long = |value: &[u8]| value.len() > esker_table::format::VALUE_BYTES_MAX;
        let what = match decided {
            Ok(Ok(FilterDecision::Replace(new))) if too_long(&new) => {
                format!("the new value has {} bytes, which is too long", new.len())
            }
            Ok(Ok(decision)) => {
                did.dropped += u64::from(decision == FilterDecision::Drop);
                did.replaced += u64::from(matches!(decision, FilterDecision::Replace(_)));
                return decision;
            }
            Ok(Err(error)) => FilterError::to_string(&error),
            Err(_) => "the filter panicked".into(),
        };
        did.failed += 1;
        let what = format!("{}: {what}", self.name);
        did.failure = Some((key.escape_ascii().to_string(), what));
        FilterDecision::Keep
    }
}

impl fmt::Debug for ValueFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ValueFilter").field(&self.name).finish()
    }
}

/// The filters of an open database: see the file's head.
pub(crate) struct Filters {
    filters: CompactionFilters,
    keys: KeyFormat,
    /// Whether a keyspace has a filter. Never unset.
    is_any: AtomicBool,
    /// The keyspaces that have a filter, also if this open lacks it.
    keyspaces: RwLock<BTreeSet<KeyspaceId>>,
    did: Mutex<Did>,
}

#[derive(Default)]
struct Did {
    all: Filtered,
    repeated: u64,
    /// By keyspace, how many entries stayed because the filter failed, and the last error.
    failures: BTreeMap<KeyspaceId, (u64, Error)>,
}

impl Filters {
    pub(crate) fn new(filters: CompactionFilters, keys: KeyFormat) -> Self {
        let (is_any, keyspaces, did) = Default::default();
        Filters { filters, keys, is_any, keyspaces, did }
    }

    /// Notes that `keyspace` has a filter, before anything is written to it.
    pub(crate) fn expect(&self, keyspace: KeyspaceId) {
        self.keyspaces.write().insert(keyspace);
        self.is_any.store(true, Ordering::Release);
    }

    /// Whether `keyspace` has a filter, so that no value of it may be remembered.
    #[inline]
    pub(crate) fn changes(&self, keyspace: KeyspaceId) -> bool {
        self.is_any.load(Ordering::Acquire) && self.keyspaces.read().contains(&keyspace)
    }

    /// The filter called `name`, if this open was given it.
    pub(crate) fn named(&self, name: Option<OperatorName>) -> Option<ValueFilter> {
        let name = name?;
        let filter = self.filters.named(name.as_str())?;
        Some(ValueFilter { name, filter, keys: self.keys })
    }

    /// Those of `keyspaces`, with the names of their filters, whose filter this open was given.
    pub(crate) fn given(
        &self,
        keyspaces: impl Iterator<Item = (KeyspaceId, Option<OperatorName>)>,
    ) -> BTreeSet<KeyspaceId> {
        if !self.is_any.load(Ordering::Acquire) {
            return BTreeSet::new();
        }
        let given = keyspaces.filter(|(_, name)| self.named(*name).is_some());
        given.map(|(keyspace, _)| keyspace).collect()
    }

    /// Counts what an installed compaction of a keyspace did.
    pub(crate) fn count(&self, keyspace: (KeyspaceId, &str), filtered: &Filtered) {
        if *filtered == Filtered::default() {
            return;
        }
        let mut did = self.did.lock();
        did.all.join(Filtered { failure: None, ..filtered.clone() });
        let Some((key, what)) = &filtered.failure else { return };
        let (id, keyspace) = (keyspace.0, keyspace.1.to_owned());
        let error = Error::FilterFailed { key: key.clone(), keyspace, what: what.clone() };
        let (failed, last) = did.failures.entry(id).or_insert_with(|| (0, error.clone()));
        *failed += filtered.failed;
        *last = error;
    }

    /// Counts a compaction that ran again without the filter.
    pub(crate) fn count_repeat(&self) {
        self.did.lock().repeated += 1;
    }

    /// How often the filter of `keyspace` failed.
    pub(crate) fn failures(&self, keyspace: KeyspaceId) -> u64 {
        self.did.lock().failures.get(&keyspace).map_or(0, |(failed, _)| *failed)
    }

    /// The last error of the filter of `keyspace`, if it failed more often than `before`.
    pub(crate) fn failed_since(&self, keyspace: KeyspaceId, before: u64) -> Option<Error> {
        let did = self.did.lock();
        let (failed, error) = did.failures.get(&keyspace)?;
        (*failed > before).then(|| error.clone())
    }

    /// What was done, and how many compactions ran again without the filter.
    pub(crate) fn did(&self) -> (Filtered, u64) {
        let did = self.did.lock();
        (did.all.clone(), did.repeated)
    }

    /// Whether this open was not given the filter called `name`.
    pub(crate) fn lacks(&self, name: Option<OperatorName>) -> bool {
        name.is_some() && self.named(name).is_none()
    }
}
