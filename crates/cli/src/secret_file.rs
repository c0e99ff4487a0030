//! Files with secrets, which have no place on a command line, nor in a message.

use crate::failure::{Failure, Outcome};
use esker_nvme::auth::Secret;
use esker_nvme::tls::TlsKey;
use std::path::Path;

/// Reads the file that `flag` names.
///
/// # Errors
///
/// Also if the argument is a secret itself. The message does not repeat it.
pub fn read(flag: &str, path: &Path) -> Outcome<String> {
    let name = path.display().to_string();
    if [TlsKey::PREFIX, Secret::PREFIX].iter().any(|prefix| name.starts_with(prefix)) {
        let what = format!("{flag} takes a file with the key in it, and was given the key itself");
        return Err(Failure::Usage(what));
    }
    std::fs::read_to_string(path).map_err(|error| Failure::io("read", name, error))
}
