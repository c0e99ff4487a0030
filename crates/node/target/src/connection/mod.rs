//! One connection, as a state machine: bytes and answers go in, bytes and requests come out. It does no I/O and keeps no
//! time; the reactor does, by [`receive`](Connection::receive), [`received`](Connection::received),
//! [`unsent`](Connection::unsent), [`sent`](Connection::sent), [`answered`](Connection::answered) and
//! [`tick`](Connection::tick).
//!
//! ```text
//! Opening ── ICReq ──► Open: Connect makes it a queue ──► Ending: what is queued is sent ──► Over
//!    └───────────────────── a fatal error: it is told, then ─┘
//! ```
//!
//! When the target shuts down, a queue takes no more commands, but the data of those it has; an admin queue stays until the I/O
//! queues of its controller, which end with it, are gone.
//!
//! A command takes a slot until it is answered; slots are as many as the queue has entries, so a peer that sends more is
//! at fault. A slot's number is the tag of its R2T. Transfers and answers beyond a limit of memory wait in order. From a peer
//! that leaves too much of what it is sent unread, nothing is received.
//!
//! What a namespace answers at once is completed before the next command is inspected; and when there is much to send, that is sent
//! before more commands are. Commands that were received and not inspected are, when something was sent, or is in progress.

mod admin;
mod auth;
pub(crate) mod authenticator;
mod capsule;
mod commands;
mod fabrics;
mod feature_values;
mod features;
mod io;
mod long_keys;
mod queue;
mod recv_buffer;
mod send_queue;
mod submission;
mod transfer;

use crate::limits::{CONNECT_TIME, LINGER_TIME};
use crate::memory::{CONNECTION_FLOOR_BYTES, Memory};
use crate::orphaned_writes::Host;
use crate::reactor_message::{ConnectionId, Message};
use crate::stalls::{Stalls, Transfers};
use crate::stats::{Counters, add};
use crate::target_state::TargetState;
use crate::{Answer, Reply, Request};
use capsule::{CapsuleData, CommandCapsule};
pub(crate) use commands::Abandoned;
use commands::Commands;
use esker_nvme::limits::{H2C_DATA_BYTES, IN_CAPSULE_BYTES};
use esker_nvme::pdu::{
    DataDigest, Encoder, FatalError, HostPdu, InitializeRequest, InitializeResponse, Limits,
    Sender as Side,
};
use esker_nvme::{Cqe, Status};
use esker_tls::Peer;
use esker_uring::{Sender, Slice};
use queue::Queue;
use recv_buffer::{Bytes, Input};
use send_queue::Output;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const LIMITS: Limits =
    Limits { command_data_bytes: IN_CAPSULE_BYTES as usize, data_bytes: H2C_DATA_BYTES as usize };

/// See the file's head.
pub(crate) struct Connection {
    // Constant after construction.
    id: ConnectionId,
    local: SocketAddr,
    shared: Arc<TargetState>,
    mailbox: Sender<Message>,
    /// What is computed for the connection is not, once this is gone.
    lives: Arc<()>,
    counters: Arc<Counters>,

    phase: Phase,
    /// When the phase, or the host's silence, ends the connection.
    deadline: Option<Duration>,
    /// Whether anything came since the last tick, and the tick behind what came last.
    was_heard: bool,
    last_heard: Duration,
    input: Input,
    output: Output,
    encoder: Encoder,
    commands: Commands,
    /// For namespaces with parts in reactors: the namespace's number among those.
    requests: Vec<(usize, Request, Reply)>,
    /// To commands in slots, given at once. None is left when a call of the reactor ends.
    answers: VecDeque<(u16, Answer)>,
    /// Whom the host proved to be by TLS.
    secured: Option<Peer>,
    /// Once connected.
    queue: Option<Queue>,
    /// The reactor's, and what of it this connection holds in addition to its commands: of the received,
    /// and buffers.
    memory: Rc<Memory>,
    held: (usize, usize),
    /// Whether it waits in line to receive, and whether it is its turn.
    waits_to_receive: bool,
    has_turn: bool,
    /// The oldest transfer that an R2T asked for, all of these, the PDU that has begun to come, and
    /// what is sent.
    stalls: Stalls,
}

