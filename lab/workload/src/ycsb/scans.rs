//! How many records a scan reads.

use crate::Distribution;
use crate::distributions::{Uniform, YCSB_THETA, Zipfian};
use esker_base::Rng;

/// The lengths of scans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scans {
    /// The fewest records that a scan reads.
    pub least: u64,
    /// The most.
    pub most: u64,
    /// Which lengths come how often.
    pub lengths: Lengths,
}

/// Which lengths of scans come how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lengths {
    /// All equally often.
    Uniform,
    /// Short ones most often.
    Zipfian,
}

/// Draws lengths.
#[derive(Clone, Debug)]
pub(super) struct LengthChooser {
    least: u64,
    lengths: u64,
    zipfian: Option<Zipfian>,
}

impl LengthChooser {
    pub(super) fn new(scans: &Scans) -> Self {
        let zipfian = (scans.lengths == Lengths::Zipfian).then(|| Zipfian::new(YCSB_THETA));
        LengthChooser { least: scans.least, lengths: scans.most - scans.least + 1, zipfian }
    }

    #[inline]
    pub(super) fn next(&mut self, rng: &mut Rng) -> u64 {
        self.least
            + match &mut self.zipfian {
                None => Uniform.next(rng, self.lengths),
                Some(zipfian) => zipfian.next(rng, self.lengths),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(least: u64, most: u64, lengths: Lengths) -> Vec<u32> {
        let mut chooser = LengthChooser::new(&Scans { least, most, lengths });
        let mut rng = Rng::new(3);
        let mut counts = vec![0; most as usize + 1];
        for _ in 0..100_000 {
            counts[chooser.next(&mut rng) as usize] += 1;
        }
        counts
    }

    #[test]
    fn both_ends_are_drawn_and_uniform_ones_equally_often() {
        let counts = counts(5, 104, Lengths::Uniform);
        assert!(counts[..5].iter().all(|&count| count == 0));
        assert!(counts[5..].iter().all(|&count| (800..1_200).contains(&count)), "{counts:?}");
    }

    #[test]
    fn zipfian_scans_are_mostly_short() {
        let counts = counts(1, 100, Lengths::Zipfian);
        assert!(counts[1] > 18_000 && counts[1] > counts[2] && counts[100] > 0, "{counts:?}");
    }

    #[test]
    fn one_length_is_always_that_length() {
        assert_eq!(counts(7, 7, Lengths::Uniform)[7], 100_000);
        assert_eq!(counts(7, 7, Lengths::Zipfian)[7], 100_000);
    }
}
