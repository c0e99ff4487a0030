//! For fuzzing: files of a repository that anybody may have changed.

use crate::point_in_time::PointInTime;
use crate::record::Backup;
use crate::repository::Repository;
use crate::shipment::Shipment;
use esker_base::checksum::crc32c;
use esker_base::{FileKind, SystemClock, WriteHint};
use esker_storage::{MemoryStorage, Storage};
use std::sync::Arc;

/// The points in time that are restored.
const POINTS: [PointInTime; 4] = [
    PointInTime::Seqno(0),
    PointInTime::Seqno(8),
    PointInTime::Seqno(u64::MAX),
    PointInTime::Time(u64::MAX),
];

/// Puts `bytes` into a repository as the body of a record or of a shipment, with a checksum that matches it, and does all
/// that a repository is used for. The first byte says which. Nothing may panic, or use memory that the file
/// does not have.
#[doc(hidden)]
pub fn fuzz_repository(bytes: &[u8]) {
    let Some((&kind, body)) = bytes.split_first() else { return };
    let (name, file) = match kind % 4 {
        0 => (Backup::record_name(1), [b"esker-backup 1 ", &checked(body)[..]].concat()),
        1 => (Shipment::name(1), shipment(body)),
        // As they are.
        2 => (Backup::record_name(1), body.to_vec()),
        _ => (Shipment::name(1), body.to_vec()),
    };
    let storage = MemoryStorage::new();
    write(&storage, &name, &file);
    if kind % 2 == 1 {
        let files = Vec::new();
        let (database, openings) = ("0000000000000007".to_owned(), Vec::new());
        let backup = Backup { number: 1, database, made: 1, seqno: 0, files, openings };
        write(&storage, &Backup::record_name(1), backup.encode().as_bytes());
    }
    use_it(&Repository::of(Arc::new(storage), Arc::new(SystemClock::new())));
}

fn use_it(repository: &Repository) {
    let _ = repository.verify(&mut |_| {}, &mut |_| true);
    let ranges = repository.restorable().unwrap_or_default();
    assert!(ranges.iter().all(|range| range.first <= range.last));
    for point in POINTS {
        let _ = repository.restore_to_into(point, Arc::new(MemoryStorage::new()));
    }
    for backup in repository.backups().unwrap_or_default() {
        let again = Backup::decode(&backup.encode(), backup.number);
        assert_eq!(again.as_ref(), Ok(&backup), "a record survives encoding");
        let _ = repository.restore_into(&backup, &MemoryStorage::new(), &mut |_| true);
    }
    for shipment in repository.shipments().unwrap_or_default() {
        let head = shipment.encode_head();
        let again = Shipment::decode_head(head.as_bytes(), shipment.first);
        assert_eq!(again, Ok((shipment, head.len())), "a head survives encoding");
    }
    let _ = repository.prune(1);
}

/// The checksum of `body` in a line of its own, and `body`.
fn checked(body: &[u8]) -> Vec<u8> {
    [format!("{:08x}\n", crc32c(body)).as_bytes(), body].concat()
}

/// A shipment whose head is the first line of `body`, and whose frames are the rest.
fn shipment(body: &[u8]) -> Vec<u8> {
    let end = body.iter().position(|&byte| byte == b'\n').map_or(body.len(), |at| at + 1);
    let (head, frames) = body.split_at(end);
    [b"esker-frames 1 ", &checked(head)[..], frames].concat()
}

fn write(storage: &MemoryStorage, name: &str, bytes: &[u8]) {
    let mut file = storage.create(name, WriteHint::of(FileKind::Meta)).expect("the name is free");
    file.append(bytes).expect("memory takes all");
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;

    /// The body of a golden file: what its checksum is of.
    fn body(golden: &str) -> &[u8] {
        golden.split_once('\n').expect("two lines").1.as_bytes()
    }

    /// Changes a byte, or a number to one at an end of the scale.
    fn change(bytes: &mut Vec<u8>, rng: &mut Rng) {
        const NUMBERS: [&str; 5] =
            ["0", "1", "9223372036854775807", "18446744073709551615", "4294967296"];
        let at = rng.below(bytes.len() as u64) as usize;
        let Some(digits) = bytes[at..].iter().position(u8::is_ascii_digit) else { return };
        let start = at + digits;
        let end = bytes[start..].iter().position(|byte| !byte.is_ascii_digit());
        let end = end.map_or(bytes.len(), |digits| start + digits);
        match rng.below(4) {
            0 => bytes[at] = rng.next_u64() as u8,
            1 => drop(bytes.drain(at..end)),
            _ => {
                let number = NUMBERS[rng.below(NUMBERS.len() as u64) as usize];
                drop(bytes.splice(start..end, number.bytes()));
            }
        }
    }

    /// As the fuzzer does it, without coverage.
    #[test]
    fn damaged_repositories_are_used_without_a_panic() {
        let record = body(include_str!("../tests/golden/version_1_openings.backup"));
        let head = body(include_str!("../tests/golden/version_1_openings.frames"));
        // Its two pieces have ten bytes each, and begin with the first write.
        let head = String::from_utf8_lossy(head).replace("\"first\":5", "\"first\":1");
        let shipment = [head.as_bytes(), &[7; 20]].concat();
        let mut rng = Rng::new(7);
        for kind in 0..4 {
            let sound = if kind % 2 == 0 { record } else { &shipment[..] };
            fuzz_repository(&[&[kind], sound].concat());
            for round in 0..2_000 {
                let mut bytes = sound.to_vec();
                (0..=round % 3).for_each(|_| change(&mut bytes, &mut rng));
                fuzz_repository(&[&[kind], &bytes[..]].concat());
            }
        }
    }
}
