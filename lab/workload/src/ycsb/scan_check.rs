//! Checks a scan: it must begin at its start, be in key order, return every loaded record in its
//! range, end only after the last one, and return values that reads may return.
//!
//! The loaded records are in a list in key order, eight bytes each, and a scan advances along it.
//! Records inserted later are in no list. If a scan returns them, their order and stamp are
//! checked; if it omits them, this is not detected.

use super::history::{Before, History};
use super::record::wrong_answer;
use super::{KeyOrder, Options, RecordKey};
use crate::checker::Version;
use crate::distributions::scatter;
use esker_base::Result;
use std::cmp::Ordering;

/// The most digits that a number in a key has without zeros before it.
const MAX_DIGITS: usize = 20;

/// The numbers of the loaded records in the order of their keys.
#[derive(Debug)]
pub(super) struct LoadedKeys {
    numbers: Vec<u64>,
}

impl LoadedKeys {
    pub(super) fn new(options: &Options) -> Self {
        let mut numbers: Vec<u64> = options.loaded().collect();
        numbers.sort_by_cached_key(|&number| rank(options, number));
        // Hashes may meet.
        numbers.dedup_by_key(|&mut number| rank(options, number));
        LoadedKeys { numbers }
    }

    /// Where the first record is whose key is not below `start`.
    fn position(&self, key: &mut RecordKey, start: &[u8]) -> usize {
        self.numbers.partition_point(|&number| key.set(number) < start)
    }
}

/// A number that is larger for the key that sorts later: the digits as a fraction and, because a key
/// that goes on with zeros has the same, their count.
fn rank(options: &Options, number: u64) -> u128 {
    let number = match options.key_order {
        KeyOrder::Hashed => scatter(number),
        KeyOrder::Ordered => number,
    };
    let shown = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let digits = shown.max(options.key_digits);
    let zeros = MAX_DIGITS.saturating_sub(digits) as u32;
    (u128::from(number) * 10u128.pow(zeros)) << 16 | digits as u128
}

/// One thread's check of one scan after the other.
pub(super) struct ScanCheck<'a> {
    history: &'a History,
    loaded: &'a LoadedKeys,
    key: RecordKey,
    /// What was known, when the scan began, of the records that it may give.
    before: Vec<Option<Before>>,
    /// Where in the list the scan began, and which record there comes next.
    first: usize,
    next: usize,
    /// The key that the scan was on before, at first its start.
    last: Vec<u8>,
    has_moved: bool,
}

impl<'a> ScanCheck<'a> {
    pub(super) fn new(history: &'a History, loaded: &'a LoadedKeys, options: &Options) -> Self {
        ScanCheck {
            history,
            loaded,
            key: RecordKey::new(options.key_order, options.key_digits),
            before: Vec::new(),
            first: 0,
            next: 0,
            last: Vec::new(),
            has_moved: false,
        }
    }

    /// Notes that a scan of `len` records is about to begin at `start`. What it gives may be as old
    /// as this point in time.
    pub(super) fn begin(&mut self, start: &[u8], len: u64) {
        self.first = self.loaded.position(&mut self.key, start);
        self.next = self.first;
        let ahead = &self.loaded.numbers[self.first..];
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(ahead.len());
        self.before.clear();
        self.before.extend(ahead[..len].iter().map(|&number| self.history.before_read(number)));
        self.stand_on(start);
        self.has_moved = false;
    }

    /// Fails if the scan can't have given `version` of `key` next.
    pub(super) fn pair(&mut self, key: &[u8], version: Version) -> Result<()> {
        if key < &self.last[..] || (self.has_moved && key == self.last) {
            let last = self.last.escape_ascii();
            let what = match self.has_moved {
                true => format!("a scan gave it after key {last}"),
                false => format!("a scan that starts at key {last} gave it"),
            };
            return Err(wrong_answer(key, &what));
        }
        if let Some(&number) = self.loaded.numbers.get(self.next) {
            let expected = self.key.set(number);
            match expected.cmp(key) {
                Ordering::Less => {
                    let what = format!("a scan passed over it to key {}", key.escape_ascii());
                    return Err(wrong_answer(expected, &what));
                }
                Ordering::Equal => {
                    if let Some(Some(before)) = self.before.get(self.next - self.first) {
                        let judged = self.history.judge(number, *before, version);
                        judged.map_err(|stale| wrong_answer(key, &stale.to_string()))?;
                    }
                    self.next += 1;
                }
                // Inserted since.
                Ordering::Greater => {}
            }
        }
        self.stand_on(key);
        self.has_moved = true;
        Ok(())
    }

    /// Fails if the scan can't have ended here.
    pub(super) fn end(&mut self) -> Result<()> {
        match self.loaded.numbers.get(self.next) {
            None => Ok(()),
            Some(&number) => {
                let what = format!("a scan ended at key {} before it", self.last.escape_ascii());
                Err(wrong_answer(self.key.set(number), &what))
            }
        }
    }

    fn stand_on(&mut self, key: &[u8]) {
        self.last.clear();
        self.last.extend_from_slice(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_the_order_of_the_keys() {
        for key_order in [KeyOrder::Hashed, KeyOrder::Ordered] {
            for key_digits in [1, 3, 20, 30] {
                let base = Options { records: 5_000, load_start: 7, ..Options::default() };
                let options = Options { key_order, key_digits, ..base };
                let loaded = LoadedKeys::new(&options);
                let mut key = RecordKey::new(key_order, key_digits);
                let keys: Vec<_> = loaded.numbers.iter().map(|&n| key.set(n).to_vec()).collect();
                assert!(keys.len() == 4_993 && keys.is_sorted(), "{key_order:?}, {key_digits}");
                for at in [0, 1, 2_500, 4_992] {
                    assert_eq!(loaded.position(&mut key, &keys[at]), at);
                }
                assert_eq!(loaded.position(&mut key, b"v"), 4_993);
            }
        }
    }

    #[test]
    fn a_scan_does_not_begin_before_its_start_but_may_pass_over_what_was_not_loaded() {
        let base = Options { records: 30, load_start: 20, ..Options::default() };
        let options = Options { key_order: KeyOrder::Ordered, key_digits: 2, ..base };
        let (history, loaded) = (History::new(20, 10), LoadedKeys::new(&options));
        let mut check = ScanCheck::new(&history, &loaded, &options);
        let version = Version(1);
        check.begin(b"user10", 5);
        let message = check.pair(b"user09", version).unwrap_err().to_string();
        assert!(message.contains("a scan that starts at key user10 gave it"), "{message}");
        for key in [b"user10", b"user15", b"user20", b"user21"] {
            check.pair(key, version).unwrap();
        }
        assert!(check.end().is_err());
        check.begin(b"user29", 5);
        check.pair(b"user29", version).unwrap();
        check.pair(b"user31", version).unwrap();
        check.end().unwrap();
    }
}
