//! One run of one case on one engine.

use super::definition::{Campaign, Case, LIMIT, MEMORY, Rate};
use super::schedule::{Step, What};
use crate::bench::cgroup::Cgroup;
use crate::bench::child;
use crate::bench::display::Display;
use crate::bench::engines;
use crate::bench::plan::{Message, Plan, Task};
use crate::bench::scratch::Scratch;
use crate::bench::used_memory::UsedMemory;
use crate::bench::workspace::Workspace;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::tell;
use esker_bench::results::{RUN, Settings};
use esker_bench::{Progress, Results};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// The name of the directory in which a case runs.
const RUNNING: &str = "running";

/// A campaign in progress.
pub(super) struct Running<'a> {
    pub(super) campaign: &'a Campaign,
    pub(super) workspace: &'a Workspace,
    pub(super) scratch: &'a Scratch,
    pub(super) interrupt: &'a Interrupt,
    pub(super) display: Display,
    pub(super) results: Results,
    pub(super) memory: Option<UsedMemory>,
    /// What limits the memory of processes, if they are limited.
    pub(super) group: Option<Cgroup>,
    /// Kept stores on which a case has failed, by the names of their directories.
    pub(super) broken: BTreeSet<String>,
    /// How many cases on kept stores have failed.
    pub(super) failed: usize,
}

