//! Commands in progress: one slot each, from its capsule to its completion.

use crate::Request;
use crate::limits::TRANSFER_BYTES_UNDER_WAY;
use crate::memory::Memory;
use crate::reactor_message::ConnectionId;
use esker_nvme::command::fabrics::Connect;
use esker_nvme::command::kv::{Condition, Key};
use esker_uring::Slice;
use std::collections::VecDeque;
use std::rc::Rc;

/// What a command's data is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum CommandKind {
    Connect(Connect),
    Auth,
    Store { namespace: u32, key: Key, bytes: u32, condition: Condition },
    Write { namespace: u32, offset: u64, force_unit_access: bool },
    DatasetManagement { namespace: u32, ranges: u16, deallocate: bool },
}

/// What a command waits for.
#[derive(Debug)]
pub(super) enum State {
    /// Memory for its data, and what else it will take, before an R2T is sent.
    AwaitsTransfer { purpose: CommandKind, bytes: u32, memory: usize },
    /// Data that an R2T asked for.
    Transfers {
        purpose: CommandKind,
        data: Slice,
        received: u32,
        intact: bool,
        is_aborted: bool,
        /// Its place among all transfers of the connection.
        number: u64,
    },
    /// Memory, before it is submitted.
    AwaitsSubmission { namespace: u32, request: Request, answer: Reading },
    /// Memory for the value that is there, before that is retrieved.
    AwaitsComparison { namespace: u32, key: Key, store: Request, memory: usize },
    /// The value that is there, to be compared before `store` is submitted.
    Compares { namespace: u32, store: Request },
    /// Its namespace.
    Submitted { answer: Option<Reading> },
    /// Changes of its host to be done that earlier connections left behind. `data` is the Connect's.
    AwaitsLostChanges { connect: Connect, data: Slice },
    /// What a proof takes, to be computed.
    Computes,
    /// Another queue's word whether a command of it was ended.
    Aborts,
    /// Something to report.
    Event,
}

/// How an answer with data is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// The most that the host takes.
    pub(super) bytes_max: u32,
    /// Whether DW0 is the whole length.
    pub(super) says_length: bool,
}

#[derive(Debug)]
pub(super) struct Command {
    pub(super) id: u16,
    /// Memory reserved for it.
    pub(super) reserved: usize,
    /// Memory of the data that came in its capsule.
    pub(super) received: usize,
    pub(super) state: State,
}

/// A command whose connection is gone and that its namespace has not answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Abandoned {
    pub(crate) slot: u16,
    pub(crate) reserved: usize,
    pub(crate) received: usize,
    /// Whether it may change something.
    pub(crate) is_change: bool,
}

/// Beyond what 16 bits can have.
const NO_ID: u32 = u32::MAX;

pub(super) struct Commands {
    connection: ConnectionId,
    memory: Rc<Memory>,
    /// Whether this connection waits in line for the reactor's memory.
    is_in_line: bool,
    /// Transfers begun so far, and bytes that came for all of them.
    transfers: u64,
    transferred: usize,
    slots: Vec<Option<Command>>,
    /// The ids of the commands in slots, close together: each new command is compared with all. Those of free slots are no ids.
    ids: Vec<u32>,
    free: Vec<u16>,
    reserved: usize,
    /// What commands hold that was not reserved.
    received: usize,
    /// Slots that wait for memory, in their order.
    waiting: VecDeque<u16>,
}

impl Commands {
    pub(super) fn new(connection: ConnectionId, memory: Rc<Memory>) -> Self {
        let (slots, ids, free, waiting) = Default::default();
        let (is_in_line, transfers, transferred, reserved, received) = (false, 0, 0, 0, 0);
        Commands {
            connection,
            memory,
            is_in_line,
            transfers,
            transferred,
            slots,
            ids,
            free,
            reserved,
            received,
            waiting,
        }
    }

