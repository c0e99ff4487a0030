//! Sequential reads and writes in one closed loop, as with fio's `rwmixread`. Each request is a
//! read with a given probability, and the number of outstanding requests is constant.
//!
//! Both sequences cycle over all dies, each in its own chunks.

use crate::device::sim::Kind;
use crate::device::{Media, ReadPriority, Sim};
use crate::{Chunk, Geometry, Preset};
use esker_base::Rng;

/// Chunks of each die that reads go round in; writes begin behind them.
const READ_CHUNKS: u64 = 8;

/// What is measured. A request is a write unit.
#[derive(Clone, Debug)]
pub struct MixedLoad {
    /// The device.
    pub preset: Preset,
    /// Requests outstanding.
    pub depth: u32,
    /// The part of requests that are reads.
    pub read_share: f64,
    /// Virtual time that is measured, after a tenth of it that is not, in nanoseconds.
    pub measured_ns: u64,
    /// The random seed.
    pub seed: u64,
}

/// What came out, in bytes a second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// Read.
    pub read: f64,
    /// Written.
    pub written: f64,
}

struct Run<'a> {
    mix: &'a MixedLoad,
    sim: Sim,
    geometry: Geometry,
    rng: Rng,
    reads: u64,
    writes: u64,
}

impl MixedLoad {
    /// Runs it. Panics if more is written than the device holds.
    pub fn run(&self) -> Rates {
        let mut media = Media::new(&self.preset, self.seed);
        let geometry = *media.geometry();
        for unit in geometry.all_units() {
            for number in 0..READ_CHUNKS as u16 {
                media.fill(Chunk { unit, number }).expect("no chunk is bad");
            }
        }
        let sim = Sim::with_media(&self.preset, ReadPriority::HostOnly, media);
        let rng = Rng::new(self.seed);
        Run { mix: self, sim, geometry, rng, reads: 0, writes: 0 }.measure()
    }
}

impl Run<'_> {
    fn measure(&mut self) -> Rates {
        (0..self.mix.depth).for_each(|_| self.submit());
        let begin = self.mix.measured_ns / 10;
        let end = begin + self.mix.measured_ns;
        let (mut reads, mut writes) = (0u64, 0u64);
        while self.sim.now() < end {
            let done = self.sim.next_completion().expect("requests are outstanding");
            if done.at > begin {
                reads += u64::from(done.kind == Kind::Read);
                writes += u64::from(done.kind == Kind::Write);
            }
            self.submit();
        }
        let bytes = f64::from(self.geometry.write_unit_bytes) * 1e9 / self.mix.measured_ns as f64;
        Rates { read: reads as f64 * bytes, written: writes as f64 * bytes }
    }

    fn submit(&mut self) {
        let unit_bytes = self.geometry.write_unit_bytes;
        if self.rng.unit() < self.mix.read_share {
            let round = READ_CHUNKS * u64::from(self.geometry.write_units());
            let (chunk, number) = self.place(self.reads % (round * self.geometry.units() as u64));
            self.reads += 1;
            self.sim.read(chunk, number, 0..unit_bytes, 0).expect("it was filled");
        } else {
            let (mut chunk, number) = self.place(self.writes);
            chunk.number += READ_CHUNKS as u16;
            self.writes += 1;
            self.sim.write(chunk, number, 0).expect("there is space");
        }
    }

    /// Where the `n`th write unit of a sequence is stored.
    fn place(&self, n: u64) -> (Chunk, u32) {
        let units = self.geometry.units() as u64;
        let (groups, write_units) =
            (u64::from(self.geometry.groups), u64::from(self.geometry.write_units()));
        let (turn, row) = (n % units, n / units);
        let unit = self.geometry.unit((turn % groups) as usize, (turn / groups) as usize);
        let number = (row / write_units) as u16;
        (Chunk { unit, number }, (row % write_units) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(depth: u32, read_share: f64) -> Rates {
        let preset = Preset::named("samsung-960-pro").unwrap();
        MixedLoad { preset, depth, read_share, measured_ns: 100_000_000, seed: 1 }.run()
    }

    #[test]
    fn pure_rates_are_those_of_the_data_sheet() {
        let (read, written) = (rates(64, 1.0), rates(64, 0.0));
        assert_eq!((read.written, written.read), (0.0, 0.0));
        assert!((read.read / 3.5e9 - 1.0).abs() < 0.02, "{read:?}");
        assert!((written.written / 2.1e9 - 1.0).abs() < 0.02, "{written:?}");
    }

    #[test]
    fn a_mix_is_less_than_the_share_of_either() {
        let mixed = rates(16, 0.5);
        assert!(mixed.read < 0.5 * 3.5e9 && mixed.written < 0.9 * 2.1e9, "{mixed:?}");
        assert!((mixed.read / mixed.written - 1.0).abs() < 0.1, "{mixed:?}");
    }
}
