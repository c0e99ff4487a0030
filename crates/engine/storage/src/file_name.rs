//! Which names a file may have.

use esker_base::{Error, Result};
use std::io;

/// The file that carries the one writer's lock, where there are files. It is never listed.
pub(crate) const LOCK_NAME: &str = "LOCK";

/// Refuses names that would leave the flat set of files, or that would touch the lock.
pub fn check(name: &str) -> Result<()> {
    let reason = match name {
        "" => "a file name must not be empty",
        "." | ".." => "that names a directory",
        LOCK_NAME => "that name belongs to the lock",
        _ if name.contains(['/', '\\', '\0']) => "a file name must not hold a separator",
        _ => return Ok(()),
    };
    let source = io::Error::new(io::ErrorKind::InvalidInput, reason);
    Err(Error::io("use the file name", format!("{name:?}"), source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_pass_and_others_do_not() {
        for accepted in ["000007.table", "MANIFEST-3", "..a", "LOCK2"] {
            check(accepted).unwrap();
        }
        for bad in ["", ".", "..", "a/b", "/", "a\\b", "a\0", "LOCK"] {
            assert_eq!(check(bad).unwrap_err().io_kind(), Some(io::ErrorKind::InvalidInput));
        }
    }
}
