//! What has failed in a namespace, for those who look after the node: the health page, the metrics, hosts that wait for events.
//!
//! Commands that meet a failure are answered with its status; this is for everybody else. Nothing here is ever taken back: what failed is
//! looked into, and the node started again.

use parking_lot::Mutex;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// See the file's head. Shared by all parts of a namespace; no request waits for it unless it has just failed.
#[derive(Debug, Default)]
pub struct Failures {
    has_stopped: AtomicBool,
    faults: AtomicU64,
    reasons: Mutex<Reasons>,
}

/// The first of each kind: others tend to follow from it.
#[derive(Debug, Default)]
struct Reasons {
    stop: Option<String>,
    fault: Option<String>,
}

impl Failures {
    /// Nothing more is written, or nothing of a part. The first reason stays.
    pub fn stop(&self, why: impl FnOnce() -> String) {
        if self.has_stopped.load(Acquire) {
            return;
        }
        self.reasons.lock().stop.get_or_insert_with(why);
        self.has_stopped.store(true, Release);
    }

    /// The device failed a read or a write, or what was stored is damaged. The first reason stays, and all are counted.
    pub fn fault(&self, why: impl FnOnce() -> String) {
        let mut reasons = self.reasons.lock();
        reasons.fault.get_or_insert_with(why);
        self.faults.fetch_add(1, Release);
    }

    /// Whether something is written no more.
    pub fn has_stopped(&self) -> bool {
        self.has_stopped.load(Acquire)
    }

    /// How many reads and writes failed, or found damage.
    pub fn faults(&self) -> u64 {
        self.faults.load(Relaxed)
    }

    /// Grows with each failure; zero while there is none.
    pub(crate) fn count(&self) -> u64 {
        u64::from(self.has_stopped()) + self.faults.load(Acquire)
    }

    /// The reasons, in words: none while nothing failed.
    pub fn reasons(&self) -> Vec<String> {
        let Reasons { stop, fault } = &*self.reasons.lock();
        let stop =
            stop.as_ref().map(|why| format!("writes fail until the node is started again: {why}"));
        let fault = fault.as_ref().map(|why| {
            let faults = self.faults();
            format!("reads or writes failed or found damage ({faults} so far), the first: {why}")
        });
        stop.into_iter().chain(fault).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reasons_stay_and_all_failures_count() {
        let failures = Failures::default();
        assert_eq!((failures.count(), failures.reasons()), (0, Vec::new()));
        failures.fault(|| "a bad sector".to_owned());
        failures.fault(|| "another".to_owned());
        assert!(!failures.has_stopped());
        failures.stop(|| "a sync failed".to_owned());
        failures.stop(|| "a write, too".to_owned());
        assert_eq!((failures.has_stopped(), failures.faults(), failures.count()), (true, 2, 3));
        let [stop, fault] = &failures.reasons()[..] else { panic!("two kinds") };
        assert!(stop.ends_with("a sync failed") && fault.ends_with("a bad sector"));
    }
}
