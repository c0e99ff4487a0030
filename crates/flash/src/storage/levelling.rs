//! How chunks with what lives long come to wear as others do: what is in them is moved, seldom.
//!
//! A chunk is taken for new data because it is worn least, but only if it is free. One that is never free keeps its few
//! erases, and the others wear by as much faster. So when the most worn free chunk was erased much more often than the
//! least worn one with data in it, these data are moved there: what has lived long may live on, so that the worn chunk
//! rests, and the other is erased until it is as worn. That costs one write of a chunk in as many erases as the two may
//! differ by, about; and never more than one in [`RESETS_BETWEEN`].

use super::core::{Core, State};
use super::slots::Need;
use super::stay::Stay;
use esker_base::Result;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// How much more often than another with data in it a chunk may be erased: 2% of what MLC flash stands.
pub(super) const SPREAD_MAX: u32 = 64;

/// Chunks that are erased from one move to the next at the least: where the spread is wide already, it narrows slowly.
const RESETS_BETWEEN: u64 = 16;

/// When the next move may be.
#[derive(Default)]
pub(super) struct Levelling {
    resets: u64,
}

impl State {
    /// Moves what is in the least worn chunk into the most worn one that is free, if it is time for that.
    pub(super) fn level_wear(&mut self, core: &Core) -> Result<()> {
        let resets = self.space.wear.resets();
        if resets < self.levelling.resets + RESETS_BETWEEN {
            return Ok(());
        }
        let Some(least) = self.space.least_worn(&self.unmoved()) else { return Ok(()) };
        let most = self.space.most_worn_free();
        let is_wide =
            |most: u32| self.space.wear.spread(most as usize, least as usize) > SPREAD_MAX;
        let Some(most) = most.filter(|most| is_wide(*most)) else { return Ok(()) };
        if !self.make_place(&*core.zones, Need::Must)? {
            return Ok(());
        }
        self.levelling.resets = resets;
        let (chunk, free_after) = self.space.lease_free(most);
        let Some(lease) = self.make_ready(&*core.zones, Stay::SHORTEST, chunk, free_after)? else {
            return Ok(());
        };
        let before = core.moved_bytes.load(Ordering::Relaxed);
        self.move_out(core, least, Some(lease))?;
        let moved = core.moved_bytes.load(Ordering::Relaxed) - before;
        core.levelled_bytes.fetch_add(moved, Ordering::Relaxed);
        Ok(())
    }

    /// Chunks whose data stay where they are: those of logs, and what `unmovable_now` says.
    fn unmoved(&self) -> BTreeSet<u32> {
        let logs = self.bodies().filter(|body| body.log_bytes.is_some());
        let chunks = logs.flat_map(|body| body.pieces.read().extents.clone());
        let mut all = self.unmovable_now();
        all.extend(chunks.map(|extent| extent.chunk));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zones::MemoryZones;
    use crate::{FlashStorage, Geometry};
    use esker_base::Hint;
    use esker_storage::Storage;
    use std::sync::Arc;

    const CHUNK: usize = 32 << 10;
    const COLD: u8 = 24;

    /// A device of 4 units of 12 chunks, half of them with files that stay.
    fn half_cold() -> (MemoryZones, FlashStorage) {
        let device = MemoryZones::new(Geometry::of_blocks(2, 2, 12, CHUNK as u32));
        let storage = FlashStorage::open(Arc::new(device.clone())).unwrap();
        (0..COLD).for_each(|number| write(&storage, &format!("cold-{number}"), 6, number));
        (device, storage)
    }

    fn write(storage: &FlashStorage, name: &str, level: u8, byte: u8) {
        let mut file = storage.create(name, Hint::table(level)).unwrap();
        file.append(&[byte; CHUNK]).and_then(|()| file.sync()).unwrap();
    }

    /// Files that are each removed when eight others were written.
    fn overwrite(storage: &FlashStorage, times: std::ops::Range<u64>) {
        for time in times {
            write(storage, &format!("hot-{time}"), 3, time as u8);
            if let Some(old) = time.checked_sub(8) {
                storage.remove(&format!("hot-{old}")).unwrap();
            }
        }
    }

    #[test]
    fn chunks_with_what_is_never_overwritten_wear_as_others_do() {
        let (device, storage) = half_cold();
        overwrite(&storage, 0..12_000);
        let usage = storage.usage();
        let spread = usage.erases.most - usage.erases.least;
        assert!(usage.erases.mean > 3.0 * f64::from(SPREAD_MAX), "{usage:?}");
        assert!(spread <= SPREAD_MAX + SPREAD_MAX / 4, "{usage:?}");
        // Nothing else has to be moved.
        assert_eq!(usage.moved_bytes, usage.levelled_bytes);
        assert!(usage.levelled_bytes > 0);
        assert!(usage.levelled_bytes < usage.host_bytes / 50, "{usage:?}");
        drop(storage);
        let storage = FlashStorage::open(Arc::new(device)).unwrap();
        for number in 0..COLD {
            let mut found = [0; CHUNK];
            let file = storage.open(&format!("cold-{number}")).unwrap();
            file.read_exact_at(0, &mut found).unwrap();
            assert!(found == [number; CHUNK], "{number}");
        }
    }

    #[test]
    fn nothing_is_moved_while_chunks_wear_about_alike() {
        let (_, storage) = half_cold();
        overwrite(&storage, 0..1_000);
        let usage = storage.usage();
        assert!((40..=SPREAD_MAX).contains(&usage.erases.most), "{usage:?}");
        assert_eq!(usage.levelled_bytes, 0);
    }

    #[test]
    fn moves_are_few_however_wide_the_spread_is() {
        let (_, storage) = half_cold();
        {
            let mut state = storage.core.state.lock();
            let worn = (24..48).filter(|index| state.space.live(*index) == 0).collect::<Vec<_>>();
            worn.iter()
                .for_each(|index| (0..1_000).for_each(|_| state.space.wear.count(*index as usize)));
        }
        let before = storage.usage().host_bytes;
        overwrite(&storage, 0..160);
        let usage = storage.usage();
        let most = (usage.host_bytes - before) / 16 + CHUNK as u64;
        assert!((1..=most).contains(&usage.levelled_bytes), "{usage:?}");
    }

    #[test]
    fn logs_stay_where_they_are() {
        let device = MemoryZones::new(Geometry::of_blocks(1, 1, 24, CHUNK as u32));
        let storage = FlashStorage::open(Arc::new(device)).unwrap();
        let log = storage.create_log("log", CHUNK as u64).unwrap();
        // Its record fills the chunk.
        log.write_at(0, &[5; CHUNK - 32]).unwrap();
        overwrite(&storage, 0..3_000);
        log.write_at(CHUNK as u64 - 32, &[5; 32]).unwrap();
        drop(log);
        let mut found = [0; CHUNK];
        storage.open("log").unwrap().read_exact_at(0, &mut found).unwrap();
        assert!(found == [5; CHUNK]);
        assert!(storage.usage().erases.most > 2 * SPREAD_MAX);
    }
}
