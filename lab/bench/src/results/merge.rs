//! Several runs as one.
//!
//! What is shown as one case must be one thing. Rounds of one case are pooled if their runs were configured with
//! the same, on one machine; where they were not, the case is kept apart by run, under a name that
//! says what differs. And rounds of different runs never have the same number: what ran in one round
//! is compared with each other, because the machine was the same way then.

use super::{Group, Machine, Published, RUN, Results, Settings, distinct};
use std::collections::BTreeMap;

/// What a run was notified that makes its rounds no different from another's.
const WITHOUT_EFFECT: [&str; 2] = ["rounds", "seed"];
/// A name says so many differences; if there are more, it says which run it is.
const MOST_NAMED: usize = 3;

impl Results {
    /// Several runs as one, the first of them giving its name to the whole. Rounds of a run follow on
    /// all rounds of the earlier ones. A case that runs did under different conditions becomes
    /// several, each with the difference in its name. Settings in which runs differ are all named.
    /// `None` if there are no runs.
    pub fn merge(mut runs: Vec<Results>) -> Option<Results> {
        keep_apart(&mut runs);
        let mut runs = runs.into_iter();
        let mut merged = runs.next()?;
        for run in runs {
            merged.append(run);
        }
        Some(merged)
    }

    fn append(&mut self, mut run: Results) {
        let shift = self.rounds();
        run.each_place(|_, round| *round += shift);
        self.rows.append(&mut run.rows);
        self.series.append(&mut run.series);
        self.distributions.append(&mut run.distributions);
        self.complete &= run.complete;
        if self.ended.is_empty() {
            self.ended = run.ended.clone();
        }
        self.version = join(&self.version, &run.version, ", ");
        self.commit = join(&self.commit, &run.commit, ", ");
        if self.experiment != run.experiment {
            self.experiment = join(&self.experiment, &run.experiment, " + ");
        }
        if self.scale != run.scale {
            self.scale = join(&self.scale, &run.scale, ", ");
        }
        if self.command != run.command {
            self.command.push(";".to_owned());
            self.command.append(&mut run.command);
        }
        if self.machine != run.machine {
            self.machine.append(&run.machine);
        }
        add_new(&mut self.emulated, run.emulated);
        for group in run.groups {
            match self.groups.iter_mut().find(|own| own.title == group.title) {
                Some(own) => {
                    add_new(&mut own.cases, group.cases);
                    add_new(&mut own.planes, group.planes);
                    if let Some((own, other)) = own.across.as_mut().zip(group.across) {
                        add_new(&mut own.places, other.places);
                    }
                }
                None => self.groups.push(group),
            }
        }
        add_new(&mut self.published, run.published);
        for (engine, settings) in run.settings {
            let merged = self.settings.entry(engine).or_default();
            for (name, value) in settings {
                let old = merged.entry(name).or_insert_with(|| value.clone());
                *old = join(old, &value, " | ");
            }
        }
        self.started = std::mem::take(&mut self.started).min(run.started);
    }

    /// Calls `case` by another name wherever it is.
    fn rename(&mut self, case: &str, other: &str) {
        let groups = self.groups.iter_mut().flat_map(Group::case_names);
        let published = self.published.iter_mut().flat_map(Published::case_names);
        for own in groups.chain(published) {
            if own == case {
                other.clone_into(own);
            }
        }
        self.each_place(|own, _| {
            if own == case {
                other.clone_into(own);
            }
        });
    }

    /// One more than the last round of anything.
    fn rounds(&mut self) -> u32 {
        let mut rounds = 0;
        self.each_place(|_, round| rounds = rounds.max(*round + 1));
        rounds
    }

    /// Visits the case and the round of all that was measured.
    fn each_place(&mut self, mut visit: impl FnMut(&mut String, &mut u32)) {
        self.rows.iter_mut().for_each(|row| visit(&mut row.case, &mut row.round));
        self.series.iter_mut().for_each(|one| visit(&mut one.case, &mut one.round));
        self.distributions.iter_mut().for_each(|one| visit(&mut one.case, &mut one.round));
    }
}

/// What a run's results depend on.
struct Conditions {
    machine: Machine,
    run: Settings,
    engines: BTreeMap<String, Settings>,
    cases: Vec<String>,
}

