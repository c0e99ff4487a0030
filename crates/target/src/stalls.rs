//! Transfers that stand still: a peer that has half sent something, or leaves what it is sent
//! unread, holds memory.
//!
//! What is watched must move on by [`PROGRESS_BYTES`], or be over, within a time. Of the transfers
//! that R2Ts asked for, that is the oldest: hosts send data in the order in which it was asked for,
//! so that the others wait for it by right.

use crate::limits::PROGRESS_BYTES;
use std::time::Duration;

/// Watches one thing at a time.
#[derive(Default)]
pub(crate) struct Watch {
    /// What is watched, how far it was, and since when.
    seen: Option<(u64, usize, Duration)>,
}

impl Watch {
    /// Looks at what there is: its name, which no other has had, and how far it is. Says for how
    /// long it has stood still.
    pub(crate) fn look(&mut self, now: Duration, there_is: Option<(u64, usize)>) -> Duration {
        let Some((name, bytes)) = there_is else {
            self.seen = None;
            return Duration::ZERO;
        };
        match self.seen {
            Some((seen, before, since)) if seen == name && bytes < before + PROGRESS_BYTES => {
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
        assert_eq!(watch.look(second, Some((7, 0))), Duration::ZERO);
        assert_eq!(watch.look(3 * second, Some((7, PROGRESS_BYTES - 1))), 2 * second);
        assert_eq!(watch.look(4 * second, Some((7, PROGRESS_BYTES))), Duration::ZERO);
        assert_eq!(watch.look(6 * second, Some((7, PROGRESS_BYTES + 1))), 2 * second);
        assert_eq!(watch.look(7 * second, Some((8, 0))), Duration::ZERO, "another");
        assert_eq!(watch.look(9 * second, None), Duration::ZERO, "nothing");
        assert_eq!(watch.look(9 * second, Some((8, 0))), Duration::ZERO, "it came anew");
    }
}