    pub(super) fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether only event requests are in progress, which may wait without a limit.
    pub(super) fn is_idle(&self) -> bool {
        self.slots.iter().flatten().all(|command| matches!(command.state, State::Event))
    }

    pub(super) fn has(&self, id: u16) -> bool {
        self.ids.contains(&id.into())
    }

    /// Takes a slot. The caller has seen to it that there are not too many.
    pub(super) fn add(&mut self, id: u16, state: State) -> u16 {
        let command = Some(Command { id, reserved: 0, received: 0, state });
        match self.free.pop() {
            Some(slot) => {
                self.slots[usize::from(slot)] = command;
                self.ids[usize::from(slot)] = id.into();
                slot
            }
            None => {
                self.slots.push(command);
                self.ids.push(id.into());
                (self.slots.len() - 1) as u16
            }
        }
    }

    /// The id of the command in `slot`.
    pub(super) fn id_of(&self, slot: u16) -> Option<u16> {
        Some(self.slots.get(usize::from(slot))?.as_ref()?.id)
    }

    /// The slot of the command with this id.
    pub(super) fn slot_of(&self, id: u16) -> Option<u16> {
        let is_it = |command: &Option<Command>| command.as_ref().is_some_and(|it| it.id == id);
        self.slots.iter().position(is_it).map(|slot| slot as u16)
    }

    /// Drops the command in `slot` if it still waits for memory. Says whether it did.
    pub(super) fn withdraw(&mut self, slot: u16) -> bool {
        let Some(place) = self.waiting.iter().position(|&waiting| waiting == slot) else {
            return false;
        };
        self.waiting.remove(place);
        self.free(slot).is_some()
    }

    pub(super) fn get(&mut self, slot: u16) -> Option<&mut Command> {
        self.slots.get_mut(usize::from(slot))?.as_mut()
    }

    /// Gives a slot back, and what was reserved for it to the sender of its answer.
    pub(super) fn free(&mut self, slot: u16) -> Option<Command> {
        let command = self.slots.get_mut(usize::from(slot))?.take()?;
        self.ids[usize::from(slot)] = NO_ID;
        self.free.push(slot);
        self.received -= command.received;
        self.memory.received.give_back(command.received);
        Some(command)
    }

    /// Counts the data that came with the command in `slot`, until that is freed.
    pub(super) fn count_received(&mut self, slot: u16, bytes: usize) {
        let memory = self.memory.clone();
        if let Some(command) = self.get(slot) {
            command.received += bytes;
            memory.received.take(bytes);
            self.received += bytes;
        }
    }

    /// Memory of data that came with commands.
    pub(super) fn received_bytes(&self) -> usize {
        self.received
    }

    /// The number of one more transfer.
    pub(super) fn next_transfer(&mut self) -> u64 {
        self.transfers += 1;
        self.transfers
    }

    /// The number of the oldest transfer, and how much of it has come.
    pub(super) fn oldest_transfer(&self) -> Option<(u64, usize)> {
        if self.reserved == 0 {
            return None;
        }
        let transfers = self.slots.iter().flatten().filter_map(|command| match command.state {
            State::Transfers { number, received, .. } => Some((number, received as usize)),
            _ => None,
        });
        transfers.min()
    }

    /// Memory of the transfers that have not all come.
    pub(super) fn asked_for_bytes(&self) -> usize {
        let transfers = self.slots.iter().flatten().map(|command| match &command.state {
            State::Transfers { data, .. } => data.len(),
            _ => 0,
        });
        transfers.sum()
    }

    /// Counts data that came for a transfer.
    pub(super) fn count_transferred(&mut self, bytes: usize) {
        self.transferred += bytes;
    }

    /// All data that came for transfers.
    pub(super) fn transferred_bytes(&self) -> usize {
        self.transferred
    }

