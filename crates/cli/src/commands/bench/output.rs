//! Where the results of a campaign go: a directory with `results.json`, and a page made of it.

use crate::failure::{Failure, Outcome};
use esker_bench::{Results, html, results};
use std::path::{Path, PathBuf};

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
        let page = self.0.join(html::FILE_NAME);
        let partial = page.with_extension("html.partial");
        std::fs::write(&partial, html::page(now))
            .and_then(|()| std::fs::rename(&partial, &page))
            .map_err(|error| Failure::io("write to", page.display().to_string(), error))
    }
}
