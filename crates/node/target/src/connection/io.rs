//! Commands in general, and those of I/O queues: from the capsule to a request.

use super::capsule::CommandCapsule;
use super::commands::{CommandKind, Reading};
use super::{Connection, Phase};
use crate::{Description, Namespace, Request};
use esker_nvme::command::CommandSet;
use esker_nvme::command::fabrics;
use esker_nvme::command::kv::KvCommand;
use esker_nvme::command::nvm::{Blocks, NvmCommand, RANGE_BYTES};
use esker_nvme::limits::TRANSFER_BYTES;
use esker_nvme::pdu::FatalError;
use esker_nvme::{Sqe, Status};
use std::sync::Arc;

/// Until it is connected, a connection may have one command: Connect.
const ENTRIES_UNCONNECTED: usize = 1;

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
}

pub(super) fn value_bytes_max(description: Description) -> u32 {
    match description {
        Description::Keys { value_bytes_max, .. } => value_bytes_max,
        Description::Blocks { .. } => 0,
    }
}

pub(super) fn range(description: Description, blocks: Blocks) -> Result<(u64, u64), Status> {
    let Description::Blocks { bytes, block_bytes_log2 } = description else {
        return Err(Status::INVALID_NAMESPACE);
    };
    blocks.bytes(1 << block_bytes_log2, bytes).ok_or(Status::LBA_OUT_OF_RANGE)
}
