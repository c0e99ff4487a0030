//! Who is served when: reckoning alone, no clock and no waiting.

use std::time::Duration;

/// A device that serves one request at a time, in order of arrival.
#[derive(Default)]
pub(super) struct Queue {
    /// When it is done with all that it has accepted.
    free_at: Duration,
}

/// When a request is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot {
    pub(super) start: Duration,
    pub(super) end: Duration,
}

impl Queue {
    /// Accepts a request that comes `now` and takes `service`.
    pub(super) fn enter(&mut self, now: Duration, service: Duration) -> Slot {
        let start = self.free_at.max(now);
        self.free_at = start + service;
        Slot { start, end: self.free_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn a_request_waits_for_those_before_it() {
        let mut queue = Queue::default();
        let slot = |start, end| Slot { start: micros(start), end: micros(end) };
        assert_eq!(queue.enter(micros(10), micros(5)), slot(10, 15));
        assert_eq!(queue.enter(micros(12), micros(5)), slot(15, 20));
        assert_eq!(queue.enter(micros(13), micros(1)), slot(20, 21));
        assert_eq!(queue.enter(micros(40), micros(5)), slot(40, 45));
    }
}
