//! Blocks in a file or on a device, past the page cache.
//!
//! Every reactor has a part, which reads and writes for its own connections; blocks belong to nobody. Without a volatile
//! cache, a write is one direct write and its share of an `fdatasync`: it is acknowledged when a sync that began after it
//! was done has ended. With one, it is acknowledged when the direct write is done, and a flush, or a write with force unit
//! access, syncs. A sync that failed says nothing of what was written before it, and the system may have forgotten the
//! error by the next: after one, nothing is written any more.

use super::group_sync::GroupSync;
use super::{Answer, Description, Failures, Namespace, Outlet, Request, Resident};
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
    failures: Arc<Failures>,
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

    fn failures(&self) -> Option<&Failures> {
        Some(&self.failures)
    }

    fn parts(&self, reactors: usize) -> Result<Vec<Box<dyn Resident>>> {
        let part = |_| -> Result<Box<dyn Resident>> {
            let file = self.file.reopen();
            Ok(Box::new(Part {
                file: file.map_err(|source| Error::io("open again", "a device", source))?,
                has_volatile_cache: self.has_volatile_cache,
                failures: self.failures.clone(),
                tasks: HashMap::new(),
                next_tag: 0,
                syncs: GroupSync::default(),
                zeroing: 0,
                zeroings: VecDeque::new(),
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
    failures: Arc<Failures>,
    /// What operations are for, by tag.
    tasks: HashMap<u64, Task>,
    next_tag: u64,
    syncs: GroupSync<Reply>,
    /// How many ranges are being zeroed.
    zeroing: usize,
    /// Those that wait for that.
    zeroings: VecDeque<Zeroing>,
    is_closing: bool,
}

#[derive(Debug)]
enum Task {
    Read(Reply),
    Write { reply: Reply, is_synced: bool },
    WriteZeroes(Zeroing),
    Sync,
}

/// `bytes` are left to be zeroed from `offset` on, those of a piece that is being written included.
#[derive(Debug)]
struct Zeroing {
    reply: Reply,
    offset: u64,
    bytes: u64,
    is_synced: bool,
}

impl Part {
    fn submit(&mut self, task: Task, operation: Operation, out: &mut Outlet) {
        self.next_tag += 1;
        self.tasks.insert(self.next_tag, task);
        out.submit(self.next_tag, operation);
    }

    fn write(&mut self, offset: u64, from: Slice, is_synced: bool, reply: Reply, out: &mut Outlet) {
        let file = self.file.clone();
        let write = Operation::WriteAt { file, offset, from };
        self.submit(Task::Write { reply, is_synced }, write, out);
    }

    /// Begins to zero ranges that wait, as far as so many may be under way.
    fn zero(&mut self, out: &mut Outlet) {
        while self.zeroing < ZEROINGS_MOST
            && let Some(zeroing) = self.zeroings.pop_front()
        {
            if self.failures.has_stopped() {
                zeroing.reply.send(Answer::Failed(Status::WRITE_FAULT));
                continue;
            }
            self.zeroing += 1;
            let zeros = Buffer::zeroed(zeroing.bytes.min(ZEROS_BYTES) as usize);
            self.write_zeros(zeroing, zeros, out);
        }
    }

    /// Writes the next piece of zeros, out of `zeros`.
    fn write_zeros(&mut self, zeroing: Zeroing, zeros: Buffer, out: &mut Outlet) {
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
        out: &mut Outlet,
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
            Ok(None) => self.written(zeroing.reply, zeroing.is_synced, out),
            Err(error) => zeroing.reply.send(Answer::Failed(self.write_failed(error))),
        }
        self.zeroing -= 1;
        self.zero(out);
    }

    /// What was written is acknowledged now, or after a sync.
    fn written(&mut self, reply: Reply, is_synced: bool, out: &mut Outlet) {
        if self.failures.has_stopped() {
            return reply.send(Answer::Failed(Status::WRITE_FAULT));
        }
        if !is_synced {
            return reply.send(Answer::Done);
        }
        self.syncs.add(reply);
        self.sync(out);
    }

    fn sync(&mut self, out: &mut Outlet) {
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

    fn synced(&mut self, result: &io::Result<usize>, out: &mut Outlet) {
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

impl Resident for Part {
    fn request(&mut self, request: Request, reply: Reply, out: &mut Outlet) {
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
                self.zeroings.push_back(Zeroing { reply, offset, bytes, is_synced });
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
        out: &mut Outlet,
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
            (Some(Task::Sync), _) => self.synced(&result, out),
            _ => {}
        }
    }

    /// A range may take minutes to be zeroed. Whoever asked for it is gone, or is told that it was not all done.
    fn close(&mut self, _: &mut Outlet) {
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
mod tests {
    use super::*;
    use crate::message::Message;
    use esker_base::Threads;
    use esker_uring::{Inbox, Reactor, Sender, mailbox};

    /// A part whose operations the test completes as it pleases.
    struct Bench {
        part: Part,
        out: Outlet,
        replies: Sender<Message>,
        answers: Inbox<Message>,
    }

    impl Bench {
        fn new(has_volatile_cache: bool) -> Self {
            let (replies, answers) = mailbox(&Reactor::new(1, &Threads).unwrap());
            let part = Part {
                file: std::fs::File::open("/dev/null").unwrap().into(),
                has_volatile_cache,
                failures: Arc::default(),
                tasks: HashMap::new(),
                next_tag: 0,
                syncs: GroupSync::default(),
                zeroing: 0,
                zeroings: VecDeque::new(),
                is_closing: false,
            };
            Bench { part, out: Outlet::default(), replies, answers }
        }

        fn request(&mut self, slot: u16, request: Request) {
            let reply = Reply::new(self.replies.clone(), 0, slot);
            self.part.request(request, reply, &mut self.out);
        }

        fn write(&mut self, slot: u16, force_unit_access: bool) {
            let data = Buffer::zeroed(512).whole();
            self.request(slot, Request::Write { offset: 0, data, force_unit_access });
        }

        fn zero(&mut self, slot: u16, bytes: u64, force_unit_access: bool) {
            self.request(slot, Request::WriteZeroes { offset: 4096, bytes, force_unit_access });
        }

        /// Completes the oldest operation. Says whether it was a sync.
        fn complete(&mut self, result: io::Result<usize>) -> bool {
            let (tag, operation) = self.out.operations.remove(0);
            let is_sync = matches!(operation, Operation::SyncData { .. });
            self.part.completed(tag, result, operation, &mut self.out);
            is_sync
        }

        /// The slots that were answered, with a minus if the answer was a failure.
        fn answered(&self) -> Vec<i32> {
            let answers = std::iter::from_fn(|| self.answers.take());
            let number = |message| match message {
                Message::Answered { slot, answer: Answer::Failed(_), .. } => -i32::from(slot),
                Message::Answered { slot, .. } => slot.into(),
                other => panic!("{other:?}"),
            };
            answers.map(number).collect()
        }
    }

    #[test]
    fn a_write_is_acknowledged_after_a_sync_that_began_when_it_was_done() {
        let mut bench = Bench::new(false);
        bench.write(1, false);
        bench.write(2, false);
        assert!(!bench.complete(Ok(512)) && bench.answered().is_empty());
        // The sync for the first begins before the second is done.
        assert!(!bench.complete(Ok(512)) && bench.out.operations.len() == 1);
        bench.write(3, false);
        assert!(bench.complete(Ok(0)));
        assert_eq!(bench.answered(), [1]);
        assert!(!bench.complete(Ok(512)));
        assert!(bench.complete(Ok(0)));
        assert_eq!(bench.answered(), [2]);
        assert!(bench.complete(Ok(0)));
        assert_eq!(bench.answered(), [3]);
        bench.request(4, Request::Flush);
        assert_eq!(bench.answered(), [4], "there is nothing to flush");
    }

    #[test]
    fn with_a_cache_a_flush_or_force_unit_access_syncs() {
        let mut bench = Bench::new(true);
        bench.write(1, false);
        assert!(!bench.complete(Ok(512)));
        assert_eq!(bench.answered(), [1]);
        bench.request(2, Request::Flush);
        assert!(bench.answered().is_empty() && bench.complete(Ok(0)));
        assert_eq!(bench.answered(), [2]);
        bench.write(3, true);
        assert!(!bench.complete(Ok(512)) && bench.answered().is_empty());
        assert!(bench.complete(Ok(0)));
        assert_eq!(bench.answered(), [3]);
    }

    #[test]
    fn with_a_cache_zeros_are_synced_if_unit_access_is_forced() {
        let mut bench = Bench::new(true);
        bench.zero(1, 512, false);
        assert!(!bench.complete(Ok(512)));
        assert_eq!(bench.answered(), [1]);
        bench.zero(2, 512, true);
        assert!(!bench.complete(Ok(512)) && bench.answered().is_empty());
        assert!(bench.complete(Ok(0)));
        assert_eq!(bench.answered(), [2]);
    }

    #[test]
    fn after_a_failed_sync_nothing_is_written() {
        let mut bench = Bench::new(false);
        bench.write(1, false);
        bench.complete(Ok(512));
        bench.write(2, false);
        assert!(bench.complete(Err(ErrorKind::Other.into())));
        bench.complete(Ok(512));
        bench.write(3, false);
        assert_eq!(bench.answered(), [-1, -2, -3]);
        bench.request(4, Request::Read { offset: 0, bytes: 512 });
        bench.complete(Ok(512));
        assert_eq!(bench.answered(), [4], "reads go on");
        assert!(bench.part.failures.has_stopped());
    }

    #[test]
    fn what_the_device_fails_is_told_and_a_full_one_is_none() {
        let mut bench = Bench::new(true);
        let faults = |bench: &Bench| bench.part.failures.faults();
        bench.write(1, false);
        bench.complete(Err(ErrorKind::StorageFull.into()));
        assert_eq!((bench.answered(), faults(&bench)), (vec![-1], 0));
        bench.write(2, false);
        bench.complete(Err(ErrorKind::Other.into()));
        assert_eq!((bench.answered(), faults(&bench)), (vec![-2], 1));
        for result in [Err(ErrorKind::Other.into()), Ok(100)] {
            bench.request(3, Request::Read { offset: 0, bytes: 512 });
            bench.complete(result);
        }
        assert_eq!((bench.answered(), faults(&bench)), (vec![-3, -3], 3));
        assert!(!bench.part.failures.has_stopped(), "another write may succeed");
    }

    #[test]
    fn few_ranges_are_zeroed_at_a_time_and_all_of_them_in_the_end() {
        let mut bench = Bench::new(true);
        (1..=20).for_each(|slot| bench.zero(slot, 512, false));
        assert_eq!(bench.out.operations.len(), ZEROINGS_MOST);
        assert!(!bench.complete(Ok(512)));
        assert_eq!((bench.answered(), bench.out.operations.len()), (vec![1], ZEROINGS_MOST));
        while !bench.out.operations.is_empty() {
            bench.complete(Ok(512));
        }
        assert_eq!(bench.answered(), (2..=20).collect::<Vec<_>>());
    }

    #[test]
    fn a_node_that_closes_does_not_wait_until_all_is_zeroed() {
        let mut bench = Bench::new(true);
        let most = ZEROINGS_MOST as u16;
        (1..=most + 1).for_each(|slot| bench.zero(slot, 2 * ZEROS_BYTES, false));
        bench.part.close(&mut bench.out);
        assert_eq!(bench.answered(), [-i32::from(most + 1)], "it had not begun");
        (0..most).for_each(|_| _ = bench.complete(Ok(ZEROS_BYTES as usize)));
        assert!(bench.out.operations.is_empty());
        assert_eq!(bench.answered(), (1..=most).map(|slot| -i32::from(slot)).collect::<Vec<_>>());
    }

    #[test]
    fn after_a_failed_sync_no_more_is_zeroed() {
        let mut bench = Bench::new(false);
        bench.write(1, false);
        bench.complete(Ok(512));
        (2..=12).for_each(|slot| bench.zero(slot, 2 * ZEROS_BYTES, false));
        assert!(bench.complete(Err(ErrorKind::Other.into())));
        while !bench.out.operations.is_empty() {
            bench.complete(Ok(ZEROS_BYTES as usize));
        }
        let mut answered = bench.answered();
        answered.sort_unstable();
        assert_eq!(answered, (-12..=-1).collect::<Vec<_>>());
        assert!(bench.part.zeroing == 0 && bench.part.tasks.is_empty());
    }

    #[test]
    fn zeros_are_written_piece_by_piece() {
        let mut bench = Bench::new(false);
        bench.zero(1, ZEROS_BYTES + 512, false);
        let mut written = Vec::new();
        while let Some((_, Operation::WriteAt { offset, from, .. })) = bench.out.operations.first()
        {
            written.push((*offset, from.len()));
            let bytes = from.len();
            bench.complete(Ok(bytes));
        }
        assert_eq!(written, [(4096, ZEROS_BYTES as usize), (4096 + ZEROS_BYTES, 512)]);
        assert!(bench.answered().is_empty() && bench.complete(Ok(0)));
        assert_eq!(bench.answered(), [1]);
    }
}
