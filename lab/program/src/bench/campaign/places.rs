//! Where a campaign works, and what becomes of its results.

use crate::bench::output::Output;
use crate::bench::workspace;
use crate::failure::{Failure, Outcome};
use crate::output::{is_json, stdout, tell, visible_json};
use esker_bench::Results;
use esker_bench::results;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where a campaign works, and where its results go.
#[derive(Default)]
pub struct Places {
    /// Where the stores are, if not in a temporary directory.
    pub dir: Option<PathBuf>,
    /// Where the results are written, if anywhere.
    pub out: Option<PathBuf>,
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

/// Fails if one of the two is in the other: the stores' directory is emptied in the end.
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