/// Why a connection can't receive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lack {
    /// It has too much to send, or is throttled.
    Output,
    /// Memory for what comes.
    Received,
    /// Memory for a buffer of so many bytes.
    Buffer(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Opening,
    Open,
    /// What is in progress is finished; nothing new is taken.
    Draining,
    /// What is queued is sent, and what comes is thrown away.
    Ending,
    Over,
}

impl Connection {
    pub(crate) fn new(
        shared: Arc<TargetState>,
        local: SocketAddr,
        mailbox: Sender<Message>,
        counters: Arc<Counters>,
        memory: Rc<Memory>,
    ) -> Self {
        let now = shared.clock.now();
        let id = shared.next_connection();
        Connection {
            id,
            local,
            mailbox,
            lives: Arc::new(()),
            counters,
            phase: Phase::Opening,
            deadline: Some(now + CONNECT_TIME),
            was_heard: false,
            last_heard: now,
            input: Input::new(Side::Host, LIMITS),
            output: Output::default(),
            encoder: Encoder::new(Default::default(), 0),
            commands: Commands::new(id, memory.clone()),
            requests: Vec::new(),
            answers: VecDeque::new(),
            secured: None,
            queue: None,
            memory,
            held: (0, 0),
            waits_to_receive: false,
            has_turn: false,
            stalls: Stalls::default(),
            shared,
        }
    }

    pub(crate) fn id(&self) -> ConnectionId {
        self.id
    }

    /// The host has proved by TLS who it is.
    pub(crate) fn is_secured(&mut self, peer: &Peer) {
        self.secured.get_or_insert_with(|| peer.clone());
    }

    /// Requests for parts of namespaces, each with the number of its namespace among those that have parts.
    pub(crate) fn take_requests(&mut self) -> Vec<(usize, Request, Reply)> {
        std::mem::take(&mut self.requests)
    }

    /// Space to receive into, if anything more is wanted and there is memory for it. It is given
    /// back by [`received`](Self::received). With it comes whether all of it is to be waited for.
    pub(crate) fn receive(&mut self) -> Option<(Slice, bool)> {
        if self.phase == Phase::Over || !self.input.is_here() {
            return None;
        }
        let may_wait = std::mem::take(&mut self.has_turn);
        if self.takes_frames() {
            match self.lack(may_wait) {
                None => {}
                Some(Lack::Output) => return None,
                Some(lack) => {
                    self.wait_to_receive(lack);
                    return None;
                }
            }
        }
        if self.memory.buffers.is_half_used() {
            self.input.expect_nothing();
        }
        let more_comes = self.commands.oldest_transfer().is_some();
        let room = self.input.room(more_comes);
        self.count_memory();
        room
    }

    /// What is missing to receive. Who has had its turn need not wait for others in line.
    fn lack(&self, has_turn: bool) -> Option<Lack> {
        let is_free = |account: &crate::memory::Account, bytes| match has_turn {
            true => account.has_room(bytes),
            false => account.has_room_beside_waiting(bytes),
        };
        if self.is_output_full() || self.is_held_back() {
            return Some(Lack::Output);
        }
        let own = self.commands.received_bytes() + self.output.unreserved_bytes();
        if own >= CONNECTION_FLOOR_BYTES && !is_free(&self.memory.received, 1) {
            return Some(Lack::Received);
        }
        let extra = self.input.missing_extra();
        (extra > 0 && !is_free(&self.memory.buffers, extra)).then_some(Lack::Buffer(extra))
    }

