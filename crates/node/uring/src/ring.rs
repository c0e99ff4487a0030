//! The engine over `io_uring`.
//!
//! **Ownership.** An operation in progress is in a slot, and the kernel has the addresses of its
//! buffers, which no move of the slot changes. It leaves the slot only when its completion was
//! harvested. So the kernel never works on memory that another thread can reach, and the drop of the
//! ring waits for every slot; if the kernel can't even say what is done, their memory is leaked.
//!
//! **Setup.** The best flags that the kernel takes: deferred task work with a single issuer (Linux
//! 6.1), cooperative task work (5.19), none. Task work that waits is seen by a flag in shared memory,
//! so a poll that finds nothing to do makes no system call.

#![expect(unsafe_code, reason = "the kernel is given addresses")]

mod prepare;

use crate::operation::cancelled;
use crate::pending::{Next, Pending};
use crate::slots::Slots;
use crate::{Completion, Operation, OperationId, SubmitError, Waker};
use io_uring::{IoUring, Probe, opcode, squeue, types};
use prepare::{Scratch, entry};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Names the read of the waker's event. No slot has the last two numbers.
const WAKE: u64 = u64::MAX;
/// Names requests to cancel.
const CANCEL: u64 = u64::MAX - 1;

/// The submission queue's length. It is handed to the kernel when full, so it bounds nothing else.
const QUEUE_ENTRIES_MAX: u32 = 1024;
/// The most operations in progress at a time.
const IN_FLIGHT_MAX: u32 = 1 << 20;

/// An operation in progress, and what else the kernel has addresses of.
#[derive(Debug)]
struct InKernel {
    pending: Pending,
    scratch: Scratch,
    is_cancelled: bool,
}

pub(crate) struct Ring {
    ring: IoUring,
    description: &'static str,
    slots: Slots<InKernel>,
    waker: Waker,
    /// What the read of the waker's event fills; owned here for as long as that read is in progress.
    wake_count: crate::Slice,
    is_wake_armed: bool,
    is_closing: bool,
    /// Kept for its memory.
    harvested: Vec<(u64, i32)>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring({}, {} in flight)", self.description, self.slots.len())
    }
}

