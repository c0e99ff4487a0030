//! Hash stores in the campaign.

use super::image::{Image, Kind, Recorder, copy};
use super::judge::{Excuses, History, Later, Range, Reading, Seen};
use super::kinds::Damage;
use esker_api::Kv;
use esker_base::{Error, Rng, Threads};
use esker_hashstore::check::{Report, check as check_device, scrub};
use esker_hashstore::device::FileDevice;
use esker_hashstore::repair::repair as repair_device;
use esker_hashstore::{CreateSettings, HashStore, Unreadable, store_file};
use std::path::Path;

const STORE: &str = "store";
const BYTES: u64 = 1 << 20;

type Judged<T = Seen> = Result<T, String>;

/// A store that was closed, or whose process died.
pub fn make(scratch: &Path, is_closed: bool) -> Judged<Image> {
    let text = |error: Error| error.to_string();
    let io = |error: std::io::Error| error.to_string();
    let (live, dir) = (scratch.join("live"), scratch.join(format!("hash-{is_closed}")));
    std::fs::create_dir_all(&live).map_err(io)?;
    let path = live.join(STORE);
    let settings = CreateSettings::default().partitions(1);
    HashStore::create(&path, Some(BYTES), &settings, &mut Rng::new(1)).map_err(text)?;
    let (mut history, mut stored) = (History::default(), Vec::new());
    for round in 0..3u8 {
        let store = HashStore::open(&path, &Threads).map_err(text)?;
        let mut recorder = Recorder::new(&live).map_err(io)?;
        (history, stored) = (history.all_flushed(), Vec::new());
        for number in 0..40u8 {
            let key = format!("key {number:03}").into_bytes();
            let value = (number % 7 != round)
                .then(|| vec![number ^ round << 6; 100 + usize::from(number) * 20]);
            match &value {
                Some(value) => store.put(&key, value).map_err(text)?,
                None => store.delete(&key).map_err(text)?,
            }
            if round == 2 {
                stored.push(recorder.spans_of(&key).map_err(io)?);
            }
            history.writes.push((key, value));
        }
        if round == 2 && !is_closed {
            copy(&live, &dir).map_err(io)?;
        }
        store.close().map_err(text)?;
    }
    if is_closed {
        copy(&live, &dir).map_err(io)?;
        history = history.all_flushed();
    }
    std::fs::remove_dir_all(&live).map_err(io)?;
    if stored.contains(&Vec::new()) {
        return Err("the store has not the bytes of a write".into());
    }
    let name = format!("a hash store that was {}", if is_closed { "closed" } else { "killed" });
    Ok(Image { name, kind: Kind::Hash, dir, history, stored })
}

/// Whether `check` and `scrub` report anything.
pub fn check(dir: &Path) -> (bool, bool) {
    let is_found = |report: esker_base::Result<Report>| {
        report.map_or(true, |report| !report.problems.is_empty() || !report.torn.is_empty())
    };
    let path = dir.join(STORE);
    let checked = is_found(FileDevice::open(&path).and_then(|device| check_device(&device)));
    (checked, is_found(FileDevice::open(&path).and_then(|device| scrub(&device))))
}

/// Reads all keys, and lists them.
fn read(store: &HashStore, history: &History, excuses: &Excuses, later: &Later) -> Judged {
    let get = |key: &[u8]| Ok::<_, Error>(store.get(key)?.map(|value| value.to_vec()));
    let mut keys = history.keys();
    keys.extend(later.written.keys().cloned());
    let seen = history.judge(&Reading::of(keys.clone(), get), excuses, later)?;
    keys.extend(later.refused.iter().cloned());
    let listed = store.list(None, usize::MAX).map_err(|error| format!("a list: {error}"))?;
    match listed.iter().find(|key| !keys.contains(*key)) {
        Some(key) => Err(format!("{} was never written, and is listed", key.escape_ascii())),
        None => Ok(seen),
    }
}

/// Writes to a new key and to others, until a write is refused.
fn write_later(store: &HashStore, turn: u8, later: &mut Later) {
    for number in 0..4u8 {
        let key = match number {
            0 => format!("new {turn}"),
            _ => format!("key {:03}", turn * 8 + number),
        };
        let (key, value) = (key.into_bytes(), (number != 3).then(|| vec![turn ^ 0x5a; 3000]));
        let written = match &value {
            Some(value) => store.put(&key, value),
            None => store.delete(&key),
        };
        if written.is_err() {
            later.written.remove(&key);
            later.refused.insert(key);
            return;
        }
        later.written.insert(key, value);
    }
}

