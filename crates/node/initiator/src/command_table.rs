//! Commands of a queue in progress: what was asked, and what came. No I/O.

use crate::RemoteError;
use crate::sync_connection::unexpected;
use esker_nvme::Cqe;
use esker_nvme::pdu::{ControllerPdu, ReadyToTransfer};

/// A command in progress. Its id is its place.
pub(crate) struct Slot {
    /// What came of its data.
    data: Vec<u8>,
    /// The most that may come.
    reads: usize,
    intact: bool,
    /// An R2T that its owner is to answer.
    ready: Option<ReadyToTransfer>,
    done: Option<Cqe>,
    /// Whether its owner sleeps until something comes.
    pub(crate) waits: bool,
}

/// What a command's owner is to do next.
pub(crate) enum NextStep {
    /// Its data is wanted.
    Transfer(ReadyToTransfer),
    /// It is done; the slot is free. The data is good unless damaged on the way.
    Done { cqe: Cqe, data: Vec<u8>, intact: bool },
    /// Nothing came yet.
    Wait,
}

pub(crate) struct CommandTable {
    slots: Vec<Option<Slot>>,
    free: Vec<u16>,
}

impl CommandTable {
    pub(crate) fn new(depth: u16) -> Self {
        CommandTable { slots: (0..depth).map(|_| None).collect(), free: (0..depth).rev().collect() }
    }

    /// Takes a place for a command that reads up to `reads` bytes, if one is free.
    pub(crate) fn take(&mut self, reads: usize) -> Option<u16> {
        let place = self.free.pop()?;
        let slot =
            Slot { data: Vec::new(), reads, intact: true, ready: None, done: None, waits: false };
        self.slots[usize::from(place)] = Some(slot);
        Some(place)
    }

    /// Gives back the place of a command that was not sent.
    pub(crate) fn give_back(&mut self, place: u16) {
        self.slots[usize::from(place)] = None;
        self.free.push(place);
    }

    pub(crate) fn get(&mut self, place: u16) -> Result<&mut Slot, RemoteError> {
        let slot = self.slots.get_mut(usize::from(place)).and_then(Option::as_mut);
        slot.ok_or_else(|| unexpected("a PDU for a command that was not sent"))
    }

    /// What the owner of `place` is to do.
    pub(crate) fn next(&mut self, place: u16) -> Result<NextStep, RemoteError> {
        let slot = self.get(place)?;
        if let Some(ready) = slot.ready.take() {
            return Ok(NextStep::Transfer(ready));
        }
        let Some(cqe) = slot.done else { return Ok(NextStep::Wait) };
        let slot = self.slots[usize::from(place)].take();
        self.free.push(place);
        let (data, intact) = slot.map_or((Vec::new(), true), |slot| (slot.data, slot.intact));
        Ok(NextStep::Done { cqe, data, intact })
    }

    /// A place whose owner sleeps and has nothing to do yet.
    pub(crate) fn sleeper(&self) -> Option<u16> {
        let has_nothing = |slot: &Slot| slot.done.is_none() && slot.ready.is_none();
        let waits =
            |slot: &Option<Slot>| slot.as_ref().is_some_and(|slot| slot.waits && has_nothing(slot));
        self.slots.iter().position(waits).map(|place| place as u16)
    }

    /// A PDU came. Says whose owner has something to do.
    pub(crate) fn received(&mut self, pdu: ControllerPdu<'_>) -> Result<Option<u16>, RemoteError> {
        match pdu {
            ControllerPdu::Data { header, payload, success, .. } => {
                let slot = self.get(header.command_id)?;
                let end = slot.data.len() + payload.bytes.len();
                if header.offset as usize != slot.data.len() || end > slot.reads {
                    return Err(unexpected("data that was not asked for"));
                }
                slot.data.extend_from_slice(payload.bytes);
                slot.intact &= payload.is_intact();
                if success {
                    let cqe = Cqe::new(header.command_id, esker_nvme::Status::SUCCESS);
                    return self.done(cqe);
                }
                Ok(None)
            }
            ControllerPdu::Response(cqe) => self.done(cqe),
            ControllerPdu::ReadyToTransfer(ready) => {
                let slot = self.get(ready.command_id)?;
                if slot.ready.replace(ready).is_some() {
                    return Err(unexpected("more R2Ts than this host takes"));
                }
                Ok(Some(ready.command_id))
            }
            ControllerPdu::Terminate(by) => Err(RemoteError::terminated(by)),
            ControllerPdu::Initialize(_) => Err(unexpected("a second ICResp")),
        }
    }

    fn done(&mut self, cqe: Cqe) -> Result<Option<u16>, RemoteError> {
        let slot = self.get(cqe.command_id())?;
        if slot.done.replace(cqe).is_some() {
            return Err(unexpected("two completions of one command"));
        }
        Ok(Some(cqe.command_id()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_nvme::Status;

    #[test]
    fn who_is_called_to_read_has_nothing_else_to_do() {
        let mut slots = CommandTable::new(3);
        let places: Vec<u16> = std::iter::from_fn(|| slots.take(0)).collect();
        assert_eq!(slots.sleeper(), None, "nobody sleeps");
        for &place in &places[..2] {
            slots.get(place).unwrap().waits = true;
        }
        let answer = |place| ControllerPdu::Response(Cqe::new(place, Status::SUCCESS));
        assert_eq!(slots.received(answer(places[0])).unwrap(), Some(places[0]));
        assert_eq!(slots.sleeper(), Some(places[1]));
        slots.received(answer(places[1])).unwrap();
        assert_eq!(slots.sleeper(), None);
    }
}
