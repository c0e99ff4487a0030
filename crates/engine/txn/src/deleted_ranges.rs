//! The ranges of keys that a batch deletes: sorted, and apart from each other.

/// A range: its first key, and the first key after it, if there is one.
type DeletedRange = (Vec<u8>, Option<Vec<u8>>);

/// See the file's head.
#[derive(Default)]
pub(crate) struct DeletedRanges(Vec<DeletedRange>);

impl DeletedRanges {
    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the range from `start` up to, not including, `end`. Without an end it is all keys from
    /// `start` on.
    pub(crate) fn add(&mut self, start: &[u8], end: Option<&[u8]>) {
        if end.is_some_and(|end| end <= start) {
            return;
        }
        // Those that overlap or touch it.
        let is_before = |end: &Option<Vec<u8>>| end.as_ref().is_some_and(|end| &end[..] < start);
        let first = self.0.partition_point(|(_, end)| is_before(end));
        let last = self.0.partition_point(|(start, _)| end.is_none_or(|end| &start[..] <= end));
        let mut whole = (start.to_vec(), end.map(<[u8]>::to_vec));
        for (start, end) in self.0.drain(first..last) {
            whole.0 = whole.0.min(start);
            whole.1 = whole.1.zip(end).map(|(one, other)| one.max(other));
        }
        self.0.insert(first, whole);
    }

    /// The range that `key` is in.
    pub(crate) fn covering(&self, key: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
        let after = self.0.partition_point(|(start, _)| &start[..] <= key);
        let (start, end) = &self.0[after.checked_sub(1)?];
        let end = end.as_deref();
        end.is_none_or(|end| key < end).then_some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;

    #[test]
    fn a_key_is_covered_if_one_of_the_ranges_has_it() {
        let mut rng = Rng::new(5);
        for _ in 0..500 {
            let (mut ranges, mut covered) = (DeletedRanges::default(), [false; 30]);
            for _ in 0..rng.below(8) {
                let (start, end) = (rng.below(30) as u8, rng.below(40) as u8);
                let has_end = end < 30;
                ranges.add(&[start], has_end.then_some(&[end]));
                for key in start..if has_end { end } else { 30 } {
                    covered[usize::from(key)] = true;
                }
            }
            for (key, &is_covered) in covered.iter().enumerate() {
                let found = ranges.covering(&[key as u8]);
                assert_eq!(found.is_some(), is_covered);
                // The range is as wide as it can be, so that one seek leaves it.
                if let Some((start, end)) = found {
                    assert!(start[0] == 0 || !covered[usize::from(start[0]) - 1]);
                    assert!(end.is_none_or(|end| end[0] == 30 || !covered[usize::from(end[0])]));
                }
            }
        }
    }
}
