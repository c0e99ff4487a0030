//! The settings of keyspaces with windows.

use super::settings::Shape;
use crate::fold::operators::OperatorName;
use esker_base::{Error, Result};
use std::time::Duration;

impl Shape {
    /// The length of a window and the most bytes, if the keyspace has windows.
    pub(crate) fn windows(self) -> Option<(Duration, Option<u64>)> {
        match self {
            Shape::Windowed { window, max_bytes } => Some((window, max_bytes)),
            _ => None,
        }
    }
}

/// The shortest window. A quarter of it may be in the MemTable.
const WINDOW_MIN: Duration = Duration::from_secs(60);

const WINDOWS_BYTES_MIN: u64 = 1 << 20;

/// Checks the windows of a keyspace with this merge operator.
pub(super) fn check_window(
    window: Duration,
    max_bytes: Option<u64>,
    merge: Option<OperatorName>,
) -> Result<()> {
    let is_stored = window.subsec_nanos() == 0 && u32::try_from(window.as_secs()).is_ok();
    let reason = match max_bytes {
        _ if merge.is_some() => "merged operands have no age, so their keyspace has no windows",
        _ if window < WINDOW_MIN || !is_stored => "a window is a number of seconds, 60 or more",
        Some(bytes) if bytes < WINDOWS_BYTES_MIN => "windows may have a mebibyte or more",
        _ => return Ok(()),
    };
    let value = Shape::Windowed { window, max_bytes }.to_string();
    Err(Error::InvalidSetting { setting: "window", value, reason: reason.into() })
}
