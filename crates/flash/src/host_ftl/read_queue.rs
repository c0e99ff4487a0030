//! Reads that wait for a command slot of the device. The policy chooses which is sent next
//! ([`ReadScheduling`]).

use crate::placement::{ExpectedWork, READ_LATE_NS, ReadScheduling, UnitForecast};
use crate::{Chunk, Preset, ReadPriority};
use std::collections::VecDeque;
use std::ops::Range;

/// A read that is not sent.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) chunk: Chunk,
    pub(crate) number: u32,
    pub(crate) part: Range<u32>,
    pub(crate) tag: u32,
    /// When it came.
    pub(crate) since: u64,
}

/// The slots, and what waits for them, by unit.
#[derive(Debug)]
pub(crate) struct Reads {
    // Constant after construction.
    slots: usize,
    reading: ReadScheduling,
    // What changes.
    sent: usize,
    waiting: usize,
    queues: Vec<VecDeque<Read>>,
    pub(crate) forecast: UnitForecast,
}

impl Reads {
    /// Of a device of this kind that takes so many reads at a time.
    pub(crate) fn new(
        preset: &Preset,
        form: ReadPriority,
        reading: ReadScheduling,
        slots: usize,
    ) -> Self {
        let units = preset.geometry().units();
        let waits = |ns| if form == ReadPriority::HostOnly { ns } else { 0 };
        let expected = ExpectedWork {
            read_ns: preset.read_sector_ns(),
            write_ns: waits(preset.write_unit_ns()),
            reset_ns: waits(preset.timing.erase_ns.value),
        };
        let (forecast, queues) = (UnitForecast::new(units, expected), vec![VecDeque::new(); units]);
        Reads { slots: slots.max(1), reading, sent: 0, waiting: 0, queues, forecast }
    }

    pub(crate) fn push(&mut self, read: Read) {
        self.waiting += 1;
        self.queues[usize::from(read.chunk.unit.0)].push_back(read);
    }

    /// The read that is to be sent now, if there is a slot. It has the slot until it is [`done`](Reads::done).
    pub(crate) fn next(&mut self, now: u64) -> Option<Read> {
        if self.waiting == 0 || self.sent == self.slots {
            return None;
        }
        let first = |(unit, queue): (usize, &VecDeque<Read>)| Some((unit, queue.front()?.since));
        let firsts = self.queues.iter().enumerate().filter_map(first);
        let free_at = |unit: usize, since: u64| match self.reading {
            ReadScheduling::ByFreeTime if now - since <= READ_LATE_NS => {
                self.forecast.free_at(unit, now)
            }
            // Before any that is still to be free.
            _ => 0,
        };
        let (unit, _) = firsts.min_by_key(|(unit, since)| (free_at(*unit, *since), *since))?;
        (self.waiting, self.sent) = (self.waiting - 1, self.sent + 1);
        self.forecast.read_sent(unit);
        self.queues[unit].pop_front()
    }

    /// A read was answered.
    pub(crate) fn done(&mut self, unit: usize) {
        self.sent -= 1;
        self.forecast.read_done(unit);
    }

    /// Whether a read of a chunk waits, so that it may not be reset.
    pub(crate) fn has(&self, chunk: Chunk) -> bool {
        self.waiting > 0
            && self.queues[usize::from(chunk.unit.0)].iter().any(|read| read.chunk == chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;

    fn reads(reading: ReadScheduling, form: ReadPriority, slots: usize) -> Reads {
        Reads::new(&Preset::named("cnex-mlc").unwrap(), form, reading, slots)
    }

    fn read(unit: u16, since: u64) -> Read {
        let chunk = Chunk { unit: Unit(unit), number: 0 };
        Read { chunk, number: 0, part: 0..4_096, tag: 0, since }
    }

    /// The units of what is sent at one point in time, one after the other.
    fn sent(reads: &mut Reads, now: u64) -> Vec<u16> {
        std::iter::from_fn(|| reads.next(now)).map(|read| read.chunk.unit.0).collect()
    }

    #[test]
    fn a_device_has_no_more_reads_at_a_time_than_it_has_slots() {
        for reading in [ReadScheduling::InOrder, ReadScheduling::ByFreeTime] {
            let mut reads = reads(reading, ReadPriority::HostOnly, 2);
            (0..5).for_each(|unit| reads.push(read(unit, 0)));
            assert_eq!(sent(&mut reads, 0).len(), 2);
            reads.done(0);
            assert_eq!(sent(&mut reads, 0).len(), 1);
        }
    }

    #[test]
    fn reads_go_to_the_units_that_are_free_soonest_or_as_they_came() {
        let of = |reading| {
            let mut reads = reads(reading, ReadPriority::HostOnly, 4);
            reads.forecast.write_sent(3, 0);
            [(3, 0), (5, 1), (5, 2), (7, 3)]
                .iter()
                .for_each(|(unit, at)| reads.push(read(*unit, *at)));
            sent(&mut reads, 4)
        };
        assert_eq!(of(ReadScheduling::ByFreeTime), [5, 7, 5, 3]);
        assert_eq!(of(ReadScheduling::InOrder), [3, 5, 5, 7]);
    }

    #[test]
    fn a_read_that_is_late_is_sent_whatever_its_unit_does() {
        let mut reads = reads(ReadScheduling::ByFreeTime, ReadPriority::HostOnly, 1);
        reads.forecast.reset_sent(3, 0);
        [(3, 0), (5, 1)].iter().for_each(|(unit, at)| reads.push(read(*unit, *at)));
        assert_eq!(sent(&mut reads, READ_LATE_NS + 1), [3]);
    }

    #[test]
    fn writes_that_give_way_put_no_read_off() {
        let mut reads = reads(ReadScheduling::ByFreeTime, ReadPriority::Suspend(15_000), 2);
        reads.forecast.write_sent(3, 0);
        [(3, 0), (5, 1)].iter().for_each(|(unit, at)| reads.push(read(*unit, *at)));
        assert_eq!(sent(&mut reads, 2), [3, 5]);
    }
}
