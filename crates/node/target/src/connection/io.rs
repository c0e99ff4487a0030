//! Commands in general, and those of I/O queues: from the capsule to the namespace and back.

use super::commands::{Command, CommandKind, Reading, State};
use super::{Connection, Phase, recv_buffer};
use crate::{Answer, Description, Namespace, Reply, Request};
use esker_nvme::command::fabrics;
use esker_nvme::command::kv::KvCommand;
use esker_nvme::command::nvm::{self, Blocks, NvmCommand, RANGE_BYTES};
use esker_nvme::command::{CommandSet, Sgl};
use esker_nvme::limits::TRANSFER_BYTES;
use esker_nvme::pdu::{DataHeader, FatalError, Payload, ReadyToTransfer};
use esker_nvme::{Cqe, Sqe, Status};
use esker_uring::{Buffer, Slice};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Until it is connected, a connection may have one command: Connect.
const ENTRIES_UNCONNECTED: usize = 1;

/// The data in a command's capsule.
pub(super) struct CommandCapsule<'a> {
    pub(super) data: CapsuleData<'a>,
    pub(super) intact: bool,
}

/// See [`CommandCapsule`].
pub(super) enum CapsuleData<'a> {
    /// To be copied.
    Shown(&'a [u8]),
    /// With the buffer that it was received into.
    Given(Slice),
}

impl CapsuleData<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            CapsuleData::Shown(bytes) => bytes,
            CapsuleData::Given(slice) => slice,
        }
    }
}

impl Connection {
    /// Whether there is a place for one more command.
    pub(super) fn may_begin(&self) -> bool {
        let entries = self.queue.as_ref().map_or(ENTRIES_UNCONNECTED, |q| usize::from(q.entries));
        self.commands.under_way() < entries
    }

    /// A command came.
    pub(super) fn begin(
        &mut self,
        sqe: &Sqe,
        capsule: CommandCapsule<'_>,
    ) -> Result<(), FatalError> {
        if self.phase == Phase::Draining {
            // Not answered, so the host knows that it was not done, or does not know: as if it had come too late.
            self.host_lives();
            return Ok(());
        }
        if !self.may_begin() {
            return Err(FatalError::sequence("more commands than the queue has entries"));
        }
        if let Some(queue) = &mut self.queue {
            queue.advance();
        }
        let id = sqe.command_id();
        if self.commands.has(id) {
            self.forget_event_request(id);
        }
        let begun = if self.commands.has(id) {
            Err(Status::COMMAND_ID_CONFLICT)
        } else if sqe.is_fused() {
            Err(Status::INVALID_FIELD)
        } else {
            self.dispatch(sqe, capsule)
        };
        if let Err(status) = begun {
            self.fail(id, status);
        }
        Ok(())
    }

    fn dispatch(&mut self, sqe: &Sqe, capsule: CommandCapsule<'_>) -> Result<(), Status> {
        if sqe.opcode() == fabrics::OPCODE {
            return self.fabrics(sqe, capsule);
        }
        let Some(queue) = &self.queue else { return Err(Status::SEQUENCE_ERROR) };
        if queue.auth.is_some() {
            return Err(Status::AUTH_REQUIRED);
        }
        let is_admin = queue.is_admin();
        if !queue.controller.is_ready() {
            return Err(Status::SEQUENCE_ERROR);
        }
        if is_admin { self.admin(sqe) } else { self.io(sqe, capsule) }
    }

    fn io(&mut self, sqe: &Sqe, capsule: CommandCapsule<'_>) -> Result<(), Status> {
        let namespace = self.namespace(sqe.namespace())?;
        if !namespace.is_ready() {
            return Err(Status::NAMESPACE_NOT_READY);
        }
        let description = namespace.description();
        match description.command_set() {
            CommandSet::KeyValue => self.key_value(sqe, description, capsule),
            CommandSet::Nvm => self.nvm(sqe, description, capsule),
        }
    }

    pub(super) fn namespace(&self, id: u32) -> Result<&Arc<dyn Namespace>, Status> {
        let index = self.queue.as_ref().and_then(|queue| queue.controller.subsystem);
        let subsystem = index.and_then(|index| self.shared.settings.subsystems.get(index));
        let namespace = subsystem.and_then(|subsystem| subsystem.namespace(id));
        namespace.ok_or(Status::INVALID_NAMESPACE)
    }