    /// Whether the peer leaves so much unread that nothing more is to be answered.
    fn is_output_full(&self) -> bool {
        let is_over = self.output.unreserved_bytes() >= CONNECTION_FLOOR_BYTES
            && !self.memory.received.has_room(1);
        is_over || self.output.is_full()
    }

    /// Whether it is an I/O queue of a host that left changes behind on other connections, which
    /// are not done: what comes here may be the same ones, sent again.
    fn is_held_back(&self) -> bool {
        if self.shared.lost_changes.is_empty() {
            return false;
        }
        let is_io = self.queue.as_ref().is_some_and(|queue| !queue.is_admin());
        is_io && self.host().is_some_and(|host| self.shared.lost_changes.has_any(&host))
    }

    /// Inspects what came while it was throttled. Says whether there was anything.
    fn go_on_unless_held_back(&mut self) -> bool {
        let is_io = self.queue.as_ref().is_some_and(|queue| !queue.is_admin());
        if !is_io || !self.input.is_here() || self.is_held_back() {
            return false;
        }
        self.take_frames();
        true
    }

    fn wait_to_receive(&mut self, lack: Lack) {
        if !std::mem::replace(&mut self.waits_to_receive, true) {
            match lack {
                Lack::Buffer(_) => self.memory.buffers.wait(self.id),
                _ => self.memory.received.wait(self.id),
            }
        }
    }

    /// It is first in line to receive, for want of a buffer or of memory for what comes. Says
    /// whether it has had its turn: otherwise there is still no space for it.
    pub(crate) fn take_receive_turn(&mut self, of_buffers: bool) -> bool {
        let is_short = match self.lack(true) {
            Some(Lack::Received) => !of_buffers,
            Some(Lack::Buffer(_)) => of_buffers,
            Some(Lack::Output) | None => false,
        };
        if is_short && self.takes_frames() {
            return false;
        }
        (self.waits_to_receive, self.has_turn) = (false, true);
        true
    }

    /// Counts what it holds in addition to its commands.
    pub(crate) fn count_memory(&mut self) {
        let (received, buffers) = &mut self.held;
        self.memory.received.hold(received, self.output.unreserved_bytes());
        self.memory.buffers.hold(buffers, self.input.extra_bytes());
    }

    /// What namespaces have not answered, to be accounted for when this is gone.
    pub(crate) fn abandon(&mut self) -> Vec<Abandoned> {
        self.commands.abandon()
    }

    /// Whose it is, once it is connected.
    pub(crate) fn host(&self) -> Option<Host> {
        let controller = &self.queue.as_ref()?.controller;
        Some((controller.host.clone(), controller.host_id))
    }

    /// Whether a transfer is stalled, and not because the node receives nothing.
    fn is_stalled(&mut self, now: Duration) -> bool {
        let receives = !self.waits_to_receive && !self.is_held_back() && !self.is_output_full();
        let transfers = Transfers {
            is_memory_short: self.memory.is_short(),
            oldest: self.commands.oldest_transfer().filter(|_| receives),
            asked_for: self.commands.asked_for_bytes(),
            transferred: self.commands.transferred_bytes(),
            half_received: self.input.half_received(),
            output: self.output.progress(),
            output_held: self.output.held_bytes(),
        };
        self.stalls.look(now, &transfers)
    }

    /// `bytes` came into `room`; none means that the peer sends no more.
    pub(crate) fn received(&mut self, room: Slice, bytes: usize) {
        add(&self.counters.received_bytes, bytes as u64);
        self.input.give_back(room, bytes);
        self.was_heard = true;
        if bytes == 0 {
            self.phase = Phase::Over;
        } else if self.phase == Phase::Ending {
            self.input.discard();
        } else {
            self.take_frames();
        }
    }

    fn take_frames(&mut self) {
        let mut bytes = self.input.take();
        if let Err(fatal) = self.take_frames_from(&mut bytes) {
            self.end(&fatal, bytes.unread());
        }
        self.input.put(bytes);
        self.take_answers();
    }

