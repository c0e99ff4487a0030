//! Hash stores in the campaign.

use super::image::{Image, Kind, Outcome, copy};
use esker_api::Kv;
use esker_base::{Rng, Threads};
use esker_hashstore::check::{check, scrub};
use esker_hashstore::device::FileDevice;
use esker_hashstore::repair::repair;
use esker_hashstore::{CreateSettings, HashStore, Unreadable, volume};
use std::path::Path;

const STORE: &str = "store";
const BYTES: u64 = 1 << 20;

/// A store that was closed, or whose process died.
pub fn make(scratch: &Path, is_closed: bool) -> Result<Image, String> {
    let text = |error: esker_base::Error| error.to_string();
    let (live, dir) = (scratch.join("live"), scratch.join(format!("hash-{is_closed}")));
    std::fs::create_dir_all(&live).map_err(|error| error.to_string())?;
    let path = live.join(STORE);
    let settings = CreateSettings { partitions: Some(1), ..CreateSettings::default() };
    HashStore::create(&path, Some(BYTES), &settings, &mut Rng::new(1)).map_err(text)?;
    let mut history = Vec::new();
    for round in 0..3u8 {
        let store = HashStore::open(&path, &Threads).map_err(text)?;
        for number in 0..40u8 {
            let key = format!("key {number:03}").into_bytes();
            let value = (number % 7 != round)
                .then(|| vec![number ^ round << 6; 100 + usize::from(number) * 20]);
            match &value {
                Some(value) => store.put(&key, value).map_err(text)?,
                None => store.delete(&key).map_err(text)?,
            }
            history.push((key, value));
        }
        if round == 2 && !is_closed {
            copy(&live, &dir).map_err(|error| error.to_string())?;
        }
        store.close().map_err(text)?;
    }
    if is_closed {
        copy(&live, &dir).map_err(|error| error.to_string())?;
    }
    std::fs::remove_dir_all(&live).map_err(|error| error.to_string())?;
    let name = format!("a hash store that was {}", if is_closed { "closed" } else { "killed" });
    Ok(Image { name, kind: Kind::Hash, dir, history })
}

pub fn use_damaged(dir: &Path, image: &Image) -> Result<Vec<Outcome>, String> {
    let path = dir.join(STORE);
    let checked = FileDevice::open(&path).and_then(|device| check(&device));
    let is_reported =
        checked.is_ok_and(|report| !report.problems.is_empty() || !report.torn.is_empty());
    let mut outcome = Outcome::of("an open");
    outcome.is_reported = is_reported;
    for round in 0..2 {
        let Ok(store) = HashStore::open(&path, &Threads) else {
            outcome.is_open = round > 0;
            return Ok(vec![outcome.failed()]);
        };
        outcome.is_reported |= !store.opened().torn.is_empty();
        outcome.add(&image.compare(|key| Ok(store.get(key)?.map(|value| value.to_vec())))?);
        outcome.is_reported |= store.put(b"another", &[round; 3000]).is_err();
        outcome.is_reported |= store.close().is_err();
    }
    Ok(vec![outcome])
}

pub fn repair_damaged(dir: &Path, image: &Image) -> Result<bool, String> {
    let path = dir.join(STORE);
    let text = |error: esker_base::Error| error.to_string();
    let Ok(mut device) = FileDevice::open(&path) else { return Ok(false) };
    let Ok(layout) = volume::layout_of_any_size(&device) else { return Ok(false) };
    device.lengthen(layout.device_bytes).map_err(text)?;
    let repaired =
        repair(&device, Unreadable::Fail).map_err(|error| format!("the repair failed: {error}"))?;
    let report = scrub(&device).map_err(text)?;
    if let Some(problem) = report.problems.first() {
        return Err(format!("after the repair: {problem}"));
    }
    drop(device);
    let store =
        HashStore::open(&path, &Threads).map_err(|error| format!("after the repair: {error}"))?;
    let found = image.compare(|key| Ok(store.get(key)?.map(|value| value.to_vec())))?;
    if found.errors > 0 {
        return Err(format!("{} keys cannot be read after the repair", found.errors));
    }
    let _ = repaired;
    store.close().map_err(text)?;
    Ok(true)
}
