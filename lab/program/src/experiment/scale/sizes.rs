//! Which stores are measured, and with which loads.

use super::super::{Room, Scale, Wishes};
use crate::bench::engines;
use crate::bench::large::{LargeAccess, LargeTask, ValueSizes};
use crate::failure::{Failure, Outcome};
use crate::units;
use std::time::Duration;

/// Sizes of stores, in times the memory. The last of a full run makes at least 30 GB.
const QUICK_FACTORS: [u64; 4] = [1, 4, 16, 100];
const FULL_FACTORS: [u64; 4] = [1, 4, 16, 120];
/// The largest store of a quick run, unless sizes are named.
const QUICK_STORE_BYTES: u64 = 1 << 30;
/// The part of the memory that is a log segment, or a write buffer: that of Esker's defaults.
const SEGMENTS_OF_MEMORY: usize = 16;
/// Values of so many bytes and more are stored outside the tree, where values differ in size.
pub(super) const SEPARATION_THRESHOLD: u32 = 4 << 10;
/// Stores up to so many times the memory fit LMDB, which has no cache of its own.
const LMDB_FACTOR: u64 = 4;
const LMDB: &str = "lmdb";
/// The mean length of a key.
const KEY_BYTES: f64 = 23.3;
/// The descriptors of a process that has few.
pub(super) const FEW_DESCRIPTORS: u64 = 64;

/// Values of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Values {
    pub(super) name: &'static str,
    pub(super) sizes: ValueSizes,
    pub(super) about: &'static str,
}

pub(super) const VALUES: [Values; 3] = [
    Values { name: "100b", sizes: ValueSizes { least: 100, most: 100 }, about: "100 B" },
    Values { name: "1kb", sizes: ValueSizes { least: 1_000, most: 1_000 }, about: "1 KB" },
    Values {
        name: "mixed",
        sizes: ValueSizes { least: 100, most: 1_000_000 },
        about: "100 B to 1 MB, separated from 4 KiB on",
    },
];

impl Values {
    /// Whether large values are stored outside the tree.
    pub(super) fn are_separated(&self) -> bool {
        self.sizes.least < self.sizes.most
    }

    fn mean_bytes(&self) -> f64 {
        let (least, most) = (self.sizes.least as f64, self.sizes.most as f64);
        if least < most { (most - least) / (most / least).ln() } else { most }
    }
}

/// What is done with a store, by its name in the report, in the order that it is done. YCSB's own order is
/// A, B, C, F, D: here loads that only read come first, so that they find the store as it was loaded.
pub(super) const LOADS: [&str; 9] = ["get", "scan", "C", "B", "A", "F", "files64", "D", "E"];
pub(super) const LOAD: &str = "load";
const FEW_FILES: &str = "files64";

/// One store, and what is done with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Store {
    pub(super) values: Values,
    pub(super) factor: u64,
    pub(super) records: u64,
    pub(super) loads: Vec<&'static str>,
    /// The engines that it is measured on.
    pub(super) engines: Vec<String>,
}

impl Store {
    pub(super) fn name(&self) -> String {
        format!("{}-{}x", self.values.name, self.factor)
    }

    pub(super) fn task(&self, load: &str, threads: usize) -> LargeTask {
        LargeTask {
            access: match load {
                LOAD => LargeAccess::Load,
                "get" => LargeAccess::Get,
                "scan" => LargeAccess::Scan,
                FEW_FILES => LargeAccess::Ycsb("A".to_owned()),
                letter => LargeAccess::Ycsb(letter.to_owned()),
            },
            records: self.records,
            inserted: 0,
            operations: None,
            values: self.values.sizes,
            threads,
            descriptors: (load == FEW_FILES).then_some(FEW_DESCRIPTORS),
            seed: 1,
        }
    }

    /// The engines of `load`: only Esker's must work with few descriptors.
    pub(super) fn engines_of(&self, load: &str) -> Vec<String> {
        let takes_part = |name: &&String| load != FEW_FILES || engines::is_own(name);
        self.engines.iter().filter(takes_part).cloned().collect()
    }
}

