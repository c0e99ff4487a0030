//! An I/O queue that threads share.
//!
//! Each thread writes its own command. Of those that wait for an answer, one at a time reads the socket, hands out
//! what comes, and passes the reading on when its own answer is there. So a caller alone waits for the socket and for
//! no other thread, and many callers cost no thread in addition to their own.
//!
//! Data that an R2T asks for is sent by the command's owner, who has it; nothing is copied to be kept.
//!
//! A queue that failed stays so: every caller gets the error, and the association is made anew. A caller whose time is over before a byte
//! of its command was written fails alone: the others' may well be answered.

use crate::RemoteError;
use crate::command_table::{CommandTable, NextStep};
use crate::deadline::{WAIT_TIME, left};
use crate::sync_connection::{self, Outgoing, SyncConnection, UnsentCommand};
use crate::wire::{self, Wire};
use esker_base::Clock;
use esker_nvme::pdu::{ControllerPdu, Decoder, Encoder, ReadyToTransfer};
use esker_nvme::{Cqe, Sqe};
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::io::Errno;
use rustix::net::connect_unspec;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

/// Between two attempts to reset a socket that a thread still waits for.
const BUSY_TIME: Duration = Duration::from_millis(1);

pub(crate) struct QueuePair {
    // Constant after construction.
    wire: Wire,
    address: String,
    encoder: Encoder,
    data_bytes_max: usize,
    capsule_bytes: usize,
    clock: Arc<dyn Clock>,
    /// One for each place; its owner sleeps on it.
    answered: Vec<Condvar>,
    freed: Condvar,

    state: Mutex<State>,
    /// Held while a PDU is written, so that none comes between.
    writing: Mutex<()>,
    /// Whether the state has an error, for who does not want to wait for it.
    has_failed: AtomicBool,
    /// Places taken, likewise.
    under_way: AtomicUsize,
}

struct State {
    slots: CommandTable,
    /// Away while a thread reads.
    decoder: Option<Decoder>,
    failed: Option<RemoteError>,
}

/// A command that was sent.
#[must_use]
pub(crate) struct CommandHandle {
    place: u16,
}

/// Of some queues the one that is least busy; of several, the first from the one on whose turn it is.
pub(crate) fn least_busy(queues: &[QueuePair], turn: usize) -> &QueuePair {
    let turn = turn % queues.len();
    let (behind, before) = (&queues[turn..], &queues[..turn]);
    behind.iter().chain(before).min_by_key(|queue| queue.load()).unwrap_or(&queues[turn])
}

impl QueuePair {
    pub(crate) fn new(link: SyncConnection, depth: u16) -> Self {
        let slots = CommandTable::new(depth);
        let state = State { slots, decoder: Some(link.decoder), failed: None };
        QueuePair {
            wire: link.wire,
            address: link.address,
            encoder: link.encoder,
            data_bytes_max: link.data_bytes_max,
            capsule_bytes: link.capsule_bytes,
            clock: link.deadline.clock,
            answered: (0..depth).map(|_| Condvar::new()).collect(),
            freed: Condvar::new(),
            state: Mutex::new(state),
            writing: Mutex::new(()),
            has_failed: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
        }
    }

    /// Fails all commands in progress, and those to come.
    pub(crate) fn end(&self, error: &RemoteError) {
        self.fail(&mut self.state.lock(), error.clone());
    }

    /// As [`end`](Self::end), for a reason that does not keep another connection from doing better.
    pub(crate) fn lose(&self, why: &str) {
        self.fail(&mut self.state.lock(), self.lost(why));
    }

    fn lost(&self, why: &str) -> RemoteError {
        RemoteError::Lost { address: self.address.clone(), why: why.to_owned() }
    }

    /// Waits until the node has closed a queue that failed, or until a time. What it did not receive until then it never
    /// does.
    pub(crate) fn part(&self, until: Duration) {
        let mut unread = [0; 4096];
        while self.clock.now() < until {
            match self.wire.read(&mut unread) {
                Ok(1..) => {}
                Err(error) if wire::is_no_failure(&error) => {}
                _ => return,
            }
        }
        self.throw_away();
    }

    /// Resets the connection: the system would go on to send what it took, whatever the next association does meanwhile.
    fn throw_away(&self) {
        // Who reads stops: while a thread waits for the socket, Linux says that it is busy.
        let _ = self.wire.socket.shutdown(Shutdown::Read);
        while let Err(Errno::BUSY) = connect_unspec(&self.wire.socket) {
            self.clock.sleep(BUSY_TIME);
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Acquire)
    }

