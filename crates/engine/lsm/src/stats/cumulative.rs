//! What a database has cost since it was made: the figures that are kept across opens.
//!
//! The sums stand in the manifest, and every edit that changes tables carries them along, so they cost
//! no sync of their own. What users wrote and what the log took of it are counted when their MemTable
//! is flushed, in the edit that adds its tables: a crash neither loses nor doubles them. Table reads,
//! and looks at space, since the last such edit are lost in a crash, or by a process that only reads.

use super::reclaim_accuracy::ReclaimErrors;
use super::table_reads::TableGets;
use esker_base::coding::{put_varint64, take_varint64};
use parking_lot::Mutex;

/// Sums since the database was made, and how large its segments are.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Account {
    /// Bytes of keys and values that users wrote and that were flushed since.
    pub user_bytes: u64,
    /// Bytes that the log took for them.
    pub log_bytes: u64,
    /// Flushes done.
    pub flushes: u64,
    /// Bytes that flushes wrote to tables.
    pub flush_bytes: u64,
    /// Compactions done, trivial moves not counted.
    pub compactions: u64,
    /// Bytes that compactions read.
    pub compaction_read_bytes: u64,
    /// Bytes that compactions wrote.
    pub compaction_bytes: u64,
    /// Bytes that compactions were expected to make free.
    pub predicted_reclaim_bytes: u64,
    /// Compactions that made free what was expected, give or take a tenth of it.
    pub reclaims_within_tenth: u64,
    /// Point reads that came to tables, and what they cost there.
    pub table_gets: TableGets,
    /// What table files took, for what is live.
    pub space: SpaceSeen,
    /// How well compactions were judged. Of a database that older programs wrote, those since.
    pub reclaim_errors: ReclaimErrors,
    /// No sum: the size of the log segments of the process that wrote tables last. 0 if older programs
    /// did, or nobody.
    pub segment_bytes: u64,
}

/// Looks at space, one after each flush: space amplification is what table files take, those in the
/// making and those that only readers still hold included, less what snapshots pin, for each byte that
/// would stay if everything was merged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SpaceSeen {
    /// The number of looks.
    pub looks: u64,
    /// The sum of space amplifications, in thousandths.
    pub amp_sum_thousandths: u64,
    /// The highest, in thousandths: of the most that files took since the look before.
    pub amp_peak_thousandths: u64,
    /// The most that table files took, in bytes.
    pub bytes_peak: u64,
}

impl SpaceSeen {
    /// One look: table files take `bytes` now and took `bytes_peak` since the last look; `live_bytes`
    /// of that are live, and snapshots pin `pinned_bytes`. None if nothing is live.
    pub fn look(bytes: u64, bytes_peak: u64, live_bytes: f64, pinned_bytes: f64) -> Self {
        if live_bytes < 1.0 {
            return SpaceSeen { bytes_peak, ..SpaceSeen::default() };
        }
        let amp = |bytes: u64| ((bytes as f64 - pinned_bytes) / live_bytes * 1e3).max(0.0) as u64;
        SpaceSeen {
            looks: 1,
            amp_sum_thousandths: amp(bytes),
            amp_peak_thousandths: amp(bytes_peak),
            bytes_peak,
        }
    }

    /// The mean space amplification, by looks. `None` before the first.
    pub fn amp_mean(&self) -> Option<f64> {
        let mean = || self.amp_sum_thousandths as f64 / 1e3 / self.looks as f64;
        (self.looks > 0).then(mean)
    }

    /// The highest space amplification. `None` before the first look.
    pub fn amp_peak(&self) -> Option<f64> {
        (self.looks > 0).then_some(self.amp_peak_thousandths as f64 / 1e3)
    }
}

impl Account {
    /// `bytes`, a part of what was written, for each byte that users wrote. `None` before the first
    /// flush.
    pub fn write_amp(&self, bytes: u64) -> Option<f64> {
        (self.user_bytes > 0).then(|| bytes as f64 / self.user_bytes as f64)
    }

    /// Bytes that were written to tables: the clock by which their lifetimes are told.
    pub fn table_bytes(&self) -> u64 {
        self.flush_bytes + self.compaction_bytes
    }

    /// Bytes that compactions made free.
    pub fn reclaimed_bytes(&self) -> u64 {
        self.compaction_read_bytes.saturating_sub(self.compaction_bytes)
    }

