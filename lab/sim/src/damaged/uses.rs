//! The ways to use a damaged database: check, read, read around the damage, write, repair.

use super::database::{
    DATABASE, DROPPED, KEYSPACES, inspector, open, open_read_only, split, text, write,
};

use super::image::{Image, Place};
use super::judge::{Excuses, History, Later, Range, Reading, Seen};
use esker_api::KeyRange;
use esker_base::Error;
use esker_flash::chunk_device::FileChunkDevice;
use esker_flash::storage::repair as repair_flash;
use esker_lsm::Db;
use esker_lsm::inspect::LostKeys;
use esker_lsm::inspect::check::CheckReport;
use esker_lsm::inspect::read_around::Skipped;
use esker_lsm::inspect::repair::{MissingLogPolicy, RepairReport};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

type Judged<T = Seen> = std::result::Result<T, String>;

/// Whether `check` reports a problem, or a torn end of the log.
pub fn check(dir: &Path, place: Place) -> bool {
    checked(dir, place).is_none_or(|checked| checked.torn_log.is_some())
}

/// What `check` went through. `None` if it fails or reports a problem.
fn checked(dir: &Path, place: Place) -> Option<CheckReport> {
    let checked = inspector(dir, place).and_then(|it| it.check(&mut |_| {})).ok()?;
    (checked.problems == 0).then_some(checked)
}

/// An open database, and what its reads are judged by.
struct Opened<'a> {
    db: &'a Db,
    history: &'a History,
    excuses: Excuses,
    later: &'a Later,
    /// Whether the dropped keyspace may be there.
    may_have_dropped: bool,
}

