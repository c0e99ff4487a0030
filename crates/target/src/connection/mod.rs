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
//! When the target drains, a queue takes no more commands, but the data of those it has; an admin queue stays until the I/O
//! queues of its controller, which end with it, are gone.
//!
//! A command takes a slot until it is answered; slots are as many as the queue has entries, so a peer that sends more is
//! at fault. A slot's number is the tag of its R2T. Transfers and answers beyond a limit of memory wait in order. From a peer
//! that leaves too much of what it is sent unread, nothing is received.
//!
//! What a namespace answers at once is completed before the next command is looked at; and when there is much to send, that is sent
//! before more commands are. Commands that were received and not looked at are, when something was sent, or is under way.

mod admin;
mod auth;
mod commands;
mod fabrics;
mod features;
mod input;
mod io;
mod long_keys;
mod output;
mod queue;

use crate::limits::{CONNECT_TIME, LINGER_TIME};
use crate::lost::Host;
use crate::message::{ConnectionId, Message};
use crate::shared::Shared;
use crate::stats::{Counters, add};
use crate::{Answer, Reply, Request};
use commands::Commands;
use esker_nvme::limits::{H2C_DATA_BYTES, IN_CAPSULE_BYTES};
use esker_nvme::pdu::{
    DataDigest, Encoder, Fatal, FromHost, InitializeRequest, InitializeResponse, Limits,
    Sender as Side,
};
use esker_nvme::{Cqe, Status};
use esker_uring::{Sender, Slice};
use input::{Bytes, Input};
use io::{Capsule, CapsuleData};
use output::Output;
use queue::Queue;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const LIMITS: Limits =
    Limits { command_data_bytes: IN_CAPSULE_BYTES as usize, data_bytes: H2C_DATA_BYTES as usize };

/// See the file's head.
pub(crate) struct Connection {
    // Constant after construction.
    id: ConnectionId,
    local: SocketAddr,
    shared: Arc<Shared>,
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
    /// Once connected.
    queue: Option<Queue>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Opening,
    Open,
    /// What is under way is finished; nothing new is taken.
    Draining,
    /// What is queued is sent, and what comes is thrown away.
    Ending,
    Over,
}

impl Connection {
    pub(crate) fn new(
        shared: Arc<Shared>,
        local: SocketAddr,
        mailbox: Sender<Message>,
        counters: Arc<Counters>,
    ) -> Self {
        let now = shared.clock.now();
        Connection {
            id: shared.next_connection(),
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
            commands: Commands::default(),
            requests: Vec::new(),
            answers: VecDeque::new(),
            queue: None,
            shared,
        }
    }

    pub(crate) fn id(&self) -> ConnectionId {
        self.id
    }

    /// Requests for parts of namespaces, each with the number of its namespace among those that have parts.
    pub(crate) fn take_requests(&mut self) -> Vec<(usize, Request, Reply)> {
        std::mem::take(&mut self.requests)
    }

