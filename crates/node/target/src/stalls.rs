//! Stalled transfers: a peer that has sent a part of something, or leaves what it is sent unread,
//! holds memory.
//!
//! A watched transfer must progress by a number of bytes, or end, within the time limit. Of the
//! transfers that R2Ts asked for, the oldest is watched: hosts send data in the order in which it
//! was asked for. While other connections wait for memory, all transfers of a connection together
//! must progress in proportion to the memory that they hold.

use crate::limits::{PROGRESS_BYTES, PROGRESS_FRACTION, TRANSFER_TIME, TRANSFER_TIME_SHORT};
use std::time::Duration;

/// The system is given output in bulk, and reports only when it has sent all of it. So for each of
/// these bytes that it has, a connection gets one more time limit.
const OUTPUT_BYTES_PER_LIMIT: usize = 1 << 20;

/// What a connection holds memory for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Transfers {
    /// Whether other connections wait for memory.
    pub(crate) is_memory_short: bool,
    /// The oldest transfer that was asked for: its number, and its bytes that have arrived. `None`
    /// while the node itself receives nothing.
    pub(crate) oldest: Option<(u64, usize)>,
    /// The bytes of all transfers that were asked for.
    pub(crate) asked_for: usize,
    /// The bytes of all transfers that have arrived so far.
    pub(crate) transferred: usize,
    /// The PDU that has arrived in part: its number, and its bytes.
    pub(crate) half_received: Option<(u64, usize)>,
    /// If there is output: the bytes sent so far, and those that the system has and has not sent.
    pub(crate) output: Option<(usize, usize)>,
    /// The memory of the output.
    pub(crate) output_held: usize,
}

/// Watches the transfers of one connection.
#[derive(Default)]
pub(crate) struct Stalls {
    watches: [Watch; 4],
}

impl Stalls {
    /// Whether a transfer has made too little progress for too long.
    pub(crate) fn look(&mut self, now: Duration, transfers: &Transfers) -> bool {
        let is_short = transfers.is_memory_short;
        let limit = if is_short { TRANSFER_TIME_SHORT } else { TRANSFER_TIME };
        let least = |held: usize| match is_short {
            true => PROGRESS_BYTES.max(held / PROGRESS_FRACTION),
            false => PROGRESS_BYTES,
        };
        let all = transfers.oldest.filter(|_| is_short).map(|_| (0, transfers.transferred));
        let given = transfers.output.map_or(0, |(_, given)| given / OUTPUT_BYTES_PER_LIMIT);
        let output = transfers.output.map(|(sent, _)| (0, sent));
        let seen = [
            (transfers.oldest, PROGRESS_BYTES, limit),
            (all, least(transfers.asked_for), limit),
            (transfers.half_received, PROGRESS_BYTES, limit),
            (output, least(transfers.output_held), limit * (1 + given as u32)),
        ];
        let mut watches = self.watches.iter_mut().zip(seen);
        watches.any(|(watch, (there_is, least, limit))| watch.look(now, there_is, least) >= limit)
    }
}

/// Watches one thing at a time.
#[derive(Default)]
struct Watch {
    /// What is watched, how far it was, and since when.
    seen: Option<(u64, usize, Duration)>,
}

impl Watch {
    /// Inspects what there is: its name, which no other has had, and how far it is. Says for how
    /// long it has not progressed by `least` bytes.
    fn look(&mut self, now: Duration, there_is: Option<(u64, usize)>, least: usize) -> Duration {
        let Some((name, bytes)) = there_is else {
            self.seen = None;
            return Duration::ZERO;
        };
        match self.seen {
            Some((seen, before, since)) if seen == name && bytes < before + least => {
                now.saturating_sub(since)
            }
            _ => {
                self.seen = Some((name, bytes, now));
                Duration::ZERO
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drip_is_no_progress() {
        let (mut watch, second) = (Watch::default(), Duration::from_secs(1));
        let mut look = |seconds, there_is| watch.look(seconds * second, there_is, 100);
        assert_eq!(look(1, Some((7, 0))), Duration::ZERO);
        assert_eq!(look(3, Some((7, 99))), 2 * second);
        assert_eq!(look(4, Some((7, 100))), Duration::ZERO);
        assert_eq!(look(6, Some((7, 101))), 2 * second);
        assert_eq!(look(7, Some((8, 0))), Duration::ZERO, "another");
        assert_eq!(look(9, None), Duration::ZERO, "nothing");
        assert_eq!(look(9, Some((8, 0))), Duration::ZERO, "it came anew");
    }

    /// How many seconds a connection may send none of its waiting output before it is ended.
    fn seconds_of_unread_output(given: usize, is_memory_short: bool) -> u64 {
        let (mut stalls, second) = (Stalls::default(), Duration::from_secs(1));
        let transfers =
            Transfers { is_memory_short, output: Some((5, given)), ..Transfers::default() };
        (0..).find(|seconds| stalls.look(*seconds as u32 * second, &transfers)).unwrap()
    }

    #[test]
    fn output_that_the_system_has_gets_a_time_limit_for_each_mebibyte() {
        assert_eq!(seconds_of_unread_output(0, false), 30);
        assert_eq!(seconds_of_unread_output((1 << 20) - 1, false), 30);
        assert_eq!(seconds_of_unread_output(1 << 20, false), 60);
        assert_eq!(seconds_of_unread_output(8 << 20, false), 9 * 30);
        assert_eq!(seconds_of_unread_output(8 << 20, true), 9 * 5);
    }
}
