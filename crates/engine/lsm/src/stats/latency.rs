//! How long calls took, in classes that are at most an eighth wide.
//!
//! ```text
//! nanoseconds:  0 .. 63 | 64 .. 71 | 72 .. 79 | ... | 120 .. 127 | 128 .. 143 | ...
//! class:           0    |    1     |    2     |     |     8      |     9      | ...
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Times below this are in the first class.
const LEAST_BITS: u32 = 6;
/// Each power of two has so many classes.
const PARTS_BITS: u32 = 3;
const PARTS: usize = 1 << PARTS_BITS;
/// Up to 2^36 ns, which is 68 s; the last class has what is longer, too.
const CLASSES: usize = 1 + 30 * PARTS;

/// How many calls took how long.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LatencyHistogram {
    /// By class. Classes that follow are empty.
    counts: Vec<u64>,
    /// In nanoseconds.
    sum: u64,
}

fn nanos_of(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

fn class_of(nanos: u64) -> usize {
    if nanos < 1 << LEAST_BITS {
        return 0;
    }
    let bits = nanos.ilog2();
    let part = (nanos >> (bits - PARTS_BITS)) as usize & (PARTS - 1);
    (1 + (bits - LEAST_BITS) as usize * PARTS + part).min(CLASSES - 1)
}

/// The longest time of a class.
fn longest(class: usize) -> Duration {
    let Some(above) = class.checked_sub(1) else {
        return Duration::from_nanos((1 << LEAST_BITS) - 1);
    };
    let (bits, part) = (LEAST_BITS as usize + above / PARTS, above % PARTS);
    let width = 1u64 << (bits - PARTS_BITS as usize);
    Duration::from_nanos((1 << bits) + (part as u64 + 1) * width - 1)
}

impl LatencyHistogram {
    /// Bounds of wider classes: powers of two of nanoseconds, from 512 ns to 34 s.
    pub const BOUNDS: [Duration; 27] = {
        let (mut bounds, mut at) = ([Duration::ZERO; 27], 0);
        while at < bounds.len() {
            bounds[at] = Duration::from_nanos(512 << at);
            at += 1;
        }
        bounds
    };

    /// Adds a call.
    pub fn record(&mut self, took: Duration) {
        let nanos = nanos_of(took);
        let class = class_of(nanos);
        if self.counts.len() <= class {
            self.counts.resize(class + 1, 0);
        }
        self.counts[class] += 1;
        self.sum = self.sum.saturating_add(nanos);
    }

    /// Returns the number of calls.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of their times.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// Returns how many took at most so long, for each of [`LatencyHistogram::BOUNDS`].
    pub fn cumulative(&self) -> [u64; LatencyHistogram::BOUNDS.len()] {
        let (mut classes, mut below) = (self.counts.iter().enumerate().peekable(), 0);
        Self::BOUNDS.map(|bound| {
            while let Some((_, count)) = classes.next_if(|(class, _)| longest(*class) <= bound) {
                below += count;
            }
            below
        })
    }

    /// Returns the classes that are not empty: the longest time of each, and how many it has.
    pub fn classes(&self) -> impl Iterator<Item = (Duration, u64)> {
        let all = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        all.map(|(class, count)| (longest(class), *count))
    }

    /// Returns a time that a share `q`, 0 to 1, of the calls did not exceed, or `None` without calls. It
    /// is at most an eighth too long.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((q * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut below = 0;
        let found = self.counts.iter().position(|more| {
            below += more;
            below >= rank
        });
        found.filter(|_| count > 0).map(longest)
    }

    /// Returns the calls since `earlier`, a histogram of the same calls.
    pub fn since(&self, earlier: &LatencyHistogram) -> LatencyHistogram {
        let before = earlier.counts.iter().copied().chain(std::iter::repeat(0));
        let differences =
            self.counts.iter().zip(before).map(|(now, then)| now.saturating_sub(then));
        let sum = self.sum.saturating_sub(earlier.sum);
        LatencyHistogram { counts: differences.collect(), sum }
    }

    /// Adds calls of another histogram.
    pub fn add(&mut self, more: &LatencyHistogram) {
        if self.counts.len() < more.counts.len() {
            self.counts.resize(more.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&more.counts).for_each(|(sum, count)| *sum += count);
        self.sum = self.sum.saturating_add(more.sum);
    }

    pub(crate) fn set_sum(&mut self, sum: Duration) {
        self.sum = nanos_of(sum);
    }

    /// The classes that are not empty, as `CLASS:COUNT` with a space between. The sum is not in it.
    pub(crate) fn encode(&self) -> String {
        let used = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let texts: Vec<_> = used.map(|(class, count)| format!("{class}:{count}")).collect();
        texts.join(" ")
    }

    /// Reads what [`LatencyHistogram::encode`] wrote.
    pub(crate) fn decode<'a>(words: impl Iterator<Item = &'a str>) -> Option<LatencyHistogram> {
        let mut histogram = LatencyHistogram { counts: vec![0; CLASSES], sum: 0 };
        for word in words {
            let (class, count) = word.split_once(':')?;
            *histogram.counts.get_mut(class.parse::<usize>().ok()?)? = count.parse().ok()?;
        }
        histogram.trim();
        Some(histogram)
    }

    fn trim(&mut self) {
        let used = self.counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        self.counts.truncate(used);
    }
}

