//! A zoned disk in memory that holds to the rules: blocks of 512 bytes, writes at the write pointer, so many active
//! zones.

use crate::device::zoned::{Condition, Disk, Zone};
use esker_uring::Buffer;
use parking_lot::Mutex;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const ZONE_BYTES: u64 = 128 << 10;
/// What can be written of a zone.
pub(super) const CAPACITY: u64 = 96 << 10;
const BLOCK_BYTES: u64 = 512;

#[derive(Clone)]
pub(super) struct MemoryDisk {
    state: Arc<Mutex<State>>,
    claimed: Arc<AtomicBool>,
}

pub(super) struct State {
    pub(super) zones: Vec<Zone>,
    pub(super) active_max: Option<usize>,
    /// The next write stops after so many bytes.
    pub(super) tear: Option<usize>,
    /// Whether it appends, as NVMe disks can: then a write comes to the zone's end, wherever that is.
    pub(super) appends: bool,
    /// How much is written at a time.
    pub(super) write_bytes_max: usize,
    /// What came along with each write: where it came to, and how long it was.
    pub(super) writes: Vec<(u64, usize)>,
    /// Resets until they fail.
    pub(super) resets_left: Option<usize>,
    /// Whether it reports no zones.
    pub(super) is_silent: bool,
    bytes: Vec<u8>,
    /// Most zones that were active at a time.
    pub(super) active_most: usize,
    /// Flushes so far, and whether they fail.
    pub(super) flushes: usize,
    pub(super) fails_to_flush: bool,
}

impl MemoryDisk {
    /// A disk of so many zones that are written in sequence.
    pub(super) fn new(count: u64) -> Self {
        let zone = |number| Zone {
            start: number * ZONE_BYTES,
            bytes: ZONE_BYTES,
            capacity: CAPACITY,
            written: 0,
            condition: Condition::Empty,
        };
        let zones = (0..count).map(zone).collect();
        let bytes = vec![0; (count * ZONE_BYTES) as usize];
        let state = State {
            zones,
            active_max: None,
            tear: None,
            appends: false,
            write_bytes_max: 64 << 10,
            writes: Vec::new(),
            resets_left: None,
            is_silent: false,
            bytes,
            active_most: 0,
            flushes: 0,
            fails_to_flush: false,
        };
        MemoryDisk { state: Arc::new(Mutex::new(state)), claimed: Arc::default() }
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock())
    }

    /// Another program writes behind what is in a zone.
    pub(super) fn write_as_another(&self, number: usize, bytes: &[u8]) {
        let state = &mut *self.state.lock();
        let zone = &mut state.zones[number];
        let at = (zone.start + zone.written) as usize;
        zone.written += bytes.len() as u64;
        zone.condition = Condition::Active;
        state.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// What a zone holds.
    pub(super) fn content(&self, number: usize) -> Vec<u8> {
        let state = self.state.lock();
        let Zone { start, written, .. } = state.zones[number];
        state.bytes[start as usize..(start + written) as usize].to_vec()
    }

    pub(super) fn zone(&self, number: usize) -> Zone {
        self.state.lock().zones[number]
    }
}

impl State {
    fn zone(&mut self, start: u64) -> io::Result<&mut Zone> {
        let found = self.zones.iter_mut().find(|zone| zone.start == start);
        let zone = found.expect("a zone begins there");
        match zone.condition {
            Condition::ReadOnly | Condition::Offline => Err(io::Error::other("it has failed")),
            _ => Ok(zone),
        }
    }

    pub(super) fn active(&self) -> usize {
        self.zones.iter().filter(|zone| zone.condition == Condition::Active).count()
    }
}

fn refused(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, what)
}

impl Disk for MemoryDisk {
    fn name(&self) -> String {
        "a zoned disk in memory".to_owned()
    }

    fn report(&self, start: u64) -> io::Result<Vec<Zone>> {
        let state = self.state.lock();
        if state.is_silent {
            return Err(io::Error::other("it is silent"));
        }
        let from = state.zones.iter().skip_while(|zone| zone.start < start);
        Ok(from.take(3).copied().collect())
    }

    fn active_max(&self) -> Option<usize> {
        self.state.lock().active_max
    }

    fn read_at(&self, offset: u64, out: &mut Buffer) -> io::Result<()> {
        let state = self.state.lock();
        let end = offset as usize + out.len();
        let zone = state.zones[(offset / ZONE_BYTES) as usize];
        if end as u64 > zone.start + zone.written {
            return Err(io::Error::other("nothing was written there"));
        }
        out.copy_from_slice(&state.bytes[offset as usize..end]);
        Ok(())
    }

    fn written_by(&self) -> String {
        "memory".to_owned()
    }

    fn write_bytes_max(&self) -> usize {
        self.state.lock().write_bytes_max
    }

    fn write(&self, believed: &Zone, bytes: Buffer) -> io::Result<u64> {
        let state = &mut *self.state.lock();
        let active = state.active();
        let (active_max, tear) = (state.active_max, state.tear.take());
        let (appends, most) = (state.appends, state.write_bytes_max);
        let zone = state.zone(believed.start)?;
        let offset = zone.start + if appends { zone.written } else { believed.written };
        let len = tear.unwrap_or(bytes.len());
        let is_new = zone.condition == Condition::Empty;
        if zone.start + zone.written != offset || !(bytes.len() as u64).is_multiple_of(BLOCK_BYTES)
        {
            return Err(refused("not at the write pointer, or no whole blocks"));
        }
        if bytes.len() > most {
            return Err(refused("too much at a time"));
        }
        if zone.written + bytes.len() as u64 > zone.capacity || zone.condition == Condition::Full {
            return Err(refused("behind the zone's capacity"));
        }
        if is_new && active_max.is_some_and(|most| active >= most) {
            return Err(refused("too many active zones"));
        }
        zone.written += len as u64;
        let is_full = zone.written == zone.capacity;
        zone.condition = if is_full { Condition::Full } else { Condition::Active };
        state.bytes[offset as usize..offset as usize + len].copy_from_slice(&bytes[..len]);
        state.active_most = state.active_most.max(state.active());
        state.writes.push((offset, len));
        if tear.is_some() { Err(io::Error::other("it stopped")) } else { Ok(offset) }
    }

    fn reset(&self, zone: &Zone) -> io::Result<()> {
        let state = &mut *self.state.lock();
        if let Some(left) = &mut state.resets_left {
            *left = left.checked_sub(1).ok_or_else(|| io::Error::other("it was taken away"))?;
        }
        let zone = state.zone(zone.start)?;
        (zone.written, zone.condition) = (0, Condition::Empty);
        let start = zone.start as usize;
        state.bytes[start..start + ZONE_BYTES as usize].fill(0);
        Ok(())
    }

    fn finish(&self, zone: &Zone) -> io::Result<()> {
        let state = &mut *self.state.lock();
        let zone = state.zone(zone.start)?;
        (zone.written, zone.condition) = (zone.capacity, Condition::Full);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let state = &mut *self.state.lock();
        state.flushes += 1;
        if state.fails_to_flush { Err(io::Error::other("it lost what it had")) } else { Ok(()) }
    }

    fn claim(&self) -> io::Result<Box<dyn Send + Sync>> {
        match self.claimed.swap(true, Ordering::AcqRel) {
            true => Err(ErrorKind::ResourceBusy.into()),
            false => Ok(Box::new(Claim(self.claimed.clone()))),
        }
    }
}

struct Claim(Arc<AtomicBool>);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
