//! Several engines, several cases, several rounds: who runs when.
//!
//! In each round every engine loads its store; then, case by case, each engine runs the case on a
//! copy of what it had loaded. So no case finds what another left, and loading, which is most of the
//! time, happens once a round. Within a round the engines take turns at each case. Each case begins with
//! the next of them, and every other round has the opposite order: what the machine does meanwhile, and
//! what one leaves behind for the next, falls on all of them alike, even if there is one round.
//!
//! The results are written after each case of each engine, so that an interrupted campaign leaves
//! what it had.

use super::child;
use super::display::Display;
use super::engines::{self, EngineSettings};
use super::output::Output;
use super::plan::{Message, Plan, Task};
use super::scratch::Scratch;
use super::used_memory::UsedMemory;
use super::workspace::{self, Workspace};
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{is_json, stdout, tell, visible_json};
use esker_bench::results::{self, Group, Published, RUN, Settings};
use esker_bench::{Machine, Progress, Results, Row, WarmUp};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is measured.
pub struct Campaign {
    /// Its name.
    pub experiment: String,
    /// Its size, in a word.
    pub scale: String,
    /// The engines, the first being the one that the others are compared with.
    pub engines: Vec<String>,
    /// What each engine is given.
    pub settings: EngineSettings,
    /// How often everything is measured.
    pub rounds: u32,
    /// What every case finds in the store, if anything.
    pub load: Option<Case>,
    /// Loads that several engines and all rounds share.
    pub shared: Option<Shared>,
    /// What is done.
    pub cases: Vec<Case>,
    /// How long each case runs before it counts.
    pub warm_up: WarmUp,
    /// What chance follows from.
    pub seed: u64,
    /// What the run was told, by name, for the report.
    pub run_settings: Settings,
    /// Which cases the report shows together.
    pub groups: Vec<Group>,
    /// What the report shows beside them.
    pub published: Vec<Published>,
    /// What is made of the numbers, if anything.
    pub analysis: Option<Analysis>,
    /// Whether each case begins with memory in use, as a server's is, and not with what others left free.
    pub uses_memory: bool,
}

/// Under which name the settings of a run say what memory is like before a case.
pub const MEMORY: &str = "memory before a case";

/// Loads that are done once by each family of engines whose stores are alike when they are closed.
#[derive(Clone)]
pub struct Shared {
    /// The loads.
    pub loads: Vec<Case>,
    /// The engine that loads for the one of this name.
    pub loader: fn(&str) -> &'static str,
}

/// What is made of the numbers when they are all there, or as many as there are.
#[derive(Clone, Copy)]
pub struct Analysis {
    /// More rows.
    pub rows: fn(&Results) -> Vec<Row>,
    /// What is printed after the summary.
    pub text: fn(&Results) -> String,
}

/// A case.
#[derive(Clone)]
pub struct Case {
    /// What the rows call it.
    pub name: String,
    /// What is done.
    pub task: Task,
    /// Threads.
    pub threads: usize,
    /// For how long, if not for a number of operations.
    pub duration: Option<Duration>,
    /// How many operations to start each second, if not as many as can be.
    pub rate: Option<Rate>,
    /// The shared load that it starts on, by its name.
    pub starts_on: Option<String>,
    /// The engines that run it, if not all.
    pub engines: Option<Vec<String>>,
    /// What the engines are given, if not what the campaign says.
    pub settings: Option<EngineSettings>,
    /// How long it runs before it counts, if not as long as the campaign says.
    pub warm_up: Option<WarmUp>,
    /// Whether settling is measured.
    pub settles: bool,
    /// The distance of the points of series.
    pub interval: Duration,
}

/// How many operations are started each second.
#[derive(Clone, PartialEq, Debug)]
pub enum Rate {
    /// So many.
    Fixed(f64),
    /// A part of those that the same engine sustained in an earlier case of the round.
    Part { of: String, part: f64 },
}

impl Case {
    /// As many operations as `task` has, as fast as can be, by all engines.
    pub fn new(name: &str, task: Task, threads: usize) -> Self {
        Case {
            name: name.to_owned(),
            task,
            threads,
            duration: None,
            rate: None,
            starts_on: None,
            engines: None,
            settings: None,
            warm_up: None,
            settles: true,
            interval: Duration::from_secs(1),
        }
    }

    fn is_for(&self, engine: &str) -> bool {
        self.engines.as_ref().is_none_or(|engines| engines.iter().any(|name| name == engine))
    }
}

