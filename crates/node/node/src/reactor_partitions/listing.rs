//! Lists, some keys at a time.

use esker_hashstore::partition::Partition;
use esker_nvme::command::kv::{Key, ListBuilder};

/// Keys that a list inspects before others have their turn: a part of a millisecond.
const LOOKED_AT_MAX: usize = 1024;

/// A list in progress.
pub(super) struct Listing {
    /// The partition that is next.
    pub number: u32,
    /// Where it goes on there; at the front if there is none.
    pub from: Option<Vec<u8>>,
    pub list: ListBuilder,
}

/// Where a list is after some keys.
#[derive(PartialEq, Debug)]
pub(super) enum Step {
    /// It has space and there are more keys.
    GoesOn,
    /// It is full, or the partition was the last.
    IsDone,
}

impl Listing {
    /// Adds keys of its partition, which is `partition`, and says whether it is done. Goes on with the next partition, if that was all. `left` is how many
    /// keys may be inspected.
    fn add(&mut self, partition: &Partition, left: &mut usize, partitions: u32) -> Step {
        let mut stopped_at = None;
        for key in partition.keys_from(self.from.as_deref()) {
            if *left == 0 {
                stopped_at = Some(key.to_vec());
                break;
            }
            *left -= 1;
            // Longer ones were stored by other ways, and can't be named here.
            if Key::new(key).is_some() && !self.list.push(key) {
                return Step::IsDone;
            }
        }
        self.from = stopped_at;
        self.number += u32::from(self.from.is_none());
        if self.number == partitions { Step::IsDone } else { Step::GoesOn }
    }

    /// Inspects some keys. `partitions` are those of one part, every `parts`th of `of`: where the next is another part's, that is where it goes on.
    pub fn step(&mut self, partitions: &[Partition], parts: usize, of: u32) -> Step {
        let mut left = LOOKED_AT_MAX;
        let mut step = Step::GoesOn;
        let part = self.number as usize % parts;
        while step == Step::GoesOn && left > 0 && self.number as usize % parts == part {
            let partition = &partitions[self.number as usize / parts];
            step = self.add(partition, &mut left, of);
        }
        step
    }

    /// Whether the next partition is one of the part whose partition `number` is.
    pub fn is_with(&self, number: u32, parts: usize) -> bool {
        (self.number as usize).abs_diff(number as usize).is_multiple_of(parts)
    }
}
