//! The zones of a zoned disk, as chunks.
//!
//! All zones with a write pointer are used, in order. The chunk size is the smallest capacity of
//! these zones. Conventional zones are not used, nor is a shorter last zone. The disk does not
//! report how zones map to dies, so it is one unit.
//!
//! Write pointers are read when the disk is opened and tracked from then on, as the disk is locked.
//! A foreign write is detected in two ways: an append returns an unexpected address, or the write
//! pointer read before a reset differs. That zone is then bad: it is neither written nor reset
//! until the disk is locked anew, so the foreign data is preserved.
//!
//! An offline zone is bad. A read-only zone is kept, and becomes bad when it should be reset.

use super::{BLOCK_BYTES, ChunkDevice, check};
use crate::device::zoned::{Condition, Disk, KernelDisk, Zone, zones_of};
use crate::storage::from_the_oldest;
use crate::{Chunk, Geometry};
use esker_base::{Error, Result};
use esker_uring::Buffer;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::Path;

/// Zones that have to be active at a time: of the journal, two logs, and of data while another two are kept for more logs.
const ACTIVE_MIN: usize = 8;

/// Why a zone was not written.
enum Failure {
    Failed(io::Error),
    /// What was written is elsewhere: where in the zone, and where it should be.
    Elsewhere(i128, u64),
}

/// A zoned disk.
pub struct ZnsDevice {
    // Constant after construction.
    disk: Box<dyn Disk>,
    geometry: Geometry,
    /// How many chunks may be active at a time, and zones that are and are no chunks.
    active_max: Option<usize>,
    active_beside: usize,
    // What changes: the zones by the place of their chunk, as the disk has them.
    zones: Mutex<Vec<Zone>>,
    /// Zones that another program writes, by chunk index.
    foreign: Mutex<BTreeSet<usize>>,
    /// Held for the whole of a flush: the first failure. What was lost then no later flush brings back.
    flushing: Mutex<Option<Error>>,
}

impl ZnsDevice {
    /// Opens a zoned block device to use it. Anything else is refused.
    pub fn open(path: &Path) -> Result<Self> {
        Self::of_kernel(path, true)
    }

    /// Opens a zoned block device to inspect it, also while a process uses it.
    pub fn open_to_look(path: &Path) -> Result<Self> {
        Self::of_kernel(path, false)
    }

    fn of_kernel(path: &Path, writable: bool) -> Result<Self> {
        let opened = KernelDisk::open(path, writable);
        let name = path.display().to_string();
        Self::of(opened.map_err(|source| Error::io("open as a zoned device", name, source))?)
    }

    /// The zones of a disk.
    pub fn of(disk: impl Disk) -> Result<Self> {
        let failure = |source| Error::io("use as a zoned device", disk.name(), source);
        let (zones, geometry, active_beside) = chunks_of(&disk).map_err(failure)?;
        if zones.is_empty() {
            let what = "it has no zones that are written in sequence";
            return Err(failure(io::Error::new(ErrorKind::Unsupported, what)));
        }
        check(&geometry)?;
        let active_max = disk.active_max().map(|most| most.saturating_sub(active_beside));
        if let Some(most) = active_max.filter(|most| *most < ACTIVE_MIN) {
            let what = format!(
                "{most} zones may be written at a time in addition to {active_beside} that are not used and written in part; \
                 {ACTIVE_MIN} are needed"
            );
            return Err(failure(io::Error::new(ErrorKind::Unsupported, what)));
        }
        let (zones, foreign, flushing) = (Mutex::new(zones), Mutex::default(), Mutex::default());
        let disk = Box::new(disk);
        Ok(ZnsDevice { disk, geometry, active_max, active_beside, zones, foreign, flushing })
    }

