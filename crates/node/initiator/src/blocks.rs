//! Blocks on a node.
//!
//! A long read or write is several commands in progress at a time, each with no more data than a capsule carries: so no
//! R2T, and no round trip, comes between; and 8 MiB have a deadline, not the whole. After a lost connection a read is sent again, and a write of which nothing
//! was sent whole. A write or flush that was sent and not answered fails as unknown: the command may still be on its way to the device, where it would go over what was
//! written after it. So does a flush after writes that another association acknowledged (`unflushed`).

use crate::association::{Association, Namespace};
use crate::queue_pair::QueuePair;
use crate::session::Session;
use crate::split_command::{SubCommand, run};
use crate::sync_connection::unexpected;
use crate::{RemoteError, Settings};
use esker_base::{Background, Clock, Entropy};
use esker_nvme::command::CommandSet;
use esker_nvme::command::nvm::{Blocks, NvmCommand};
use esker_nvme::{Cqe, Sqe};
use esker_storage::blocks::{BLOCK_BYTES, BlockDevice};
use std::sync::Arc;
use std::time::Duration;

/// What one command reads or writes, at most.
const PIECE_BYTES: usize = 64 << 10;

/// What one command makes zero, at most: little enough for a device that has to write them.
const ZEROES_BYTES: u64 = 1 << 20;

/// Commands of zeros that share a deadline.
const ZEROES_TOGETHER: usize = 16;

/// Reads and writes that share a deadline: 8 MiB.
const PIECES_TOGETHER: usize = (8 << 20) / PIECE_BYTES;

/// A namespace of blocks on a node. Shared between threads.
pub struct BlockClient {
    session: Session,
    bytes: u64,
    block_bytes_log2: u8,
}

impl BlockClient {
    /// Connects. A thread of `background` keeps the connection alive.
    pub fn connect(
        settings: Settings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        background: Arc<dyn Background>,
    ) -> Result<Self, RemoteError> {
        let set = CommandSet::Nvm;
        match Session::connect(settings, set, clock, entropy, background)? {
            (session, Namespace::Blocks(namespace, _)) => {
                let block_bytes_log2 = namespace.block_bytes_log2;
                let bytes = namespace.blocks << block_bytes_log2;
                Ok(BlockClient { session, bytes, block_bytes_log2 })
            }
            _ => Err(unexpected("keys where blocks were asked for")),
        }
    }

    /// The blocks of `bytes` bytes from `offset` on.
    fn blocks(&self, offset: u64, bytes: usize) -> Blocks {
        let log2 = self.block_bytes_log2;
        Blocks { first: offset >> log2, count: (bytes >> log2) as u32 }
    }

    fn encode(&self, command: NvmCommand) -> Sqe {
        command.encode(self.session.namespace())
    }

    fn try_read(
        &self,
        queue: &QueuePair,
        offset: u64,
        out: &mut [u8],
        deadline: Duration,
    ) -> Result<(), RemoteError> {
        let mut offset = offset;
        let pieces = out.chunks(PIECE_BYTES).map(|part| {
            let blocks = self.blocks(offset, part.len());
            offset += part.len() as u64;
            SubCommand {
                sqe: self.encode(NvmCommand::Read { blocks }),
                data: &[],
                reads: part.len(),
            }
        });
        let pieces: Vec<SubCommand<'_>> = pieces.collect();
        let mut parts = out.chunks_mut(PIECE_BYTES);
        run(queue, &pieces, deadline, |cqe, data| {
            succeeded("read blocks", cqe)?;
            let part = parts.next().filter(|part| part.len() == data.len());
            let part = part.ok_or_else(|| unexpected("fewer blocks than asked for"))?;
            part.copy_from_slice(&data);
            Ok(())
        })?;
        Ok(())
    }

    /// Sends what changes blocks, so many commands to a deadline.
    fn change_in_turn(
        &self,
        what: &'static str,
        pieces: &[SubCommand<'_>],
        together: usize,
    ) -> Result<(), RemoteError> {
        let is_single = pieces.len() == 1;
        for (number, pieces) in pieces.chunks(together).enumerate() {
            let changed = self.change(what, pieces);
            changed.map_err(|error| error.of_part(what, number == 0, is_single))?;
        }
        Ok(())
    }

    /// Sends what changes blocks, once it has a connection, and again only if none of it was sent whole.
    fn change(&self, what: &'static str, pieces: &[SubCommand<'_>]) -> Result<(), RemoteError> {
        let deadline = self.session.deadline();
        loop {
            let association = self.session.association(deadline)?;
            match self.send(what, pieces, &association, deadline) {
                Err(error) if error.is_of_connection() && self.session.is_before(deadline) => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    self.session.wrote(&association);
                    return Ok(());
                }
            }
        }
    }

    /// The same on one association: an error of the connection means that nothing was sent whole.
    fn send(
        &self,
        what: &'static str,
        pieces: &[SubCommand<'_>],
        association: &Association,
        deadline: Duration,
    ) -> Result<(), RemoteError> {
        let queue = self.session.queue(association);
        let changed = run(queue, pieces, deadline, |cqe, _| succeeded(what, cqe));
        changed.map_err(|stopped| stopped.of_change(what))
    }
}

fn succeeded(action: &'static str, cqe: Cqe) -> Result<(), RemoteError> {
    match cqe.status() {
        status if status.is_success() => Ok(()),
        status => Err(RemoteError::Refused { action, status }),
    }
}

impl BlockDevice for BlockClient {
    fn describe(&self) -> String {
        let Settings { address, subsystem, namespace, .. } = self.session.settings();
        format!("namespace {namespace} of {subsystem} at {address}")
    }

    fn bytes(&self) -> u64 {
        self.bytes / BLOCK_BYTES * BLOCK_BYTES
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> esker_base::Result<()> {
        let mut offset = offset;
        for part in out.chunks_mut(PIECES_TOGETHER * PIECE_BYTES) {
            let deadline = self.session.deadline();
            let read = |queue: &QueuePair| self.try_read(queue, offset, part, deadline);
            self.session.retry(deadline, read)?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> esker_base::Result<()> {
        let mut offset = offset;
        let pieces = bytes.chunks(PIECE_BYTES).map(|data| {
            let blocks = self.blocks(offset, data.len());
            offset += data.len() as u64;
            let write = NvmCommand::Write { blocks, force_unit_access: false };
            SubCommand { sqe: self.encode(write), data, reads: 0 }
        });
        Ok(self.change_in_turn("write", &pieces.collect::<Vec<_>>(), PIECES_TOGETHER)?)
    }

    fn write_zeroes(&self, offset: u64, bytes: u64) -> esker_base::Result<()> {
        let starts = (0..bytes).step_by(ZEROES_BYTES as usize);
        let pieces = starts.map(|start| {
            let length = (bytes - start).min(ZEROES_BYTES) as usize;
            let blocks = self.blocks(offset + start, length);
            let zeroes = NvmCommand::WriteZeroes { blocks, force_unit_access: false };
            SubCommand { sqe: self.encode(zeroes), data: &[], reads: 0 }
        });
        let pieces: Vec<SubCommand<'_>> = pieces.collect();
        Ok(self.change_in_turn("write zeroes", &pieces, ZEROES_TOGETHER)?)
    }

    fn flush(&self) -> esker_base::Result<()> {
        Ok(self.session.flush(self.encode(NvmCommand::Flush))?)
    }
}
