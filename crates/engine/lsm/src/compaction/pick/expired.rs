//! Picks compactions that free what has expired, when nothing else is due.
//!
//! A table is rewritten in its place if
//!
//! * half of its entries have expired: a freed byte then costs no more than one that is written; or
//! * one of them expired before the time until which the settings let deletes stay.
//!
//! The number of expired entries is estimated from the times in the description of the table. The
//! entries of the output expire later, so its estimate begins at none, and plans come to an end.
//!
//! A table that will soon have expired completely is left to `droppable_tables`.

use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::plan::{CompactionInput, CompactionPlan, CompactionReason};
use crate::options::sizes::SizeTargets;
use crate::version::{KeyspaceVersion, TableMeta};

/// Times in milliseconds since 1970-01-01.
#[derive(Clone, Copy, Debug)]
pub(in crate::compaction) enum Which {
    /// Tables of which half has expired at this time.
    Worthwhile(u64),
    /// Tables of which something expired before this time.
    Before(u64),
}

/// A table that expires completely within so many milliseconds is waited for.
const SOON: u64 = 10_000;

/// The share of a table that must have expired.
const SHARE: f64 = 0.5;

impl Which {
    fn reason(self) -> CompactionReason {
        match self {
            Which::Worthwhile(_) => CompactionReason::Deletes,
            Which::Before(_) => CompactionReason::OldDeletes,
        }
    }

    fn has(self, keyspace: &KeyspaceVersion, meta: &TableMeta) -> bool {
        match self {
            Which::Worthwhile(now) => {
                let goes_soon = meta.expires_by().is_some_and(|by| by > now && by - now <= SOON);
                !goes_soon && keyspace.expired().share(meta, now) >= SHARE
            }
            Which::Before(time) => meta.expiring.is_some_and(|it| it.earliest < time),
        }
    }
}

/// The rewrite of one such table.
pub(in crate::compaction) fn pick(
    keyspace: &KeyspaceVersion,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
    which: Which,
) -> Option<CompactionPlan> {
    let tables = keyspace.tables().filter(|(.., it)| which.has(keyspace, &it.meta));
    let mut plans = tables.filter(|(.., it)| !busy.holds(it)).filter_map(|(level, run, table)| {
        let input = CompactionInput { level, run, tables: vec![table.clone()] };
        CompactionPlan::new(keyspace, vec![input], level, run, which.reason(), sizes)
    });
    plans.find(|plan| busy.permits(plan))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::settings::KeyspaceSettings;
    use crate::version::{Run, TableHandle, TableId};
    use esker_base::KeyspaceId;
    use esker_table::Expiring;
    use std::sync::Arc;

    const SIZES: SizeTargets = SizeTargets { segment_bytes: 1 << 20 };

    /// A keyspace with a table of 100 entries on level 3, some of which expire from second 100 to 200.
    fn keyspace(expiring: u64) -> KeyspaceVersion {
        let mut keyspace =
            KeyspaceVersion::new(KeyspaceId(0), "k".into(), KeyspaceSettings::default());
        let expiring = Expiring { entries: expiring, earliest: 100_000, latest: 200_000 };
        let id = TableId { file: 7, offset: 0 };
        let meta = TableMeta {
            entries: 100,
            bytes: 1_000,
            expiring: Some(expiring),
            ..TableMeta::new(id, "a", "z")
        };
        let run = Run::new(5, vec![TableHandle::detached(meta)]);
        keyspace.levels[3].runs = vec![Arc::new(run)];
        keyspace
    }

    fn is_picked(keyspace: &KeyspaceVersion, which: Which) -> bool {
        let plan = pick(keyspace, &InProgressCompactions::default(), SIZES, which);
        plan.is_some_and(|plan| {
            assert!(!plan.is_trivial_move() && !plan.is_drop());
            assert_eq!((plan.output_level, plan.output_run), (3, 5));
            true
        })
    }

    #[test]
    fn a_table_is_rewritten_once_half_of_it_has_expired() {
        let (all, some) = (keyspace(100), keyspace(75));
        let half_at = |keyspace: &KeyspaceVersion| {
            let times = (0..300).map(|second| second * 1_000);
            let mut due = times.filter(|&now| is_picked(keyspace, Which::Worthwhile(now)));
            due.next()
        };
        assert_eq!(half_at(&all), Some(150_000));
        assert_eq!(half_at(&some), Some(167_000));
        assert_eq!(half_at(&keyspace(49)), None);
    }

    #[test]
    fn a_table_that_soon_has_expired_completely_is_waited_for() {
        let at = |now| is_picked(&keyspace(100), Which::Worthwhile(now));
        assert!(at(189_999) && !at(190_000) && !at(199_999) && at(200_000));
        let some = |now| is_picked(&keyspace(99), Which::Worthwhile(now));
        assert!(some(190_000), "it never has completely");
    }

    #[test]
    fn what_expired_too_long_ago_is_rewritten_however_little_it_is() {
        let before = |time| is_picked(&keyspace(1), Which::Before(time));
        assert!(!before(100_000) && before(100_001));
    }

    #[test]
    fn a_claimed_table_is_left_alone() {
        let (keyspace, mut busy) = (keyspace(100), InProgressCompactions::default());
        let next =
            |busy: &InProgressCompactions| pick(&keyspace, busy, SIZES, Which::Worthwhile(150_000));
        let plan = next(&busy).unwrap();
        busy.claim(&plan);
        assert!(next(&busy).is_none());
    }
}