    /// Takes out what namespaces have not answered: the memory of that is still in use.
    pub(super) fn abandon(&mut self) -> Vec<Abandoned> {
        let mut abandoned = Vec::new();
        for (slot, command) in (0..).zip(&mut self.slots) {
            let Some(Command { reserved, received, state, .. }) = command else { continue };
            if let State::Submitted { .. } | State::Compares { .. } = state {
                let is_change = matches!(state, State::Submitted { answer: None });
                let (reserved, received) = (std::mem::take(reserved), std::mem::take(received));
                self.reserved -= reserved;
                self.received -= received;
                abandoned.push(Abandoned { slot, reserved, received, is_change });
            }
        }
        abandoned
    }

    /// The slots of commands that wait for something to happen, and how many.
    pub(super) fn events(&self) -> impl Iterator<Item = u16> + '_ {
        let slots = (0..).zip(&self.slots);
        let is_event = |command: &Command| matches!(command.state, State::Event);
        slots.filter(move |(_, slot)| slot.as_ref().is_some_and(is_event)).map(|(slot, _)| slot)
    }

    /// Reserves memory for the command in `slot`, or lets it wait: false.
    pub(super) fn reserve(&mut self, slot: u16, bytes: usize) -> bool {
        let is_first = self.waiting.is_empty() && self.fits(bytes);
        if is_first && self.memory.transfers.has_room_beside_waiting(bytes) {
            self.take_memory(slot, bytes);
            return true;
        }
        self.waiting.push_back(slot);
        if is_first {
            self.stand_in_line();
        }
        false
    }

    /// Whether the connection's own limit allows it. A single transfer always fits.
    fn fits(&self, bytes: usize) -> bool {
        self.reserved == 0 || self.reserved + bytes <= TRANSFER_BYTES_UNDER_WAY
    }

    fn stand_in_line(&mut self) {
        if !std::mem::replace(&mut self.is_in_line, true) {
            self.memory.transfers.wait(self.connection);
        }
    }

    fn take_memory(&mut self, slot: u16, bytes: usize) {
        self.reserved += bytes;
        self.memory.transfers.take(bytes);
        if let Some(command) = self.get(slot) {
            command.reserved = bytes;
        }
    }

    /// Has the command in `slot` hold what was reserved for it in another.
    pub(super) fn hold(&mut self, slot: u16, reserved: usize) {
        if let Some(command) = self.get(slot) {
            command.reserved = reserved;
        }
    }

    /// Memory is free again.
    pub(super) fn release(&mut self, bytes: usize) {
        self.reserved -= bytes;
        self.memory.transfers.give_back(bytes);
    }

    /// The next command that waited and now has its memory.
    pub(super) fn next_ready(&mut self) -> Option<u16> {
        let bytes = self.first_waits_for().filter(|&bytes| self.fits(bytes) && !self.is_in_line)?;
        if !self.memory.transfers.has_room_beside_waiting(bytes) {
            self.stand_in_line();
            return None;
        }
        self.take_first(bytes)
    }

    /// It is this connection's turn to take of the reactor's memory: its next command may go on.
    /// `Err` if there is still no space for that.
    pub(super) fn take_turn(&mut self) -> Result<Option<u16>, ()> {
        let Some(bytes) = self.first_waits_for().filter(|&bytes| self.fits(bytes)) else {
            self.is_in_line = false;
            return Ok(None);
        };
        if !self.memory.transfers.has_room(bytes) {
            return Err(());
        }
        self.is_in_line = false;
        Ok(self.take_first(bytes))
    }

    /// The memory that the first of the waiting commands waits for.
    fn first_waits_for(&mut self) -> Option<usize> {
        let slot = *self.waiting.front()?;
        Some(self.get(slot).map_or(0, |command| command.state.bytes()))
    }

    fn take_first(&mut self, bytes: usize) -> Option<u16> {
        let slot = self.waiting.pop_front()?;
        self.take_memory(slot, bytes);
        Some(slot)
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.memory.transfers.give_back(self.reserved);
        self.memory.received.give_back(self.received);
    }
}

