//! The slots of a shard and the queues they are in: lists by slot number, oldest first.
//!
//! A slot stands for an entry that is in the index, where it is found by the slot's tag. So a
//! queue can be notified of an entry's bytes only by who has it at hand.

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// Which queue a slot is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Free,
    Small,
    Main,
}

/// An entry's place in a queue.
pub(super) struct Slot {
    pub tag: u32,
    newer: u32,
    /// For a free slot, the next free one.
    pub older: u32,
    pub place: Place,
}

impl Slot {
    /// One that is in no queue.
    pub fn new(tag: u32) -> Slot {
        Slot { tag, newer: NONE, older: NONE, place: Place::Free }
    }
}

/// A list through the slots.
pub(super) struct Queue {
    newest: u32,
    pub oldest: u32,
    /// The memory of its entries.
    pub bytes: usize,
    pub len: usize,
}

impl Queue {
    pub fn new() -> Queue {
        Queue { newest: NONE, oldest: NONE, bytes: 0, len: 0 }
    }

    /// Puts slot `number`, whose entry takes `bytes`, at the newer end.
    pub fn push(&mut self, slots: &mut [Slot], number: u32, bytes: usize) {
        let newest = std::mem::replace(&mut self.newest, number);
        match newest {
            NONE => self.oldest = number,
            newest => slots[newest as usize].newer = number,
        }
        let slot = &mut slots[number as usize];
        (slot.older, slot.newer) = (newest, NONE);
        self.bytes += bytes;
        self.len += 1;
    }

    /// Takes slot `number`, which is in this queue and whose entry takes `bytes`, out of it.
    pub fn unlink(&mut self, slots: &mut [Slot], number: u32, bytes: usize) {
        let slot = &slots[number as usize];
        let (older, newer) = (slot.older, slot.newer);
        self.bytes -= bytes;
        self.len -= 1;
        match older {
            NONE => self.oldest = newer,
            older => slots[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => slots[newer as usize].older = older,
        }
    }

    /// The slot after `number` towards the newer end.
    pub fn next(slots: &[Slot], number: u32) -> u32 {
        slots[number as usize].newer
    }
}