/// The sizes of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    pub(super) memory_bytes: usize,
    pub(super) duration: Duration,
    pub(super) warm_up: Duration,
    pub(super) threads: usize,
    pub(super) stores: Vec<Store>,
    /// What of the experiment is not measured, and why.
    pub(super) cut: Vec<String>,
}

impl Sizes {
    pub(super) fn of(wishes: &Wishes<'_>, engines: &[&str], room: &Room) -> Outcome<Sizes> {
        let (memory_bytes, duration, threads) = match wishes.scale {
            Scale::Quick => (64 << 20, Duration::from_millis(1_500), 1),
            Scale::Full => (256 << 20, Duration::from_secs(30), 2),
        };
        let memory_bytes = wishes.memory_bytes.unwrap_or(memory_bytes);
        let duration = wishes.duration.unwrap_or(duration);
        if duration.is_zero() {
            return Err(Failure::Usage("--duration is 0 seconds".to_owned()));
        }
        let warm_up = duration / 3;
        let mut sizes =
            Sizes { memory_bytes, duration, warm_up, threads, stores: Vec::new(), cut: Vec::new() };
        let cases = Cases::parse(wishes.cases)?;
        for factor in factors(wishes)? {
            let bytes = factor * memory_bytes as u64;
            if let Some(why) = why_not(bytes, wishes, engines.len() as u64, room) {
                sizes.cut.push(format!("{factor}x ({}): {why}", units::bytes(bytes)));
                continue;
            }
            for values in VALUES {
                let mut loads = cases.loads(&values);
                let fits = |name: &&&str| **name != LMDB || factor <= LMDB_FACTOR;
                let engines: Vec<String> =
                    engines.iter().filter(fits).map(|&name| name.to_owned()).collect();
                if !engines.iter().any(|name| engines::is_own(name)) {
                    loads.retain(|load| *load != FEW_FILES);
                }
                if loads.is_empty() || engines.is_empty() {
                    continue;
                }
                let records = (bytes as f64 / (KEY_BYTES + values.mean_bytes())).max(2.0) as u64;
                sizes.stores.push(Store { values, factor, records, loads, engines });
            }
            if factor > LMDB_FACTOR && engines.contains(&LMDB) {
                sizes.cut.push(format!(
                    "{factor}x of {LMDB}: it has no cache of its own, and maps the whole store"
                ));
            }
        }
        match sizes.stores.is_empty() {
            true => Err(Failure::Usage(format!("nothing is measured: {}", sizes.cut.join("; ")))),
            false => Ok(sizes),
        }
    }

    pub(super) fn segment_bytes(&self) -> usize {
        self.memory_bytes / SEGMENTS_OF_MEMORY
    }

    /// The longest value of a store that is measured.
    pub(super) fn longest_value(&self) -> usize {
        self.stores.iter().map(|store| store.values.sizes.most).max().unwrap_or(0)
    }

    /// What a process may use with the page cache of its files: a quarter more than its budget, and in
    /// small budgets the 32 MiB that every process may have in addition.
    pub(super) fn memory_limit(&self) -> u64 {
        let memory = self.memory_bytes as u64;
        (memory / 4 * 5).max(memory / 10 * 11 + (32 << 20))
    }

    /// The sizes by name, for the report.
    pub(super) fn named(&self) -> Vec<(String, String)> {
        let mut named = vec![
            ("duration_seconds".to_owned(), self.duration.as_secs_f64().to_string()),
            ("threads".to_owned(), self.threads.to_string()),
        ];
        named.extend(
            self.stores
                .iter()
                .map(|store| (format!("records of {}", store.name()), store.records.to_string())),
        );
        named.extend(
            self.cut
                .iter()
                .enumerate()
                .map(|(at, cut)| (format!("not measured, {}", at + 1), cut.clone())),
        );
        named
    }
}

