//! What has failed in a namespace, for those who look after the node: the health page, the metrics, hosts that wait for events.
//!
//! Commands that meet a failure are answered with its status; this is for all others. Nothing here is ever taken back: what failed is
//! looked into, and the node started again.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// See the file's head. Shared by all parts of a namespace; no request waits for it unless it has just failed.
#[derive(Debug, Default)]
pub struct NamespaceHealth {
    has_stopped: AtomicBool,
    stopped_partitions: AtomicU64,
    faults: AtomicU64,
    reasons: Mutex<Reasons>,
}

/// The first of each kind: others tend to follow from it.
#[derive(Debug, Default)]
struct Reasons {
    unopened: Option<String>,
    stop: Option<String>,
    partitions: Option<Partitions>,
    fault: Option<String>,
}

/// Those of which nothing more is written.
#[derive(Debug)]
struct Partitions {
    numbers: BTreeSet<u32>,
    /// How many there are.
    of: u32,
    why: String,
}

impl NamespaceHealth {
    /// Those of a namespace that could not be opened.
    pub fn unopened(why: String) -> Self {
        let reasons = Reasons { unopened: Some(why), ..Reasons::default() };
        NamespaceHealth {
            has_stopped: AtomicBool::new(true),
            reasons: Mutex::new(reasons),
            ..Self::default()
        }
    }

    /// Nothing more is written. The first reason stays.
    pub fn stop(&self, why: impl FnOnce() -> String) {
        if self.has_stopped.load(Acquire) {
            return;
        }
        self.reasons.lock().stop.get_or_insert_with(why);
        self.has_stopped.store(true, Release);
    }

    /// Nothing more is written of partition `number` of so many; the others go on for now. The first reason stays.
    pub fn stop_partition(&self, number: u32, of: u32, why: impl FnOnce() -> String) {
        let mut reasons = self.reasons.lock();
        let partitions = reasons.partitions.get_or_insert_with(|| {
            let numbers = BTreeSet::new();
            Partitions { numbers, of, why: why() }
        });
        if partitions.numbers.insert(number) {
            self.stopped_partitions.fetch_add(1, Release);
        }
    }

    /// The device failed a read or a write, or what was stored is damaged. The first reason stays, and all are counted.
    pub fn fault(&self, why: impl FnOnce() -> String) {
        let mut reasons = self.reasons.lock();
        reasons.fault.get_or_insert_with(why);
        self.faults.fetch_add(1, Release);
    }

    /// Whether nothing is written any more.
    pub fn has_stopped(&self) -> bool {
        self.has_stopped.load(Acquire)
    }

    /// How many reads and writes failed, or found damage.
    pub fn faults(&self) -> u64 {
        self.faults.load(Relaxed)
    }

    /// Grows with each failure; zero while there is none.
    pub(crate) fn count(&self) -> u64 {
        let stops = u64::from(self.has_stopped()) + self.stopped_partitions.load(Acquire);
        stops + self.faults.load(Acquire)
    }

    /// The reasons, in words: none while nothing failed.
    pub fn reasons(&self) -> Vec<String> {
        let Reasons { unopened, stop, partitions, fault } = &*self.reasons.lock();
        let unopened = unopened
            .as_ref()
            .map(|why| format!("every command fails until the node is started again: {why}"));
        let all = |why: &String| format!("writes fail until the node is started again: {why}");
        let stop = stop.as_ref().map(all).or_else(|| {
            let Partitions { numbers, of, why } = partitions.as_ref()?;
            Some(if numbers.len() == *of as usize { all(why) } else { some(numbers, *of, why) })
        });
        let fault = fault.as_ref().map(|why| {
            let faults = self.faults();
            format!("reads or writes failed or found damage ({faults} so far), the first: {why}")
        });
        unopened.into_iter().chain(stop).chain(fault).collect()
    }
}

/// The reason of some partitions' stop, with what still works.
fn some(numbers: &BTreeSet<u32>, of: u32, why: &str) -> String {
    let plural = if numbers.len() > 1 { "s" } else { "" };
    let numbers = numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    format!(
        "writes of keys in partition{plural} {numbers} (of {of}, from 0) fail until the node is started again; reads go on, and \
         writes of other keys until a sync they share finds the device failed: {why}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_that_stopped_are_named_with_what_goes_on() {
        let failures = NamespaceHealth::default();
        failures.stop_partition(5, 16, || "a bad sector".to_owned());
        failures.stop_partition(5, 16, || "again".to_owned());
        assert_eq!((failures.has_stopped(), failures.count()), (false, 1));
        let reasons = failures.reasons().join("\n");
        let is_told = |what: &str| assert!(reasons.contains(what), "{reasons}");
        is_told("in partition 5 (of 16, from 0) fail");
        is_told("reads go on, and writes of other keys until a sync");
        assert!(reasons.ends_with(": a bad sector"), "{reasons}");

        failures.stop_partition(0, 16, || "another".to_owned());
        assert_eq!(failures.count(), 2, "who waits for events is told of each");
        let reasons = failures.reasons().join("\n");
        assert!(reasons.contains("in partitions 0, 5 (of 16, from 0) fail"), "{reasons}");
    }

    #[test]
    fn where_all_stops_nothing_is_said_to_go_on() {
        let [whole, every] = [(); 2].map(|()| NamespaceHealth::default());
        whole.stop_partition(0, 2, || "a bad sector".to_owned());
        whole.stop(|| "a sync failed".to_owned());
        (0..2).for_each(|number| every.stop_partition(number, 2, || "a sync failed".to_owned()));
        for failures in [whole, every] {
            let all = "writes fail until the node is started again: a sync failed";
            assert_eq!(failures.reasons(), [all]);
        }
    }

    #[test]
    fn a_namespace_that_was_not_opened_has_one_failure_from_the_start() {
        let failures = NamespaceHealth::unopened("a bad manifest".to_owned());
        assert_eq!((failures.has_stopped(), failures.count()), (true, 1));
        let reason = "every command fails until the node is started again: a bad manifest";
        assert_eq!(failures.reasons(), [reason]);
    }

    #[test]
    fn the_first_reasons_stay_and_all_failures_count() {
        let failures = NamespaceHealth::default();
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
