//! The bytes of one file: as the system shows them, and what the device holds for sure.
//!
//! Appended bytes are beyond `durable_bytes` until a sync covers them. Bytes overwritten in place,
//! as logs do, are below it; for each such sector the device's version is kept aside until a sync.
//! A failed sync puts what it covered in doubt: the system takes it for written, so no later sync
//! writes it again, and the device may or may not hold it.

use esker_base::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What a device writes in one piece, if it does.
pub(super) const SECTOR_BYTES: u64 = 512;

/// What a writer may gather before the system gets to see it.
const GATHERED_BYTES_MAX: u64 = 256 << 10;

/// A sector that was overwritten since the last sync.
#[derive(Clone, Debug)]
struct Overwritten {
    /// What the device held before.
    device: Box<[u8]>,
    /// Whether a sync of it failed, after which only another write retries it.
    in_doubt: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FaultFile {
    /// As the system shows it.
    bytes: Vec<u8>,
    /// The length that the device knows. Below it, only `overwritten` and `in_doubt` may be lost.
    durable_bytes: u64,
    /// Appended ranges whose sync failed.
    in_doubt: Vec<Range<u64>>,
    /// Of a log that is allocated in steps: what the file takes on the device. Only that is written to.
    prepared: Option<u64>,
    /// The sectors that were freed, by number. They read as zeros.
    freed: BTreeSet<u64>,
    /// By sector number.
    overwritten: BTreeMap<u64, Overwritten>,
    /// How many handles keep the file although it may have no name.
    handles: u32,
    /// How many calls there had been when bytes were appended last.
    written_by: u64,
}

impl FaultFile {
    /// A file of which the device has all.
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        FaultFile { durable_bytes: bytes.len() as u64, bytes, ..Self::default() }
    }

    /// A log of `bytes` zeros, of which the device has allocated some.
    pub(super) fn in_steps(bytes: usize, prepared: u64) -> Self {
        FaultFile { prepared: Some(prepared), ..Self::durable(vec![0; bytes]) }
    }

    /// Up to where the file may be written in place.
    pub(super) fn prepared(&self) -> u64 {
        self.prepared.map_or(self.len(), |prepared| prepared.min(self.len()))
    }

    pub(super) fn prepare(&mut self, through: u64) {
        self.prepared = self.prepared.map(|prepared| prepared.max(through));
    }

    /// Frees what is allocated from `from` on. Until the next sync, the device may have what was there.
    pub(super) fn give_back(&mut self, from: u64) {
        let zeros = vec![0; (self.prepared() - from) as usize];
        self.overwrite(from, &zeros);
        self.prepared = Some(from);
    }

    /// Frees the sectors that are wholly in `part`. Until the next sync, the device may have what was there. Returns their
    /// bytes.
    pub(super) fn free_part(&mut self, part: Range<u64>) -> u64 {
        let part = part.start.div_ceil(SECTOR_BYTES)..part.end.min(self.len()) / SECTOR_BYTES;
        for sector in part.clone() {
            self.overwrite(sector * SECTOR_BYTES, &[0; SECTOR_BYTES as usize]);
        }
        self.freed.extend(part.clone());
        part.count() as u64 * SECTOR_BYTES
    }

    /// What the file takes on the device.
    pub(super) fn space(&self) -> u64 {
        self.prepared() - self.freed.len() as u64 * SECTOR_BYTES
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn written_by(&self) -> u64 {
        self.written_by
    }

    pub(super) fn hold(&mut self) {
        self.handles += 1;
    }

    pub(super) fn release(&mut self) {
        self.handles = self.handles.saturating_sub(1);
    }

    pub(super) fn is_held(&self) -> bool {
        self.handles > 0
    }

    /// Appends as call number `call`.
    pub(super) fn append(&mut self, bytes: &[u8], call: u64) {
        self.bytes.extend_from_slice(bytes);
        self.written_by = call;
    }

    /// Writes inside the file's length, which the caller has checked.
    pub(super) fn overwrite(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len() as u64;
        for sector in offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            let device = &self.bytes[range_of(sector, self.bytes.len())];
            self.overwritten
                .entry(sector)
                .or_insert_with(|| Overwritten { device: device.into(), in_doubt: false })
                .in_doubt = false;
        }
        self.bytes[offset as usize..end as usize].copy_from_slice(bytes);
    }

    /// A sync that succeeded: the device has all that is not in doubt.
    pub(super) fn sync(&mut self) {
        self.durable_bytes = self.len();
        self.overwritten.retain(|_, sector| sector.in_doubt);
    }

    /// A sync that failed: what it covered is in doubt from now on.
    pub(super) fn fail_sync(&mut self) {
        let judged = self.in_doubt.last().map_or(0, |range| range.end);
        let appended = self.durable_bytes.max(judged)..self.len();
        if !appended.is_empty() {
            self.in_doubt.push(appended);
        }
        for sector in self.overwritten.values_mut() {
            sector.in_doubt = true;
        }
    }

