//! Where the results of a campaign go: a directory with `results.json`, and a page made of it.

use crate::failure::{Failure, Outcome};
use esker_bench::{Results, html, results};
use std::path::{Path, PathBuf};

/// The numbers alone.
const CSV_FILE_NAME: &str = "results.csv";
/// The directory of the plots.
const PLOTS: &str = "plots";

/// Whether a file has a name that [`html::plots`] gives: `001-throughput.svg`.
fn is_plot(name: &str) -> bool {
    let (number, rest) = name.split_once('-').unwrap_or_default();
    number.len() == 3
        && number.bytes().all(|digit| digit.is_ascii_digit())
        && rest.ends_with(".svg")
}

/// A directory for results.
pub struct Output(PathBuf);

impl Output {
    /// Fails if results can't be put in `dir`: one that is empty, or not there, or has older results.
    pub fn check(dir: &Path) -> Outcome {
        let mut files = match dir.read_dir() {
            Ok(files) => files,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Failure::io("read", dir.display().to_string(), error)),
        };
        if files.next().is_none() || results::read(dir).is_ok() {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "{} holds other files than results; name a new directory",
            dir.display()
        )))
    }

    /// Makes the directory if need be.
    pub fn create(dir: &Path) -> Outcome<Self> {
        Output::check(dir)?;
        std::fs::create_dir_all(dir)
            .map_err(|error| Failure::io("create", dir.display().to_string(), error))?;
        Ok(Output(dir.to_owned()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes the results as they are now, and the page of them; either file is whole at any time.
    pub fn write(&self, now: &Results) -> Outcome {
        results::write(&self.0, now)?;
        self.write_file(CSV_FILE_NAME, &now.to_csv())?;
        self.write_file(html::FILE_NAME, &html::page(now))
    }

    /// Writes each plot of the page as a file, into a directory of their own.
    pub fn write_plots(&self, results: &Results) -> Outcome {
        let dir = self.0.join(PLOTS);
        let failed = |error| Failure::io("write to", dir.display().to_string(), error);
        std::fs::create_dir_all(&dir).map_err(failed)?;
        // Those of an earlier run, which may have had more.
        for file in dir.read_dir().map_err(failed)? {
            let file = file.map_err(failed)?;
            if is_plot(&file.file_name().to_string_lossy()) {
                std::fs::remove_file(file.path()).map_err(failed)?;
            }
        }
        for (name, plot) in html::plots(results) {
            self.write_file(&format!("{PLOTS}/{name}"), &plot)?;
        }
        Ok(())
    }

    /// Writes a file that is whole at any time.
    fn write_file(&self, name: &str, text: &str) -> Outcome {
        let (whole, partial) = (self.0.join(name), self.0.join(format!("{name}.partial")));
        std::fs::write(&partial, text)
            .and_then(|()| std::fs::rename(&partial, &whole))
            .map_err(|error| Failure::io("write to", whole.display().to_string(), error))
    }
}
