//! The names of files in a repository.

use crate::record::Backup;
use crate::repository::REPOSITORY;
use crate::shipment::Shipment;

const CURRENT: &str = "CURRENT";

/// The name of a file with tables: its content is a part of it.
pub(crate) fn table(name: &str, bytes: u64, crc: u32) -> String {
    format!("{name}.{bytes}.{crc:08x}")
}

/// The name of such a file, if a file of another history has the name that it would have.
///
/// The checksum does not distinguish the two: a block with its own CRC-32C at its end leaves the same CRC-32C
/// behind, whatever is in it.
pub(crate) fn other_table(name: &str, bytes: u64, number: u64, crc: u32) -> String {
    format!("{name}.{bytes}-{number}.{crc:08x}")
}

/// Whether `stored` is the name of a table file `name` with so many bytes, whatever is in it.
pub(crate) fn is_table(stored: &str, name: &str, bytes: u64) -> bool {
    let rest = stored.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
    rest.and_then(|rest| rest.rsplit_once('.'))
        .is_some_and(|(found, _)| *found == bytes.to_string())
}

/// The name of the manifest of the backup `number`, or of its `CURRENT`: those of other backups may have the
/// same name in their databases.
pub(crate) fn manifest(name: &str, number: u64) -> String {
    format!("{name}.{number:08}")
}

/// Whether a file of this name is one of [`table`], [`other_table`] or [`manifest`].
pub(crate) fn is_stored(name: &str) -> bool {
    let Some((rest, last)) = name.rsplit_once('.') else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number(last) && last.len() >= 8 && (rest == CURRENT || is_numbered(rest, "manifest")) {
        return true;
    }
    let is_crc = last.len() == 8 && last.bytes().all(|byte| byte.is_ascii_hexdigit());
    let split = rest.rsplit_once('.');
    is_crc
        && split
            .is_some_and(|(name, numbers)| is_data(name) && numbers.splitn(2, '-').all(is_number))
}

/// Whether a call writes a file of this name, before it has the name of a stored one.
pub(crate) fn is_written(name: &str) -> bool {
    name == CURRENT
        || name == REPOSITORY
        || Backup::number_in(name).is_some()
        || Shipment::first_in(name).is_some()
        || is_data(name)
        || is_numbered(name, "manifest")
}

/// Whether a name is that of a file with tables or values.
fn is_data(name: &str) -> bool {
    is_numbered(name, "tables") || is_numbered(name, "values")
}

/// Whether a name is one of a database: a number and what it is.
fn is_numbered(name: &str, what: &str) -> bool {
    let digits = name.strip_suffix(what).and_then(|rest| rest.strip_suffix('.'));
    digits.is_some_and(|it| it.len() >= 8 && it.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_backups_are_known_and_others_are_not() {
        for name in ["00000012.tables", "123456789.tables", "00000014.values"] {
            assert!(is_stored(&table(name, 77, 0xab)) && is_written(name) && !is_stored(name));
            assert!(is_table(&table(name, 77, 0xab), name, 77));
            assert!(!is_table(&table(name, 7, 0xab), name, 77) && !is_table(name, name, 77));
            let other = other_table(name, 77, 5, 0xab);
            assert!(is_stored(&other) && !is_table(&other, name, 77));
        }
        for name in ["00000013.manifest", "CURRENT"] {
            assert!(is_stored(&manifest(name, 3)) && is_written(name) && !is_stored(name));
        }
        assert!(is_written("REPOSITORY") && is_written("00000003.backup"));
        for other in [
            "notes.txt",
            "CURRENT.old",
            "12.tables.5.00000001",
            "00000012.tables.5.0000000x",
            "00000012.tables..00000001",
            "00000012.tables.5-.00000001",
            "00000012.tables.5-6-7.00000001",
            "00000012.log.00000001",
            "film.tables.700000000",
        ] {
            assert!(!is_stored(other) && !is_written(other), "{other}");
        }
    }
}
