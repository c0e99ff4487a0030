//! The one gate of background I/O: reads of a busy device first, then flushes, then compactions.
//! [`WriteLimiter`] limits the rate of both, if the settings say so.
//!
//! A compaction asks before each range of output. While a flush runs and more MemTables wait for
//! theirs, it pauses a little, so that writers are never held up by work that could wait. It never
//! pauses for long: an old compaction left undone makes reads and later compactions more expensive.
//!
//! While the storage says that reads wait for writes, and no writer is slowed down by what compactions have
//! yet to do, compactions pause once for each [`YIELD_BYTES`]
//! that they write, and so do about as much at least in each pause's time; a flush pauses before each
//! of its files, a few times at most, and not if another MemTable waited when it began.

use super::rate_limited_file::RateLimitedFile;
use super::write_limiter::{WriteLimiter, Writing};
use crate::options::write_rate::BackgroundWriteRate;
use esker_base::Clock;
use esker_storage::WritableFile;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How long a compaction pauses at a time, and how often at one gate passage.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSES_MAX: u32 = 5;

/// How much compactions write for each pause that they make for reads, in bytes: 64 MB/s with pauses of a
/// millisecond, as much as one die of flash takes, so that nothing stalls.
const YIELD_BYTES: u64 = 64 << 10;

/// See the file's head.
pub(crate) struct IoThrottle {
    pub(crate) limiter: WriteLimiter,
    /// MemTables that wait for their flush, if one is running.
    urgent_flushes: AtomicUsize,
    /// Bytes that compactions wrote beyond the last whole [`YIELD_BYTES`].
    written: AtomicU64,
    cancelled: AtomicBool,
}

impl IoThrottle {
    pub(crate) fn new(rate: BackgroundWriteRate) -> Self {
        IoThrottle {
            limiter: WriteLimiter::new(rate),
            urgent_flushes: AtomicUsize::new(0),
            written: AtomicU64::new(0),
            cancelled: AtomicBool::new(false),
        }
    }

    /// Says how many MemTables wait while a flush runs; 0 if none runs.
    pub(crate) fn set_pending_flushes(&self, waiting: usize) {
        self.urgent_flushes.store(waiting, Ordering::Relaxed);
    }

    /// Passes a compaction through that is going to write so many bytes, now or a little later. `yields` says
    /// whether it is to pause for reads. Returns how many of the bytes it may write.
    pub(crate) fn throttle_compaction(
        &self,
        bytes: u64,
        clock: &dyn Clock,
        yields: impl FnOnce() -> bool,
    ) -> u64 {
        let bytes = self.limiter.take(bytes, Writing::Compaction, clock, || self.is_cancelled());
        let add = |written| Some((written + bytes) % YIELD_BYTES);
        let before = self.written.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        let pauses = (before.unwrap_or_else(|same| same) + bytes) / YIELD_BYTES;
        if pauses > 0 && yields() {
            (0..pauses).take_while(|_| !self.is_cancelled()).for_each(|_| clock.sleep(PAUSE));
        }
        for _ in 0..PAUSES_MAX {
            if self.urgent_flushes.load(Ordering::Relaxed) < 2 || self.is_cancelled() {
                break;
            }
            clock.sleep(PAUSE);
        }
        bytes
    }

    /// Passes a flush through before one of its files.
    pub(crate) fn throttle_flush(&self, clock: &dyn Clock, is_busy: impl Fn() -> bool) {
        for _ in 0..PAUSES_MAX {
            let is_urgent = self.urgent_flushes.load(Ordering::Relaxed) >= 2;
            if is_urgent || self.is_cancelled() || !is_busy() {
                return;
            }
            clock.sleep(PAUSE);
        }
    }

    /// Returns `file`, to which a flush writes at the rate of the limit.
    pub(crate) fn limit_flush<'a>(
        &'a self,
        file: Box<dyn WritableFile>,
        clock: &'a dyn Clock,
    ) -> Box<dyn WritableFile + 'a> {
        let grant = move |bytes| {
            Ok(self.limiter.take(bytes, Writing::Flush, clock, || self.is_cancelled()))
        };
        Box::new(RateLimitedFile { file, grant })
    }

    /// Ends all compactions at their next look.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn cancelled_flag(&self) -> &AtomicBool {
        &self.cancelled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts how long was slept.
    #[derive(Default)]
    struct Slept(AtomicU64);

    impl Slept {
        fn millis(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Clock for Slept {
        fn now(&self) -> Duration {
            Duration::ZERO
        }
        fn sleep(&self, duration: Duration) {
            self.0.fetch_add(duration.as_millis() as u64, Ordering::Relaxed);
        }
    }

    /// Writes 4 MiB in appends of so many bytes.
    fn compact(gate: &IoThrottle, append: u64, is_busy: bool) -> u64 {
        let slept = Slept::default();
        for _ in 0..(4 << 20) / append {
            assert_eq!(gate.throttle_compaction(append, &slept, || is_busy), append);
        }
        slept.millis()
    }

    #[test]
    fn a_compaction_yields_to_reads_a_millisecond_each_64_kib_and_no_more() {
        for append in [16 << 10, 256 << 10] {
            assert_eq!(
                compact(&IoThrottle::new(BackgroundWriteRate::Unlimited), append, true),
                64,
                "appends of {append} bytes"
            );
            assert_eq!(compact(&IoThrottle::new(BackgroundWriteRate::Unlimited), append, false), 0);
        }
    }

    #[test]
    fn a_flush_yields_to_reads_for_five_milliseconds_a_file_at_most() {
        let (gate, slept) = (IoThrottle::new(BackgroundWriteRate::Unlimited), Slept::default());
        gate.throttle_flush(&slept, || true);
        assert_eq!(slept.millis(), 5);
        gate.throttle_flush(&slept, || false);
        assert_eq!(slept.millis(), 5);
    }

    #[test]
    fn a_flush_that_others_wait_for_yields_to_nobody() {
        let (gate, slept) = (IoThrottle::new(BackgroundWriteRate::Unlimited), Slept::default());
        gate.set_pending_flushes(2);
        gate.throttle_flush(&slept, || true);
        assert_eq!(slept.millis(), 0);
    }

    #[test]
    fn nothing_that_is_cancelled_pauses() {
        let gate = IoThrottle::new(BackgroundWriteRate::Unlimited);
        gate.cancel();
        assert_eq!(compact(&gate, 256 << 10, true), 0);
        let slept = Slept::default();
        gate.throttle_flush(&slept, || true);
        assert_eq!(slept.millis(), 0);
    }
}