    /// How busy it is, to compare: first whether a thread writes just now, for whom a command would have to wait; then the commands in
    /// flight, whose owners are woken for each other's answers.
    fn load(&self) -> (bool, usize) {
        (self.writing.is_locked(), self.under_way.load(Relaxed))
    }

    fn take(&self, state: &mut State, reads: usize) -> Option<u16> {
        let place = state.slots.take(reads)?;
        self.under_way.fetch_add(1, Relaxed);
        Some(place)
    }

    /// Sends a command that writes `data` or reads up to `reads` bytes, when a place is free. After an error it was
    /// not carried out: the last of its bytes were never taken for sending.
    pub(crate) fn begin(
        &self,
        sqe: Sqe,
        data: &[u8],
        reads: u32,
        deadline: Duration,
    ) -> Result<CommandHandle, RemoteError> {
        let place = self.take_place(reads as usize, deadline)?;
        self.send(place, sqe, data, reads, deadline)
    }

    /// As [`begin`](Self::begin), if a place is free now. Who has commands in progress must not wait for a place: those
    /// who hold the others may wait for theirs.
    pub(crate) fn begin_now(
        &self,
        sqe: Sqe,
        data: &[u8],
        reads: u32,
        deadline: Duration,
    ) -> Result<Option<CommandHandle>, RemoteError> {
        let mut state = self.state.lock();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        let place = self.take(&mut state, reads as usize);
        drop(state);
        place.map(|place| self.send(place, sqe, data, reads, deadline)).transpose()
    }

    fn send(
        &self,
        place: u16,
        mut sqe: Sqe,
        data: &[u8],
        reads: u32,
        deadline: Duration,
    ) -> Result<CommandHandle, RemoteError> {
        sqe.set_command_id(place);
        let out =
            sync_connection::command(&self.encoder, self.capsule_bytes, &mut sqe, data, reads);
        match self.write(&[out], deadline) {
            Ok(()) => Ok(CommandHandle { place }),
            Err(UnsentCommand { error: RemoteError::Deadline, is_begun: false }) => {
                self.state.lock().slots.give_back(place);
                self.under_way.fetch_sub(1, Relaxed);
                self.freed.notify_one();
                Err(RemoteError::Deadline)
            }
            Err(unwritten) => Err(self.broke_off(unwritten.error)),
        }
    }

    /// Waits for the answer to `ticket`. `data` is what it was begun with. After the deadline the queue has failed:
    /// it is unknown what else will not come. The deadline is this caller's alone: to others the connection is lost.
    pub(crate) fn finish(
        &self,
        ticket: CommandHandle,
        data: &[u8],
        deadline: Duration,
    ) -> Result<(Cqe, Vec<u8>), RemoteError> {
        let place = ticket.place;
        let mut state = self.state.lock();
        loop {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            match state.slots.next(place)? {
                NextStep::Done { cqe, data, intact } => {
                    self.under_way.fetch_sub(1, Relaxed);
                    self.pass_on(state);
                    self.freed.notify_one();
                    let damaged =
                        || sync_connection::unexpected("data that does not match its digest");
                    return intact.then_some((cqe, data)).ok_or_else(damaged);
                }
                NextStep::Transfer(ready) => {
                    // Another reads while this one writes: the node may not take more before its answers are taken.
                    self.pass_on(state);
                    let sent = self.transfer(&ready, data, deadline);
                    state = self.state.lock();
                    if let Err(error) = sent {
                        self.fail(&mut state, error.clone());
                        return Err(error);
                    }
                }
                NextStep::Wait => {
                    if self.clock.now() >= deadline {
                        let lost = self.lost("a command was not answered in time");
                        self.fail(&mut state, lost);
                        return Err(RemoteError::Deadline);
                    } else if let Some(decoder) = state.decoder.take() {
                        self.read(&mut state, decoder);
                    } else {
                        self.sleep(&mut state, place, deadline);
                    }
                }
            }
        }
    }

    fn transfer(
        &self,
        ready: &ReadyToTransfer,
        data: &[u8],
        deadline: Duration,
    ) -> Result<(), RemoteError> {
        let out = sync_connection::transfer(&self.encoder, self.data_bytes_max, ready, data)?;
        // The command was sent, and waits for its data: it can't be taken back.
        self.write(&out, deadline).map_err(|unwritten| self.broke_off(unwritten.error))
    }

