//! The data of commands: from capsules and R2Ts into the memory of the namespace, and to the host.

use super::capsule::{CapsuleData, CommandCapsule};
use super::commands::{CommandKind, State};
use super::io::range;
use super::{Connection, recv_buffer};
use crate::Request;
use esker_nvme::command::Sgl;
use esker_nvme::command::nvm;
use esker_nvme::limits::TRANSFER_BYTES;
use esker_nvme::pdu::{DataHeader, FatalError, Payload, ReadyToTransfer};
use esker_nvme::{Cqe, Status};
use esker_uring::{Buffer, Slice};
use std::collections::VecDeque;
use std::ops::Range;

impl Connection {
    /// Gets a command's data: from its capsule, or by an R2T.
    pub(super) fn take_data(
        &mut self,
        id: u16,
        sgl: Sgl,
        capsule: CommandCapsule<'_>,
        purpose: CommandKind,
    ) -> Result<(), Status> {
        match sgl.in_capsule(capsule.data.bytes())? {
            Some(_) if !capsule.intact => Err(Status::TRANSPORT_ERROR),
            Some(data) => {
                let start = data.as_ptr().addr() - capsule.data.bytes().as_ptr().addr();
                let range = start..start + data.len();
                let data = self.in_place(&purpose, capsule.data, range);
                let bytes = data.buffer_bytes();
                if let Some(slot) = self.with_data(id, purpose, data, 0)? {
                    self.commands.count_received(slot, bytes);
                }
                Ok(())
            }
            None if sgl.bytes() == 0 => {
                let room = self.room(&purpose, 0);
                self.with_data(id, purpose, room, 0).map(drop)
            }
            None if sgl.bytes() > TRANSFER_BYTES => Err(Status::INVALID_FIELD),
            None => {
                let bytes = sgl.bytes();
                let memory = bytes as usize + self.compared_bytes(&purpose);
                let slot = self.commands.add(id, State::AwaitsTransfer { purpose, bytes, memory });
                if self.commands.reserve(slot, memory) {
                    self.ask_for_data(slot);
                }
                Ok(())
            }
        }
    }

    /// A part of a capsule's data where it is wanted: it is there already, or is copied.
    fn in_place(
        &mut self,
        purpose: &CommandKind,
        data: CapsuleData<'_>,
        range: Range<usize>,
    ) -> Slice {
        let place = match purpose {
            CommandKind::Store { namespace, key, .. } => {
                self.namespace(*namespace).map_or(0, |namespace| namespace.place(key))
            }
            _ => 0,
        };
        self.input.set_place(place);
        match data {
            CapsuleData::Given(slice)
                if recv_buffer::is_at(slice.range().start + range.start, place) =>
            {
                let start = slice.range().start;
                slice.into_buffer().slice(start + range.start..start + range.end)
            }
            data => {
                let mut room = self.room(purpose, range.len());
                room.copy_from_slice(&data.bytes()[range]);
                room
            }
        }
    }

    /// Where a command's data is received.
    fn room(&self, purpose: &CommandKind, bytes: usize) -> Slice {
        match purpose {
            CommandKind::Store { namespace, key, .. } => match self.namespace(*namespace) {
                Ok(namespace) => namespace.room(key, bytes),
                Err(_) => Buffer::stale(bytes).whole(),
            },
            _ => Buffer::stale(bytes).whole(),
        }
    }

    pub(super) fn ask_for_data(&mut self, slot: u16) {
        let Some(command) = self.commands.get(slot) else { return };
        let State::AwaitsTransfer { purpose, bytes, .. } = command.state else { return };
        let data = self.room(&purpose, bytes as usize);
        let number = self.commands.next_transfer();
        let Some(command) = self.commands.get(slot) else { return };
        let (received, intact, is_aborted) = (0, true, false);
        command.state = State::Transfers { purpose, data, received, intact, is_aborted, number };
        let ready =
            ReadyToTransfer { command_id: command.id, transfer_tag: slot, offset: 0, bytes };
        self.encoder.ready_to_transfer(&ready, self.output.text());
    }

