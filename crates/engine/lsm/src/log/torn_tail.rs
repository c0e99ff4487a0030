//! Reports a log that ends with an invalid frame, whether or not whole frames follow it.
//!
//! Three causes leave the same bytes: a power loss before a sync, a crash during writes, and damage
//! to writes that no later frame proves durable. Recovery keeps the writes before the frame, or
//! fails if the caller asks for that. In both cases it reports what it found.

use crate::options::settings::Recovery;
use esker_base::{Error, Result, Seqno};
use std::fmt;

/// The end of a log that an open rejected.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TornTail {
    /// The path of the log.
    pub path: String,
    /// The offset of the first rejected byte.
    pub offset: u64,
    /// Why the frame there is invalid.
    pub what: String,
    /// The sequence number of the first rejected write.
    pub first_seqno: Seqno,
    /// The whole frames that follow the invalid one, if there are any.
    pub later: Option<FramesBehind>,
    /// Whether the log is in a pool of persistent memory.
    ///
    /// There each writer makes its own frame durable, so a crash with several writers leaves whole
    /// frames after an unfinished one. None of them was acknowledged: a later frame would prove it.
    pub in_pool: bool,
    /// The files that keep the rejected bytes: copies in the database directory, and renamed logs
    /// in the log directory.
    ///
    /// Empty if no whole frames follow, or if the database is read-only and no earlier open has
    /// rejected them.
    pub kept_in: Vec<String>,
}

/// Whole frames after an invalid frame.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FramesBehind {
    /// The path of the log with the first of them.
    pub path: String,
    /// The offset in bytes of the first of them.
    pub offset: u64,
    /// The number of them in all logs.
    pub frames: u64,
}

impl TornTail {
    /// Whether whole frames follow that may have been acknowledged.
    pub fn may_reject_acknowledged(&self) -> bool {
        self.later.is_some() && !self.in_pool
    }

    /// Fails if whole frames follow that may have been acknowledged, and `recovery` does not accept that.
    pub(crate) fn accept(&self, recovery: Recovery) -> Result<()> {
        if recovery == Recovery::Prefix || !self.may_reject_acknowledged() {
            return Ok(());
        }
        Err(self.refusal())
    }

    /// The error that says that whole frames follow.
    pub(crate) fn refusal(&self) -> Error {
        let behind = self.later.as_ref().map(FramesBehind::to_string).unwrap_or_default();
        Error::TornLog {
            file: self.path.clone(),
            offset: self.offset,
            what: format!("{}, and {behind}", self.what),
            first_seqno: self.first_seqno,
        }
    }
}

impl fmt::Display for FramesBehind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FramesBehind { path, offset, frames } = self;
        let (noun, verb) = if *frames == 1 { ("frame", "follows") } else { ("frames", "follow") };
        write!(f, "{frames} whole {noun} {verb} in {path} at offset {offset}")
    }
}

impl fmt::Display for TornTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TornTail { path, offset, what, first_seqno, later, kept_in, .. } = self;
        write!(
            f,
            "{path} ends at offset {offset}: {what}; writes from seqno {first_seqno} on are rejected"
        )?;
        if let Some(later) = later {
            write!(f, ", though {later}")?;
        }
        if !kept_in.is_empty() {
            write!(f, " (kept in {})", kept_in.join(", "))?;
        }
        f.write_str(
            ": a process ended during these writes, power was lost before they were synced, or the \
             file is damaged",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_frames_that_may_have_been_acknowledged_are_refused() {
        let torn = |frames: u64, in_pool| TornTail {
            path: "log".into(),
            offset: 64,
            what: "torn".into(),
            first_seqno: 1,
            later: (frames > 0).then(|| FramesBehind { path: "log".into(), offset: 128, frames }),
            in_pool,
            kept_in: Vec::new(),
        };
        for in_pool in [false, true] {
            assert!(torn(0, in_pool).accept(Recovery::Strict).is_ok());
            assert!(torn(3, in_pool).accept(Recovery::Prefix).is_ok());
        }
        assert!(torn(3, true).accept(Recovery::Strict).is_ok());
        assert!(torn(3, false).accept(Recovery::Strict).is_err());
    }
}