impl Ring {
    /// A ring for the calling thread. Fails if the kernel has none, forbids it, or has one that
    /// lacks something.
    pub fn new(in_flight: u32, waker: Waker) -> io::Result<Self> {
        let in_flight = in_flight.clamp(1, IN_FLIGHT_MAX);
        let (ring, description) = set_up(in_flight)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let has_all = prepare::OPCODES.iter().all(|&code| probe.is_supported(code));
        if !has_all || !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            return Err(ErrorKind::Unsupported.into());
        }
        let mut ring = Ring {
            ring,
            description,
            slots: Slots::new(in_flight),
            waker,
            wake_count: crate::Buffer::zeroed(8).whole(),
            is_wake_armed: false,
            is_closing: false,
            harvested: Vec::new(),
        };
        ring.arm_wake();
        Ok(ring)
    }

    pub fn describe(&self) -> &'static str {
        self.description
    }

    pub fn in_flight(&self) -> usize {
        self.slots.len()
    }

    pub fn submit(&mut self, token: u64, operation: Operation) -> Result<OperationId, SubmitError> {
        let scratch = Scratch::of(&operation);
        let content =
            InKernel { pending: Pending::new(token, operation), scratch, is_cancelled: false };
        let id = self.slots.insert(content).map_err(|back| SubmitError(back.pending.operation))?;
        self.push_slot(id);
        Ok(id)
    }

    pub fn cancel(&mut self, id: OperationId) {
        if let Some(content) = self.slots.get_mut(id) {
            content.is_cancelled = true;
            let cancel = opcode::AsyncCancel::new(id.to_word()).build().user_data(CANCEL);
            // SAFETY: a cancel has no addresses.
            unsafe { self.push(&cancel) };
        }
    }

    pub fn begin(&mut self) -> io::Result<()> {
        let is_due = !self.ring.submission().is_empty();
        if is_due { expect_some(self.ring.submit()) } else { Ok(()) }
    }

    pub fn poll(&mut self, out: &mut Vec<Completion>) -> io::Result<()> {
        let queue = self.ring.submission();
        let is_due = !queue.is_empty() || queue.taskrun() || queue.cq_overflow();
        drop(queue);
        if is_due {
            expect_some(self.ring.submit())?;
        }
        self.reap_completions(out);
        Ok(())
    }

    /// Whether a poll brings something. Task work that is due does not count: a wait does it first, and its flag may be up for nothing. The kernel
    /// raises it behind the work that it adds, which may have been done by then, and takes it down with the next work only.
    pub fn is_something_done(&mut self) -> bool {
        let has_overflown = self.ring.submission().cq_overflow();
        has_overflown || !self.harvested.is_empty() || !self.ring.completion().is_empty()
    }

    /// Begins what was submitted, and waits for so many completions.
    pub fn wait_for(
        &mut self,
        completions: usize,
        timeout: Option<Duration>,
        out: &mut Vec<Completion>,
    ) -> io::Result<()> {
        match timeout {
            None => expect_some(self.ring.submit_and_wait(completions))?,
            Some(timeout) => {
                let timeout = types::Timespec::from(timeout);
                let arguments = types::SubmitArgs::new().timespec(&timeout);
                expect_some(self.ring.submitter().submit_with_args(completions, &arguments))?;
            }
        }
        self.reap_completions(out);
        Ok(())
    }

    fn push_slot(&mut self, id: OperationId) {
        let content = self.slots.get_mut(id).expect("the caller has just found it");
        let entry = entry(&content.pending, &mut content.scratch).user_data(id.to_word());
        // SAFETY: the entry's addresses lie in the slot's buffers and scratch, on the heap, which
        // stay until the slot's completion was harvested.
        unsafe { self.push(&entry) };
    }

    fn arm_wake(&mut self) {
        let event = types::Fd(self.waker.event().as_raw_fd());
        let read = opcode::Read::new(event, self.wake_count.address(0), 8).build().user_data(WAKE);
        // SAFETY: the buffer and the waker, whose event this is, stay until the ring is dropped,
        // which waits for this read.
        unsafe { self.push(&read) };
        self.is_wake_armed = true;
    }

    /// # Safety
    /// What the entry points to stays until its completion was harvested.
    unsafe fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: by this function's own contract.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            // The kernel takes entries in at once. It refuses for want of memory only, or while
            // completions must be harvested first, which needs none of ours.
            if self.ring.submit().is_err() {
                self.queue_overflow();
            }
        }
    }

    /// Takes completions from the kernel's queue.
    fn queue_overflow(&mut self) {
        let queue = self.ring.completion();
        self.harvested.extend(queue.map(|entry| (entry.user_data(), entry.result())));
    }

    fn reap_completions(&mut self, out: &mut Vec<Completion>) {
        self.queue_overflow();
        // A push may stash more.
        while !self.harvested.is_empty() {
            let mut harvested = std::mem::take(&mut self.harvested);
            for (word, result) in harvested.drain(..) {
                self.take_wakeup(word, result, out);
            }
            if self.harvested.is_empty() {
                self.harvested = harvested;
            }
        }
    }

    fn take_wakeup(&mut self, word: u64, result: i32, out: &mut Vec<Completion>) {
        match word {
            CANCEL => {}
            WAKE => {
                self.is_wake_armed = false;
                if !self.is_closing {
                    self.arm_wake();
                }
            }
            word => self.finish(OperationId::from_word(word), result, out),
        }
    }

    /// Goes on with an operation that the kernel is done with, or hands it back.
    fn finish(&mut self, id: OperationId, result: i32, out: &mut Vec<Completion>) {
        let Some(InKernel { pending, is_cancelled, .. }) = self.slots.get_mut(id) else { return };
        let is_cancelled = *is_cancelled;
        let next = match (&pending.operation, result) {
            (Operation::Timeout { .. }, result) if result == -libc::ETIME => Next::End(Ok(0)),
            (_, result) if result < 0 => Next::End(Err(io::Error::from_raw_os_error(-result))),
            (Operation::Accept { .. }, fd) => {
                // SAFETY: the kernel has just opened this for us, and nobody else has it.
                pending.accepted = Some(unsafe { OwnedFd::from_raw_fd(fd) }.into());
                Next::End(Ok(0))
            }
            (_, bytes) => pending.advance(bytes as usize),
        };
        match next {
            // A cancel that came in the middle ended the step early.
            Next::Rest if !is_cancelled => self.push_slot(id),
            Next::Rest => self.hand_back(id, Err(cancelled()), out),
            Next::End(result) => self.hand_back(id, result, out),
        }
    }

    fn hand_back(&mut self, id: OperationId, result: io::Result<usize>, out: &mut Vec<Completion>) {
        let content = self.slots.remove(id);
        out.extend(content.map(|content| content.pending.complete(result)));
    }

    /// Cancels everything and waits for it.
    fn close(&mut self) -> io::Result<()> {
        self.is_closing = true;
        for id in self.slots.ids() {
            self.cancel(id);
        }
        if self.is_wake_armed {
            let cancel = opcode::AsyncCancel::new(WAKE).build().user_data(CANCEL);
            // SAFETY: a cancel has no addresses.
            unsafe { self.push(&cancel) };
        }
        let mut done = Vec::new();
        self.reap_completions(&mut done);
        while self.slots.len() > 0 || self.is_wake_armed {
            self.wait_for(1, None, &mut done)?;
            done.clear();
        }
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.close().is_err() {
            // The kernel may still write there, until the process ends.
            std::mem::forget(std::mem::replace(&mut self.slots, Slots::new(0)));
            let nothing = crate::Buffer::zeroed(0).whole();
            std::mem::forget(std::mem::replace(&mut self.wake_count, nothing));
            std::mem::forget(self.waker.clone());
        }
    }
}

