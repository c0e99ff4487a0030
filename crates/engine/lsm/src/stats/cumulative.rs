//! What a database has cost since it was made: the figures that are kept across opens.
//!
//! The sums are in the manifest, and every edit that changes tables carries them along, so they cost
//! no sync of their own. What users wrote and what the log took of it are counted when their MemTable
//! is flushed, in the edit that adds its tables: a crash neither loses nor doubles them. Table reads,
//! and inspects space, since the last such edit are lost in a crash, or by a process that only reads.

use super::reclaim_accuracy::ReclaimAccuracy;
use super::table_reads::TableReadStats;
use esker_base::coding::{put_varint64, take_varint64};
use parking_lot::Mutex;
use std::time::Duration;

/// Totals since the database was created. They are stored in the manifest and survive reopening.
///
/// Bytes of users and of the log are added when their MemTable is flushed, so a crash neither loses
/// nor repeats them. A crash loses the table reads and space samples since the last flush or
/// compaction.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CumulativeStats {
    /// Bytes of keys and values that users wrote, without those not yet flushed.
    pub user_bytes: u64,
    /// Bytes that the log used for them.
    pub log_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes that flushes wrote to tables.
    pub flush_bytes: u64,
    /// Compactions, without trivial moves.
    pub compactions: u64,
    /// Bytes that compactions read.
    pub compaction_read_bytes: u64,
    /// Bytes that compactions wrote.
    pub compaction_bytes: u64,
    /// Bytes that compactions were expected to free.
    pub predicted_reclaim_bytes: u64,
    /// Compactions whose estimate was within 10% of the bytes they freed.
    pub reclaims_within_tenth: u64,
    /// Point reads that reached tables, and their cost there.
    pub table_gets: TableReadStats,
    /// Samples of the space amplification.
    pub space: SpaceAmpSamples,
    /// The accuracy of the estimates for compactions. Compactions by releases that did not record
    /// it are missing.
    pub reclaim_errors: ReclaimAccuracy,
    /// The segment size of the process that wrote tables last, in bytes. This is not a total.
    ///
    /// 0 if no tables were written, or by a release that did not record it.
    pub segment_bytes: u64,
    /// Time that writers were throttled or stalled, in microseconds, summed over all writers.
    ///
    /// Stalls since the last flush are lost in a crash, and those of releases that did not record
    /// them are missing.
    pub stalled_us: u64,
}

/// Samples of the space amplification, one after each flush.
///
/// Space amplification is the bytes of table files per byte that a full compaction would keep.
/// Unfinished files and obsolete files that are still being read are included. What snapshots pin
/// is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SpaceAmpSamples {
    /// The number of samples.
    pub looks: u64,
    /// The sum of the samples, in thousandths.
    pub amp_sum_thousandths: u64,
    /// The highest space amplification, in thousandths, at the peak of the file sizes between two
    /// samples.
    pub amp_peak_thousandths: u64,
    /// The peak of the bytes of table files.
    pub bytes_peak: u64,
}

impl SpaceAmpSamples {
    /// Returns one sample.
    ///
    /// Table files use `bytes` now, and used `bytes_peak` at the peak since the last sample. Of
    /// these, `live_bytes` are live, and snapshots pin `pinned_bytes`. Without live data, only the
    /// peak is recorded.
    pub fn look(bytes: u64, bytes_peak: u64, live_bytes: f64, pinned_bytes: f64) -> Self {
        if live_bytes < 1.0 {
            return SpaceAmpSamples { bytes_peak, ..SpaceAmpSamples::default() };
        }
        let amp = |bytes: u64| ((bytes as f64 - pinned_bytes) / live_bytes * 1e3).max(0.0) as u64;
        SpaceAmpSamples {
            looks: 1,
            amp_sum_thousandths: amp(bytes),
            amp_peak_thousandths: amp(bytes_peak),
            bytes_peak,
        }
    }

    /// Returns the mean space amplification of all samples, or `None` without samples.
    pub fn amp_mean(&self) -> Option<f64> {
        let mean = || self.amp_sum_thousandths as f64 / 1e3 / self.looks as f64;
        (self.looks > 0).then(mean)
    }

    /// Returns the highest space amplification, or `None` without samples.
    pub fn amp_peak(&self) -> Option<f64> {
        (self.looks > 0).then_some(self.amp_peak_thousandths as f64 / 1e3)
    }
}

