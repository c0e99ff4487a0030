//! One key after the other.

use super::Distribution;
use esker_base::Rng;

/// Counts up from zero, and starts again at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sequential {
    next: u64,
}

impl Distribution for Sequential {
    #[inline]
    fn next(&mut self, _rng: &mut Rng, count: u64) -> u64 {
        let number = if self.next < count { self.next } else { 0 };
        self.next = number + 1;
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_up_and_starts_again() {
        let mut sequential = Sequential::default();
        let numbers: Vec<_> = (0..7).map(|_| sequential.next(&mut Rng::new(0), 3)).collect();
        assert_eq!(numbers, [0, 1, 2, 0, 1, 2, 0]);
    }
}
