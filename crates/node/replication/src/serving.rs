//! One connection of a follower, at the primary.
//!
//! ```text
//! Hello ─► Welcome ─► (Auth …) ─► Follow ─► GoOn ─► Keyspaces, Log, Alive …
//!                                    ▲  └─► Base, files, BaseEnd ─┐
//!                                    └─────────────────────────────┘
//! ```
//!
//! Frames are sent once they survive a power loss of the primary. So no follower ever has a write that the primary has
//! lost. If the log is not synced for each write, it is synced here while a follower waits.

use crate::auth;
use crate::base;
use crate::error::{ReplicationError, Result};
use crate::lag::Lag;
use crate::message::{Message, VERSION};
use crate::primary::{FollowerInfo, PrimarySettings, Shared};
use crate::wire::Wire;
use esker_base::{ChangesError, EncryptionError, Error, Seqno};
use esker_lsm::{ChangeConsumer, LogPieces, Origin};
use esker_nvme::Nqn;
use esker_target::{Access, HostAccess};
use esker_tls::HostKeys;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long a wait for writes lasts before it is looked for messages.
const WAIT: Duration = Duration::from_millis(20);

/// The pause between syncs of the log for followers. What is written meanwhile is synced at once.
const SYNC_PAUSE: Duration = Duration::from_millis(1);

/// How often a follower is notified that the primary is there.
const ALIVE_EVERY: Duration = Duration::from_secs(1);

/// How often it is noted durably how far a follower is. Logs are kept until then.
const NOTE_EVERY: Duration = Duration::from_secs(1);

/// The pause before another base if the last one was not enough.
const BASE_PAUSE: Duration = Duration::from_millis(100);

/// How long a follower may take to begin, also after a base.
const PATIENCE: Duration = Duration::from_secs(600);

/// The start of the names of followers' consumers.
const CONSUMER: &str = "follower ";

/// The most followers whose logs a primary keeps. Each is a record in the manifest.
const FOLLOWERS_MAX: usize = 256;

/// How long a peer may take until it has said what it follows. It includes all of the authentication.
const GREETING: Duration = Duration::from_secs(20);

/// A follower that has said who it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    pub(crate) name: String,
    /// Its consumer, whose name has that of its host if it has proved that.
    pub(crate) consumer: String,
    /// What it has drawn at its start.
    pub(crate) id: u64,
}

/// What a primary knows of a connection.
pub(crate) struct Served {
    info: Mutex<FollowerInfo>,
    known: Mutex<Option<Known>>,
    lag: Mutex<Lag>,
}

impl Served {
    pub(crate) fn new(peer: SocketAddr) -> Self {
        let info = FollowerInfo { address: peer.to_string(), ..FollowerInfo::default() };
        Served { info: Mutex::new(info), known: Mutex::default(), lag: Mutex::default() }
    }

    /// Whether it has said who it is.
    pub(crate) fn is_known(&self) -> bool {
        self.known.lock().is_some()
    }

    pub(crate) fn address(&self) -> String {
        self.info.lock().address.clone()
    }

    pub(crate) fn become_known(&self, known: Known) {
        self.info.lock().name.clone_from(&known.name);
        *self.known.lock() = Some(known);
    }

    /// Whether it is a connection of this consumer that has not ended.
    pub(crate) fn is_of(&self, consumer: &str) -> bool {
        let is_over = self.info.lock().name.is_empty();
        !is_over && self.known.lock().as_ref().is_some_and(|known| known.consumer == consumer)
    }

    pub(crate) fn is_same(&self, follower: &Known) -> bool {
        self.known.lock().as_ref() == Some(follower)
    }

    /// What it is at `now`, when the last write is `last`. `None` until the follower has said its name.
    pub(crate) fn info(&self, last: Seqno, now: Duration) -> Option<FollowerInfo> {
        let info = self.info.lock().clone();
        let behind = last.saturating_sub(info.applied);
        let behind_time = match behind {
            0 => Duration::ZERO,
            _ => self.lag.lock().time(now),
        };
        (!info.name.is_empty()).then_some(FollowerInfo { behind, behind_time, ..info })
    }

    fn apply(&self, through: Seqno) {
        self.info.lock().applied = through;
        self.lag.lock().apply(through);
    }
}

/// Serves a connection until it ends.
pub(crate) fn serve(shared: &Shared, mut wire: Wire, served: &Arc<Served>) {
    match run(shared, &mut wire, served) {
        Ok(()) => wire.refuse("it was stopped, or the follower connected again"),
        // The peer is gone, or has said itself why it does not go on.
        Err(ReplicationError::Lost { .. } | ReplicationError::Refused { .. }) => {}
        Err(error) => wire.refuse(error),
    }
    // A connection that has ended is no follower.
    served.info.lock().name.clear();
}

