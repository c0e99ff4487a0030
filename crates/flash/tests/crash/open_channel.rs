//! A device under the rules of open-channel flash, with a host that knows them: write units that are lost while they
//! are programmed and take with them the page that shares their cells, pages that can't be read before more is written,
//! resets that are cut short. The model decides; here is the data.
//!
//! The host keeps what is written in its memory until it can be read from the medium, which is when it is safe, too. A
//! flush copies that to memory that survives. After power loss
//!
//! * what survived and the medium does not have is sent again, and what the medium lost is read from there;
//! * what no file has reads as zeros: only what was not flushed, but anywhere in it and not just at its end;
//! * chunks are padded until what is on them can be read.
//!
//! A device may be worn: some of its chunks are bad, and others go bad when they are reset next, also when that reset is
//! cut short and done again.

use super::JOURNAL_CHUNKS;
use super::histories::Device;
use esker_base::{Error, Result, Rng};
use esker_flash::chunk_device::BLOCK_BYTES;
use esker_flash::device::sim::Kind;
use esker_flash::device::{MediaError, Place};
use esker_flash::{Chunk, ChunkDevice, Geometry, Preset, ReadPriority, Sim};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

const BLOCK: usize = BLOCK_BYTES as usize;

/// 12 chunks of 8 write units of 2 blocks.
const PRESET: &str = r#"
name = "small"
about = "small enough that everything happens soon"
[geometry]
groups = { value = 1, source = "chosen" }
units_per_group = { value = 3, source = "chosen" }
chunks_per_unit = { value = 4, source = "chosen" }
chunk_bytes = { value = 65536, source = "chosen" }
planes = { value = 1, source = "chosen" }
independent_plane_reads = { value = false, source = "chosen" }
write_unit_bytes = { value = 8192, source = "chosen" }
sector_bytes = { value = 4096, source = "chosen" }
mw_cunits = { value = 3, source = "chosen: more than the pairing distance" }
pair_distance = { value = 2, source = "chosen" }
endurance_erases = { value = 1000000, source = "chosen: for ever" }
bad_chunks_per_mille = { value = 0, source = "chosen" }
[timing]
read_ns = { value = [48000, 64000], source = "as cnex-mlc" }
program_ns = { value = [850000, 1450000], source = "as cnex-mlc" }
erase_ns = { value = 3000000, source = "as cnex-mlc" }
[bus]
bytes_per_second = { value = 280000000, source = "as cnex-mlc" }
piece_bytes = { value = 4096, source = "chosen" }
[host]
bytes_per_second = { value = 6400000000, source = "as cnex-mlc" }
read_firmware_ns = { value = 1900, source = "as cnex-mlc" }
write_firmware_ns = { value = 1900, source = "as cnex-mlc" }
[buffer]
bytes = { value = 0, source = "as cnex-mlc" }
survives_power_loss = { value = false, source = "as cnex-mlc" }
"#;

/// The longest that passes between two calls, and from the last of them until power is lost: some programs.
const PAUSE_NS_MAX: u64 = 4_000_000;
/// Less than a program and than a reset, so that something is often in progress.
const SHORT_PAUSE_NS_MAX: u64 = 500_000;

/// Clones share it.
#[derive(Clone)]
pub struct OpenChannel {
    geometry: Geometry,
    state: Arc<Mutex<State>>,
}

/// Write units by number.
type ReclaimUnits = BTreeMap<u32, Vec<u8>>;

struct State {
    sim: Sim,
    rng: Rng,
    pause_ns_max: u64,
    chunks: Vec<Content>,
    /// Chunks whose reset is in progress.
    resetting: BTreeSet<usize>,
    calls_left: Option<u64>,
    seen: Seen,
}

/// What happened that only such a device does.
#[derive(Clone, Copy, Default, Debug)]
pub struct Seen {
    /// Write units that power losses destroyed.
    pub lost: u64,
    /// Write units that were in the device's buffer when power was lost, and nowhere else in it.
    pub in_buffer: u64,
    /// Of those that were destroyed, flushed ones, which the host's memory had.
    pub lost_and_kept: u64,
    /// Resets that were cut short.
    pub half_reset: u64,
    /// Of their chunks, those that went bad when that was done again.
    pub half_reset_and_bad: u64,
    /// Blocks that were read from memory, as the medium did not give them yet.
    pub too_early: u64,
}

