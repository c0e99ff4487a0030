//! The keys that the function of an index gives a row.

use smallvec::SmallVec;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Gives a row its keys in an index: gets the row's key and value.
pub(crate) type IndexFunction = dyn Fn(&[u8], &[u8], &mut IndexKeys) + Send + Sync;

/// Takes the keys of a row in an index: none, one or several. A key that is added twice counts once.
#[derive(Default, Debug)]
pub struct IndexKeys {
    // Most rows have one short key: it needs no allocation.
    bytes: SmallVec<[u8; 64]>,
    keys: SmallVec<[Range<u32>; 2]>,
}

impl IndexKeys {
    /// Adds a key of the row.
    pub fn add(&mut self, key: impl AsRef<[u8]>) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(key.as_ref());
        self.keys.push(start..self.bytes.len() as u32);
    }

    /// Replaces all by the keys that `function` gives the row, sorted. An error is the message of a panic.
    pub(crate) fn fill(
        &mut self,
        function: &IndexFunction,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), String> {
        self.clear();
        let run = catch_unwind(AssertUnwindSafe(|| function(key, value, self)));
        if let Err(panic) = run {
            self.clear();
            return Err(message(&*panic));
        }
        if self.keys.len() > 1 {
            let IndexKeys { bytes, keys } = self;
            let of = |range: &Range<u32>| &bytes[range.start as usize..range.end as usize];
            keys.sort_unstable_by(|a, b| of(a).cmp(of(b)));
            keys.dedup_by(|a, b| of(a) == of(b));
        }
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.keys.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|range| &self.bytes[range.start as usize..range.end as usize])
    }

    /// Whether `key` is one of them, which are sorted.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        let of = |range: &Range<u32>| &self.bytes[range.start as usize..range.end as usize];
        self.keys.binary_search_by(|range| of(range).cmp(key)).is_ok()
    }
}

#[cold]
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => (*message).to_owned(),
        (_, Some(message)) => message.clone(),
        _ => "a panic without a message".to_owned(),
    }
}
