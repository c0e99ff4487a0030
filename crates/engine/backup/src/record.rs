//! What a repository knows of a backup: a file of JSON with a checksum.
//!
//! ```text
//! esker-backup 1 CHECKSUM
//! {"number":1,"database":"…","made":…,"files":[…], …}
//! ```
//!
//! Unknown fields are ignored, so a later version can add some.

use esker_base::Seqno;
use esker_base::checksum::crc32c;
use serde::{Deserialize, Serialize};

const MAGIC: &str = "esker-backup 1 ";
const RECORD_SUFFIX: &str = ".backup";

/// A backup in a repository.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Backup {
    /// Its number in the repository. A later backup has a greater one.
    pub number: u64,
    /// The identity of the database, in hexadecimal digits.
    pub database: String,
    /// When it was begun, in milliseconds since 1970 in UTC.
    pub made: u64,
    /// It has all writes up to this sequence number.
    pub seqno: Seqno,
    /// The files of the database, in the order in which a restore writes them.
    pub files: Vec<BackupFile>,
    /// The openings of the database that were known then, the oldest first: the id in hexadecimal digits, and the last
    /// write that it found. Empty if they are not known.
    #[serde(default)]
    pub openings: Vec<(String, Seqno)>,
}

/// A file of a backup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BackupFile {
    /// Its name in the directory of the database.
    pub name: String,
    /// Its name in the repository.
    pub stored_as: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// The CRC-32C of the whole file.
    pub crc32c: u32,
    /// The CRC-32C of its last 4,096 bytes, which hold the footer of a table.
    pub end_crc32c: u32,
}

impl Backup {
    pub(crate) fn record_name(number: u64) -> String {
        format!("{number:08}{RECORD_SUFFIX}")
    }

    /// The number in a name that [`Backup::record_name`] made.
    pub(crate) fn number_in(name: &str) -> Option<u64> {
        let digits = name.strip_suffix(RECORD_SUFFIX)?;
        let number = (digits.len() >= 8).then(|| digits.parse().ok()).flatten()?;
        (Backup::record_name(number) == name).then_some(number)
    }

    /// Returns the length of all its files, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    pub(crate) fn encode(&self) -> String {
        let json = serde_json::to_string(self).expect("numbers and strings") + "\n";
        format!("{MAGIC}{:08x}\n{json}", crc32c(json.as_bytes()))
    }

    /// Reads the record of the backup `number`. An error says what is wrong with it.
    pub(crate) fn decode(text: &str, number: u64) -> Result<Backup, String> {
        let rest = text.strip_prefix(MAGIC).ok_or("it is not a record of this version")?;
        let (crc, json) = rest.split_once('\n').ok_or("it is truncated")?;
        if crc != format!("{:08x}", crc32c(json.as_bytes())) {
            return Err("its checksum does not match".into());
        }
        let backup: Backup = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let is_flat = |name: &str| !name.is_empty() && !name.contains(['/', '\\', '\0']);
        match () {
            () if backup.number != number => {
                Err(format!("it is the record of backup {}", backup.number))
            }
            () if !backup
                .files
                .iter()
                .all(|file| is_flat(&file.name) && is_flat(&file.stored_as)) =>
            {
                Err("it names a file outside of its directory".into())
            }
            () => Ok(backup),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup() -> Backup {
        let file = BackupFile {
            name: "00000012.tables".into(),
            stored_as: "00000012.tables.17.00000005".into(),
            bytes: 17,
            crc32c: 5,
            end_crc32c: 6,
        };
        let (database, openings) = ("00ff".into(), vec![("000000000000000a".into(), 57)]);
        Backup { number: 3, database, made: 12, seqno: 99, files: vec![file], openings }
    }

    #[test]
    fn a_record_reads_back_and_no_changed_byte_passes() {
        let text = backup().encode();
        assert_eq!(Backup::decode(&text, 3), Ok(backup()));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let text = String::from_utf8_lossy(&bytes);
            assert!(Backup::decode(&text, 3).is_err(), "byte {at}");
        }
        for end in 0..text.len() {
            assert!(Backup::decode(&text[..end], 3).is_err(), "truncated at {end}");
        }
    }

    /// The bytes are a format on disk: `docs/formats/backup.md`.
    #[test]
    fn records_are_read_for_ever() {
        let text = include_str!("../tests/golden/version_1_openings.backup");
        assert_eq!(Backup::decode(text, 3), Ok(backup()));
        assert_eq!(backup().encode(), text);
        // From before openings were recorded.
        let earlier = Backup { openings: Vec::new(), ..backup() };
        let text = include_str!("../tests/golden/version_1.backup");
        assert_eq!(Backup::decode(text, 3), Ok(earlier));
    }

    #[test]
    fn a_record_under_another_number_is_refused() {
        assert!(Backup::decode(&backup().encode(), 4).unwrap_err().contains("backup 3"));
    }

    #[test]
    fn a_file_outside_of_the_directory_is_refused() {
        for name in ["../CURRENT", "a/b", "", "\0"] {
            let mut bad = backup();
            bad.files[0].name = name.into();
            assert!(Backup::decode(&bad.encode(), 3).unwrap_err().contains("outside"), "{name:?}");
        }
    }

    #[test]
    fn only_names_of_records_have_numbers() {
        assert_eq!(Backup::number_in(&Backup::record_name(7)), Some(7));
        assert_eq!(Backup::number_in("123456789.backup"), Some(123_456_789));
        for name in ["7.backup", "000000007.backup", "0000000x.backup", "00000007.tables"] {
            assert_eq!(Backup::number_in(name), None, "{name}");
        }
    }
}
