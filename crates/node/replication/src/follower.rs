//! A follower: a thread that connects to the primary, applies what it sends, and connects again.

use crate::auth;
use crate::base::{self, Begun};
use crate::error::{ReplicationError, Result};
use crate::message::{Message, VERSION};
use crate::primary::PRIMARY_NQN;
use crate::wire::{Stop, Wire};
use esker_base::background::Running;
use esker_base::{
    Background, Clock, Entropy, Priority, Seqno, SystemClock, SystemEntropy, Threads,
};
use esker_lsm::{Db, Env, Origin, Replica, Settings};
use esker_nvme::Nqn;
use esker_nvme::auth::Secret;
use esker_nvme::tls::{TlsKey, TlsPsk};
use esker_storage::{PosixStorage, Storage};
use esker_tls::client_psks;
use parking_lot::{Condvar, Mutex};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The name of a follower's host, unless its settings say another one.
pub const FOLLOWER_NQN: &str = "nqn.2024-01.io.esker:host";

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// How long the primary may be silent. It says every second that it is there, but not during a flush, while it makes a
/// base ready, or while it reads one table of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// So many times what the primary sends may not fit at the same write. Then the follower begins anew with a base.
const MISFITS_MAX: u32 = 3;

/// The pause before another connection.
const RETRY: Duration = Duration::from_millis(500);

/// How often the primary is notified while there is more to apply.
const NOTIFY_EVERY: Duration = Duration::from_millis(50);

const CURRENT: &str = "CURRENT";

/// Whom a follower follows, and how. Start from [`FollowerSettings::new`]; a method per field changes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FollowerSettings {
    /// The address of the primary.
    pub primary: SocketAddr,
    /// The name of the follower, which no other one of the primary has. The primary keeps logs by this name.
    pub name: String,
    /// The settings of the follower's own database. Its log is in files in its directory.
    pub database: Settings,
    /// The NQN of this host. Default: [`FOLLOWER_NQN`].
    pub host: Nqn,
    /// The name of the primary, which is a part of what is authenticated. Default: [`PRIMARY_NQN`].
    pub subsystem: Nqn,
    /// The secret of this host. Default: none.
    pub secret: Option<Secret>,
    /// The secret that the primary must prove to have. Default: none.
    pub controller_secret: Option<Secret>,
    /// The TLS key of this host. With one, it connects by TLS only. Default: none.
    pub tls_key: Option<TlsKey>,
    /// The pause before another connection. Default: half a second.
    pub retry: Duration,
}

impl FollowerSettings {
    /// Returns the default settings of a follower called `name`.
    pub fn new(primary: SocketAddr, name: impl Into<String>) -> Self {
        let nqn = |name| Nqn::new(name).expect("it is a name");
        FollowerSettings {
            primary,
            name: name.into(),
            database: Settings::default(),
            host: nqn(FOLLOWER_NQN),
            subsystem: nqn(PRIMARY_NQN),
            secret: None,
            controller_secret: None,
            tls_key: None,
            retry: RETRY,
        }
    }

    /// Sets the settings of the follower's own database.
    #[must_use]
    pub fn database(mut self, settings: Settings) -> Self {
        self.database = settings;
        self
    }

    /// Sets the NQN of this host.
    #[must_use]
    pub fn host(mut self, host: Nqn) -> Self {
        self.host = host;
        self
    }

    /// Sets the name of the primary.
    #[must_use]
    pub fn subsystem(mut self, subsystem: Nqn) -> Self {
        self.subsystem = subsystem;
        self
    }

    /// Sets the secret of this host.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<Option<Secret>>) -> Self {
        self.secret = secret.into();
        self
    }

    /// Sets the TLS key of this host, which needs a program built with the feature `tls`.
    #[must_use]
    pub fn tls_key(mut self, key: impl Into<Option<TlsKey>>) -> Self {
        self.tls_key = key.into();
        self
    }

    /// Sets the pause before another connection.
    #[must_use]
    pub fn retry(mut self, pause: Duration) -> Self {
        self.retry = pause;
        self
    }

    /// Sets the secret that the primary must prove to have.
    #[must_use]
    pub fn controller_secret(mut self, secret: impl Into<Option<Secret>>) -> Self {
        self.controller_secret = secret.into();
        self
    }
}

