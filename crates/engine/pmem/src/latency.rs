//! Injected latency, for experiments on how a slower medium would change things. An emulation: it
//! shows how sensitive an engine is, not what a product would do.

use crate::domain::Domain;
use crate::region::{FRAME_HEADER_BYTES, LINE_BYTES, Region};
use esker_base::Clock;
use std::sync::Arc;
use std::time::Duration;

/// How much longer things take.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct InjectedLatency {
    /// For each cache line of what is read as one piece, if the reader says so by [`Region::before_read`].
    pub line_read: Duration,
    /// For each cache line stored.
    pub line_write: Duration,
    /// For each fence.
    pub fence: Duration,
}

/// A region whose latencies are longer by busy waiting, so `clock` must go on by itself.
pub struct LatencyRegion {
    inner: Arc<dyn Region>,
    delays: InjectedLatency,
    clock: Arc<dyn Clock>,
}

impl LatencyRegion {
    /// `inner`, made slower.
    pub fn new(
        inner: Arc<dyn Region>,
        delays: InjectedLatency,
        clock: Arc<dyn Clock>,
    ) -> LatencyRegion {
        LatencyRegion { inner, delays, clock }
    }

    /// Waits without giving the processor away, as a load or a fence would.
    fn wait(&self, duration: Duration) {
        if !duration.is_zero() {
            let end = self.clock.now() + duration;
            while self.clock.now() < end {
                std::hint::spin_loop();
            }
        }
    }

    fn wait_for_lines(&self, each: Duration, bytes: usize) {
        self.wait(each * bytes.div_ceil(LINE_BYTES) as u32);
    }
}

// SAFETY: all memory and all stores are the inner region's.
unsafe impl Region for LatencyRegion {
    fn base(&self) -> *mut u8 {
        self.inner.base()
    }

    fn len(&self) -> usize {
        self.inner.len()
    }

    fn domain(&self) -> Domain {
        self.inner.domain()
    }

    fn describe_ways(&self) -> Option<String> {
        self.inner.describe_ways()
    }

    fn writable(&self) -> bool {
        self.inner.writable()
    }

    unsafe fn write(&self, at: usize, bytes: &[u8]) {
        self.wait_for_lines(self.delays.line_write, bytes.len());
        // SAFETY: the caller's.
        unsafe { self.inner.write(at, bytes) };
    }

    unsafe fn write_frame(
        &self,
        at: usize,
        header: &[u8; FRAME_HEADER_BYTES],
        entries: &[u8],
        whole: usize,
    ) {
        self.wait_for_lines(self.delays.line_write, whole);
        // SAFETY: the caller's.
        unsafe { self.inner.write_frame(at, header, entries, whole) };
    }

    unsafe fn store_word(&self, at: usize, word: u64) {
        self.wait(self.delays.line_write);
        // SAFETY: the caller's.
        unsafe { self.inner.store_word(at, word) };
    }

    fn fence(&self) {
        self.inner.fence();
        self.wait(self.delays.fence);
    }

    unsafe fn fault_in(&self, at: usize, bytes: usize) -> std::io::Result<()> {
        // SAFETY: the caller's.
        unsafe { self.inner.fault_in(at, bytes) }
    }

    fn expect(&self, at: usize, bytes: usize) -> std::io::Result<()> {
        self.inner.expect(at, bytes)
    }

    fn read_safely(&self, at: usize, out: &mut [u8]) -> Option<std::io::Result<()>> {
        self.inner.read_safely(at, out)
    }

    fn delays_reads(&self) -> bool {
        !self.delays.line_read.is_zero()
    }

    fn before_read(&self, bytes: usize) {
        self.wait_for_lines(self.delays.line_read, bytes);
    }
}
