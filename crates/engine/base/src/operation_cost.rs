//! What calls cost, counted per thread while a caller asks for it.
//!
//! ```text
//! measure ──► MEASURING + 1, the thread has a cost ──► call ──► the cost is taken, MEASURING - 1
//!                                                       │
//!                  count(..): MEASURING is 0? ──────────┴─ done        else: add to the thread's cost
//! ```
//!
//! While no thread measures, a place that counts reads one shared number that stays in its cache.

use std::cell::Cell;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the calls of [`OperationCost::measure`] needed to read and write.
///
/// Background work that the calls cause is not included, such as a flush or a compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct OperationCost {
    /// MemTables that point reads searched. A key that has merge operands is searched for again, and
    /// that is counted, too; so it is in `runs`.
    pub memtables: u64,
    /// Point reads that the DRAMTable answered.
    pub dram_table_hits: u64,
    /// Sorted runs that point reads searched: those with a table whose bounds include the key.
    pub runs: u64,
    /// Filters that point reads asked whether their table has the key.
    pub filters: u64,
    /// Filters that excluded the key, so that the table was not read.
    pub filters_excluded: u64,
    /// Data blocks found in the block cache.
    pub cache_hits: u64,
    /// Data blocks not found in the block cache.
    pub cache_misses: u64,
    /// Data blocks read from files, those that a scan reads ahead included.
    pub blocks_read: u64,
    /// Bytes read from table files: these blocks as stored, and the index and filter of each table
    /// that a read had to open.
    pub bytes_read: u64,
    /// Bytes of batches that were written, before compression and checksums.
    pub bytes_written: u64,
    /// Time that writes were throttled or stalled.
    pub stalled: Duration,
}

/// The number of [`Measuring`]s in the lower half, and that of [`Watching`]s in the upper half, on a cache
/// line that few write.
#[repr(align(128))]
struct Measured(AtomicU64);

static MEASURING: Measured = Measured(AtomicU64::new(0));

/// What a [`Watching`] adds.
const A_WATCHER: u64 = 1 << 32;

thread_local! {
    /// The cost so far of what this thread measures.
    static COST: Cell<Option<OperationCost>> = const { Cell::new(None) };
}

/// Adds to what the calling thread measures, if it measures.
#[inline]
pub fn count(add: impl FnOnce(&mut OperationCost)) {
    if is_measuring() {
        count_in_thread(add);
    }
}

#[cold]
#[inline(never)]
fn count_in_thread(add: impl FnOnce(&mut OperationCost)) {
    if let Some(mut cost) = COST.get() {
        add(&mut cost);
        COST.set(Some(cost));
    }
}

/// Whether any thread measures.
#[inline]
fn is_measuring() -> bool {
    !MEASURING.0.load(Ordering::Relaxed).is_multiple_of(A_WATCHER)
}

/// Whether any thread measures, or calls are watched.
#[inline]
pub fn is_watching() -> bool {
    MEASURING.0.load(Ordering::Relaxed) > 0
}

/// As [`OperationCost::measure`], and writes nothing that threads share. It counts only while a
/// [`Measuring`] lives somewhere.
pub fn measure_held<T>(call: impl FnOnce() -> T) -> (T, OperationCost) {
    let scope = Scope { around: COST.replace(Some(OperationCost::default())) };
    let value = call();
    (value, scope.end())
}

/// While it lives, places count what a thread measures.
#[derive(Debug)]
pub struct Measuring(());

