//! Which operation comes next.

use crate::OperationKind;
use esker_base::{Error, Result, Rng};

/// How often each operation comes, relative to the others.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Mix {
    /// Reads of one record.
    pub read: f64,
    /// Writes of a record that is there.
    pub update: f64,
    /// Writes of a new record.
    pub insert: f64,
    /// Reads of some records in key order.
    pub scan: f64,
    /// Reads of a record and writes of the same record after it.
    pub read_modify_write: f64,
}

impl Mix {
    /// No operation at all, to name some with `..`.
    pub const NONE: Mix =
        Mix { read: 0.0, update: 0.0, insert: 0.0, scan: 0.0, read_modify_write: 0.0 };

    /// The weights with their names, in the order of [`OperationKind::ALL`].
    fn weights(&self) -> [(f64, &'static str); 5] {
        [
            (self.read, "readproportion"),
            (self.update, "updateproportion"),
            (self.insert, "insertproportion"),
            (self.scan, "scanproportion"),
            (self.read_modify_write, "readmodifywriteproportion"),
        ]
    }

    /// Refuses weights that are no proportions.
    pub fn check(&self) -> Result<()> {
        let refuse = |setting, value: f64, reason: &str| {
            let (value, reason) = (value.to_string(), reason.to_owned());
            Err(Error::InvalidSetting { setting, value, reason })
        };
        for (weight, name) in self.weights() {
            if !weight.is_finite() || weight < 0.0 {
                return refuse(name, weight, "a proportion is a number from 0 on");
            }
        }
        let sum = self.sum();
        if sum <= 0.0 || !sum.is_finite() {
            let reason = "at least one proportion must be greater than 0";
            return refuse("the sum of the proportions", sum, reason);
        }
        Ok(())
    }

    pub(super) fn sum(&self) -> f64 {
        self.weights().iter().map(|weight| weight.0).sum()
    }

    /// The part of all operations that inserts.
    pub fn insert_share(&self) -> f64 {
        self.insert / self.sum()
    }

    /// Whether some operation looks for a record.
    pub fn looks_up(&self) -> bool {
        self.read > 0.0 || self.scan > 0.0 || self.read_modify_write > 0.0
    }

    /// Whether some operation writes.
    pub fn writes(&self) -> bool {
        self.update > 0.0 || self.insert > 0.0 || self.read_modify_write > 0.0
    }
}

/// Draws operations from a mix.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperationChooser {
    /// `bounds[i]` is the sum of the weights up to and including `i`.
    bounds: [f64; 5],
    /// The last kind that has a weight, for draws that rounding puts past all bounds.
    last: OperationKind,
}

impl OperationChooser {
    /// For a mix that has passed [`Mix::check`].
    pub(super) fn new(mix: &Mix) -> Self {
        let (mut bounds, mut sum, mut last) = ([0.0; 5], 0.0, OperationKind::Read);
        for (at, (weight, _)) in mix.weights().into_iter().enumerate() {
            sum += weight;
            bounds[at] = sum;
            if weight > 0.0 {
                last = OperationKind::ALL[at];
            }
        }
        OperationChooser { bounds, last }
    }

    #[inline]
    pub(super) fn next(&self, rng: &mut Rng) -> OperationKind {
        let drawn = rng.unit() * self.bounds[4];
        match self.bounds.iter().position(|&bound| drawn < bound) {
            Some(at) => OperationKind::ALL[at],
            None => self.last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(mix: Mix) -> [u32; 5] {
        mix.check().unwrap();
        let chooser = OperationChooser::new(&mix);
        let mut rng = Rng::new(8);
        let mut counts = [0; 5];
        for _ in 0..100_000 {
            let drawn = chooser.next(&mut rng);
            counts[OperationKind::ALL.iter().position(|&kind| kind == drawn).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn operations_come_in_proportion_to_their_weights() {
        // They need not add up to one.
        let mix = Mix { read: 1.0, update: 2.0, insert: 3.0, scan: 4.0, read_modify_write: 10.0 };
        for (count, expected) in
            counts(mix).into_iter().zip([5_000, 10_000, 15_000, 20_000, 50_000])
        {
            // Five standard deviations of the middlemost count.
            assert!(u32::abs_diff(count, expected) < 800, "{count}; {expected} were expected");
        }
        assert_eq!(mix.insert_share(), 0.15);
    }

    #[test]
    fn an_operation_without_weight_never_comes() {
        assert_eq!(counts(Mix { insert: 1.0, ..Mix::NONE }), [0, 0, 100_000, 0, 0]);
        let [read, update, insert, scan, _] = counts(Mix { read: 0.5, scan: 0.5, ..Mix::NONE });
        assert_eq!((read + scan, update, insert), (100_000, 0, 0));
    }

    #[test]
    fn weights_that_are_no_proportions_are_refused_by_name() {
        for (mix, text) in [
            (Mix::NONE, "the sum of the proportions is 0"),
            (Mix { read: -0.5, update: 1.0, ..Mix::NONE }, "readproportion is -0.5"),
            (Mix { scan: f64::NAN, ..Mix::NONE }, "scanproportion is NaN"),
            (Mix { read_modify_write: f64::INFINITY, ..Mix::NONE }, "readmodifywriteproportion"),
        ] {
            let message = mix.check().unwrap_err().to_string();
            assert!(message.starts_with(text), "{message}");
        }
    }
}