impl Conditions {
    fn of(results: &Results) -> Self {
        let mut engines = results.settings.clone();
        let mut run = engines.remove(RUN).unwrap_or_default();
        run.retain(|name, _| !WITHOUT_EFFECT.contains(&&name[..]));
        // Other code may be faster or slower.
        for (name, value) in [("version", &results.version), ("commit", &results.commit)] {
            if !value.is_empty() {
                run.insert(name.to_owned(), value.clone());
            }
        }
        let cases = results.cases().into_iter().map(str::to_owned).collect();
        Conditions { machine: results.machine.clone(), run, engines, cases }
    }

    /// Whether their rounds can be pooled. An engine that only one of them has is no difference.
    fn agrees(&self, other: &Conditions) -> bool {
        let same = |(engine, own): (&String, &Settings)| {
            other.engines.get(engine).is_none_or(|theirs| own == theirs)
        };
        self.machine == other.machine && self.run == other.run && self.engines.iter().all(same)
    }
}

/// Gives cases of one name that were done under different conditions different names.
fn keep_apart(runs: &mut [Results]) {
    let conditions: Vec<Conditions> = runs.iter().map(Conditions::of).collect();
    // Runs that agree, each group by the numbers of its runs.
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, own) in conditions.iter().enumerate() {
        let alike = |group: &&mut Vec<usize>| group.iter().all(|&one| own.agrees(&conditions[one]));
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    let cases = distinct(conditions.iter().flat_map(|one| &one.cases).map(String::as_str));
    for case in cases {
        let has_case = |run: &usize| conditions[*run].cases.iter().any(|one| one == case);
        let groups: Vec<&Vec<usize>> =
            groups.iter().filter(|group| group.iter().any(has_case)).collect();
        if groups.len() < 2 {
            continue;
        }
        let told: Vec<&Settings> = groups.iter().map(|group| &conditions[group[0]].run).collect();
        for (group, name) in groups.iter().zip(names(&told, &groups)) {
            let apart = format!("{case} ({name})");
            for &run in *group {
                runs[run].rename(case, &apart);
            }
        }
    }
}

/// What distinguishes each of the groups from the others, in the settings of their runs.
fn names(told: &[&Settings], groups: &[&Vec<usize>]) -> Vec<String> {
    let differs = |name: &&String| told.iter().any(|one| one.get(*name) != told[0].get(*name));
    let mut differing: Vec<&String> =
        told.iter().flat_map(|one| one.keys()).filter(differs).collect();
    differing.sort_unstable();
    differing.dedup();
    let name = |own: &Settings| {
        let pair = |name: &&String| {
            let value = own.get(*name).map_or("–", String::as_str);
            format!("{} {value}", name.replace('_', " "))
        };
        differing.iter().map(pair).collect::<Vec<_>>().join(", ")
    };
    let by_value: Vec<String> = told.iter().map(|own| name(own)).collect();
    let are_told = (1..=MOST_NAMED).contains(&differing.len())
        && distinct(by_value.iter().map(String::as_str)).len() == by_value.len();
    match are_told {
        true => by_value,
        false => groups.iter().map(|group| format!("run {}", group[0] + 1)).collect(),
    }
}

/// Adds those of `more` that are not there.
fn add_new<T: PartialEq>(to: &mut Vec<T>, more: Vec<T>) {
    for one in more {
        if !to.contains(&one) {
            to.push(one);
        }
    }
}

