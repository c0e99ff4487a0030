//! The shell around connections: one thread that receives, sends, passes messages on and inspects the time.
//!
//! It goes round: first all that is done and all messages, also those that come of it, are given to whom they are for; then
//! what namespaces want of their devices is begun; then connections that were touched send and receive. So what a round answers on a
//! connection goes out together while devices work, and one system call begins what was submitted since and waits. What a socket takes at
//! once is sent at once, past the ring.

mod traffic;

use crate::connection::{Abandoned, Connection};
use crate::limits::{CONNECTIONS, OPERATIONS, SILENCE_TIME};
use crate::memory::{Account, Memory};
use crate::namespace::PerCoreNamespace;
use crate::orphaned_writes::Host;
use crate::poll_backoff::PollBackoff;
use crate::reactor_message::{
    ACCEPT, ACCEPT_TIMER, AbortedBy, ConnectionId, Message, RESIDENT, TICK,
};
use crate::reactor_namespaces::ReactorNamespaces;
use crate::secure::Wire;
use crate::stats::{Counters, add};
use crate::target_state::TargetState;
use crate::{Reply, Request};
use esker_base::Background;
use esker_uring::{Completion, Descriptor, Inbox, Operation, Reactor, Sender, mailbox};
use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// How often deadlines are inspected. They are of seconds.
pub(crate) const TICK_TIME: Duration = Duration::from_millis(100);

/// After an accept that failed, for want of descriptors say, the next one waits.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// What a reactor starts with.
pub(crate) struct Start {
    /// Its place among the reactors.
    pub(crate) number: usize,
    pub(crate) shared: Arc<TargetState>,
    pub(crate) counters: Arc<Counters>,
    /// The reactor that has it accepts for all.
    pub(crate) listener: Option<TcpListener>,
    /// Its parts of the namespaces that have parts.
    pub(crate) parts: Vec<Box<dyn PerCoreNamespace>>,
    pub(crate) background: Arc<dyn Background>,
}

/// Runs a reactor until it has shut down. Says by `started` how to reach it.
pub(crate) fn run(start: Start, started: &mpsc::Sender<io::Result<Sender<Message>>>) {
    let io = match Reactor::new(OPERATIONS, start.background.as_ref()) {
        Ok(io) => io,
        Err(error) => return drop(started.send(Err(error))),
    };
    let (own, inbox) = mailbox(&io);
    if started.send(Ok(own.clone())).is_ok() {
        TargetReactor::new(start, io, own, inbox).serve();
    }
}

struct TargetReactor {
    number: usize,
    shared: Arc<TargetState>,
    counters: Arc<Counters>,
    io: Reactor,
    own: Sender<Message>,
    inbox: Inbox<Message>,
    listener: Option<Descriptor>,
    /// The ring had no space for it.
    accept_is_due: bool,
    /// All reactors' mailboxes, and whose turn it is.
    reactors: Vec<Sender<Message>>,
    turn: usize,
    connections: HashMap<ConnectionId, ConnectionSlot>,
    memory: Rc<Memory>,
    /// Of connections that are gone: whose they were, and what namespaces have not answered.
    abandoned: HashMap<ConnectionId, (Option<Host>, Vec<Abandoned>)>,
    /// Connections that may have something to send, to receive or to hand on.
    touched: Vec<ConnectionId>,
    /// Aborts to be answered when what they ended was sent, and whether they ended it.
    aborts: Vec<(AbortedBy, bool)>,
    vacancy: PollBackoff,
    /// Whether the ring has a timer for the next tick.
    is_tick_armed: bool,
    next_tick: Duration,
    residents: ReactorNamespaces,
    drain_until: Option<Duration>,
    /// Kept until all connections are gone.
    drains: Option<mpsc::Sender<()>>,
    stops: bool,
}

struct ConnectionSlot {
    connection: Connection,
    socket: Descriptor,
    wire: Wire,
    shut: bool,
    is_touched: bool,
}

/// Bits of a token that say what the operation was; above them is the connection.
const KIND_BITS: u32 = 3;