impl State {
    /// The memory that it waits for.
    fn bytes(&self) -> usize {
        match self {
            State::AwaitsTransfer { memory, .. } | State::AwaitsComparison { memory, .. } => {
                *memory
            }
            State::AwaitsSubmission { answer, .. } => answer.bytes_max as usize,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u32 = 1 << 20;

    fn commands() -> Commands {
        Commands::new(7, Rc::new(Memory::of_each(256 << 20, 1)))
    }

    #[test]
    fn connections_take_turns_at_the_reactors_memory_and_give_all_back() {
        let memory = Rc::new(Memory::of_each(24 << 20, 1));
        let [mut one, mut other] = [1, 2].map(|id| Commands::new(id, memory.clone()));
        for id in 0..12 {
            let slot = one.add(id, reading(MIB));
            assert_eq!(one.reserve(slot, MIB as usize), id < 8, "its own limit");
        }
        for id in 0..6 {
            let slot = other.add(id, reading(MIB));
            assert_eq!(other.reserve(slot, MIB as usize), id < 4, "all connections'");
        }
        assert_eq!(memory.transfers.first(), Some(2));
        assert!(other.take_turn().is_err(), "there is no room yet");
        one.release(MIB as usize);
        assert_eq!(one.next_ready(), None, "it does not overtake who waits");
        memory.transfers.next();
        assert_eq!(other.take_turn(), Ok(Some(4)));
        assert_eq!(memory.transfers.first(), Some(1), "and stands in line itself");
        drop((one, other));
        assert_eq!(memory.used_bytes(), 0);
    }

    fn reading(bytes_max: u32) -> State {
        let answer = Reading { bytes_max, says_length: false };
        State::AwaitsSubmission { namespace: 1, request: Request::Flush, answer }
    }

    #[test]
    fn commands_beyond_the_memory_wait_in_their_order() {
        let mut commands = commands();
        let slots: Vec<u16> = (0..12).map(|id| commands.add(id, reading(MIB))).collect();
        let begun = slots.iter().filter(|&&slot| commands.reserve(slot, MIB as usize)).count();
        assert_eq!(begun, TRANSFER_BYTES_UNDER_WAY >> 20);
        assert_eq!(commands.next_ready(), None);
        commands.release(MIB as usize);
        assert_eq!(commands.next_ready(), Some(slots[8]));
        assert_eq!(commands.next_ready(), None);
    }

    #[test]
    fn a_small_command_does_not_overtake_a_large_one() {
        let mut commands = commands();
        let first = commands.add(1, reading(8 * MIB));
        let large = commands.add(2, reading(MIB));
        let small = commands.add(3, reading(1));
        assert!(commands.reserve(first, 8 << 20));
        assert!(!commands.reserve(large, 1 << 20) && !commands.reserve(small, 1));
        commands.release(8 << 20);
        assert_eq!((commands.next_ready(), commands.next_ready()), (Some(large), Some(small)));
    }

    #[test]
    fn a_command_that_is_withdrawn_makes_way_for_those_behind_it() {
        let mut commands = commands();
        let slots = [8, 8, 1].map(|mib| commands.add(mib, reading(u32::from(mib) * MIB)));
        assert!(commands.reserve(slots[0], 8 << 20));
        assert!(!commands.reserve(slots[1], 8 << 20) && !commands.reserve(slots[2], 1 << 20));
        assert!(!commands.withdraw(slots[0]), "it has begun");
        assert!(commands.withdraw(slots[1]) && !commands.withdraw(slots[1]));
        commands.release(7 << 20);
        assert_eq!(commands.next_ready(), Some(slots[2]));
    }

    #[test]
    fn slots_are_used_again_and_stale_ones_are_none() {
        let mut commands = commands();
        let slot = commands.add(7, State::Event);
        assert!(commands.has(7) && commands.is_idle());
        assert!(commands.free(slot).is_some() && commands.free(slot).is_none());
        assert_eq!(commands.under_way(), 0);
        assert_eq!(commands.add(8, State::Event), slot);
        assert!(commands.get(slot + 1).is_none());
    }
}
