//! Chooses the next read to send when the device accepts fewer commands than there are reads.
//!
//! On flash that the host manages, the host knows what it sent to each unit and how long each
//! command takes. [`UnitForecast`] estimates from this when a unit becomes idle. The read with the
//! earliest expected completion goes first.
//!
//! A read queued behind a program would occupy a slot for the whole program. A second read of the
//! same unit would occupy one for as long as the first read.

/// In which order reads are sent that wait for a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadScheduling {
    /// As they came.
    InOrder,
    /// Those of the unit that will be free soonest, and before them, as they came, those that waited for
    /// [`READ_LATE_NS`].
    ByFreeTime,
}

/// How long a read is put off at the most. Of 300 us, 500 us, 1 ms and 2.5 ms: the longer, the more reads a second and
/// the later the last in a thousand.
pub const READ_LATE_NS: u64 = 500_000;

/// How long a unit takes for what is sent to it, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExpectedWork {
    /// A read.
    pub(crate) read_ns: u64,
    /// A write unit and a reset, as far as reads wait for them: not at all where these give way.
    pub(crate) write_ns: u64,
    pub(crate) reset_ns: u64,
}

/// When units will have done what was sent to them.
#[derive(Debug)]
pub(crate) struct UnitForecast {
    expected: ExpectedWork,
    units: Vec<Sent>,
}

/// What a unit was sent.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    reads: u32,
    /// When writes and resets complete. A buffer may answer earlier, so answers are not used.
    changed_at: u64,
}

impl UnitForecast {
    pub(crate) fn new(units: usize, expected: ExpectedWork) -> Self {
        UnitForecast { expected, units: vec![Sent::default(); units] }
    }

    pub(crate) fn read_sent(&mut self, unit: usize) {
        self.units[unit].reads += 1;
    }

    pub(crate) fn read_done(&mut self, unit: usize) {
        self.units[unit].reads -= 1;
    }

    pub(crate) fn write_sent(&mut self, unit: usize, now: u64) {
        self.change_sent(unit, now, self.expected.write_ns);
    }

    pub(crate) fn reset_sent(&mut self, unit: usize, now: u64) {
        self.change_sent(unit, now, self.expected.reset_ns);
    }

    fn change_sent(&mut self, unit: usize, now: u64, takes_ns: u64) {
        if takes_ns > 0 {
            let sent = &mut self.units[unit];
            sent.changed_at = sent.changed_at.max(now) + takes_ns;
        }
    }

    /// When a unit will have done all that it was sent.
    pub(crate) fn free_at(&self, unit: usize, now: u64) -> u64 {
        let Sent { reads, changed_at } = self.units[unit];
        changed_at.max(now) + u64::from(reads) * self.expected.read_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forecast() -> UnitForecast {
        UnitForecast::new(2, ExpectedWork { read_ns: 7, write_ns: 100, reset_ns: 300 })
    }

    #[test]
    fn a_unit_is_free_when_it_has_done_what_it_was_sent() {
        let mut forecast = forecast();
        forecast.read_sent(0);
        forecast.write_sent(0, 1_000);
        forecast.reset_sent(0, 1_000);
        assert_eq!([0, 1].map(|unit| forecast.free_at(unit, 1_000)), [1_407, 1_000]);
    }

    #[test]
    fn what_is_acknowledged_before_it_is_programmed_keeps_its_unit_busy_all_the_same() {
        let mut forecast = forecast();
        [0, 0].into_iter().for_each(|now| forecast.write_sent(0, now));
        assert_eq!([50, 199, 250].map(|now| forecast.free_at(0, now)), [200, 200, 250]);
    }

    #[test]
    fn reads_that_were_answered_keep_no_unit_busy() {
        let mut forecast = forecast();
        forecast.read_sent(1);
        forecast.read_sent(1);
        forecast.read_done(1);
        assert_eq!(forecast.free_at(1, 5), 12);
    }

    #[test]
    fn reads_do_not_wait_for_writes_that_give_way() {
        let mut forecast =
            UnitForecast::new(1, ExpectedWork { read_ns: 7, ..ExpectedWork::default() });
        forecast.read_sent(0);
        forecast.write_sent(0, 10);
        assert_eq!(forecast.free_at(0, 10), 17);
    }
}
