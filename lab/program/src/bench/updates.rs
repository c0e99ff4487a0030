//! `esker-lab bench updates`.

use super::campaign::{Campaign, Case, Places, Rate};
use super::options::{CampaignOptions, parse_engines};
use super::plan::{Task, UpdatesTask};
use crate::failure::{Failure, Outcome};
use clap::Args;
use esker_bench::WarmUp;

/// Writes alone, each key many times over, on one engine or several
///
/// Shows what an engine pays, in bytes written and in space, for keeping only the latest values.
#[derive(Args)]
pub struct Updates {
    /// Keys
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    records: u64,
    /// How often each key is written again, on average
    #[arg(long, value_name = "N", default_value_t = 9.0)]
    updates_per_key: f64,
    /// Which keys are written how often: uniform or zipf
    #[arg(long, value_name = "NAME", default_value = "uniform")]
    distribution: String,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value_t = 10)]
    key_size: usize,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 200)]
    value_size: usize,
    /// Threads, which divide the writes between them
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Read so many keys afterwards: compacted, ten times as many during more updates, and before compaction
    #[arg(long, value_name = "N", default_value_t = 0)]
    reads: u64,
    #[command(flatten)]
    campaign: CampaignOptions,
}

impl Updates {
    pub fn run(self) -> Outcome {
        let common = &self.campaign;
        common.check()?;
        let task = UpdatesTask {
            records: self.records,
            updates_per_key: self.updates_per_key,
            distribution: self.distribution.clone(),
            key_bytes: self.key_size,
            value_bytes: self.value_size,
            threads: self.threads,
            reads: self.reads,
            seed: common.seed,
        };
        let options = task.resolve()?;
        if common.warm_up > std::time::Duration::ZERO {
            return Err(Failure::Usage(
                "--warm-up: the first write of a key counts as much as the last".into(),
            ));
        }
        let settings = common.settings();
        let engines = parse_engines(&common.engines, &settings, (self.key_size, self.value_size))?;
        let given = [
            ("records", self.records.to_string()),
            ("updates_per_key", self.updates_per_key.to_string()),
            ("distribution", self.distribution),
            ("key_bytes", self.key_size.to_string()),
            ("value_bytes", self.value_size.to_string()),
            ("threads", self.threads.to_string()),
            ("reads", self.reads.to_string()),
        ];
        let campaign = Campaign {
            experiment: "updates".to_owned(),
            scale: crate::units::counted(options.writes(), "write"),
            engines,
            settings,
            rounds: common.rounds,
            load: None,
            shared: None,
            analysis: None,
            uses_memory: false,
            memory_limit: None,
            cases: vec![Case {
                duration: common.duration,
                rate: common.rate.map(Rate::Fixed),
                ..Case::new("updates", Task::Updates(task), self.threads)
            }],
            // The first write of a key counts as much as the last: nothing is written before.
            warm_up: WarmUp::NONE,
            seed: common.seed,
            run_settings: given
                .map(|(name, value)| (name.to_owned(), value))
                .into_iter()
                .chain(common.named())
                .collect(),
            groups: Vec::new(),
            published: Vec::new(),
        };
        let places = Places { dir: common.dir.clone(), out: common.out.clone() };
        campaign.run(&places)
    }
}
