//! The primary: listens for followers and serves each by a thread of its own.

use crate::error::{ReplicationError, Result};
use crate::serving::{self, Known, Served};
use crate::wire::{Stop, Wire};
use esker_base::background::Running;
use esker_base::{
    Background, Clock, Entropy, Priority, Seqno, SystemClock, SystemEntropy, Threads,
};
use esker_lsm::Db;
use esker_nvme::Nqn;
use esker_target::Access;
use parking_lot::Mutex;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

/// The name of a primary, unless its settings say another one.
pub const PRIMARY_NQN: &str = "nqn.2024-01.io.esker:node";

/// How often it is looked whether a follower connects.
const LOOK: Duration = Duration::from_millis(20);

/// Followers at once.
const CONNECTIONS_MAX: usize = 64;

/// Connections at once that are still to say whom they serve. A further one ends the oldest of them.
const UNKNOWN_MAX: usize = 16;

/// How long a primary that stops goes on sending, unless its settings say another time.
const STOP_TIME: Duration = Duration::from_secs(5);

/// How a primary serves its followers. Start from [`PrimarySettings::new`]; a method per field changes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PrimarySettings {
    /// The address to listen at. With port 0, the system chooses the port.
    pub listen: SocketAddr,
    /// The hosts that may follow. Default: any, without authentication.
    pub access: Access,
    /// The name of the primary, which is a part of what is authenticated. Default: [`PRIMARY_NQN`].
    pub subsystem: Nqn,
    /// The most bytes of flushed logs that are kept for each follower, connected or not. Default: 1 GiB.
    pub bound_bytes: u64,
    /// How long [`Primary::stop`] waits for followers to apply the last writes. Default: 5 seconds.
    pub stop_time: Duration,
}

impl PrimarySettings {
    /// Returns the default settings: any host may follow.
    pub fn new(listen: SocketAddr) -> Self {
        let subsystem = Nqn::new(PRIMARY_NQN).expect("it is a name");
        let (access, bound_bytes, stop_time) = (Access::Anyone, 1 << 30, STOP_TIME);
        PrimarySettings { listen, access, subsystem, bound_bytes, stop_time }
    }

    /// Sets how long [`Primary::stop`] waits for followers to apply the last writes.
    #[must_use]
    pub fn stop_time(mut self, stop_time: Duration) -> Self {
        self.stop_time = stop_time;
        self
    }

    /// Sets the hosts that may follow.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Sets the name of the primary.
    #[must_use]
    pub fn subsystem(mut self, subsystem: Nqn) -> Self {
        self.subsystem = subsystem;
        self
    }

    /// Sets the most bytes of flushed logs that are kept for each follower.
    #[must_use]
    pub fn bound_bytes(mut self, bound_bytes: u64) -> Self {
        self.bound_bytes = bound_bytes;
        self
    }
}

/// A follower that is connected, as the primary sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct FollowerInfo {
    /// Its name.
    pub name: String,
    /// The address that it connects from.
    pub address: String,
    /// The last write that was sent to it.
    pub sent: Seqno,
    /// The last write that it has applied, as durably as its log is.
    pub applied: Seqno,
    /// How many writes it is behind the last one of the primary.
    pub behind: u64,
    /// How long it has been behind: since the primary first saw a write that the follower has not applied.
    pub behind_time: Duration,
    /// Bytes that were sent to it by this connection.
    pub bytes: u64,
    /// How often it got a base by this connection.
    pub bases: u64,
}

/// What the threads of a primary share.
pub(crate) struct Shared {
    // Constant after the start.
    pub(crate) db: Db,
    pub(crate) settings: PrimarySettings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) stop: Stop,

    pub(crate) connections: Mutex<Vec<Connection>>,
}

pub(crate) struct Connection {
    pub(crate) served: Arc<Served>,
    pub(crate) stop: Stop,
    thread: Option<Box<dyn Running>>,
}

/// Serves the followers of a database until it is stopped or dropped.
///
/// It keeps the database open.
pub struct Primary {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<Box<dyn Running>>,
}