impl TargetReactor {
    fn new(start: Start, io: Reactor, own: Sender<Message>, inbox: Inbox<Message>) -> Self {
        let settings = &start.shared.settings;
        let memory = Rc::new(Memory::of_each(settings.memory_bytes, settings.reactors));
        TargetReactor {
            number: start.number,
            shared: start.shared,
            counters: start.counters,
            io,
            own,
            inbox,
            listener: start.listener.map(Descriptor::from),
            accept_is_due: false,
            reactors: Vec::new(),
            turn: 0,
            connections: HashMap::new(),
            memory,
            abandoned: HashMap::new(),
            touched: Vec::new(),
            aborts: Vec::new(),
            vacancy: PollBackoff::default(),
            is_tick_armed: false,
            next_tick: Duration::ZERO,
            residents: ReactorNamespaces::new(start.parts),
            drain_until: None,
            drains: None,
            stops: false,
        }
    }

    fn serve(&mut self) {
        let mut completions = Vec::new();
        while !(self.stops && self.residents.is_idle()) {
            self.arm_tick();
            // Without a timer the wait ends by itself.
            let timeout = (!self.is_tick_armed).then_some(TICK_TIME);
            // A ring that fails can't be waited on: nothing can be served any more.
            if self.io.wait(timeout, &mut completions).is_err() {
                return;
            }
            for completion in completions.drain(..) {
                self.completed(completion);
            }
            self.take_messages();
            self.residents.end_round(&mut self.io);
            // The device works while answers are sent.
            if !self.touched.is_empty() && self.io.begin().is_err() {
                return;
            }
            for id in std::mem::take(&mut self.touched) {
                self.go_on(id);
            }
            self.give_turns();
            self.counters.held_bytes.store(self.memory.used_bytes() as u64, Relaxed);
            // Connections that sent may have had more requests.
            self.residents.end_round(&mut self.io);
            for (AbortedBy { to, connection, slot }, is_aborted) in self.aborts.drain(..) {
                // A reactor that is gone has no connection to answer.
                let _ = to.send(Message::Aborted { connection, slot, is_aborted });
            }
            if self.drain_until.is_some() {
                self.drop_drained();
            }
            if self.connections.is_empty() {
                self.drains = None;
            }
        }
    }

    /// Lets connections that wait for memory go on, in their order, as far as there is some.
    fn give_turns(&mut self) {
        let memory = self.memory.clone();
        self.give_turns_of(&memory.transfers, Connection::take_transfer_turn);
        self.give_turns_of(&memory.buffers, |connection| connection.take_receive_turn(true));
        self.give_turns_of(&memory.received, |connection| connection.take_receive_turn(false));
    }

    fn give_turns_of(&mut self, account: &Account, take: impl Fn(&mut Connection) -> bool) {
        while let Some(id) = account.first() {
            if let Some(served) = self.connections.get_mut(&id)
                && !take(&mut served.connection)
            {
                return;
            }
            account.next();
            self.go_on(id);
        }
    }

    fn arm_tick(&mut self) {
        if !self.is_tick_armed {
            let timer = Operation::Timeout { after: TICK_TIME };
            self.is_tick_armed = self.io.submit(TICK, timer).is_ok();
            if !self.is_tick_armed {
                self.tick();
            }
        }
    }

    /// Until there are none, those included that come of others.
    fn take_messages(&mut self) {
        loop {
            self.io.heed();
            let mut took = false;
            for place in 0..self.touched.len() {
                took |= self.hand_on_requests(self.touched[place]);
            }
            while let Some(message) = self.inbox.take() {
                self.message(message);
                took = true;
            }
            if !took {
                return;
            }
        }
    }

    /// Brings a connection's requests to where they belong. Says whether there were any.
    fn hand_on_requests(&mut self, id: ConnectionId) -> bool {
        let served = self.connections.get_mut(&id);
        let requests = served.map_or_else(Vec::new, |served| served.connection.take_requests());
        let had_any = !requests.is_empty();
        for (resident, request, reply) in requests {
            self.route(resident, request, reply);
        }
        had_any
    }

    /// Has a connection go on at the end of this round.
    fn touch(&mut self, id: ConnectionId) {
        if let Some(served) = self.connections.get_mut(&id)
            && !std::mem::replace(&mut served.is_touched, true)
        {
            self.touched.push(id);
        }
    }