/// A ring with the best flags that the kernel takes.
fn set_up(in_flight: u32) -> io::Result<(IoUring, &'static str)> {
    let entries = in_flight.next_power_of_two().min(QUEUE_ENTRIES_MAX);
    // Each operation may have a request to cancel beside it, and there is the waker.
    let completions = (2 * in_flight + 2).next_power_of_two().max(2 * entries);
    let mut builder = IoUring::builder();
    builder.setup_clamp().setup_cqsize(completions).setup_submit_all();
    let mut deferred = builder.clone();
    deferred.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    let mut cooperative = builder.clone();
    cooperative.setup_coop_taskrun().setup_taskrun_flag();
    let mut plain = IoUring::builder();
    plain.setup_clamp().setup_cqsize(completions);
    let deferred = deferred.build(entries).map(|ring| (ring, "io_uring, deferred task work"));
    let cooperative =
        || cooperative.build(entries).map(|ring| (ring, "io_uring, cooperative task work"));
    deferred
        .or_else(|_| cooperative())
        .or_else(|_| plain.build(entries).map(|ring| (ring, "io_uring")))
}

/// The outcomes of an enter that only mean: inspect what is done, and go round again.
pub(crate) fn expect_some(outcome: io::Result<usize>) -> io::Result<()> {
    match outcome.map_err(|error| (error.raw_os_error(), error)) {
        Ok(_) => Ok(()),
        Err((Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN), _)) => Ok(()),
        Err((_, error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;
    use std::os::unix::net::UnixStream;

    #[test]
    fn after_a_close_the_kernel_has_nothing_of_ours() {
        let waker = Waker::new().unwrap();
        let mut ring = match Ring::new(8, waker) {
            Ok(ring) => ring,
            Err(error) => return esker_base::skipped("the ring's close", error),
        };
        let (_peer, socket) = UnixStream::pair().unwrap();
        let into = Buffer::zeroed(8).whole();
        let receive = Operation::Receive { socket: socket.into(), into, all: true };
        ring.submit(1, receive).unwrap();
        ring.poll(&mut Vec::new()).unwrap();
        ring.submit(2, Operation::Timeout { after: Duration::from_secs(1000) }).unwrap();
        assert!(ring.slots.len() == 2 && ring.is_wake_armed);
        ring.close().unwrap();
        assert!(ring.slots.len() == 0 && !ring.is_wake_armed);
    }
}