impl Primary {
    /// Listens for followers of `db`.
    ///
    /// # Errors
    /// [`ReplicationError::Unreachable`] if the address cannot be listened at, and
    /// [`ReplicationError::Database`] if the database is read-only or follows another one itself.
    pub fn start(db: Db, settings: PrimarySettings) -> Result<Primary> {
        db.lineage()?;
        let failed = |source| ReplicationError::Unreachable {
            action: "listen at",
            address: settings.listen.to_string(),
            source: Arc::new(source),
        };
        let listener = TcpListener::bind(settings.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            db,
            settings: settings.clone(),
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
            stop: Stop::default(),
            connections: Mutex::default(),
        });
        let listening = shared.clone();
        let body = Box::new(move || listening.listen(&listener));
        let thread = Threads.spawn("esker-followers", Priority::Normal, body)?;
        Ok(Primary { shared, address, thread })
    }

    /// Returns the address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the followers that are connected, by name.
    pub fn followers(&self) -> Vec<FollowerInfo> {
        let (last, now) = (self.shared.db.snapshot().seqno(), self.shared.clock.now());
        let connections = self.shared.connections.lock();
        let mut infos: Vec<_> =
            connections.iter().filter_map(|it| it.served.info(last, now)).collect();
        infos.sort_by(|a, b| a.name.cmp(&b.name));
        infos
    }

    /// Waits until all followers that are connected have applied what is written by now, for
    /// [`PrimarySettings::stop_time`] at most. Then it ends all connections and stops listening.
    ///
    /// A drop does the same without the wait.
    pub fn stop(self) {
        self.stop_with(|_| {});
    }

    /// As [`Primary::stop`], and passes the followers that are behind to `tell`: when it begins to wait, when the
    /// connection of one ends, and when it stops waiting for them.
    pub fn stop_with(self, mut tell: impl FnMut(StopNotice)) {
        let (clock, last) = (self.shared.clock.clone(), self.shared.db.snapshot().seqno());
        let until = clock.now().saturating_add(self.shared.settings.stop_time);
        let is_behind = |info: &FollowerInfo| info.applied < last;
        let mut waits_for: Vec<_> = self.followers().into_iter().filter(is_behind).collect();
        if waits_for.is_empty() {
            return;
        }
        tell(StopNotice::Waits(waits_for.clone()));
        loop {
            let connected = self.followers();
            let is_gone = |info: &mut FollowerInfo| connected.iter().all(|it| it.name != info.name);
            let gone: Vec<_> = waits_for.extract_if(.., is_gone).collect();
            if !gone.is_empty() {
                tell(StopNotice::Gone(gone));
            }
            waits_for = connected.into_iter().filter(is_behind).collect();
            if waits_for.is_empty() {
                return;
            }
            if clock.now() >= until {
                return tell(StopNotice::GivesUp(waits_for));
            }
            clock.sleep(LOOK);
        }
    }
}

/// What a primary that stops says of followers that have not applied all writes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StopNotice {
    /// It waits for them.
    Waits(Vec<FollowerInfo>),
    /// Their connections have ended: they get the rest when the primary is started again.
    Gone(Vec<FollowerInfo>),
    /// It waits no longer: they get the rest when the primary is started again.
    GivesUp(Vec<FollowerInfo>),
}

impl Drop for Primary {
    fn drop(&mut self) {
        self.shared.stop.set();
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
    }
}

impl std::fmt::Debug for Primary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Primary").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Shared {
    fn listen(self: &Arc<Self>, listener: &TcpListener) {
        while !self.stop.is_set() {
            match listener.accept() {
                Ok((socket, peer)) => {
                    let stop = Stop::default();
                    let wire = Wire::new(socket, peer, self.clock.clone(), stop.clone());
                    if let Ok(wire) = wire {
                        self.begin(wire, peer, stop);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.clock.sleep(LOOK),
                // The peer went away, or descriptors are short for now.
                Err(_) => self.clock.sleep(LOOK),
            }
            self.reap();
        }
        let connections = std::mem::take(&mut *self.connections.lock());
        connections.iter().for_each(|connection| connection.stop.set());
        for connection in connections {
            connection.thread.map(|thread| thread.join());
        }
    }

    fn begin(self: &Arc<Self>, mut wire: Wire, peer: SocketAddr, stop: Stop) {
        let mut connections = self.connections.lock();
        let unknown: Vec<_> = connections.iter().filter(|it| !it.served.is_known()).collect();
        let mut waiting = unknown.iter().filter(|it| !it.stop.is_set());
        if waiting.clone().count() >= UNKNOWN_MAX {
            // Otherwise peers that say nothing would keep followers out.
            waiting.next().into_iter().for_each(|oldest| oldest.stop.set());
        }
        let known = connections.len() - unknown.len();
        // Those that are asked to end need a while.
        if known >= CONNECTIONS_MAX || unknown.len() >= 2 * CONNECTIONS_MAX {
            drop(connections);
            return wire.refuse("there are too many followers");
        }
        let served = Arc::new(Served::new(peer));
        let (shared, serving) = (self.clone(), served.clone());
        let body = Box::new(move || serving::serve(&shared, wire, &serving));
        // Without a thread, the follower sees the connection end and tries again.
        let Ok(thread) = Threads.spawn("esker-follower", Priority::Normal, body) else { return };
        connections.push(Connection { served, stop, thread });
    }

    /// Lets go of connections that have ended.
    fn reap(&self) {
        let is_over = |it: &Connection| it.thread.as_ref().is_none_or(|thread| thread.is_over());
        let mut connections = self.connections.lock();
        let over: Vec<_> = connections.extract_if(.., |it| is_over(it)).collect();
        drop(connections);
        for connection in over {
            connection.thread.map(|thread| thread.join());
        }
    }

    /// Makes `by` the connection of a follower, and ends its other ones, which are half dead. Fails while another follower
    /// of this name, which has another id, is connected.
    pub(crate) fn admit(&self, follower: Known, by: &Arc<Served>) -> Result<()> {
        let connections = self.connections.lock();
        let is_other =
            |it: &&Connection| !Arc::ptr_eq(&it.served, by) && it.served.is_of(&follower.consumer);
        let others: Vec<_> = connections.iter().filter(is_other).collect();
        if let Some(other) = others.iter().find(|other| !other.served.is_same(&follower)) {
            let Known { name, .. } = follower;
            let address = other.served.address();
            let why = format!(
                "a follower called {name:?} is connected from {address}; give this one another name"
            );
            return Err(ReplicationError::NameTaken { why });
        }
        others.iter().for_each(|other| other.stop.set());
        by.become_known(follower);
        Ok(())
    }
}
