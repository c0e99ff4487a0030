//! Reads of entries that expire.

use super::lookup::ReadTier;
use crate::fold::expiry;
use crate::tree::Tree;
use esker_base::{Error, Result};

/// Returns the value of an expiring put, which stores `stored`, unless it has expired.
///
/// # Errors
/// [`Error::WouldBlock`] as for [`keep_expiries`].
pub(super) fn living<'v>(
    tree: &Tree,
    stored: &'v [u8],
    patience: ReadTier,
) -> Result<Option<&'v [u8]>> {
    let value = expiry::living(stored, &*tree.time);
    keep_expiries(tree, patience)?;
    Ok(value)
}

/// Makes durable that entries have expired which readers met.
///
/// If that fails, they have expired nevertheless: they may appear again only if the process ends, and
/// the calendar is set back.
///
/// # Errors
/// [`Error::WouldBlock`] if it is not durable yet, and `patience` is for memory only.
pub(crate) fn keep_expiries(tree: &Tree, patience: ReadTier) -> Result<()> {
    if !tree.time.needs_mark() {
        return Ok(());
    }
    if patience == ReadTier::MemoryOnly {
        return Err(Error::WouldBlock);
    }
    let _ = tree.write_expiry_mark(false);
    Ok(())
}