    /// After an error, what is unread begins with the PDU that is wrong.
    fn take_frames_from(&mut self, bytes: &mut Bytes) -> Result<(), FatalError> {
        while self.takes_frames()
            && !self.is_output_full()
            && !self.output.is_enough()
            && !self.is_held_back()
        {
            let Some(frame) = self.input.scanner.scan(bytes.unread())? else { break };
            self.input.frames += 1;
            let header = frame.header;
            if frame.digest == DataDigest::Padded {
                self.encoder.pad_digests();
            }
            match HostPdu::parse(&frame)? {
                HostPdu::Command(sqe, payload) => {
                    let intact = payload.is_intact();
                    self.input.expect_another(header);
                    if self.may_begin()
                        && let Some(data) = bytes.detach_buffer(&header)
                    {
                        self.begin(
                            &sqe,
                            CommandCapsule { data: CapsuleData::Given(data), intact },
                        )?;
                        self.take_answers();
                        continue;
                    }
                    let data = &bytes.unread()[header.data_start..header.data_end];
                    self.begin(&sqe, CommandCapsule { data: CapsuleData::Shown(data), intact })?;
                }
                other => self.handle(other)?,
            }
            bytes.advance(header.pdu_bytes);
            self.take_answers();
        }
        Ok(())
    }

    fn takes_frames(&self) -> bool {
        matches!(self.phase, Phase::Opening | Phase::Open | Phase::Draining)
    }

    fn handle(&mut self, pdu: HostPdu<'_>) -> Result<(), FatalError> {
        match pdu {
            HostPdu::Initialize(request) => self.open(&request),
            HostPdu::Command(..) => {}
            HostPdu::Data { header, payload, last } => {
                return self.host_data(&header, payload, last);
            }
            HostPdu::Terminate(_) => self.phase = Phase::Over,
        }
        Ok(())
    }

    fn open(&mut self, request: &InitializeRequest) {
        self.phase = Phase::Open;
        self.input.scanner.agreed(request.digests);
        self.encoder = Encoder::new(request.digests, request.data_alignment);
        let response = InitializeResponse {
            data_alignment: 0,
            digests: request.digests,
            host_data_bytes_max: H2C_DATA_BYTES,
        };
        self.output.text().extend_from_slice(&response.encode());
    }

    /// The peer broke the protocol: it is notified, and that is all.
    fn end(&mut self, fatal: &FatalError, pdu: &[u8]) {
        add(&self.counters.terminated, 1);
        let header = &pdu[..pdu.len().min(esker_nvme::pdu::TERM_BYTES_MAX)];
        Encoder::controller_termination(fatal, header, self.output.text());
        self.phase = Phase::Ending;
        self.deadline = Some(self.shared.clock.now() + LINGER_TIME);
    }

