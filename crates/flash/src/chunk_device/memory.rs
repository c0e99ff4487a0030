//! Chunks in memory that can lose power, for tests.

use super::{BLOCK_BYTES, ChunkDevice};
use crate::exclusive::ExclusiveUse;
use crate::{Chunk, Geometry};
use esker_base::{Error, Result, Rng};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

const BLOCK: usize = BLOCK_BYTES as usize;

/// A device in memory. Clones share it.
#[derive(Clone)]
pub struct MemoryChunkDevice {
    geometry: Geometry,
    state: Arc<Mutex<State>>,
    locked: ExclusiveUse,
}

#[derive(Default)]
struct State {
    chunks: Vec<Content>,
    bad: BTreeSet<Chunk>,
    /// Blocks that can't be read, by their chunk and where they begin there.
    unreadable: BTreeSet<(Chunk, u64)>,
    read_only: BTreeSet<Chunk>,
    /// How many chunks may be written in part.
    active_max: Option<usize>,
    /// Writes, resets and flushes until everything fails.
    calls_left: Option<u64>,
    /// All of them so far.
    calls: u64,
    written: u64,
    read: u64,
}

#[derive(Clone, Default)]
struct Content {
    now: Vec<u8>,
    /// What power loss leaves at least.
    flushed: usize,
    /// What was there before a reset that is not flushed.
    before: Option<Vec<u8>>,
}

impl MemoryChunkDevice {
    /// An empty device.
    pub fn new(geometry: Geometry) -> Self {
        let chunks = vec![Content::default(); geometry.chunks()];
        let state = State { chunks, ..State::default() };
        MemoryChunkDevice {
            geometry,
            state: Arc::new(Mutex::new(state)),
            locked: ExclusiveUse::default(),
        }
    }

    /// A chunk goes bad when it is reset next, or at once if it is empty.
    pub fn break_chunk(&self, chunk: Chunk) {
        self.state.lock().bad.insert(chunk);
    }

    /// Fails reads of a block of a chunk, the one that begins at `at`, until it is readable again.
    pub fn set_readable(&self, chunk: Chunk, at: u64, is_readable: bool) {
        let unreadable = &mut self.state.lock().unreadable;
        match is_readable {
            true => unreadable.remove(&(chunk, at)),
            false => unreadable.insert((chunk, at)),
        };
    }

    /// A chunk can neither be written nor reset from now on.
    pub fn make_read_only(&self, chunk: Chunk) {
        self.state.lock().read_only.insert(chunk);
    }

    /// Lets so many chunks be active at a time: a write that begins one more panics.
    pub fn limit_active(&self, most: usize) {
        self.state.lock().active_max = Some(most);
    }

    /// Fails all writes, resets and flushes after so many more. The first that fails is done in part.
    pub fn fail_after(&self, calls: u64) {
        self.state.lock().calls_left = Some(calls);
    }

    /// How many writes, resets and flushes there were.
    pub fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// Bytes that were written in all.
    pub fn written_in_all(&self) -> u64 {
        self.state.lock().written
    }

    /// Bytes that were read in all.
    pub fn read_in_all(&self) -> u64 {
        self.state.lock().read
    }

    /// Takes the power away and brings it back: of each chunk a part of what was not flushed is left, and a reset
    /// that was not flushed was done or not.
    pub fn lose_power(&self, rng: &mut Rng) {
        let mut state = self.state.lock();
        for content in &mut state.chunks {
            match content.before.take() {
                Some(before) if rng.below(2) == 0 => content.now = before,
                _ => {
                    let blocks = (content.now.len() - content.flushed) / BLOCK;
                    let left = rng.below(blocks as u64 + 1) as usize * BLOCK;
                    content.now.truncate(content.flushed + left);
                }
            }
            content.flushed = content.now.len();
        }
        state.calls_left = None;
        self.locked.free();
    }

    fn failure(&self, action: &'static str) -> Error {
        Error::io(action, self.describe(), io::Error::other("the device is gone"))
    }
}

impl State {
    fn active(&self, geometry: &Geometry) -> Vec<Chunk> {
        let full = geometry.chunk_bytes as usize;
        let is_active = |index: &usize| (1..full).contains(&self.chunks[*index].now.len());
        (0..self.chunks.len()).filter(is_active).map(|index| geometry.chunk(index)).collect()
    }

