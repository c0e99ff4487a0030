//! Lifetime classes: derives from a file's hint which files share chunks with it.
//!
//! A table's *level* says how it is read and compacted. It decides the placement: units, the number
//! of chunks written at once, when its units are no longer written, and the space left for others.
//! If all tables of a level behave alike, it also predicts their lifetime best.
//!
//! If they do not, such as keyspaces with different write rates, the engine's *expected* lifetime
//! is better. Once a table's expected lifetime is far from the usual one of its level, tables of
//! that level share chunks only within their class. This lasts until enough tables followed to
//! forget the deviation.
//!
//! An estimate that is off equally for a whole level changes nothing. Any other costs a few more
//! partially written chunks, and stores no data in units that its level would not have chosen.
//!
//! Classes are defined by how much of the device is written during the lifetime.

use crate::Geometry;
use crate::placement::{LIFETIMES, Lifetime, SHORTEST};
use esker_base::{FileKind, WriteHint};

/// Classes of what tables are expected to live, each of lives four times as long as the one before.
const CLASSES: u8 = LIFETIMES as u8 - 1;

/// The class of what lives until all of the device was written once, up to four times.
const CLASS_OF_DEVICE: f64 = 4.0;

/// What is usual on a level is the mean of about so many tables.
const USUAL_OF: f64 = 32.0;

/// For this many tables after an unusual one, tables of the level are separated by class.
const APART: u32 = 128;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LifetimeClass {
    /// As a class: 0 for what belongs to no level.
    pub(crate) level: Lifetime,
    /// The class, if tables of the level are separated; 0 is the shortest.
    expected: Option<u8>,
}

/// What is usual, by level.
#[derive(Default)]
pub(crate) struct LifetimeClassifier([LevelMean; LIFETIMES]);

#[derive(Default)]
struct LevelMean {
    /// What is expected in the mean, in classes and parts of them.
    mean: Option<f64>,
    /// How many more tables are separated.
    apart: u32,
}

impl LifetimeClassifier {
    /// How long a file stays that has this hint, on a device of this geometry.
    pub(crate) fn stay(&mut self, hint: WriteHint, geometry: &Geometry) -> LifetimeClass {
        if hint.kind != FileKind::Table {
            return LifetimeClass::SHORTEST;
        }
        let level = usize::from(1 + hint.level).min(LIFETIMES - 1);
        let device_bytes = geometry.chunks() as u64 * u64::from(geometry.chunk_bytes);
        let class = hint.expected_lifetime.map(|bytes| class(bytes, device_bytes));
        LifetimeClass {
            level,
            expected: class.filter(|class| self.0[level].learn(*class)).map(whole),
        }
    }
}

impl LevelMean {
    /// Updates the usual class, and returns whether tables are separated.
    fn learn(&mut self, class: f64) -> bool {
        let mean = self.mean.get_or_insert(class);
        if (class - *mean).abs() > 1.0 {
            self.apart = APART + 1;
        }
        *mean += (class - *mean) / USUAL_OF;
        self.apart = self.apart.saturating_sub(1);
        self.apart > 0
    }
}

impl LifetimeClass {
    /// Of what belongs to no level.
    pub(crate) const SHORTEST: LifetimeClass = LifetimeClass { level: SHORTEST, expected: None };

    /// The lifetime reported to the device: from the level or from the expectation.
    pub(crate) fn lifetime(&self) -> Lifetime {
        self.expected.map_or(self.level, |class| 1 + usize::from(class))
    }

    /// As a byte: the level, and above it the class and one, or nothing.
    pub(crate) fn encode(&self) -> u8 {
        self.level as u8 | self.expected.map_or(0, |class| 1 + class) << 4
    }

    /// What [`LifetimeClass::encode`] made a byte of, or a level alone.
    pub(crate) fn decode(byte: u8) -> Self {
        let level = usize::from(byte & 0xf).min(LIFETIMES - 1);
        let expected = (byte >> 4).checked_sub(1).map(|class| class.min(CLASSES - 1));
        LifetimeClass { level, expected }
    }
}

/// In classes, and parts of one, by how often so many bytes are what the device holds.
fn class(bytes: u64, device_bytes: u64) -> f64 {
    let log4 = |bytes: u64| (bytes.max(1) as f64).log2() / 2.0;
    let class = CLASS_OF_DEVICE + log4(bytes) - log4(device_bytes);
    class.clamp(0.0, f64::from(CLASSES))
}

