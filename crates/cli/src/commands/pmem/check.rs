//! `esker pmem check`: does everything in a pool hold?
//!
//! A crash may tear the last frames, those that were not acknowledged: where a segment ends in one, or
//! the next does not go on where it ended, that is a torn tail as long as nothing written later knew
//! the missing writes durable. If something did, they were acknowledged, and it is damage; unless a
//! later segment goes on just there: then a recovery found the tail torn, and gave the seqnos out again.
//!
//! A large batch has several frames, and recovery leaves it out if the last is missing. So it is torn if
//! nothing follows, or if a later segment starts with its first seqno.

use super::{TO_LOOK_AT, header_json};
use crate::failure::{Failure, Outcome};
use crate::output::show;
use crate::progress::Progress;
use crate::units;
use esker_base::Seqno;
use esker_memtable::{SEGMENT_HEADER_BYTES, ScanEnd, ScanResult, SegmentHeader, scan};
use esker_pmem::pool::PoolRepair;
use esker_pmem::{Extent, Pool};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::sync::Arc;

/// Read all of a pool and report every problem
///
/// Checks the header, the state of every extent, and the segment header and the frames of each extent
/// in use. Fails if another process has the pool open for writing. Exit status 1 if anything is wrong.
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
    scan: ScanResult,
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
            Pool::inspect(&self.path, TO_LOOK_AT, PoolRepair::Alone).map_err(Failure::of_check)?;
        let mut report = Report::default();
        report.problems.extend(problems.iter().map(ToString::to_string));
        let segments = Progress::during("checking", || report.read(&pool));
        report.judge(&pool.describe(), &segments);
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

/// A batch whose last frame was not met yet.
struct Unfinished {
    first_seqno: Seqno,
    /// What is said of it if its last frame is missing.
    what: String,
}

impl Segment {
    /// The batch that goes on behind its frames. `before` is the one that goes on in them.
    fn unfinished(&self, before: Option<Unfinished>, name: &str) -> Option<Unfinished> {
        let frames = &self.scan.frames;
        let whole = frames.iter().rposition(|frame| !frame.continues).map_or(0, |at| at + 1);
        match frames.get(whole) {
            None if frames.is_empty() => before,
            Some(_) if whole == 0 && before.is_some() => before,
            first => first.map(|first| Unfinished {
                first_seqno: first.first_seqno,
                what: format!(
                    "{name}: segment {} at offset {}: the last frame of the batch that starts at seqno {} \
                     is missing",
                    self.epoch,
                    self.offset + first.offset,
                    first.first_seqno
                ),
            }),
        }
    }

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

    /// Distinguishes damage from torn tails. `segments` of the pool `name` are in the order of their epochs.
    fn judge(&mut self, name: &str, segments: &[Segment]) {
        // The seqno that is due, once there is one.
        let mut expected = None;
        let mut unfinished: Option<Unfinished> = None;
        for (at, segment) in segments.iter().enumerate() {
            self.count(&segment.scan);
            let later = &segments[at + 1..];
            let known = later.iter().map(|segment| segment.durable_through(0)).max().unwrap_or(0);
            let starts_later =
                |seqno: Seqno| later.iter().any(|segment| segment.first_seqno() == Some(seqno));
            let is_given_again = |due: Seqno, unfinished: &Option<Unfinished>| {
                let is_left_out = |batch: &Unfinished| starts_later(batch.first_seqno);
                starts_later(due) || unfinished.as_ref().is_some_and(is_left_out)
            };
            let place = |offset: u64, what: &str| {
                format!(
                    "{name}: segment {} at offset {}: {what}",
                    segment.epoch,
                    segment.offset + offset
                )
            };
            if let (Some(due), Some(first)) = (expected, segment.first_seqno())
                && first != due
            {
                let is_left_out = |batch: &mut Unfinished| batch.first_seqno == first;
                if let Some(batch) = unfinished.take_if(is_left_out) {
                    // A recovery gave its seqnos out again.
                    self.torn.push(batch.what);
                } else {
                    let what = format!("it starts at seqno {first}, and {due} is due");
                    let what = place(SEGMENT_HEADER_BYTES as u64, &what);
                    if is_given_again(due, &unfinished) {
                        // All of it was left out.
                        self.torn.push(what);
                        continue;
                    }
                    self.sort(known.max(segment.durable_through(0)) >= due, what);
                    unfinished = None;
                }
            }
            unfinished = segment.unfinished(unfinished, name);
            expected = segment.next_seqno().or(expected);
            if let ScanEnd::Bad { offset, what } = &segment.scan.stop {
                let known = known.max(segment.durable_through(usize::MAX));
                let is_damage = match (expected, segment.scan.later) {
                    (Some(due), _) => known >= due && !is_given_again(due, &unfinished),
                    // Which seqno is due is unknown, but not that of the write before these frames.
                    (None, Some(later)) => later.durable_through + 1 >= later.first_seqno,
                    (None, None) => false,
                };
                self.sort(is_damage, place(*offset, what));
            }
        }
        self.torn.extend(unfinished.map(|batch| batch.what));
    }

