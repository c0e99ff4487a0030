//! One direction of a link, which all connections share: when what is put on it is there at the other end.

use std::collections::VecDeque;
use std::time::Duration;

/// Payload of a TCP segment in a frame of 1,500 bytes: 20 bytes of IP, 20 of TCP and 12 of its timestamps less.
const SEGMENT_BYTES: u64 = 1_448;

/// What a frame has in addition to the payload: the headers above; Ethernet's header and check sum (18), preamble and start (8), and the gap
/// to the next (12): IEEE 802.3, clauses 3 and 4.
const FRAME_BYTES: u64 = 52 + 18 + 8 + 12;

/// The link, and what is on it.
pub struct Wire {
    /// `None` is a wire that takes no time.
    bits_per_second: Option<u64>,
    delay: Duration,
    /// When the last piece so far has left the sender.
    free_at: Duration,
    /// In the order in which they arrive, which is that in which they were sent.
    under_way: VecDeque<Piece>,
}

/// Bytes of a connection that travel together: they are there when the last of them is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    pub connection: u64,
    /// 0 is the end of what the connection sends.
    pub bytes: usize,
    due: Duration,
}

impl Wire {
    /// One that delivers at once.
    pub fn ideal() -> Self {
        let (delay, free_at) = (Duration::ZERO, Duration::ZERO);
        Wire { bits_per_second: None, delay, free_at, under_way: VecDeque::new() }
    }

    pub fn new(bits_per_second: u64, delay: Duration) -> Self {
        Wire { bits_per_second: Some(bits_per_second), delay, ..Wire::ideal() }
    }

    /// Puts bytes of a connection on the wire, behind all that are on it.
    pub fn send(&mut self, now: Duration, connection: u64, bytes: usize) {
        self.free_at = self.free_at.max(now) + self.time_of(bytes as u64);
        let due = self.free_at + self.delay;
        self.under_way.push_back(Piece { connection, bytes, due });
    }

    /// The time that so many bytes of payload take on the wire.
    fn time_of(&self, bytes: u64) -> Duration {
        let Some(bits_per_second) = self.bits_per_second else { return Duration::ZERO };
        let frames = bytes.div_ceil(SEGMENT_BYTES).max(1);
        let bits = 8 * (bytes + frames * FRAME_BYTES);
        Duration::from_nanos(bits * 1_000_000_000 / bits_per_second)
    }

    /// The next piece that is there by now.
    pub fn receive(&mut self, now: Duration) -> Option<Piece> {
        self.next_due().filter(|due| *due <= now)?;
        self.under_way.pop_front()
    }

    /// When the next piece is there.
    pub fn next_due(&self) -> Option<Duration> {
        self.under_way.front().map(|piece| piece.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_micros(10);

    fn wire() -> Wire {
        Wire::new(10_000_000_000, DELAY)
    }

    fn nanos(nanos: u64) -> Duration {
        Duration::from_nanos(nanos)
    }

    #[test]
    fn a_piece_arrives_after_its_time_on_the_wire_and_the_delay() {
        let mut wire = wire();
        wire.send(Duration::ZERO, 1, 1_448);
        // 1,538 bytes at 1.25 GB/s.
        assert_eq!(wire.next_due(), Some(nanos(1_230) + DELAY));
        assert_eq!(wire.receive(nanos(1_229) + DELAY), None);
        assert_eq!(wire.receive(nanos(1_230) + DELAY).unwrap().bytes, 1_448);
        assert_eq!(wire.next_due(), None);
    }

    #[test]
    fn connections_share_the_wire_and_keep_their_order() {
        let mut wire = wire();
        wire.send(Duration::ZERO, 1, 1_448);
        wire.send(Duration::ZERO, 2, 1_448);
        wire.send(nanos(100), 1, 1_448);
        let at = |count: u64| nanos(1_230 * count) + DELAY;
        for (count, connection) in [(1u64, 1u64), (2, 2), (3, 1)] {
            assert_eq!(wire.next_due(), Some(at(count)), "the delay is of each, the wire of all");
            assert_eq!(wire.receive(at(count)).unwrap().connection, connection);
        }
    }

    #[test]
    fn no_more_than_the_payload_of_full_frames_goes_over_in_a_second() {
        let mut wire = wire();
        let (mut sent, piece) = (0, 64 << 10);
        while wire.free_at < Duration::from_secs(1) {
            wire.send(Duration::ZERO, 1, piece);
            sent += piece;
        }
        let share = 8.0 * sent as f64 / 10e9;
        assert!((0.93..0.9416).contains(&share), "{share}");
    }

    #[test]
    fn a_wire_that_was_idle_does_not_make_up_for_it() {
        let mut wire = wire();
        wire.send(Duration::from_secs(1), 1, 1_448);
        assert_eq!(wire.next_due(), Some(Duration::from_secs(1) + nanos(1_230) + DELAY));
    }

    #[test]
    fn an_ideal_wire_delivers_at_once() {
        let mut wire = Wire::ideal();
        wire.send(nanos(5), 7, 1 << 20);
        assert_eq!(wire.receive(nanos(5)).map(|piece| piece.connection), Some(7));
    }
}