fn whole(class: f64) -> u8 {
    (class as u8).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE_BYTES: u64 = 64 << 20;

    /// How long tables of level 3 stay that are expected to live so long, one after the other.
    fn stays<const N: usize>(expected: [Option<u64>; N]) -> [LifetimeClass; N] {
        let (mut usual, device) =
            (LifetimeClassifier::default(), Geometry::of_blocks(2, 4, 8, 1 << 20));
        expected.map(|bytes| usual.stay(WriteHint::table(3).living(bytes), &device))
    }

    const BY_LEVEL: LifetimeClass = LifetimeClass { level: 4, expected: None };

    #[test]
    fn levels_are_lifetimes_where_nothing_is_expected() {
        let (mut usual, device) =
            (LifetimeClassifier::default(), Geometry::of_blocks(2, 4, 8, 1 << 20));
        let mut of = |hint| usual.stay(hint, &device).lifetime();
        assert_eq!([0, 1, 6, 7].map(|level| of(WriteHint::table(level))), [1, 2, 7, 7]);
        assert_eq!(of(WriteHint::of(FileKind::Meta).living(Some(9))), 0);
        assert_eq!(stays([None]), [BY_LEVEL]);
    }

    #[test]
    fn what_is_expected_of_all_tables_of_a_level_says_no_more_than_the_level() {
        let alike = [900, 1_000, 3_000, 1_000, 400].map(|kib| Some(kib << 10));
        assert_eq!(stays(alike), [BY_LEVEL; 5]);
    }

    #[test]
    fn a_table_is_unusual_that_lives_more_than_four_times_as_long_or_less_than_a_fourth() {
        let limits = [(900, true), (1_024, false), (16_384, false), (18_000, true)];
        for (kib, is_unusual) in limits {
            let found = stays([Some(4 << 20), Some(kib << 10)])[1];
            assert_eq!(found.expected.is_some(), is_unusual, "{kib} KiB");
        }
        let nearly = [1_100, 15_000].map(|kib| stays([Some(4 << 20), Some(kib << 10)])[1]);
        assert_eq!(nearly, [BY_LEVEL; 2]);
    }

    #[test]
    fn what_is_usual_on_one_level_is_nothing_to_another() {
        let (mut usual, device) =
            (LifetimeClassifier::default(), Geometry::of_blocks(2, 4, 8, 1 << 20));
        for _ in 0..10 {
            for (level, bytes) in [(1, 1 << 12), (2, 1 << 20), (3, 1 << 30)] {
                let stay = usual.stay(WriteHint::table(level).living(Some(bytes)), &device);
                assert_eq!(stay, LifetimeClass { level: 1 + usize::from(level), expected: None });
            }
        }
    }

    #[test]
    fn one_that_is_unusual_and_127_behind_it_are_told_apart() {
        let mut expected = [Some(1 << 20); 300];
        expected[100] = Some(64 << 20);
        let found = stays(expected);
        let apart: Vec<usize> = (0..300).filter(|at| found[*at].expected.is_some()).collect();
        assert_eq!(apart, (100..228).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_unusual_on_a_level_has_a_class_by_what_the_device_holds_and_the_same_level() {
        let unusual = |bytes| stays([Some(2 << 20), Some(bytes)])[1];
        let bytes = [0, DEVICE_BYTES - 1, DEVICE_BYTES, 4 * DEVICE_BYTES, u64::MAX];
        let found = bytes.map(unusual);
        assert_eq!(found.map(|stay| stay.lifetime()), [1, 4, 5, 6, 7]);
        assert!(found.iter().all(|stay| stay.level == BY_LEVEL.level));
    }

    #[test]
    fn tables_are_told_apart_as_long_as_there_are_unusual_ones() {
        let mut expected = [Some(1 << 20); 1_000];
        (100..400).step_by(50).for_each(|unusual| expected[unusual] = Some(64 << 20));
        let found = stays(expected);
        let [apart, usual] = [2, BY_LEVEL.level].map(|lifetime| {
            move |stays: &[LifetimeClass]| stays.iter().all(|stay| stay.lifetime() == lifetime)
        });
        assert!(usual(&found[..100]) && usual(&found[600..]));
        assert_eq!((found[100].lifetime(), found[350].lifetime()), (5, 5));
        assert!(apart(&found[101..150]) && apart(&found[301..350]));
    }

    #[test]
    fn what_is_usual_is_learnt() {
        let mut expected = [Some(1 << 20); 600];
        expected[100..].fill(Some(64 << 20));
        let found = stays(expected);
        assert_eq!((found[99], found[100].lifetime(), found[599]), (BY_LEVEL, 5, BY_LEVEL));
        // Unusual until the mean is a class below, after 35 of them.
        let last = (0..600).rfind(|at| found[*at].expected.is_some());
        assert_eq!(last, Some(100 + 34 + 127));
    }

    #[test]
    fn a_byte_tells_both() {
        let [usual, short] = stays([Some(u64::MAX), Some(0)]);
        let [_, long] = stays([Some(0), Some(u64::MAX)]);
        for stay in [LifetimeClass::SHORTEST, usual, short, long] {
            assert_eq!(LifetimeClass::decode(stay.encode()), stay);
        }
        // As it was before anything was expected: the level's lifetime alone.
        assert_eq!(LifetimeClass::decode(4), BY_LEVEL);
    }

    #[test]
    fn a_byte_that_means_nothing_is_no_lifetime_out_of_bounds() {
        for byte in 0..=u8::MAX {
            let stay = LifetimeClass::decode(byte);
            assert!(stay.level < LIFETIMES && stay.lifetime() < LIFETIMES, "{byte}");
        }
    }
}