    /// Whether a call is done; `None` if only a part of it.
    fn call(&mut self) -> Option<bool> {
        self.calls += 1;
        match &mut self.calls_left {
            None => Some(true),
            Some(0) => Some(false),
            Some(left) => {
                *left -= 1;
                (*left > 0).then_some(true)
            }
        }
    }
}

impl ChunkDevice for MemoryChunkDevice {
    fn describe(&self) -> String {
        "a device in memory".to_owned()
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn is_bad(&self, chunk: Chunk) -> bool {
        let state = self.state.lock();
        let is_empty = state.chunks[self.geometry.index(chunk)].now.is_empty();
        is_empty && state.bad.contains(&chunk)
    }

    fn is_read_only(&self, chunk: Chunk) -> bool {
        self.state.lock().read_only.contains(&chunk)
    }

    fn written(&self, chunk: Chunk) -> Result<u64> {
        Ok(self.state.lock().chunks[self.geometry.index(chunk)].now.len() as u64)
    }

    fn write(&self, chunk: Chunk, at: u64, bytes: &[u8]) -> Result<()> {
        assert!(bytes.len().is_multiple_of(BLOCK), "not whole blocks");
        let mut state = self.state.lock();
        if state.read_only.contains(&chunk) {
            return Err(self.failure("write to"));
        }
        let outcome = state.call();
        let active = state.active(&self.geometry).len();
        let has_room = state.active_max.is_none_or(|most| active < most);
        let content = &mut state.chunks[self.geometry.index(chunk)];
        assert!(
            has_room || !content.now.is_empty(),
            "{active} chunks are active, and {chunk:?} is begun"
        );
        assert_eq!(content.now.len() as u64, at, "{chunk:?} is not written at its end");
        assert!(at + bytes.len() as u64 <= u64::from(self.geometry.chunk_bytes), "it is full");
        let done = match outcome {
            Some(true) => bytes.len(),
            Some(false) => 0,
            None => bytes.len() / BLOCK / 2 * BLOCK,
        };
        content.now.extend_from_slice(&bytes[..done]);
        state.written += done as u64;
        if outcome == Some(true) { Ok(()) } else { Err(self.failure("write to")) }
    }

    fn read(&self, chunk: Chunk, at: u64, out: &mut [u8]) -> Result<()> {
        let mut state = self.state.lock();
        state.read += out.len() as u64;
        let content = &state.chunks[self.geometry.index(chunk)].now;
        let end = at as usize + out.len();
        if state.unreadable.range((chunk, at)..(chunk, end as u64)).next().is_some() {
            return Err(self.failure("read"));
        }
        let ends = || Error::corruption(self.describe(), at, format!("{chunk:?} ends before"));
        out.copy_from_slice(content.get(at as usize..end).ok_or_else(ends)?);
        Ok(())
    }

    fn reset(&self, chunk: Chunk) -> Result<()> {
        let mut state = self.state.lock();
        if state.read_only.contains(&chunk) {
            return Err(self.failure("reset a chunk of"));
        }
        let outcome = state.call();
        let is_bad = state.bad.contains(&chunk);
        let content = &mut state.chunks[self.geometry.index(chunk)];
        if outcome != Some(false) {
            let flushed = content.now[..content.flushed].to_vec();
            content.before.get_or_insert(flushed);
            (content.now, content.flushed) = (Vec::new(), 0);
        }
        if outcome == Some(true) && !is_bad {
            Ok(())
        } else {
            Err(self.failure("reset a chunk of"))
        }
    }

    fn active_max(&self) -> Option<usize> {
        self.state.lock().active_max
    }

    fn active(&self) -> Vec<Chunk> {
        let state = self.state.lock();
        state.active_max.map_or_else(Vec::new, |_| state.active(&self.geometry))
    }

    fn finish(&self, chunk: Chunk) -> Result<()> {
        let mut state = self.state.lock();
        let outcome = state.call();
        if outcome != Some(false) {
            let content = &mut state.chunks[self.geometry.index(chunk)];
            content.now.resize(self.geometry.chunk_bytes as usize, 0);
        }
        if outcome == Some(true) { Ok(()) } else { Err(self.failure("finish a chunk of")) }
    }

    fn flush(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.call() != Some(true) {
            return Err(self.failure("flush"));
        }
        for content in &mut state.chunks {
            (content.flushed, content.before) = (content.now.len(), None);
        }
        Ok(())
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        self.locked.take(|| self.describe())
    }
}