/// How a follower fares.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FollowerStats {
    /// Whether it is connected, and goes on.
    pub is_connected: bool,
    /// The last write that was applied, which reads see.
    pub applied: Seqno,
    /// The last write of the primary, as far as it is known.
    pub primary: Seqno,
    /// How many writes it is behind, as far as it is known.
    pub behind: u64,
    /// How long it has not had all writes of the primary. `None`: it never had.
    pub behind_time: Option<Duration>,
    /// Bytes that were received.
    pub bytes: u64,
    /// How often it began anew with a base.
    pub bases: u64,
    /// How often it was connected.
    pub connections: u64,
    /// Whether it is receiving a base.
    pub is_in_base: bool,
    /// Why it is not connected, if it is not.
    pub error: Option<ReplicationError>,
    /// Whether it has ended for that reason, and does not try again.
    pub has_ended: bool,
}

/// Follows a primary until it is stopped or dropped.
///
/// # Examples
///
/// ```
/// use esker_lsm::{Db, Settings};
/// use esker_replication::{Follower, FollowerSettings, Primary, PrimarySettings};
/// use std::time::Duration;
///
/// # let dir = tempfile::tempdir()?;
/// let primary = Db::open(dir.path().join("primary"), Settings::default())?;
/// let served = Primary::start(primary.clone(), PrimarySettings::new("127.0.0.1:0".parse()?))?;
///
/// let settings = FollowerSettings::new(served.address(), "reports");
/// let follower = Follower::start(dir.path().join("follower"), settings)?;
/// primary.default_keyspace().put("ada", "analyst")?;
/// assert!(follower.wait_for(1, Duration::from_secs(60)));
/// let copy = follower.db().expect("it has a base");
/// assert_eq!(copy.default_keyspace().get("ada")?.as_deref(), Some(&b"analyst"[..]));
///
/// // The primary is lost: the follower takes its place.
/// drop(served);
/// let promoted = follower.promote()?;
/// promoted.default_keyspace().put("grace", "admiral")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Follower {
    shared: Arc<Shared>,
    thread: Option<Box<dyn Running>>,
}

/// What the thread shares with those who ask.
struct Shared {
    // Constant after the start.
    settings: FollowerSettings,
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    stop: Stop,
    /// Distinguishes it from another follower of this name.
    id: u64,

    state: Mutex<State>,
    /// Announces changes of the state.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    db: Option<Db>,
    stats: FollowerStats,
    /// When it had all writes of the primary.
    caught_up_at: Option<Duration>,
}

