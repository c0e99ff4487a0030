//! A pool: a header, a word of state for each extent, and the extents.
//!
//! Every change commits by one aligned 8 byte word, which a crash leaves old or new:
//!
//! | change | stored, then fenced | then this word, then a fence |
//! |---|---|---|
//! | create | magic cleared; then state words, owner, the rest of the header | magic |
//! | claim | the owner's complement | owner |
//! | acquire | the segment's header, at the front of the extent | state: used, with the epoch |
//! | release | | state: free |
//!
//! Thread safety: all methods may be called from any thread. Those that change the pool are for the
//! background; an [`Extent`] is written to without any lock.

#[cfg_attr(not(target_os = "linux"), path = "pool/no_file.rs")]
mod file;
mod owner;
mod repair;
mod report;

pub use repair::PoolRepair;
pub use report::{ExtentInfo, PoolReport, examine};

use crate::domain::Domain;
use crate::extent::Extent;
use crate::format::{
    ExtentState, HEADER_BYTES, Layout, OWNER_AT, OWNER_COMPLEMENT_AT, POOL_BYTES_MAX,
    POOL_BYTES_MIN, PoolHeader, TABLE_AT,
};
use crate::media_counters::{Counters, MediaWriteStats};
use crate::region::{Region, lines_of};
use esker_base::{Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// What is left to do about a pool that can't be read at all.
pub(crate) const RESTORE: &str = "restore it from a copy; if there is none, `esker repair DB \
     --give-up-logs`, without `--pool`, goes on with what is in tables";

/// What an extent is used for just now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Free,
    /// Being prepared for this epoch: not yet durable.
    Taken(u32),
    Used(u32),
    /// Free in the pool, but handles of its last use are still around.
    Released,
    /// Its state word is corrupt.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    state: Use,
    handles: u32,
    /// Whether its pages were made present by this process.
    present: bool,
}

