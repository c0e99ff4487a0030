//! Every key as likely as any other.

use super::Distribution;
use esker_base::Rng;

/// Draws with replacement: of `n` draws below `n`, about 63% are distinct.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uniform;

impl Distribution for Uniform {
    #[inline]
    fn next(&mut self, rng: &mut Rng, count: u64) -> u64 {
        rng.below(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_are_drawn_about_equally_often() {
        let mut rng = Rng::new(3);
        let mut hits = [0u32; 16];
        for _ in 0..160_000 {
            hits[Uniform.next(&mut rng, 16) as usize] += 1;
        }
        assert!(hits.iter().all(|&hits| (9_500..10_500).contains(&hits)), "{hits:?}");
    }
}
