//! Copies column families to keyspaces, and compares them.

use crate::source::Entries;
use esker::{Cursor, Db, KeyRange, Keyspace};
use esker_cli::failure::{Failure, Outcome};
use esker_cli::progress::Progress;

/// What happens to an entry that Esker cannot hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It ends the copy.
    Refused,
    /// It is left out and counted.
    Skipped,
}

/// What was copied of a column family.
pub(crate) struct Copied {
    pub(crate) keyspace: String,
    pub(crate) entries: u64,
    /// Bytes of keys and values.
    pub(crate) bytes: u64,
    /// Entries that were left out.
    pub(crate) skipped: u64,
}

/// Whether the error is about an entry, not about the database.
fn is_of_entry(error: &esker::Error) -> bool {
    use esker::Error::{EmptyKey, KeyTooLong, ValueTooLarge};
    matches!(error, EmptyKey | KeyTooLong { .. } | ValueTooLarge { .. })
}

/// Copies `entries`, all of a column family, to a new keyspace: sorted as they are, they are written
/// to tables once, and become visible together.
pub(crate) fn copy(
    db: &Db,
    keyspace: &Keyspace,
    entries: &mut Entries<'_>,
    unfit: Unfit,
    progress: &Progress,
) -> Outcome<Copied> {
    let mut copied =
        Copied { keyspace: keyspace.name().to_owned(), entries: 0, bytes: 0, skipped: 0 };
    let mut writer = db.sorted_writer(keyspace)?;
    while let Some((key, value)) = entries.current()? {
        match writer.put(key, value) {
            Ok(()) => {
                copied.entries += 1;
                copied.bytes += (key.len() + value.len()) as u64;
                progress.at(copied.entries);
            }
            Err(error) if is_of_entry(&error) && unfit == Unfit::Skipped => copied.skipped += 1,
            Err(error) if is_of_entry(&error) => {
                let (name, key) = (keyspace.name(), key.escape_ascii());
                let what = format!("Esker cannot hold the entry {key} of {name:?}: {error}");
                return Err(Failure::new(what + "; --skip-unfit leaves such entries out"));
            }
            Err(error) => return Err(error.into()),
        }
        entries.advance();
    }
    writer.ingest()?;
    Ok(copied)
}

/// Compares the keyspace with `entries`, of which those that it could not hold are not there.
pub(crate) fn compare(
    keyspace: &Keyspace,
    entries: &mut Entries<'_>,
    copied: &Copied,
    progress: &Progress,
) -> Outcome {
    let mut cursor = keyspace.cursor(KeyRange::all())?;
    cursor.seek_first()?;
    let (mut compared, mut left_out) = (0, 0);
    while let Some(theirs) = entries.current()? {
        if cursor.current() == Some(theirs) {
            compared += 1;
            progress.at(compared);
            cursor.next()?;
        } else {
            left_out += 1;
        }
        entries.advance();
    }
    if let Some((key, _)) = cursor.current() {
        return Err(differs(
            keyspace,
            &format!("the entry {} is not in the source", key.escape_ascii()),
        ));
    }
    if (compared, left_out) != (copied.entries, copied.skipped) {
        let what = format!("{compared} entries are alike, and {} were copied", copied.entries);
        return Err(differs(keyspace, &what));
    }
    Ok(())
}

fn differs(keyspace: &Keyspace, what: &str) -> Failure {
    Failure::new(format!("the copy of {:?} differs from its source: {what}", keyspace.name()))
}