/// A pool of persistent memory: a file of extents, each of which holds one log segment.
///
/// A pool belongs to one database and has one writer. Threads may share it. `Log::Pmem` in the
/// settings of a database names the file.
///
/// # Examples
///
/// A pool on tmpfs is an emulation in DRAM, for tests:
///
/// ```
/// # mod esker { pub mod pmem { pub use esker_pmem::{Accept, Pool}; } }
/// # let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return Ok(()) };
/// # let path = dir.path().join("pool");
/// use esker::pmem::{Accept, Pool};
///
/// let pool = Pool::create(&path, 4 << 20, Accept::Emulated)?;
/// assert_eq!(pool.free(), pool.extents());
/// assert!(!pool.domain().survives_power_loss());
/// # Ok::<(), esker_base::Error>(())
/// ```
pub struct Pool {
    // Constant after construction.
    pub(crate) region: Arc<dyn Region>,
    name: String,
    identity: u64,
    layout: Layout,
    pub(crate) counters: Counters,
    // Protected by their locks.
    owner: Mutex<Option<u64>>,
    slots: Mutex<Vec<Slot>>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("name", &self.name)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

fn check_bytes(bytes: u64) -> Result<()> {
    if (POOL_BYTES_MIN..=POOL_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    Err(Error::InvalidSetting {
        setting: "pool size",
        value: bytes.to_string(),
        reason: format!("a pool has {POOL_BYTES_MIN} to {POOL_BYTES_MAX} bytes"),
    })
}

impl Pool {
    /// Formats `region` as an empty pool, whatever it holds.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] if the region is too small or too large for a pool.
    #[doc(hidden)]
    pub fn format(region: Arc<dyn Region>, name: &str, identity: u64) -> Result<Arc<Pool>> {
        check_bytes(region.len() as u64)?;
        let layout = Layout::of(region.len() as u64);
        let header = PoolHeader { identity, layout };
        let pool = Pool::new(region, name, header, None, vec![Use::Free; layout.extents as usize]);
        pool.store_word(0, 0);
        pool.fence();
        for index in 0..layout.extents {
            pool.store_word(state_at(index), ExtentState::Free.encode(identity, index));
        }
        let encoded = header.encode();
        for at in (8..HEADER_BYTES).step_by(8) {
            pool.store_word(at, esker_base::coding::u64_at(&encoded, at));
        }
        // The complement means nothing without an owner.
        pool.store_word(OWNER_AT, 0);
        pool.fence();
        pool.store_word(0, crate::format::MAGIC);
        pool.fence();
        Ok(Arc::new(pool))
    }

    /// Returns the pool in `region`. `name` is its name in messages.
    ///
    /// # Errors
    /// [`Error::PoolDamaged`] or [`Error::PoolRefused`] if the region holds no intact pool.
    #[doc(hidden)]
    pub fn over(region: Arc<dyn Region>, name: &str) -> Result<Arc<Pool>> {
        let examined = examine(&*region, name)?;
        match examined.problems.first() {
            Some(problem) => Err(problem.clone()),
            None => Ok(Pool::of(region, name, &examined)),
        }
    }

    /// Returns the pool at its present state, while its writer continues.
    ///
    /// # Errors
    /// The errors of [`Pool::over`].
    pub fn look_again(&self) -> Result<Arc<Pool>> {
        Pool::over(self.region.clone(), &self.name)
    }

    fn of(region: Arc<dyn Region>, name: &str, examined: &PoolReport) -> Arc<Pool> {
        let header = PoolHeader { identity: examined.identity, layout: examined.layout };
        let uses = examined.extents.iter().map(|extent| match extent.epoch {
            Some(epoch) => Use::Used(epoch),
            None if extent.is_known => Use::Free,
            None => Use::Unknown,
        });
        Arc::new(Pool::new(region, name, header, examined.owner, uses.collect()))
    }

    fn new(
        region: Arc<dyn Region>,
        name: &str,
        header: PoolHeader,
        owner: Option<u64>,
        uses: Vec<Use>,
    ) -> Pool {
        let slot = |state| Slot { state, handles: 0, present: false };
        Pool {
            region,
            name: name.to_owned(),
            identity: header.identity,
            layout: header.layout,
            counters: Counters::new(),
            owner: Mutex::new(owner),
            slots: Mutex::new(uses.into_iter().map(slot).collect()),
        }
    }

    /// Returns the id of the pool. No other pool has it.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// Returns the path of the pool, for messages.
    pub fn describe(&self) -> String {
        self.name.clone()
    }

    /// Returns the persistence domain of the pool.
    pub fn domain(&self) -> Domain {
        self.region.domain()
    }

    /// Returns the instructions that stores use on this processor, as text. `None` if the pool is
    /// not writable here.
    pub fn describe_ways(&self) -> Option<String> {
        self.region.describe_ways()
    }

    /// Returns the size of the pool, in bytes.
    pub fn bytes(&self) -> u64 {
        self.layout.pool_bytes
    }

    /// Returns the size of each extent, in bytes.
    pub fn extent_bytes(&self) -> usize {
        self.layout.extent_bytes as usize
    }

    /// Returns the number of extents.
    pub fn extents(&self) -> usize {
        self.layout.extents as usize
    }

    /// Whether the pool was opened for writing.
    pub fn writable(&self) -> bool {
        self.region.writable()
    }

    /// Returns the number of extents that are free now.
    pub fn free(&self) -> usize {
        self.slots.lock().iter().filter(|slot| slot.state == Use::Free).count()
    }

    /// Stores all words of the header and the table again, unchanged, and waits until they are
    /// durable.
    ///
    /// A process that ended between a store and its fence leaves words that can be read but that
    /// power loss would undo. Call this before relying on them.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if the pool is not writable.
    pub fn settle(&self) -> Result<()> {
        self.check_writable()?;
        // So that no state changes meanwhile.
        let _slots = self.slots.lock();
        let header = (0..HEADER_BYTES).step_by(8).chain([OWNER_COMPLEMENT_AT, OWNER_AT]);
        for at in header.chain((0..self.layout.extents).map(state_at)) {
            self.store_word(at, report::word(&*self.region, at));
        }
        self.fence();
        Ok(())
    }

    /// Returns the epochs of the segments in the pool, ascending.
    pub fn used(&self) -> Vec<u32> {
        let slots = self.slots.lock();
        let mut used: Vec<u32> = slots
            .iter()
            .filter_map(|slot| match slot.state {
                Use::Used(epoch) => Some(epoch),
                _ => None,
            })
            .collect();
        used.sort_unstable();
        used
    }

    /// Whether the segment `epoch` is in the pool now.
    ///
    /// Another process may have released it since the pool was opened. What was presumed of a
    /// damaged word counts.
    pub fn holds(&self, epoch: u32) -> bool {
        let index = self.slots.lock().iter().position(|slot| slot.state == Use::Used(epoch));
        index.is_some_and(|index| {
            let word = report::word(&*self.region, state_at(index as u32));
            let state = ExtentState::decode(word, self.identity, index as u32);
            state.is_none_or(|state| state == ExtentState::Used(epoch))
        })
    }

    /// Acquires a free extent for the segment `epoch`, which starts with `header`. `None` if the
    /// pool is full.
    ///
    /// Both are durable when this returns. The first use of an extent takes a millisecond for every
    /// few MiB, so call this in the background.
    ///
    /// # Errors
    /// [`Error::Io`] if the memory of no free extent can be made present, [`Error::PoolRefused`] if
    /// the pool already holds the epoch, [`Error::ReadOnly`] if the pool is not writable.
    ///
    /// # Panics
    /// If `epoch` is zero or `header` is larger than an extent.
    #[doc(hidden)]
    pub fn acquire(self: &Arc<Self>, epoch: u32, header: &[u8]) -> Result<Option<Extent>> {
        assert!(epoch > 0, "no epoch is zero");
        assert!(header.len() <= self.extent_bytes(), "a segment's header fits its extent");
        self.check_writable()?;
        let Some(index) = self.take_sound(epoch)? else { return Ok(None) };
        let at = self.extent_at(index);
        // SAFETY: the extent is this call's alone until it is handed out; the header fits.
        unsafe { self.write(at, header) };
        self.fence();
        // `settle` writes states back that it has read, under the same lock.
        let mut slots = self.slots.lock();
        self.store_state(index, ExtentState::Used(epoch));
        self.fence();
        let slot = &mut slots[index as usize];
        (slot.state, slot.present) = (Use::Used(epoch), true);
        drop(slots);
        Ok(Some(Extent::new(self.clone(), index, epoch)))
    }

    /// Reserves a free extent whose pages are present. One whose pages can't be had keeps no other
    /// from being taken; it is tried again the next time.
    fn take_sound(&self, epoch: u32) -> Result<Option<u32>> {
        let mut failed = None;
        let mut from = 0;
        while let Some((index, present)) = self.take(epoch, from)? {
            if present {
                return Ok(Some(index));
            }
            // SAFETY: the extent is this call's alone until it is handed out.
            let faulted =
                unsafe { self.region.fault_in(self.extent_at(index), self.extent_bytes()) };
            let Err(source) = faulted else { return Ok(Some(index)) };
            let slot = &mut self.slots.lock()[index as usize];
            (slot.state, slot.handles) = (Use::Free, 0);
            failed = Some(Error::io("get memory for a segment in", self.describe(), source));
            from = index as usize + 1;
        }
        failed.map_or(Ok(None), Err)
    }

    /// Reserves the first free extent from number `from` on, and says whether its pages are present.
    fn take(&self, epoch: u32, from: usize) -> Result<Option<(u32, bool)>> {
        let mut slots = self.slots.lock();
        let same = |slot: &Slot| matches!(slot.state, Use::Taken(e) | Use::Used(e) if e == epoch);
        if slots.iter().any(same) {
            return Err(self.refused(format!(
                "it holds a segment of epoch {epoch} already, so the database that asks for another \
                 is not the one that wrote it, or an older copy of it; give it back the tables that \
                 belong to the pool"
            )));
        }
        let mut from_on = slots.iter_mut().enumerate().skip(from);
        let Some((index, slot)) = from_on.find(|(_, slot)| slot.state == Use::Free) else {
            return Ok(None);
        };
        (slot.state, slot.handles) = (Use::Taken(epoch), 1);
        Ok(Some((index as u32, slot.present)))
    }

    /// Returns the extent of the segment `epoch`, or `None` if it is absent or another handle has
    /// it.
    ///
    /// With one handle per extent, no reader reads by accident what another holder writes.
    #[doc(hidden)]
    pub fn extent(self: &Arc<Self>, epoch: u32) -> Option<Extent> {
        let mut slots = self.slots.lock();
        let index = slots.iter().position(|slot| slot.state == Use::Used(epoch))?;
        if slots[index].handles > 0 {
            return None;
        }
        slots[index].handles += 1;
        drop(slots);
        Some(Extent::new(self.clone(), index as u32, epoch))
    }

    /// Frees the extent of the segment `epoch` durably. Does nothing if there is none.
    ///
    /// The extent can be acquired again once its last `Extent` is dropped.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if the pool is not writable.
    pub fn release(&self, epoch: u32) -> Result<()> {
        self.check_writable()?;
        let mut slots = self.slots.lock();
        let Some(index) = slots.iter().position(|slot| slot.state == Use::Used(epoch)) else {
            return Ok(());
        };
        self.store_state(index as u32, ExtentState::Free);
        self.fence();
        let slot = &mut slots[index];
        slot.state = if slot.handles == 0 { Use::Free } else { Use::Released };
        Ok(())
    }

    /// A handle of an extent was dropped.
    pub(crate) fn let_go(&self, index: u32) {
        let mut slots = self.slots.lock();
        let slot = &mut slots[index as usize];
        slot.handles -= 1;
        if slot.handles == 0 && slot.state == Use::Released {
            slot.state = Use::Free;
        }
    }

    /// Returns what was stored, flushed and fenced since the pool was opened.
    #[doc(hidden)]
    pub fn traffic(&self) -> MediaWriteStats {
        self.counters.sum()
    }

    /// Waits until all that this thread stored in the pool is durable.
    #[inline]
    pub(crate) fn fence(&self) {
        self.counters.fenced();
        self.region.fence();
    }

    pub(crate) fn extent_at(&self, index: u32) -> usize {
        self.layout.data_at as usize + index as usize * self.extent_bytes()
    }

    /// # Safety
    ///
    /// As for [`Region::write`].
    pub(crate) unsafe fn write(&self, at: usize, bytes: &[u8]) {
        self.counters.stored(bytes.len(), lines_of(at, bytes.len()));
        // SAFETY: the caller's.
        unsafe { self.region.write(at, bytes) };
    }

    fn store_state(&self, index: u32, state: ExtentState) {
        self.store_word(state_at(index), state.encode(self.identity, index));
    }

    /// Stores a word of the header or the table, which only this crate reaches, and atomically.
    fn store_word(&self, at: usize, word: u64) {
        self.counters.stored(size_of::<u64>(), 1);
        // SAFETY: the offsets of words are multiples of eight and lie below the extents.
        unsafe { self.region.store_word(at, word) };
    }

    fn check_writable(&self) -> Result<()> {
        if self.region.writable() { Ok(()) } else { Err(Error::ReadOnly) }
    }

    fn refused(&self, reason: String) -> Error {
        Error::PoolRefused { pool: self.name.clone(), reason }
    }
}

/// Where the state word of an extent is.
fn state_at(index: u32) -> usize {
    TABLE_AT + index as usize * size_of::<u64>()
}
