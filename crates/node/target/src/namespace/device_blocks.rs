//! Blocks in a file or on a device, past the page cache.
//!
//! Every reactor has a part, which reads and writes for its own connections; blocks belong to
//! no request. Without a volatile cache, a write is one direct write and its share of an `fdatasync`:
//! it is acknowledged when a sync that began after it was done has ended. With one, it is
//! acknowledged when the direct write is done, and a flush, or a write with force unit access,
//! syncs. What is deallocated is freed in the file or on the device, and reads as zeros. A device
//! that frees nothing keeps it: to deallocate is a hint, and to write zeros instead would take
//! hours for a whole device. A sync that failed says nothing of what was written before
//! it, and the system may have forgotten the error by the next: after one, nothing is written any
//! more.

use super::group_commit::GroupCommit;
use super::{
    Answer, Description, Namespace, NamespaceHealth, OperationSink, PerCoreNamespace, Request,
};
use crate::Reply;
use esker_base::{Error, Result};
use esker_nvme::Status;
use esker_uring::{Buffer, Descriptor, Operation, Slice};
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// Zeros are written in pieces of this length.
const ZEROS_BYTES: u64 = 128 << 10;

/// So many ranges of a part are zeroed at a time: each has a piece in memory, for which its command brings nothing.
const ZEROINGS_MOST: usize = 8;

/// A namespace of blocks on a device.
pub struct DeviceBlocks {
    guid: [u8; 16],
    file: Descriptor,
    bytes: u64,
    block_bytes_log2: u8,
    has_volatile_cache: bool,
    failures: Arc<NamespaceHealth>,
}

impl DeviceBlocks {
    /// Serves the first `bytes` of `file` in blocks of `block_bytes`: 512 or 4096, and no less than what the device writes
    /// in one piece. The file is open for reading and writing; best with `O_DIRECT`, and all of it allocated and written
    /// once, so that a sync has no metadata to write. With `has_volatile_cache`, only a flush makes safe what was
    /// acknowledged.
    pub fn new(
        guid: [u8; 16],
        file: Descriptor,
        bytes: u64,
        block_bytes: u32,
        has_volatile_cache: bool,
    ) -> Result<Self> {
        if !matches!(block_bytes, 512 | 4096) {
            let (value, reason) = (block_bytes.to_string(), "it is 512 or 4096".to_owned());
            return Err(Error::InvalidSetting { setting: "block size", value, reason });
        }
        let block_bytes_log2 = block_bytes.ilog2() as u8;
        let bytes = bytes >> block_bytes_log2 << block_bytes_log2;
        let failures = Arc::default();
        Ok(DeviceBlocks { guid, file, bytes, block_bytes_log2, has_volatile_cache, failures })
    }
}

impl Namespace for DeviceBlocks {
    fn guid(&self) -> [u8; 16] {
        self.guid
    }

    fn description(&self) -> Description {
        Description::Blocks { bytes: self.bytes, block_bytes_log2: self.block_bytes_log2 }
    }

    fn has_volatile_cache(&self) -> bool {
        self.has_volatile_cache
    }

    fn failures(&self) -> Option<&NamespaceHealth> {
        Some(&self.failures)
    }

    fn parts(&self, reactors: usize) -> Result<Vec<Box<dyn PerCoreNamespace>>> {
        let part = |_| -> Result<Box<dyn PerCoreNamespace>> {
            let file = self.file.reopen();
            Ok(Box::new(Part {
                file: file.map_err(|source| Error::io("open again", "a device", source))?,
                has_volatile_cache: self.has_volatile_cache,
                failures: self.failures.clone(),
                tasks: HashMap::new(),
                next_tag: 0,
                syncs: GroupCommit::default(),
                zeroing: 0,
                zeroings: VecDeque::new(),
                can_free: true,
                is_closing: false,
            }))
        };
        (0..reactors).map(part).collect()
    }
}

struct Part {
    // Constant after construction.
    file: Descriptor,
    has_volatile_cache: bool,

    /// Those of all parts: after a sync that failed, in whichever, nothing is written.
    failures: Arc<NamespaceHealth>,
    /// What operations are for, by tag.
    tasks: HashMap<u64, Task>,
    next_tag: u64,
    syncs: GroupCommit<Reply>,
    /// How many ranges are being zeroed.
    zeroing: usize,
    /// Those that wait for that.
    zeroings: VecDeque<Zeroing>,
    /// Whether the device frees ranges, as far as that is known: otherwise they are kept.
    can_free: bool,
    is_closing: bool,
}

#[derive(Debug)]
enum Task {
    Read(Reply),
    Write { reply: Reply, is_synced: bool },
    WriteZeroes(Zeroing),
    Deallocate(Zeroing),
    Sync,
}