/// The sizes that were asked for, or those of the scale.
fn factors(wishes: &Wishes<'_>) -> Outcome<Vec<u64>> {
    let Some(list) = wishes.sizes else {
        return Ok(match wishes.scale {
            Scale::Quick => QUICK_FACTORS.to_vec(),
            Scale::Full => FULL_FACTORS.to_vec(),
        });
    };
    let mut factors = Vec::new();
    for item in list.split(',').map(str::trim) {
        let factor = item.trim_end_matches('x').parse().ok().filter(|n| (1..=10_000).contains(n));
        let factor = factor.ok_or_else(|| {
            Failure::Usage(format!("{item:?} is not a number of times the memory, such as 16"))
        })?;
        if factors.contains(&factor) {
            return Err(Failure::Usage(format!("size {factor} is named twice")));
        }
        factors.push(factor);
    }
    factors.sort_unstable();
    Ok(factors)
}

/// Why stores of this size are not measured, if they are not.
fn why_not(bytes: u64, wishes: &Wishes<'_>, engines: u64, room: &Room) -> Option<String> {
    if wishes.scale == Scale::Quick && wishes.sizes.is_none() && bytes > QUICK_STORE_BYTES {
        return Some("too large for a quick run; name it in --sizes, or run --full".to_owned());
    }
    // Those of all engines are there at once, with what compactions hold twice.
    let wanted = bytes.saturating_mul(2 * engines);
    (wanted > room.disk_bytes).then(|| {
        let (wanted, free) = (units::bytes(wanted), units::bytes(room.disk_bytes));
        format!("the engines' stores may take {wanted} of disk, and {free} are free")
    })
}

/// Which loads were asked for.
struct Cases<'a>(Option<Vec<&'a str>>);

impl<'a> Cases<'a> {
    /// A list of values, loads, or both: `1kb`, `get`, `1kb-get`.
    fn parse(list: Option<&'a str>) -> Outcome<Cases<'a>> {
        let Some(list) = list else { return Ok(Cases(None)) };
        let items: Vec<&str> = list.split(',').map(str::trim).collect();
        for item in &items {
            let is_known =
                |values: &Values| LOADS.iter().any(|load| matches(item, values.name, load));
            if !VALUES.iter().any(is_known) {
                let values = VALUES.map(|values| values.name).join(", ");
                let loads = LOADS.join(", ");
                return Err(Failure::Usage(format!(
                    "there is no case {item:?}; there are values ({values}), loads ({loads}), and \
                     both, such as 1kb-get"
                )));
            }
        }
        Ok(Cases(Some(items)))
    }

    /// The loads on stores of these values.
    fn loads(&self, values: &Values) -> Vec<&'static str> {
        let is_wanted = |load: &&&str| match &self.0 {
            None => true,
            Some(items) => items.iter().any(|item| matches(item, values.name, load)),
        };
        LOADS.iter().filter(is_wanted).copied().collect()
    }
}

