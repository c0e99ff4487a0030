//! The sum that normalises a zipfian distribution, for any count, in constant time.
//!
//! zeta(n) = sum of i^-theta for i = 1 to n. The first terms are summed once; the rest is the
//! Euler–Maclaurin formula, whose error here is below 1e-13. Summing term by term instead takes
//! seconds for a hundred million keys, and again whenever the count has grown.

/// How many first terms are summed one by one.
const HEAD: usize = 64;

/// Partial sums of i^-theta.
#[derive(Clone, Debug)]
pub(super) struct Zeta {
    theta: f64,
    /// `head[i]` is zeta(i).
    head: [f64; HEAD + 1],
}

impl Zeta {
    /// For an exponent in (0, 1).
    pub(super) fn new(theta: f64) -> Self {
        let mut head = [0.0; HEAD + 1];
        for i in 1..=HEAD {
            head[i] = head[i - 1] + (i as f64).powf(-theta);
        }
        Zeta { theta, head }
    }

    /// zeta(`count`).
    pub(super) fn of(&self, count: u64) -> f64 {
        match self.head.get(usize::try_from(count).unwrap_or(usize::MAX)) {
            Some(&sum) => sum,
            None => self.head[HEAD] + self.antiderivative(count) - self.antiderivative(HEAD as u64),
        }
    }

    /// The terms of the Euler–Maclaurin formula at one end, the lower end excluded from the sum.
    fn antiderivative(&self, x: u64) -> f64 {
        let theta = self.theta;
        let x = x as f64;
        let term = x.powf(-theta);
        let slope = -theta * term / x;
        let third = slope * (theta + 1.0) * (theta + 2.0) / (x * x);
        x * term / (1.0 - theta) + term / 2.0 + slope / 12.0 - third / 720.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_the_plain_sum() {
        for theta in [0.1, 0.5, 0.99] {
            let zeta = Zeta::new(theta);
            let mut sum = 0.0;
            for i in 1..=200_000u64 {
                sum += (i as f64).powf(-theta);
                if i < 200 || i % 9_973 == 0 {
                    let error = (zeta.of(i) / sum - 1.0).abs();
                    assert!(error < 1e-12, "zeta({i}) at {theta} is off by {error}");
                }
            }
        }
    }

    #[test]
    fn it_agrees_with_the_constant_published_in_ycsb() {
        // For ten billion items and exponent 0.99, summed in single steps by YCSB's authors.
        let published = 26.469_028_201_783_02;
        assert!((Zeta::new(0.99).of(10_000_000_000) - published).abs() < 1e-6);
    }
}