/// `bytes` are left to be zeroed from `offset` on, those of a piece that is being written included,
/// and then `rest`.
#[derive(Debug)]
struct Zeroing {
    reply: Reply,
    offset: u64,
    bytes: u64,
    /// Further ranges, of a command that frees them.
    rest: VecDeque<(u64, u64)>,
    /// Whether its memory is to be freed, too.
    is_freed: bool,
    is_synced: bool,
}

impl Part {
    fn submit(&mut self, task: Task, operation: Operation, out: &mut OperationSink) {
        self.next_tag += 1;
        self.tasks.insert(self.next_tag, task);
        out.submit(self.next_tag, operation);
    }

    fn write(
        &mut self,
        offset: u64,
        from: Slice,
        is_synced: bool,
        reply: Reply,
        out: &mut OperationSink,
    ) {
        let file = self.file.clone();
        let write = Operation::WriteAt { file, offset, from };
        self.submit(Task::Write { reply, is_synced }, write, out);
    }

    /// Begins to zero ranges that wait, as far as so many may be in progress.
    fn zero(&mut self, out: &mut OperationSink) {
        while self.zeroing < ZEROINGS_MOST
            && let Some(zeroing) = self.zeroings.pop_front()
        {
            if self.failures.has_stopped() {
                zeroing.reply.send(Answer::Failed(Status::WRITE_FAULT));
                continue;
            }
            self.zeroing += 1;
            self.begin_range(zeroing, out);
        }
    }

    /// Begins with a range: frees it, or writes the first piece of zeros.
    fn begin_range(&mut self, zeroing: Zeroing, out: &mut OperationSink) {
        let Zeroing { offset, bytes, .. } = zeroing;
        if zeroing.is_freed {
            let free = Operation::Deallocate { file: self.file.clone(), offset, bytes };
            return self.submit(Task::Deallocate(zeroing), free, out);
        }
        let zeros = Buffer::zeroed(bytes.min(ZEROS_BYTES) as usize);
        self.write_zeros(zeroing, zeros, out);
    }

    /// A range was freed, or not. A device that cannot free is not asked again.
    fn freed(&mut self, zeroing: Zeroing, result: &io::Result<usize>, out: &mut OperationSink) {
        match result {
            Ok(_) => self.range_is_zero(zeroing, out),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                self.can_free = false;
                self.written(zeroing.reply, zeroing.is_synced, out);
                self.zeroing_ended(out);
            }
            Err(error) => {
                zeroing.reply.send(Answer::Failed(self.write_failed(error)));
                self.zeroing_ended(out);
            }
        }
    }

    /// One range is zero: the next one, or it is over.
    fn range_is_zero(&mut self, mut zeroing: Zeroing, out: &mut OperationSink) {
        match zeroing.rest.pop_front() {
            Some(_) if self.is_closing => {
                zeroing.reply.send(Answer::Failed(Status::INTERNAL_ERROR));
            }
            Some(_) if self.failures.has_stopped() => {
                zeroing.reply.send(Answer::Failed(Status::WRITE_FAULT));
            }
            Some((offset, bytes)) => {
                return self.begin_range(Zeroing { offset, bytes, ..zeroing }, out);
            }
            None => self.written(zeroing.reply, zeroing.is_synced, out),
        }
        self.zeroing_ended(out);
    }

    fn zeroing_ended(&mut self, out: &mut OperationSink) {
        self.zeroing -= 1;
        self.zero(out);
    }

    /// Writes the next piece of zeros, out of `zeros`.
    fn write_zeros(&mut self, zeroing: Zeroing, zeros: Buffer, out: &mut OperationSink) {
        let Zeroing { offset, bytes, .. } = zeroing;
        let from = zeros.slice(0..bytes.min(ZEROS_BYTES) as usize);
        let write = Operation::WriteAt { file: self.file.clone(), offset, from };
        self.submit(Task::WriteZeroes(zeroing), write, out);
    }

    /// A piece of zeros was written, or not.
    fn zeros_written(
        &mut self,
        zeroing: Zeroing,
        result: &io::Result<usize>,
        zeros: Buffer,
        out: &mut OperationSink,
    ) {
        let left = |written: usize| (written as u64 != zeroing.bytes).then_some(written as u64);
        match result.as_ref().map(|&written| left(written)) {
            Ok(Some(written)) if !self.is_closing && !self.failures.has_stopped() => {
                let (offset, bytes) = (zeroing.offset + written, zeroing.bytes - written);
                return self.write_zeros(Zeroing { offset, bytes, ..zeroing }, zeros, out);
            }
            Ok(Some(_)) if self.is_closing => {
                zeroing.reply.send(Answer::Failed(Status::INTERNAL_ERROR));
            }
            Ok(Some(_)) => zeroing.reply.send(Answer::Failed(Status::WRITE_FAULT)),
            Ok(None) => return self.range_is_zero(zeroing, out),
            Err(error) => zeroing.reply.send(Answer::Failed(self.write_failed(error))),
        }
        self.zeroing_ended(out);
    }

    /// What was written is acknowledged now, or after a sync.
    fn written(&mut self, reply: Reply, is_synced: bool, out: &mut OperationSink) {
        if self.failures.has_stopped() {
            return reply.send(Answer::Failed(Status::WRITE_FAULT));
        }
        if !is_synced {
            return reply.send(Answer::Done);
        }
        self.syncs.add(reply);
        self.sync(out);
    }

    fn sync(&mut self, out: &mut OperationSink) {
        if self.syncs.begins() {
            self.submit(Task::Sync, Operation::SyncData { file: self.file.clone() }, out);
        }
    }

    fn write_failed(&self, error: &io::Error) -> Status {
        let status = status_of(error);
        if status.is(Status::WRITE_FAULT) {
            self.failures.fault(|| format!("a write to the device failed: {error}"));
        }
        status
    }

    fn synced(&mut self, result: &io::Result<usize>, out: &mut OperationSink) {
        if let Err(error) = result {
            self.failures.stop(|| format!("a sync of the device failed: {error}"));
        }
        for reply in self.syncs.ended() {
            reply.send(match self.failures.has_stopped() {
                false => Answer::Done,
                true => Answer::Failed(Status::WRITE_FAULT),
            });
        }
        self.sync(out);
    }
}