/// A histogram that threads add to.
pub(super) struct LatencyRecorder {
    counts: [AtomicU64; CLASSES],
    sum: AtomicU64,
}

impl Default for LatencyRecorder {
    fn default() -> Self {
        let counts = std::array::from_fn(|_| AtomicU64::new(0));
        LatencyRecorder { counts, sum: AtomicU64::new(0) }
    }
}

impl LatencyRecorder {
    /// Adds a call that stands for so many.
    pub(super) fn record(&self, took: Duration, calls: u64) {
        let nanos = nanos_of(took);
        self.counts[class_of(nanos)].fetch_add(calls, Ordering::Relaxed);
        self.sum.fetch_add(nanos.saturating_mul(calls), Ordering::Relaxed);
    }

    pub(super) fn histogram(&self) -> LatencyHistogram {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let mut histogram = LatencyHistogram { counts, sum: self.sum.load(Ordering::Relaxed) };
        histogram.trim();
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_each_other_and_are_narrow() {
        let mut last = 0;
        for nanos in (0..4096).chain((12..36).flat_map(|bits| [(1 << bits) - 1, 1 << bits])) {
            let class = class_of(nanos);
            assert!(class == last || class == last + 1 || nanos > 4096, "{nanos}");
            let longest = longest(class).as_nanos() as u64;
            assert!(longest >= nanos && (nanos < 64 || longest - nanos <= nanos / 8), "{nanos}");
            last = class;
        }
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_calls() {
        let recorder = LatencyRecorder::default();
        assert_eq!(recorder.histogram().quantile(0.5), None);
        (1..=1000).for_each(|micros| recorder.record(Duration::from_micros(micros), 1));
        let first = recorder.histogram();
        assert_eq!(first.count(), 1000);
        for (q, micros) in [(0.0, 1), (0.5, 500), (0.99, 990), (1.0, 1000)] {
            let found = first.quantile(q).unwrap();
            let exact = Duration::from_micros(micros);
            assert!(found >= exact && found <= exact * 9 / 8, "{q}: {found:?}");
        }
        recorder.record(Duration::from_secs(3), 1);
        let since = recorder.histogram().since(&first);
        assert_eq!(since.count(), 1);
        assert!(since.quantile(0.5).unwrap() >= Duration::from_secs(3));
        assert_eq!(since.sum(), Duration::from_secs(3));
    }

    #[test]
    fn wider_classes_have_the_calls_up_to_their_bounds() {
        let mut histogram = LatencyHistogram::default();
        assert_eq!(histogram.cumulative(), [0; 27]);
        for nanos in [0, 511, 512, 1_023, 5_000, 34_000_000_000, 40_000_000_000, 1 << 40] {
            histogram.record(Duration::from_nanos(nanos));
        }
        let found = histogram.cumulative();
        // A time of exactly a bound is in the class above it.
        assert_eq!(found[..5], [2, 4, 4, 4, 5]);
        assert_eq!((found[25], found[26], histogram.count()), (5, 6, 8));
        assert!(LatencyHistogram::BOUNDS.is_sorted() && found.is_sorted());
    }

    #[test]
    fn a_call_of_a_sample_stands_for_those_that_were_not_timed() {
        let recorder = LatencyRecorder::default();
        recorder.record(Duration::from_micros(1), 8);
        recorder.record(Duration::from_micros(100), 1);
        let histogram = recorder.histogram();
        assert_eq!((histogram.count(), histogram.sum()), (9, Duration::from_micros(108)));
        assert!(histogram.quantile(0.8).unwrap() < Duration::from_micros(2));
    }

    #[test]
    fn histograms_are_read_as_they_are_written() {
        let recorder = LatencyRecorder::default();
        for nanos in [0, 100, 100, 5_000_000_000, u64::MAX] {
            recorder.record(Duration::from_nanos(nanos), 1);
        }
        let histogram = recorder.histogram();
        let text = histogram.encode();
        let mut read = LatencyHistogram::decode(text.split_whitespace()).unwrap();
        read.set_sum(histogram.sum());
        assert_eq!(read, histogram);
        let none = LatencyHistogram::default();
        assert_eq!(LatencyHistogram::decode("".split_whitespace()), Some(none.clone()));
        for bad in ["1", "1:x", "9999:1", "-1:2"] {
            assert_eq!(LatencyHistogram::decode(bad.split_whitespace()), None, "{bad}");
        }
        let mut sum = none;
        sum.add(&histogram);
        sum.add(&histogram);
        assert_eq!(sum.count(), 10);
    }
}
