//! The rate limit of background writes: a token bucket for flushes and compactions.
//!
//! Tokens are bytes. They arrive at the rate of the setting, and the bucket holds those of [`BURST`].
//! So at most 1.05 times the rate is written in any second. A write takes its tokens piece by piece,
//! and waits for those that are not there yet.
//!
//! * *Order.* A flush goes before all compactions. While a compaction waits, it still gets
//!   a ninth of the tokens: without compaction, level 0 would grow until writers wait.
//! * *Writers.* No write of a caller takes tokens. Flushes that a limit slows down throttle writers as
//!   slow flushes do.
//! * *Lifting.* While writers wait for a flush in any case, as in an ingest, flushes take no tokens.

use crate::options::write_rate::BackgroundWriteRate;
use esker_base::Clock;
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The time in which an empty bucket fills.
const BURST: Duration = Duration::from_millis(50);

/// A bucket holds two pieces at least; and a piece has at most so many bytes.
const PIECE_BYTES_MAX: u64 = 256 << 10;

/// For so many bytes of flushes, a compaction that waits gets one.
const FLUSH_BYTES_PER_COMPACTION_BYTE: u64 = 8;

/// A waiting job looks again so often, for a change of the rate and for its cancellation.
const LOOK: Duration = Duration::from_millis(10);

/// A job looks again so soon if another goes first.
const GIVE_WAY: Duration = Duration::from_millis(1);

/// What writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Writing {
    Flush,
    Compaction,
}

/// See the file's head.
pub(crate) struct WriteLimiter {
    /// Bytes per second now; 0 is no limit. Changed under `bucket`.
    rate: AtomicU64,
    /// Those for whom flushes take no tokens now.
    lifted: AtomicUsize,
    waited_ns: AtomicU64,
    bucket: Mutex<Bucket>,
}

struct Bucket {
    setting: BackgroundWriteRate,
    backlog: f64,
    /// When the bucket is full: [`BURST`] after it is empty.
    full_at: Duration,
    flushes: usize,
    compactions: usize,
    /// What compactions may take before the next flush.
    compaction_credit: u64,
}

impl WriteLimiter {
    pub(crate) fn new(setting: BackgroundWriteRate) -> Self {
        WriteLimiter {
            rate: AtomicU64::new(setting.at(0.0).unwrap_or(0)),
            lifted: AtomicUsize::new(0),
            waited_ns: AtomicU64::new(0),
            bucket: Mutex::new(Bucket {
                setting,
                backlog: 0.0,
                full_at: Duration::ZERO,
                flushes: 0,
                compactions: 0,
                compaction_credit: 0,
            }),
        }
    }

    /// Changes the limit. Jobs that wait notice it.
    pub(crate) fn set(&self, setting: BackgroundWriteRate) {
        self.update(|bucket| bucket.setting = setting);
    }

    /// Records the backlog, between 0, none, and 1, one that throttles writers.
    pub(crate) fn set_backlog(&self, backlog: f64) {
        self.update(|bucket| bucket.backlog = backlog);
    }

    fn update(&self, change: impl FnOnce(&mut Bucket)) {
        let mut bucket = self.bucket.lock();
        change(&mut bucket);
        let rate = bucket.setting.at(bucket.backlog).unwrap_or(0);
        self.rate.store(rate, Ordering::Relaxed);
    }

    /// Bytes per second now; `None` if there is no limit.
    pub(crate) fn rate(&self) -> Option<u64> {
        Some(self.rate.load(Ordering::Relaxed)).filter(|&rate| rate > 0)
    }

    pub(crate) fn setting(&self) -> BackgroundWriteRate {
        self.bucket.lock().setting
    }

    /// Bytes per second with the largest backlog; `None` if there is no limit.
    pub(crate) fn rate_max(&self) -> Option<u64> {
        self.bucket.lock().setting.at(1.0)
    }

