//! The parts of namespaces that one reactor owns, and their I/O through its ring.

use crate::message::RESIDENT;
use crate::namespace::{Outlet, Resident};
use crate::{Reply, Request};
use esker_uring::{Completion, Operation, Reactor, Refused};
use std::collections::VecDeque;

/// How many namespaces with parts a target may have: what a token has bits for.
pub(crate) const RESIDENTS_MAX: usize = 1 << NUMBER_BITS;

/// A token: what kind of operation it is, the part's number, the part's own tag.
const KIND_BITS: u32 = 3;
const NUMBER_BITS: u32 = 8;

#[derive(Default)]
pub(crate) struct Residents {
    parts: Vec<Box<dyn Resident>>,
    out: Outlet,
    /// What the ring has no room for yet.
    backlog: VecDeque<(u64, Operation)>,
    under_way: usize,
}

impl Residents {
    pub(crate) fn new(parts: Vec<Box<dyn Resident>>) -> Self {
        Residents { parts, ..Residents::default() }
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

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    fn submit(&mut self, number: usize, io: &mut Reactor) {
        for (tag, operation) in self.out.operations.drain(..) {
            let token = (tag << NUMBER_BITS | number as u64) << KIND_BITS | RESIDENT;
            self.backlog.push_back((token, operation));
            self.under_way += 1;
        }
        while let Some((token, operation)) = self.backlog.pop_front() {
            if let Err(Refused(operation)) = io.submit(token, operation) {
                self.backlog.push_front((token, operation));
                return;
            }
        }
    }
}