/// Where a campaign works, and where its results go.
#[derive(Default)]
pub struct Places {
    /// Where the stores lie, if not in a temporary directory.
    pub dir: Option<PathBuf>,
    /// Where the results are written, if anywhere.
    pub out: Option<PathBuf>,
}

/// One run of one case, or of the load, on one engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    round: u32,
    what: What,
    engine: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// Once, for all engines that share it.
    SharedLoad(usize),
    /// The load of a round.
    Load,
    Case(usize),
}

impl Places {
    /// Fails if something there is in the way, without making anything.
    pub fn check(&self) -> Outcome {
        self.dir.as_deref().map_or(Ok(()), workspace::check)?;
        self.out.as_deref().map_or(Ok(()), Output::check)?;
        match (&self.dir, &self.out) {
            (Some(dir), Some(out)) => apart(dir, out),
            _ => Ok(()),
        }
    }

    /// Writes results as far as they are known.
    pub fn write(&self, so_far: &Results) -> Outcome {
        let output = self.out.as_deref().map(Output::create).transpose()?;
        output.map_or(Ok(()), |output| output.write(so_far))
    }

    /// Writes results that are complete, and prints them.
    pub fn keep(&self, results: &Results) -> Outcome {
        self.write(results)?;
        if let Some(out) = &self.out {
            tell(format_args!("the results are in {}", out.display()));
        }
        print(results)
    }
}

/// Fails if one of the two lies in the other: the stores' directory is emptied in the end.
fn apart(dir: &Path, out: &Path) -> Outcome {
    let whole = |path: &Path| {
        let absolute = std::path::absolute(path);
        absolute.map_err(|error| Failure::io("find", path.display().to_string(), error))
    };
    let (dir, out) = (whole(dir)?, whole(out)?);
    if !dir.starts_with(&out) && !out.starts_with(&dir) {
        return Ok(());
    }
    Err(Failure::Usage("--dir and --out lie in each other; name two directories apart".into()))
}

impl Campaign {
    /// Measures everything, writes the results and prints them.
    pub fn run(&self, places: &Places) -> Outcome {
        places.check()?;
        let interrupt =
            Interrupt::listen().map_err(|error| Failure::io("listen for", "interrupts", error))?;
        let scratch = Scratch::create(&self.engines, &self.settings)?;
        let workspace = Workspace::create(places.dir.as_deref())?;
        let output = places.out.as_deref().map(Output::create).transpose()?;
        let mut run = Running {
            campaign: self,
            workspace: &workspace,
            scratch: &scratch,
            interrupt: &interrupt,
            display: Display::on_terminal(),
            results: self.empty_results(&workspace),
            memory: self.uses_memory.then(|| UsedMemory::new(workspace.path())).transpose()?,
        };
        let keep = |results: &Results| output.as_ref().map_or(Ok(()), |out| out.write(results));
        keep(&run.results)?;
        let steps = self.schedule();
        let mut ended = Ok(());
        for (at, step) in steps.iter().enumerate() {
            ended = run.step(*step, at, steps.len()).and_then(|()| keep(&run.results));
            if ended.is_err() {
                break;
            }
        }
        run.display.clear();
        let mut results = run.results;
        results.complete = ended.is_ok();
        results.ended = ended.as_ref().err().map(Failure::why).unwrap_or_default();
        if let Some(Analysis { rows, .. }) = self.analysis {
            results.rows.extend(rows(&results));
        }
        keep(&results)?;
        print(&results)?;
        if let Some(Analysis { text, .. }) = self.analysis.filter(|_| !is_json()) {
            stdout().write_all(text(&results).as_bytes())?;
        }
        let place = output.as_ref().map(|output| output.path().display());
        match (ended, place) {
            (Ok(()), Some(place)) => tell(format_args!("the results are in {place}")),
            (Err(Failure::Interrupted(_)), Some(place)) => {
                let message = format!("interrupted; the results so far are in {place}");
                return Err(Failure::Interrupted(message));
            }
            (ended, _) => return ended,
        }
        Ok(())
    }