impl Seen {
    pub fn plus(self, other: Seen) -> Seen {
        Seen {
            lost: self.lost + other.lost,
            in_buffer: self.in_buffer + other.in_buffer,
            lost_and_kept: self.lost_and_kept + other.lost_and_kept,
            half_reset: self.half_reset + other.half_reset,
            half_reset_and_bad: self.half_reset_and_bad + other.half_reset_and_bad,
            too_early: self.too_early + other.too_early,
        }
    }
}

#[derive(Clone, Default)]
struct Content {
    /// Bytes that were written.
    written: u64,
    /// What was sent to the medium.
    sent: ReclaimUnits,
    /// What can't be read there yet, the last perhaps in part.
    unsafe_yet: ReclaimUnits,
    /// The same as it was at the last flush: this survives.
    kept: ReclaimUnits,
}

impl OpenChannel {
    pub fn new() -> Self {
        OpenChannel::of(&Preset::parse(PRESET).unwrap(), 1, PAUSE_NS_MAX)
    }

    /// 16 chunks, of which `seed` decides which are bad. Of four behind the journal's one goes bad at its next reset: the
    /// journal's are reset so much more often that they would be the first to go, and all of them.
    pub fn worn(seed: u64) -> Self {
        let preset = PRESET
            .replace("endurance_erases = { value = 1000000", "endurance_erases = { value = 1000")
            .replace("bad_chunks_per_mille = { value = 0", "bad_chunks_per_mille = { value = 50");
        let preset = Preset::parse(&preset).unwrap().with_units(1, 2).with_chunks_per_unit(8);
        let device = OpenChannel::of(&preset, seed, SHORT_PAUSE_NS_MAX);
        let mut state = device.state.lock();
        for index in (JOURNAL_CHUNKS..device.geometry.chunks()).step_by(4) {
            let chunk = device.geometry.chunk(index);
            while !state.is_worn(chunk) && !state.sim.media().is_bad(chunk) {
                state.sim.reset_at_once(chunk).unwrap();
            }
        }
        drop(state);
        device
    }

    /// 128 chunks, and a buffer that is lost with the power: large enough that some write units are always in it.
    pub fn buffered() -> Self {
        let preset = PRESET.replace("bytes = { value = 0", "bytes = { value = 65536");
        let preset = Preset::parse(&preset).unwrap().with_units(2, 4).with_chunks_per_unit(16);
        OpenChannel::of(&preset, 1, SHORT_PAUSE_NS_MAX)
    }

    fn of(preset: &Preset, seed: u64, pause_ns_max: u64) -> Self {
        let sim = Sim::new(preset, ReadPriority::HostOnly, seed);
        let geometry = *sim.media().geometry();
        // What can be read is safe, too.
        assert!(geometry.mw_cunits >= geometry.pair_distance);
        let state = State {
            sim,
            rng: Rng::new(1),
            pause_ns_max,
            chunks: vec![Content::default(); geometry.chunks()],
            resetting: BTreeSet::new(),
            calls_left: None,
            seen: Seen::default(),
        };
        OpenChannel { geometry, state: Arc::new(Mutex::new(state)) }
    }

    pub fn seen(&self) -> Seen {
        self.state.lock().seen
    }
}

impl Device for OpenChannel {
    fn zones(&self) -> Arc<dyn ChunkDevice> {
        Arc::new(self.clone())
    }
    fn fail_after(&self, calls: u64) {
        self.state.lock().calls_left = Some(calls);
    }
    fn lose_power(&self, rng: &mut Rng) {
        let mut state = self.state.lock();
        let after_ns = rng.below(state.pause_ns_max);
        state.lose_power(after_ns, &self.geometry);
    }
}

impl State {
    /// Lets some time pass before a call, and says whether it is done; `None` if only a part of it.
    fn call(&mut self) -> Option<bool> {
        let pause = self.rng.below(self.pause_ns_max);
        self.pass(pause);
        match &mut self.calls_left {
            None => Some(true),
            Some(0) => Some(false),
            Some(left) => {
                *left -= 1;
                (*left > 0).then_some(true)
            }
        }
    }

    fn pass(&mut self, ns: u64) {
        let until = self.sim.now() + ns;
        while let Some(done) = self.sim.completion_by(until) {
            if done.kind == Kind::Reset {
                self.resetting.remove(&(done.tag as usize));
            }
        }
        self.forget_what_is_safe();
    }

