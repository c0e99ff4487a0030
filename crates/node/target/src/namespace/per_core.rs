//! Namespaces that live inside the reactors. Each reactor owns one part of such a namespace, which no other thread can reach:
//! a request comes to it by message, and what it reads and writes goes through its reactor's ring. So there is no lock on
//! the way.

use crate::{Reply, Request};
use esker_uring::Operation;
use std::io;

/// A part of a namespace, owned by one reactor. It does no I/O itself: it puts operations into the [`OperationSink`] and is notified
/// what became of them.
pub trait PerCoreNamespace: Send {
    /// Takes a request on.
    fn request(&mut self, request: Request, reply: Reply, out: &mut OperationSink);

    /// The operation of `tag` is done: `result` is the bytes moved.
    fn completed(
        &mut self,
        tag: u64,
        result: io::Result<usize>,
        operation: Operation,
        out: &mut OperationSink,
    );

    /// All that came together was given to this part, and what it wants done begins now. It may have waited for that, to do at once what belongs
    /// together; a part that puts everything into the outlet when it is asked for it needs none of this. Nothing is answered here.
    fn end_round(&mut self, _out: &mut OperationSink) {}

    /// No more requests come; what makes the next start quick may be done now.
    fn close(&mut self, _out: &mut OperationSink) {}
}

/// What a part wants done.
#[derive(Default)]
pub struct OperationSink {
    pub(crate) operations: Vec<(u64, Operation)>,
    pub(crate) passed_on: Vec<(Request, Reply)>,
}

impl OperationSink {
    /// Has an operation done. `tag` names it; it has at most 53 bits.
    pub fn submit(&mut self, tag: u64, operation: Operation) {
        self.operations.push((tag, operation));
    }

    /// Hands a request to the part that it belongs to.
    pub fn pass_on(&mut self, request: Request, reply: Reply) {
        self.passed_on.push((request, reply));
    }

    /// Takes what was submitted: tags and operations, in their order.
    pub fn take_operations(&mut self) -> std::vec::Drain<'_, (u64, Operation)> {
        self.operations.drain(..)
    }
}
