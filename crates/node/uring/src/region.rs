//! Memory that is contiguous for devices, too: huge pages, given out in runs of pages.
//!
//! A device is given where a buffer's pages are in the machine. Two that are anywhere are two entries of a request's list, and there are devices that
//! do a sixth fewer of such requests a second than of those with one: virtual disks, say. Inside a huge page neighbours are neighbours in fact.
//!
//! The thread that owns a region takes runs; the owner of a run gives it back, on any thread. A bit a page says whether it is taken. Only
//! the owner sets bits, so what it has seen free stays so.

#![expect(unsafe_code, reason = "the memory is mapped by hand")]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// The unit in which a region is given out.
const PAGE_BYTES: usize = 4096;

/// What the system has in one piece.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Enough for a hundred reads of 32 KiB and what goes with them.
const REGION_BYTES: usize = 2 * HUGE_PAGE_BYTES;

const WORD_PAGES: usize = 64;
const WORDS: usize = REGION_BYTES / PAGE_BYTES / WORD_PAGES;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Region {
    /// What was mapped, a huge page more than a region.
    mapped: NonNull<u8>,
    start: NonNull<u8>,
    taken: [AtomicU64; WORDS],
}

// SAFETY: the region's memory is reached through the runs alone, each of which has one owner; the bits are atomic.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// The most pages of a run.
    pub(crate) const RUN_PAGES_MAX: usize = 16;

    /// A region of zeros. Where the system has no huge pages, of small ones.
    pub(crate) fn new() -> io::Result<Self> {
        let bytes = REGION_BYTES + HUGE_PAGE_BYTES;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at a place that the system chooses.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags)? };
        let skipped = mapped.cast::<u8>().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: it is less than a huge page, and so many bytes more were mapped.
        let start = unsafe { mapped.cast::<u8>().add(skipped) };
        // SAFETY: of our own mapping, and it changes nothing of what the memory holds. It is a wish.
        let _ = unsafe { madvise(start.cast(), REGION_BYTES, Advice::LinuxHugepage) };
        let [mapped, start] = [mapped.cast::<u8>(), start].map(NonNull::new);
        match (mapped, start) {
            (Some(mapped), Some(start)) => Ok(Region { mapped, start, taken: Default::default() }),
            _ => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }

    /// Takes a run of so many pages, if there is one. For the region's owner alone.
    pub(crate) fn take(&self, pages: usize) -> Option<NonNull<u8>> {
        let run = (1u64 << pages) - 1;
        for (word, taken) in self.taken.iter().enumerate() {
            let is_taken = taken.load(Ordering::Acquire);
            let places = 0..=WORD_PAGES - pages;
            if let Some(place) = { places }.find(|&place| is_taken & run << place == 0) {
                taken.fetch_or(run << place, Ordering::Relaxed);
                let bytes = (word * WORD_PAGES + place) * PAGE_BYTES;
                // SAFETY: the run lies inside the region.
                return Some(unsafe { self.start.add(bytes) });
            }
        }
        None
    }

    /// Gives a run back that was taken of this region.
    pub(crate) fn give_back(&self, start: NonNull<u8>, pages: usize) {
        let page = (start.as_ptr() as usize - self.start.as_ptr() as usize) / PAGE_BYTES;
        let run = ((1u64 << pages) - 1) << (page % WORD_PAGES);
        // Release: what was done to the run was done before others have it.
        self.taken[page / WORD_PAGES].fetch_and(!run, Ordering::Release);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let bytes = REGION_BYTES + HUGE_PAGE_BYTES;
        // SAFETY: all runs refer to the region, so none is left.
        let _ = unsafe { munmap(self.mapped.as_ptr().cast(), bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flags that the system has of the mapping around `address`.
    fn flags_at(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let is_around = |line: &str| {
            let (start, rest) = line.split_once('-')?;
            let range = [start, rest.split_once(' ')?.0];
            let [start, end] = range.map(|number| usize::from_str_radix(number, 16).ok());
            Some((start?..end?).contains(&address))
        };
        let lines = maps.lines().skip_while(|line| is_around(line) != Some(true));
        lines.skip_while(|line| !line.starts_with("VmFlags")).take(1).collect()
    }

    #[test]
    fn the_system_is_asked_for_huge_pages() {
        let region = Region::new().unwrap();
        let flags = flags_at(region.start.as_ptr() as usize);
        let has_huge_pages = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
        assert_eq!(flags.contains(" hg"), has_huge_pages, "{flags}");
        assert_eq!(region.start.as_ptr() as usize % HUGE_PAGE_BYTES, 0);
    }

    #[test]
    fn runs_do_not_overlap_and_come_again_when_given_back() {
        let region = Region::new().unwrap();
        let runs: Vec<_> = std::iter::from_fn(|| region.take(3)).collect();
        let mut places: Vec<_> = runs.iter().map(|run| run.as_ptr() as usize).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|two| two[0] + 3 * PAGE_BYTES <= two[1]));
        assert_eq!(runs.len(), WORDS * (WORD_PAGES / 3));
        assert_eq!(region.take(3), None);
        region.give_back(runs[10], 3);
        assert_eq!((region.take(4), region.take(3)), (None, Some(runs[10])));
    }
}
