//! A thread with a reactor and some partitions.
//!
//! The system reports to each opening of a file once that something written to the file was lost. So every partition has two of its own: one, and another
//! for durable writes, of which it has one at a time. No sync misses what another's sync or durable write was notified of.
//!
//! A file that is removed or shortened while it is open makes writes and syncs fail: before a write begins and after a sync
//! the file's length is checked, so nothing behind the new end is acknowledged.

use crate::device::{FileDevice, check_kept};
use crate::partition::{Io, IoKind, Partition, Reply, Request};
use crate::stats::PartitionStats;
use esker_base::background::Running;
use esker_base::{Background, Error, Priority, Result, Threads};
use esker_uring::{
    Buffer, Completion, Descriptor, Inbox, Operation, Reactor, Sender, Slice, SubmitError, mailbox,
};
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc;

/// The most reads, writes and syncs in progress at a time; more wait.
const IN_FLIGHT: u32 = 256;

/// A request, and where its reply goes.
pub(crate) struct Call {
    /// Which of the worker's partitions.
    pub slot: usize,
    pub request: Request,
    /// For the reply.
    pub token: u64,
    pub reply: mpsc::Sender<Reply>,
}

pub(crate) enum Message {
    Call(Call),
    Stats(mpsc::Sender<PartitionStats>),
    Close(mpsc::Sender<Result<()>>),
}

/// The device as one partition has it open.
pub(crate) struct FileHandles {
    file: Descriptor,
    durable: Descriptor,
    /// What of the device the store needs.
    bytes: u64,
}

impl FileHandles {
    /// Opens a device of which a store needs `bytes`.
    pub fn of(device: &FileDevice, bytes: u64) -> Result<Self> {
        Ok(FileHandles { file: device.descriptor()?, durable: device.descriptor()?, bytes })
    }

    fn check(&self) -> io::Result<()> {
        check_kept(&self.file, self.bytes)
    }

    /// Why this must not begin: what is written would be in a hole, or in a file without a name.
    fn refusal(&self, what: &IoKind) -> Option<io::Error> {
        match what {
            IoKind::Read { .. } => None,
            _ => self.check().err(),
        }
    }

    /// What came of an operation that ended with `result`.
    fn outcome(&self, operation: &Operation, result: io::Result<usize>) -> io::Result<usize> {
        match (operation, result) {
            (Operation::SyncData { .. } | Operation::WriteDurablyAt { .. }, Ok(bytes)) => {
                self.check().map(|()| bytes)
            }
            (Operation::ReadAt { .. }, Err(error))
                if error.kind() == io::ErrorKind::UnexpectedEof =>
            {
                self.check().and(Err(error))
            }
            (_, result) => result,
        }
    }
}

pub(crate) struct Worker {
    reactor: Reactor,
    inbox: Inbox<Message>,
    partitions: Vec<Partition>,
    /// Each partition's own.
    openings: Vec<FileHandles>,
    /// By the partition's token; free ones are none.
    callers: Vec<Option<(u64, mpsc::Sender<Reply>)>>,
    free_callers: Vec<usize>,
    /// What the reactor had no space for.
    backlog: VecDeque<(u64, Operation)>,
    closing: Option<mpsc::Sender<Result<()>>>,
}

impl Worker {
    /// Starts a thread that owns `partitions`, each with its openings.
    pub fn start(
        partitions: Vec<(Partition, FileHandles)>,
        background: &dyn Background,
    ) -> Result<(Sender<Message>, Box<dyn Running>)> {
        let (started, outcome) = mpsc::channel();
        let (partitions, openings) = partitions.into_iter().unzip();
        // A reactor belongs to the thread that makes it.
        let body = move || match Reactor::new(IN_FLIGHT, &Threads) {
            Ok(reactor) => {
                let (sender, inbox) = mailbox(&reactor);
                let worker = Worker {
                    reactor,
                    inbox,
                    partitions,
                    openings,
                    callers: Vec::new(),
                    free_callers: Vec::new(),
                    backlog: VecDeque::new(),
                    closing: None,
                };
                if started.send(Ok(sender)).is_ok() {
                    worker.run();
                }
            }
            Err(source) => drop(started.send(Err(Error::io("start", "a reactor", source)))),
        };
        let thread = background.spawn("esker-hash", Priority::Normal, Box::new(body))?;
        let Some(thread) = thread else {
            return Err(Error::NotOffered {
                store: "a hash store",
                what: "run without threads",
                instead: "drive its partitions by hand",
            });
        };
        let sender = outcome.recv().map_err(|_| Error::Closed)??;
        Ok((sender, thread))
    }