    /// Adds what was counted apart.
    pub fn add(&mut self, mut more: Account) {
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

    /// Reads what [`Account::encode`] wrote, here or in another version: figures that are not there are
    /// 0, and what follows those known here is left. `None` if the bytes are something else.
    pub(crate) fn decode(mut input: &[u8]) -> Option<Account> {
        let mut account = Account::default();
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
        .chain([&mut self.segment_bytes])
    }
}

/// What was counted and is not in the manifest yet.
#[derive(Default)]
pub(crate) struct Unwritten(Mutex<Pending>);

#[derive(Default)]
struct Pending {
    account: Account,
    /// Up to here, table reads are accounted for.
    gets: TableGets,
}

impl Unwritten {
    /// Notes what something has cost.
    pub(crate) fn spent(&self, cost: Account) {
        self.0.lock().account.add(cost);
    }

    /// Notes a look at space.
    pub(crate) fn look(&self, space: SpaceSeen) {
        self.0.lock().account.add(Account { space, ..Account::default() });
    }

    /// What there is, table reads up to `gets` included.
    pub(crate) fn peek(&self, gets: TableGets) -> Account {
        let pending = self.0.lock();
        let mut account = pending.account;
        account.add(Account { table_gets: gets.since(pending.gets), ..Account::default() });
        account
    }

    /// The same, for an edit that is about to be written.
    pub(crate) fn take(&self, gets: TableGets) -> Account {
        let account = self.peek(gets);
        *self.0.lock() = Pending { account: Account::default(), gets };
        account
    }

    /// Takes back what was for an edit that failed.
    pub(crate) fn put_back(&self, account: Account) {
        self.0.lock().account.add(account);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An account in which no two figures are alike.
    pub(crate) fn sample_account() -> Account {
        let mut account = Account::default();
        (100..).zip(account.figures()).for_each(|(n, figure)| *figure = n);
        account
    }

    #[test]
    fn sums_are_added_and_of_peaks_the_higher_stays() {
        let mut account = sample_account();
        let lower = SpaceSeen::look(500, 700, 500.0, 0.0);
        account.add(Account { user_bytes: 7, space: lower, ..Account::default() });
        assert_eq!((account.user_bytes, account.log_bytes), (107, 101));
        assert_eq!(account.space.looks, 114);
        assert_eq!((account.space.amp_peak_thousandths, account.space.bytes_peak), (1400, 700));
        account.add(Account::default());
        assert_eq!((account.space.amp_peak_thousandths, account.space.bytes_peak), (1400, 700));
    }

    #[test]
    fn of_segments_the_last_size_stays() {
        let of = |segment_bytes| Account { segment_bytes, ..Account::default() };
        let mut account = of(64);
        account.add(Account::default());
        assert_eq!(account, of(64));
        account.add(of(16));
        assert_eq!(account, of(16));
    }

    #[test]
    fn space_amplification_leaves_out_what_snapshots_pin() {
        let mut seen = Account::default();
        for bytes in [1500, 2500] {
            let space = SpaceSeen::look(bytes, 3000, 1000.0, 500.0);
            seen.add(Account { space, ..Account::default() });
        }
        assert_eq!((seen.space.amp_mean(), seen.space.amp_peak()), (Some(1.5), Some(2.5)));
        assert_eq!(SpaceSeen::look(900, 1000, 0.0, 0.0).amp_mean(), None);
    }

    #[test]
    fn accounts_of_other_versions_are_read_as_far_as_they_are_known() {
        let (account, mut bytes) = (sample_account(), sample_account().encode());
        assert_eq!(Account::decode(&bytes), Some(account));
        assert_eq!(Account::decode(&bytes[..2]).unwrap().log_bytes, 101);
        assert_eq!(Account::decode(&bytes[..2]).unwrap().flushes, 0);
        bytes.extend([1, 2, 3]);
        assert_eq!(Account::decode(&bytes), Some(account));
        assert_eq!(Account::decode(&[0xff]), None);
    }

    #[test]
    fn what_an_edit_took_is_not_taken_again_unless_the_edit_failed() {
        let unwritten = Unwritten::default();
        let gets = |hits| TableGets { hits, ..TableGets::default() };
        unwritten.look(SpaceSeen::look(1, 1, 1.0, 0.0));
        let taken = unwritten.take(gets(5));
        assert_eq!((taken.table_gets.hits, taken.space.looks), (5, 1));
        assert_eq!(unwritten.peek(gets(5)), Account::default());
        unwritten.put_back(taken);
        let taken = unwritten.take(gets(8));
        assert_eq!((taken.table_gets.hits, taken.space.looks), (8, 1));
    }
}
