//! The limits of settings.

use esker_base::{Error, Result};

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
