//! `esker pmem check`: does everything in a pool hold?
//!
//! A crash may tear the last frames, those that were not acknowledged: where a segment ends in one, or
//! the next does not go on where it ended, that is a torn tail as long as nothing written later knew
//! the missing writes durable. If something did, they were acknowledged, and it is damage; unless a
//! later segment goes on just there: then a recovery found the tail torn, and gave the seqnos out again.

use super::{TO_LOOK_AT, header_json};
use crate::failure::{Failure, Outcome};
use crate::output::show;
use crate::progress::Progress;
use crate::units;
use esker_base::Seqno;
use esker_memtable::{SEGMENT_HEADER_BYTES, Scan, SegmentHeader, Stop, scan};
use esker_pmem::pool::Inspect;
use esker_pmem::{Extent, Pool};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::sync::Arc;

/// Read all of a pool and report whatever does not hold
///
/// Checks the header, the state of every extent, and the segment's header and every frame of those in
/// use. Fails if another process has the pool open for writing. Exit status 1 if anything is wrong.
#[derive(clap::Args)]
pub struct Check {
    /// The pool's file
    path: PathBuf,
}

/// A segment of the pool, read.
struct Segment {
    epoch: u32,
    /// Where its extent starts in the pool.
    offset: u64,
    scan: Scan,
}

#[derive(Default)]
struct Report {
    problems: Vec<String>,
    /// What a crash may leave, and recovery leaves out.
    torn: Vec<String>,
    frames: u64,
    entries: u64,
    bytes: u64,
}

impl Check {
    pub fn run(self) -> Outcome {
        let (pool, problems) =
            Pool::inspect(&self.path, TO_LOOK_AT, Inspect::Alone).map_err(Failure::of_check)?;
        let mut report = Report::default();
        report.problems.extend(problems.iter().map(ToString::to_string));
        let segments = Progress::during("checking", || report.read(&pool));
        report.judge(&pool, &segments);
        let shown = show(|| report.json(&pool, segments.len()), || report.text(segments.len()));
        let verdict = Failure::of_problems(self.path.display(), report.problems.len(), "");
        Failure::after_output(shown, verdict)
    }
}

/// Reads the segment in an extent.
fn read(pool: &Pool, extent: &Extent) -> Result<Segment, String> {
    let (name, offset) = (pool.describe(), extent.offset());
    let problem = |at: usize, what: String| {
        format!("{name}: extent {} at offset {}: {what}", extent.index(), offset + at as u64)
    };
    let mut bytes = vec![0; extent.len()];
    extent.read(0, &mut bytes).map_err(|error| problem(0, error.to_string()))?;
    let header = SegmentHeader::decode_of(&bytes, extent.epoch(), extent.len() as u64, &name)
        .map_err(|error| match error {
            esker::Error::Corruption { offset, what, .. } => problem(offset as usize, what),
            error => problem(0, error.to_string()),
        })?;
    Ok(Segment { epoch: header.epoch, offset, scan: scan(&bytes, &header, None) })
}

impl Segment {
    /// The seqno of its first frame.
    fn first_seqno(&self) -> Option<Seqno> {
        self.scan.frames.first().map(|frame| frame.first_seqno)
    }

    /// The seqno after its last frame's.
    fn next_seqno(&self) -> Option<Seqno> {
        self.scan.frames.last().map(|frame| frame.next_seqno())
    }

    /// What is known durable from anything in it but the first `skip` frames.
    fn durable_through(&self, skip: usize) -> Seqno {
        let frames = self.scan.frames.iter().skip(skip).map(|frame| frame.durable_through);
        let later = self.scan.later.map(|later| later.durable_through);
        frames.chain(later).max().unwrap_or(0)
    }
}

impl Report {
    /// Reads the segments. What is wrong with one that can't be read is noted.
    fn read(&mut self, pool: &Arc<Pool>) -> Vec<Segment> {
        let mut segments = Vec::new();
        for extent in pool.used().into_iter().filter_map(|epoch| pool.extent(epoch)) {
            match read(pool, &extent) {
                Ok(segment) => segments.push(segment),
                Err(problem) => self.problems.push(problem),
            }
        }
        segments
    }

    /// Tells damage from torn tails. `segments` are in the order of their epochs.
    fn judge(&mut self, pool: &Pool, segments: &[Segment]) {
        // The seqno that is due, once there is one.
        let mut expected = None;
        for (at, segment) in segments.iter().enumerate() {
            self.count(&segment.scan);
            let later = &segments[at + 1..];
            let known = later.iter().map(|segment| segment.durable_through(0)).max().unwrap_or(0);
            let is_given_again =
                |due: Seqno| later.iter().any(|segment| segment.first_seqno() == Some(due));
            let place = |offset: u64, what: &str| {
                let (name, at) = (pool.describe(), segment.offset + offset);
                format!("{name}: segment {} at offset {at}: {what}", segment.epoch)
            };
            if let (Some(due), Some(first)) = (expected, segment.first_seqno())
                && first != due
            {
                let what = format!("it starts at seqno {first}, and {due} is due");
                let what = place(SEGMENT_HEADER_BYTES as u64, &what);
                if is_given_again(due) {
                    // All of it was left out.
                    self.torn.push(what);
                    continue;
                }
                self.sort(known.max(segment.durable_through(0)) >= due, what);
            }
            expected = segment.next_seqno().or(expected);
            if let Stop::Bad { offset, what } = &segment.scan.stop {
                let known = known.max(segment.durable_through(usize::MAX));
                let is_damage = expected.is_some_and(|due| known >= due && !is_given_again(due));
                self.sort(is_damage, place(*offset, what));
            }
        }
    }

    fn count(&mut self, scan: &Scan) {
        self.frames += scan.frames.len() as u64;
        self.entries += scan.frames.iter().map(|frame| u64::from(frame.count)).sum::<u64>();
        self.bytes += scan.end;
    }

    fn sort(&mut self, was_durable: bool, what: String) {
        if was_durable { &mut self.problems } else { &mut self.torn }.push(what);
    }

    fn json(&self, pool: &Pool, segments: usize) -> Json {
        let mut object = header_json(pool);
        let found = json!({
            "segments": segments,
            "frames": self.frames,
            "entries": self.entries,
            "segment_bytes": self.bytes,
            "torn": self.torn,
            "problems": self.problems,
        });
        object.extend(found.as_object().cloned().unwrap_or_default());
        object.into()
    }

    fn text(&self, segments: usize) -> String {
        let mut out = String::new();
        for problem in &self.problems {
            out.push_str(&format!("{problem}\n"));
        }
        for torn in &self.torn {
            out.push_str(&format!("{torn}; a crash left it, and recovery leaves it out\n"));
        }
        out.push_str(&format!(
            "checked {}, {}, with {} and {} writes\n",
            units::counted(segments as u64, "segment"),
            units::bytes(self.bytes),
            units::counted(self.frames, "frame"),
            units::count(self.entries),
        ));
        if self.problems.is_empty() {
            out.push_str("no problems found\n");
        }
        out
    }
}
