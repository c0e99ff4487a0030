//! The limits of settings and of names.

use esker_base::{Error, Result};

/// Names of keyspaces that start with this are of the engine: no user can create them, because they
/// have a control character.
pub(crate) const RESERVED: char = '\u{1}';

/// Whether the keyspace called `name` belongs to the engine. Users do not see it.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED)
}

/// Fails unless `value` is between `least` and `most`.
pub(crate) fn within(setting: &'static str, value: usize, least: usize, most: usize) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::InvalidSetting {
        setting,
        value: value.to_string(),
        reason: format!("it must be between {least} and {most}"),
    })
}
