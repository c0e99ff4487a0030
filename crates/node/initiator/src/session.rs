//! An association that is made anew when it is lost, what is sent again then, and which association a flush answers for.

use crate::association::{Association, Namespace};
use crate::deadline::Deadline;
use crate::flush_tracker::FlushTracker;
use crate::queue_pair::{self, QueuePair};
use crate::{RemoteError, Settings};
use esker_base::{Background, Clock, Entropy};
use esker_nvme::command::CommandSet;
use esker_nvme::{Cqe, Sqe};
use parking_lot::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Between two attempts to connect.
const CONNECT_AGAIN: Duration = Duration::from_millis(50);

/// How long a node may take to say that it has done with an association's connections. One that can be reached takes no
/// longer than for an answer.
const PARTING_TIME: Duration = Duration::from_secs(1);

pub(crate) struct Session {
    settings: Settings,
    set: CommandSet,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    background: Arc<dyn Background>,
    /// None after it failed, until a thread connects again.
    association: RwLock<Option<Arc<Association>>>,
    /// What the first association found; no other namespace may take its place.
    namespace: OnceLock<Namespace>,
    /// Whose turn it is among the queues.
    turn: AtomicUsize,
    unflushed: FlushTracker,
}

impl Session {
    /// Connects to a namespace that is used by `set`, and says what it is.
    pub(crate) fn connect(
        settings: Settings,
        set: CommandSet,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        background: Arc<dyn Background>,
    ) -> Result<(Self, Namespace), RemoteError> {
        let mut session = Self::unconnected(settings, set, clock, entropy, background);
        session.draw_host_id()?;
        let association = session.connect_once(session.deadline())?;
        let namespace = association.namespace;
        *session.association.write() = Some(Arc::new(association));
        Ok((session, namespace))
    }

    fn unconnected(
        settings: Settings,
        set: CommandSet,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        background: Arc<dyn Background>,
    ) -> Self {
        let (association, namespace, turn, unflushed) = Default::default();
        Session {
            settings,
            set,
            clock,
            entropy,
            background,
            association,
            namespace,
            turn,
            unflushed,
        }
    }

    fn draw_host_id(&mut self) -> Result<(), RemoteError> {
        if self.settings.host_id == [0; 16] {
            let drawn = self.entropy.fill(&mut self.settings.host_id);
            drawn.map_err(|error| RemoteError::Entropy { why: error.to_string() })?;
        }
        Ok(())
    }

