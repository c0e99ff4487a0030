//! Admission control: throttles writers while writes slow down reads too much.
//!
//! In a closed loop, reads lose throughput in proportion to the fraction of them that waits at
//! units being written. Each time a writer asks for buffer space, this fraction is checked. If
//! reads leave half of the units idle, they lose nothing, and the writer is admitted. A writer is
//! admitted after its deadline in any case, so writes are slowed down but never starve.

use crate::ReadPriority;

/// The load when a writer asks to write one more write unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadPressure {
    /// Units of the device.
    pub units: u64,
    /// Reads that are not answered.
    pub reads: u64,
    /// Those of them at units that have writes or resets to do.
    pub reads_behind_writes: u64,
    /// Write units that were let in and are not sent.
    pub waiting: u64,
    /// How long the writer has waited already, in nanoseconds.
    pub held_ns: u64,
}

/// The limits of throttling.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WriteAdmission {
    /// The part of reads that may wait behind writes.
    behind_most: f64,
    /// The longest wait of a writer for one write unit, in nanoseconds.
    deadline_ns: u64,
}

impl WriteAdmission {
    /// Of a device of this form: where programs give way to reads, these wait behind none.
    pub(super) fn of(form: ReadPriority) -> Option<WriteAdmission> {
        (form == ReadPriority::HostOnly).then(WriteAdmission::default)
    }
}

impl Default for WriteAdmission {
    /// A quarter of reads behind writes, and five program times of the open-channel preset. The
    /// target is that reads lose 24% if writes use 12.5% of the dies' time; there no writer is
    /// throttled.
    fn default() -> Self {
        WriteAdmission { behind_most: 0.25, deadline_ns: 5_000_000 }
    }
}

impl WriteAdmission {
    /// Whether a writer may write now.
    pub fn admits(&self, pressure: &ReadPressure) -> bool {
        let ReadPressure { units, reads, reads_behind_writes, waiting, held_ns } = *pressure;
        let leaves_units_idle = 2 * reads < units;
        let is_hidden = reads_behind_writes as f64 <= self.behind_most * reads as f64;
        // What was let in and waits goes before reads once it is late.
        let is_hidden = is_hidden && waiting <= units;
        held_ns >= self.deadline_ns || leaves_units_idle || is_hidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: ReadPressure =
        ReadPressure { units: 16, reads: 60, reads_behind_writes: 30, waiting: 0, held_ns: 0 };

    fn admits(pressure: ReadPressure) -> bool {
        WriteAdmission::default().admits(&pressure)
    }

    #[test]
    fn writers_are_held_back_while_many_reads_wait_behind_writes() {
        assert!(!admits(BUSY));
        assert!(!admits(ReadPressure { reads_behind_writes: 16, ..BUSY }));
        assert!(admits(ReadPressure { reads_behind_writes: 15, ..BUSY }));
    }

    #[test]
    fn writers_are_held_back_while_more_than_one_write_a_unit_waits() {
        let hidden = ReadPressure { reads_behind_writes: 0, ..BUSY };
        assert!(admits(ReadPressure { waiting: 16, ..hidden }));
        assert!(!admits(ReadPressure { waiting: 17, ..hidden }));
    }

    #[test]
    fn writes_never_starve() {
        let WriteAdmission { deadline_ns, .. } = WriteAdmission::default();
        let worst = ReadPressure { reads_behind_writes: BUSY.reads, ..BUSY };
        assert!(!admits(ReadPressure { held_ns: deadline_ns - 1, ..worst }));
        assert!(admits(ReadPressure { held_ns: deadline_ns, ..worst }));
    }

    #[test]
    fn few_reads_hold_nobody_back() {
        assert!(admits(ReadPressure { reads: 7, reads_behind_writes: 7, ..BUSY }));
        assert!(admits(ReadPressure { reads: 0, reads_behind_writes: 0, ..BUSY }));
    }
}