    fn run(mut self) {
        let mut completions = Vec::new();
        loop {
            while let Some(message) = self.inbox.take() {
                self.take(message);
            }
            self.turn();
            if self.closing.is_some() && self.is_done() {
                break;
            }
            // Without a reactor nothing can be answered: callers see that this thread has ended.
            if self.reactor.wait(None, &mut completions).is_err() {
                return;
            }
            for completion in completions.drain(..) {
                self.report(completion);
            }
        }
        let outcome = self.partitions.iter().try_for_each(Partition::outcome);
        if let Some(closing) = self.closing {
            let _ = closing.send(outcome);
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Call(Call { slot, request, token, reply }) => {
                let number = self.free_callers.pop().unwrap_or_else(|| {
                    self.callers.push(None);
                    self.callers.len() - 1
                });
                self.callers[number] = Some((token, reply));
                self.partitions[slot].request(number as u64, request);
            }
            Message::Stats(reply) => {
                let mut all = PartitionStats::default();
                self.partitions.iter().for_each(|partition| all.add(&partition.stats()));
                let _ = reply.send(all);
            }
            Message::Close(reply) => self.closing = Some(reply),
        }
    }

    /// Begins what the partitions want and passes on what they say.
    fn turn(&mut self) {
        for slot in 0..self.partitions.len() {
            if self.closing.is_some() && self.partitions[slot].is_idle() {
                self.partitions[slot].checkpoint();
            }
            while let Some(io) = self.partitions[slot].take_io() {
                match self.openings[slot].refusal(&io.what) {
                    Some(refusal) => self.partitions[slot].report(io.tag, Err(refusal), None),
                    None => self.backlog.push_back(operation(slot, &self.openings[slot], io)),
                }
            }
            while let Some(reply) = self.partitions[slot].take_reply() {
                let number = reply.token as usize;
                if let Some((token, caller)) = self.callers[number].take() {
                    self.free_callers.push(number);
                    // A caller that has gone does not want it.
                    let _ = caller.send(Reply { token, ..reply });
                }
            }
        }
        while let Some((token, operation)) = self.backlog.pop_front() {
            if let Err(SubmitError(operation)) = self.reactor.submit(token, operation) {
                self.backlog.push_front((token, operation));
                break;
            }
        }
    }

    fn report(&mut self, completion: Completion) {
        let Completion { token, result, operation, .. } = completion;
        let slot = (token & 0xff) as usize;
        let result = self.openings[slot].outcome(&operation, result);
        let slice = operation.into_buffer().map(Slice::from);
        self.partitions[slot].report(token >> 8, result, slice);
    }

    fn is_done(&self) -> bool {
        let mut partitions = self.partitions.iter();
        self.backlog.is_empty()
            && partitions.all(|partition| {
                partition.is_idle() && (!partition.has_changes() || partition.outcome().is_err())
            })
    }
}

/// What a partition wants, for the reactor. The token has the partition's slot in its lowest byte.
fn operation(slot: usize, openings: &FileHandles, io: Io) -> (u64, Operation) {
    let file = openings.file.clone();
    let operation = match io.what {
        IoKind::Read { offset, bytes } => {
            // A read that does not fill it fails.
            Operation::ReadAt { file, offset, into: Buffer::contiguous(bytes).whole() }
        }
        IoKind::Write { offset, from } => Operation::WriteAt { file, offset, from },
        IoKind::WriteDurably { offset, from } => {
            Operation::WriteDurablyAt { file: openings.durable.clone(), offset, from }
        }
        IoKind::Sync => Operation::SyncData { file },
    };
    (io.tag << 8 | slot as u64, operation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Seek, SeekFrom};
    use std::os::fd::AsFd;

    /// Another descriptor of the opening that `what` uses.
    fn opening(openings: &FileHandles, what: IoKind) -> File {
        let (Operation::WriteDurablyAt { file, .. } | Operation::SyncData { file }) =
            operation(0, openings, Io { tag: 1, what }).1
        else {
            panic!("neither a durable write nor a sync")
        };
        file.as_fd().try_clone_to_owned().unwrap().into()
    }

    #[test]
    fn syncs_and_durable_writes_of_each_partition_have_an_opening_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let device = FileDevice::create(&dir.path().join("store"), Some(1 << 20)).unwrap();
        let partitions = [(); 2].map(|()| FileHandles::of(&device, 1 << 20).unwrap());
        let durably = || IoKind::WriteDurably { offset: 0, from: Buffer::zeroed(512).whole() };
        let mut files: Vec<_> = partitions
            .iter()
            .flat_map(|own| [opening(own, IoKind::Sync), opening(own, durably())])
            .collect();
        // An offset belongs to an opening.
        for (at, file) in (1..).zip(&mut files) {
            file.seek(SeekFrom::Start(at)).unwrap();
        }
        let offsets: Vec<_> =
            files.iter_mut().map(|file| file.stream_position().unwrap()).collect();
        assert_eq!(offsets, [1, 2, 3, 4]);
    }
}