/// Both texts, or the first if it says the second already.
pub(super) fn join(first: &str, second: &str, between: &str) -> String {
    match first.split(between).any(|part| part == second) {
        true => first.to_owned(),
        false if first.is_empty() => second.to_owned(),
        false if second.is_empty() => first.to_owned(),
        false => format!("{first}{between}{second}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Plane;
    use super::super::tests::{full, results, row};
    use super::*;

    #[test]
    fn rounds_of_two_builds_are_not_pooled() {
        let built = |commit: &str| Results {
            commit: commit.into(),
            ..results(vec![row("esker-wal", "A", 0, 1.0)])
        };
        let merged = Results::merge(vec![built("one"), built("two")]).unwrap();
        assert_eq!(merged.cases(), ["A (commit one)", "A (commit two)"]);
        let merged = Results::merge(vec![built(""), built("two")]).unwrap();
        assert_eq!(merged.commit, "two");
    }

    fn told(pairs: &[(&str, &str)]) -> Results {
        let mut told = full();
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        told.settings.insert(RUN.to_owned(), pairs.collect());
        told
    }

    fn cases(runs: Vec<Results>) -> Vec<String> {
        let merged = Results::merge(runs).unwrap();
        let cases = merged.cases().into_iter().map(str::to_owned).collect();
        assert!(merged.series.iter().all(|one| merged.cases().contains(&&one.case[..])));
        assert!(merged.distributions.iter().all(|one| merged.cases().contains(&&one.case[..])));
        cases
    }

    #[test]
    fn rounds_of_merged_runs_follow_on_each_other() {
        let merged = Results::merge(vec![full(), full()]).unwrap();
        let rounds: Vec<_> = merged.rows.iter().map(|row| row.round).collect();
        assert_eq!(rounds, [0, 1, 2, 3]);
        assert_eq!(merged.series[1].round, 3);
        assert_eq!(merged.distributions[1].round, 2);
        assert_eq!((&merged.experiment[..], &merged.scale[..]), ("ycsb", "quick"));
        assert_eq!(merged.settings, full().settings);
    }

    #[test]
    fn engines_of_different_runs_share_no_round() {
        let merged = Results::merge(vec![full(), results(vec![row("two", "b", 0, 1.0)])]).unwrap();
        assert_eq!(merged.rows[2].round, 2);
        assert_eq!(merged.engines(), ["one", "two"]);
    }

    #[test]
    fn runs_that_were_told_the_same_are_pooled() {
        let (one, two) = (told(&[("records", "5"), ("rounds", "2")]), told(&[("records", "5")]));
        assert_eq!(cases(vec![one, two]), ["a"]);
    }

    #[test]
    fn a_case_under_other_settings_is_another_case() {
        let with = |records: &str, size: &str| told(&[("records", records), ("field_bytes", size)]);
        assert_eq!(
            cases(vec![with("5", "1"), with("9", "1"), with("5", "1")]),
            ["a (records 5)", "a (records 9)"]
        );
        assert_eq!(
            cases(vec![with("5", "1"), told(&[("records", "5")])]),
            ["a (field bytes 1)", "a (field bytes –)"]
        );
    }

    #[test]
    fn what_has_no_short_name_is_told_by_its_run() {
        let mut other = full();
        other.machine.cpu = "another".into();
        assert_eq!(cases(vec![full(), other]), ["a (run 1)", "a (run 2)"]);
        let mut other = full();
        other.settings.get_mut("one").unwrap().insert("memory".into(), "2 GiB".into());
        assert_eq!(cases(vec![full(), other]), ["a (run 1)", "a (run 2)"]);
    }

    #[test]
    fn groups_go_by_the_new_names_of_their_cases() {
        let with = |records: &str| {
            let plane = Plane { case: "a".into(), ..Plane::default() };
            let group = Group {
                title: "H".into(),
                cases: vec!["a".into()],
                planes: vec![plane],
                ..Group::default()
            };
            Results { groups: vec![group], ..told(&[("records", records)]) }
        };
        let merged = Results::merge(vec![with("5"), with("9")]).unwrap();
        assert_eq!(merged.groups.len(), 1);
        assert_eq!(merged.groups[0].cases, ["a (records 5)", "a (records 9)"]);
        let of_planes = merged.groups[0].planes.iter().map(|plane| &plane.case[..]);
        assert_eq!(of_planes.collect::<Vec<_>>(), merged.groups[0].cases);
        let alike = Results::merge(vec![with("5"), with("5")]).unwrap();
        assert_eq!(alike.groups, with("5").groups);
    }

    #[test]
    fn cases_that_only_one_run_has_keep_their_names() {
        let mut other = told(&[("records", "5")]);
        other.each_place(|case, _| *case = "b".into());
        assert_eq!(cases(vec![full(), other]), ["a", "b"]);
    }

    #[test]
    fn a_merge_names_what_differs_and_hides_no_gap() {
        let mut other = full();
        other.experiment = "updates".into();
        other.command = vec!["esker".into(), "other".into()];
        other.emulated = vec!["a disk".into()];
        other.started = "2025-01-01T00:00:00Z".into();
        other.settings.get_mut("one").unwrap().insert("memory".into(), "2 GiB".into());
        other.complete = false;
        let merged = Results::merge(vec![full(), other]).unwrap();
        assert_eq!(merged.experiment, "ycsb + updates");
        assert_eq!(merged.command, ["esker", "bench", ";", "esker", "other"]);
        assert_eq!(merged.emulated, ["persistent memory", "a disk"]);
        assert_eq!(merged.settings["one"]["memory"], "1 GiB | 2 GiB");
        assert_eq!(merged.started, "2025-01-01T00:00:00Z");
        assert!(!merged.complete);
    }

    #[test]
    fn nothing_merged_is_nothing() {
        assert_eq!(Results::merge(Vec::new()), None);
    }
}
