//! Several engines, several cases, several rounds: who runs when.
//!
//! In each round every engine loads its store; then, case by case, each engine runs the case on a
//! copy of what it had loaded. So no case finds what another left, and loading, which is most of the
//! time, happens once a round. Within a round the engines take turns at each case. Each case begins with
//! the next of them, and every other round has the opposite order: what the machine does meanwhile, and
//! what one leaves behind for the next, falls on all of them alike, even if there is one round.
//!
//! Cases may instead run one after the other on a store that is kept between them: then what each
//! finds is what the one before has left, as YCSB orders its workloads.
//!
//! The results are written after each case of each engine, so that an interrupted campaign leaves
//! what it had.

mod definition;
mod places;
mod running;
mod schedule;

pub use definition::{Analysis, Campaign, Case, LIMIT, MEMORY, Rate, Shared};
pub use places::{Places, print};

use super::display::Display;
use super::output::Output;
use super::scratch::Scratch;
use super::used_memory::UsedMemory;
use super::workspace::Workspace;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{is_json, stdout, tell};
use esker_bench::results::RUN;
use esker_bench::{Machine, Results, WarmUp};
use running::Running;
use std::io::Write;

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
            group: None,
            broken: Default::default(),
            failed: 0,
        };
        run.limit_memory();
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
        if ended.is_ok() && run.failed > 0 {
            let what = "failed, and those after them on the same stores were not run";
            ended = Err(Failure::new(format!("{} cases {what}", run.failed)));
        }
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
