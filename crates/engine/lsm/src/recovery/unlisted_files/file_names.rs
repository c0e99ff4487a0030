//! The names of files that an open sets aside, and the ids in names.

use crate::log::wal_files::parse_log_file_name;
use crate::manifest::manifest_file::parse_manifest_file_name;
use crate::version::{parse_data_file_name, parse_ingest_file_name, parse_unsettled_file_name};

/// What the names of files start with that hold rejected content.
const LOST: &str = "lost-";

/// The name under which a file was set aside for the `number`th time, from 1.
pub(super) fn lost_name(name: &str, number: u32) -> String {
    if number == 1 { format!("{LOST}{name}") } else { format!("{LOST}{number}-{name}") }
}

/// The name that a file of this name had before it was set aside.
pub(crate) fn name_before(lost: &str) -> Option<&str> {
    let name = lost.strip_prefix(LOST)?;
    let is_number =
        |number: &str| !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit());
    Some(name.split_once('-').filter(|(number, _)| is_number(number)).map_or(name, |(_, it)| it))
}

/// What becomes of the names of files that a repair sets aside.
pub(crate) const DAMAGED: &str = ".damaged";

/// The file id in the name of a table, a log or a manifest, set aside or not, or of a file that is to
/// be ingested. The mark of an ingest counts: it would speak of another file that got its ID.
pub(crate) fn file_id_in(name: &str) -> Option<u64> {
    let name = name_before(name).or_else(|| name.strip_suffix(DAMAGED)).unwrap_or(name);
    parse_data_file_name(name)
        .or_else(|| parse_ingest_file_name(name))
        .or_else(|| parse_unsettled_file_name(name))
        .or_else(|| parse_log_file_name(name).map(u64::from))
        .or_else(|| parse_manifest_file_name(name))
}