impl CumulativeStats {
    /// Returns `bytes`, a part of what was written, per byte that users wrote. `None` before the
    /// first flush.
    pub fn write_amp(&self, bytes: u64) -> Option<f64> {
        (self.user_bytes > 0).then(|| bytes as f64 / self.user_bytes as f64)
    }

    /// Returns the bytes written to tables. Table lifetimes are measured in these.
    pub fn table_bytes(&self) -> u64 {
        self.flush_bytes + self.compaction_bytes
    }

    /// Returns the bytes that compactions freed.
    pub fn reclaimed_bytes(&self) -> u64 {
        self.compaction_read_bytes.saturating_sub(self.compaction_bytes)
    }

    /// Adds the totals of `more`. Of peaks, keeps the higher one.
    pub fn add(&mut self, mut more: CumulativeStats) {
        let peaks = (
            self.space.amp_peak_thousandths.max(more.space.amp_peak_thousandths),
            self.space.bytes_peak.max(more.space.bytes_peak),
        );
        let segment_bytes = [more.segment_bytes, self.segment_bytes];
        self.figures().zip(more.figures()).for_each(|(sum, more)| *sum += *more);
        self.segment_bytes = segment_bytes.into_iter().find(|&bytes| bytes > 0).unwrap_or(0);
        (self.space.amp_peak_thousandths, self.space.bytes_peak) = peaks;
    }

    /// The account as bytes: its figures, a varint each.
    pub(crate) fn encode(mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.figures().for_each(|figure| put_varint64(&mut out, *figure));
        out
    }

    /// Reads what [`CumulativeStats::encode`] wrote, here or in another version: figures that are not there are
    /// 0, and what follows those known here is left. `None` if the bytes are something else.
    pub(crate) fn decode(mut input: &[u8]) -> Option<CumulativeStats> {
        let mut account = CumulativeStats::default();
        for figure in account.figures() {
            if input.is_empty() {
                break;
            }
            *figure = take_varint64(&mut input)?;
        }
        Some(account)
    }

    /// All figures, in the order of the format. New ones come last.
    fn figures(&mut self) -> impl Iterator<Item = &mut u64> {
        let (gets, space) = (&mut self.table_gets, &mut self.space);
        [
            &mut self.user_bytes,
            &mut self.log_bytes,
            &mut self.flushes,
            &mut self.flush_bytes,
            &mut self.compactions,
            &mut self.compaction_read_bytes,
            &mut self.compaction_bytes,
            &mut self.predicted_reclaim_bytes,
            &mut self.reclaims_within_tenth,
            &mut gets.hits,
            &mut gets.hit_reads,
            &mut gets.misses,
            &mut gets.miss_reads,
            &mut space.looks,
            &mut space.amp_sum_thousandths,
            &mut space.amp_peak_thousandths,
            &mut space.bytes_peak,
        ]
        .into_iter()
        .chain(self.reclaim_errors.figures())
        .chain([&mut gets.runs, &mut gets.blocks, &mut gets.block_bytes])
        .chain([&mut self.segment_bytes, &mut self.stalled_us])
    }
}

/// What was counted and is not in the manifest yet.
#[derive(Default)]
pub(crate) struct UnpersistedStats(Mutex<PendingStats>);

#[derive(Default)]
struct PendingStats {
    account: CumulativeStats,
    /// Up to here, table reads are accounted for.
    gets: TableReadStats,
    /// Up to here, stalls are.
    stalled: Duration,
}

impl UnpersistedStats {
    /// Notes what something has cost.
    pub(crate) fn spent(&self, cost: CumulativeStats) {
        self.0.lock().account.add(cost);
    }

    /// Notes an inspection of space.
    pub(crate) fn look(&self, space: SpaceAmpSamples) {
        self.0.lock().account.add(CumulativeStats { space, ..CumulativeStats::default() });
    }

    /// Notes that writers have waited for `stalled` since the open.
    pub(crate) fn stalled(&self, stalled: Duration) {
        let mut pending = self.0.lock();
        // Whole microseconds, so that no rest of one is lost.
        let stalled = Duration::from_micros(stalled.as_micros() as u64);
        let more = stalled.saturating_sub(pending.stalled);
        pending.account.stalled_us += more.as_micros() as u64;
        pending.stalled += more;
    }

    /// What there is, table reads up to `gets` included.
    pub(crate) fn peek(&self, gets: TableReadStats) -> CumulativeStats {
        let pending = self.0.lock();
        let mut account = pending.account;
        account.add(CumulativeStats {
            table_gets: gets.since(pending.gets),
            ..CumulativeStats::default()
        });
        account
    }