    /// What may be sent now: nothing while something is in progress. Then say [`sent`](Self::sent).
    pub(crate) fn unsent(&mut self) -> Vec<IoSlice<'_>> {
        self.output.unsent()
    }

    /// So many bytes of it were sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        add(&self.counters.sent_bytes, bytes as u64);
        let released = self.output.sent(bytes);
        self.made_room(released);
    }

    /// What is unsent, to be in progress until all of it [was sent](Self::rest_sent).
    pub(crate) fn take_unsent(&mut self) -> Vec<Slice> {
        let slices = self.output.take_unsent();
        // What is answered now has to wait for these, and need not be waited for.
        self.made_room(0);
        slices
    }

    /// All that was in progress was sent.
    pub(crate) fn rest_sent(&mut self, bytes: usize) {
        add(&self.counters.sent_bytes, bytes as u64);
        let released = self.output.rest_sent();
        self.made_room(released);
    }

    fn made_room(&mut self, released: usize) {
        self.commands.release(released);
        self.go_on();
        if self.input.is_here() {
            // Those that came when there was enough to send.
            self.take_frames();
        }
    }

    /// A request of the command in `slot` was answered.
    pub(crate) fn answered(&mut self, slot: u16, answer: Answer) {
        self.answers.push_back((slot, answer));
        self.take_answers();
    }

    /// Completes a command that has a slot no more.
    fn complete(&mut self, cqe: Cqe) {
        add(&self.counters.commands, 1);
        // These are answers: a probe of a key that is not there is no failure of the node.
        let answers = [Status::KEY_NOT_FOUND, Status::KEY_EXISTS];
        let is_answer = answers.into_iter().any(|answer| cqe.status().is(answer));
        if !cqe.status().is_success() && !is_answer {
            add(&self.counters.failed, 1);
        }
        let (head, id) = self.queue.as_ref().map_or((0, 0), Queue::place);
        self.encoder.response(&cqe.with_queue(head, id), self.output.text());
    }

    fn fail(&mut self, command_id: u16, status: Status) {
        self.complete(Cqe::new(command_id, status));
    }

    fn reply(&self, slot: u16) -> Reply {
        Reply::new(self.mailbox.clone(), self.id, slot)
    }

    /// Stops taking commands; those in progress are finished.
    pub(crate) fn drain(&mut self) {
        match self.phase {
            Phase::Open if self.queue.is_some() => self.phase = Phase::Draining,
            Phase::Opening | Phase::Open => self.phase = Phase::Over,
            _ => {}
        }
    }

    /// Ends it at once.
    pub(crate) fn close(&mut self) {
        self.phase = Phase::Over;
    }

    /// Inspects the time. Says whether there is anything to do about it.
    pub(crate) fn tick(&mut self, now: Duration) -> bool {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.phase = Phase::Over;
        }
        if std::mem::take(&mut self.was_heard) {
            self.last_heard = now;
        }
        if self.takes_frames() && self.is_stalled(now) {
            add(&self.counters.stalled, 1);
            self.phase = Phase::Over;
        }
        match self.phase {
            Phase::Over => true,
            Phase::Ending => false,
            _ => self.connect_again() || self.tell_of_failures() || self.go_on_unless_held_back(),
        }
    }

    /// When the host last sent something, if nothing but a claimed name let it in and nothing else ends its silence: then the
    /// connection may make space for another. An admin queue goes after its I/O queues.
    pub(crate) fn silent_since(&self) -> Option<Duration> {
        let queue = self.queue.as_ref().filter(|queue| !queue.has_secret)?;
        let keep_alive = queue.controller.keep_alive();
        let is_long = keep_alive.is_zero() || keep_alive > crate::limits::SILENCE_TIME;
        let may_go = is_long && !self.has_io_queues();
        may_go.then_some(self.last_heard)
    }

    /// Whether all is done that will be: to be dropped.
    pub(crate) fn is_over(&self) -> bool {
        match self.phase {
            Phase::Over => true,
            Phase::Draining => {
                self.commands.is_idle() && self.output.is_empty() && !self.has_io_queues()
            }
            _ => false,
        }
    }

    /// Whether others end with this one.
    fn has_io_queues(&self) -> bool {
        let admin = self.queue.as_ref().filter(|queue| queue.is_admin());
        admin.is_some_and(|queue| queue.controller.has_io_queues())
    }

    /// Whether the peer is to be notified that nothing more comes: the end was sent.
    pub(crate) fn is_drained(&self) -> bool {
        self.phase == Phase::Ending && self.output.is_empty()
    }
}

impl Drop for Connection {
    /// A connection that goes gives its memory back. A queue leaves its controller; an admin queue
    /// takes it along.
    fn drop(&mut self) {
        self.memory.received.give_back(self.held.0);
        self.memory.buffers.give_back(self.held.1);
        let Some(queue) = &self.queue else { return };
        if queue.id == 0 {
            self.shared.registry.remove(queue.controller.id);
            queue.controller.end();
        } else {
            queue.controller.remove_queue(self.id);
        }
    }
}