impl Follower {
    /// Follows the primary into the directory `dir`: one of a follower that goes on, or one that is missing or empty.
    ///
    /// # Errors
    /// * [`ReplicationError::Database`] with [`ChangesError::NoCopy`](esker_base::ChangesError::NoCopy) if there is a
    ///   database that follows nothing, such as one that was promoted. Nothing is overwritten.
    /// * The errors of [`Replica::open`].
    ///
    /// That the primary cannot be reached shows in [`Follower::stats`].
    pub fn start(dir: impl AsRef<Path>, settings: FollowerSettings) -> Result<Follower> {
        settings.database.validate()?;
        let storage = PosixStorage::create(dir.as_ref())?;
        let storage = storage.with_direct_reads(settings.database.direct_reads);
        let storage: Arc<dyn Storage> = Arc::new(storage);
        let storage = match &settings.database.encryption {
            Some(encryption) => encryption.over(storage),
            None => storage,
        };
        base::expect_follower_or_nothing(&*storage)?;
        let mut id = [0; 8];
        SystemEntropy.fill(&mut id)?;
        let shared = Arc::new(Shared {
            settings,
            storage,
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
            id: u64::from_le_bytes(id),
            stop: Stop::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let replica = shared.reopen()?;
        let following = shared.clone();
        let body = Box::new(move || following.run(replica));
        let thread = Threads.spawn("esker-following", Priority::Normal, body)?;
        Ok(Follower { shared, thread })
    }

    /// Returns the database, for reading. `None` until the first base is there, and while another one is installed.
    ///
    /// While a base arrives, it shows what was there before. When the base replaces it, calls of this handle fail with [`Error::Closed`](esker_base::Error::Closed): then ask
    /// again.
    pub fn db(&self) -> Option<Db> {
        self.shared.state.lock().db.clone()
    }

    /// Returns how it fares.
    pub fn stats(&self) -> FollowerStats {
        let state = self.shared.state.lock();
        let now = self.shared.clock.now();
        let behind_time = state.caught_up_at.map(|at| now.saturating_sub(at));
        let behind = state.stats.primary.saturating_sub(state.stats.applied);
        FollowerStats { behind, behind_time, ..state.stats.clone() }
    }

    /// Waits until the write `seqno` of the primary is applied, for `timeout` at most, or until it has ended. Returns
    /// whether it is applied.
    pub fn wait_for(&self, seqno: Seqno, timeout: Duration) -> bool {
        self.wait(timeout, |stats| stats.applied >= seqno)
    }

    /// Waits until `is_so`, for `timeout` at most, or until it has ended. Returns whether it is so.
    pub fn wait(&self, timeout: Duration, is_so: impl Fn(&FollowerStats) -> bool) -> bool {
        let clock = &self.shared.clock;
        let until = clock.now().saturating_add(timeout);
        let mut state = self.shared.state.lock();
        loop {
            let left = until.saturating_sub(clock.now());
            if is_so(&state.stats) || state.stats.has_ended || left.is_zero() {
                return is_so(&state.stats);
            }
            self.shared.changed.wait_for(&mut state, left);
        }
    }

    /// Stops following, and closes the database. A drop does so, too.
    pub fn stop(self) {
        drop(self);
    }

    /// Stops following, and makes the database one of its own: it is open for writing, and follows nothing from then on.
    ///
    /// Writes that the primary acknowledged and this one has not applied are lost with the primary. Make sure that no
    /// program writes to the primary any more.
    ///
    /// # Errors
    /// The errors of [`promote`](esker_lsm::promote) and [`Db::open_existing`].
    pub fn promote(mut self) -> Result<Db> {
        self.end();
        esker_lsm::promote(&*self.shared.storage)?;
        let settings = self.shared.settings.database.clone();
        Ok(Db::open_existing_with(self.shared.env(), settings)?)
    }

    fn end(&mut self) {
        self.shared.stop.set();
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("primary", &self.shared.settings.primary)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn env(&self) -> Env {
        Env::over(self.storage.clone())
    }

    /// Opens the database, and shows it. `bases`: so many were received for this.
    fn open(&self, bases: u64) -> Result<Replica> {
        let replica = Replica::open_with(self.env(), self.settings.database.clone())?;
        let (db, applied) = (replica.db().clone(), replica.applied());
        self.change(|state| {
            state.db = Some(db);
            state.stats.applied = applied;
            state.stats.bases += bases;
            state.stats.is_in_base = false;
        });
        Ok(replica)
    }

    /// Opens the database, if there is one.
    fn reopen(&self) -> Result<Option<Replica>> {
        base::install(&*self.storage)?;
        match self.storage.exists(CURRENT)? {
            true => Ok(Some(self.open(0)?)),
            false => Ok(None),
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
    }

    fn run(&self, mut replica: Option<Replica>) {
        let mut misfits = (0, 0);
        while !self.stop.is_set() {
            let Err(error) = self.follow(&mut replica, &mut misfits) else { break };
            if self.stop.is_set() {
                break;
            }
            let at = replica.as_ref().map_or(0, Replica::applied);
            misfits = match error.is_misfit() {
                true if misfits.0 == at => (at, misfits.1 + 1),
                true => (at, 1),
                false if misfits.0 == at => misfits,
                false => (0, 0),
            };
            if error.wants_reopen()
                && let Some(replica) = replica.take()
            {
                self.change(|state| state.db = None);
                // The log failed. An open recovers what was applied.
                let _ = replica.close();
            }
            let has_ended = !error.is_passing();
            self.change(|state| {
                state.stats.is_connected = false;
                state.stats.is_in_base = false;
                state.stats.error = Some(error);
                state.stats.has_ended = has_ended;
            });
            if has_ended {
                break;
            }
            self.stop.sleep(&*self.clock, self.settings.retry);
        }
        self.change(|state| {
            state.db = None;
            state.stats.is_connected = false;
        });
        if let Some(replica) = replica {
            // What was applied is in the log.
            let _ = replica.close();
        }
        self.changed.notify_all();
    }

    /// Follows by one connection, until it ends. `misfits`: where what was sent did not fit, and how often in a row.
    fn follow(&self, replica: &mut Option<Replica>, misfits: &mut (Seqno, u32)) -> Result<()> {
        if replica.is_none() {
            *replica = self.reopen()?;
        }
        let mut wire = self.connect()?;
        self.greet(&mut wire)?;
        wire.trust();
        let before = self.state.lock().stats.bytes;
        loop {
            let begun = match self.go_on(&mut wire, replica, misfits.1 >= MISFITS_MAX, before)? {
                Some(begun) => begun,
                None => return Ok(()),
            };
            self.change(|state| {
                state.stats.is_connected = true;
                state.stats.error = None;
                state.stats.is_in_base = true;
            });
            // A replica that is open has the lock.
            let lock = replica.is_none().then(|| self.storage.lock()).transpose()?;
            base::receive(&mut wire, &*self.storage, begun)?;
            drop(lock);
            self.change(|state| {
                state.db = None;
                state.caught_up_at = None;
                state.stats.applied = 0;
            });
            if let Some(replica) = replica.take() {
                // The base replaces it.
                let _ = replica.close();
            }
            base::install(&*self.storage)?;
            *replica = Some(self.open(1)?);
            *misfits = (0, 0);
        }
    }

    /// Connects, by TLS if there is a key. The primary may know it by any of several identities.
    fn connect(&self) -> Result<Wire> {
        let FollowerSettings { host, subsystem, tls_key, .. } = &self.settings;
        let Some(key) = tls_key else { return self.connect_by(None) };
        let mut connected = Err(ReplicationError::Authentication { why: "no TLS key".into() });
        for psk in client_psks(key, host, subsystem) {
            connected = self.connect_by(Some(&psk));
            use ReplicationError::{Authentication, Lost};
            if !matches!(connected, Err(Authentication { .. } | Lost { .. })) {
                break;
            }
        }
        connected
    }

    fn connect_by(&self, psk: Option<&TlsPsk>) -> Result<Wire> {
        let primary = self.settings.primary;
        let failed = |source| ReplicationError::Unreachable {
            action: "connect to",
            address: primary.to_string(),
            source: Arc::new(source),
        };
        let socket = TcpStream::connect_timeout(&primary, CONNECT).map_err(failed)?;
        let mut wire = Wire::new(socket, primary, self.clock.clone(), self.stop.clone())?;
        psk.map_or(Ok(()), |psk| wire.begin_tls(psk, auth::PATIENCE))?;
        Ok(wire)
    }

    fn greet(&self, wire: &mut Wire) -> Result<()> {
        let FollowerSettings { host, subsystem, secret, controller_secret, .. } = &self.settings;
        wire.send(&Message::Hello { version: VERSION, host: host.as_str().to_owned() })?;
        let authenticates = match wire.receive(auth::PATIENCE)? {
            Message::Welcome { version, authenticates } if version == VERSION => authenticates,
            Message::Welcome { version, .. } => {
                let what =
                    format!("it speaks version {version} of the protocol, and this is {VERSION}");
                return Err(wire.broken(what));
            }
            other => return Err(wire.unexpected(&other, "Welcome")),
        };
        let failed = |why: &str| ReplicationError::Authentication { why: why.to_owned() };
        match (authenticates, secret) {
            (true, Some(secret)) => {
                let node = controller_secret.as_ref();
                auth::prove(wire, host, secret, node, subsystem, &*self.entropy)
            }
            (true, None) => Err(failed("the primary asks for a secret, and none was given")),
            (false, _) if controller_secret.is_some() => Err(failed(
                "the primary does not ask for authentication, and so proves nothing either",
            )),
            (false, _) => Ok(()),
        }
    }

    /// Says what is there, and applies what comes. Returns the base that begins, or `None` once it is stopped. `anew`: asks
    /// for a base. `before`: the bytes of earlier connections.
    fn go_on(
        &self,
        wire: &mut Wire,
        replica: &mut Option<Replica>,
        anew: bool,
        before: u64,
    ) -> Result<Option<Begun>> {
        let (origin, next) = match replica {
            Some(replica) if !anew => (replica.origin(), replica.applied() + 1),
            _ => (Origin::new(0, 0), 1),
        };
        let (name, encrypts) = (self.settings.name.clone(), self.storage.encryption().is_some());
        let id = self.id;
        wire.send(&Message::Follow { origin, next, name, encrypts, id })?;
        let answer = loop {
            match wire.receive(PATIENCE)? {
                // It prepares a base.
                Message::Alive { .. } => {}
                answer => break answer,
            }
        };
        let replica = match (answer, replica) {
            (Message::GoOn { origin: now }, Some(replica)) if now.database == origin.database => {
                replica.go_on(now)?;
                replica
            }
            (Message::Base { origin, files, .. }, _) => return Ok(Some(Begun { origin, files })),
            (other, _) => return Err(wire.unexpected(&other, "GoOn or Base")),
        };
        self.change(|state| {
            state.stats.is_connected = true;
            state.stats.connections += 1;
            state.stats.error = None;
        });
        let (mut said, mut said_at) = (next - 1, self.clock.now());
        while !self.stop.is_set() {
            let message = wire.receive(PATIENCE)?;
            let is_all = matches!(message, Message::Alive { .. });
            match message {
                Message::Base { origin, files, .. } => return Ok(Some(Begun { origin, files })),
                message => self.take(wire, replica, message)?,
            }
            let (applied, bytes) = (replica.applied(), before + wire.received);
            self.change(|state| (state.stats.applied, state.stats.bytes) = (applied, bytes));
            let is_due = || is_all || self.clock.now().saturating_sub(said_at) >= NOTIFY_EVERY;
            if applied > said && is_due() {
                wire.send(&Message::Applied { through: applied })?;
                (said, said_at) = (applied, self.clock.now());
            }
        }
        Ok(None)
    }

    fn take(&self, wire: &Wire, replica: &mut Replica, message: Message) -> Result<()> {
        match message {
            Message::Keyspaces(edit) => Ok(replica.take_events(&edit)?),
            Message::Settings(edit) => Ok(replica.take_settings(&edit)?),
            Message::Log { header, frames } => {
                let last = replica.apply(&header, &frames)?;
                self.change(|state| state.stats.primary = state.stats.primary.max(last));
                Ok(())
            }
            Message::Alive { last } => {
                let (now, applied) = (self.clock.now(), replica.applied());
                self.change(|state| {
                    state.stats.primary = last;
                    if applied >= last {
                        state.caught_up_at = Some(now);
                    }
                });
                Ok(())
            }
            other => Err(wire.unexpected(&other, "frames")),
        }
    }
}