fn run(shared: &Shared, wire: &mut Wire, served: &Arc<Served>) -> Result<()> {
    // The short limit stays after authentication, too: a follower sends only short messages.
    wire.set_deadline(Some(GREETING));
    let host = greet(shared, wire)?;
    loop {
        let (origin, next, follower) = match wire.receive(PATIENCE)? {
            Message::Follow { origin, next, name, encrypts, id } => {
                expect_encrypted(shared, encrypts)?;
                check_name(&name)?;
                let consumer = match &host {
                    Some(host) => format!("{CONSUMER}{} {name}", host.as_str()),
                    None => format!("{CONSUMER}{name}"),
                };
                (origin, next.max(1), Known { name, consumer, id })
            }
            // Sent before it saw the base.
            Message::Applied { .. } => continue,
            other => return Err(wire.unexpected(&other, "Follow")),
        };
        let name = follower.consumer.clone();
        check_count(shared, &name)?;
        shared.admit(follower, served)?;
        wire.set_deadline(None);
        // A database that has lost writes, such as in a repair, has a consumer that is ahead of it. What the follower
        // may go on from, the lineage says.
        let consumer = shared.db.change_consumer_or_anew(&name, shared.settings.bound_bytes)?;
        let lineage = shared.db.lineage()?;
        let last = shared.db.snapshot().seqno();
        let present = lineage.origin();
        let goes_on = lineage.continues(&origin, next - 1) && next <= last + 1;
        // Until it has said that it has applied them, it is behind.
        let applied = if goes_on { next - 1 } else { 0 };
        served.lag.lock().see(last, applied, shared.clock.now());
        if goes_on {
            let mut stream = Stream { shared, wire, served, consumer, next, applied: next - 1 };
            stream.note()?;
            match stream.run(present) {
                Err(ReplicationError::Database(Error::Changes(error))) if is_gap(&error) => {}
                ended => return ended,
            }
        }
        if wire.is_stopped() {
            return Ok(());
        }
        shared.clock.sleep(BASE_PAUSE);
        // Its consumer is registered, so the log after the files is kept.
        let files = shared.db.live_files()?;
        base::send(wire, &files, present)?;
        served.info.lock().bases += 1;
    }
}

fn check_name(name: &str) -> Result<()> {
    let reason = match name {
        "" => "it is empty",
        _ if name.chars().any(char::is_control) => "it has a control character",
        _ => return Ok(()),
    };
    Err(Error::from(ChangesError::BadName { name: name.to_owned(), reason }).into())
}

/// Fails if `consumer` is new, and there are as many as may be.
fn check_count(shared: &Shared, consumer: &str) -> Result<()> {
    let consumers = shared.db.change_consumers();
    let followers = || consumers.iter().filter(|info| info.name.starts_with(CONSUMER)).count();
    if consumers.iter().any(|info| info.name == consumer) || followers() < FOLLOWERS_MAX {
        return Ok(());
    }
    let why = format!(
        "the primary keeps logs for {FOLLOWERS_MAX} followers already; drop those that do not return \
         (`esker consumers --drop NAME`)"
    );
    Err(ReplicationError::NameTaken { why })
}

/// Whether the log lacks what a follower needs next, so that it needs a base.
fn is_gap(error: &ChangesError) -> bool {
    matches!(
        error,
        ChangesError::Gone { .. } | ChangesError::InsideBatch { .. } | ChangesError::NotYet { .. }
    )
}

/// Agrees on the version, and has the follower prove who it is. Returns its host, if not any may follow.
fn greet(shared: &Shared, wire: &mut Wire) -> Result<Option<Nqn>> {
    wire.accept_tls(tls_keys(&shared.settings), auth::PATIENCE)?;
    let (version, host) = match wire.receive(auth::PATIENCE)? {
        Message::Hello { version, host } => (version, host),
        other => return Err(wire.unexpected(&other, "Hello")),
    };
    if version != VERSION {
        let what = format!("it speaks version {version} of the protocol, and this is {VERSION}");
        return Err(wire.broken(what));
    }
    let host = Nqn::new(&host).map_err(|error| wire.broken(error.to_string()))?;
    let access = access_of(&shared.settings.access, &host);
    let access = access.map_err(|why| ReplicationError::Authentication { why })?;
    if wire.peer().is_some_and(|peer| peer.host != host) {
        let why = format!("{} is not the host of the TLS key", host.as_str());
        return Err(ReplicationError::Authentication { why });
    }
    if !wire.is_secure() && access.is_some_and(|access| !access.tls_keys.is_empty()) {
        let why = format!("{} has a TLS key, and connects by TLS only", host.as_str());
        return Err(ReplicationError::Authentication { why });
    }
    let authenticates = access.is_some_and(|access| access.secret.is_some());
    wire.send(&Message::Welcome { version: VERSION, authenticates })?;
    match access {
        Some(access) => {
            auth::demand(wire, access, &shared.settings.subsystem, &*shared.entropy)?;
            Ok(Some(host))
        }
        None => Ok(None),
    }
}