/// Whether `item` of a list names this load on stores of these values.
fn matches(item: &str, values: &str, load: &str) -> bool {
    item == values || item == load || item.split_once('-') == Some((values, load))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: Room =
        Room { memory_bytes: 32 << 30, disk_bytes: 500 << 30, pool_bytes: 16 << 30 };

    fn of(wishes: Wishes<'_>) -> Sizes {
        Sizes::of(&wishes, &["esker-wal", LMDB], &ROOMY).unwrap()
    }

    fn names(sizes: &Sizes) -> Vec<String> {
        sizes.stores.iter().map(Store::name).collect()
    }

    #[test]
    fn a_full_run_has_every_size_and_at_least_thirty_gigabytes() {
        let full = of(Wishes { scale: Scale::Full, ..Wishes::default() });
        assert_eq!((full.stores.len(), full.memory_bytes), (12, 256 << 20));
        let largest = full.stores.last().unwrap();
        let bytes = largest.records as f64 * (KEY_BYTES + largest.values.mean_bytes());
        assert!(bytes >= 30e9 && largest.factor >= 100, "{bytes}");
        assert_eq!(full.memory_limit(), 320 << 20);
    }

    #[test]
    fn a_quick_run_leaves_the_largest_stores_out_unless_they_are_named() {
        let quick = of(Wishes::default());
        assert_eq!(names(&quick).last().unwrap(), "mixed-16x");
        assert!(quick.cut.iter().any(|cut| cut.starts_with("100x (6.2")), "{:?}", quick.cut);
        let named = of(Wishes { sizes: Some("100,4x"), ..Wishes::default() });
        assert_eq!(names(&named)[0], "100b-4x");
        assert_eq!(names(&named)[3], "100b-100x");
        // 102.4 MiB, as a process may have 32 MiB beside its budget.
        assert_eq!(quick.memory_limit() >> 20, 102);
    }

    #[test]
    fn loads_take_as_long_as_asked_for() {
        let timed = |seconds| {
            let duration = Some(Duration::from_secs(seconds));
            Sizes::of(&Wishes { duration, ..Wishes::default() }, &["esker-wal"], &ROOMY)
        };
        let twelve = timed(12).unwrap();
        assert_eq!((twelve.duration.as_secs(), twelve.warm_up.as_secs()), (12, 4));
        assert!(matches!(timed(0), Err(Failure::Usage(_))));
    }

    #[test]
    fn what_has_no_room_on_disk_is_left_out() {
        let room = Room { disk_bytes: 3 << 30, ..ROOMY };
        let sizes = Sizes::of(&Wishes::default(), &["esker-wal", "fjall"], &room).unwrap();
        assert_eq!(names(&sizes).last().unwrap(), "mixed-4x");
        assert!(sizes.cut[0].contains("of disk"), "{:?}", sizes.cut);
        let room = Room { disk_bytes: 1 << 20, ..ROOMY };
        assert!(Sizes::of(&Wishes::default(), &["esker-wal"], &room).is_err());
    }

    #[test]
    fn cases_are_values_or_loads_or_both() {
        let loads = |cases| {
            let sizes = of(Wishes { cases: Some(cases), sizes: Some("1"), ..Wishes::default() });
            let of_store = |store: &Store| (store.name(), store.loads.clone());
            sizes.stores.iter().map(of_store).collect::<Vec<_>>()
        };
        assert_eq!(loads("mixed"), [("mixed-1x".to_owned(), LOADS.to_vec())]);
        assert_eq!(loads("1kb-get, 1kb-A"), [("1kb-1x".to_owned(), vec!["get", "A"])]);
        assert_eq!(loads("scan").len(), 3);
        for bad in ["2kb", "G", "1kb-", "1kb-load", ""] {
            let wishes = Wishes { cases: Some(bad), ..Wishes::default() };
            assert!(Sizes::of(&wishes, &["esker-wal"], &ROOMY).is_err(), "{bad}");
        }
        for bad in ["0", "x", "4,4x", "1.5"] {
            let wishes = Wishes { sizes: Some(bad), ..Wishes::default() };
            assert!(Sizes::of(&wishes, &["esker-wal"], &ROOMY).is_err(), "{bad}");
        }
    }

    #[test]
    fn lmdb_has_stores_that_fit_and_few_descriptors_are_for_esker_alone() {
        let sizes = of(Wishes { sizes: Some("4,16"), ..Wishes::default() });
        assert_eq!(sizes.stores[0].engines_of("get"), ["esker-wal", LMDB]);
        assert_eq!(sizes.stores[0].engines_of("files64"), ["esker-wal"]);
        assert_eq!(sizes.stores[3].engines_of("get"), ["esker-wal"]);
        assert!(sizes.cut[0].contains("16x of lmdb"), "{:?}", sizes.cut);
        let alone = Sizes::of(&Wishes::default(), &[LMDB], &ROOMY).unwrap();
        assert!(alone.stores.iter().all(|store| !store.loads.contains(&"files64")));
        assert_eq!(alone.stores.len(), 6);
    }
}
