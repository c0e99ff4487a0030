//! A small hot set that most draws come from.

use super::Distribution;
use esker_base::Rng;

/// Two uniform distributions: the first keys are hot, the others cold.
#[derive(Clone, Copy, Debug)]
pub struct HotSpot {
    hot_keys: f64,
    hot_draws: f64,
}

impl HotSpot {
    /// With the fraction `hot_keys` of all keys getting the fraction `hot_draws` of all draws. Both
    /// must be in [0, 1].
    pub fn new(hot_keys: f64, hot_draws: f64) -> Self {
        for fraction in [hot_keys, hot_draws] {
            assert!((0.0..=1.0).contains(&fraction), "{fraction} is no fraction of a whole");
        }
        HotSpot { hot_keys, hot_draws }
    }
}

impl Distribution for HotSpot {
    #[inline]
    fn next(&mut self, rng: &mut Rng, count: u64) -> u64 {
        let hot = ((count as f64 * self.hot_keys) as u64).min(count);
        // Where one of the sets is empty, all draws come from the other.
        let is_hot = hot == count || (hot > 0 && rng.unit() < self.hot_draws);
        if is_hot { rng.below(hot) } else { hot + rng.below(count - hot) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share_of_the_first(hot_keys: f64, hot_draws: f64, first: u64) -> f64 {
        let mut rng = Rng::new(4);
        let mut spot = HotSpot::new(hot_keys, hot_draws);
        let hits = (0..100_000).filter(|_| spot.next(&mut rng, 1_000) < first).count();
        hits as f64 / 100_000.0
    }

    #[test]
    fn the_hot_set_gets_its_share_and_spreads_it_evenly() {
        assert!((share_of_the_first(0.2, 0.8, 200) - 0.8).abs() < 0.005);
        assert!((share_of_the_first(0.2, 0.8, 100) - 0.4).abs() < 0.005);
        assert!((share_of_the_first(0.2, 0.8, 600) - 0.9).abs() < 0.005);
    }

    #[test]
    fn an_empty_set_gets_no_draws() {
        assert!((share_of_the_first(0.0, 0.8, 500) - 0.5).abs() < 0.01, "all keys are cold");
        assert!((share_of_the_first(1.0, 0.1, 500) - 0.5).abs() < 0.01, "all keys are hot");
    }
}
