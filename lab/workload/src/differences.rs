//! What a check of a store's content found to be otherwise than it must be.

/// How many are reported; all are counted.
const TOLD: usize = 10;

/// The first differences that a check met, and how many there were.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Differences {
    first: Vec<String>,
    count: u64,
}

impl Differences {
    /// Notes one.
    pub(crate) fn add(&mut self, difference: String) {
        self.count += 1;
        if self.first.len() < TOLD {
            self.first.push(difference);
        }
    }

    /// Notes one if `actual` is not `expected`.
    pub(crate) fn expect<T: PartialEq + std::fmt::Debug>(
        &mut self,
        expected: T,
        actual: T,
        what: impl FnOnce() -> String,
    ) {
        if expected != actual {
            self.add(format!("{}: {expected:?} was expected, {actual:?} is there", what()));
        }
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first ones.
    pub fn first(&self) -> &[String] {
        &self.first
    }
}

impl std::fmt::Display for Differences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for difference in &self.first {
            writeln!(f, "{difference}")?;
        }
        match self.count - self.first.len() as u64 {
            0 => Ok(()),
            more => writeln!(f, "and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_differences_are_counted_and_the_first_are_told() {
        let mut differences = Differences::default();
        differences.expect(1, 1, || unreachable!());
        assert!(differences.is_empty() && differences.to_string().is_empty());
        (0..12).for_each(|at| differences.expect(0, 1, || format!("row {at}")));
        assert_eq!((differences.count(), differences.first().len()), (12, TOLD));
        let text = differences.to_string();
        assert!(text.starts_with("row 0: 0 was expected, 1 is there\n"), "{text}");
        assert!(text.ends_with("and 2 more\n"), "{text}");
    }
}