    /// All steps in order.
    fn schedule(&self) -> Vec<Step> {
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

    /// What is not what it stands for.
    pub fn emulated(&self) -> Vec<String> {
        let settings = self.cases.iter().filter_map(|case| case.settings.as_ref());
        let networks = settings.filter_map(|settings| settings.fabric.network.emulation());
        let mut all = engines::emulated(&self.engines);
        all.extend(networks);
        all.sort_unstable();
        all.dedup();
        all
    }

    fn empty_results(&self, workspace: &Workspace) -> Results {
        let mut run = self.run_settings.clone();
        let given = [
            ("rounds", self.rounds.to_string()),
            match self.warm_up {
                WarmUp::For(time) => ("warm_up_seconds", time.as_secs_f64().to_string()),
                WarmUp::Operations(number) => ("warm_up_operations", number.to_string()),
            },
            ("seed", self.seed.to_string()),
            ("memory_bytes", self.settings.memory_bytes.to_string()),
            ("segment_bytes", self.settings.segment_bytes.to_string()),
            ("background_threads", self.settings.background_threads.to_string()),
            ("compression", self.settings.compression.clone()),
        ];
        run.extend(given.map(|(name, value)| (name.to_owned(), value)));
        Results {
            experiment: self.experiment.clone(),
            scale: self.scale.clone(),
            command: std::env::args().collect(),
            machine: Machine::of(workspace.path()),
            started: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("ESKER_COMMIT").to_owned(),
            emulated: self.emulated(),
            settings: [(RUN.to_owned(), run)].into(),
            groups: self.groups.clone(),
            published: self.published.clone(),
            ..Results::default()
        }
    }
}

/// A campaign under way.
struct Running<'a> {
    campaign: &'a Campaign,
    workspace: &'a Workspace,
    scratch: &'a Scratch,
    interrupt: &'a Interrupt,
    display: Display,
    results: Results,
    memory: Option<UsedMemory>,
}

impl Running<'_> {
    fn step(&mut self, step: Step, at: usize, steps: usize) -> Outcome {
        let campaign = self.campaign;
        let mut engine = &campaign.engines[step.engine];
        let loader = campaign.shared.as_ref().map(|shared| (shared.loader)(engine).to_owned());
        let store = |load: &str| format!("{}-{load}", loader.as_deref().unwrap_or(engine));
        let (case, dir) = match step.what {
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
            task: case.task.clone(),
            threads: case.threads,
            duration: case.duration,
            rate: self.rate(case, engine, step.round)?,
            warm_up: case.warm_up.unwrap_or(campaign.warm_up),
            settles: case.settles,
            interval: case.interval,
            seed: campaign.seed,
        };
        let outcome = child::run(&plan, self.interrupt, &mut |message| match message {
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
        })?;
        self.results.rows.extend(outcome.rows);
        self.results.series.extend(outcome.series);
        self.results.distributions.extend(outcome.distributions);
        self.workspace.remove(RUNNING)
    }
}

/// Adds what an engine was told in a case. Which of several values it was, the case's name says.
fn note(told: &mut Settings, of_case: Settings) {
    for (name, value) in of_case {
        match told.get_mut(&name) {
            None => drop(told.insert(name, value)),
            Some(values) if values.split(" or ").any(|known| known == value) => {}
            Some(values) => values.push_str(&format!(" or {value}")),
        }
    }
}

impl Running<'_> {
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

/// The name of the directory in which a case runs.
const RUNNING: &str = "running";

/// Part of the rate that must be reached for the latencies to be those of that rate.
const REACHED: f64 = 0.99;

/// Prints results on standard output, and on standard error what is to be known of them.
pub fn print(results: &Results) -> Outcome {
    let mut out = stdout();
    if is_json() {
        out.write_all(visible_json(results.to_json()).as_bytes())?;
    } else {
        out.write_all(results::summary_table(results).as_bytes())?;
    }
    out.flush()?;
    for row in &results.rows {
        if row.metric == "rate_reached" && row.value < REACHED {
            let (engine, case, round) = (&row.engine, &row.case, row.round + 1);
            let percent = 100.0 * row.value;
            tell(format_args!(
                "{engine} reached {percent:.1} % of the rate in {case}, round {round}: \
                 its latencies grow with the length of the run"
            ));
        }
        if row.metric == "unstarted" && row.value > 0.0 {
            let (engine, case, round) = (&row.engine, &row.case, row.round + 1);
            let given_up = crate::units::counted(row.value as u64, "operation");
            tell(format_args!(
                "{engine} was so far behind in {case}, round {round}, that {given_up} were \
                 never begun; their latencies are not counted"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::engines::ForwardingName;
    use super::super::pool::PoolSettings;
    use super::*;
    use crate::bench::plan::UpdatesTask;

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
    fn every_round_begins_with_the_load() {
        let campaign = campaign(&["x"], Some(case("load")), &["a"], 2);
        assert_eq!(order(&campaign), ["0 load x", "0 a x", "1 load x", "1 a x"]);
    }
}