    fn wait_until(&mut self, is_so: impl Fn(&State) -> bool) {
        while !is_so(self) {
            self.pass(100_000);
        }
    }

    fn forget_what_is_safe(&mut self) {
        let media = self.sim.media();
        for (index, content) in self.chunks.iter_mut().enumerate() {
            let chunk = media.geometry().chunk(index);
            let is_safe = |number: &u32| media.read(chunk, *number) == Ok(Place::Medium);
            content.unsafe_yet.retain(|number, _| !is_safe(number));
        }
    }

    /// Sends the medium the write units that are whole.
    fn send(&mut self, index: usize) {
        let geometry = *self.sim.media().geometry();
        let chunk = geometry.chunk(index);
        loop {
            let number = self.sim.media().written(chunk);
            let content = &mut self.chunks[index];
            let unit = content.unsafe_yet.get(&number);
            let Some(unit) = unit.filter(|unit| unit.len() == geometry.write_unit_bytes as usize)
            else {
                return;
            };
            content.sent.insert(number, unit.clone());
            self.sim.write(chunk, number, index as u32).expect("it is the next");
        }
    }

    fn lose_power(&mut self, after_ns: u64, geometry: &Geometry) {
        self.pass(after_ns);
        self.seen.in_buffer += self.in_buffer(geometry);
        self.sim.power_cut();
        self.calls_left = None;
        self.resetting.clear();
        for index in 0..self.chunks.len() {
            let chunk = geometry.chunk(index);
            if self.sim.media().read(chunk, 0) == Err(MediaError::HalfReset(chunk)) {
                self.seen.half_reset += 1;
                self.sim.reset(chunk, index as u32).expect("it is good");
                self.wait_until(|state| !state.is_half_reset(chunk));
                self.seen.half_reset_and_bad += u64::from(self.sim.media().is_bad(chunk));
            }
            let content = &mut self.chunks[index];
            content.unsafe_yet = content.kept.clone();
            for number in 0..self.sim.media().written(chunk) {
                if matches!(self.sim.media().read(chunk, number), Err(MediaError::Lost { .. })) {
                    self.seen.lost += 1;
                    self.seen.lost_and_kept += u64::from(content.kept.contains_key(&number));
                }
            }
            self.send(index);
            self.pad(index, geometry);
            let on_medium = self.sim.media().written(chunk);
            let in_part = self.chunks[index].unsafe_yet.get(&on_medium).map_or(0, Vec::len) as u64;
            self.chunks[index].written =
                u64::from(on_medium) * u64::from(geometry.write_unit_bytes) + in_part;
        }
        self.wait_until(|state| state.sim.is_idle());
    }

    /// How many write units the device has in its buffer alone.
    fn in_buffer(&self, geometry: &Geometry) -> u64 {
        let media = self.sim.media();
        let all = (0..geometry.chunks()).map(|index| geometry.chunk(index));
        let of_chunk = |chunk| {
            let is_in_buffer = |number: &u32| media.read(chunk, *number) == Ok(Place::Buffer);
            (0..media.written(chunk)).filter(is_in_buffer).count() as u64
        };
        all.map(of_chunk).sum()
    }

    /// Whether a chunk is as often reset as it can be and is good after it.
    fn is_worn(&self, chunk: Chunk) -> bool {
        self.sim.media().erases(chunk) >= self.sim.media().endurance()
    }

    fn is_half_reset(&self, chunk: Chunk) -> bool {
        self.sim.media().read(chunk, 0) == Err(MediaError::HalfReset(chunk))
    }

    /// Writes on a chunk until nothing is on it that can't be read and that the host does not have.
    fn pad(&mut self, index: usize, geometry: &Geometry) {
        let chunk = geometry.chunk(index);
        let missing = |state: &State| {
            let media = state.sim.media();
            let has_all = |number: u32| {
                let unit = state.chunks[index].unsafe_yet.get(&number);
                unit.is_some_and(|unit| unit.len() == geometry.write_unit_bytes as usize)
            };
            (0..media.written(chunk)).any(|number| {
                let place = media.read(chunk, number);
                matches!(place, Err(MediaError::TooEarly { .. })) && !has_all(number)
            })
        };
        while missing(self) {
            let number = self.sim.media().written(chunk);
            let zeros = vec![0; geometry.write_unit_bytes as usize];
            self.chunks[index].sent.insert(number, zeros);
            self.sim.write(chunk, number, index as u32).expect("a full chunk can be read");
            self.wait_until(|state| !state.sim.media().is_writing(chunk));
        }
    }