    /// Room to receive into, if anything more is wanted. It is given back by [`received`](Self::received).
    /// With it comes whether all of it is to be waited for.
    pub(crate) fn receive(&mut self) -> Option<(Slice, bool)> {
        match self.phase {
            Phase::Over => None,
            Phase::Opening | Phase::Open | Phase::Draining if self.output.is_full() => None,
            _ => self.input.room(),
        }
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
    fn take_frames_from(&mut self, bytes: &mut Bytes) -> Result<(), Fatal> {
        while self.takes_frames() && !self.output.is_full() && !self.output.is_enough() {
            let Some(frame) = self.input.scanner.scan(bytes.unread())? else { break };
            let header = frame.header;
            if frame.digest == DataDigest::Padded {
                self.encoder.pad_digests();
            }
            match FromHost::parse(&frame)? {
                FromHost::Command(sqe, payload) => {
                    let intact = payload.is_intact();
                    self.input.expect_another(header);
                    if self.may_begin()
                        && let Some(data) = bytes.give_away(&header)
                    {
                        self.begin(&sqe, Capsule { data: CapsuleData::Given(data), intact })?;
                        self.take_answers();
                        continue;
                    }
                    let data = &bytes.unread()[header.data_start..header.data_end];
                    self.begin(&sqe, Capsule { data: CapsuleData::Shown(data), intact })?;
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

    fn handle(&mut self, pdu: FromHost<'_>) -> Result<(), Fatal> {
        match pdu {
            FromHost::Initialize(request) => self.open(&request),
            FromHost::Command(..) => {}
            FromHost::Data { header, payload, last } => {
                return self.host_data(&header, payload, last);
            }
            FromHost::Terminate(_) => self.phase = Phase::Over,
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

    /// The peer broke the protocol: it is told so, and that is all.
    fn end(&mut self, fatal: &Fatal, pdu: &[u8]) {
        add(&self.counters.terminated, 1);
        let header = &pdu[..pdu.len().min(esker_nvme::pdu::TERM_BYTES_MAX)];
        Encoder::controller_termination(fatal, header, self.output.text());
        self.phase = Phase::Ending;
        self.deadline = Some(self.shared.clock.now() + LINGER_TIME);
    }

    /// What may be sent now: nothing while something is under way. Then say [`sent`](Self::sent).
    pub(crate) fn unsent(&mut self) -> Vec<IoSlice<'_>> {
        self.output.unsent()
    }

    /// So many bytes of it were sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        add(&self.counters.sent_bytes, bytes as u64);
        let released = self.output.sent(bytes);
        self.made_room(released);
    }

    /// What is unsent, to be under way until all of it [was sent](Self::rest_sent).
    pub(crate) fn take_unsent(&mut self) -> Vec<Slice> {
        let slices = self.output.take_unsent();
        // What is answered now has to wait for these, and need not be waited for.
        self.made_room(0);
        slices
    }

    /// All that was under way was sent.
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
        if !cqe.status().is_success() {
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

    /// Stops taking commands; those under way are finished.
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

    /// Looks at the time. Says whether there is anything to do about it.
    pub(crate) fn tick(&mut self, now: Duration) -> bool {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.phase = Phase::Over;
        }
        if std::mem::take(&mut self.was_heard) {
            self.last_heard = now;
        }
        match self.phase {
            Phase::Over => true,
            Phase::Ending => false,
            _ => self.connect_again() || self.tell_of_failures(),
        }
    }

    /// When the host was last heard, if nothing but a claimed name let it in and nothing else ends its silence: then the
    /// connection may make room for another. An admin queue goes after its I/O queues.
    pub(crate) fn silent_since(&self) -> Option<Duration> {
        let queue = self.queue.as_ref().filter(|queue| !queue.has_secret)?;
        let keep_alive = queue.controller.keep_alive();
        let is_long = keep_alive.is_zero() || keep_alive > crate::limits::SILENCE_TIME;
        let may_go = is_long && !self.has_io_queues();
        may_go.then_some(self.last_heard)
    }

    /// Whose it is, and the slots of changes that a namespace has and has not answered. None if there are none.
    pub(crate) fn changes_under_way(&self) -> Option<(Host, Vec<u16>)> {
        let controller = &self.queue.as_ref()?.controller;
        let changes: Vec<_> = self.commands.changes().collect();
        let host = || (controller.host.clone(), controller.host_id);
        (!changes.is_empty()).then(|| (host(), changes))
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

    /// Whether the peer is to be told that nothing more comes: the end was sent.
    pub(crate) fn has_said_all(&self) -> bool {
        self.phase == Phase::Ending && self.output.is_empty()
    }
}

impl Drop for Connection {
    /// A queue that goes leaves its controller; an admin queue takes it along.
    fn drop(&mut self) {
        let Some(queue) = &self.queue else { return };
        if queue.id == 0 {
            self.shared.registry.remove(queue.controller.id);
            queue.controller.end();
        } else {
            queue.controller.remove_queue(self.id);
        }
    }
}
