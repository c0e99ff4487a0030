//! Column families whose keys have timestamps of the program.
//!
//! ```text
//! key      escaped key │ 00 01 │ inverted timestamp, big-endian      the newest version of a key is first
//! value    1 │ value                                                 no bytes: the version says deleted
//! ```
//!
//! A zero of a key is stored as `00 ff`, so that keys of any length sort as they do without timestamps. If
//! the order is reverse, all bits of the escaped key and its end are inverted. The empty stored key, which
//! no version has, holds the lowest timestamp that may be read: see `history`.

mod cursor;
mod functions;
mod history;
pub mod order;

pub use cursor::Versions;
pub(crate) use functions::FUNCTIONS;
pub use history::trim_newer;
pub use order::{Order, STAMP_BYTES, content, parts, stored_value};

use crate::border::{Result, Status};
use esker::{Cursor, Keyspace, KeyspaceSettings, Value};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The merge operators that keyspaces with timestamps name, so that they are not opened as others. Nothing
/// merges there.
const OPERATORS: [&str; 2] = ["rocksdb:stamps", "rocksdb:stamps:reverse"];

fn operator(order: Order) -> &'static str {
    OPERATORS[usize::from(order.is_reverse)]
}

/// The settings of a new keyspace with this order.
pub fn with_order(settings: KeyspaceSettings, order: Order) -> KeyspaceSettings {
    settings.merge(operator(order))
}

/// Whether a keyspace with these settings has timestamps.
pub fn is_stamped(settings: &KeyspaceSettings) -> bool {
    settings.merge.as_ref().is_some_and(|name| OPERATORS.contains(&name.as_str()))
}

/// The operators that an open needs for keyspaces with timestamps.
pub fn operators() -> impl Iterator<Item = impl esker::merge::MergeOperator> {
    OPERATORS.into_iter().map(NoMerges)
}

struct NoMerges(&'static str);

impl esker::merge::MergeOperator for NoMerges {
    fn name(&self) -> &str {
        self.0
    }

    fn merge(
        &self,
        _key: &[u8],
        _base: Option<&[u8]>,
        _operands: &[&[u8]],
    ) -> Result<Vec<u8>, esker::merge::MergeError> {
        Err(esker::merge::MergeError::new("a column family with timestamps has no merges"))
    }
}

/// Why a column family is not opened.
pub fn of_another_comparator(keyspace: &Keyspace) -> Status {
    Status::invalid(format!(
        "column family {:?} was created with another comparator; open it with the one that it was created \
         with, or copy it",
        keyspace.name()
    ))
}

/// The timestamps of an open column family.
pub struct Stamps {
    /// The order of its keys.
    pub order: Order,
    /// The lowest timestamp that may be read, if there is one.
    low: Mutex<Option<u64>>,
}

impl Stamps {
    /// Returns the timestamps of `keyspace`, as a program that sorts by `order` opens it.
    ///
    /// # Errors
    /// If it was created with another order, with or without timestamps.
    pub fn of(keyspace: &Keyspace, order: Option<Order>) -> Result<Option<Self>> {
        let settings = keyspace.settings()?;
        let name = settings.merge.as_ref().map(|name| name.as_str());
        let stored = name.filter(|name| OPERATORS.contains(name));
        if stored != order.map(operator) {
            return Err(of_another_comparator(keyspace));
        }
        let Some(order) = order else { return Ok(None) };
        let low = Mutex::new(history::stored_low(keyspace)?);
        Ok(Some(Stamps { order, low }))
    }

    fn low(&self) -> MutexGuard<'_, Option<u64>> {
        self.low.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if versions that a read at `stamp` needs may be gone. A reader calls it after it has taken its
    /// snapshot: what is removed later, the snapshot has.
    ///
    /// # Errors
    /// If the timestamp is too low.
    pub fn check(&self, stamp: u64) -> Result<()> {
        match *self.low() {
            Some(low) if stamp < low => Err(Status::invalid(format!(
                "Read timestamp: {stamp} is smaller than full_history_ts_low: {low}"
            ))),
            _ => Ok(()),
        }
    }

    /// The newest version of a key at a timestamp, with its own, from `snapshot` or the present.
    ///
    /// # Errors
    /// If the timestamp is too low, and those of Esker's reads.
    pub fn get(
        &self,
        db: &esker::Db,
        keyspace: &Keyspace,
        snapshot: Option<&esker::Snapshot>,
        (key, at): (&[u8], u64),
    ) -> Result<Option<(Value, u64)>> {
        let range = self.order.versions(key, at);
        // Both refuse the keyspace of another database.
        let mut cursor = match snapshot {
            Some(snapshot) => snapshot.cursor(keyspace, range)?,
            None => db.cursor(keyspace, range)?,
        };
        self.check(at)?;
        cursor.seek_first()?;
        let Some((stored, value)) = cursor.current() else { return Ok(None) };
        let stamp = parts(stored).map_or(0, |(_, stamp)| stamp);
        Ok(content(value).map(|value| (Value::copy_of(value), stamp)))
    }
}
