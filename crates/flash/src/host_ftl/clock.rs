//! The model's time as a clock, for the code that runs on the model.

use super::HostFtl;
use esker_base::Clock;
use std::sync::Arc;
use std::time::Duration;

/// A [`Clock`] that shows a model's time, and waits by it.
#[derive(Clone)]
pub struct HostClock(pub Arc<HostFtl>);

impl Clock for HostClock {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) {
        self.0.sleep(duration);
    }
}