    /// The time that flushes and compactions have waited, in all.
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed))
    }

    /// Lets flushes write as fast as they can until the result is dropped.
    pub(crate) fn lift_for_flushes(&self) -> Lifted<'_> {
        self.lifted.fetch_add(1, Ordering::Relaxed);
        Lifted(self)
    }

    /// Waits for tokens for some of `bytes`, and returns for how many: all of them if there is no
    /// limit, and at least one of one or more.
    #[inline]
    pub(crate) fn take(
        &self,
        bytes: u64,
        writing: Writing,
        clock: &dyn Clock,
        is_cancelled: impl Fn() -> bool,
    ) -> u64 {
        match self.rate() {
            None => bytes,
            Some(rate) => self.wait(bytes.min(piece_bytes(rate)), writing, clock, is_cancelled),
        }
    }

    #[cold]
    fn wait(
        &self,
        bytes: u64,
        writing: Writing,
        clock: &dyn Clock,
        is_cancelled: impl Fn() -> bool,
    ) -> u64 {
        let mut bucket = self.bucket.lock();
        *bucket.jobs(writing) += 1;
        let begun = clock.now();
        let mut now = begun;
        while let Some(rate) = self.rate()
            && !(is_cancelled() || self.is_lifted(writing))
        {
            let wait = bucket.wait(bytes, rate, writing, now);
            if wait.is_zero() {
                bucket.take(bytes, rate, writing, now);
                break;
            }
            MutexGuard::unlocked(&mut bucket, || clock.sleep(wait.min(LOOK)));
            now = clock.now();
        }
        *bucket.jobs(writing) -= 1;
        let waited = now.saturating_sub(begun).as_nanos() as u64;
        self.waited_ns.fetch_add(waited, Ordering::Relaxed);
        bytes
    }

    fn is_lifted(&self, writing: Writing) -> bool {
        writing == Writing::Flush && self.lifted.load(Ordering::Relaxed) > 0
    }
}

/// While it lives, flushes take no tokens.
pub(crate) struct Lifted<'a>(&'a WriteLimiter);

