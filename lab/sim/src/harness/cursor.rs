//! Cursors that stay open while the database changes under them.

use super::{Check, Halt, Harness};
use crate::content;
use crate::model::{Pairs, World};
use crate::operations::{Move, SPACES};
use esker_api::{Cursor, KeyRange};
use esker_base::Error;
use esker_lsm::DbCursor;
use std::ops::Bound;
use std::sync::Arc;

/// A cursor, and where it must be.
pub(crate) struct OpenCursor {
    cursor: DbCursor,
    /// The name and the id of its keyspace.
    keyspace: (&'static str, u32),
    /// Everything at its opening, and its range if that is not all.
    world: World,
    bounds: Option<(Vec<u8>, Vec<u8>)>,
    /// What of its range has not expired.
    pairs: Arc<Pairs>,
    at: Option<Vec<u8>>,
}

impl Harness {
    pub(super) fn open_cursor(&mut self, slot: u8, space: u8, bounds: Option<(u16, u16)>) -> Check {
        let slot = usize::from(slot);
        self.cursors[slot] = None;
        let Some((keyspace, id)) = self.keyspace(space)? else { return Ok(()) };
        let world = self.model.now().clone();
        let bounds = bounds.map(|(a, b)| (content::key(a), content::key(b)));
        let bounds = bounds.filter(|(a, b)| a != b);
        let bounds = bounds.map(|(a, b)| if a < b { (a, b) } else { (b, a) });
        let range = match &bounds {
            Some((start, end)) => KeyRange::of(start.as_slice()..end.as_slice()),
            None => KeyRange::all(),
        };
        let cursor = self.read("opening a cursor", |db| db.cursor(&keyspace, range.clone()))?;
        let keyspace = (SPACES[usize::from(space)], id);
        let pairs = Arc::default();
        let opened = OpenCursor { cursor, keyspace, world, bounds, pairs, at: None };
        self.cursors[slot] = Some(opened);
        Ok(())
    }

    pub(super) fn move_cursor(&mut self, slot: u8, moves: &[Move]) -> Check {
        let slot = usize::from(slot);
        let Some(mut open) = self.cursors[slot].take() else { return Ok(()) };
        open.look(self.machine.millis());
        for &to in moves {
            if let Err(error) = open.go(to) {
                if self.machine.is_over() {
                    return Err(Halt::Over);
                }
                let (name, id) = open.keyspace;
                if matches!(error, Error::UnknownKeyspace { .. })
                    && self.model.space(name) != Some(id)
                {
                    // Dropped: a cursor whose tables have gone can't go on, and need not.
                    return Ok(());
                }
                if error.is_corruption() || !self.machine.take_read_fault() {
                    return Err(Halt::Wrong(format!("a cursor fails on {to:?}: {error}")));
                }
                if open.cursor.current().is_some() {
                    return Err(Halt::Wrong("a cursor stands somewhere after an error".into()));
                }
                open.at = None;
                continue;
            }
            open.check(to)?;
            let found = open.at.clone().unwrap_or_default();
            self.note_read(&found);
        }
        self.cursors[slot] = Some(open);
        Ok(())
    }
}

impl OpenCursor {
    /// Finds out what has not expired.
    fn look(&mut self, now: u64) {
        let all = self.world.pairs_at(self.keyspace.1, now);
        self.pairs = match &self.bounds {
            Some((start, end)) => {
                let inside = all.range(start.clone()..end.clone());
                Arc::new(inside.map(|(key, value)| (key.clone(), value.clone())).collect())
            }
            None => all,
        };
    }

    fn go(&mut self, to: Move) -> esker_base::Result<()> {
        match to {
            Move::First => self.cursor.seek_first(),
            Move::Last => self.cursor.seek_last(),
            Move::Seek(key) => self.cursor.seek(&content::key(key)),
            Move::SeekBack(key) => self.cursor.seek_back(&content::key(key)),
            Move::Next => self.cursor.next(),
            Move::Prev => self.cursor.prev(),
        }?;
        self.at = self.expected(to).cloned();
        Ok(())
    }

    fn expected(&self, to: Move) -> Option<&Vec<u8>> {
        let key = match to {
            Move::First => return self.pairs.keys().next(),
            Move::Last => return self.pairs.keys().next_back(),
            Move::Seek(key) | Move::SeekBack(key) => content::key(key),
            Move::Next | Move::Prev => self.at.clone()?,
        };
        let (from, through) = match to {
            Move::Seek(_) => (Bound::Included(key), Bound::Unbounded),
            Move::Next => (Bound::Excluded(key), Bound::Unbounded),
            Move::SeekBack(_) => (Bound::Unbounded, Bound::Included(key)),
            _ => (Bound::Unbounded, Bound::Excluded(key)),
        };
        let mut inside = self.pairs.range((from, through)).map(|(key, _)| key);
        if matches!(to, Move::Seek(_) | Move::Next) { inside.next() } else { inside.next_back() }
    }

    fn check(&self, to: Move) -> Check {
        let expected = self.at.as_ref().map(|key| (&key[..], &self.pairs[key][..]));
        let found = self.cursor.current();
        if found == expected {
            return Ok(());
        }
        let show = |pair: Option<(&[u8], &[u8])>| match pair {
            None => "nowhere".to_owned(),
            Some((key, value)) => {
                format!("on \"{}\" ({} bytes)", key.escape_ascii(), value.len())
            }
        };
        Err(Halt::Wrong(format!(
            "after {to:?} a cursor stands {} and should stand {}",
            show(found),
            show(expected)
        )))
    }
}