    /// Resets all zones that hold something, whichever program wrote it. One that turns out bad then is left. A disk on which this
    /// was interrupted has the files that it had, or is refused until it is erased.
    pub fn erase(&self) -> Result<()> {
        let _lock = self.lock()?;
        let mut chunks = from_the_oldest(self);
        let journal = chunks.len();
        chunks.extend((journal..self.geometry.chunks()).map(|index| self.geometry.chunk(index)));
        for (place, chunk) in chunks.into_iter().enumerate() {
            if self.written(chunk)? > 0
                && let Err(error) = self.reset(chunk)
                && !self.is_bad(chunk)
            {
                return Err(error);
            }
            if place < journal {
                // Power loss may undo any reset that is not flushed, of an older journal and not of a newer one.
                self.flush()?;
            }
        }
        self.flush()
    }

    fn zone(&self, chunk: Chunk) -> Zone {
        self.zones.lock()[self.geometry.index(chunk)]
    }

    fn set(&self, chunk: Chunk, zone: Zone) {
        self.zones.lock()[self.geometry.index(chunk)] = zone;
    }

    /// What the disk says of a zone now.
    fn ask(&self, zone: &Zone) -> io::Result<Zone> {
        let found = self.disk.report(zone.start)?.into_iter().find(|new| new.start == zone.start);
        found.ok_or_else(|| io::Error::other("the disk says nothing of it"))
    }

    /// Asks the disk what a failure left. What it does not say stays as it was thought to be.
    fn ask_again(&self, chunk: Chunk) -> Condition {
        let zone = self.zone(chunk);
        let zone = self.ask(&zone).unwrap_or(zone);
        self.set(chunk, zone);
        zone.condition
    }

    fn chunk_bytes(&self) -> u64 {
        self.geometry.chunk_bytes.into()
    }

    fn failure(&self, action: &'static str, zone: &Zone, source: io::Error) -> Error {
        let number = zone.start / zone.bytes;
        Error::io(action, format!("zone {number} of {}", self.disk.name()), source)
    }

    fn is_foreign(&self, chunk: Chunk) -> bool {
        self.foreign.lock().contains(&self.geometry.index(chunk))
    }

    /// Writes behind what is written. The zone is then as far as that came, after a failure, too.
    fn write_zone(&self, zone: &mut Zone, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        if zone.written.next_multiple_of(BLOCK_BYTES) != at {
            let found = zone.written;
            let what = format!(
                "its write pointer is at {found} and not at {at}: another program writes it"
            );
            return Err(Failure::Failed(io::Error::new(ErrorKind::InvalidInput, what)));
        }
        // A disk of smaller blocks may have stopped inside of one of ours.
        let gap = (at - zone.written) as usize;
        let (mut done, end) = (0, gap + bytes.len());
        while done < end {
            let len = self.disk.write_bytes_max().min(end - done);
            let found = self.disk.write(zone, part(gap, bytes, done..done + len))?;
            if found != zone.start + zone.written {
                let place = i128::from(found) - i128::from(zone.start);
                return Err(Failure::Elsewhere(place, zone.written));
            }
            zone.written += len as u64;
            done += len;
        }
        zone.condition = Condition::Active;
        if zone.written >= self.chunk_bytes() {
            // The rest of a zone that takes more than others is not used.
            if zone.written < zone.capacity {
                self.disk.finish(zone)?;
            }
            zone.condition = Condition::Full;
        }
        Ok(())
    }

    /// Checks whether a zone is as this process left it. If not, it is treated as foreign from now
    /// on.
    fn look(&self, chunk: Chunk) -> io::Result<()> {
        let left = self.zone(chunk);
        let found = self.ask(&left)?;
        if is_as_left(&left, &found) {
            return Ok(());
        }
        self.foreign.lock().insert(self.geometry.index(chunk));
        Err(io::Error::other(format!(
            "it is {} and was left {}: another program writes it. It is left as it is; end the other writer, and open this \
             again",
            extent(&found),
            extent(&left)
        )))
    }