    fn take_place(&self, reads: usize, deadline: Duration) -> Result<u16, RemoteError> {
        let mut state = self.state.lock();
        loop {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if let Some(place) = self.take(&mut state, reads) {
                return Ok(place);
            }
            let left = left(&*self.clock, deadline)?;
            self.freed.wait_for(&mut state, left.min(WAIT_TIME));
        }
    }

    /// The queue has failed: it is unknown where the next PDU would begin, or its node waits for what does not come. Here, too, a deadline
    /// is its caller's alone.
    fn broke_off(&self, error: RemoteError) -> RemoteError {
        let to_others = match &error {
            RemoteError::Deadline => self.lost("a command could not be sent in time"),
            error => error.clone(),
        };
        self.fail(&mut self.state.lock(), to_others);
        error
    }

    /// Writes all, in its turn.
    fn write(&self, pdus: &[Outgoing<'_>], deadline: Duration) -> Result<(), UnsentCommand> {
        let not_begun = |error| UnsentCommand { error, is_begun: false };
        let (clock, left) = (&*self.clock, left(&*self.clock, deadline).map_err(not_begun)?);
        let writing = self.writing.try_lock_for(left);
        let writing = writing.ok_or(not_begun(RemoteError::Deadline))?;
        // Behind a PDU that is not whole nothing may follow: the node would take it for the rest.
        if let Some(error) = &self.state.lock().failed {
            return Err(not_begun(error.clone()));
        }
        let written = sync_connection::write_all(&self.wire, &self.address, pdus, clock, deadline);
        if let Err(UnsentCommand { error, is_begun: true }) = &written {
            self.broke_off(error.clone());
        }
        drop(writing);
        written
    }

    /// Reads once for all. Others are woken when the state is free: they want it at once.
    fn read(&self, state: &mut MutexGuard<'_, State>, mut decoder: Decoder) {
        let read = MutexGuard::unlocked(state, || self.wire.read(decoder.space()));
        let mut answered = Vec::new();
        let outcome = match read {
            Ok(0) => Err(sync_connection::closed(&self.address)),
            Ok(bytes) => {
                decoder.filled(bytes);
                hand_out(&mut decoder, &mut state.slots, &mut answered)
            }
            Err(error) if wire::is_no_failure(&error) => Ok(()),
            Err(error) => Err(sync_connection::lost(&self.address, &error)),
        };
        state.decoder = Some(decoder);
        if let Err(error) = outcome {
            self.fail(state, error);
        }
        answered.retain(|&place| state.slots.get(place).is_ok_and(|slot| slot.waits));
        if !answered.is_empty() {
            MutexGuard::unlocked(state, || answered.iter().for_each(|&place| self.wake(place)));
        }
    }

    fn wake(&self, place: u16) {
        self.answered[usize::from(place)].notify_one();
    }

    /// Wakes another to read, if no thread does.
    fn pass_on(&self, state: MutexGuard<'_, State>) {
        let reader = state.decoder.as_ref().and_then(|_| state.slots.sleeper());
        drop(state);
        if let Some(place) = reader {
            self.wake(place);
        }
    }

    fn sleep(&self, state: &mut MutexGuard<'_, State>, place: u16, deadline: Duration) {
        let left = deadline.saturating_sub(self.clock.now());
        if let Ok(slot) = state.slots.get(place) {
            slot.waits = true;
        }
        self.answered[usize::from(place)].wait_for(state, left);
        if let Ok(slot) = state.slots.get(place) {
            slot.waits = false;
        }
    }

    /// The first error stays, and wakes all.
    fn fail(&self, state: &mut State, error: RemoteError) {
        if state.failed.is_none() {
            state.failed = Some(error);
            self.has_failed.store(true, Release);
            // The node takes all that was sent, and closes.
            let _ = self.wire.socket.shutdown(Shutdown::Write);
        }
        self.answered.iter().for_each(|answered| {
            answered.notify_all();
        });
        self.freed.notify_all();
    }
}

/// Brings what came to the places that it is for, and says which have something to do.
fn hand_out(
    decoder: &mut Decoder,
    slots: &mut CommandTable,
    answered: &mut Vec<u16>,
) -> Result<(), RemoteError> {
    while let Some(frame) = decoder.next_frame()? {
        answered.extend(slots.received(ControllerPdu::parse(&frame)?)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_nvme::pdu::{Digests, InitializeResponse, Limits, Sender};
    use std::io::Read;
    use std::io::{ErrorKind, Write};
    use std::net::TcpStream;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    const DEPTH: u16 = 2;
    const TIME: Duration = Duration::from_secs(5);

    /// Each inspection of this clock takes a second.
    #[derive(Default)]
    struct Ticking(AtomicU64);

    impl Clock for Ticking {
        fn now(&self) -> Duration {
            Duration::from_secs(self.0.fetch_add(1, SeqCst))
        }
        fn sleep(&self, _duration: Duration) {}
    }

    /// A queue, and the node's end of its connection. That is none of TCP, whose buffers may grow, and shift what they hold, at any time: here
    /// there is space again when the node has read, and not before.
    fn queue() -> (QueuePair, TcpStream) {
        let (socket, node) = UnixStream::pair().unwrap();
        let [socket, node] = [socket, node].map(|end| TcpStream::from(OwnedFd::from(end)));
        socket.set_write_timeout(Some(Duration::from_millis(1))).unwrap();
        let limits = Limits { command_data_bytes: 0, data_bytes: 1 << 20 };
        let decoder = Some(Decoder::new(Sender::Controller, limits));
        let state = State { slots: CommandTable::new(DEPTH), decoder, failed: None };
        let queue = QueuePair {
            wire: Wire::clear(socket),
            address: "the node".to_owned(),
            encoder: Encoder::new(Digests::default(), 0),
            data_bytes_max: 1 << 20,
            capsule_bytes: usize::MAX,
            clock: Arc::new(Ticking::default()),
            answered: (0..DEPTH).map(|_| Condvar::new()).collect(),
            freed: Condvar::new(),
            state: Mutex::new(state),
            writing: Mutex::new(()),
            has_failed: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
        };
        (queue, node)
    }

    fn begin(queue: &QueuePair, data: &[u8]) -> Result<u16, RemoteError> {
        let deadline = queue.clock.now() + TIME;
        queue.begin(Sqe([0; 64]), data, 0, deadline).map(|ticket| ticket.place)
    }

    /// Which of the queues gets the next command, whose turn it is.
    fn chosen(queues: &[QueuePair], turn: usize) -> usize {
        let queue = least_busy(queues, turn);
        queues.iter().position(|other| std::ptr::eq(other, queue)).unwrap()
    }

    #[test]
    fn queues_that_are_as_busy_take_turns() {
        let (queues, _nodes): (Vec<_>, Vec<_>) = (0..3).map(|_| queue()).unzip();
        assert_eq!([0, 1, 2, 3, 7].map(|turn| chosen(&queues, turn)), [0, 1, 2, 0, 1]);
    }

    #[test]
    fn a_command_goes_to_the_queue_with_the_fewest_under_way() {
        let (queues, _nodes): (Vec<_>, Vec<_>) = (0..3).map(|_| queue()).unzip();
        for (queue, count) in queues.iter().zip([1, 2, 0]) {
            (0..count).for_each(|_| assert!(begin(queue, b"").is_ok()));
        }
        assert_eq!([0, 1, 2].map(|turn| chosen(&queues, turn)), [2; 3]);
        assert!(begin(&queues[2], b"").is_ok());
        assert_eq!([0, 1, 2].map(|turn| chosen(&queues, turn)), [0, 2, 2]);
    }

    /// A command would have to wait until that is written.
    #[test]
    fn a_queue_that_somebody_writes_to_gets_a_command_last() {
        let (queues, _nodes): (Vec<_>, Vec<_>) = (0..2).map(|_| queue()).unzip();
        (0..2).for_each(|_| assert!(begin(&queues[1], b"").is_ok()));
        let _writing = queues[0].writing.lock();
        assert_eq!(chosen(&queues, 0), 1);
    }

    #[test]
    fn a_command_of_which_nothing_was_written_in_time_fails_alone() {
        let (queue, mut node) = queue();
        let mut waiting = 0;
        let full = loop {
            match (&queue.wire.socket).write(&[7; 1 << 10]) {
                Ok(written) => waiting += written,
                Err(error) => break error.kind(),
            }
        };
        assert_eq!(full, ErrorKind::WouldBlock);
        // More often than there are places: each is given back.
        for _ in 0..=DEPTH {
            let late = begin(&queue, b"");
            assert!(matches!(late, Err(RemoteError::Deadline)), "{late:?}");
        }
        assert!(!queue.has_failed());
        node.read_exact(&mut vec![0; waiting]).unwrap();
        let place = begin(&queue, b"").expect("the node takes it now");
        let mut capsule = [0; 72];
        node.read_exact(&mut capsule).unwrap();
        assert_eq!((capsule[0], capsule[4], capsule[10]), (4, 72, place as u8), "whole");
    }

    #[test]
    fn commands_are_its_load_until_they_are_over() {
        let (mut queue, mut node) = queue();
        queue.clock = Arc::new(esker_base::SystemClock::new());
        let deadline = queue.clock.now() + TIME;
        let ticket = queue.begin(Sqe([0; 64]), b"", 0, deadline).unwrap();
        assert_eq!(queue.load(), (false, 1));
        let writing = queue.writing.lock();
        assert_eq!(queue.load(), (true, 1));
        let soon = queue.clock.now() + Duration::from_millis(20);
        assert!(queue.begin_now(Sqe([0; 64]), b"", 0, soon).is_err(), "it was not written");
        drop(writing);
        assert_eq!(queue.load(), (false, 1));
        let opened = InitializeResponse {
            data_alignment: 0,
            digests: Digests::default(),
            host_data_bytes_max: 1 << 20,
        };
        let mut state = queue.state.lock();
        let decoder = state.decoder.as_mut().expect("nobody reads");
        decoder.push(&opened.encode());
        assert!(decoder.next_frame().unwrap().is_some());
        drop(state);
        let mut answer = Vec::new();
        let cqe = Cqe::new(ticket.place, esker_nvme::Status::SUCCESS);
        queue.encoder.response(&cqe, &mut answer);
        node.write_all(&answer).unwrap();
        queue.finish(ticket, b"", deadline).unwrap();
        assert_eq!(queue.load(), (false, 0));
    }

    #[test]
    fn a_command_that_waits_for_its_turn_to_be_written_fails_alone() {
        let (mut queue, _node) = queue();
        queue.clock = Arc::new(esker_base::SystemClock::new());
        let writing = queue.writing.lock();
        let deadline = queue.clock.now() + Duration::from_millis(20);
        let late = queue.begin(Sqe([0; 64]), b"", 0, deadline).map(|_| ());
        assert!(matches!(late, Err(RemoteError::Deadline)), "{late:?}");
        drop(writing);
        assert!(!queue.has_failed());
        assert!(begin(&queue, b"").is_ok());
    }

    #[test]
    fn a_command_that_was_written_in_part_fails_the_queue() {
        let (queue, _node) = queue();
        let late = begin(&queue, &vec![7; 64 << 20]);
        assert!(matches!(late, Err(RemoteError::Deadline)), "{late:?}");
        assert!(queue.has_failed());
        let next = begin(&queue, b"");
        assert!(matches!(next, Err(RemoteError::Lost { .. })), "{next:?}");
    }

    /// A clock that does not advance until it is set.
    #[derive(Default)]
    struct Set(AtomicU64);

    impl Clock for Set {
        fn now(&self) -> Duration {
            Duration::from_secs(self.0.load(SeqCst))
        }
        fn sleep(&self, _duration: Duration) {}
    }

    /// The node would take what comes next for the rest.
    #[test]
    fn behind_a_pdu_that_was_cut_off_the_turn_to_write_is_not_passed_on_before_the_queue_has_failed()
     {
        /// Ample for a turn that is free.
        const PATIENCE: Duration = Duration::from_millis(200);
        let ((mut queue, mut node), clock) = (queue(), Arc::new(Set::default()));
        queue.clock = clock.clone();
        std::thread::scope(|scope| {
            let cut_off = scope.spawn(|| begin(&queue, &vec![7; 64 << 20]));
            // The node reads the beginning, and then no more.
            node.read_exact(&mut [0; 72]).unwrap();
            // So that the queue can't be made to fail meanwhile.
            let state = queue.state.lock();
            clock.0.store(2 * TIME.as_secs(), SeqCst);
            let turn = queue.writing.try_lock_for(PATIENCE);
            assert!(turn.is_none(), "another could write now, and know of no failure");
            drop((turn, state));
            let cut_off = cut_off.join().unwrap();
            assert!(matches!(cut_off, Err(RemoteError::Deadline)), "{cut_off:?}");
        });
        let next = begin(&queue, b"another's");
        assert!(matches!(next, Err(RemoteError::Lost { .. })), "{next:?}");
        let mut came = Vec::new();
        node.read_to_end(&mut came).unwrap();
        assert!(came.iter().all(|&byte| byte == 7), "something follows the data");
    }
}
