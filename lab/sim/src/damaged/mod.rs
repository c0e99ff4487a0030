//! Damages stored files in the ways in which disks do, and judges what the engine makes of them.
//!
//! Each trial takes a copy of an image (a database in files, in a pool or on flash, or a hash store) and damages one file.
//! Then it checks, opens, reads, writes, flushes, compacts, closes, reopens and repairs. What must hold:
//!
//! * No value is returned that was never written to its key. No key and no keyspace is there that was never made or was
//!   dropped. Nothing panics.
//! * Each key has its last value, or its read fails. The exception is the end of a log that was in use: a suffix of the
//!   writes may be gone if nothing but the damaged bytes held them, or if `torn_log` reports the damage. A write that is in
//!   a table or a checkpoint is never part of that suffix. A flipped bit is always reported, but not by an open to read: a
//!   last write that fails its checksum may be one that another process is just making.
//! * A reading around the damage and a repair may lose what they name, and no other key.
//! * A check reports the damage if anything else does.
//! * A write after the damage is refused, or kept.
//! * An open that fails removes no file, and what only reads changes none.
//! * After a repair that succeeds, the image opens, every key can be read, and a check finds nothing.
//!
//! The ways to use an image are judged apart: none is excused by a report of another.

mod database;
mod hash;
mod image;
mod judge;
mod kinds;
mod uses;

use esker_base::Rng;
use image::Place;
use image::{Image, Kind, files};
use judge::{Seen, judge_check};
use kinds::{Damage, damage};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The results of the trials of one image.
#[derive(Clone, Default, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Totals {
    /// The image.
    pub name: String,
    /// Trials.
    pub trials: u64,
    /// Those in which all was as before, and nothing reported.
    pub harmless: u64,
    /// Those in which the damage was reported.
    pub reported: u64,
    /// Those in which the end of a log was truncated, which can't be distinguished from a log that ended there.
    pub cut: u64,
    /// Those with a successful repair after which every key had its last value.
    pub restored: u64,
    /// Those with a successful repair that lost something.
    pub salvaged: u64,
    /// Those with a repair that refused.
    pub refused: u64,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { name, trials, harmless, reported, cut, restored, salvaged, refused } = self;
        write!(
            f,
            "{name}: {trials} trials, {harmless} harmless, {reported} reported, {cut} with the end of a log cut off; \
             repairs: {restored} lost nothing, {salvaged} lost something, {refused} refused"
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

    /// Runs the trials of these seeds. Returns the totals of each image. All trials run; the error lists those that failed.
    pub fn run(&self, seeds: std::ops::Range<u64>) -> Result<Vec<Totals>, String> {
        let named = |image: &Image| Totals { name: image.name.clone(), ..Totals::default() };
        let mut totals: Vec<Totals> = self.images.iter().map(named).collect();
        let mut failures = Vec::new();
        for seed in seeds {
            let number = (seed % self.images.len() as u64) as usize;
            let (image, totals) = (&self.images[number], &mut totals[number]);
            match catch_unwind(AssertUnwindSafe(|| self.trial(seed, image, totals))) {
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

    fn trial(&self, seed: u64, image: &Image, totals: &mut Totals) -> Result<(), String> {
        let io = |error: std::io::Error| error.to_string();
        let (first, second) =
            (self.scratch.path().join("first"), self.scratch.path().join("second"));
        image::copy(&image.dir, &first).map_err(io)?;
        let damage = damage(&first, &mut Rng::new(seed)).map_err(io)?;
        image::copy(&first, &second).map_err(io)?;
        let context =
            |what: String| format!("seed {seed}, {}: {}: {what}", image.name, damage.text);
        totals.trials += 1;
        match used(&first, image, &damage).map_err(context)? {
            Seen::Harmless => totals.harmless += 1,
            Seen::Reported => totals.reported += 1,
            Seen::Cut => totals.cut += 1,
        }
        match repaired(&second, image, &damage).map_err(context)? {
            Some(Seen::Harmless) => totals.restored += 1,
            Some(Seen::Cut | Seen::Reported) => totals.salvaged += 1,
            None => totals.refused += 1,
        }
        Ok(())
    }
}

/// Uses a damaged copy in every way but repair.
fn used(dir: &Path, image: &Image, damage: &Damage) -> Result<Seen, String> {
    let (kept, beside) = (damage.kept(image), damage.kept_beside_writer(image));
    let in_way = |way: &'static str| move |what: String| format!("{way}: {what}");
    let before = files(dir).map_err(|error| error.to_string())?;
    let unchanged = |way: &str| match files(dir).map_err(|error| error.to_string())? {
        after if after == before => Ok(()),
        _ => Err(format!("{way} changed the files")),
    };
    let not_removed = |way: &str| {
        let after = files(dir).map_err(|error| error.to_string())?;
        match before.keys().find(|file| !after.contains_key(*file)) {
            Some(file) => Err(format!("{way} removed {}", file.display())),
            None => Ok(()),
        }
    };
    let failed = |opened: Option<Seen>| opened.unwrap_or(Seen::Reported);
    match image.kind {
        Kind::Database(place) => {
            let is_found = uses::check(dir, place);
            unchanged("check")?;
            let mut seen =
                uses::read_only(dir, place, image, beside).map_err(in_way("an open to read"))?;
            unchanged("an open to read")?;
            let around = uses::around(dir, place, image, beside)
                .map_err(in_way("a reading around damage"))?;
            unchanged("a reading around damage")?;
            seen = Some(failed(seen).max(around));
            let written =
                uses::write_on(dir, place, image, kept).map_err(in_way("an open to write"))?;
            if written.is_none() {
                not_removed("an open to write that failed")?;
            }
            let seen = failed(seen).max(failed(written));
            Ok(seen.max(judge_check("check", is_found, seen)?))
        }
        Kind::Hash => {
            let (is_checked, is_scrubbed) = hash::check(dir);
            unchanged("check")?;
            let written = hash::write_on(dir, image, kept).map_err(in_way("an open"))?;
            if written.is_none() {
                not_removed("an open that failed")?;
                judge_check("check", is_checked, Seen::Reported)?;
            }
            let seen = failed(written);
            Ok(seen.max(judge_check("scrub", is_scrubbed, seen)?))
        }
    }
}

/// Repairs a damaged copy, and opens it. `None` if the repair refuses.
fn repaired(dir: &Path, image: &Image, damage: &Damage) -> Result<Option<Seen>, String> {
    let seen = match image.kind {
        Kind::Database(place) => uses::repair(dir, place, image, damage.kept(image)),
        Kind::Hash => hash::repair(dir, image, damage),
    };
    seen.map_err(|what| format!("a repair: {what}"))
}