    fn key_value(
        &mut self,
        sqe: &Sqe,
        description: Description,
        capsule: CommandCapsule<'_>,
    ) -> Result<(), Status> {
        let (id, namespace) = (sqe.command_id(), sqe.namespace());
        let read = |bytes: u32, says_length| -> Result<Reading, Status> {
            Ok(Reading {
                bytes_max: bytes.min(sqe.sgl()?.bytes()).min(TRANSFER_BYTES),
                says_length,
            })
        };
        let request = match KvCommand::parse(sqe)? {
            KvCommand::Store { key, bytes, condition } => {
                if bytes > value_bytes_max(description) {
                    return Err(Status::INVALID_VALUE_SIZE);
                }
                let sgl = sqe.sgl()?;
                if sgl.bytes() < bytes {
                    return Err(Status::DATA_SGL_LENGTH_INVALID);
                }
                let purpose = CommandKind::Store { namespace, key, bytes, condition };
                return self.take_data(id, sgl, capsule, purpose);
            }
            KvCommand::Retrieve { key, bytes } => {
                let reading = read(bytes, true)?;
                return self.submit_read(id, namespace, Request::Retrieve { key }, reading);
            }
            KvCommand::List { from, bytes } => {
                let reading = read(bytes, false)?;
                let request = Request::List { from, bytes: reading.bytes_max as usize };
                return self.submit_read(id, namespace, request, reading);
            }
            KvCommand::Delete { key } => Request::Delete { key },
            KvCommand::Exist { key } => Request::Exist { key },
            KvCommand::Flush => Request::Flush,
        };
        self.submit_new(id, namespace, request);
        Ok(())
    }

    fn nvm(
        &mut self,
        sqe: &Sqe,
        description: Description,
        capsule: CommandCapsule<'_>,
    ) -> Result<(), Status> {
        let (id, namespace) = (sqe.command_id(), sqe.namespace());
        let transfer = |blocks: Blocks| -> Result<(u64, u32), Status> {
            let (offset, bytes) = range(description, blocks)?;
            let bytes = u32::try_from(bytes).ok().filter(|&bytes| bytes <= TRANSFER_BYTES);
            let bytes = bytes.ok_or(Status::INVALID_FIELD)?;
            let stated = sqe.sgl()?.bytes();
            (stated == bytes).then_some((offset, bytes)).ok_or(Status::DATA_SGL_LENGTH_INVALID)
        };
        let request = match NvmCommand::parse(sqe)? {
            NvmCommand::Write { blocks, force_unit_access } => {
                let (offset, _) = transfer(blocks)?;
                let purpose = CommandKind::Write { namespace, offset, force_unit_access };
                return self.take_data(id, sqe.sgl()?, capsule, purpose);
            }
            NvmCommand::Read { blocks } => {
                let (offset, bytes) = transfer(blocks)?;
                let request = Request::Read { offset, bytes: bytes as usize };
                let reading = Reading { bytes_max: bytes, says_length: false };
                return self.submit_read(id, namespace, request, reading);
            }
            NvmCommand::WriteZeroes { blocks, force_unit_access } => {
                let (offset, bytes) = range(description, blocks)?;
                Request::WriteZeroes { offset, bytes, force_unit_access }
            }
            NvmCommand::DatasetManagement { ranges, deallocate } => {
                let sgl = sqe.sgl()?;
                // Linux names a page, however few ranges there are.
                if (sgl.bytes() as usize) < usize::from(ranges) * RANGE_BYTES {
                    return Err(Status::DATA_SGL_LENGTH_INVALID);
                }
                let purpose = CommandKind::DatasetManagement { namespace, ranges, deallocate };
                return self.take_data(id, sgl, capsule, purpose);
            }
            NvmCommand::Flush => Request::Flush,
        };
        self.submit_new(id, namespace, request);
        Ok(())
    }

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

