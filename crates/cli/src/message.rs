//! What the user is told beside the facts, on standard error.
//!
//! Whoever reads it may have gone, and the disk that it goes to may be full. The work is worth more than the word
//! about it: it goes on, unheard.

use std::fmt::Display;
use std::io::Write;

/// Says `message` on a line of its own.
pub fn tell(message: impl Display) {
    // In one piece, so that no other's line comes between.
    let line = format!("{message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
