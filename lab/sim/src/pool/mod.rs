//! Crashes at every point in time of all that happens in a pool of persistent memory.
//!
//! [`frames`] is the write path's lower half alone: extents, segments, frames of one writer or of
//! several that overlap, a scan of what a crash leaves. It checks thousands of images a second.
//! [`whole`] is the engine with tables, manifest and recovery around it, and crashes of the recovery.
//! [`campaign`] goes through many histories of both.
//!
//! The states after each event are all there are, as each word that is not fenced goes its own way. What is
//! enumerated, image by image, are histories of up to six commits whose frames take one cache line each: by
//! one writer, which is up to 256 images for each state, and, for some seeds, by two that overlap, 65,536. Frames
//! of more lines, or of more writers at once, have more images than can be checked, and are sampled.

pub mod campaign;
pub mod frames;
pub mod whole;

use crate::content;
use crate::model::{Batch, Write};
use esker_api::{KeyRange, WriteBatch};
use esker_base::{KeyspaceId, Rng, stored_key};
use esker_pmem::sim::CrashState;
use std::fmt;

/// The extents of these pools are as small as they get.
const EXTENT_BYTES: usize = crate::machine::EXTENT_BYTES as usize;

/// What was checked.
#[derive(Clone, Copy, Default, Debug, serde::Serialize)]
pub struct Seen {
    /// Histories.
    pub histories: u64,
    /// Points in time in them.
    pub moments: u64,
    /// Of them, those of which all images were checked; of the others it was a sample.
    pub enumerated: u64,
    /// Images that a crash at one of those may leave.
    pub images: u64,
    /// Of them, those of points in time that have more than could be checked.
    pub sampled: u64,
    /// The most images that were checked of one point in time.
    pub images_most: u64,
    /// Of all images, those with something in them that had not been acknowledged.
    pub unacknowledged: u64,
    /// Of all images, those of crashes while an image of an earlier crash was recovered.
    pub recoveries: u64,
}

impl Seen {
    /// Counts a point in time, of whose images so many were checked.
    fn count_moment(&mut self, state: &CrashState, images: u64) {
        self.moments += 1;
        self.images += images;
        self.images_most = self.images_most.max(images);
        if state.count() == u128::from(images) {
            self.enumerated += 1;
        } else {
            self.sampled += images;
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { histories, moments, enumerated, images, sampled, .. } = self;
        let Seen { images_most, unacknowledged, recoveries, .. } = self;
        write!(f, "{images} images of {moments} moments in {histories} histories; all images of ")?;
        write!(f, "{enumerated} moments, {sampled} images of the others; up to {images_most} a ")?;
        write!(f, "moment; {unacknowledged} hold what was not acknowledged, {recoveries} are ")?;
        write!(f, "of crashes of a recovery")
    }
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, other: Seen) {
        self.histories += other.histories;
        self.moments += other.moments;
        self.enumerated += other.enumerated;
        self.images += other.images;
        self.sampled += other.sampled;
        self.images_most = self.images_most.max(other.images_most);
        self.unacknowledged += other.unacknowledged;
        self.recoveries += other.recoveries;
    }
}

/// A batch of up to four changes to a dozen keys. No byte of a value is zero, so that each line of a
/// frame differs from memory that was never written.
fn draw_batch(rng: &mut Rng) -> Batch {
    let most = [1, 1, 2, 4][rng.below(4) as usize];
    let bytes = [8, 24, 100, 400][rng.below(4) as usize];
    // As they are stored: some of these frames are read without the engine.
    let key = |rng: &mut Rng| stored_key(&content::key(rng.below(12) as u16)).into_owned();
    let mut write = || {
        let a = key(rng);
        match rng.below(10) {
            0 | 1 => Write::Delete(0, a),
            2 => {
                let b = stored_key(&content::key(100 + rng.below(12) as u16)).into_owned();
                if a < b { Write::DeleteRange(0, a, b) } else { Write::DeleteRange(0, b, a) }
            }
            _ => {
                let value: Vec<u8> =
                    (0..1 + rng.below(bytes)).map(|_| 1 + rng.below(255) as u8).collect();
                Write::Put(0, a, value.into())
            }
        }
    };
    let count = 1 + (most - 1) / 2;
    (0..count.max(most / 2)).map(|_| write()).filter(|write| !is_empty(write)).collect()
}

fn is_empty(write: &Write) -> bool {
    matches!(write, Write::DeleteRange(_, start, end) if start == end)
}

/// `batch` as the engine takes it.
fn encode(batch: &Batch) -> WriteBatch {
    let mut encoded = WriteBatch::new();
    for write in batch {
        match write {
            Write::Put(space, key, value) => encoded.put(KeyspaceId(*space), key, value),
            Write::PutUntil(..) | Write::Ingest(..) | Write::FailedIngest(..) => {
                unreachable!("nothing expires or is ingested here")
            }
            Write::Merge(space, key, operand) => encoded.merge(KeyspaceId(*space), key, operand),
            Write::Delete(space, key) => encoded.delete(KeyspaceId(*space), key),
            Write::DeleteRange(space, start, end) => {
                encoded.delete_range(KeyspaceId(*space), KeyRange::deleted(start, end));
            }
        }
    }
    encoded
}

/// A batch whose frame takes one cache line.
fn one_line_batch(rng: &mut Rng) -> Batch {
    // Two bytes each: with the frame's header and the entry's own bytes, 26 are left for a value.
    let key = |number: u64| content::key(5 * number as u16);
    let at = rng.below(3);
    let write = match rng.below(8) {
        0 => Write::Delete(0, key(at)),
        1 => Write::DeleteRange(0, key(at), key(at + 1)),
        _ => {
            let value: Vec<u8> = (0..=rng.below(26)).map(|_| 1 + rng.below(255) as u8).collect();
            Write::Put(0, key(at), value.into())
        }
    };
    vec![write]
}
