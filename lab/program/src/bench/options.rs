//! Flags that all campaigns have.

use super::engines::{self, EngineSettings, ForwardingName};
use super::pool::PoolSettings;
use crate::failure::{Failure, Outcome};
use crate::limits::check_sizes;
use crate::units::parse_bytes;
use clap::Args;
use esker::Log;
use esker_bench::results::Settings;
use std::path::PathBuf;
use std::time::Duration;

/// How engines are compared.
#[derive(Args)]
#[command(next_help_heading = "Comparison")]
pub struct CampaignOptions {
    /// The engines, compared with the first: see `esker-lab experiment --help` for all
    #[arg(long, value_name = "LIST", default_value = "esker-wal")]
    pub engines: String,
    /// How often everything is measured, the engines taking turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// The memory budget of each engine, for everything
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_bytes)]
    pub memory: usize,
    /// The size of a log segment, or of another engine's write buffer
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_bytes)]
    pub segment: usize,
    /// Threads for flush and compaction
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub background_threads: usize,
    /// How blocks are compressed: none, lz4, zstd
    #[arg(long, value_name = "NAME", default_value = "none")]
    pub compression: String,
    /// Esker's read table in DRAM; 0 is none [default: Esker's choice]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub dram_table: Option<usize>,
    /// When writes reach the read table
    #[arg(long, value_name = "WHEN", default_value = "on-flush")]
    pub forwarding: ForwardingName,
    #[command(flatten)]
    pub pool: PoolSettings,
    /// A directory on the device that the engines *-log-disk log to [default: the store's own]
    #[arg(long, value_name = "DIR", help_heading = "Comparison")]
    pub log_dir: Option<PathBuf>,
    /// Start so many operations a second, whether or not the engine keeps up
    #[arg(long, value_name = "OPS", value_parser = parse_rate)]
    pub rate: Option<f64>,
    /// Run each workload so long before it counts
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    pub warm_up: Duration,
    /// Run each workload so long instead of a number of operations
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub duration: Option<Duration>,
    /// The seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// An empty directory for the stores [default: a temporary one]
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// A directory for results.json and report.html
    #[arg(long)]
    pub out: Option<PathBuf>,
}

impl CampaignOptions {
    /// What the run was notified of time: runs that differ in it are no rounds of one case.
    pub fn named(&self) -> Settings {
        let duration =
            self.duration.map(|time| ("duration_seconds", time.as_secs_f64().to_string()));
        let rate = self.rate.map(|rate| ("rate", rate.to_string()));
        duration.into_iter().chain(rate).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// What each engine is given.
    pub fn settings(&self) -> EngineSettings {
        EngineSettings {
            memory_bytes: self.memory,
            segment_bytes: self.segment,
            background_threads: self.background_threads,
            compression: self.compression.clone(),
            dram_table_bytes: self.dram_table,
            forwarding: self.forwarding,
            pool: self.pool.clone(),
            log_dir: self.log_dir.clone(),
            fabric: Default::default(),
            large_store: Default::default(),
        }
    }

    /// Refuses a duration of nothing.
    pub fn check(&self) -> Outcome {
        match self.duration {
            Some(Duration::ZERO) => Err(Failure::Usage("--duration is 0 seconds".to_owned())),
            _ => Ok(()),
        }
    }
}

/// The engines of a list, each of which can be opened with these settings and takes such entries.
pub fn parse_engines(
    list: &str,
    settings: &EngineSettings,
    pair_bytes: (usize, usize),
) -> Outcome<Vec<String>> {
    parse(list, settings, pair_bytes, false)
}

/// The same of engines that run transactions.
pub fn parse_transaction_engines(
    list: &str,
    settings: &EngineSettings,
    pair_bytes: (usize, usize),
) -> Outcome<Vec<String>> {
    parse(list, settings, pair_bytes, true)
}

fn parse(
    list: &str,
    settings: &EngineSettings,
    pair_bytes: (usize, usize),
    with_transactions: bool,
) -> Outcome<Vec<String>> {
    let mut parsed: Vec<String> = Vec::new();
    for name in list.split(',').map(str::trim) {
        if name.is_empty() {
            let known = engines::names().join(", ");
            return Err(Failure::Usage(format!("an engine without a name; there are {known}")));
        }
        if parsed.iter().any(|earlier| earlier == name) {
            return Err(Failure::Usage(format!("engine {name} is named twice")));
        }
        engines::check(name, settings, with_transactions)?;
        if engines::is_own(name) {
            check_sizes(&settings.own(Log::None), pair_bytes.0, pair_bytes.1, 1)?;
        }
        parsed.push(name.to_owned());
    }
    Ok(parsed)
}

/// A number of seconds, such as 10 or 0.5.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|duration| duration.as_secs() <= LONGEST_SECONDS)
        .ok_or_else(|| format!("{text:?} is not a number of seconds such as 10 or 0.5"))
}

/// A year: more is a mistake.
const LONGEST_SECONDS: u64 = 365 * 24 * 3600;

/// A number of operations a second.
fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (LEAST_RATE..=MOST_RATE).contains(rate));
    rate.ok_or_else(|| {
        format!("{text:?} is not a number of operations a second, from {LEAST_RATE} to a billion")
    })
}

/// One operation in a quarter of an hour: less is a mistake.
const LEAST_RATE: f64 = 0.001;

/// No clock distinguishes times that are closer.
const MOST_RATE: f64 = 1e9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_numbers_from_zero_on() {
        assert_eq!(parse_seconds("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["", "-1", "1s", "NaN", "inf", "1e30"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_rate_is_above_zero() {
        assert_eq!(parse_rate("2.5"), Ok(2.5));
        for bad in ["0", "-5", "NaN", "inf", "1e10", "many"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
    }
}