    fn count(&mut self, scan: &ScanResult) {
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
        if self.problems.is_empty() && self.torn.is_empty() {
            out.push_str("no problems found\n");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_memtable::FrameInfo;

    /// A segment of frames with these first seqnos, each of ten writes. The writer of each knew those through
    /// `durable` durable.
    fn segment(epoch: u32, first_seqnos: &[u64], durable: Seqno, continues: bool) -> Segment {
        let frame = |(at, &first_seqno): (usize, &u64)| {
            let mut frame = FrameInfo::default();
            (frame.offset, frame.bytes) = (64 + 640 * at as u64, 640);
            (frame.first_seqno, frame.count) = (first_seqno, 10);
            (frame.durable_through, frame.continues) = (durable, continues);
            frame
        };
        let frames: Vec<_> = first_seqnos.iter().enumerate().map(frame).collect();
        let end = 64 + 640 * frames.len() as u64;
        let mut scan = ScanResult::default();
        (scan.frames, scan.end) = (frames, end);
        Segment { epoch, offset: 0, scan }
    }

    fn judge(segments: &[Segment]) -> (usize, Vec<String>) {
        let mut report = Report::default();
        report.judge("pool", segments);
        (report.problems.len(), report.torn)
    }

    #[test]
    fn a_batch_that_a_recovery_left_out_is_no_damage() {
        let whole = || segment(1, &[1, 11], 0, false);
        let (problems, torn) = judge(&[whole(), segment(2, &[21, 31], 20, true)]);
        assert!(problems == 0 && torn.len() == 1, "nothing follows: {torn:?}");
        assert!(torn[0].contains("starts at seqno 21 is missing"), "{torn:?}");
        let again = segment(4, &[21, 31, 41], 50, false);
        let parts = [whole(), segment(2, &[21], 20, true), segment(3, &[31], 20, true), again];
        let (problems, torn) = judge(&parts);
        assert!(problems == 0 && torn.len() == 1, "its seqnos were given out again: {torn:?}");
        let ended = [whole(), segment(2, &[21, 31], 20, true), segment(3, &[41], 40, false)];
        assert_eq!(judge(&ended), (0, Vec::new()), "its last frame is there");
    }

    #[test]
    fn a_batch_whose_last_frames_were_durable_is_damage() {
        let parts = [segment(1, &[1, 11], 0, true), segment(2, &[41], 40, false)];
        assert_eq!(judge(&parts).0, 1);
        let mut torn = segment(1, &[1, 11], 0, true);
        torn.scan.stop = ScanEnd::Bad { offset: 1344, what: "damaged".into() };
        assert_eq!(judge(&[torn, segment(2, &[41], 40, false)]).0, 2);
    }
}