    /// Flips a bit of the device's and the system's bytes alike.
    pub(super) fn flip(&mut self, offset: u64, bit: u8) {
        self.bytes[offset as usize] ^= 1 << bit;
        if let Some(sector) = self.overwritten.get_mut(&(offset / SECTOR_BYTES)) {
            sector.device[(offset % SECTOR_BYTES) as usize] ^= 1 << bit;
        }
    }

    /// The process died: bytes that its writer may still have gathered can be missing.
    pub(super) fn drop_buffered(&mut self, rng: &mut Rng) {
        self.handles = 0;
        let len = self.len();
        let seen = self.durable_bytes.max(len.saturating_sub(GATHERED_BYTES_MAX));
        if seen < len && rng.one_in(2) {
            self.truncate(seen + rng.below(len - seen + 1));
        }
    }

    /// The power failed: keeps what a device may be found with.
    pub(super) fn survive(&mut self, rng: &mut Rng) {
        self.handles = 0;
        self.survive_appended(rng);
        self.crash_uncertain(rng);
        self.survive_overwritten(rng);
        self.durable_bytes = self.len();
    }

    fn survive_appended(&mut self, rng: &mut Rng) {
        let (durable, len) = (self.durable_bytes, self.len());
        if durable == len {
            return;
        }
        // The ends of the scale are where mistakes show, so they are as likely as all between.
        let (kept, damaged) = match rng.below(4) {
            0 => (durable, false),
            1 => (len, false),
            2 => (durable + rng.below(len - durable + 1), false),
            _ => (durable + rng.below(len - durable + 1), true),
        };
        self.truncate(kept);
        if damaged {
            self.damage(durable..kept, rng);
        }
    }

    fn crash_uncertain(&mut self, rng: &mut Rng) {
        for range in std::mem::take(&mut self.in_doubt) {
            match rng.below(3) {
                0 => {}
                1 => self.bytes[range.start as usize..range.end as usize].fill(0),
                _ => self.damage(range, rng),
            }
        }
    }

    fn survive_overwritten(&mut self, rng: &mut Rng) {
        let mode = rng.below(4);
        for (sector, Overwritten { device, .. }) in std::mem::take(&mut self.overwritten) {
            let range = range_of(sector, self.bytes.len());
            let new = match mode {
                0 => 0,
                1 => range.len(),
                _ => match rng.below(3) {
                    0 => 0,
                    1 => range.len(),
                    _ => rng.below(range.len() as u64 + 1) as usize,
                },
            };
            self.bytes[range][new..].copy_from_slice(&device[new..]);
        }
    }

    /// Spoils about a third of the sectors of `range`, from some byte on, with zeros or obsolete data.
    fn damage(&mut self, range: Range<u64>, rng: &mut Rng) {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min((start / SECTOR_BYTES + 1) * SECTOR_BYTES);
            if rng.one_in(3) {
                let from = if rng.one_in(2) { start } else { start + rng.below(end - start) };
                let spoiled = &mut self.bytes[from as usize..end as usize];
                if rng.one_in(2) { spoiled.fill(0) } else { rng.fill(spoiled) }
            }
            start = end;
        }
    }

    fn truncate(&mut self, len: u64) {
        self.bytes.truncate(len as usize);
        self.in_doubt.retain_mut(|range| {
            range.end = range.end.min(len);
            !range.is_empty()
        });
    }
}

/// Where a sector is in a file of `len` bytes; the last may be short.
fn range_of(sector: u64, len: usize) -> Range<usize> {
    let start = (sector * SECTOR_BYTES) as usize;
    start..len.min(start + SECTOR_BYTES as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_is_old_up_to_its_end_or_new_up_to_some_byte() {
        let mut torn = false;
        for seed in 0..200 {
            let mut file = FaultFile::durable(vec![1; 2000]);
            file.overwrite(100, &[2; 1800]);
            file.survive(&mut Rng::new(seed));
            assert!(file.bytes[..100].iter().chain(&file.bytes[1900..]).all(|&byte| byte == 1));
            for sector in file.bytes[..1900].chunks(512) {
                let written =
                    if sector.as_ptr() == file.bytes.as_ptr() { &sector[100..] } else { sector };
                assert!(
                    written.is_sorted_by(|a, b| a >= b),
                    "seed {seed}: new bytes, then old ones"
                );
                torn |= written.first() != written.last();
            }
        }
        assert!(torn, "some sector was torn");
    }

    #[test]
    fn a_failed_sync_of_a_log_is_not_made_good_by_the_next_one() {
        let lost = (0..100).any(|seed| {
            let mut file = FaultFile::durable(vec![1; 1024]);
            file.overwrite(0, &[2; 600]);
            file.fail_sync();
            file.sync();
            file.survive(&mut Rng::new(seed));
            file.bytes[..600] != [2; 600]
        });
        assert!(lost);
    }

    #[test]
    fn a_write_after_a_failed_sync_is_synced_by_the_next_one() {
        for seed in 0..100 {
            let mut file = FaultFile::durable(vec![1; 1024]);
            file.overwrite(0, &[2; 512]);
            file.fail_sync();
            file.overwrite(0, &[3; 512]);
            file.sync();
            file.survive(&mut Rng::new(seed));
            assert_eq!(file.bytes[..512], [3; 512]);
        }
    }
}