impl Opened<'_> {
    /// Gets and scans everything.
    fn read(&self) -> Judged {
        let is_unknown =
            |name: &str| !(KEYSPACES.contains(&name) || name == DROPPED && self.may_have_dropped);
        if let Some(found) = self.db.keyspaces().iter().find(|found| is_unknown(&found.name)) {
            return Err(format!("there is a keyspace {:?}", found.name));
        }
        let mut keys = self.history.keys();
        keys.extend(self.later.written.keys().cloned());
        let got = Reading::of(keys.clone(), |key| {
            let (keyspace, key) = split(key);
            match self.db.open_keyspace(keyspace) {
                Ok(keyspace) => Ok(self.db.get(&keyspace, key)?.map(|value| value.to_vec())),
                // A missing keyspace is no report of damage.
                Err(Error::UnknownKeyspace { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        });
        let got = self.history.judge(&got, &self.excuses, self.later)?;
        self.scan(keys).map_err(|what| format!("scans: {what}")).map(|scanned| scanned.max(got))
    }

    /// Scans each keyspace, up to the first error.
    fn scan(&self, keys: BTreeSet<Vec<u8>>) -> Judged {
        let mut reading = Reading::default();
        let mut stops = BTreeMap::new();
        for name in KEYSPACES {
            let Ok(keyspace) = self.db.open_keyspace(name) else { continue };
            let mut last = full_key(name, b"");
            for pair in self.db.range(&keyspace, KeyRange::all()) {
                match pair {
                    Ok((key, value)) => {
                        last = full_key(name, &key);
                        reading.values.insert(last.clone(), Some(value.into_vec()));
                    }
                    Err(_) => drop(stops.insert(name, last.clone())),
                }
            }
        }
        for key in keys {
            let is_reached = stops.get(split(&key).0).is_none_or(|stop| key <= *stop);
            if is_reached {
                reading.values.entry(key).or_insert(None);
            }
        }
        let seen = self.history.judge(&reading, &self.excuses, self.later)?;
        Ok(if stops.is_empty() { seen } else { Seen::Reported })
    }
}

fn full_key(keyspace: &str, key: &[u8]) -> Vec<u8> {
    [keyspace.as_bytes(), b"/", key].concat()
}

/// The writes that may be gone once a database is open: a torn end of the log may have been any that no table has.
fn kept_by(db: &Db, history: &History, kept: usize) -> usize {
    if db.torn_tail().is_some() { history.flushed.min(kept) } else { kept }
}

/// Opens to read. `None` if that fails.
pub fn read_only(dir: &Path, place: Place, image: &Image, kept: usize) -> Judged<Option<Seen>> {
    let Ok(db) = open_read_only(dir, place) else { return Ok(None) };
    let (history, later) = (&image.history, &Later::default());
    let excuses = Excuses::kept(kept_by(&db, history, kept));
    let seen = Opened { db: &db, history, excuses, later, may_have_dropped: false }.read()?;
    Ok(Some(if db.torn_tail().is_some() { Seen::Reported } else { seen }))
}

/// Reads around the damage, as `--skip-damaged` does.
pub fn around(dir: &Path, place: Place, image: &Image, kept: usize) -> Judged {
    let Ok(inspector) = inspector(dir, place) else { return Ok(Seen::Reported) };
    let mut reading = Reading::default();
    let mut all_skipped = Vec::new();
    for name in KEYSPACES {
        let mut visit = |key: &[u8], value: &[u8]| {
            reading.values.insert(full_key(name, key), Some(value.to_vec()));
            Ok::<_, Error>(true)
        };
        let mut skip = |skipped| all_skipped.push((name, skipped));
        if inspector.read_around(name, &KeyRange::all(), &mut visit, &mut skip).is_err() {
            image.history.check_values(&reading.values, &Later::default())?;
            return Ok(Seen::Reported);
        }
    }
    let of_dropped =
        inspector.read_around(DROPPED, &KeyRange::all(), |_, _| Ok::<_, Error>(true), &mut |_| {});
    let is_manifest_skipped = all_skipped.iter().any(|(_, it)| it.file.ends_with(".manifest"));
    if of_dropped.is_ok() && !is_manifest_skipped {
        return Err("the dropped keyspace is there".into());
    }
    for key in image.history.keys() {
        reading.values.entry(key).or_insert(None);
    }
    let excuses = excuses_of_skipped(&all_skipped, &image.history, kept);
    let seen = image.history.judge(&reading, &excuses, &Later::default())?;
    Ok(if all_skipped.is_empty() { seen } else { Seen::Reported })
}

/// Keys that may have lost their last values as they were skipped. A skipped log may have held all writes that no table
/// has, and no other.
fn excuses_of_skipped(all: &[(&str, Skipped)], history: &History, kept: usize) -> Excuses {
    let mut excuses = Excuses::kept(kept);
    for (keyspace, Skipped { file, keys, .. }) in all {
        let is_log = !file.ends_with(".tables") && !file.ends_with(".manifest");
        match is_log && keys.from.is_empty() && keys.to.is_none() {
            true => excuses.kept = kept.min(history.flushed),
            false => excuses.ranges.push(range_of(keyspace, keys)),
        }
    }
    excuses
}

fn range_of(keyspace: &str, LostKeys { from, to, .. }: &LostKeys) -> Range {
    // Behind all keys of the keyspace.
    let end = format!("{keyspace}0").into_bytes();
    let to = to.as_ref().map_or(end, |to| full_key(keyspace, to));
    Range { from: full_key(keyspace, from), to: Some(to) }
}

/// Opens to write: reads, writes, flushes, compacts, closes and opens again. `None` if the first open fails.
pub fn write_on(dir: &Path, place: Place, image: &Image, kept: usize) -> Judged<Option<Seen>> {
    let history = &image.history;
    let (mut later, mut seen, mut kept) = (Later::default(), Seen::Harmless, kept);
    for round in 0..3 {
        let db = match open(dir, place) {
            Ok(db) => db,
            Err(_) if round == 0 => return Ok(None),
            Err(error) => return Err(format!("open {round} failed: {error}")),
        };
        kept = kept_by(&db, history, kept);
        if db.torn_tail().is_some() {
            seen = Seen::Reported;
        }
        let read = |later: &Later| {
            let excuses = Excuses::kept(kept);
            Opened { db: &db, history, excuses, later, may_have_dropped: false }
                .read()
                .map_err(|what| format!("open {round}: {what}"))
        };
        seen = seen.max(read(&later)?);
        if round == 2 {
            break;
        }
        write_later(&db, round * 2, &mut later);
        for step in [Db::flush, Db::compact] {
            if step(&db).is_err() {
                seen = Seen::Reported;
            }
            seen = seen.max(read(&later)?);
        }
        write_later(&db, round * 2 + 1, &mut later);
        if db.background_error().is_some() || db.close().is_err() {
            seen = Seen::Reported;
        }
    }
    Ok(Some(seen))
}

/// Writes to new keys and to others, until a write is refused.
fn write_later(db: &Db, turn: u8, later: &mut Later) {
    for number in 0..6 {
        let keyspace = KEYSPACES[usize::from(number % 2)];
        let key = match number {
            0 | 1 => format!("{keyspace}/new {turn}"),
            _ => format!("{keyspace}/key {:03}", turn * 12 + number),
        };
        let (key, value) = (key.into_bytes(), (number != 3).then(|| vec![turn ^ 0x5a; 300]));
        match write(db, &key, value.as_deref()) {
            Ok(()) => drop(later.written.insert(key, value)),
            Err(_) => {
                later.written.remove(&key);
                later.refused.insert(key);
                return;
            }
        }
    }
}

/// Repairs, checks, reopens, writes and reopens. `None` if the repair refuses.
pub fn repair(dir: &Path, place: Place, image: &Image, kept: usize) -> Judged<Option<Seen>> {
    let mut kept = kept;
    if place == Place::Flash {
        let device = dir.join(DATABASE);
        if FileChunkDevice::restore_geometry(&device).is_err() {
            return Ok(None);
        }
        let zones =
            FileChunkDevice::open(&device).map_err(|error| format!("after its repair: {error}"))?;
        match repair_flash(Arc::new(zones)) {
            // Which parts of logs are lost the device alone says. Tables that lost parts the database's repair names, too.
            Ok(repaired) if !repaired.problems.is_empty() => kept = kept.min(image.history.flushed),
            Ok(_) => {}
            Err(_) => return Ok(None),
        }
    }
    let Ok(inspector) = inspector(dir, place) else { return Ok(None) };
    let Ok(repaired) = inspector.repair(MissingLogPolicy::GiveUp) else { return Ok(None) };
    drop(inspector);
    // A torn end of the log may be left to the next open.
    let is_new =
        |found: &CheckReport| found.torn_log.is_some() && found.torn_log != repaired.torn_log;
    if checked(dir, place).is_none_or(|found| is_new(&found)) {
        return Err(format!("check finds problems after the repair: {repaired:?}"));
    }
    let excuses = excuses_of_repaired(&repaired, &image.history, kept);
    let (mut later, mut seen) = (Later::default(), Seen::Harmless);
    for round in 0..2 {
        let db = open(dir, place)
            .map_err(text)
            .map_err(|error| format!("open {round} after the repair: {error}"))?;
        let excuses = excuses.clone();
        // Tables say of which keyspace they are, and not that it was dropped.
        let may_have_dropped = !repaired.rebuilt.is_empty();
        let history = &image.history;
        let opened = Opened { db: &db, history, excuses, later: &later, may_have_dropped };
        seen = seen.max(opened.read().map_err(|what| format!("{what}: {repaired:?}"))?);
        write_later(&db, round, &mut later);
        db.close().map_err(|error| format!("after the repair, at the close: {error}"))?;
    }
    Ok(Some(seen))
}

/// Keys that may have lost their last values as a repair named them, or cut a log.
fn excuses_of_repaired(repaired: &RepairReport, history: &History, kept: usize) -> Excuses {
    let is_cut = !repaired.cut_logs.is_empty() || repaired.torn_log.is_some();
    let mut excuses = Excuses::kept(if is_cut { kept.min(history.flushed) } else { kept });
    excuses.may_fail = false;
    for table in &repaired.lost_tables {
        let to = Some(table.largest.clone());
        let whole = LostKeys::new(table.smallest.clone(), to, String::new());
        let lost = if table.kept == 0 { std::slice::from_ref(&whole) } else { &table.lost_keys };
        for keyspace in KEYSPACES {
            excuses.ranges.extend(lost.iter().map(|keys| range_of(keyspace, keys)));
        }
    }
    excuses
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_lsm::inspect::DroppedTable;

    fn history() -> History {
        let write = |key: &str| (key.into(), Some(vec![1]));
        let writes = ["default/a", "default/m", "another/a", "default/a", "default/m"];
        History { writes: writes.map(write).to_vec(), flushed: 3 }
    }

    fn lost(from: &str, to: Option<&str>) -> LostKeys {
        LostKeys::new(from.into(), to.map(Into::into), String::new())
    }

    fn range(from: &str, to: &str) -> Range {
        Range { from: from.into(), to: Some(to.into()) }
    }

    fn skipped(file: &str, keys: LostKeys) -> (&'static str, Skipped) {
        ("default", Skipped::new(file, keys))
    }

    #[test]
    fn a_skipped_block_excuses_the_keys_between_its_ends() {
        let all = [skipped("dir/1.tables", lost("b", Some("c")))];
        let ranges = vec![range("default/b", "default/c")];
        let excuses = Excuses { ranges, ..Excuses::kept(5) };
        assert_eq!(excuses_of_skipped(&all, &history(), 5), excuses);
    }

    #[test]
    fn a_skipped_log_excuses_no_write_that_is_in_a_table() {
        let all = [skipped("dir", lost("", None))];
        assert_eq!(excuses_of_skipped(&all, &history(), 5), Excuses::kept(3));
    }

    #[test]
    fn a_manifest_that_lost_edits_excuses_its_keyspace() {
        let all = [skipped("dir/1.manifest", lost("", None))];
        let ranges = vec![range("default/", "default0")];
        let excuses = Excuses { ranges, ..Excuses::kept(5) };
        assert_eq!(excuses_of_skipped(&all, &history(), 5), excuses);
    }

    #[test]
    fn a_repair_that_names_nothing_is_excused_nothing() {
        let excuses = Excuses { may_fail: false, ..Excuses::kept(5) };
        assert_eq!(excuses_of_repaired(&RepairReport::default(), &history(), 5), excuses);
        // What it says of manifests names no key.
        let mut repaired = RepairReport::default();
        repaired.given_up_manifests.push("1.manifest is damaged".to_owned());
        repaired.rebuilt.push("rebuilt the manifest".to_owned());
        assert_eq!(excuses_of_repaired(&repaired, &history(), 5), excuses);
    }

    #[test]
    fn a_repair_that_cuts_a_log_keeps_what_is_in_tables() {
        let mut repaired = RepairReport::default();
        repaired.cut_logs.push("1.log: cut short".to_owned());
        let excuses = Excuses { may_fail: false, ..Excuses::kept(3) };
        assert_eq!(excuses_of_repaired(&repaired, &history(), 5), excuses);
    }

    #[test]
    fn a_salvaged_table_excuses_only_the_keys_that_it_lost() {
        let mut table = DroppedTable::default();
        (table.smallest, table.largest) = (b"a".to_vec(), b"z".to_vec());
        table.lost_keys.push(lost("b", Some("c")));
        let ranges_of = |table: DroppedTable| {
            let mut repaired = RepairReport::default();
            repaired.lost_tables.push(table);
            excuses_of_repaired(&repaired, &history(), 5).ranges
        };
        let whole = [range("default/a", "default/z"), range("another/a", "another/z")];
        assert_eq!(ranges_of(table.clone()), whole);
        let part = [range("default/b", "default/c"), range("another/b", "another/c")];
        table.kept = 7;
        assert_eq!(ranges_of(table), part);
    }
}