/// The TLS keys of the hosts that may follow.
fn tls_keys(settings: &PrimarySettings) -> HostKeys {
    let Access::Listed(hosts) = &settings.access else { return HostKeys::default() };
    let keys_of = |host: &HostAccess| {
        let keys = host.tls_keys.iter().cloned();
        keys.map(|key| (host.host.clone(), key)).collect::<Vec<_>>()
    };
    HostKeys::new(vec![(settings.subsystem.clone(), hosts.iter().flat_map(keys_of).collect())])
}

/// The entry of `host`, or `None` if any may follow.
fn access_of<'a>(access: &'a Access, host: &Nqn) -> Result<Option<&'a HostAccess>, String> {
    let Access::Listed(hosts) = access else { return Ok(None) };
    let found = hosts.iter().find(|entry| entry.host == *host);
    found
        .map(Some)
        .ok_or_else(|| format!("{} is not among the hosts that may follow", host.as_str()))
}

/// Fails if an encrypted database would be copied to files that are not.
fn expect_encrypted(shared: &Shared, encrypts: bool) -> Result<()> {
    match shared.db.encryption() {
        Some(_) if !encrypts => {
            let what = "a follower";
            let target = "its directory".to_owned();
            let instead = "give the follower a key, too";
            Err(Error::from(EncryptionError::Exposed { what, target, instead }).into())
        }
        _ => Ok(()),
    }
}

/// A follower that goes on.
struct Stream<'a> {
    shared: &'a Shared,
    wire: &'a mut Wire,
    served: &'a Served,
    consumer: ChangeConsumer,
    /// The first write that was not sent.
    next: Seqno,
    /// The last write that the follower has.
    applied: Seqno,
}

impl Stream<'_> {
    /// Sends what is written, until it is stopped.
    fn run(&mut self, origin: Origin) -> Result<()> {
        let db = &self.shared.db;
        let clock = self.shared.clock.clone();
        let mut pieces = db.log_pieces(self.next)?;
        self.wire.send(&Message::GoOn { origin })?;
        let (mut noted, mut noted_at) = (self.applied, clock.now());
        let mut alive_at = None;
        while !self.wire.is_stopped() {
            // A peer may send without end: a stop ends this, too.
            while let Some(message) = self.wire.try_receive()? {
                self.take(&message)?;
            }
            if self.applied > noted && clock.now().saturating_sub(noted_at) >= NOTE_EVERY {
                self.note()?;
                (noted, noted_at) = (self.applied, clock.now());
            }
            if self.send_piece(&mut pieces)? {
                alive_at = None;
                continue;
            }
            let last = db.snapshot().seqno();
            self.served.lag.lock().see(last, self.applied, clock.now());
            let is_due = |at| clock.now().saturating_sub(at) >= ALIVE_EVERY;
            if alive_at.is_none_or(is_due) {
                self.wire.send(&Message::Alive { last })?;
                alive_at = Some(clock.now());
            }
            if last >= self.next {
                // Written, and not synced.
                db.sync()?;
                clock.sleep(SYNC_PAUSE);
            } else {
                pieces.wait(WAIT);
            }
        }
        Ok(())
    }

    /// Sends the next piece of the log, if there is one, and the keyspaces before it. Returns whether anything was sent.
    fn send_piece(&mut self, pieces: &mut LogPieces) -> Result<bool> {
        let piece = pieces.try_next()?;
        let keyspaces = pieces.keyspace_events()?;
        let has_keyspaces = !keyspaces.is_empty();
        if has_keyspaces {
            self.wire.send(&Message::Keyspaces(keyspaces))?;
        }
        let settings = pieces.settings()?;
        let has_news = has_keyspaces || settings.is_some();
        if let Some(settings) = settings {
            self.wire.send(&Message::Settings(settings))?;
        }
        let Some(piece) = piece else { return Ok(has_news) };
        if let Some(&ingest) = piece.ingests.first() {
            // Its entries are in no log.
            let gone = ChangesError::Gone { consumer: None, wanted: ingest, oldest: ingest + 1 };
            return Err(Error::from(gone).into());
        }
        self.wire.send(&Message::Log { header: piece.header, frames: piece.bytes })?;
        self.next = piece.last_seqno + 1;
        self.served.lag.lock().see(piece.last_seqno, self.applied, self.shared.clock.now());
        let mut info = self.served.info.lock();
        (info.sent, info.bytes) = (piece.last_seqno, self.wire.sent);
        Ok(true)
    }

    fn take(&mut self, message: &Message) -> Result<()> {
        match *message {
            Message::Applied { through } if (self.applied..self.next).contains(&through) => {
                self.applied = through;
                self.served.apply(through);
                Ok(())
            }
            Message::Applied { through } => {
                Err(self.wire.broken(format!("it has applied {through}, which was not sent")))
            }
            ref other => Err(self.wire.unexpected(other, "Applied")),
        }
    }

    /// Notes durably how far the follower is, so that older logs are not kept.
    fn note(&mut self) -> Result<()> {
        self.served.apply(self.applied);
        Ok(self.consumer.acknowledge(self.applied)?)
    }
}
