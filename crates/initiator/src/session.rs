//! An association that is made anew when it is lost, and what is sent again then.

use crate::association::Association;
use crate::queue_pair::QueuePair;
use crate::{RemoteError, Settings};
use esker_base::{Background, Clock, Entropy};
use esker_nvme::command::CommandSet;
use esker_nvme::{Cqe, Sqe};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Between two attempts to connect.
const CONNECT_AGAIN: Duration = Duration::from_millis(50);

pub(crate) struct Session {
    settings: Settings,
    set: CommandSet,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    background: Arc<dyn Background>,
    /// None after it failed, until somebody connects again.
    association: Mutex<Option<Arc<Association>>>,
    /// Whose turn it is among the queues.
    turn: AtomicUsize,
}

impl Session {
    /// Connects to a namespace that is used by `set`.
    pub(crate) fn connect(
        settings: Settings,
        set: CommandSet,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        background: Arc<dyn Background>,
    ) -> Result<Self, RemoteError> {
        let (association, turn) = (Mutex::new(None), AtomicUsize::new(0));
        let session = Session { settings, set, clock, entropy, background, association, turn };
        *session.association.lock() = Some(Arc::new(session.connect_once()?));
        Ok(session)
    }

    fn connect_once(&self) -> Result<Association, RemoteError> {
        let (entropy, background) = (self.entropy.as_ref(), self.background.as_ref());
        Association::connect(&self.settings, self.set, &self.clock, entropy, background)
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

    fn is_before(&self, deadline: Duration) -> bool {
        self.clock.now() < deadline
    }

    /// The association in force, or a new one.
    pub(crate) fn association(&self, deadline: Duration) -> Result<Arc<Association>, RemoteError> {
        // Held while connecting: others wait for the same connection.
        let mut association = self.association.lock();
        if let Some(association) = association.as_ref().filter(|a| !has_failed(a)) {
            return Ok(association.clone());
        }
        *association = None;
        loop {
            match self.connect_once() {
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

    /// Sends what changes something. What was not sent whole was not done, and is sent again; what was, is not.
    pub(crate) fn change(
        &self,
        what: &'static str,
        sqe: Sqe,
        data: &[u8],
        deadline: Duration,
    ) -> Result<Cqe, RemoteError> {
        loop {
            let association = self.association(deadline)?;
            let queue = self.queue(&association);
            match queue.begin(sqe, data, 0, deadline) {
                Err(error) if error.is_of_connection() && self.is_before(deadline) => {}
                Err(error) => return Err(error),
                Ok(ticket) => {
                    let answer = queue.finish(ticket, data, deadline);
                    return answer.map(|(cqe, _)| cqe).map_err(|_| RemoteError::Unknown { what });
                }
            }
        }
    }

    /// The queue whose turn it is.
    pub(crate) fn queue<'a>(&self, association: &'a Association) -> &'a QueuePair {
        let turn = self.turn.fetch_add(1, Relaxed);
        &association.queues[turn % association.queues.len()]
    }
}

fn has_failed(association: &Arc<Association>) -> bool {
    association.queues.iter().any(QueuePair::has_failed)
}
