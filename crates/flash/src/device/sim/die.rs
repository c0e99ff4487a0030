//! A die. It executes one operation at a time. The exception is reads on independent planes
//! (`planes`): for these the die only counts the planes in use.
//!
//! ```text
//!   read:   sense (array) -> wait for the channel -> data out -> idle
//!   write:  wait for the channel -> data in, piece by piece -> program (array) -> idle
//!   reset:  erase (array) -> idle
//!   a program or an erase, when a read comes:  stopping -> idle, one suspended -> … -> going on
//! ```

use super::request::Queue;

/// What a die is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Idle,
    /// From cells to the register.
    Sensing,
    /// Waits for the channel, or is on it; the register holds data.
    OnBus,
    /// The array is busy with a program or an erase.
    Changing,
    /// A program or an erase is being stopped.
    Stopping,
}

/// A die. The request it is busy with is `current`; `suspended` waits until reads are done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Die {
    pub(super) state: State,
    pub(super) current: u32,
    pub(super) suspended: Option<u32>,
    /// The array event that counts: others are of something that was stopped.
    pub(super) timer: u64,
    /// When the array is done with what it is changing.
    pub(super) end: u64,
    /// What is left of the suspended request.
    pub(super) left_ns: u64,
    /// How often the current or suspended change was stopped.
    pub(super) suspends: u16,
    /// Reads, where they go first.
    pub(super) reads: Queue,
    /// Everything else, or everything.
    pub(super) others: Queue,
    /// How long the array and the channel were busy with writes and resets here.
    pub(super) write_ns: u64,
    /// The planes that read, a bit each, where planes read independently: then the state is of what changes the die.
    pub(super) reading: u16,
    /// When the current read, or the first of several, began, and how long reads kept the die busy.
    pub(super) read_since: u64,
    pub(super) read_ns: u64,
}

impl Die {
    pub(super) const NEW: Die = Die {
        state: State::Idle,
        current: 0,
        suspended: None,
        timer: 0,
        end: 0,
        left_ns: 0,
        suspends: 0,
        reads: Queue::EMPTY,
        others: Queue::EMPTY,
        write_ns: 0,
        reading: 0,
        read_since: 0,
        read_ns: 0,
    };
}
