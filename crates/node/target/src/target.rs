//! Starts and stops a target.

use crate::namespace::PerCoreNamespace;
use crate::reactor;
use crate::reactor_message::Message;
use crate::reactor_namespaces::RESIDENTS_MAX;
use crate::stats::Counters;
use crate::target_state::TargetState;
use crate::{Namespace, Settings, Subsystem, Totals};
use esker_base::background::Running;
use esker_base::{Background, Clock, Entropy, Error, Priority, Result};
use esker_uring::Sender;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// A target that serves. Dropping it shuts it down.
pub struct Target {
    address: SocketAddr,
    clock: Arc<dyn Clock>,
    mailboxes: Vec<Sender<Message>>,
    counters: Vec<Arc<Counters>>,
    threads: Vec<Box<dyn Running>>,
}

impl Target {
    /// Listens, and starts the reactors.
    ///
    /// # Errors
    ///
    /// Fails if it cannot listen, if a thread or a ring cannot be started, if namespaces have too many parts, or if a
    /// subsystem lists a host twice.
    pub fn start(
        settings: Settings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        background: &Arc<dyn Background>,
    ) -> Result<Self> {
        if let Some(host) = settings.subsystems.iter().find_map(Subsystem::listed_twice) {
            let reason = "it is listed twice; put its secrets and keys into one entry".to_owned();
            let value = host.to_string();
            return Err(Error::InvalidSetting { setting: "access", value, reason });
        }
        let name = settings.listen.to_string();
        let listener = TcpListener::bind(settings.listen)
            .map_err(|source| Error::io("listen on", &name, source))?;
        let address =
            listener.local_addr().map_err(|source| Error::io("ask for", &name, source))?;
        let reactors = settings.reactors.max(1);
        let (residents, parts) = parts(&settings, reactors)?;
        let shared = TargetState::new(
            settings,
            address,
            clock.clone(),
            entropy,
            residents,
            background.as_ref(),
        )?;
        let shared = Arc::new(shared);
        let (mailboxes, counters, threads) = Default::default();
        let mut target = Target { address, clock, mailboxes, counters, threads };
        let mut listener = Some(listener);
        for (number, parts) in parts.into_iter().enumerate() {
            let start = reactor::Start {
                number,
                shared: shared.clone(),
                counters: Arc::default(),
                listener: listener.take(),
                parts,
                background: background.clone(),
            };
            target.start_reactor(start)?;
        }
        // The one that accepts comes last: no connection reaches a reactor that does not know the others yet.
        for mailbox in target.mailboxes.iter().rev() {
            // One that is gone says so to nobody: its share of connections is refused.
            let _ = mailbox.send(Message::Begin(target.mailboxes.clone()));
        }
        Ok(target)
    }

    fn start_reactor(&mut self, start: reactor::Start) -> Result<()> {
        let (number, counters) = (start.number, start.counters.clone());
        let background = start.background.clone();
        let (sender, receiver) = channel();
        let body = Box::new(move || reactor::run(start, &sender));
        let name = format!("esker-reactor {number}");
        let thread = background.spawn(&name, Priority::Normal, body)?;
        self.threads.extend(thread);
        let mailbox = receiver.recv().unwrap_or_else(|_| {
            Err(std::io::Error::other("the thread ended before it began to serve"))
        });
        self.mailboxes.push(mailbox.map_err(|source| Error::io("start", name, source))?);
        self.counters.push(counters);
        Ok(())
    }

    /// Where it listens: with the port that the system chose, if it was to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has done so far.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.counters.iter().for_each(|counters| totals.add(counters));
        totals
    }

    /// Whether every reactor answers within `time`.
    pub fn is_alive(&self, time: Duration) -> bool {
        let (pong, pongs) = channel();
        let asked = |mailbox: &Sender<Message>| mailbox.send(Message::Ping(pong.clone())).is_ok();
        let deadline = self.clock.now() + time;
        let left = || deadline.saturating_sub(self.clock.now());
        self.mailboxes.iter().all(asked)
            && self.mailboxes.iter().all(|_| pongs.recv_timeout(left()).is_ok())
    }

    /// Takes no more commands, finishes those in progress, and stops.
    pub fn drain(mut self) {
        self.stop();
    }

    /// In two steps, for a reactor without connections may have parts that others need.
    fn stop(&mut self) {
        let (drains, drained) = channel();
        for mailbox in &self.mailboxes {
            // One that is gone has stopped.
            let _ = mailbox.send(Message::Drain(drains.clone()));
        }
        drop(drains);
        // Nobody sends: it ends when the last reactor has dropped its sender.
        let _ = drained.recv();
        for mailbox in self.mailboxes.drain(..) {
            let _ = mailbox.send(Message::Stop);
        }
        for thread in self.threads.drain(..) {
            thread.join();
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The namespaces with parts, each once, and each reactor's parts of them.
#[expect(clippy::type_complexity, reason = "it is two lists")]
fn parts(
    settings: &Settings,
    reactors: usize,
) -> Result<(Vec<Arc<dyn Namespace>>, Vec<Vec<Box<dyn PerCoreNamespace>>>)> {
    let mut residents: Vec<Arc<dyn Namespace>> = Vec::new();
    let mut shares: Vec<Vec<_>> = (0..reactors).map(|_| Vec::new()).collect();
    for namespace in settings.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces) {
        if residents.iter().any(|known| Arc::ptr_eq(known, namespace)) {
            continue;
        }
        let parts = namespace.parts(reactors)?;
        if parts.is_empty() {
            continue;
        }
        assert_eq!(parts.len(), reactors, "a namespace has no part, or one for each reactor");
        residents.push(namespace.clone());
        for (share, part) in shares.iter_mut().zip(parts) {
            share.push(part);
        }
    }
    if residents.len() > RESIDENTS_MAX {
        let reason = format!("at most {RESIDENTS_MAX} can be of the kinds that are on devices");
        let value = residents.len().to_string();
        return Err(Error::InvalidSetting { setting: "namespaces", value, reason });
    }
    Ok((residents, shares))
}
