//! Reads, compared with the model.

use super::{Check, Halt, Harness};
use crate::content;
use crate::model::{Pairs, World};
use crate::operations::SPACES;
use esker_api::{Cursor, KeyRange, Value};
use esker_base::{Error, Result};
use esker_lsm::{Db, DbCursor, Keyspace, Snapshot};

/// Keys that are looked up whether they are there or not.
const PROBES: u16 = 25;

impl Harness {
    /// The keyspace with this number, its handle and its id, if it is there.
    pub(super) fn keyspace(&self, space: u8) -> Check<Option<(Keyspace, u32)>> {
        let name = SPACES[usize::from(space)];
        let Some(id) = self.model.space(name) else { return Ok(None) };
        match self.db().open_keyspace(name) {
            Ok(keyspace) if keyspace.id().0 == id => Ok(Some((keyspace, id))),
            Ok(keyspace) => {
                Err(Halt::Wrong(format!("keyspace {name} has id {}, not {id}", keyspace.id())))
            }
            Err(error) => Err(Halt::Wrong(format!("keyspace {name} is gone: {error}"))),
        }
    }

    pub(super) fn get(&mut self, space: u8, keys: &[u16]) -> Check {
        let Some((keyspace, id)) = self.keyspace(space)? else { return Ok(()) };
        let pairs = self.model.now().pairs_at(id, self.machine.millis());
        let keys: Vec<_> = keys.iter().map(|&key| content::key(key)).collect();
        for key in &keys {
            let found = self.read("a get", |db| db.get(&keyspace, key))?;
            let expected = pairs.get(key).map(|value| &value[..]);
            compare(key, found.as_deref(), expected)?;
            self.note_read(found.as_deref().unwrap_or_default());
            match self.db().try_get(&keyspace, key) {
                Ok(found) => compare(key, found.as_deref(), expected)?,
                Err(Error::WouldBlock) => {}
                Err(_) if self.machine.take_read_fault() => {}
                Err(error) => return Err(Halt::Wrong(format!("try_get fails: {error}"))),
            }
        }
        let slices: Vec<_> = keys.iter().map(|key| &key[..]).collect();
        let found = self.read("a multi_get", |db| db.multi_get(&keyspace, &slices))?;
        for (key, found) in keys.iter().zip(found) {
            compare(key, found.as_deref(), pairs.get(key).map(|value| &value[..]))?;
        }
        Ok(())
    }

    pub(super) fn scan(&mut self, space: u8, a: u16, b: u16) -> Check {
        let Some((keyspace, id)) = self.keyspace(space)? else { return Ok(()) };
        let pairs = self.model.now().pairs_at(id, self.machine.millis());
        let (a, b) = (content::key(a), content::key(b));
        let (start, end) = if a < b { (a, b) } else { (b, a) };
        let range = KeyRange::of(start.as_slice()..end.as_slice());
        let expected: Vec<_> = pairs.range(start.clone()..end.clone()).collect();
        let found = self.read("a scan", |db| {
            collect(db.cursor(&keyspace, range.clone())?, Cursor::seek_first, Cursor::next)
        })?;
        same_pairs("a scan", &found, expected.iter().copied())?;
        for (key, value) in &found {
            self.note_read(key);
            self.note_read(value);
        }
        let found = self.read("a scan back", |db| {
            collect(db.cursor(&keyspace, range.clone())?, Cursor::seek_last, Cursor::prev)
        })?;
        same_pairs("a scan back", &found, expected.iter().rev().copied())
    }

    pub(super) fn read_snapshot(&mut self, slot: u8) -> Check {
        let Some((snapshot, world)) = self.snapshots[usize::from(slot)].take() else {
            return Ok(());
        };
        let checked = self.check_world(&world, Some(&snapshot));
        self.snapshots[usize::from(slot)] = Some((snapshot, world));
        checked
    }

    /// Compares all of the database with the model.
    pub(super) fn check_all(&mut self) -> Check {
        let visible = self.db().stats().visible_seqno;
        let expected = self.model.seqno();
        if visible != expected {
            let what = format!("the last visible seqno is {visible}, not {expected}");
            return Err(Halt::Wrong(what));
        }
        let world = self.model.now().clone();
        self.check_world(&world, None)
    }

    /// Compares every keyspace that there is now with `world`, at `snapshot` or now.
    fn check_world(&mut self, world: &World, snapshot: Option<&Snapshot>) -> Check {
        for space in 0..SPACES.len() as u8 {
            let Some((keyspace, id)) = self.keyspace(space)? else { continue };
            let pairs = world.pairs_at(id, self.machine.millis());
            while let Err(mismatch) = check_pairs(&self.db(), &keyspace, &pairs, snapshot) {
                self.judge(mismatch)?;
            }
        }
        Ok(())
    }

