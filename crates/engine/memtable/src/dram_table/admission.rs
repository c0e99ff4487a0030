//! Whether copies of what is in MemTables are asked for: reads of held keys against puts, counted
//! over windows of puts. Counts that meet may be lost: it is an estimate.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Puts a window.
const WINDOW: u32 = 256;

/// There is demand if at least one such read was made for so many puts.
const PUTS_A_READ: u32 = 4;

#[derive(Default)]
pub(super) struct AdmissionEstimator {
    puts: AtomicU32,
    reads: AtomicU32,
    exists: AtomicBool,
}

impl AdmissionEstimator {
    /// Counts a read in a MemTable of a key that the table holds in some version.
    #[inline]
    pub fn asked(&self) {
        let reads = self.reads.load(Ordering::Relaxed);
        self.reads.store(reads.saturating_add(1), Ordering::Relaxed);
    }

    /// Counts a put, and says whether there was demand in the window before.
    #[inline]
    pub fn offered(&self) -> bool {
        let puts = self.puts.load(Ordering::Relaxed) + 1;
        if puts < WINDOW {
            self.puts.store(puts, Ordering::Relaxed);
        } else {
            self.puts.store(0, Ordering::Relaxed);
            let reads = self.reads.swap(0, Ordering::Relaxed);
            self.exists.store(reads >= WINDOW / PUTS_A_READ, Ordering::Relaxed);
        }
        self.exists.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn demand_comes_and_goes_with_the_reads() {
        let demand = AdmissionEstimator::default();
        let window = |reads_a_put: u32| {
            let offer = |_| {
                (0..reads_a_put).for_each(|_| demand.asked());
                demand.offered()
            };
            (0..WINDOW).map(offer).filter(|&wanted| wanted).count() as u32
        };
        assert_eq!(window(0), 0);
        window(1);
        assert_eq!(window(1), WINDOW, "there was demand in the window before");
        window(0);
        assert_eq!(window(0), 0);
    }
}