    /// A block, where the medium or the memory has it.
    fn read(&mut self, chunk: Chunk, at: u64, out: &mut [u8]) {
        let unit_bytes = u64::from(self.sim.media().geometry().write_unit_bytes);
        let (number, skip) = ((at / unit_bytes) as u32, (at % unit_bytes) as usize);
        let content = &self.chunks[self.sim.media().geometry().index(chunk)];
        let place = self.sim.media().read(chunk, number);
        self.seen.too_early += u64::from(matches!(place, Err(MediaError::TooEarly { .. })));
        let unit = match place {
            Ok(Place::Medium) => content.sent.get(&number),
            _ => content.unsafe_yet.get(&number),
        };
        match unit.and_then(|unit| unit.get(skip..skip + BLOCK)) {
            Some(found) => out.copy_from_slice(found),
            None => {
                assert!(
                    matches!(place, Err(MediaError::Lost { .. })),
                    "{chunk:?}, {at}: {place:?}"
                );
                out.fill(0);
            }
        }
    }
}

impl OpenChannel {
    fn failure(&self, action: &'static str) -> Error {
        Error::io(action, self.describe(), io::Error::other("the device is gone"))
    }
}

impl ChunkDevice for OpenChannel {
    fn describe(&self) -> String {
        "an open-channel device".to_owned()
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn is_bad(&self, chunk: Chunk) -> bool {
        self.state.lock().sim.media().is_bad(chunk)
    }

    fn written(&self, chunk: Chunk) -> Result<u64> {
        Ok(self.state.lock().chunks[self.geometry.index(chunk)].written)
    }

    fn write(&self, chunk: Chunk, at: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.state.lock();
        let outcome = state.call();
        let index = self.geometry.index(chunk);
        state.wait_until(|state| !state.resetting.contains(&index));
        let done = match outcome {
            Some(true) => bytes.len(),
            Some(false) => 0,
            None => bytes.len() / BLOCK / 2 * BLOCK,
        };
        assert_eq!(state.chunks[index].written, at, "{chunk:?} is not written at its end");
        let end = at + bytes.len() as u64;
        assert!(end <= u64::from(self.geometry.chunk_bytes), "it is full");
        for block in bytes[..done].chunks_exact(BLOCK) {
            let content = &mut state.chunks[index];
            let number = (content.written / u64::from(self.geometry.write_unit_bytes)) as u32;
            content.unsafe_yet.entry(number).or_default().extend_from_slice(block);
            content.written += BLOCK_BYTES;
        }
        state.send(index);
        if outcome == Some(true) { Ok(()) } else { Err(self.failure("write to")) }
    }

    fn read(&self, chunk: Chunk, at: u64, out: &mut [u8]) -> Result<()> {
        let mut state = self.state.lock();
        if at + out.len() as u64 > state.chunks[self.geometry.index(chunk)].written {
            return Err(Error::corruption(self.describe(), at, format!("{chunk:?} ends before")));
        }
        for (block, out) in out.chunks_exact_mut(BLOCK).enumerate() {
            state.read(chunk, at + block as u64 * BLOCK_BYTES, out);
        }
        Ok(())
    }

    fn reset(&self, chunk: Chunk) -> Result<()> {
        let mut state = self.state.lock();
        let outcome = state.call();
        if outcome != Some(false) {
            let index = self.geometry.index(chunk);
            state.wait_until(|state| {
                !state.sim.media().is_writing(chunk) && !state.resetting.contains(&index)
            });
            state.sim.reset(chunk, index as u32).expect("it is good, and programmed");
            state.resetting.insert(index);
            state.chunks[index] = Content::default();
            if outcome == Some(true) && state.is_worn(chunk) {
                state.wait_until(|state| !state.resetting.contains(&index));
                assert!(state.sim.media().is_bad(chunk), "{chunk:?} was reset too often");
                return Err(self.failure("reset a worn chunk of"));
            }
        }
        if outcome == Some(true) { Ok(()) } else { Err(self.failure("reset a chunk of")) }
    }

    fn flush(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.call() != Some(true) {
            return Err(self.failure("flush"));
        }
        for content in &mut state.chunks {
            content.kept = content.unsafe_yet.clone();
        }
        Ok(())
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        Ok(Box::new(()))
    }
}
