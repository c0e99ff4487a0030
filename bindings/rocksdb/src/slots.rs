//! Merge operators and compaction filters of column families.
//!
//! RocksDB is given them with each open, and with each new column family. Esker's keyspaces name theirs
//! when they are created, and an open gets all operators. So each open gets operators called
//! `rocksdb:merge:N` and filters called `rocksdb:filter:N`, one for each slot, which call what the column
//! family with the slot was opened with. The operator of a column family that is sorted in reverse is
//! `rocksdb:merge:reverse:N`.

use crate::direction::Direction;
use crate::filter::Filter;
use crate::merge::Operator;
use esker::filter::{CompactionFilter, FilterDecision, FilterError};
use esker::merge::{MergeError, MergeOperator};
use esker::{KeyspaceInfo, KeyspaceSettings, Settings};
use std::sync::{Arc, PoisonError, RwLock};

/// The column families of a database that can have a merge operator or a filter.
const SLOTS: usize = 128;

/// The slots of an open database.
#[derive(Default)]
pub struct Slots {
    slots: RwLock<Vec<Slot>>,
}

#[derive(Clone, Default)]
struct Slot {
    operator: Option<Arc<Operator>>,
    filter: Option<Arc<Filter>>,
}

impl Slots {
    /// Returns settings that have the operators and filters of all slots.
    pub fn add_to(self: &Arc<Self>, settings: Settings) -> Settings {
        (0..SLOTS).fold(settings, |settings, number| {
            let slot = || One { number, slots: self.clone() };
            let operators = [false, true].map(|is_reverse| {
                let place = Place { number, direction: Direction { is_reverse } };
                SlotOperator { name: operator_name(place), slot: slot() }
            });
            let settings =
                operators.into_iter().fold(settings, |it, operator| it.merge_operator(operator));
            settings.compaction_filter(SlotFilter { name: filter_name(number), slot: slot() })
        })
    }

    /// Gives a slot what its column family was opened with.
    pub fn fill(
        &self,
        number: usize,
        operator: Option<Arc<Operator>>,
        filter: Option<Arc<Filter>>,
    ) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        if slots.len() <= number {
            slots.resize_with(number + 1, Slot::default);
        }
        slots[number] = Slot { operator, filter };
    }

    fn get(&self, number: usize) -> Slot {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.get(number).cloned().unwrap_or_default()
    }
}

/// What a keyspace says of its column family by the name of its merge operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The slot.
    pub number: usize,
    /// How the family sorts its keys.
    pub direction: Direction,
}

const PREFIX: &str = "rocksdb:merge:";
const REVERSE: &str = "reverse:";

fn operator_name(place: Place) -> String {
    let Place { number, direction } = place;
    let reverse = if direction.is_reverse { REVERSE } else { "" };
    format!("{PREFIX}{reverse}{number}")
}

fn filter_name(number: usize) -> String {
    format!("rocksdb:filter:{number}")
}

/// The slot and the direction of a keyspace with these settings, if it was created by this library.
pub fn slot_of(settings: &KeyspaceSettings) -> Option<Place> {
    let name = settings.merge?;
    let name = name.as_str().strip_prefix(PREFIX)?;
    let number = name.strip_prefix(REVERSE);
    let direction = Direction { is_reverse: number.is_some() };
    Some(Place { number: number.unwrap_or(name).parse().ok()?, direction })
}

/// How the keys of a keyspace with these settings are sorted.
pub fn direction_of(settings: &KeyspaceSettings) -> Direction {
    slot_of(settings).map_or_else(Direction::default, |place| place.direction)
}

/// The first slot that none of `keyspaces` has.
pub fn free_slot(keyspaces: &[KeyspaceInfo]) -> Option<usize> {
    let taken = keyspaces.iter().filter_map(|it| slot_of(&it.settings));
    let taken: Vec<_> = taken.map(|place| place.number).collect();
    (0..SLOTS).find(|slot| !taken.contains(slot))
}

/// Returns settings of a new keyspace that has this slot.
pub fn with_slot(settings: KeyspaceSettings, slot: Place, has_filter: bool) -> KeyspaceSettings {
    let settings = settings.merge(&operator_name(slot)[..]);
    if has_filter { settings.compaction_filter(&filter_name(slot.number)[..]) } else { settings }
}

struct One {
    number: usize,
    slots: Arc<Slots>,
}

struct SlotOperator {
    name: String,
    slot: One,
}

impl SlotOperator {
    fn operator(&self) -> Result<Arc<Operator>, MergeError> {
        let missing = || MergeError::new(crate::border::status::WITHOUT_OPERATOR);
        self.slot.slots.get(self.slot.number).operator.ok_or_else(missing)
    }
}

impl MergeOperator for SlotOperator {
    fn name(&self) -> &str {
        &self.name
    }

    fn merge(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        self.operator()?.full(key, base, operands)
    }

    fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.operator().ok()?.partial(key, &[older, newer])
    }

    fn check(&self, _key: &[u8], _operand: &[u8]) -> Result<(), MergeError> {
        self.operator().map(|_| ())
    }
}

struct SlotFilter {
    name: String,
    slot: One,
}

impl CompactionFilter for SlotFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn filter(&self, key: &[u8], value: &[u8]) -> Result<FilterDecision, FilterError> {
        let filter = self.slot.slots.get(self.slot.number).filter;
        Ok(filter.map_or(FilterDecision::Keep, |filter| filter.decide(key, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyspace_knows_its_slot() {
        for is_reverse in [false, true] {
            let place = Place { number: 127, direction: Direction { is_reverse } };
            let settings = with_slot(KeyspaceSettings::default(), place, true);
            settings.validate().unwrap();
            assert_eq!(slot_of(&settings), Some(place));
        }
        assert_eq!(slot_of(&KeyspaceSettings::default()), None);
        assert_eq!(slot_of(&KeyspaceSettings::default().merge("add_i64")), None);
    }

    #[test]
    fn a_slot_calls_what_it_was_given() {
        let slots = Arc::new(Slots::default());
        let slot = One { number: 2, slots: slots.clone() };
        let operator = SlotOperator { name: filter_name(2), slot };
        assert!(operator.check(b"k", b"").is_err());
        slots.fill(2, Some(Arc::new(Operator::add_u64())), None);
        let one = 1_u64.to_le_bytes();
        assert_eq!(operator.merge(b"k", Some(&one), &[&one]), Ok(2_u64.to_le_bytes().into()));
        assert_eq!(operator.combine(b"k", &one, &one), Some(2_u64.to_le_bytes().into()));
    }
}
