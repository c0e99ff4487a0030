//! `esker nvme ping`: how long a command takes that does nothing.

use super::Node;
use crate::failure::Outcome;
use crate::output::stdout;
use esker_base::{Clock, SystemClock};
use std::io::Write;

/// The key that is looked for. It need not be there.
const KEY: &[u8] = b"esker ping";

/// Measure the way to a node and back: looks for a key, over and over
#[derive(clap::Args)]
pub struct Ping {
    /// How many times
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
        let mut out = stdout();
        writeln!(
            out,
            "{} round trips: median {:.1} µs, p99 {:.1} µs, least {:.1} µs",
            times.len(),
            part(50),
            part(99),
            part(0)
        )?;
        Ok(out.flush()?)
    }
}
