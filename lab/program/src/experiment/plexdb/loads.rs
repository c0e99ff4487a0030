//! The loads, each named by which keys are updated and how often on average: `zipf-9`.

use super::sizes::{KEY_BYTES, Sizes, VALUE_BYTES};
use crate::bench::plan::UpdatesTask;
use crate::failure::{Failure, Outcome};

/// Those of the paper, with skewed ones next to them.
pub(super) const ALL: &str = "uniform-9,uniform-20,zipf-9,zipf-20";

/// One load.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Load {
    pub(super) name: String,
    pub(super) distribution: String,
    pub(super) updates_per_key: f64,
}

impl Load {
    /// The loads of a list, no name twice.
    pub(super) fn parse_list(list: &str) -> Outcome<Vec<Load>> {
        let mut parsed: Vec<Load> = Vec::new();
        for name in list.split(',').map(str::trim) {
            if parsed.iter().any(|earlier| earlier.name == name) {
                return Err(Failure::Usage(format!("case {name} is named twice")));
            }
            parsed.push(Load::parse(name)?);
        }
        Ok(parsed)
    }

    fn parse(name: &str) -> Outcome<Load> {
        let wrong = || Failure::Usage(format!("{name:?} is not a case such as {ALL}"));
        let (distribution, updates) = name.split_once('-').ok_or_else(wrong)?;
        let updates_per_key = updates.parse().map_err(|_| wrong())?;
        let (name, distribution) = (name.to_owned(), distribution.to_owned());
        Ok(Load { name, distribution, updates_per_key })
    }

    /// What is done.
    pub(super) fn task(&self, sizes: &Sizes) -> UpdatesTask {
        UpdatesTask {
            records: sizes.records,
            updates_per_key: self.updates_per_key,
            distribution: self.distribution.clone(),
            key_bytes: KEY_BYTES,
            value_bytes: VALUE_BYTES,
            threads: 1,
            reads: sizes.reads,
            seed: 1,
        }
    }
}