    fn accept(&mut self) {
        if let Some(listener) = self.listener.clone().filter(|_| self.drain_until.is_none()) {
            // Connections that are gone may still have operations in the ring: then it is tried again at the next tick.
            let accept = self.io.submit(ACCEPT, Operation::Accept { listener });
            self.accept_is_due = accept.is_err();
        }
    }

    fn accept_later(&mut self) {
        let timer = Operation::Timeout { after: ACCEPT_AGAIN };
        self.accept_is_due = self.io.submit(ACCEPT_TIMER, timer).is_err();
    }

    fn completed(&mut self, completion: Completion) {
        match completion.token & ((1 << KIND_BITS) - 1) {
            ACCEPT => match completion.accepted {
                Some(socket) => {
                    self.hand_out(socket);
                    self.accept();
                }
                None => self.accept_later(),
            },
            ACCEPT_TIMER => self.accept(),
            TICK => {
                self.is_tick_armed = false;
                self.tick();
            }
            RESIDENT => {
                let resident = self.residents.completed(completion, &mut self.io);
                self.pass_on(resident);
            }
            _ => self.moved(completion),
        }
    }

    fn hand_out(&mut self, socket: Descriptor) {
        self.turn = (self.turn + 1) % self.reactors.len();
        let _ = self.reactors[self.turn].send(Message::Accepted(socket));
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Begin(reactors) => {
                self.reactors = reactors;
                self.accept();
            }
            Message::Accepted(socket) => self.welcome(socket),
            Message::Answered { connection, slot, answer } => {
                match self.connections.get_mut(&connection) {
                    Some(served) => {
                        served.connection.answered(slot, answer);
                        self.touch(connection);
                    }
                    None => self.answered_in_vain(connection, slot),
                }
            }
            Message::Computed { connection, slot, computed } => {
                if let Some(served) = self.connections.get_mut(&connection) {
                    served.connection.computed(slot, computed);
                    self.touch(connection);
                }
            }
            Message::Abort { connection, command_id, by } => {
                let served = self.connections.get_mut(&connection);
                let is_aborted = served.is_some_and(|served| served.connection.abort(command_id));
                self.touch(connection);
                self.aborts.push((by, is_aborted));
            }
            Message::Aborted { connection, slot, is_aborted } => {
                if let Some(served) = self.connections.get_mut(&connection) {
                    served.connection.abort_is_done(slot, is_aborted);
                    self.touch(connection);
                }
            }
            Message::Close { connection } => {
                if let Some(served) = self.connections.get_mut(&connection) {
                    served.connection.close();
                    self.touch(connection);
                }
            }
            Message::Request { resident, request, reply } => {
                self.residents.request(resident, request, reply, &mut self.io);
                self.pass_on(resident);
            }
            Message::Ping(pong) => {
                // Who has waited long enough has gone.
                let _ = pong.send(());
            }
            Message::Drain(drains) => self.drain(drains),
            Message::Stop => {
                self.stops = true;
                self.residents.close(&mut self.io);
            }
        }
    }

    /// Brings a request to the part that has to do with it.
    fn route(&mut self, resident: usize, request: Request, reply: Reply) {
        let owner = self.shared.residents[resident].owner(&request, self.reactors.len());
        match owner.filter(|&owner| owner != self.number) {
            Some(owner) => {
                // A reactor that is gone drops the reply, which answers for itself.
                let message = Message::Request { resident, request, reply };
                let _ = self.reactors[owner].send(message);
            }
            None => {
                self.residents.request(resident, request, reply, &mut self.io);
                self.pass_on(resident);
            }
        }
    }

    fn pass_on(&mut self, resident: usize) {
        for (request, reply) in self.residents.take_passed_on() {
            self.route(resident, request, reply);
        }
    }

    fn welcome(&mut self, socket: Descriptor) {
        if self.drain_until.is_some() || !self.has_room() {
            return;
        }
        // Answers are small and somebody waits for them.
        let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        // A host without a keep-alive time may vanish; then the system notices, some time.
        let _ = rustix::net::sockopt::set_socket_keepalive(&socket, true);
        let local = rustix::net::getsockname(&socket).ok().and_then(|name| name.try_into().ok());
        let local = local.unwrap_or(self.shared.address);
        let (shared, counters) = (self.shared.clone(), self.counters.clone());
        let (own, memory) = (self.own.clone(), self.memory.clone());
        let connection = Connection::new(shared, local, own, counters, memory);
        add(&self.counters.connections_opened, 1);
        let id = connection.id();
        let wire = match self.shared.host_keys {
            Some(_) => Wire::Undecided,
            None => Wire::Clear,
        };
        let served = ConnectionSlot { connection, socket, wire, shut: false, is_touched: false };
        self.connections.insert(id, served);
        self.touch(id);
    }

    /// Whether one more connection is taken. If there are too many, the one whose host was silent longest may make space. It is looked
    /// for once in a tick, however many are refused: the time of messages is known no finer.
    fn has_room(&mut self) -> bool {
        if self.connections.len() < CONNECTIONS {
            return true;
        }
        let now = self.shared.clock.now();
        let silent = self.connections.iter().filter_map(|(&id, served)| {
            let since = served.connection.silent_since()?;
            (now >= since + SILENCE_TIME).then_some((since, id))
        });
        let Some((_, id)) = self.vacancy.look(now, || silent.min()) else { return false };
        self.forget(id);
        true
    }

    /// Drops a connection. Shutting its socket down ends the operations that still keep it open.
    fn forget(&mut self, id: ConnectionId) {
        if let Some(mut served) = self.connections.remove(&id) {
            add(&self.counters.connections_closed, 1);
            let (host, abandoned) = (served.connection.host(), served.connection.abandon());
            if !abandoned.is_empty() {
                if let Some(host) = &host {
                    // Before the peer can know that the connection is gone.
                    let changes = abandoned.iter().filter(|command| command.is_change).count();
                    self.shared.lost_changes.add(host, changes);
                }
                self.abandoned.insert(id, (host, abandoned));
            }
            let _ = rustix::net::shutdown(&served.socket, rustix::net::Shutdown::Both);
        }
    }

    /// No receiver is there.
    fn answered_in_vain(&mut self, connection: ConnectionId, slot: u16) {
        let Some((host, commands)) = self.abandoned.get_mut(&connection) else { return };
        if let Some(place) = commands.iter().position(|command| command.slot == slot) {
            let command = commands.swap_remove(place);
            self.memory.transfers.give_back(command.reserved);
            self.memory.received.give_back(command.received);
            if let Some(host) = host.as_ref().filter(|_| command.is_change) {
                self.shared.lost_changes.done(host);
            }
        }
        if commands.is_empty() {
            self.abandoned.remove(&connection);
        }
    }

    fn tick(&mut self) {
        let now = self.shared.clock.now();
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + TICK_TIME;
        if self.accept_is_due {
            self.accept();
        }
        let late = self.drain_until.is_some_and(|until| now >= until);
        let ids: Vec<_> = self.connections.keys().copied().collect();
        for id in ids {
            if let Some(served) = self.connections.get_mut(&id) {
                let has_more = served.connection.tick(now);
                if late {
                    served.connection.close();
                }
                if late || has_more {
                    self.touch(id);
                }
            }
        }
    }

    /// Admin queues whose I/O queues are gone by now go, too.
    fn drop_drained(&mut self) {
        let over = |(id, served): (&ConnectionId, &ConnectionSlot)| {
            served.connection.is_over().then_some(*id)
        };
        let over: Vec<_> = self.connections.iter().filter_map(over).collect();
        over.into_iter().for_each(|id| self.forget(id));
    }

    fn drain(&mut self, drains: mpsc::Sender<()>) {
        self.drains = Some(drains);
        let time = self.shared.settings.drain_time;
        self.drain_until.get_or_insert(self.shared.clock.now() + time);
        let ids: Vec<_> = self.connections.keys().copied().collect();
        for id in ids {
            if let Some(served) = self.connections.get_mut(&id) {
                served.connection.drain();
                self.touch(id);
            }
        }
    }
}
