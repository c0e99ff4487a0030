//! Transfers that stand still: a peer that has half sent something, or leaves what it is sent
//! unread, holds memory.
//!
//! A watched transfer must progress by a number of bytes, or end, within the time limit. Of the
//! transfers that R2Ts asked for, the oldest is watched: hosts send data in the order in which it
//! was asked for. While other connections wait for memory, all transfers of a connection together
//! must progress in proportion to the memory that they hold.

use std::time::Duration;

/// Watches one thing at a time.
#[derive(Default)]
pub(crate) struct Watch {
    /// What is watched, how far it was, and since when.
    seen: Option<(u64, usize, Duration)>,
}

impl Watch {
    /// Looks at what there is: its name, which no other has had, and how far it is. Says for how
    /// long it has not progressed by `least` bytes.
    pub(crate) fn look(
        &mut self,
        now: Duration,
        there_is: Option<(u64, usize)>,
        least: usize,
    ) -> Duration {
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
}
