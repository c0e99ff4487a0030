//! Decides which flushed logs are kept.
//!
//! A consumer needs each log with a write that it has not acknowledged. The newest of them are kept for
//! it, as many as its bound takes. What is kept for all of them together is the same as what is kept for
//! the slowest one whose bound is not passed, because logs are needed from some point on.

use crate::manifest::feed_changes::{ConsumerRecord, FeedChange, KeptLog};
use crate::manifest::feed_state::FeedState;
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::version_edit::LogEnd;
use esker_memtable::MemTable;
use std::sync::Arc;

/// How many of `logs`, which are in the order of their writes, no consumer needs: the first ones.
pub(crate) fn unneeded<'a>(
    logs: &[(u32, KeptLog)],
    consumers: impl Iterator<Item = &'a ConsumerRecord>,
) -> usize {
    let start = consumers.map(|consumer| start_for(logs, consumer)).min();
    let mut start = start.unwrap_or(logs.len());
    // A batch is read from its first frame on.
    while logs.get(start).is_some_and(|(_, log)| log.begins_in_batch) {
        start += 1;
    }
    start
}

fn start_for(logs: &[(u32, KeptLog)], consumer: &ConsumerRecord) -> usize {
    let mut bytes = 0;
    let is_needed = |(_, log): &&(u32, KeptLog)| {
        bytes += log.end.offset;
        log.end.last_seqno > consumer.acknowledged && bytes <= consumer.bound_bytes
    };
    logs.len() - logs.iter().rev().take_while(is_needed).count()
}

/// The epochs of the kept logs of `feed` that no consumer needs.
pub(crate) fn released(feed: &FeedState) -> Vec<u32> {
    let logs: Vec<_> = feed.kept.iter().map(|(&epoch, &log)| (epoch, log)).collect();
    let released = unneeded(&logs, feed.consumers.values());
    logs[..released].iter().map(|(epoch, _)| *epoch).collect()
}

/// What becomes of logs at a flush.
pub(crate) struct LogFates {
    pub(crate) kept: Vec<FeedChange>,
    /// Those that nothing needs, kept ones of earlier flushes included.
    pub(crate) removed: Vec<u32>,
}

/// Decides what becomes of the logs of `memtables`, which are flushed together, and of those that are kept.
/// `can_keep`: the logs are durable.
pub(crate) fn after_flush(
    state: &ManifestState,
    memtables: &[Arc<MemTable>],
    can_keep: bool,
) -> LogFates {
    let (empty, filled): (Vec<_>, Vec<_>) =
        memtables.iter().partition(|memtable| memtable.entries() == 0);
    let flushed = filled.iter().enumerate().map(|(at, memtable)| {
        let (offset, last_seqno) = (memtable.bytes_used(), memtable.last_seqno());
        let end = LogEnd { offset, last_seqno };
        let first_seqno = memtable.first_seqno();
        (memtable.epoch(), KeptLog { first_seqno, end, begins_in_batch: at > 0 })
    });
    let flushed: Vec<_> = flushed.filter(|(epoch, _)| state.logs.contains_key(epoch)).collect();
    let earlier = state.feed.kept.iter().map(|(&epoch, &log)| (epoch, log));
    let mut logs: Vec<_> = earlier.collect();
    let (earlier, all) = (logs.len(), logs.len() + filled.len());
    logs.extend(flushed);
    // What was not logged, or not durably, makes a gap.
    let is_whole = can_keep && logs.len() == all;
    let removed = match is_whole {
        true => unneeded(&logs, state.feed.consumers.values()),
        false => logs.len(),
    };
    let kept = logs.iter().skip(removed.max(earlier));
    let keep = |&(epoch, log): &(u32, KeptLog)| FeedChange::KeepLog { epoch, log };
    let empty = empty.iter().map(|memtable| memtable.epoch());
    let empty = empty.filter(|epoch| state.logs.contains_key(epoch));
    LogFates {
        kept: kept.map(keep).collect(),
        removed: logs[..removed].iter().map(|(epoch, _)| *epoch).chain(empty).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five logs of ten writes and a hundred bytes.
    fn logs() -> Vec<(u32, KeptLog)> {
        let log = |at: u64| KeptLog {
            first_seqno: at * 10 + 1,
            end: LogEnd { offset: 100, last_seqno: at * 10 + 10 },
            begins_in_batch: false,
        };
        (0..5).map(|at| (at as u32, log(at))).collect()
    }

    fn consumer(acknowledged: u64, bound_bytes: u64) -> ConsumerRecord {
        ConsumerRecord { registered: 0, acknowledged, bound_bytes }
    }

    fn first_kept(consumers: &[ConsumerRecord]) -> usize {
        unneeded(&logs(), consumers.iter())
    }

    #[test]
    fn a_log_is_kept_until_its_last_write_is_acknowledged() {
        let kept =
            [0, 9, 10, 29, 30, 50].map(|acknowledged| first_kept(&[consumer(acknowledged, 999)]));
        assert_eq!(kept, [0, 0, 1, 2, 3, 5]);
    }

    #[test]
    fn no_more_is_kept_than_the_bound_takes() {
        let kept = [99, 100, 250, 500].map(|bound| first_kept(&[consumer(0, bound)]));
        assert_eq!(kept, [5, 4, 3, 0]);
    }

    #[test]
    fn the_consumer_that_needs_most_decides() {
        assert_eq!(first_kept(&[]), 5);
        assert_eq!(first_kept(&[consumer(45, 500), consumer(0, 200), consumer(20, 300)]), 2);
    }

    #[test]
    fn a_batch_is_kept_with_its_first_log_or_not_at_all() {
        let mut logs = logs();
        logs[2].1.begins_in_batch = true;
        logs[3].1.begins_in_batch = true;
        let kept = |bound| unneeded(&logs, [consumer(0, bound)].iter());
        assert_eq!([400, 300, 200, 100].map(kept), [1, 4, 4, 4]);
    }
}
