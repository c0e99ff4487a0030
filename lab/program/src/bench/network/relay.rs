//! The relay's thread: for each connection of a client one to the node, and two flows between them.
//!
//! Sockets are watched at their edges: whatever a socket or a pipe has space for is done at once, so that an edge is all there is to
//! wait for. One timer stands for the next piece that arrives.

use super::flow::Flow;
use super::wire::Wire;
use esker_base::Clock;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What events are called. Those of a connection's two sockets are twice its number, and one more.
const ENDED: u64 = 0;
const CALLERS: u64 = 1;
const TIMER: u64 = 2;
/// The number of the first connection.
const FIRST: u64 = 2;

pub struct Loop {
    epoll: OwnedFd,
    listener: TcpListener,
    node: SocketAddr,
    /// Closed when the relay is to end.
    _ended: OwnedFd,
    timer: OwnedFd,
    clock: Arc<dyn Clock>,
    /// To the node, and from it.
    wires: [Wire; 2],
    connections: HashMap<u64, Connection>,
    next: u64,
}

/// A connection.
struct Connection {
    id: u64,
    /// The client's, and the node's: a flow goes from the socket of its own index to the other.
    sockets: [TcpStream; 2],
    flows: [Flow; 2],
}

impl Loop {
    pub fn new(
        listener: TcpListener,
        node: SocketAddr,
        ended: OwnedFd,
        wires: [Wire; 2],
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        listener.set_nonblocking(true)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &ended, EventData::new_u64(ENDED), EventFlags::IN)?;
        epoll::add(&epoll, &listener, EventData::new_u64(CALLERS), EventFlags::IN)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
        let (connections, next) = (HashMap::new(), FIRST);
        Ok(Loop { epoll, listener, node, _ended: ended, timer, clock, wires, connections, next })
    }

    /// Passes on what comes until it is to end. `cpu` is set to the thread's processor time, in nanoseconds.
    pub fn run(&mut self, cpu: &AtomicU64) -> io::Result<()> {
        let mut events = Vec::with_capacity(64);
        loop {
            let timeout = self.set_timer()?;
            let room = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, room, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in events.drain(..) {
                match event.data.u64() {
                    ENDED => return Ok(()),
                    CALLERS => self.accept()?,
                    TIMER => {}
                    socket => self.serve(socket / 2, |connection, carry| {
                        let side = (socket % 2) as usize;
                        connection.take(side, carry)?;
                        connection.give(1 - side, carry)
                    }),
                }
            }
            self.deliver();
            cpu.store(thread_cpu_nanos(), Relaxed);
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let client = match self.listener.accept() {
                Ok((client, _)) => client,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            // A client whose node has gone sees its connection closed, as without a relay.
            let Ok(node) = TcpStream::connect(self.node) else { continue };
            let id = self.next;
            self.next += 1;
            for (side, socket) in [&client, &node].into_iter().enumerate() {
                socket.set_nodelay(true)?;
                socket.set_nonblocking(true)?;
                let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
                let name = EventData::new_u64(2 * id + side as u64);
                epoll::add(&self.epoll, socket, name, flags)?;
            }
            let flows = [Flow::new()?, Flow::new()?];
            self.connections.insert(id, Connection { id, sockets: [client, node], flows });
        }
    }

    /// Does something for a connection. One that fails is closed, to both sides.
    fn serve(
        &mut self,
        id: u64,
        what: impl FnOnce(&mut Connection, &mut Carry<'_>) -> io::Result<()>,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let mut carry = Carry { wires: &mut self.wires, clock: &*self.clock };
        let served = what(connection, &mut carry);
        if served.is_err() || connection.flows.iter().all(Flow::is_over) {
            self.connections.remove(&id);
        }
    }

    /// Gives on what has arrived.
    fn deliver(&mut self) {
        for way in 0..2 {
            let now = self.clock.now();
            while let Some(piece) = self.wires[way].receive(now) {
                self.serve(piece.connection, |connection, carry| {
                    connection.flows[way].arrive(piece.bytes);
                    connection.give(way, carry)
                });
            }
        }
    }

    /// Sets the timer for what arrives next. If it is there already, no wait is needed.
    fn set_timer(&self) -> io::Result<Option<Timespec>> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Some(due) = self.wires.iter().filter_map(Wire::next_due).min() else { return Ok(None) };
        let Some(after) = due.checked_sub(self.clock.now()).filter(|after| !after.is_zero()) else {
            return Ok(Some(zero));
        };
        let after = Timespec { tv_sec: after.as_secs() as _, tv_nsec: after.subsec_nanos().into() };
        let once = Itimerspec { it_interval: zero, it_value: after };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(None)
    }
}

/// What carries the bytes.
struct Carry<'a> {
    wires: &'a mut [Wire; 2],
    clock: &'a dyn Clock,
}

impl Connection {
    /// Takes what there is from the near end of a way, as far as there is space.
    fn take(&mut self, way: usize, carry: &mut Carry<'_>) -> io::Result<()> {
        while let Some(bytes) = self.flows[way].take(&self.sockets[way])? {
            carry.wires[way].send(carry.clock.now(), self.id, bytes);
        }
        Ok(())
    }

    /// Gives the far end of a way what has arrived there, and takes more if that has made space.
    fn give(&mut self, way: usize, carry: &mut Carry<'_>) -> io::Result<()> {
        match self.flows[way].give(&self.sockets[1 - way])? {
            true => self.take(way, carry),
            false => Ok(()),
        }
    }
}

fn thread_cpu_nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
