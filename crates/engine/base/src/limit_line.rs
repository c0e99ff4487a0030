//! The least that updates can cost, for the space that a store takes: the line that engines are held
//! against in the plane of write amplification and space amplification.
//!
//! It is the best of a class of policies, not a proven bound: flushes are merged with each other in
//! stages, at most [`RUNS`](LimitLine::runs) runs waiting at a time, until the obsolete data in a range of
//! the last level, of hotter keys earlier, is worth a rewriting of that range. With
//!
//! ```text
//!   x   updates that a range takes in before it is rewritten, as a part of its size
//!   n   the flushes in that time: x N / M, for N live bytes and memtables of M
//!   m   how often a pair is written on average before the last level, its flush included
//! ```
//!
//! write amplification is `m + skew / x` and space amplification, on average over time, `1 + x / 2`.
//! Ranges are rewritten one by one, so that their phases are spread evenly and the peak of space is
//! little more than its mean. The more space there is, the less the line costs, until flushes that wait
//! longer are merged with each other so much oftener that it costs more again.
//!
//! **Distance.** What a store has written by what the line says for the mean space that it took is its
//! [distance](LimitLine::distance) from the line. All programs that report one ask there: the benches, which
//! know the load, and `esker stats`, which knows only what has become of it. What they put in is:
//!
//! | | benches | `esker stats` |
//! |---|---|---|
//! | live bytes | keys and values of all records | what is live now, as tables hold it |
//! | a memtable | the write buffer that engines were configured with | users' bytes per flush, on average, as tables hold them |
//! | written, for a byte of the user's | by flushes and compactions, load, and compactions until idle | the same since the database was made, by users' bytes as tables hold them |
//! | mean space | sampled while keys are updated | inspected after each flush |
//! | skew | of the load's distribution | 1 |
//!
//! **m.** With at most K runs, `C(i + K, K) - 1` flushes can be merged so that none of them is written
//! more than i times: the flushes that fit in i writes and in no fewer are written i times each.
//!
//! **skew** is `(sum over keys of sqrt(p q))^2`, p a key's part of the updates and q its part of the
//! data: 1 if all are updated alike, and less the more they differ, given that keys are kept apart by
//! their access frequency.

/// Runs above the last level that reads still bear, the smaller ones having longer filters.
pub const RUNS: u32 = 16;

/// The line for one load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LimitLine {
    /// Bytes of all keys and their latest values.
    pub live_bytes: u64,
    /// Bytes of a memtable.
    pub memtable_bytes: u64,
    /// The most runs above the last level.
    pub runs: u32,
    /// How much a division by access frequency can save: 1 is nothing.
    pub skew: f64,
}

impl LimitLine {
    /// The bytes written by flushes and compactions for each byte that users write, of a store that
    /// takes `space_amp` times its live bytes on average. `None` if that is no more than the live
    /// bytes.
    pub fn write_amp(&self, space_amp: f64) -> Option<f64> {
        let absorbed = 2.0 * (space_amp - 1.0);
        if !absorbed.is_finite() || absorbed <= 0.0 {
            return None;
        }
        let flushes = absorbed * self.live_bytes as f64 / self.memtable_bytes as f64;
        Some(self.staged_writes(flushes) + self.skew / absorbed)
    }

    /// How many times the line's writes a store's are that wrote `write_amp` bytes to tables for each byte of
    /// its users, and took `space_amp` times its live bytes on average. `None` if it took no more than those.
    pub fn distance(&self, write_amp: f64, space_amp: f64) -> Option<f64> {
        Some(write_amp / self.write_amp(space_amp)?)
    }

    /// How often each of so many flushes is written on average before the last level, its own writing
    /// included. Of less than one flush there is still that.
    fn staged_writes(&self, flushes: f64) -> f64 {
        let flushes = flushes.max(1.0);
        let (mut writes, mut fitting, mut sum) = (0.0, 0.0, 0.0);
        // C(i + K, K), i being `writes`.
        let mut ways = 1.0;
        while fitting < flushes {
            writes += 1.0;
            ways *= (writes + f64::from(self.runs)) / writes;
            let more = (ways - 1.0).min(flushes);
            sum += writes * (more - fitting);
            fitting = more;
        }
        sum / flushes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty gigabytes over memtables of 128 MB, with so many runs.
    fn line(runs: u32, skew: f64) -> LimitLine {
        LimitLine { live_bytes: 20 << 30, memtable_bytes: 128 << 20, runs, skew }
    }

    #[test]
    fn flushes_that_fit_in_so_many_writes_are_counted_by_hand() {
        let line = line(2, 1.0);
        // Two runs: 2 flushes are written once each, 3 more twice, 4 more three times.
        let expected = [(1.0, 1.0), (2.0, 1.0), (5.0, 8.0 / 5.0), (9.0, 20.0 / 9.0)];
        for (flushes, writes) in expected {
            let found = line.staged_writes(flushes);
            assert!((found - writes).abs() < 1e-12, "{flushes}: {found}");
        }
    }

    #[test]
    fn space_saves_writes_until_what_waits_is_merged_too_often() {
        let cost = |space| line(RUNS, 1.0).write_amp(space).unwrap();
        let costs = [1.05, 1.1, 1.2, 1.5].map(cost);
        assert!(costs.is_sorted_by(|more, less| more > less), "{costs:?}");
        assert!(cost(3.0) > cost(1.8));
    }

    #[test]
    fn no_space_above_the_live_bytes_is_beyond_the_line() {
        for space in [1.0, 0.9, f64::NAN, f64::INFINITY] {
            assert_eq!(line(RUNS, 1.0).write_amp(space), None, "{space}");
        }
    }

    #[test]
    fn the_distance_is_by_the_line_s_writes_in_as_much_space() {
        let line = line(RUNS, 1.0);
        let least = line.write_amp(1.2).unwrap();
        assert_eq!(line.distance(1.5 * least, 1.2), Some(1.5));
        assert_eq!(line.distance(5.0, 1.0), None);
    }

    #[test]
    fn a_store_of_one_memtable_is_flushed_at_least() {
        let line = LimitLine { memtable_bytes: 64 << 30, ..line(RUNS, 1.0) };
        assert_eq!(line.write_amp(1.5), Some(2.0));
    }
}
