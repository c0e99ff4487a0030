//! A thread with a reactor and some partitions.

use crate::partition::{Io, IoKind, Partition, Reply, Request};
use crate::stats::PartitionStats;
use esker_base::background::Running;
use esker_base::{Background, Error, Priority, Result, Threads};
use esker_uring::{
    Completion, Descriptor, Inbox, Operation, Reactor, Refused, Sender, Slice, mailbox,
};
use std::collections::VecDeque;
use std::sync::mpsc;

/// The most reads, writes and syncs under way at a time; more wait.
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

pub(crate) struct Worker {
    reactor: Reactor,
    inbox: Inbox<Message>,
    file: Descriptor,
    partitions: Vec<Partition>,
    /// By the partition's token; free ones are none.
    callers: Vec<Option<(u64, mpsc::Sender<Reply>)>>,
    free_callers: Vec<usize>,
    /// What the reactor had no room for.
    backlog: VecDeque<(u64, Operation)>,
    closing: Option<mpsc::Sender<Result<()>>>,
}

impl Worker {
    /// Starts a thread that owns `partitions`.
    pub fn start(
        partitions: Vec<Partition>,
        file: Descriptor,
        background: &dyn Background,
    ) -> Result<(Sender<Message>, Box<dyn Running>)> {
        let (started, outcome) = mpsc::channel();
        // A reactor belongs to the thread that makes it.
        let body = move || match Reactor::new(IN_FLIGHT, &Threads) {
            Ok(reactor) => {
                let (sender, inbox) = mailbox(&reactor);
                let worker = Worker {
                    reactor,
                    inbox,
                    file,
                    partitions,
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
                let (token, operation) = self.operation(slot, io);
                self.backlog.push_back((token, operation));
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
            if let Err(Refused(operation)) = self.reactor.submit(token, operation) {
                self.backlog.push_front((token, operation));
                break;
            }
        }
    }

    /// What a partition wants, for the reactor. The token has the partition's slot in its lowest byte.
    fn operation(&self, slot: usize, io: Io) -> (u64, Operation) {
        let file = self.file.clone();
        let operation = match io.what {
            IoKind::Read { offset, into } => Operation::ReadAt { file, offset, into },
            IoKind::Write { offset, from } => Operation::WriteAt { file, offset, from },
            IoKind::WriteDurably { offset, from } => {
                Operation::WriteDurablyAt { file, offset, from }
            }
            IoKind::Sync => Operation::SyncData { file },
        };
        (io.tag << 8 | slot as u64, operation)
    }

    fn report(&mut self, completion: Completion) {
        let Completion { token, result, operation, .. } = completion;
        let slice = operation.into_buffer().map(Slice::from);
        self.partitions[(token & 0xff) as usize].report(token >> 8, result, slice);
    }

    fn is_done(&self) -> bool {
        let mut partitions = self.partitions.iter();
        self.backlog.is_empty()
            && partitions.all(|partition| {
                partition.is_idle() && (!partition.has_changes() || partition.outcome().is_err())
            })
    }
}
