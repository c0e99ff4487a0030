//! A channel. It transfers one piece at a time; requests wait in a queue, by number. A requester is
//! a die that transfers write data in or read data out. If planes read independently, it can also
//! be a plane with read data to transfer (`Sim::on_bus`).

use std::collections::VecDeque;

/// A channel. A number waits for it at most once, so a die's planes may all wait.
#[derive(Debug)]
pub(super) struct Bus {
    /// What it moves a piece for.
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

    /// Lets a die or a plane wait, after those that go first if it does not.
    pub(super) fn wait(&mut self, number: u16, goes_first: bool) {
        if goes_first { self.first.push_back(number) } else { self.second.push_back(number) }
    }

    /// Takes the one whose turn it is.
    pub(super) fn next(&mut self) -> Option<u16> {
        debug_assert!(self.current.is_none());
        self.current = self.first.pop_front().or_else(|| self.second.pop_front());
        self.current
    }
}
