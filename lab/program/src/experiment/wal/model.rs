//! The least that a log costs an engine that commits in groups: a model, to hold measurements against.
//!
//! `clients` clients in a closed loop. Each computes until its next commit, for a time drawn from an
//! exponential distribution with the mean `compute`, on one of `cores` cores, first come, first served;
//! then it commits. One sync at a time runs on the device. When none does, one begins for all commits
//! that wait, takes the device's service time for their bytes, and all of them go on together. Nothing
//! else costs anything: no append, no lock, no waking up. There is no formula for how groups form when
//! cores and device are both busy, so the loop is run, in time of its own.
//!
//! Two limits of it: with idle cores and one client, a commit every `compute + service`; with cores that
//! are the bottleneck, `cores / compute`, whatever the device.

use esker_base::Rng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What the loop is made of. Times in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Loop {
    pub(super) clients: usize,
    pub(super) cores: usize,
    /// Time on a core from commit to commit.
    pub(super) compute_us: f64,
    /// A sync that writes nothing.
    pub(super) sync_us: f64,
    /// What each commit's bytes add to it.
    pub(super) commit_us: f64,
}

/// Commits after which the rate is known to half a percent or so.
const COMMITS: u64 = 100_000;

/// What the loop makes wait for its time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Computed,
    Synced,
}

impl Loop {
    /// Commits a second.
    pub(super) fn commits_per_second(&self) -> f64 {
        let mut rng = Rng::new(1);
        // Nanoseconds, so that times have an order.
        let nanos = |us: f64| (us * 1e3) as u64;
        let mut drawn = || nanos(-self.compute_us * (1.0 - rng.unit()).ln());
        let (mut now, mut done) = (0u64, 0u64);
        let mut events = BinaryHeap::new();
        let mut ready: VecDeque<()> = VecDeque::from(vec![(); self.clients]);
        let (mut computing, mut waiting, mut syncing) = (0usize, 0u64, 0u64);
        while done < COMMITS {
            while computing < self.cores && ready.pop_front().is_some() {
                computing += 1;
                events.push(Reverse((now + drawn(), Event::Computed)));
            }
            if syncing == 0 && waiting > 0 {
                syncing = std::mem::take(&mut waiting);
                let service = self.sync_us + self.commit_us * syncing as f64;
                events.push(Reverse((now + nanos(service), Event::Synced)));
            }
            let Some(Reverse((at, event))) = events.pop() else { return 0.0 };
            now = at;
            match event {
                Event::Computed => {
                    computing -= 1;
                    waiting += 1;
                }
                Event::Synced => {
                    done += syncing;
                    ready.extend((0..std::mem::take(&mut syncing)).map(|_| ()));
                }
            }
        }
        done as f64 / (now as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOP: Loop =
        Loop { clients: 1, cores: 2, compute_us: 50.0, sync_us: 1_000.0, commit_us: 0.0 };

    fn is_about(rate: f64, expected: f64) {
        assert!((rate / expected - 1.0).abs() < 0.02, "{rate} is not about {expected}");
    }

    #[test]
    fn one_client_computes_and_syncs_in_turn() {
        is_about(LOOP.commits_per_second(), 1e6 / 1_050.0);
        let with_bytes = Loop { commit_us: 450.0, ..LOOP };
        is_about(with_bytes.commits_per_second(), 1e6 / 1_500.0);
    }

    #[test]
    fn a_fast_device_leaves_the_cores_as_the_limit() {
        let fast = Loop { clients: 64, sync_us: 1.0, ..LOOP };
        is_about(fast.commits_per_second(), 2e6 / 50.0);
    }

    #[test]
    fn two_groups_take_turns_where_all_could_compute_during_a_sync() {
        // Half of the clients sync while the other half compute: two syncs a round for all.
        let many = Loop { clients: 100, cores: 100, compute_us: 5.0, ..LOOP };
        let rate = many.commits_per_second();
        assert!((40_000.0..101_000.0).contains(&rate), "{rate}");
    }
}
