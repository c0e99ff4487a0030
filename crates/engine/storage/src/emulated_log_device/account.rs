//! What a device was asked to take and what it took.

use std::time::Duration;

/// The last so many syncs are remembered one by one, for their median.
const REMEMBERED: usize = 1 << 16;

/// More than this off its time, a device does not stand for what it is called.
const TOLERANCE: f64 = 0.2;

/// Syncs since the device was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServiceStats {
    /// How many.
    pub syncs: u64,
    /// What they wrote.
    pub bytes: u64,
    /// The mean service time that was asked for: zero of a real device.
    pub requested_mean: Duration,
    /// The median of the last.
    pub requested_p50: Duration,
    /// The mean time from the start of the service until the caller went on.
    pub achieved_mean: Duration,
    /// The median of the last.
    pub achieved_p50: Duration,
    /// Processor time that was spent on waiting, in all: no real device takes it.
    pub waiting_cpu: Duration,
}

impl ServiceStats {
    /// Whether the median sync took as long as it should have, to a fifth. The mean has in it what
    /// other threads made it wait for a core: a real device's caller waits for that, too.
    pub fn is_within_tolerance(&self) -> bool {
        (self.ratio() - 1.0).abs() <= TOLERANCE
    }

    /// The median achieved by the one asked for; one, if there was none or nothing was asked.
    pub fn ratio(&self) -> f64 {
        if self.requested_p50.is_zero() {
            return 1.0;
        }
        self.achieved_p50.as_secs_f64() / self.requested_p50.as_secs_f64()
    }
}

#[derive(Default)]
pub(super) struct ServiceRecorder {
    syncs: u64,
    bytes: u64,
    requested: Samples,
    achieved: Samples,
    waiting_cpu: Duration,
}

impl ServiceRecorder {
    pub(super) fn add(
        &mut self,
        bytes: u64,
        requested: Duration,
        achieved: Duration,
        cpu: Duration,
    ) {
        let at = (self.syncs % REMEMBERED as u64) as usize;
        self.requested.add(at, requested);
        self.achieved.add(at, achieved);
        self.syncs += 1;
        self.bytes += bytes;
        self.waiting_cpu += cpu;
    }

    pub(super) fn syncs(&self) -> u64 {
        self.syncs
    }

    pub(super) fn served(&self) -> ServiceStats {
        ServiceStats {
            syncs: self.syncs,
            bytes: self.bytes,
            requested_mean: self.requested.mean(self.syncs),
            requested_p50: self.requested.median(),
            achieved_mean: self.achieved.mean(self.syncs),
            achieved_p50: self.achieved.median(),
            waiting_cpu: self.waiting_cpu,
        }
    }
}

#[derive(Default)]
struct Samples {
    total: Duration,
    last_ns: Vec<u64>,
}

impl Samples {
    fn add(&mut self, at: usize, time: Duration) {
        let ns = time.as_nanos() as u64;
        self.total += time;
        match self.last_ns.get_mut(at) {
            Some(earlier) => *earlier = ns,
            None => self.last_ns.push(ns),
        }
    }

    fn mean(&self, count: u64) -> Duration {
        let ns = self.total.as_nanos().checked_div(u128::from(count)).unwrap_or(0);
        Duration::from_nanos(ns as u64)
    }

    fn median(&self) -> Duration {
        let mut sorted = self.last_ns.clone();
        sorted.sort_unstable();
        Duration::from_nanos(sorted.get(sorted.len() / 2).copied().unwrap_or(0))
    }
}

/// The processor time of the calling thread. Not a time of day: only differences say something.
pub(super) fn thread_cpu() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(requested_us: u64, achieved_us: u64) -> ServiceStats {
        let mut account = ServiceRecorder::default();
        let micros = Duration::from_micros;
        for _ in 0..3 {
            account.add(10, micros(requested_us), micros(achieved_us), micros(1));
        }
        // One that was held up for long moves the mean and not the median.
        account.add(10, micros(requested_us), micros(achieved_us + 10_000), micros(1));
        account.served()
    }

    #[test]
    fn a_device_is_void_when_its_median_is_more_than_a_fifth_off() {
        for (achieved_us, expected) in [(80, true), (120, true), (79, false), (121, false)] {
            let served = served(100, achieved_us);
            assert_eq!(served.is_within_tolerance(), expected, "{served:?}");
        }
        assert!(ServiceStats::default().is_within_tolerance(), "nothing was asked");
    }

    #[test]
    fn everything_is_counted() {
        let served = served(100, 110);
        assert_eq!((served.syncs, served.bytes), (4, 40));
        assert_eq!(served.achieved_mean, Duration::from_micros(110 + 2_500));
        assert_eq!(served.waiting_cpu, Duration::from_micros(4));
    }

    #[test]
    fn the_median_is_that_of_the_last_syncs() {
        let mut account = ServiceRecorder::default();
        for us in [5_000, 1] {
            for _ in 0..REMEMBERED {
                account.add(
                    0,
                    Duration::from_micros(us),
                    Duration::from_micros(us),
                    Duration::ZERO,
                );
            }
        }
        assert_eq!(account.served().achieved_p50, Duration::from_micros(1));
    }
}