/// Opens, reads, writes, closes and opens again. `None` if the first open fails.
pub fn write_on(dir: &Path, image: &Image, kept: usize) -> Judged<Option<Seen>> {
    let path = dir.join(STORE);
    let (mut later, mut seen) = (Later::default(), Seen::Harmless);
    let mut excuses = Excuses::kept(kept);
    for round in 0..3 {
        let store = match HashStore::open(&path, &Threads) {
            Ok(store) => store,
            Err(_) if round == 0 => return Ok(None),
            Err(error) => return Err(format!("open {round} failed: {error}")),
        };
        excuses.ranges.extend(store.opened().torn.iter().map(|torn| Range::of_key(&torn.key)));
        let found = read(&store, &image.history, &excuses, &later);
        seen = seen.max(found.map_err(|what| format!("open {round}: {what}"))?);
        write_later(&store, round, &mut later);
        let found = read(&store, &image.history, &excuses, &later);
        seen = seen.max(found.map_err(|what| format!("open {round}, after writes: {what}"))?);
        if store.close().is_err() {
            seen = Seen::Reported;
        }
    }
    Ok(Some(seen))
}

/// Repairs, checks, reopens, writes and reopens. `None` if the repair refuses.
pub fn repair(dir: &Path, image: &Image, damage: &Damage) -> Judged<Option<Seen>> {
    let path = dir.join(STORE);
    let text = |error: Error| error.to_string();
    let Ok(mut device) = FileDevice::open(&path) else { return Ok(None) };
    let Ok(layout) = store_file::layout_of_any_size(&device) else { return Ok(None) };
    let shortened = store_file::shortened(&device, &layout);
    device.lengthen(layout.device_bytes).map_err(text)?;
    let mut repaired = repair_device(&device, Unreadable::Fail)
        .map_err(|error| format!("the repair failed: {error}"))?;
    repaired.problems.extend(shortened);
    let report = scrub(&device).map_err(text)?;
    if let Some(problem) = report.problems.first() {
        return Err(format!("after the repair: {problem}"));
    }
    drop(device);
    // A damaged last write is one that power loss cut off. `check` and the next open report it; the repair does not.
    let kept = damage.kept_beside_writer(image);
    let mut excuses = excuses_of_repaired(&repaired.problems, kept);
    if !repaired.problems.is_empty() {
        // The repair cannot name the key of a record of which nothing is left.
        excuses.ranges.extend(damage.touched_keys(image).map(|key| Range::of_key(key)));
    }
    let (mut later, mut seen) = (Later::default(), Seen::Harmless);
    for round in 0..2 {
        let store = HashStore::open(&path, &Threads)
            .map_err(|error| format!("open {round} after the repair: {error}"))?;
        seen = seen.max(
            read(&store, &image.history, &excuses, &later)
                .map_err(|what| format!("open {round} after the repair: {what}: {repaired:?}"))?,
        );
        write_later(&store, round, &mut later);
        store.close().map_err(text)?;
    }
    Ok(Some(seen))
}

/// Keys that may have lost their last values as the repair named them.
fn excuses_of_repaired(problems: &[Error], kept: usize) -> Excuses {
    let named = problems.iter().filter_map(|problem| {
        let Error::HashStoreDamaged { what, .. } = problem else { return None };
        let key = match what.split_once("its key may be ") {
            Some((_, key)) => key,
            None => what.strip_prefix("key ")?.split_once(':')?.0,
        };
        Some(Range::of_key(key.as_bytes()))
    });
    Excuses { kept, ranges: named.collect(), may_fail: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repair_is_excused_the_keys_that_it_names() {
        let problem = |what: &str| Error::HashStoreDamaged {
            store: "store".into(),
            offset: 0,
            what: what.into(),
        };
        assert_eq!(excuses_of_repaired(&[], 7), Excuses { may_fail: false, ..Excuses::kept(7) });
        let problems = [
            problem("key a b: the value is not what was written"),
            problem(
                "write 3 of partition 0 was durable, and its record is not what was written; its key may be c",
            ),
            problem(
                "write 4 of partition 0 was durable, and its record is not found; its key is not known",
            ),
            problem("a copy of the superblock"),
        ];
        let ranges = vec![Range::of_key(b"a b"), Range::of_key(b"c")];
        let excuses = Excuses { kept: 7, ranges, may_fail: false };
        assert_eq!(excuses_of_repaired(&problems, 7), excuses);
    }
}
