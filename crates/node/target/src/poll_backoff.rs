//! Limits how often the reactor looks for what is rarely there.

use crate::reactor::TICK_TIME;
use std::time::Duration;

/// Skips looks until the next tick after one that found nothing.
#[derive(Default)]
pub(crate) struct PollBackoff {
    not_before: Duration,
}

impl PollBackoff {
    pub(crate) fn look<T>(&mut self, now: Duration, look: impl FnOnce() -> Option<T>) -> Option<T> {
        if now < self.not_before {
            return None;
        }
        let found = look();
        if found.is_none() {
            self.not_before = now + TICK_TIME;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_look_in_vain_there_is_none_until_the_next_tick() {
        let (mut vacancy, mut looks) = (PollBackoff::default(), 0);
        let mut look = |milliseconds, found: Option<u8>| {
            let found = vacancy.look(Duration::from_millis(milliseconds), || {
                looks += 1;
                found
            });
            (found, looks)
        };
        assert_eq!((look(5, Some(1)), look(5, Some(2))), ((Some(1), 1), (Some(2), 2)));
        assert_eq!(look(5, None), (None, 3));
        assert_eq!((look(5, Some(3)), look(104, Some(3))), ((None, 3), (None, 3)));
        assert_eq!(look(105, Some(3)), (Some(3), 4));
    }
}