    fn ask_for_data(&mut self, slot: u16) {
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

    /// Submits a request that is answered without data. Says where it waits for the answer.
    fn submit_new(&mut self, id: u16, namespace: u32, request: Request) -> u16 {
        let slot = self.commands.add(id, State::Submitted { answer: None });
        self.submit(slot, namespace, request);
        slot
    }

    /// Submits a request whose answer takes memory.
    fn submit_read(
        &mut self,
        id: u16,
        namespace: u32,
        request: Request,
        answer: Reading,
    ) -> Result<(), Status> {
        let slot = self.commands.add(id, State::AwaitsSubmission { namespace, request, answer });
        if self.commands.reserve(slot, answer.bytes_max as usize) {
            self.submit_waiting(slot);
        }
        Ok(())
    }

    pub(super) fn submit_waiting(&mut self, slot: u16) {
        let Some(command) = self.commands.get(slot) else { return };
        let submitted = State::Submitted { answer: None };
        match std::mem::replace(&mut command.state, submitted) {
            State::AwaitsSubmission { namespace, request, answer } => {
                command.state = State::Submitted { answer: Some(answer) };
                self.submit(slot, namespace, request);
            }
            State::AwaitsComparison { namespace, key, store, .. } => {
                command.state = State::Compares { namespace, store };
                self.submit(slot, namespace, Request::Retrieve { key });
            }
            other => command.state = other,
        }
    }

    pub(super) fn submit(&mut self, slot: u16, namespace: u32, request: Request) {
        let namespace = match self.namespace(namespace) {
            Ok(namespace) => namespace,
            Err(status) => return self.answers.push_back((slot, Answer::Failed(status))),
        };
        if let Some(resident) = self.shared.resident(namespace) {
            return self.requests.push((resident, request, self.reply(slot)));
        }
        match namespace.answer_at_once(request) {
            Ok(answer) => self.answers.push_back((slot, answer)),
            Err(request) => namespace.submit(request, self.reply(slot)),
        }
    }

    /// Lets commands go on that waited for memory, and completes those that were answered at once.
    pub(super) fn go_on(&mut self) {
        self.submit_ready();
        self.take_answers();
    }

    /// Completes the commands that are answered, and all that this lets go on.
    pub(super) fn take_answers(&mut self) {
        while let Some((slot, answer)) = self.answers.pop_front() {
            if self.phase == Phase::Ending || self.phase == Phase::Over {
                self.commands.free(slot);
                continue;
            }
            self.finish(slot, answer);
            self.submit_ready();
        }
    }

    fn submit_ready(&mut self) {
        while matches!(self.phase, Phase::Open | Phase::Draining) {
            let Some(slot) = self.commands.next_ready() else { break };
            self.has_memory(slot);
        }
    }

    fn has_memory(&mut self, slot: u16) {
        match self.commands.get(slot).map(|command| &command.state) {
            Some(State::AwaitsTransfer { .. }) => self.ask_for_data(slot),
            _ => self.submit_waiting(slot),
        }
    }

    /// It is this connection's turn to take of the reactor's memory for transfers. Says whether it
    /// has had it: otherwise there is no room for its command yet.
    pub(crate) fn take_transfer_turn(&mut self) -> bool {
        if !matches!(self.phase, Phase::Open | Phase::Draining) {
            return true;
        }
        match self.commands.take_turn() {
            Ok(Some(slot)) => {
                self.has_memory(slot);
                self.go_on();
                true
            }
            Ok(None) => {
                self.go_on();
                true
            }
            Err(()) => false,
        }
    }

    /// Ends a command that nothing was done of yet, and says whether that is done. One whose data was asked for ends, undone, when
    /// that is here: the host may be sending it, and nothing tells it to stop. What a namespace has begun, it finishes.
    pub(crate) fn abort(&mut self, command_id: u16) -> bool {
        let Some(slot) = self.commands.slot_of(command_id).filter(|_| self.takes_frames()) else {
            return false;
        };
        if self.commands.withdraw(slot) || self.withdraw_from_namespace(slot) {
            self.fail(command_id, Status::ABORT_REQUESTED);
            // It may have been what others waited for.
            self.go_on();
            return true;
        }
        if let Some(Command { state: State::Transfers { is_aborted, .. }, .. }) =
            self.commands.get(slot)
        {
            *is_aborted = true;
        }
        false
    }

    /// Gives up the command in `slot` if its namespace does so. Says whether it did.
    fn withdraw_from_namespace(&mut self, slot: u16) -> bool {
        let state = self.commands.get(slot).map(|command| &command.state);
        if !matches!(state, Some(State::Submitted { .. } | State::Compares { .. })) {
            return false;
        }
        let index = self.queue.as_ref().and_then(|queue| queue.controller.subsystem);
        let subsystem = index.and_then(|index| self.shared.settings.subsystems.get(index));
        let is_it = |reply: &Reply| reply.is_of(self.id, slot);
        // Which namespace has it, is not kept: seldom does anybody ask.
        let reply = subsystem.and_then(|subsystem| {
            subsystem.namespaces.iter().find_map(|namespace| namespace.withdraw(&is_it))
        });
        let Some(reply) = reply else { return false };
        reply.forget();
        if let Some(Command { reserved, .. }) = self.commands.free(slot) {
            self.commands.release(reserved);
        }
        true
    }

    /// Completes the command in `slot` with its namespace's answer.
    pub(super) fn finish(&mut self, slot: u16, answer: Answer) {
        let Some(command) = self.commands.free(slot) else { return };
        let Command { id, reserved, received, state } = command;
        let reading = match state {
            State::Submitted { answer } => answer,
            State::Compares { namespace, store } => {
                return self.compared((id, reserved, received), namespace, store, answer);
            }
            _ => return,
        };
        match (answer, reading) {
            (Answer::Data(data), Some(reading)) => {
                let length = data.len() as u32;
                self.send_data(id, data, reading.bytes_max, reserved);
                let word = if reading.says_length { length } else { 0 };
                self.complete(Cqe::new(id, Status::SUCCESS).with_word(word));
            }
            (answer, _) => {
                self.commands.release(reserved);
                let status = match answer {
                    Answer::Done => Status::SUCCESS,
                    Answer::Failed(status) => status,
                    Answer::Data(_) => Status::INTERNAL_ERROR,
                };
                self.complete(Cqe::new(id, status));
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

pub(super) fn value_bytes_max(description: Description) -> u32 {
    match description {
        Description::Keys { value_bytes_max, .. } => value_bytes_max,
        Description::Blocks { .. } => 0,
    }
}

fn range(description: Description, blocks: Blocks) -> Result<(u64, u64), Status> {
    let Description::Blocks { bytes, block_bytes_log2 } = description else {
        return Err(Status::INVALID_NAMESPACE);
    };
    blocks.bytes(1 << block_bytes_log2, bytes).ok_or(Status::LBA_OUT_OF_RANGE)
}
