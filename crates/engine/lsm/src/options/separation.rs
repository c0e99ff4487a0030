//! The length from which on values are stored in value files, and its text.

use esker_base::{ByteSize, Error, Result};

/// Checks the length from which on values are stored in value files.
pub(super) fn check_separation(threshold: Option<u32>, has_space_goal: bool) -> Result<()> {
    let reason = match threshold {
        Some(0) => "it must be at least 1",
        Some(_) if has_space_goal => {
            "a keyspace with a space-amplification limit keeps its values in tables; use another dedup"
        }
        _ => return Ok(()),
    };
    let value = separation_text(threshold);
    Err(Error::InvalidSetting { setting: "separation_threshold", value, reason: reason.into() })
}

/// A length from which on values are stored in value files, as text.
pub(crate) fn separation_text(threshold: Option<u32>) -> String {
    threshold.map_or_else(|| "none".to_owned(), |bytes| ByteSize(u64::from(bytes)).to_string())
}

/// Reads what [`separation_text`] wrote.
pub(crate) fn parse_separation(text: &str) -> Result<Option<u32>, String> {
    if text == "none" {
        return Ok(None);
    }
    let ByteSize(bytes) = text.parse()?;
    u32::try_from(bytes).map(Some).map_err(|_| format!("{text} is 4 GiB or more"))
}