    fn unless_foreign(&self, chunk: Chunk) -> io::Result<()> {
        match self.is_foreign(chunk) {
            true => Err(io::Error::other("another program writes it, so it is left alone")),
            false => Ok(()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Failed(error)
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Failed(error) => error,
            Failure::Elsewhere(found, expected) => io::Error::other(format!(
                "what was written came to byte {found} of it and not to {expected}: another program writes it. It is left \
                 as it is; end the other writer, and open this again"
            )),
        }
    }
}

/// Whether a zone that was left so is so still, as far as the disk reports: a full one was perhaps emptied and filled again. The
/// disk itself refuses to reset one that failed.
fn is_as_left(left: &Zone, found: &Zone) -> bool {
    match (left.condition, found.condition) {
        (_, Condition::ReadOnly | Condition::Offline) | (Condition::Full, Condition::Full) => true,
        (_, Condition::Full) => false,
        _ => found.written == left.written,
    }
}

/// How far a zone is written, for people.
fn extent(zone: &Zone) -> String {
    match zone.condition {
        Condition::Full => "full".to_owned(),
        _ => format!("written up to byte {}", zone.written),
    }
}

/// A part of so many zeros with `bytes` behind them.
fn part(gap: usize, bytes: &[u8], range: Range<usize>) -> Buffer {
    let mut buffer = Buffer::stale(range.len());
    let zeros = gap.saturating_sub(range.start).min(range.len());
    buffer[..zeros].fill(0);
    let behind = |at: usize| at.saturating_sub(gap);
    buffer[zeros..].copy_from_slice(&bytes[behind(range.start + zeros)..behind(range.end)]);
    buffer
}

/// The zones of a disk that are chunks, what they make, and how many others are active: these take places all the same.
fn chunks_of(disk: &dyn Disk) -> io::Result<(Vec<Zone>, Geometry, usize)> {
    let all = zones_of(disk)?;
    let active =
        |zones: &[Zone]| zones.iter().filter(|zone| zone.condition == Condition::Active).count();
    let active_in_all = active(&all);
    let mut zones = usable(all);
    let geometry = geometry_of(&zones);
    zones.truncate(geometry.chunks());
    let active_beside = active_in_all - active(&zones);
    Ok((zones, geometry, active_beside))
}

/// Zones that are written in sequence, and as long as the first of them.
fn usable(mut zones: Vec<Zone>) -> Vec<Zone> {
    zones.retain(|zone| zone.condition != Condition::Conventional);
    let bytes = zones.first().map_or(0, |zone| zone.bytes);
    zones.retain(|zone| zone.bytes == bytes);
    zones
}

/// One unit, or as few as there have to be for so many chunks.
fn geometry_of(zones: &[Zone]) -> Geometry {
    let units = zones.len().div_ceil(u16::MAX.into());
    let chunks = zones.len().checked_div(units).unwrap_or(0);
    let capacity = zones.iter().map(|zone| zone.capacity).min().unwrap_or(0);
    let chunk_bytes = capacity.min(u32::MAX.into()) / BLOCK_BYTES * BLOCK_BYTES;
    Geometry::of_blocks(1, units as u16, chunks as u16, chunk_bytes as u32)
}

impl ChunkDevice for ZnsDevice {
    fn describe(&self) -> String {
        self.disk.name()
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn is_bad(&self, chunk: Chunk) -> bool {
        self.zone(chunk).condition == Condition::Offline || self.is_foreign(chunk)
    }

    fn is_read_only(&self, chunk: Chunk) -> bool {
        self.zone(chunk).condition == Condition::ReadOnly
    }

    fn written(&self, chunk: Chunk) -> Result<u64> {
        let written = self.zone(chunk).written.next_multiple_of(BLOCK_BYTES);
        Ok(written.min(self.chunk_bytes()))
    }

    fn write(&self, chunk: Chunk, at: u64, bytes: &[u8]) -> Result<()> {
        let (before, mut zone) = (self.zone(chunk), self.zone(chunk));
        let written = self.unless_foreign(chunk).map_err(Failure::Failed);
        match written.and_then(|()| self.write_zone(&mut zone, at, bytes)) {
            Ok(()) => {
                self.set(chunk, zone);
                Ok(())
            }
            Err(failure) => {
                self.ask_again(chunk);
                // Behind what came to its place there may be a part of the next request, and no more is ours.
                let asked = (at + bytes.len() as u64).max(zone.written);
                let most = asked.min(zone.written + self.disk.write_bytes_max() as u64);
                let is_ours = (zone.written..=most).contains(&self.zone(chunk).written);
                if matches!(failure, Failure::Elsewhere(..)) || !is_ours {
                    self.foreign.lock().insert(self.geometry.index(chunk));
                }
                Err(self.failure("write to", &before, failure.into()))
            }
        }
    }

    fn read(&self, chunk: Chunk, at: u64, out: &mut [u8]) -> Result<()> {
        let zone = self.zone(chunk);
        if at + out.len() as u64 > zone.written.next_multiple_of(BLOCK_BYTES) {
            let what = format!("{} bytes are wanted, and the zone ends before", out.len());
            return Err(Error::corruption(self.disk.name(), zone.start + at, what));
        }
        // A disk of smaller blocks may have stopped inside of one of ours, and may refuse to read behind that.
        let there = zone.written.saturating_sub(at).min(out.len() as u64) as usize;
        let mut buffer = Buffer::zeroed(there);
        let read = self.disk.read_at(zone.start + at, &mut buffer);
        read.map_err(|source| self.failure("read", &zone, source))?;
        out[..there].copy_from_slice(&buffer);
        out[there..].fill(0);
        Ok(())
    }

    fn reset(&self, chunk: Chunk) -> Result<()> {
        let zone = self.zone(chunk);
        let is_ours = self.unless_foreign(chunk).and_then(|()| self.look(chunk));
        match is_ours.and_then(|()| self.disk.reset(&zone)) {
            Ok(()) => {
                self.set(chunk, Zone { written: 0, condition: Condition::Empty, ..zone });
                Ok(())
            }
            Err(source) => {
                if self.ask_again(chunk) == Condition::ReadOnly {
                    self.set(chunk, Zone { written: 0, condition: Condition::Offline, ..zone });
                }
                Err(self.failure("reset", &zone, source))
            }
        }
    }

    fn active_max(&self) -> Option<usize> {
        self.active_max
    }

    fn active(&self) -> Vec<Chunk> {
        if self.active_max.is_none() {
            return Vec::new();
        }
        let zones = self.zones.lock();
        let active =
            zones.iter().enumerate().filter(|(_, zone)| zone.condition == Condition::Active);
        active.map(|(index, _)| self.geometry.chunk(index)).collect()
    }

    fn finish(&self, chunk: Chunk) -> Result<()> {
        if self.is_foreign(chunk) {
            // Whoever writes it goes on, and it keeps its place among the active ones.
            return Ok(());
        }
        let zone = self.zone(chunk);
        match self.disk.finish(&zone) {
            Ok(()) => {
                let condition = Condition::Full;
                self.set(chunk, Zone { written: zone.capacity, condition, ..zone });
                Ok(())
            }
            Err(source) => {
                self.ask_again(chunk);
                Err(self.failure("finish", &zone, source))
            }
        }
    }

    fn written_by(&self) -> Option<String> {
        Some(self.disk.written_by())
    }

    fn flush(&self) -> Result<()> {
        let mut failed = self.flushing.lock();
        failed.clone().map_or(Ok(()), Err)?;
        let flushed = self.disk.flush();
        let flushed = flushed.map_err(|source| Error::io("flush", self.disk.name(), source));
        *failed = flushed.clone().err();
        flushed
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        let failure = |source| Error::io("lock", self.disk.name(), source);
        let claim = self.disk.claim().map_err(failure)?;
        // Another user may have been at work since this was opened.
        let (zones, geometry, active_beside) = chunks_of(&*self.disk).map_err(failure)?;
        if (geometry, active_beside) != (self.geometry, self.active_beside) {
            let what = "its zones are not what they were just before";
            return Err(failure(io::Error::other(what)));
        }
        *self.zones.lock() = zones;
        self.foreign.lock().clear();
        Ok(claim)
    }
}

#[cfg(test)]
mod tests;
