//! `esker nvme ping`: how long a command takes that does nothing.

use super::Node;
use crate::failure::Outcome;
use crate::output::show;
use esker_base::{Clock, SystemClock};
use serde_json::json;

/// The key that is looked for. It need not be there.
const KEY: &[u8] = b"esker ping";

/// Measure the round trip to a node: asks repeatedly whether a key exists
#[derive(clap::Args)]
pub struct Ping {
    /// The number of requests
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    #[command(flatten)]
    node: Node,
}

impl Ping {
    pub fn run(self) -> Outcome {
        let client = self.node.connect()?;
        let clock = SystemClock::new();
        let mut times = Vec::new();
        for _ in 0..self.count {
            let start = clock.now();
            client.exist(KEY)?;
            times.push(clock.now() - start);
        }
        times.sort_unstable();
        let part = |of_hundred: usize| {
            let at = (times.len() * of_hundred / 100).min(times.len() - 1);
            times[at].as_secs_f64() * 1e6
        };
        let (count, p50, p99, min) = (times.len(), part(50), part(99), part(0));
        show(
            || json!({ "round_trips": count, "p50_us": p50, "p99_us": p99, "min_us": min }),
            || {
                format!(
                    "{count} round trips: median {p50:.1} µs, p99 {p99:.1} µs, least {min:.1} µs\n"
                )
            },
        )
    }
}
