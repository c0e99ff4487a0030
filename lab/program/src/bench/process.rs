//! Processes of this program, and the lines sent to them.

use crate::failure::Outcome;
use serde::Serialize;
use std::process::Child;

/// A process that is gone when this is dropped. Its standard input must be closed by then.
pub struct Ended(pub(super) Child);

impl Ended {
    pub fn new(child: Child) -> Self {
        Ended(child)
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        // What has told its last has only to exit; closing its standard input would make it, too.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A line of JSON.
pub fn line(value: &impl Serialize) -> Outcome<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}