impl PerCoreNamespace for Part {
    fn request(&mut self, request: Request, reply: Reply, out: &mut OperationSink) {
        let is_write = !matches!(request, Request::Read { .. });
        if is_write && self.failures.has_stopped() {
            return reply.send(Answer::Failed(Status::WRITE_FAULT));
        }
        match request {
            Request::Read { offset, bytes } => {
                // A read that does not fill it fails.
                let into = Buffer::contiguous(bytes).whole();
                let read = Operation::ReadAt { file: self.file.clone(), offset, into };
                self.submit(Task::Read(reply), read, out);
            }
            Request::Write { offset, data, force_unit_access } => {
                let is_synced = force_unit_access || !self.has_volatile_cache;
                self.write(offset, data, is_synced, reply, out);
            }
            Request::WriteZeroes { offset, bytes, force_unit_access } => {
                let is_synced = force_unit_access || !self.has_volatile_cache;
                let (rest, is_freed) = (VecDeque::new(), false);
                let zeroing = Zeroing { reply, offset, bytes, rest, is_freed, is_synced };
                self.zeroings.push_back(zeroing);
                self.zero(out);
            }
            Request::Deallocate { ranges: mut rest } => {
                let first = rest.pop_front().filter(|_| self.can_free);
                let Some((offset, bytes)) = first else { return reply.send(Answer::Done) };
                let (is_freed, is_synced) = (true, !self.has_volatile_cache);
                let zeroing = Zeroing { reply, offset, bytes, rest, is_freed, is_synced };
                self.zeroings.push_back(zeroing);
                self.zero(out);
            }
            // Without a cache, all that was acknowledged is safe.
            Request::Flush => self.written(reply, self.has_volatile_cache, out),
            _ => reply.send(Answer::Failed(Status::INVALID_OPCODE)),
        }
    }

    fn completed(
        &mut self,
        tag: u64,
        result: io::Result<usize>,
        operation: Operation,
        out: &mut OperationSink,
    ) {
        match (self.tasks.remove(&tag), operation) {
            (Some(Task::Read(reply)), Operation::ReadAt { into, .. }) => {
                reply.send(match result {
                    Ok(bytes) if bytes == into.len() => Answer::Data(into),
                    failed => {
                        self.failures.fault(|| match failed {
                            Ok(_) => "a read of the device ended early".to_owned(),
                            Err(error) => format!("a read of the device failed: {error}"),
                        });
                        Answer::Failed(Status::READ_ERROR)
                    }
                });
            }
            (Some(Task::Write { reply, is_synced }), _) => match result {
                Ok(_) => self.written(reply, is_synced, out),
                Err(error) => reply.send(Answer::Failed(self.write_failed(&error))),
            },
            (Some(Task::WriteZeroes(zeroing)), Operation::WriteAt { from, .. }) => {
                self.zeros_written(zeroing, &result, from.into_buffer(), out);
            }
            (Some(Task::Deallocate(zeroing)), _) => self.freed(zeroing, &result, out),
            (Some(Task::Sync), _) => self.synced(&result, out),
            _ => {}
        }
    }

    /// A range may take minutes to be zeroed. The host that asked for it is gone, or is notified that it was not all done.
    fn close(&mut self, _: &mut OperationSink) {
        self.is_closing = true;
        for Zeroing { reply, .. } in self.zeroings.drain(..) {
            reply.send(Answer::Failed(Status::INTERNAL_ERROR));
        }
    }
}

fn status_of(error: &io::Error) -> Status {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Status::CAPACITY_EXCEEDED,
        _ => Status::WRITE_FAULT,
    }
}

#[cfg(test)]
mod tests;
