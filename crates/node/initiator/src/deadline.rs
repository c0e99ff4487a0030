//! Until when an operation may take, whatever it consists of.

use crate::RemoteError;
use esker_base::Clock;
use std::sync::Arc;
use std::time::Duration;

/// No read or write of a socket waits longer than this at a time: so late is a deadline seen, at the latest.
pub(crate) const WAIT_TIME: Duration = Duration::from_millis(50);

#[derive(Clone)]
pub(crate) struct Deadline {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) at: Duration,
}

impl Deadline {
    pub(crate) fn new(clock: &Arc<dyn Clock>, at: Duration) -> Self {
        Deadline { clock: clock.clone(), at }
    }

    /// `time` from now.
    pub(crate) fn after(clock: &Arc<dyn Clock>, time: Duration) -> Self {
        Self::new(clock, clock.now() + time)
    }

    /// What is left, or the error that nothing is.
    pub(crate) fn left(&self) -> Result<Duration, RemoteError> {
        left(&*self.clock, self.at)
    }
}

/// What is left by `clock` until `at`, or the error that nothing is.
pub(crate) fn left(clock: &dyn Clock, at: Duration) -> Result<Duration, RemoteError> {
    let left = at.saturating_sub(clock.now());
    if left.is_zero() { Err(RemoteError::Deadline) } else { Ok(left) }
}