    /// `Ok` if the mismatch is only a read that failed with cause, which may be repeated.
    fn judge(&mut self, mismatch: Mismatch) -> Check {
        if let Mismatch::Error(error) = &mismatch
            && !error.is_corruption()
        {
            if self.machine.is_over() {
                return Err(Halt::Over);
            }
            if self.machine.take_read_fault() {
                self.outcome.excused += 1;
                return Ok(());
            }
        }
        Err(Halt::Wrong(mismatch.describe()))
    }
}

/// Why a database is not what it should be.
#[derive(Debug)]
pub(crate) enum Mismatch {
    /// It can't be read.
    Error(Error),
    /// It says something else.
    Wrong(String),
}

impl Mismatch {
    pub(crate) fn describe(self) -> String {
        match self {
            Mismatch::Error(error) => format!("a comparison fails: {error}"),
            Mismatch::Wrong(what) => what,
        }
    }
}

impl From<Error> for Mismatch {
    fn from(error: Error) -> Self {
        Mismatch::Error(error)
    }
}

/// Compares all of `keyspace` with `pairs`: forward, back, and key by key.
pub(crate) fn check_pairs(
    db: &Db,
    keyspace: &Keyspace,
    pairs: &Pairs,
    snapshot: Option<&Snapshot>,
) -> std::result::Result<(), Mismatch> {
    let all = || match snapshot {
        Some(snapshot) => snapshot.iter(keyspace),
        None => db.iter(keyspace),
    };
    let named = |what: &str| format!("{what} of {}", keyspace.name());
    let wrong = |halt| match halt {
        Halt::Wrong(what) => Mismatch::Wrong(what),
        Halt::Over => unreachable!("a comparison of pairs makes no call"),
    };
    let found = all().collect::<Result<Vec<_>>>()?;
    same_pairs(&named("the whole"), &found, pairs.iter()).map_err(wrong)?;
    let found = all().rev().collect::<Result<Vec<_>>>()?;
    same_pairs(&named("the whole, backwards,"), &found, pairs.iter().rev()).map_err(wrong)?;
    let probes: Vec<_> = (0..PROBES).map(content::key).collect();
    for key in pairs.keys().chain(&probes) {
        let found = match snapshot {
            Some(snapshot) => snapshot.get(keyspace, key)?,
            None => db.get(keyspace, key)?,
        };
        compare(key, found.as_deref(), pairs.get(key).map(|value| &value[..])).map_err(wrong)?;
    }
    Ok(())
}

/// All entries of a cursor's range, one way or the other.
fn collect(
    mut cursor: DbCursor,
    start: fn(&mut DbCursor) -> Result<()>,
    step: fn(&mut DbCursor) -> Result<()>,
) -> Result<Vec<(Value, Value)>> {
    let mut found = Vec::new();
    start(&mut cursor)?;
    while let Some((key, value)) = cursor.current() {
        found.push((Value::copy_of(key), Value::copy_of(value)));
        step(&mut cursor)?;
    }
    Ok(found)
}

fn same_pairs<'a>(
    what: &str,
    found: &[(Value, Value)],
    expected: impl Iterator<Item = (&'a Vec<u8>, &'a std::sync::Arc<[u8]>)>,
) -> Check {
    let mut found = found.iter();
    for (key, value) in expected {
        match found.next() {
            Some((found_key, found_value))
                if *found_key == *key && found_value[..] == value[..] => {}
            Some((found_key, found_value)) => {
                return Err(Halt::Wrong(format!(
                    "{what} has {} where {} should be",
                    show(found_key, Some(found_value)),
                    show(key, Some(value))
                )));
            }
            None => {
                return Err(Halt::Wrong(format!("{what} ends before {}", show(key, Some(value)))));
            }
        }
    }
    match found.next() {
        None => Ok(()),
        Some((key, value)) => Err(Halt::Wrong(format!(
            "{what} has {}, which should not be there",
            show(key, Some(value))
        ))),
    }
}

pub(super) fn compare(key: &[u8], found: Option<&[u8]>, expected: Option<&[u8]>) -> Check {
    if found == expected {
        return Ok(());
    }
    Err(Halt::Wrong(format!(
        "a get finds {} where {} should be",
        show(key, found),
        show(key, expected)
    )))
}

/// An entry, abridged.
fn show(key: &[u8], value: Option<&[u8]>) -> String {
    let value = match value {
        None => "nothing".to_owned(),
        Some(value) => {
            let head = &value[..value.len().min(8)];
            format!("{} bytes starting with \"{}\"", value.len(), head.escape_ascii())
        }
    };
    format!("\"{}\": {value}", key.escape_ascii())
}