    /// Data came that an R2T asked for.
    pub(super) fn host_data(
        &mut self,
        header: &DataHeader,
        payload: Payload<'_>,
        last: bool,
    ) -> Result<(), FatalError> {
        const COMMAND_ID: u32 = 8;
        const TRANSFER_TAG: u32 = 10;
        let slot = header.transfer_tag;
        let command = self.commands.get(slot);
        let command =
            command.ok_or(FatalError::field(TRANSFER_TAG, "data that no R2T asked for"))?;
        let State::Transfers { data, received, intact, .. } = &mut command.state else {
            return Err(FatalError::field(TRANSFER_TAG, "data that no R2T asked for"));
        };
        if command.id != header.command_id {
            return Err(FatalError::field(COMMAND_ID, "data for another command than its R2T"));
        }
        let end = u64::from(header.offset) + u64::from(header.bytes);
        if end > data.len() as u64 {
            return Err(FatalError::out_of_range("data beyond what the R2T asked for"));
        }
        if header.offset != *received {
            return Err(FatalError::sequence("data out of order"));
        }
        let is_whole = end == data.len() as u64;
        if last != is_whole {
            return Err(FatalError::sequence(
                "data whose last part is not marked so, or another is",
            ));
        }
        data[header.offset as usize..end as usize].copy_from_slice(payload.bytes);
        *received = end as u32;
        *intact &= payload.is_intact();
        self.commands.count_transferred(header.bytes as usize);
        if is_whole {
            self.data_is_whole(slot);
        }
        Ok(())
    }

    fn data_is_whole(&mut self, slot: u16) {
        let Some(command) = self.commands.free(slot) else { return };
        let State::Transfers { purpose, data, intact, is_aborted, .. } = command.state else {
            return;
        };
        let done = match (is_aborted, intact) {
            (true, _) => Err(Status::ABORT_REQUESTED),
            (false, true) => self.with_data(command.id, purpose, data, command.reserved),
            (false, false) => Err(Status::TRANSPORT_ERROR),
        };
        match done {
            // The data is there until the namespace is done with it.
            Ok(Some(slot)) => self.commands.hold(slot, command.reserved),
            Ok(None) => self.commands.release(command.reserved),
            Err(status) => {
                self.commands.release(command.reserved);
                self.fail(command.id, status);
            }
        }
        self.go_on();
    }

    /// Carries out a command whose data is there, for which `reserved` is. Says where it goes on, if it is not over.
    fn with_data(
        &mut self,
        id: u16,
        purpose: CommandKind,
        data: Slice,
        reserved: usize,
    ) -> Result<Option<u16>, Status> {
        match purpose {
            CommandKind::Connect(connect) => {
                if self.has_lost_changes(&data) {
                    return Ok(Some(
                        self.commands.add(id, State::AwaitsLostChanges { connect, data }),
                    ));
                }
                self.connect(id, &connect, &data);
                Ok(None)
            }
            CommandKind::Auth => self.auth_send(id, &data),
            CommandKind::Store { namespace, key, bytes, condition } => {
                let start = data.range().start;
                let value = data.into_buffer().slice(start..start + bytes as usize);
                let store = Request::Store { key, value, condition };
                let compared = self.compared_bytes(&purpose);
                if compared == 0 {
                    return Ok(Some(self.submit_new(id, namespace, store)));
                }
                let missing = (reserved == 0).then_some(compared);
                self.store_long(id, (namespace, key), store, missing).map(Some)
            }
            CommandKind::Write { namespace, offset, force_unit_access } => {
                let request = Request::Write { offset, data, force_unit_access };
                Ok(Some(self.submit_new(id, namespace, request)))
            }
            CommandKind::DatasetManagement { namespace, ranges, deallocate } => {
                let description = self.namespace(namespace)?.description();
                let all = nvm::ranges(&data).take(ranges.into());
                let all = all.map(|blocks| range(description, blocks));
                let all = all.collect::<Result<VecDeque<_>, _>>()?;
                let ranges: VecDeque<_> = all.into_iter().filter(|&(_, bytes)| bytes > 0).collect();
                if !deallocate || ranges.is_empty() {
                    // A hint, or nothing at all.
                    self.complete(Cqe::new(id, Status::SUCCESS));
                    return Ok(None);
                }
                Ok(Some(self.submit_new(id, namespace, Request::Deallocate { ranges })))
            }
        }
    }

    /// Sends up to `bytes_max` of `data` to the host.
    pub(super) fn send_data(&mut self, id: u16, data: Slice, bytes_max: u32, reserved: usize) {
        let bytes = data.len().min(bytes_max as usize);
        if bytes == 0 {
            return self.commands.release(reserved);
        }
        let header = DataHeader { command_id: id, transfer_tag: 0, offset: 0, bytes: bytes as u32 };
        // What the host did not ask for is not kept until it has taken the rest.
        let data =
            if bytes < data.len() { Buffer::from_slice(&data[..bytes]).whole() } else { data };
        self.encoder.controller_data(&header, true, self.output.text());
        let mut tail = Vec::new();
        self.encoder.data_tail(&data, &mut tail);
        self.output.data(data, reserved);
        self.output.text().extend_from_slice(&tail);
    }
}
