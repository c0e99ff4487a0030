//! Cursors of transactions.
//!
//! A cursor of the engine borrows its transaction, which C cannot express. So this one reads entries
//! ahead, and lets the cursor of the engine go before it returns. It reads as many as it has passed, at
//! most [`AHEAD_MAX`]. After a write of the transaction it reads anew from its current key on.

use crate::border::Failure;
use crate::cursor::Move;
use crate::transaction::SharedTransaction;
use esker::api::KeyspaceRef;
use esker::{Cursor, KeyRange, Keyspace, Value};
use std::collections::VecDeque;
use std::sync::Arc;

const AHEAD_MAX: usize = 64;

pub(crate) struct TransactionCursor {
    transaction: Arc<SharedTransaction>,
    keyspace: KeyspaceRef,
    range: KeyRange,
    /// The current entry, then those that follow it in the direction.
    entries: VecDeque<(Value, Value)>,
    is_backward: bool,
    /// [`SharedTransaction::changes`] when the entries were read.
    changes: u64,
    /// How many entries to read at once.
    ahead: usize,
}

impl TransactionCursor {
    pub(crate) fn new(
        transaction: &Arc<SharedTransaction>,
        keyspace: &Keyspace,
        range: KeyRange,
    ) -> Self {
        TransactionCursor {
            transaction: transaction.clone(),
            keyspace: keyspace.into(),
            range,
            entries: VecDeque::new(),
            is_backward: false,
            changes: 0,
            ahead: 1,
        }
    }

    pub(crate) fn current(&self) -> Option<(&[u8], &[u8])> {
        self.entries.front().map(|(key, value)| (&key[..], &value[..]))
    }

    pub(crate) fn go(&mut self, step: Move<'_>) -> Result<(), Failure> {
        let is_backward = matches!(step, Move::Last | Move::SeekBack(_) | Move::Prev);
        let is_on = matches!(step, Move::Next | Move::Prev);
        let current = self.entries.pop_front().filter(|_| is_on);
        let is_read = is_backward == self.is_backward && self.changes == self.transaction.changes();
        if current.is_some() && is_read && !self.entries.is_empty() {
            return Ok(());
        }
        self.entries.clear();
        if is_on && current.is_none() {
            return self.transaction.with(|_| Ok(()));
        }
        let goes_on = is_on && is_backward == self.is_backward;
        self.ahead = if goes_on { (self.ahead * 2).min(AHEAD_MAX) } else { 1 };
        self.is_backward = is_backward;
        self.changes = self.transaction.changes();
        let (keyspace, range, ahead) = (self.keyspace, self.range.clone(), self.ahead);
        let entries = &mut self.entries;
        let read = self.transaction.with(|transaction| {
            let mut cursor = transaction.cursor(keyspace, range)?;
            match &current {
                None => step.of(&mut *cursor)?,
                Some((key, _)) => pass(&mut *cursor, key, is_backward)?,
            }
            let onward = if is_backward { Move::Prev } else { Move::Next };
            while let Some((key, value)) = cursor.current() {
                entries.push_back((key.into(), value.into()));
                if entries.len() == ahead {
                    break;
                }
                onward.of(&mut *cursor)?;
            }
            Ok(())
        });
        if read.is_err() {
            self.entries.clear();
        }
        read
    }
}

/// Moves to the entry that follows `key`, which may have been deleted since.
fn pass(cursor: &mut (dyn Cursor + Send), key: &[u8], is_backward: bool) -> esker::Result<()> {
    let (seek, onward) = match is_backward {
        true => (Move::SeekBack(key), Move::Prev),
        false => (Move::Seek(key), Move::Next),
    };
    seek.of(cursor)?;
    match cursor.current().is_some_and(|(found, _)| found == key) {
        true => onward.of(cursor),
        false => Ok(()),
    }
}
