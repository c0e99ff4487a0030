//! Memory for data in flight: what the connections of one reactor may hold together.
//!
//! | account | what it has |
//! |---|---|
//! | received | data in capsules until their commands are done; admin answers until they are sent |
//! | transfers | what commands reserve: data to ask for by R2T, answers, values to compare |
//! | buffers | receive buffers beyond those that every open connection has |
//!
//! A holder of one account may wait only for accounts further down the table. A buffer waits for its
//! peer alone, which has a deadline. So every wait ends.
//!
//! Connections that an account has no space for wait in line. The reactor calls the first one when
//! there is space again.

use crate::reactor_message::ConnectionId;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Shares of the whole, in eighths. Transfers have the rest.
const RECEIVED_EIGHTHS: usize = 2;
const BUFFERS_EIGHTHS: usize = 2;

/// The least that an account has: the largest command fits.
const ACCOUNT_BYTES_MIN: usize = 4 << 20;

/// What one connection may hold of the received even while others wait for space: so small commands
/// go on.
pub(crate) const CONNECTION_FLOOR_BYTES: usize = 16 << 10;

/// See the file's head.
pub(crate) struct Memory {
    pub(crate) received: Account,
    pub(crate) transfers: Account,
    pub(crate) buffers: Account,
}

impl Memory {
    /// The memory of each of so many reactors, of `bytes` in all.
    pub(crate) fn of_each(bytes: usize, reactors: usize) -> Self {
        let eighth = bytes / reactors / 8;
        Memory {
            received: Account::new(RECEIVED_EIGHTHS * eighth),
            transfers: Account::new((8 - RECEIVED_EIGHTHS - BUFFERS_EIGHTHS) * eighth),
            buffers: Account::new(BUFFERS_EIGHTHS * eighth),
        }
    }

    fn accounts(&self) -> [&Account; 3] {
        [&self.received, &self.transfers, &self.buffers]
    }

    /// What is held now.
    pub(crate) fn used_bytes(&self) -> usize {
        self.accounts().map(|account| account.used.get()).iter().sum()
    }

    /// Whether a connection waits.
    pub(crate) fn is_short(&self) -> bool {
        self.accounts().iter().any(|account| account.has_waiting())
    }
}

/// A limit, what is used of it, and who waits.
pub(crate) struct Account {
    limit: usize,
    used: Cell<usize>,
    waiting: RefCell<VecDeque<ConnectionId>>,
}

impl Account {
    fn new(limit: usize) -> Self {
        let (used, waiting) = Default::default();
        Account { limit: limit.max(ACCOUNT_BYTES_MIN), used, waiting }
    }

    /// Whether there is space for so much. One alone always fits.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let used = self.used.get();
        used == 0 || used + bytes <= self.limit
    }

    /// The same for who is not in line.
    pub(crate) fn has_room_beside_waiting(&self, bytes: usize) -> bool {
        !self.has_waiting() && self.has_room(bytes)
    }

    /// Whether more than half is used.
    pub(crate) fn is_half_used(&self) -> bool {
        self.used.get() > self.limit / 2
    }

    pub(crate) fn take(&self, bytes: usize) {
        self.used.set(self.used.get() + bytes);
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.used.set(self.used.get() - bytes);
    }

    /// Sets what an owner holds: `held` is what it was.
    pub(crate) fn hold(&self, held: &mut usize, bytes: usize) {
        self.give_back(std::mem::replace(held, bytes));
        self.take(bytes);
    }

    fn has_waiting(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Puts a connection, which is there no more than once, at the end of the line.
    pub(crate) fn wait(&self, connection: ConnectionId) {
        self.waiting.borrow_mut().push_back(connection);
    }

    /// Whose turn it is.
    pub(crate) fn first(&self) -> Option<ConnectionId> {
        self.waiting.borrow().front().copied()
    }

    /// The first has had its turn.
    pub(crate) fn next(&self) {
        self.waiting.borrow_mut().pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_later_does_not_overtake_who_waits() {
        let account = Account::new(10 << 20);
        account.take(9 << 20);
        assert!(!account.has_room(2 << 20) && account.has_room(1 << 20));
        account.wait(7);
        assert!(!account.has_room_beside_waiting(1 << 20) && account.has_room(1 << 20));
        assert_eq!(account.first(), Some(7));
        account.next();
        assert!(account.has_room_beside_waiting(1 << 20) && account.first().is_none());
        account.give_back(9 << 20);
        assert!(account.has_room(11 << 20), "one alone always fits");
    }

    #[test]
    fn reactors_share_what_there_is() {
        let memory = Memory::of_each(256 << 20, 2);
        assert_eq!(memory.accounts().map(|account| account.limit >> 20), [32, 64, 32]);
        let memory = Memory::of_each(0, 2);
        assert_eq!(memory.received.limit, ACCOUNT_BYTES_MIN);
    }
}
