//! Which key comes next: numbers below a count that may grow from one draw to the next.
//!
//! The zipfian generators follow Gray et al., *Quickly Generating Billion-Record Synthetic
//! Databases*, SIGMOD 1994, in the way that YCSB uses them.

mod exponential;
mod hot_spot;
mod latest;
mod sequential;
mod uniform;
mod zeta;
mod zipfian;

pub use exponential::Exponential;
pub use hot_spot::HotSpot;
pub use latest::Latest;
pub use sequential::Sequential;
pub use uniform::Uniform;
pub(crate) use zipfian::scatter;
pub use zipfian::{ScrambledZipfian, YCSB_THETA, Zipfian};

use esker_base::Rng;

/// A way to choose key numbers.
pub trait Distribution: Send {
    /// The next number, below `count`, which must not be zero.
    fn next(&mut self, rng: &mut Rng, count: u64) -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distribution_stays_below_a_growing_count() {
        let mut all: [Box<dyn Distribution>; 7] = [
            Box::new(Uniform),
            Box::new(Sequential::default()),
            Box::new(Zipfian::new(YCSB_THETA)),
            Box::new(ScrambledZipfian::new()),
            Box::new(Latest::new()),
            Box::new(HotSpot::new(0.2, 0.8)),
            Box::new(Exponential::new(95.0, 1_000.0)),
        ];
        for distribution in &mut all {
            let mut rng = Rng::new(1);
            for count in (1..200).chain([1 << 20, 1 << 40, u64::MAX]) {
                for _ in 0..50 {
                    assert!(distribution.next(&mut rng, count) < count);
                }
            }
        }
    }
}