impl Drop for Lifted<'_> {
    fn drop(&mut self) {
        self.0.lifted.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Bucket {
    /// The number of jobs that take tokens, or wait for some.
    fn jobs(&mut self, writing: Writing) -> &mut usize {
        match writing {
            Writing::Flush => &mut self.flushes,
            Writing::Compaction => &mut self.compactions,
        }
    }

    /// How long a job waits before it looks again; nothing if it may take its tokens.
    fn wait(&self, bytes: u64, rate: u64, writing: Writing, now: Duration) -> Duration {
        let full_at = self.full_at.max(now) + time_of(bytes, rate);
        let wait = full_at.saturating_sub(now + BURST);
        let is_owed = self.compaction_credit >= piece_bytes(rate);
        let goes_second = match writing {
            Writing::Flush => self.compactions > 0 && is_owed,
            Writing::Compaction => self.flushes > 0 && !is_owed,
        };
        if goes_second { wait.max(GIVE_WAY) } else { wait }
    }

    fn take(&mut self, bytes: u64, rate: u64, writing: Writing, now: Duration) {
        self.full_at = self.full_at.max(now) + time_of(bytes, rate);
        let credit = self.compaction_credit;
        self.compaction_credit = match writing {
            Writing::Flush if self.compactions > 0 => {
                // Rounded up, so that small pieces count.
                (credit + bytes.div_ceil(FLUSH_BYTES_PER_COMPACTION_BYTE)).min(piece_bytes(rate))
            }
            Writing::Flush => 0,
            Writing::Compaction => credit.saturating_sub(bytes),
        };
    }
}

/// The most bytes that are taken at once.
fn piece_bytes(rate: u64) -> u64 {
    let half = rate as u128 * BURST.as_nanos() / 2_000_000_000;
    (half as u64).clamp(1, PIECE_BYTES_MAX)
}

/// The time in which so many tokens arrive.
fn time_of(bytes: u64, rate: u64) -> Duration {
    Duration::from_nanos((bytes as u128 * 1_000_000_000 / rate.max(1) as u128) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 20_000_000;
    const SECOND: Duration = Duration::from_secs(1);

    /// Time passes as it is slept, and the system wakes a sleeper late.
    #[derive(Default)]
    struct Late(Mutex<Duration>);

    impl Clock for Late {
        fn now(&self) -> Duration {
            *self.0.lock()
        }
        fn sleep(&self, duration: Duration) {
            *self.0.lock() += duration + Duration::from_micros(70);
        }
    }

    /// Writes `bytes` in appends of this size, each of which takes `work` of its own, and returns when how
    /// many bytes were written.
    fn write(
        limiter: &WriteLimiter,
        clock: &Late,
        (bytes, append): (u64, u64),
        work: Duration,
    ) -> Vec<(Duration, u64)> {
        let mut written = Vec::new();
        for _ in 0..bytes / append {
            let mut left = append;
            while left > 0 {
                let granted = limiter.take(left, Writing::Compaction, clock, || false);
                assert!((1..=left).contains(&granted));
                written.push((clock.now(), granted));
                left -= granted;
            }
            *clock.0.lock() += work;
        }
        written
    }

    /// The most that was written in any second that ends with a write.
    fn most_in_a_second(written: &[(Duration, u64)]) -> u64 {
        let (mut start, mut within, mut most) = (0, 0, 0);
        for (at, bytes) in written {
            within += bytes;
            while written[start].0 + SECOND <= *at {
                within -= written[start].1;
                start += 1;
            }
            most = most.max(within);
        }
        most
    }

    #[test]
    fn any_second_has_at_most_a_twentieth_more_than_the_rate_and_no_less_than_nine_tenths() {
        for append in [100, 4 << 10, 256 << 10, 16 << 20] {
            for rate in [100_000, RATE, 500_000_000] {
                let (limiter, clock) =
                    (WriteLimiter::new(BackgroundWriteRate::Fixed(rate)), Late::default());
                // A pause fills the bucket, and no more.
                clock.sleep(SECOND * 60);
                let total = (4 * rate).min(append * 50_000).next_multiple_of(append);
                let begun = clock.now();
                let written = write(&limiter, &clock, (total, append), Duration::ZERO);
                let most = most_in_a_second(&written);
                assert!(most * 100 <= rate * 106, "{append} {rate}: {most}");
                let mean = total as f64 / (clock.now() - begun).as_secs_f64();
                assert!(mean > 0.9 * rate as f64, "{append} {rate}: {mean}");
            }
        }
    }

    #[test]
    fn a_job_that_works_between_its_writes_still_gets_the_rate() {
        let (limiter, clock) =
            (WriteLimiter::new(BackgroundWriteRate::Fixed(RATE)), Late::default());
        // 256 KiB take 13 ms of the rate.
        write(&limiter, &clock, (100 << 20, 256 << 10), Duration::from_millis(9));
        let mean = (100 << 20) as f64 / clock.now().as_secs_f64();
        assert!(mean > 0.95 * RATE as f64, "{mean}");
    }

    #[test]
    fn without_a_limit_and_after_a_cancellation_nothing_waits() {
        let clock = Late::default();
        let limiter = WriteLimiter::new(BackgroundWriteRate::Unlimited);
        assert_eq!(limiter.take(1 << 30, Writing::Flush, &clock, || false), 1 << 30);
        let limiter = WriteLimiter::new(BackgroundWriteRate::Fixed(RATE));
        (0..100).for_each(|_| _ = limiter.take(1 << 30, Writing::Flush, &clock, || true));
        let lifted = limiter.lift_for_flushes();
        (0..100).for_each(|_| _ = limiter.take(1 << 30, Writing::Flush, &clock, || false));
        assert_eq!(clock.now(), Duration::ZERO);
        (0..9).for_each(|_| _ = limiter.take(1 << 30, Writing::Compaction, &clock, || false));
        let waited = clock.now();
        assert!(waited > Duration::from_millis(40), "compactions wait: {waited:?}");
        assert_eq!(limiter.waited(), waited);
        drop(lifted);
        (0..9).for_each(|_| _ = limiter.take(1 << 30, Writing::Flush, &clock, || false));
        assert!(clock.now() > waited, "flushes wait again");
    }

    /// A bucket whose jobs take pieces in turn: which job a free token goes to.
    #[test]
    fn flushes_go_first_and_a_compaction_that_waits_gets_a_ninth() {
        let piece = piece_bytes(RATE);
        let limiter = WriteLimiter::new(BackgroundWriteRate::Fixed(RATE));
        let mut bucket = limiter.bucket.lock();
        (bucket.flushes, bucket.compactions) = (1, 1);
        let (mut now, mut taken) = (Duration::ZERO, [0u64; 2]);
        for _ in 0..900 {
            // The bucket is full.
            now += SECOND;
            let [flush, compaction] = [Writing::Flush, Writing::Compaction]
                .map(|writing| bucket.wait(piece, RATE, writing, now).is_zero());
            assert!(flush != compaction, "just one of them is next");
            let writing = if flush { Writing::Flush } else { Writing::Compaction };
            bucket.take(piece, RATE, writing, now);
            taken[usize::from(compaction)] += 1;
        }
        assert_eq!(taken, [800, 100]);
        bucket.compactions = 0;
        (0..20).for_each(|_| bucket.take(piece, RATE, Writing::Flush, now));
        assert_eq!(bucket.compaction_credit, 0, "nothing waits for it");
        bucket.flushes = 0;
        now += SECOND * 10;
        assert!(bucket.wait(piece, RATE, Writing::Compaction, now).is_zero());
    }

    #[test]
    fn a_changed_limit_and_a_changed_backlog_count_at_once() {
        let clock = Late::default();
        let limiter = WriteLimiter::new(BackgroundWriteRate::Fixed(RATE));
        limiter.set_backlog(1.0);
        assert_eq!(limiter.rate(), Some(RATE));
        limiter.set(BackgroundWriteRate::Auto { least: 1_000_000, most: 9_000_000 });
        assert_eq!([limiter.rate(), limiter.rate_max()], [Some(9_000_000); 2]);
        limiter.set_backlog(0.0);
        assert_eq!([limiter.rate(), limiter.rate_max()], [Some(1_000_000), Some(9_000_000)]);
        limiter.set(BackgroundWriteRate::Unlimited);
        assert_eq!(limiter.take(1 << 30, Writing::Flush, &clock, || false), 1 << 30);
    }
}
