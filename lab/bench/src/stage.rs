//! The steps of a run: loads, and what is done between them.

use esker_base::{Error, Result};
use esker_workload::db_bench::Case;

/// One step of a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// A measured load.
    Case(Case),
    /// Writes what is in memory to tables.
    Flush,
    /// Waits until the background work is done, and reports the time from the start of the load
    /// before it.
    Settle,
}

impl Stage {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Case(case) => case.name(),
            Stage::Flush => "flush",
            Stage::Settle => "settle",
        }
    }

    /// All stages.
    pub fn all() -> impl Iterator<Item = Stage> {
        Case::ALL.into_iter().map(Stage::Case).chain([Stage::Flush, Stage::Settle])
    }

    /// The stages named in `list`, separated by commas.
    pub fn parse_list(list: &str) -> Result<Vec<Stage>> {
        list.split(',').map(|name| name.trim().parse()).collect()
    }

    /// The stages' labels: their names, the second `settle` of a run being `settle#2`, and so on, so
    /// that rows can be distinguished.
    pub fn labels(stages: &[Stage]) -> Vec<String> {
        let earlier = |at: usize| stages[..at].iter().filter(|&&stage| stage == stages[at]).count();
        (0..stages.len())
            .map(|at| match earlier(at) {
                0 => stages[at].name().to_owned(),
                n => format!("{}#{}", stages[at].name(), n + 1),
            })
            .collect()
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Stage {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Stage::all().find(|stage| stage.name() == name).ok_or_else(|| {
            let names: Vec<_> = Stage::all().map(Stage::name).collect();
            Error::InvalidSetting {
                setting: "benchmark",
                value: name.to_owned(),
                reason: format!("there are {}", names.join(", ")),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_parsed_in_order() {
        let stages = Stage::parse_list("overwrite, settle,readseq").unwrap();
        let expected = [Stage::Case(Case::Overwrite), Stage::Settle, Stage::Case(Case::ReadSeq)];
        assert_eq!(stages, expected);
    }

    #[test]
    fn every_stage_parses_back_from_its_name() {
        for stage in Stage::all() {
            assert_eq!(stage.to_string().parse::<Stage>().unwrap(), stage);
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let message = Stage::parse_list("fillseq,fillrand").unwrap_err().to_string();
        assert!(message.contains("fillrand") && message.contains("fillrandom, "), "{message}");
    }

    #[test]
    fn repeated_stages_get_labels_of_their_own() {
        let stages = Stage::parse_list("fillseq,settle,overwrite,settle").unwrap();
        assert_eq!(Stage::labels(&stages), ["fillseq", "settle", "overwrite", "settle#2"]);
    }
}
