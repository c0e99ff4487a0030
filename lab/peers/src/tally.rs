//! Bytes counted on their way in, where a peer does not count them or counts something else.
//!
//! Each thread adds to a stripe of its own, so that counting moves no cache line between writers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// More threads than this share stripes, which is slower and still right.
const STRIPES: usize = 16;

/// Two cache lines, because processors fetch them two at once.
#[repr(align(128))]
#[derive(Default)]
struct Stripe(AtomicU64);

/// A total that only grows.
#[derive(Default)]
pub(crate) struct Tally {
    stripes: [Stripe; STRIPES],
}

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: usize = THREADS.fetch_add(1, Relaxed) % STRIPES;
}

impl Tally {
    #[inline]
    pub(crate) fn add(&self, bytes: usize) {
        OWN.with(|own| self.stripes[*own].0.fetch_add(bytes as u64, Relaxed));
    }

    pub(crate) fn total(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.0.load(Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_threads_add_is_all_there() {
        let tally = Tally::default();
        std::thread::scope(|scope| {
            for _ in 0..STRIPES + 4 {
                scope.spawn(|| (0..1000).for_each(|_| tally.add(3)));
            }
        });
        assert_eq!(tally.total(), 3000 * (STRIPES as u64 + 4));
    }
}