impl Measuring {
    /// Turns measuring on.
    pub fn start() -> Measuring {
        MEASURING.0.fetch_add(1, Ordering::Relaxed);
        Measuring(())
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        MEASURING.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// While it lives, [`is_watching`] is true, and no cost is counted for it.
#[derive(Debug)]
pub struct Watching(());

impl Watching {
    /// Turns it on.
    pub fn start() -> Watching {
        MEASURING.0.fetch_add(A_WATCHER, Ordering::Relaxed);
        Watching(())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        MEASURING.0.fetch_sub(A_WATCHER, Ordering::Relaxed);
    }
}

/// What a thread measures from here on. Ends also if the call panics.
struct Scope {
    /// What it measures around it.
    around: Option<OperationCost>,
}

impl Scope {
    fn end(self) -> OperationCost {
        COST.get().unwrap_or_default()
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let own = COST.get().unwrap_or_default();
        COST.set(self.around.map(|mut cost| {
            cost += own;
            cost
        }));
    }
}

impl OperationCost {
    /// Runs `call`, and returns its result with what its calls of the engine cost on this thread.
    ///
    /// Measurements nest: the outer one includes the inner one. Calls that are not measured cost
    /// nothing more while no thread measures.
    ///
    /// # Examples
    ///
    /// ```
    /// # use esker_base::OperationCost;
    /// let (sum, cost) = OperationCost::measure(|| 2 + 2);
    /// assert_eq!((sum, cost), (4, OperationCost::default()));
    /// ```
    pub fn measure<T>(call: impl FnOnce() -> T) -> (T, OperationCost) {
        let _measuring = Measuring::start();
        measure_held(call)
    }
}

impl AddAssign for OperationCost {
    fn add_assign(&mut self, more: OperationCost) {
        self.memtables += more.memtables;
        self.dram_table_hits += more.dram_table_hits;
        self.runs += more.runs;
        self.filters += more.filters;
        self.filters_excluded += more.filters_excluded;
        self.cache_hits += more.cache_hits;
        self.cache_misses += more.cache_misses;
        self.blocks_read += more.blocks_read;
        self.bytes_read += more.bytes_read;
        self.bytes_written += more.bytes_written;
        self.stalled += more.stalled;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(number: u64) {
        count(|cost| cost.runs += number);
    }

    #[test]
    fn an_outer_measurement_includes_the_inner_one() {
        let (inner, outer) = OperationCost::measure(|| {
            runs(1);
            let ((), inner) = OperationCost::measure(|| runs(10));
            runs(100);
            inner
        });
        assert_eq!((inner.runs, outer.runs), (10, 111));
        runs(1000);
        let ((), next) = OperationCost::measure(|| runs(2));
        assert_eq!(next.runs, 2, "nothing is kept from before");
    }

    #[test]
    fn what_another_thread_does_is_not_counted() {
        let ((), cost) = OperationCost::measure(|| {
            std::thread::scope(|scope| {
                scope.spawn(|| runs(5));
            });
            runs(1);
        });
        assert_eq!(cost.runs, 1);
    }

    #[test]
    fn a_panic_ends_the_measurement() {
        let (caught, outer) = OperationCost::measure(|| {
            std::panic::catch_unwind(|| {
                OperationCost::measure(|| {
                    runs(3);
                    panic!("on purpose");
                })
            })
        });
        assert!(caught.is_err());
        assert_eq!(outer.runs, 3);
        assert_eq!(COST.get(), None);
    }

    #[test]
    fn costs_are_added_field_by_field() {
        let mut cost = OperationCost {
            memtables: 1,
            dram_table_hits: 2,
            runs: 3,
            filters: 4,
            filters_excluded: 5,
            cache_hits: 6,
            cache_misses: 7,
            blocks_read: 8,
            bytes_read: 9,
            bytes_written: 10,
            stalled: Duration::from_secs(11),
        };
        let shown = |factor: u64| {
            let numbers = (1..=10).map(|number| (number * factor).to_string());
            numbers.chain([format!("{:?}", Duration::from_secs(11 * factor))]).collect::<Vec<_>>()
        };
        let fields = |cost: &OperationCost| {
            let text = format!("{cost:?}");
            let inside =
                text.trim_start_matches("OperationCost { ").trim_end_matches(" }").to_owned();
            let values =
                inside.split(", ").map(|field| field.split(": ").nth(1).unwrap().to_owned());
            values.collect::<Vec<_>>()
        };
        assert_eq!(fields(&cost), shown(1));
        cost += cost;
        assert_eq!(fields(&cost), shown(2));
    }
}
