//! Combines operands of one key on their way to a table.
//!
//! Two neighbors are combined once they represent as many operands each, as a binary counter adds
//! ones. So each operand is copied as often as the logarithm of their number, whatever an operator
//! makes of two.

use super::merger::Merger;
use super::operands::parts_of;
use esker_base::{Kind, Result, Seqno, combined};

/// An operand, or what several were combined to.
#[derive(Debug)]
pub(crate) struct Combined {
    /// The seqno of the newest of them.
    seqno: Seqno,
    /// That of the oldest.
    oldest: Seqno,
    operand: Vec<u8>,
    /// How many they are. 0: it is not combined with older ones.
    weight: u64,
}

impl Combined {
    /// The version that stands for them.
    pub(crate) fn into_version(self) -> (Seqno, Kind, Vec<u8>) {
        match self.oldest == self.seqno {
            true => (self.seqno, Kind::Merge, self.operand),
            false => {
                let value = combined::encode(self.seqno, self.oldest, &self.operand);
                (self.seqno, Kind::Combined, value)
            }
        }
    }
}

/// The operands of a key that no snapshot separates, fed newest first.
#[derive(Debug, Default)]
pub(crate) struct Combining {
    /// Newest first.
    parts: Vec<Combined>,
}

impl Combining {
    /// Adds a version, an operand, that is older than all others.
    ///
    /// # Errors
    /// If it is damaged.
    pub(crate) fn push_older(
        &mut self,
        merger: &Merger,
        stored_key: &[u8],
        (seqno, kind, value): (Seqno, Kind, &[u8]),
    ) -> Result<()> {
        let (oldest, operand) = parts_of(seqno, kind, value)?;
        self.parts.push(Combined { seqno, oldest, operand: operand.to_vec(), weight: 1 });
        while let [.., newer, older] = &self.parts[..]
            && newer.weight == older.weight
            && self.combine_at(merger, stored_key, self.parts.len() - 1)
        {}
        Ok(())
    }

    /// Combines the part at `at` with the next newer one. Returns false if that can't be.
    fn combine_at(&mut self, merger: &Merger, stored_key: &[u8], at: usize) -> bool {
        let (newer, older) = (&self.parts[at - 1], &self.parts[at]);
        if newer.weight == 0 {
            return false;
        }
        let combined = merger.combine(stored_key, &older.operand, &newer.operand);
        let (weight, oldest) = (older.weight, older.oldest);
        match combined {
            Some(operand) => {
                let newer = &mut self.parts[at - 1];
                (newer.operand, newer.oldest) = (operand, oldest);
                newer.weight = if weight == 0 { 0 } else { newer.weight + weight };
                self.parts.remove(at);
                true
            }
            None => {
                self.parts[at - 1].weight = 0;
                false
            }
        }
    }

    /// The operands, oldest first.
    pub(crate) fn oldest_first(&self) -> Vec<&[u8]> {
        self.parts.iter().rev().map(|part| &part.operand[..]).collect()
    }

    /// The seqno of the newest operand.
    pub(crate) fn newest(&self) -> Seqno {
        self.parts.first().map_or(0, |part| part.seqno)
    }

    /// As few operands as possible, newest first.
    pub(crate) fn into_parts(mut self, merger: &Merger, stored_key: &[u8]) -> Vec<Combined> {
        for at in (1..self.parts.len()).rev() {
            self.combine_at(merger, stored_key, at);
        }
        self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::merger::tests::named;

    /// The seqnos of the newest and the oldest operand, and their combination.
    type Part = (Seqno, Seqno, Vec<u8>);

    fn combined(operator: &str, operands: &[&[u8]]) -> (usize, Vec<Part>) {
        let (merger, mut combining, mut most) = (named(operator), Combining::default(), 0);
        for (seqno, operand) in (1..=operands.len() as u64).rev().zip(operands.iter().rev()) {
            combining.push_older(&merger, b"k", (seqno, Kind::Merge, operand)).unwrap();
            most = most.max(combining.parts.len());
        }
        let parts = combining.into_parts(&merger, b"k").into_iter();
        (most, parts.map(|part| (part.seqno, part.oldest, part.operand)).collect())
    }

    #[test]
    fn operands_become_one_in_their_order_with_the_newest_seqno() {
        let (most, parts) = combined("append", &[b"a", b"b", b"c", b"d", b"e", b"f", b"g"]);
        assert_eq!(parts, [(7, 1, b"abcdefg".to_vec())]);
        assert_eq!(most, 3);
    }

    #[test]
    fn operands_that_cannot_be_combined_stay_in_their_order() {
        let (_, parts) = combined("missing", &[b"a", b"b", b"c"]);
        assert_eq!(parts, [(3, 3, b"c".to_vec()), (2, 2, b"b".to_vec()), (1, 1, b"a".to_vec())]);
        // A bad operand in the middle keeps its place.
        let one = 1_i64.to_le_bytes();
        let (_, parts) = combined("add_i64", &[&one, &one, b"bad", &one, &one]);
        let two = 2_i64.to_le_bytes().to_vec();
        assert_eq!(parts, [(5, 4, two.clone()), (3, 3, b"bad".to_vec()), (2, 1, two)]);
    }

    #[test]
    fn combined_operands_are_combined_again() {
        let (merger, mut combining) = (named("append"), Combining::default());
        let older = combined::encode(7, 5, b"older ");
        combining.push_older(&merger, b"k", (9, Kind::Merge, b"newest")).unwrap();
        combining.push_older(&merger, b"k", (7, Kind::Combined, &older)).unwrap();
        let parts = combining.into_parts(&merger, b"k").into_iter();
        let versions: Vec<_> = parts.map(Combined::into_version).collect();
        assert_eq!(versions, [(9, Kind::Combined, b"\x04older newest".to_vec())]);
        let damaged = Combining::default().push_older(&merger, b"k", (3, Kind::Combined, b"\x04"));
        assert!(damaged.is_err());
    }

    #[test]
    fn a_combination_that_would_be_too_long_stays_apart() {
        let part = vec![7; 700 << 10];
        let (_, parts) = combined("append", &[&part, &part, b"end"]);
        assert_eq!(parts.iter().map(|part| part.0).collect::<Vec<_>>(), [3, 1]);
    }
}
