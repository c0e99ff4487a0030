//! `esker-lab bench report`: results of several runs, merged.

use super::campaign::print;
use super::output::Output;
use crate::failure::{Failure, Outcome};
use clap::Args;
use esker_bench::{Results, results};
use std::path::PathBuf;

/// Merge results of several runs, or of one, into one page, a CSV file and an SVG file for each plot
#[derive(Args)]
pub struct Report {
    /// Directories with results
    #[arg(required = true, value_name = "OUT")]
    runs: Vec<PathBuf>,
    /// A directory for the merged results.json and report.html
    #[arg(long)]
    out: PathBuf,
}

impl Report {
    pub fn run(self) -> Outcome {
        Output::check(&self.out)?;
        let runs = self.runs.iter().map(|run| results::read(run)).collect::<Result<_, _>>()?;
        let merged = Results::merge(runs)
            .ok_or_else(|| Failure::Usage("there is nothing to merge".to_owned()))?;
        let output = Output::create(&self.out)?;
        output.write(&merged)?;
        output.write_plots(&merged)?;
        print(&merged)
    }
}
