//! A device in memory that can lose power, for tests.

use super::{BLOCK_BYTES, BlockDevice};
use esker_base::{Error, Result, Rng};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

const BLOCK: usize = BLOCK_BYTES as usize;

/// Blocks in memory. Clones share them.
#[derive(Clone)]
pub struct MemoryDevice {
    bytes: u64,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// What power loss leaves; zeros where there is nothing.
    durable: BTreeMap<u64, Vec<u8>>,
    /// What was written since the last flush: every state of a block since then, the newest last.
    cached: BTreeMap<u64, Vec<Vec<u8>>>,
    /// Writes and flushes until they fail.
    calls_left: Option<u64>,
    is_gone: bool,
}

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Done,
    DonePartly,
    NotDone,
}

impl State {
    fn call(&mut self) -> Call {
        match &mut self.calls_left {
            _ if self.is_gone => Call::NotDone,
            None => Call::Done,
            Some(0) => {
                self.is_gone = true;
                Call::DonePartly
            }
            Some(left) => {
                *left -= 1;
                Call::Done
            }
        }
    }
}

impl MemoryDevice {
    /// A device of zeros.
    pub fn new(bytes: u64) -> Self {
        MemoryDevice { bytes, state: Arc::default() }
    }

    /// Takes the power away: of every block, one of the states that it had since the last flush is left, or the one
    /// before.
    pub fn lose_power(&self, rng: &mut Rng) {
        let mut state = self.state.lock();
        for (at, states) in std::mem::take(&mut state.cached) {
            let left = rng.below(states.len() as u64 + 1) as usize;
            if let Some(block) = left.checked_sub(1).map(|left| states[left].clone()) {
                state.durable.insert(at, block);
            }
        }
        (state.calls_left, state.is_gone) = (None, false);
    }

    /// Fails all writes and flushes after so many more. The first write that fails is done in part.
    pub fn fail_after(&self, calls: u64) {
        self.state.lock().calls_left = Some(calls);
    }

    /// Fails nothing any more.
    pub fn go_on(&self) {
        let mut state = self.state.lock();
        (state.calls_left, state.is_gone) = (None, false);
    }

    fn failure(&self, action: &'static str) -> Error {
        Error::io(action, self.describe(), io::Error::other("the device is gone"))
    }
}

impl BlockDevice for MemoryDevice {
    fn describe(&self) -> String {
        "a device in memory".to_owned()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        assert!(
            offset.is_multiple_of(BLOCK_BYTES) && out.len().is_multiple_of(BLOCK),
            "not whole blocks"
        );
        assert!(offset + out.len() as u64 <= self.bytes, "outside of the device");
        let state = self.state.lock();
        for (number, part) in out.chunks_mut(BLOCK).enumerate() {
            let at = offset / BLOCK_BYTES + number as u64;
            let cached = state.cached.get(&at).and_then(|states| states.last());
            match cached.or_else(|| state.durable.get(&at)) {
                Some(block) => part.copy_from_slice(block),
                None => part.fill(0),
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        assert!(
            offset.is_multiple_of(BLOCK_BYTES) && bytes.len().is_multiple_of(BLOCK),
            "not whole blocks"
        );
        assert!(offset + bytes.len() as u64 <= self.bytes, "outside of the device");
        let mut state = self.state.lock();
        let outcome = state.call();
        let count = bytes.len() / BLOCK;
        let done = match outcome {
            Call::Done => count,
            Call::DonePartly => count / 2,
            Call::NotDone => 0,
        };
        for (number, block) in bytes.chunks(BLOCK).take(done).enumerate() {
            let at = offset / BLOCK_BYTES + number as u64;
            state.cached.entry(at).or_default().push(block.to_vec());
        }
        if outcome == Call::Done { Ok(()) } else { Err(self.failure("write to")) }
    }

    fn write_zeroes(&self, offset: u64, bytes: u64) -> Result<()> {
        self.write(offset, &vec![0; bytes as usize])
    }

    fn flush(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.call() != Call::Done {
            return Err(self.failure("flush"));
        }
        for (at, mut states) in std::mem::take(&mut state.cached) {
            state.durable.extend(states.pop().map(|block| (at, block)));
        }
        Ok(())
    }
}
