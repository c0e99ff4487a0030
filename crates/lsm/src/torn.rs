//! Where a log ends in a frame that does not hold, whether or not whole ones follow.
//!
//! What a power loss leaves of writes that were not synced, what the end of a process leaves of those
//! that were under way, and what damage leaves of those that were not known to be durable, look alike.
//! Recovery keeps the prefix, as promised. But nobody should have to find out by counting keys that
//! there was more.

use esker_base::Seqno;
use std::fmt;

/// The tail of a log that was given up when the database was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TornLog {
    /// The log, as a path.
    pub path: String,
    /// Where it ends, in bytes.
    pub offset: u64,
    /// Why it ends there.
    pub what: String,
    /// The first write that was kept no more.
    pub first_seqno: Seqno,
    /// Where whole frames follow, if any do: the log, as a path, and the offset in it.
    pub later: Option<(String, u64)>,
}

impl fmt::Display for TornLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TornLog { path, offset, what, first_seqno, later } = self;
        write!(
            f,
            "{path} ends at offset {offset}: {what}; writes from seqno {first_seqno} on are given up"
        )?;
        if let Some((later, at)) = later {
            write!(f, ", though whole frames follow in {later} at offset {at}")?;
        }
        f.write_str(
            ": they were under way when a process ended, power was lost before they were synced, or the \
             file is damaged",
        )
    }
}
