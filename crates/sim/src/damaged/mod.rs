//! Damages stored files in the ways in which disks do, and checks what comes of it.
//!
//! Each trial takes a copy of an image (a database in files, in a pool or on flash, or a hash store), damages one file, and
//! then opens, reads, flushes, compacts, closes, reopens and repairs. What must hold:
//!
//! * No value is returned that was never written to its key. Nothing panics.
//! * A key that has not its last value is an error, or the damage is reported: by the open, `check`, `torn_log` or
//!   `background_error`. Otherwise the end of the log is cut off: all writes up to some point are there, and none after it.
//! * An open that fails removes no file.
//! * After a repair that succeeds, the image opens.

mod database;
mod hash;
mod image;
mod kinds;

use database::Place;
use esker_base::Rng;
use image::{Image, Seen};
use kinds::damage;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// What came of the trials.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Totals {
    /// Trials.
    pub trials: u64,
    /// Those in which all was as before, and nothing reported.
    pub harmless: u64,
    /// Those in which the damage was reported.
    pub reported: u64,
    /// Those in which the end of a log was cut off, which nothing can tell from a log that ended there.
    pub cut: u64,
    /// Those of which a repair kept at least a part, and those that it refused.
    pub repaired: u64,
    /// Those that a repair refused.
    pub refused: u64,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { trials, harmless, reported, cut, repaired, refused } = self;
        write!(
            f,
            "{trials} trials: {harmless} harmless, {reported} reported, {cut} with the end of a log cut off; {repaired} \
             repaired, {refused} refused a repair"
        )
    }
}

/// Images that are damaged in turn.
pub struct Campaign {
    images: Vec<Image>,
    scratch: tempfile::TempDir,
}

impl Campaign {
    /// Makes the images, below a temporary directory in `dir`.
    pub fn new(dir: &Path) -> Result<Self, String> {
        let scratch = tempfile::tempdir_in(dir).map_err(|error| error.to_string())?;
        let mut images = Vec::new();
        for place in [Place::Files, Place::Pool, Place::Flash] {
            for is_closed in [false, true] {
                images.push(database::make(scratch.path(), place, is_closed)?);
            }
        }
        for is_closed in [false, true] {
            images.push(hash::make(scratch.path(), is_closed)?);
        }
        Ok(Campaign { images, scratch })
    }

    /// Runs the trials of these seeds. All of them run; the error lists those that failed.
    pub fn run(&self, seeds: std::ops::Range<u64>) -> Result<Totals, String> {
        let (mut totals, mut failures) = (Totals::default(), Vec::new());
        for seed in seeds {
            totals.trials += 1;
            match catch_unwind(AssertUnwindSafe(|| self.trial(seed, &mut totals))) {
                Ok(Ok(())) => {}
                Ok(Err(what)) => failures.push(what),
                Err(_) => failures.push(format!("seed {seed}: it panicked")),
            }
        }
        match failures.is_empty() {
            true => Ok(totals),
            false => Err(failures.join("\n")),
        }
    }

    fn trial(&self, seed: u64, totals: &mut Totals) -> Result<(), String> {
        let mut rng = Rng::new(seed);
        let image = &self.images[(seed % self.images.len() as u64) as usize];
        let io = |error: std::io::Error| error.to_string();
        let (first, second) =
            (self.scratch.path().join("first"), self.scratch.path().join("second"));
        image.copy_to(&first).map_err(io)?;
        let what = damage(&first, &mut rng).map_err(io)?;
        image::copy(&first, &second).map_err(io)?;
        let context =
            |what_else: String| format!("seed {seed}, {}: {}: {what_else}", image.name, what.text);
        let seen = image.kind.judge(&first, image, what.may_cut).map_err(context)?;
        match seen {
            Seen::Harmless => totals.harmless += 1,
            Seen::Reported => totals.reported += 1,
            Seen::Cut => totals.cut += 1,
        }
        match image.kind.repair(&second, image, what.is_manifest).map_err(context)? {
            true => totals.repaired += 1,
            false => totals.refused += 1,
        }
        Ok(())
    }
}