impl Running<'_> {
    /// Limits the memory of processes, as far as the campaign asks for it and the system lets it.
    pub(super) fn limit_memory(&mut self) {
        let Some(bytes) = self.campaign.memory_limit else { return };
        let told = match Cgroup::create(bytes) {
            Ok(group) => {
                self.group = Some(group);
                format!("cgroup of {bytes} bytes, the page cache included")
            }
            Err(reason) => {
                let told = format!("no cgroup: page cache is not limited ({reason})");
                tell(format_args!("{told}"));
                told
            }
        };
        self.results.settings.entry(RUN.to_owned()).or_default().insert(LIMIT.to_owned(), told);
    }

    pub(super) fn step(&mut self, step: Step, at: usize, steps: usize) -> Outcome {
        let campaign = self.campaign;
        let mut engine = &campaign.engines[step.engine];
        let loader = campaign.shared.as_ref().map(|shared| (shared.loader)(engine).to_owned());
        let store = |load: &str| format!("{}-{load}", loader.as_deref().unwrap_or(engine));
        let mut kept = None;
        let (case, dir) = match step.what {
            What::Case(case) if campaign.cases[case].store.is_some() => {
                let Some((store, dir)) = self.kept_store(case, engine)? else { return Ok(()) };
                kept = Some((store, campaign.is_last_on_store(case, engine)));
                (&campaign.cases[case], dir)
            }
            What::Case(case) => {
                let case = &campaign.cases[case];
                let from = match &case.starts_on {
                    Some(load) => Some(store(load)),
                    None => campaign.load.as_ref().map(|_| engine.clone()),
                };
                let dir = match from {
                    Some(from) => self.workspace.copy(&from, RUNNING, self.interrupt)?,
                    None => self.workspace.empty(RUNNING)?,
                };
                (case, dir)
            }
            What::Load => {
                let load = campaign.load.as_ref().expect("a load has a step only if it is");
                (load, self.workspace.empty(engine)?)
            }
            What::SharedLoad(load) => {
                let shared = campaign.shared.as_ref().expect("a load has a step only if it is");
                let load = &shared.loads[load];
                (load, self.workspace.empty(&store(&load.name))?)
            }
        };
        if let (What::SharedLoad(_), Some(loader)) = (step.what, &loader) {
            engine = loader;
        }
        let place = format!("{engine}, round {} of {}", step.round + 1, campaign.rounds);
        if let Some(memory) = &self.memory {
            self.display.show(&Progress {
                stage: &format!("{place}, memory is filled"),
                index: at,
                stages: steps,
                operations: 0,
                wanted: None,
                elapsed: Duration::ZERO,
                is_done: false,
            });
            memory.fill(&dir, self.interrupt)?;
            let told = self.results.settings.entry(RUN.to_owned()).or_default();
            told.insert(MEMORY.to_owned(), memory.told());
        }
        let plan = Plan {
            engine: engine.clone(),
            dir,
            settings: self.scratch.within(case.settings.as_ref().unwrap_or(&campaign.settings)),
            case: match step.what {
                What::Load if engines::loads_unsynced(engine) => {
                    format!("{} (not synced)", case.name)
                }
                _ => case.name.clone(),
            },
            round: step.round,
            task: self.task(case, engine, step.round),
            threads: case.threads,
            duration: case.duration,
            rate: self.rate(case, engine, step.round)?,
            warm_up: case.warm_up.unwrap_or(campaign.warm_up),
            settles: case.settles,
            interval: case.interval,
            seed: campaign.seed,
        };
        let group = self.group.as_ref();
        let outcome = child::run(&plan, group, self.interrupt, &mut |message| match message {
            Message::Progress { stage, operations, wanted, elapsed } => {
                let stage = &format!("{place}, {stage}");
                let (index, stages, is_done) = (at, steps, false);
                self.display.show(&Progress {
                    stage,
                    index,
                    stages,
                    operations,
                    wanted,
                    elapsed,
                    is_done,
                });
            }
            Message::Settings(settings) => {
                note(self.results.settings.entry(engine.clone()).or_default(), settings);
            }
            Message::Done(_) | Message::Failed { .. } => {}
        });
        match (outcome, &kept) {
            (Ok(outcome), _) => {
                self.results.rows.extend(outcome.rows);
                self.results.series.extend(outcome.series);
                self.results.distributions.extend(outcome.distributions);
            }
            (Err(Failure::Failed(message)), Some((store, _))) => {
                tell(format_args!("{message}"));
                // What is in the store now is not known, so the other cases on it are not run.
                self.broken.insert(store.clone());
                self.workspace.remove(store)?;
                self.failed += 1;
                let told = self.results.settings.entry(RUN.to_owned()).or_default();
                told.insert(format!("failed: {}, {engine}", case.name), message);
            }
            (Err(other), _) => return Err(other),
        }
        match kept {
            Some((store, true)) if !self.broken.contains(&store) => self.workspace.remove(&store),
            Some(_) => Ok(()),
            None => self.workspace.remove(RUNNING),
        }
    }

    /// The name and the directory of the store that a case runs on. `None` if an earlier case on it has failed.
    fn kept_store(&mut self, case: usize, engine: &str) -> Outcome<Option<(String, PathBuf)>> {
        let case = &self.campaign.cases[case];
        let store = format!("{engine}-{}", case.store.as_deref().expect("the case has a store"));
        if case.task.is_load() {
            self.broken.remove(&store);
            let dir = self.workspace.empty(&store)?;
            return Ok(Some((store, dir)));
        }
        let dir = self.workspace.path().join(&store);
        Ok((!self.broken.contains(&store)).then_some((store, dir)))
    }

    /// The task of a case, with what the cases before it have added to its store.
    fn task(&self, case: &Case, engine: &str, round: u32) -> Task {
        let mut task = case.task.clone();
        if let Task::Large(task) = &mut task {
            let on_store = |name: &str| {
                let mut cases = self.campaign.cases.iter();
                cases.any(|other| other.name == name && other.store == case.store)
            };
            let rows = self.results.rows.iter().filter(|row| {
                let is_there = row.engine == engine && row.round == round;
                is_there && row.metric == "inserted" && on_store(&row.case)
            });
            task.inserted = rows.map(|row| row.value as u64).sum();
        }
        task
    }

    /// How many operations `engine` is to start each second.
    fn rate(&self, case: &Case, engine: &str, round: u32) -> Outcome<Option<f64>> {
        let (of, part) = match &case.rate {
            None => return Ok(None),
            Some(Rate::Fixed(rate)) => return Ok(Some(*rate)),
            Some(Rate::Part { of, part }) => (of, part),
        };
        let mut rows = self.results.rows.iter();
        let sustained = rows.find(|row| {
            let is_of = row.engine == engine && row.case == *of && row.round == round;
            is_of && row.metric == "sustained_throughput"
        });
        let missing = || format!("{}: {engine} has no throughput in {of}", case.name);
        Ok(Some(sustained.ok_or_else(|| Failure::new(missing()))?.value * part))
    }
}

/// Adds what an engine was configured with in a case. Which of several values it was, the case's name says.
fn note(told: &mut Settings, of_case: Settings) {
    for (name, value) in of_case {
        match told.get_mut(&name) {
            None => drop(told.insert(name, value)),
            Some(values) if values.split(" or ").any(|known| known == value) => {}
            Some(values) => values.push_str(&format!(" or {value}")),
        }
    }
}
