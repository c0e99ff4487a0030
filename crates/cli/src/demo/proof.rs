//! Batches that show by themselves whether they are whole.
//!
//! Batch *n*, from 1, is 1 to 8 entries in one keyspace and one entry in another, written atomically:
//!
//! * `n/part`, for each part: *n*, the part, how many parts there are, filler of a length that follows
//!   from *n* and the part, and a checksum of all that;
//! * in the ledger, `latest`: *n*.
//!
//! So after a crash one scan says which batches are there, whether any is torn or altered, whether
//! there is a hole, and whether the two keyspaces agree.

use crate::failure::{Failure, Outcome};
use esker::{Db, Keyspace, KeyspaceSettings, Result, WriteBatch};
use esker_base::{Rng, checksum::crc32c, coding};

/// The parts of the largest batch.
const PARTS_MAX: u64 = 8;
/// The longest filler is one byte shorter.
const FILLER_BYTES: u64 = 3000;

/// The two keyspaces that the batches go to.
pub struct Books {
    /// The parts.
    pub batches: Keyspace,
    /// The number of the latest batch.
    pub ledger: Keyspace,
}

const LATEST: &[u8] = b"latest";

impl Books {
    /// The keyspaces, made if need be.
    pub fn open(db: &Db) -> Result<Self> {
        Ok(Books {
            batches: db.keyspace("batches", KeyspaceSettings::default())?,
            ledger: db.keyspace("ledger", KeyspaceSettings::default())?,
        })
    }

    /// The number of the latest batch, 0 if there is none.
    pub fn latest(&self, db: &Db) -> Outcome<u64> {
        let Some(value) = db.get(&self.ledger, LATEST)? else { return Ok(0) };
        let bytes = value[..].try_into().map_err(|_| torn("the ledger is not a number"))?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// Puts batch `number` into `batch`.
    pub fn fill(&self, number: u64, batch: &mut WriteBatch) {
        for part in 0..parts(number) {
            batch.put(&self.batches, key(number, part), value(number, part));
        }
        batch.put(&self.ledger, LATEST, number.to_be_bytes());
    }

    /// Reads all there is and checks it.
    pub fn inspect(&self, db: &Db) -> Outcome<Evidence> {
        let mut evidence = Evidence::default();
        let mut expected = (1, 0);
        for pair in db.range(&self.batches, ..) {
            let (key, value) = pair.map_err(super::finding)?;
            expected = check(expected, &key, &value)?;
            evidence.pairs += 1;
        }
        let (next, part) = expected;
        if part != 0 {
            return Err(torn(format!("batch {next} stops after {part} of {} parts", parts(next))));
        }
        evidence.batches = next - 1;
        let latest = self.latest(db)?;
        if latest != evidence.batches {
            let batches = evidence.batches;
            return Err(torn(format!("the ledger says {latest}, but {batches} batches are there")));
        }
        Ok(evidence)
    }
}

/// What was found, all of it whole.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// Batches 1 to this are there.
    pub batches: u64,
    /// The entries that they are made of.
    pub pairs: u64,
}

/// Checks the entry that should be part `expected`, and says which part should come next.
fn check(expected: (u64, u64), key_found: &[u8], value_found: &[u8]) -> Outcome<(u64, u64)> {
    let (number, part) = expected;
    if key_found != key(number, part) {
        let found = crate::text::escape(key_found);
        return Err(torn(format!("batch {number} part {part} is missing; {found} comes instead")));
    }
    if value_found != value(number, part) {
        return Err(torn(format!("batch {number} part {part} is not what was written")));
    }
    Ok(if part + 1 == parts(number) { (number + 1, 0) } else { (number, part + 1) })
}

fn torn(what: impl std::fmt::Display) -> Failure {
    Failure::new(format!("the demo found a torn or altered batch: {what}"))
}

fn parts(number: u64) -> u64 {
    1 + Rng::new(number).below(PARTS_MAX)
}

fn key(number: u64, part: u64) -> Vec<u8> {
    format!("{number:010}/{part}").into_bytes()
}

fn value(number: u64, part: u64) -> Vec<u8> {
    let mut rng = Rng::new(number * PARTS_MAX + part);
    let mut filler = vec![0; rng.below(FILLER_BYTES) as usize];
    rng.fill(&mut filler);
    let mut value = Vec::with_capacity(filler.len() + 32);
    coding::put_varint64(&mut value, number);
    coding::put_varint64(&mut value, part);
    coding::put_varint64(&mut value, parts(number));
    value.extend_from_slice(&filler);
    value.extend_from_slice(&crc32c(&value).to_le_bytes());
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::Settings;

    fn with_batches(count: u64, spoil: impl FnOnce(&Db, &Books)) -> Outcome<Evidence> {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("db"), Settings::default())?;
        let books = Books::open(&db)?;
        for number in 1..=count {
            let mut batch = db.batch();
            books.fill(number, &mut batch);
            db.write(&batch)?;
        }
        spoil(&db, &books);
        books.inspect(&db)
    }

    #[test]
    fn whole_batches_pass() {
        let evidence = with_batches(30, |_, _| ()).unwrap();
        assert_eq!(evidence.batches, 30);
        assert_eq!(evidence.pairs, (1..=30).map(parts).sum::<u64>());
        assert_eq!(with_batches(0, |_, _| ()).unwrap(), Evidence::default());
    }

    #[test]
    fn every_kind_of_damage_is_found() {
        let found = |spoil: fn(&Db, &Books)| with_batches(30, spoil).is_err();
        assert!(found(|db, books| db.delete(&books.batches, key(30, 0)).unwrap()));
        assert!(found(|db, books| db.delete(&books.batches, key(30, parts(30) - 1)).unwrap()));
        assert!(found(|db, books| db.delete(&books.batches, key(1, 0)).unwrap()));
        assert!(found(|db, books| db.put(&books.batches, key(7, 0), b"").unwrap()));
        assert!(found(|db, books| db.put(&books.batches, key(7, 0), value(8, 0)).unwrap()));
        assert!(found(|db, books| db.put(&books.batches, key(31, 0), value(31, 0)).unwrap()));
        assert!(found(|db, books| db.put(&books.ledger, LATEST, 29u64.to_be_bytes()).unwrap()));
    }
}
