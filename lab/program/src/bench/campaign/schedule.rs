//! The order of a campaign: which engine runs what, and when.

use super::definition::{Campaign, Shared};

/// One run of one case, or of the load, on one engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub(super) round: u32,
    pub(super) what: What,
    pub(super) engine: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// Once, for all engines that share it.
    SharedLoad(usize),
    /// The load of a round.
    Load,
    Case(usize),
}

impl Campaign {
    /// All steps in order.
    pub(super) fn schedule(&self) -> Vec<Step> {
        let cases = (0..self.cases.len()).map(What::Case);
        let cases: Vec<What> = self.load.iter().map(|_| What::Load).chain(cases).collect();
        let mut steps = self.shared_loads();
        for round in 0..self.rounds {
            for &what in &cases {
                let takes_part = |engine: &usize| match what {
                    What::Case(case) => self.cases[case].is_for(&self.engines[*engine]),
                    What::Load | What::SharedLoad(_) => true,
                };
                let mut engines: Vec<usize> = (0..self.engines.len()).filter(takes_part).collect();
                if let What::Case(case) = what
                    && !engines.is_empty()
                {
                    let first = case % engines.len();
                    engines.rotate_left(first);
                }
                if round % 2 == 1 {
                    engines.reverse();
                }
                steps.extend(engines.into_iter().map(|engine| Step { round, what, engine }));
            }
        }
        steps
    }

    /// Whether no later case of this engine runs on the store of a case.
    pub(super) fn is_last_on_store(&self, case: usize, engine: &str) -> bool {
        let store = &self.cases[case].store;
        let mut later = self.cases[case + 1..].iter();
        !later.any(|other| other.store == *store && other.is_for(engine))
    }

    /// The loads that are done before the first round.
    fn shared_loads(&self) -> Vec<Step> {
        let Some(Shared { loads, loader }) = &self.shared else { return Vec::new() };
        let mut steps = Vec::new();
        for load in 0..loads.len() {
            let mut loaders = Vec::new();
            for (engine, name) in self.engines.iter().enumerate() {
                let loader = loader(name);
                if !loaders.contains(&loader) {
                    loaders.push(loader);
                    steps.push(Step { round: 0, what: What::SharedLoad(load), engine });
                }
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::campaign::{Case, Shared};
    use crate::bench::engines::{EngineSettings, ForwardingName};
    use crate::bench::plan::{Task, UpdatesTask};
    use crate::bench::pool::PoolSettings;
    use esker_bench::WarmUp;
    use esker_bench::results::Settings;

    fn case(name: &str) -> Case {
        let task = UpdatesTask {
            records: 1,
            updates_per_key: 0.0,
            distribution: "uniform".into(),
            key_bytes: 8,
            value_bytes: 8,
            threads: 1,
            reads: 0,
            seed: 1,
        };
        Case::new(name, Task::Updates(task), 1)
    }

    fn campaign(engines: &[&str], load: Option<Case>, cases: &[&str], rounds: u32) -> Campaign {
        Campaign {
            experiment: "test".into(),
            scale: "small".into(),
            engines: engines.iter().map(|&name| name.to_owned()).collect(),
            settings: EngineSettings {
                memory_bytes: 1,
                segment_bytes: 1,
                background_threads: 1,
                compression: "none".into(),
                dram_table_bytes: None,
                forwarding: ForwardingName::OnFlush,
                pool: PoolSettings::default(),
                log_dir: None,
                fabric: Default::default(),
                large_store: Default::default(),
            },
            rounds,
            load,
            shared: None,
            cases: cases.iter().map(|name| case(name)).collect(),
            warm_up: WarmUp::NONE,
            seed: 1,
            run_settings: Settings::new(),
            groups: Vec::new(),
            published: Vec::new(),
            analysis: None,
            uses_memory: false,
            memory_limit: None,
        }
    }

    fn order(campaign: &Campaign) -> Vec<String> {
        let case = |at: usize| campaign.cases[at].name.as_str();
        let name = |step: Step| {
            let engine = &campaign.engines[step.engine];
            let what = match step.what {
                What::Case(at) => case(at),
                What::Load => "load",
                What::SharedLoad(at) => &campaign.shared.as_ref().unwrap().loads[at].name,
            };
            format!("{} {what} {engine}", step.round)
        };
        campaign.schedule().into_iter().map(name).collect()
    }

    #[test]
    fn engines_take_turns_and_change_their_order_every_round() {
        let campaign = campaign(&["x", "y"], None, &["a", "b"], 3);
        let expected = [
            "0 a x", "0 a y", "0 b y", "0 b x", "1 a y", "1 a x", "1 b x", "1 b y", "2 a x",
            "2 a y", "2 b y", "2 b x",
        ];
        assert_eq!(order(&campaign), expected);
    }

    #[test]
    fn each_engine_begins_as_many_cases_of_a_round_as_any_other() {
        let campaign = campaign(&["x", "y", "z"], None, &["a", "b", "c", "d", "e", "f"], 1);
        let steps = order(&campaign);
        let firsts: Vec<&str> = steps.chunks(3).map(|case| &case[0][4..]).collect();
        assert_eq!(firsts, ["x", "y", "z", "x", "y", "z"]);
        let mut second: Vec<&str> = steps[3..6].iter().map(|step| &step[4..]).collect();
        second.sort_unstable();
        assert_eq!(second, ["x", "y", "z"]);
    }

    #[test]
    fn a_case_may_be_for_some_engines_alone() {
        let mut campaign = campaign(&["x", "y"], Some(case("load")), &["a", "b"], 1);
        campaign.cases[1].engines = Some(vec!["y".into(), "z".into()]);
        assert_eq!(order(&campaign), ["0 load x", "0 load y", "0 a x", "0 a y", "0 b y"]);
    }

    #[test]
    fn a_shared_load_is_done_once_by_each_family() {
        let mut campaign = campaign(&["x-1", "y-1", "x-2"], None, &["a"], 2);
        let loader = |name: &str| if name.starts_with('x') { "x" } else { "y" };
        campaign.shared = Some(Shared { loads: vec![case("graph")], loader });
        let expected = [
            "0 graph x-1",
            "0 graph y-1",
            "0 a x-1",
            "0 a y-1",
            "0 a x-2",
            "1 a x-2",
            "1 a y-1",
            "1 a x-1",
        ];
        assert_eq!(order(&campaign), expected);
    }

    #[test]
    fn a_kept_store_is_there_until_the_last_case_of_an_engine_on_it() {
        let mut campaign = campaign(&["x", "y"], None, &["a", "b", "c", "d"], 1);
        for (case, store) in campaign.cases.iter_mut().zip(["s", "s", "s", "t"]) {
            case.store = Some(store.into());
        }
        campaign.cases[2].engines = Some(vec!["x".into()]);
        let last = |engine| [0, 1, 2, 3].map(|case| campaign.is_last_on_store(case, engine));
        assert_eq!(last("x"), [false, false, true, true]);
        assert_eq!(last("y")[..2], [false, true]);
    }

    #[test]
    fn every_round_begins_with_the_load() {
        let campaign = campaign(&["x"], Some(case("load")), &["a"], 2);
        assert_eq!(order(&campaign), ["0 load x", "0 a x", "1 load x", "1 a x"]);
    }
}
