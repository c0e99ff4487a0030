//! A channel: moves one piece at a time for the dies that wait for it.

use std::collections::VecDeque;

/// A channel. A die waits for it at most once.
#[derive(Debug)]
pub(super) struct Bus {
    /// The die that it moves a piece for.
    pub(super) current: Option<u16>,
    first: VecDeque<u16>,
    second: VecDeque<u16>,
    /// How long it was busy.
    pub(super) busy_ns: u64,
}

impl Bus {
    pub(super) fn new(dies: u16) -> Self {
        let queue = || VecDeque::with_capacity(dies.into());
        Bus { current: None, first: queue(), second: queue(), busy_ns: 0 }
    }

    /// Lets a die wait, after those that go first if it does not.
    pub(super) fn wait(&mut self, die: u16, goes_first: bool) {
        if goes_first { self.first.push_back(die) } else { self.second.push_back(die) }
    }

    /// Takes the die whose turn it is.
    pub(super) fn next(&mut self) -> Option<u16> {
        debug_assert!(self.current.is_none());
        self.current = self.first.pop_front().or_else(|| self.second.pop_front());
        self.current
    }
}
