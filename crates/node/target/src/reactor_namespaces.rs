//! The parts of namespaces that one reactor owns, and their I/O through its ring.

use crate::limits::FILE_OPERATIONS;
use crate::namespace::{OperationSink, PerCoreNamespace};
use crate::reactor_message::RESIDENT;
use crate::{Reply, Request};
use esker_uring::{Completion, Operation, Reactor, SubmitError};
use std::collections::VecDeque;

/// How many namespaces with parts a target may have: what a token has bits for.
pub(crate) const RESIDENTS_MAX: usize = 1 << NUMBER_BITS;

/// A token: what kind of operation it is, the part's number, the part's own tag.
const KIND_BITS: u32 = 3;
const NUMBER_BITS: u32 = 8;

#[derive(Default)]
pub(crate) struct ReactorNamespaces {
    parts: Vec<Box<dyn PerCoreNamespace>>,
    out: OperationSink,
    /// What the ring has no space for yet.
    backlog: VecDeque<(u64, Operation)>,
    /// The backlog's included.
    under_way: usize,
}

impl ReactorNamespaces {
    pub(crate) fn new(parts: Vec<Box<dyn PerCoreNamespace>>) -> Self {
        ReactorNamespaces { parts, ..ReactorNamespaces::default() }
    }

    /// Gives a request to part `number`.
    pub(crate) fn request(
        &mut self,
        number: usize,
        request: Request,
        reply: Reply,
        io: &mut Reactor,
    ) {
        if let Some(part) = self.parts.get_mut(number) {
            part.request(request, reply, &mut self.out);
            self.submit(number, io);
        }
    }

    /// An operation of one of the parts is done: says which.
    pub(crate) fn completed(&mut self, completion: Completion, io: &mut Reactor) -> usize {
        let Completion { token, result, operation, .. } = completion;
        let number = (token >> KIND_BITS) as usize & (RESIDENTS_MAX - 1);
        self.under_way -= 1;
        if let Some(part) = self.parts.get_mut(number) {
            part.completed(token >> (KIND_BITS + NUMBER_BITS), result, operation, &mut self.out);
            self.submit(number, io);
        }
        number
    }

    /// What parts handed on since the last call.
    pub(crate) fn take_passed_on(&mut self) -> Vec<(Request, Reply)> {
        std::mem::take(&mut self.out.passed_on)
    }

    /// No more requests come.
    pub(crate) fn close(&mut self, io: &mut Reactor) {
        for number in 0..self.parts.len() {
            self.parts[number].close(&mut self.out);
            self.submit(number, io);
        }
    }

    /// Whether nothing is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    fn submit(&mut self, number: usize, io: &mut Reactor) {
        for (tag, operation) in self.out.take_operations() {
            let token = (tag << NUMBER_BITS | number as u64) << KIND_BITS | RESIDENT;
            self.backlog.push_back((token, operation));
            self.under_way += 1;
        }
        self.go_on(io);
    }

    /// Has parts begin what they kept until all was given to them that came together.
    pub(crate) fn end_round(&mut self, io: &mut Reactor) {
        for number in 0..self.parts.len() {
            self.parts[number].end_round(&mut self.out);
            self.submit(number, io);
        }
    }

    /// Submits what waits, as far as files may have operations in progress. So sockets find space in the ring.
    fn go_on(&mut self, io: &mut Reactor) {
        while self.under_way - self.backlog.len() < FILE_OPERATIONS
            && let Some((token, operation)) = self.backlog.pop_front()
        {
            if let Err(SubmitError(operation)) = io.submit(token, operation) {
                self.backlog.push_front((token, operation));
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Answer;
    use crate::limits::OPERATIONS;
    use crate::reactor_message::Message;
    use esker_base::Threads;
    use esker_uring::{Buffer, Descriptor, mailbox};
    use std::io;

    /// For each request a read of nothing.
    struct Reads {
        file: Descriptor,
        replies: Vec<Option<Reply>>,
    }

    impl PerCoreNamespace for Reads {
        fn request(&mut self, _: Request, reply: Reply, out: &mut OperationSink) {
            let (file, into) = (self.file.clone(), Buffer::zeroed(512).whole());
            out.submit(self.replies.len() as u64, Operation::ReadAt { file, offset: 0, into });
            self.replies.push(Some(reply));
        }

        fn completed(
            &mut self,
            tag: u64,
            _: io::Result<usize>,
            _: Operation,
            _: &mut OperationSink,
        ) {
            let reply = self.replies[tag as usize].take().expect("each is completed once");
            reply.send(Answer::Done);
        }
    }

    #[test]
    fn files_leave_room_in_the_ring_and_what_waited_is_done() {
        const REQUESTS: u16 = 3 * FILE_OPERATIONS as u16;
        let mut io = Reactor::new(OPERATIONS, &Threads).unwrap();
        let (sender, answers) = mailbox::<Message>(&io);
        let file = std::fs::File::open("/dev/null").unwrap().into();
        let mut residents =
            ReactorNamespaces::new(vec![Box::new(Reads { file, replies: Vec::new() })]);
        for slot in 0..REQUESTS {
            residents.request(0, Request::Flush, Reply::new(sender.clone(), 0, slot), &mut io);
            assert!(io.in_flight() <= FILE_OPERATIONS);
        }
        let mut completions = Vec::new();
        while !residents.is_idle() {
            io.wait(None, &mut completions).unwrap();
            for completion in completions.drain(..) {
                residents.completed(completion, &mut io);
                assert!(io.in_flight() <= FILE_OPERATIONS);
            }
        }
        assert_eq!(std::iter::from_fn(|| answers.take()).count(), usize::from(REQUESTS));
    }
}
