//! Reads entries in key order.

use crate::{OperationKind, Step, Worker};
use esker_api::{Cursor, KeyRange, Ordered};
use esker_base::Result;

/// Which way a scan goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Direction {
    /// From the first entry.
    Up,
    /// From the last entry.
    Down,
}

/// Reads one entry a step. Opening the cursor is part of the first step.
pub(super) struct Scan<'a> {
    store: &'a dyn Ordered,
    direction: Direction,
    cursor: Option<Box<dyn Cursor + 'a>>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(store: &'a dyn Ordered, direction: Direction) -> Self {
        Scan { store, direction, cursor: None }
    }

    /// The cursor, moved on to the next entry.
    fn advance(&mut self) -> Result<&dyn Cursor> {
        if let Some(cursor) = &mut self.cursor {
            match self.direction {
                Direction::Up => cursor.next()?,
                Direction::Down => cursor.prev()?,
            }
        } else {
            let cursor = self.cursor.insert(self.store.cursor(KeyRange::all())?);
            match self.direction {
                Direction::Up => cursor.seek_first()?,
                Direction::Down => cursor.seek_last()?,
            }
        }
        Ok(&**self.cursor.as_ref().expect("it was opened above"))
    }
}

impl Worker for Scan<'_> {
    fn step(&mut self) -> Result<Step> {
        Ok(match self.advance()?.current() {
            Some((key, value)) => Step {
                kind: OperationKind::Scan,
                operations: 1,
                found: 1,
                bytes: (key.len() + value.len()) as u64,
                ..Step::END
            },
            None => Step::END,
        })
    }
}