    fn connect_once(&self, deadline: Duration) -> Result<Association, RemoteError> {
        let (entropy, background) = (self.entropy.as_ref(), self.background.as_ref());
        let deadline = Deadline::new(&self.clock, deadline);
        let new = Association::connect(&self.settings, self.set, &deadline, entropy, background)?;
        match self.namespace.get_or_init(|| new.namespace).is_same(&new.namespace) {
            true => Ok(new),
            false => Err(RemoteError::Replaced { namespace: self.settings.namespace }),
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn namespace(&self) -> u32 {
        self.settings.namespace
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.clock.now() + self.settings.deadline
    }

    pub(crate) fn is_before(&self, deadline: Duration) -> bool {
        self.clock.now() < deadline
    }

    /// The current association, or a new one.
    pub(crate) fn association(&self, deadline: Duration) -> Result<Arc<Association>, RemoteError> {
        let in_force = |association: &Option<Arc<Association>>| {
            association.as_ref().filter(|association| !has_failed(association)).cloned()
        };
        let left = deadline.saturating_sub(self.clock.now());
        let association = self.association.try_read_for(left).ok_or(RemoteError::Deadline)?;
        if let Some(association) = in_force(&association) {
            return Ok(association);
        }
        drop(association);
        // Held while connecting: others wait for the same connection.
        let left = deadline.saturating_sub(self.clock.now());
        let mut association = self.association.try_write_for(left).ok_or(RemoteError::Deadline)?;
        if !self.is_before(deadline) {
            return Err(RemoteError::Deadline);
        }
        if let Some(association) = in_force(&association) {
            return Ok(association);
        }
        if let Some(failed) = association.take() {
            let now = self.clock.now();
            // Half of the time is left to connect in.
            failed.part(now + PARTING_TIME.min(deadline.saturating_sub(now) / 2));
        }
        loop {
            match self.connect_once(deadline) {
                Ok(new) => return Ok(association.insert(Arc::new(new)).clone()),
                Err(error) if !error.is_of_connection() => return Err(error),
                Err(error) if self.clock.now() + CONNECT_AGAIN >= deadline => return Err(error),
                Err(_) => self.clock.sleep(CONNECT_AGAIN),
            }
        }
    }

    /// Tries what changes nothing, and again after a lost connection, until the deadline.
    pub(crate) fn retry<T>(
        &self,
        deadline: Duration,
        mut attempt: impl FnMut(&QueuePair) -> Result<T, RemoteError>,
    ) -> Result<T, RemoteError> {
        loop {
            let association = self.association(deadline)?;
            match attempt(self.queue(&association)) {
                Err(error) if error.is_of_connection() && self.is_before(deadline) => {}
                outcome => return outcome,
            }
        }
    }

    /// Sends a command that changes nothing, as [`retry`](Self::retry) has it.
    pub(crate) fn read(
        &self,
        sqe: Sqe,
        reads: u32,
        deadline: Duration,
    ) -> Result<(Cqe, Vec<u8>), RemoteError> {
        self.retry(deadline, |queue| {
            let ticket = queue.begin(sqe, &[], reads, deadline)?;
            queue.finish(ticket, &[], deadline)
        })
    }

    /// Sends what changes something, and takes note of what was acknowledged before it is safe. What was not sent whole
    /// was not done, and is sent again; what was, is not.
    pub(crate) fn change(
        &self,
        what: &'static str,
        sqe: Sqe,
        data: &[u8],
        deadline: Duration,
    ) -> Result<Cqe, RemoteError> {
        loop {
            let association = self.association(deadline)?;
            match self.change_on(&association, what, sqe, data, deadline) {
                Err(error) if error.is_of_connection() && self.is_before(deadline) => {}
                Ok(cqe) if cqe.status().is_success() => {
                    self.wrote(&association);
                    return Ok(cqe);
                }
                outcome => return outcome,
            }
        }
    }

    /// The same on one association: an error of the connection means that it was not sent.
    fn change_on(
        &self,
        association: &Association,
        what: &'static str,
        sqe: Sqe,
        data: &[u8],
        deadline: Duration,
    ) -> Result<Cqe, RemoteError> {
        let queue = self.queue(association);
        let ticket = queue.begin(sqe, data, 0, deadline)?;
        let answer = queue.finish(ticket, data, deadline);
        answer.map(|(cqe, _)| cqe).map_err(|error| error.of_sent(what))
    }

    /// `association` acknowledged a write.
    pub(crate) fn wrote(&self, association: &Arc<Association>) {
        if association.namespace.has_volatile_cache() {
            self.unflushed.wrote(association);
        }
    }

    /// Makes safe what was acknowledged, by `flush`, if the node has a volatile cache: otherwise it is so already. Fails if
    /// an association that is gone acknowledged a write and was not flushed (`unflushed`).
    pub(crate) fn flush(&self, flush: Sqe) -> Result<(), RemoteError> {
        let deadline = self.deadline();
        loop {
            let association = self.association(deadline)?;
            let covered =
                self.unflushed.covered(&association).ok_or_else(|| self.unflushed_is_lost())?;
            if !association.namespace.has_volatile_cache() {
                return Ok(());
            }
            match self.change_on(&association, "flush", flush, &[], deadline) {
                Err(error) if error.is_of_connection() && self.is_before(deadline) => {}
                Err(error) => return Err(error),
                Ok(cqe) if cqe.status().is_success() => {
                    self.unflushed.flushed(covered);
                    return Ok(());
                }
                Ok(cqe) => {
                    return Err(RemoteError::Refused { action: "flush", status: cqe.status() });
                }
            }
        }
    }

    fn unflushed_is_lost(&self) -> RemoteError {
        let why = "before a flush made safe what it had acknowledged".to_owned();
        let address = self.settings.address.to_string();
        RemoteError::Lost { address, why }.of_sent("write")
    }

    /// The queue that is least busy, from the one whose turn it is on.
    pub(crate) fn queue<'a>(&self, association: &'a Association) -> &'a QueuePair {
        queue_pair::least_busy(&association.queues, self.turn.fetch_add(1, Relaxed))
    }
}

fn has_failed(association: &Arc<Association>) -> bool {
    association.queues.iter().any(QueuePair::has_failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::{SystemEntropy, Threads};
    use esker_nvme::Nqn;

    /// A clock that does not advance.
    struct Still;

    impl Clock for Still {
        fn now(&self) -> Duration {
            Duration::from_secs(1)
        }
        fn sleep(&self, _duration: Duration) {}
    }

    #[test]
    fn who_waited_for_others_to_connect_until_the_deadline_does_not_try_too() {
        let nqn = || Nqn::new("nqn.node").unwrap();
        // Port 1 of this machine: nobody listens.
        let settings = Settings::new(([127, 0, 0, 1], 1).into(), nqn(), nqn());
        let clock = Arc::new(Still);
        let (entropy, background) = (Arc::new(SystemEntropy), Arc::new(Threads));
        let session = Session::unconnected(settings, CommandSet::Nvm, clock, entropy, background);
        let late = session.association(session.clock.now()).err();
        assert!(matches!(late, Some(RemoteError::Deadline)), "{late:?}");
        let early = session.association(session.clock.now() + CONNECT_AGAIN).err();
        assert!(matches!(early, Some(RemoteError::Unreachable { .. })), "{early:?}");
    }
}