    /// The same, for an edit that is about to be written.
    pub(crate) fn take(&self, gets: TableReadStats) -> CumulativeStats {
        let account = self.peek(gets);
        let mut pending = self.0.lock();
        *pending =
            PendingStats { account: CumulativeStats::default(), gets, stalled: pending.stalled };
        account
    }

    /// Takes back what was for an edit that failed.
    pub(crate) fn put_back(&self, account: CumulativeStats) {
        self.0.lock().account.add(account);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An account in which no two figures are alike.
    pub(crate) fn sample_account() -> CumulativeStats {
        let mut account = CumulativeStats::default();
        (100..).zip(account.figures()).for_each(|(n, figure)| *figure = n);
        account
    }

    #[test]
    fn sums_are_added_and_of_peaks_the_higher_stays() {
        let mut account = sample_account();
        let lower = SpaceAmpSamples::look(500, 700, 500.0, 0.0);
        account.add(CumulativeStats { user_bytes: 7, space: lower, ..CumulativeStats::default() });
        assert_eq!((account.user_bytes, account.log_bytes), (107, 101));
        assert_eq!(account.space.looks, 114);
        assert_eq!((account.space.amp_peak_thousandths, account.space.bytes_peak), (1400, 700));
        account.add(CumulativeStats::default());
        assert_eq!((account.space.amp_peak_thousandths, account.space.bytes_peak), (1400, 700));
    }

    #[test]
    fn of_segments_the_last_size_stays() {
        let of = |segment_bytes| CumulativeStats { segment_bytes, ..CumulativeStats::default() };
        let mut account = of(64);
        account.add(CumulativeStats::default());
        assert_eq!(account, of(64));
        account.add(of(16));
        assert_eq!(account, of(16));
    }

    #[test]
    fn space_amplification_leaves_out_what_snapshots_pin() {
        let mut seen = CumulativeStats::default();
        for bytes in [1500, 2500] {
            let space = SpaceAmpSamples::look(bytes, 3000, 1000.0, 500.0);
            seen.add(CumulativeStats { space, ..CumulativeStats::default() });
        }
        assert_eq!((seen.space.amp_mean(), seen.space.amp_peak()), (Some(1.5), Some(2.5)));
        assert_eq!(SpaceAmpSamples::look(900, 1000, 0.0, 0.0).amp_mean(), None);
    }

    #[test]
    fn accounts_of_other_versions_are_read_as_far_as_they_are_known() {
        let (account, mut bytes) = (sample_account(), sample_account().encode());
        assert_eq!(CumulativeStats::decode(&bytes), Some(account));
        assert_eq!(CumulativeStats::decode(&bytes[..2]).unwrap().log_bytes, 101);
        assert_eq!(CumulativeStats::decode(&bytes[..2]).unwrap().flushes, 0);
        bytes.extend([1, 2, 3]);
        assert_eq!(CumulativeStats::decode(&bytes), Some(account));
        assert_eq!(CumulativeStats::decode(&[0xff]), None);
    }

    #[test]
    fn what_an_edit_took_is_not_taken_again_unless_the_edit_failed() {
        let unwritten = UnpersistedStats::default();
        let gets = |hits| TableReadStats { hits, ..TableReadStats::default() };
        unwritten.look(SpaceAmpSamples::look(1, 1, 1.0, 0.0));
        let taken = unwritten.take(gets(5));
        assert_eq!((taken.table_gets.hits, taken.space.looks), (5, 1));
        assert_eq!(unwritten.peek(gets(5)), CumulativeStats::default());
        unwritten.put_back(taken);
        let taken = unwritten.take(gets(8));
        assert_eq!((taken.table_gets.hits, taken.space.looks), (8, 1));
    }

    #[test]
    fn a_stall_is_counted_once_whatever_edits_took_before() {
        let unwritten = UnpersistedStats::default();
        let stalled = |micros: u64| {
            unwritten.stalled(Duration::from_nanos(micros * 1000 + 700));
            unwritten.take(TableReadStats::default()).stalled_us
        };
        assert_eq!([5, 5, 12].map(stalled), [5, 0, 7]);
        unwritten.put_back(CumulativeStats { stalled_us: 12, ..CumulativeStats::default() });
        assert_eq!(stalled(13), 13);
    }
}
