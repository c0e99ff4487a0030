//! What is known about a table without reading it.
//!
//! ```text
//! (id u8 | length varint | value)..., ids ascending; a number is a varint of that length
//! ```
//!
//! A reader skips ids it does not know: whatever must not be skipped comes with a required feature
//! flag. Ids that change what the entries mean are refused by readers that do not know them: one is for
//! ingested tables, another is reserved.

use crate::Compression;
use crate::sketch::Sketches;
use esker_base::coding::{put_bytes, put_varint64, take_bytes, take_u8, take_varint64};
use esker_base::{FragmentedTombstones, KeyspaceId, Kind, MAX_SEQNO, Seqno, ValuePlace};
use std::sync::Arc;

/// Only in tables with deletes or range tombstones, and the first writers left it out.
const OLDEST_DELETE: u8 = 16;
/// Of an [`Origin`], as are [`NAME`] and [`SETTINGS`]: all of them are there or none.
const DATABASE: u8 = 17;
const EDITS: u8 = 18;
/// Of an [`Origin`], if it is above 0. Earlier writers left it out.
const FLUSHED_THROUGH: u8 = 19;

/// Of [`Expiring`]: the number of versions, the earliest time, and how much later the latest is.
const EXPIRING: u8 = 20;
const EARLIEST_EXPIRY: u8 = 21;
const EXPIRY_SPAN: u8 = 22;

/// The first id of a byte string. All lower ones are numbers.
const SMALLEST: u8 = 64;
const LARGEST: u8 = 65;
const NAME: u8 = 66;
const SETTINGS: u8 = 67;
const REPLACES: u8 = 68;
const FROM: u8 = 69;
const TO: u8 = 70;
const OBSOLETE: u8 = 71;
/// Of each value file that the table refers to: its ID, and the number and bytes of the values.
const VALUE_FILES: u8 = 72;

/// Of an ingested table, whose entries all have the seqno that the manifest says. Refused by readers
/// that do not know it.
const INGESTED_AFTER: u8 = 100;
/// Reserved for the key that encrypts the table.
const RESERVED_KEY_ID: u8 = 101;

/// What a table says of the database that wrote it, so that a database without a manifest can be rebuilt.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// The database's identity.
    pub database: u64,
    /// The number of the last edit in the manifest when the table was begun.
    pub edits: u64,
    /// Every write up to this seqno was in tables when this one was begun. The table's own seqnos may be
    /// lower: compaction sets them to 0. 0 if that is unknown.
    pub flushed_through: Seqno,
    /// The keyspace's name.
    pub name: String,
    /// The keyspace's settings, encoded by the engine.
    pub settings: Vec<u8>,
    /// The tables, by file and offset, whose versions between `from` and `to` this table replaces: what of them is to
    /// be kept is here.
    pub replaces: Vec<(u64, u64)>,
    /// The first key of that range, unless it starts with the first key of all.
    pub from: Option<Vec<u8>>,
    /// The first key behind that range, if there is one.
    pub to: Option<Vec<u8>>,
    /// Tables that were replaced before this one was begun, in files that were still there.
    pub obsolete: Vec<(u64, u64)>,
}

/// What a table has of versions that expire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Expiring {
    /// The number of such versions.
    pub entries: u64,
    /// The first time at which one of them expires, in milliseconds since 1970-01-01.
    pub earliest: u64,
    /// The last such time.
    pub latest: u64,
}

/// How much of a value file a table refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ValueFileUse {
    /// The ID of the file.
    pub file: u64,
    /// The number of values.
    pub values: u64,
    /// Their bytes in the file.
    pub bytes: u64,
}

/// The uses of value files, as varints.
fn put_uses(uses: &[ValueFileUse]) -> Vec<u8> {
    let mut out = Vec::new();
    for ValueFileUse { file, values, bytes } in uses {
        [file, values, bytes].into_iter().for_each(|it| put_varint64(&mut out, *it));
    }
    out
}

/// Reads what [`put_uses`] wrote. `None` unless the IDs ascend.
fn take_uses(mut input: &[u8]) -> Option<Vec<ValueFileUse>> {
    let mut uses: Vec<ValueFileUse> = Vec::new();
    while !input.is_empty() {
        let mut next = || take_varint64(&mut input);
        let of = ValueFileUse { file: next()?, values: next()?, bytes: next()? };
        if uses.last().is_some_and(|last| last.file >= of.file) {
            return None;
        }
        uses.push(of);
    }
    Some(uses)
}

impl Expiring {
    /// That and a version more, which expires at `time`.
    fn and(this: Option<Expiring>, time: u64) -> Expiring {
        match this {
            None => Expiring { entries: 1, earliest: time, latest: time },
            Some(Expiring { entries, earliest, latest }) => Expiring {
                entries: entries + 1,
                earliest: earliest.min(time),
                latest: latest.max(time),
            },
        }
    }

    /// About how many of the versions have expired at `now`, as if they did at equal distances.
    pub fn expired(&self, now: u64) -> u64 {
        match (now < self.earliest, now >= self.latest) {
            (true, _) => 0,
            (_, true) => self.entries,
            _ => {
                let span = (self.latest - self.earliest) as f64;
                (self.entries as f64 * ((now - self.earliest) as f64 / span)) as u64
            }
        }
    }
}

/// Tables by file and offset, as varints.
fn tables(list: &[(u64, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (file, offset) in list {
        put_varint64(&mut out, *file);
        put_varint64(&mut out, *offset);
    }
    out
}

/// Counts and bounds of a table.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Properties {
    /// The keyspace of all keys.
    pub keyspace: KeyspaceId,
    /// The level that the table was written to. It may have moved since.
    pub level: u8,
    /// The id of the file that the table was written to.
    pub file_id: u64,
    /// The compression of data blocks that it makes small enough.
    pub compression: Compression,
    /// The bits of a filter fingerprint, 0 (no filter) to 32.
    pub fingerprint_bits: u8,
    /// Versions in data blocks, including deletes.
    pub entries: u64,
    /// Versions that are deletes.
    pub deletes: u64,
    /// Distinct keys.
    pub keys: u64,
    /// Range tombstones after fragmenting: one per fragment and sequence number.
    pub range_tombstones: u64,
    /// Bytes of the keys of all versions, before prefix compression.
    pub raw_key_bytes: u64,
    /// Bytes of the values of all versions, uncompressed.
    pub raw_value_bytes: u64,
    /// Data blocks.
    pub data_blocks: u64,
    /// Bytes of the data blocks in the file.
    pub data_bytes: u64,
    /// The lowest sequence number of a version or range tombstone; 0 in an empty table.
    pub smallest_seqno: Seqno,
    /// The highest sequence number of a version or range tombstone; 0 in an empty table.
    pub largest_seqno: Seqno,
    /// The lowest sequence number of a delete or range tombstone.
    ///
    /// `None` if there is none, or if the writer did not record it.
    pub oldest_delete: Option<Seqno>,
    /// The versions that expire, if there are any.
    pub expiring: Option<Expiring>,
    /// The value files that versions refer to, by ID.
    pub value_files: Vec<ValueFileUse>,
    /// A lower bound of all keys that the table holds or deletes.
    pub smallest: Vec<u8>,
    /// An upper bound of all keys that the table holds or deletes. It may be the end of a range
    /// tombstone.
    pub largest: Vec<u8>,
    /// Sketches of the distinct keys.
    #[doc(hidden)]
    pub sketches: Arc<Sketches>,
    /// The database and the keyspace of the table. `None` if an older release wrote it.
    pub origin: Option<Arc<Origin>>,
    /// For an ingested table, the last sequence number given out when the table was begun.
    ///
    /// The table stores all entries with sequence number 0. The manifest has the one that they got.
    pub ingested_after: Option<Seqno>,
}

impl Properties {
    /// The properties of a table before its first entry.
    pub(crate) fn before_first(keyspace: KeyspaceId, level: u8, file_id: u64) -> Self {
        Properties { smallest_seqno: MAX_SEQNO, ..Properties::empty(keyspace, level, file_id) }
    }

    /// The lowest seqno that the entries of an ingested table can have got.
    pub fn lowest_ingest_seqno(&self) -> Option<Seqno> {
        self.ingested_after.map(|after| after + 1)
    }

    fn empty(keyspace: KeyspaceId, level: u8, file_id: u64) -> Self {
        Properties {
            keyspace,
            level,
            file_id,
            compression: Compression::None,
            fingerprint_bits: 0,
            entries: 0,
            deletes: 0,
            keys: 0,
            range_tombstones: 0,
            raw_key_bytes: 0,
            raw_value_bytes: 0,
            data_blocks: 0,
            data_bytes: 0,
            smallest_seqno: 0,
            largest_seqno: 0,
            oldest_delete: None,
            expiring: None,
            value_files: Vec::new(),
            smallest: Vec::new(),
            largest: Vec::new(),
            sketches: Arc::default(),
            origin: None,
            ingested_after: None,
        }
    }

    /// Every number that all tables have, with its id, in order of id.
    fn numbers(&self) -> [(u8, u64); 15] {
        [
            (1, u64::from(self.keyspace.0)),
            (2, u64::from(self.level)),
            (3, self.file_id),
            (4, self.compression as u64),
            (5, u64::from(self.fingerprint_bits)),
            (6, self.entries),
            (7, self.deletes),
            (8, self.keys),
            (9, self.range_tombstones),
            (10, self.raw_key_bytes),
            (11, self.raw_value_bytes),
            (12, self.data_blocks),
            (13, self.data_bytes),
            (14, self.smallest_seqno),
            (15, self.largest_seqno),
        ]
    }

    fn set_number(&mut self, id: u8, value: u64) -> Option<()> {
        match id {
            1 => self.keyspace = KeyspaceId(u32::try_from(value).ok()?),
            2 => self.level = u8::try_from(value).ok()?,
            3 => self.file_id = value,
            4 => self.compression = Compression::from_u8(u8::try_from(value).ok()?)?,
            5 => self.fingerprint_bits = u8::try_from(value).ok()?,
            6 => self.entries = value,
            7 => self.deletes = value,
            8 => self.keys = value,
            9 => self.range_tombstones = value,
            10 => self.raw_key_bytes = value,
            11 => self.raw_value_bytes = value,
            12 => self.data_blocks = value,
            13 => self.data_bytes = value,
            14 => self.smallest_seqno = (value <= MAX_SEQNO).then_some(value)?,
            15 => self.largest_seqno = (value <= MAX_SEQNO).then_some(value)?,
            EXPIRING => self.expiring = Some(Expiring { entries: value, earliest: 0, latest: 0 }),
            EARLIEST_EXPIRY => self.expiring.as_mut()?.earliest = value,
            EXPIRY_SPAN => {
                let expiring = self.expiring.as_mut()?;
                expiring.latest = expiring.earliest.checked_add(value)?;
            }
            OLDEST_DELETE => self.oldest_delete = Some((value <= MAX_SEQNO).then_some(value)?),
            _ => {}
        }
        Some(())
    }

    /// Everything but the sketches, which have a section of their own.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut number = Vec::new();
        let oldest_delete = self.oldest_delete.map(|seqno| (OLDEST_DELETE, seqno));
        let origin = self.origin.as_deref();
        let written_by = origin.map(|origin| [(DATABASE, origin.database), (EDITS, origin.edits)]);
        let flushed = origin.map(|origin| (FLUSHED_THROUGH, origin.flushed_through));
        let numbers = self.numbers().into_iter().chain(oldest_delete);
        let numbers = numbers.chain(written_by.into_iter().flatten());
        let expiring = self.expiring.map(|Expiring { entries, earliest, latest }| {
            [(EXPIRING, entries), (EARLIEST_EXPIRY, earliest), (EXPIRY_SPAN, latest - earliest)]
        });
        let numbers = numbers.chain(flushed.filter(|(_, seqno)| *seqno > 0));
        for (id, value) in numbers.chain(expiring.into_iter().flatten()) {
            number.clear();
            put_varint64(&mut number, value);
            out.push(id);
            put_bytes(&mut out, &number);
        }
        let bounds = [(SMALLEST, &self.smallest[..]), (LARGEST, &self.largest)];
        for (id, bytes) in bounds {
            out.push(id);
            put_bytes(&mut out, bytes);
        }
        if let Some(origin) = origin {
            let (replaces, obsolete) = (tables(&origin.replaces), tables(&origin.obsolete));
            let fields = [
                (NAME, Some(origin.name.as_bytes())),
                (SETTINGS, Some(&origin.settings[..])),
                (REPLACES, Some(&replaces[..]).filter(|replaces| !replaces.is_empty())),
                (FROM, origin.from.as_deref()),
                (TO, origin.to.as_deref()),
                (OBSOLETE, Some(&obsolete[..]).filter(|obsolete| !obsolete.is_empty())),
            ];
            for (id, bytes) in fields.into_iter().filter_map(|(id, bytes)| Some((id, bytes?))) {
                out.push(id);
                put_bytes(&mut out, bytes);
            }
        }
        if !self.value_files.is_empty() {
            out.push(VALUE_FILES);
            put_bytes(&mut out, &put_uses(&self.value_files));
        }
        if let Some(after) = self.ingested_after {
            number.clear();
            put_varint64(&mut number, after);
            out.push(INGESTED_AFTER);
            put_bytes(&mut out, &number);
        }
        out
    }

    /// Reads what [`Properties::encode`] wrote. The error says what is corrupt.
    pub(crate) fn decode(mut input: &[u8]) -> Result<Properties, &'static str> {
        let mut properties = Properties::empty(KeyspaceId(0), 0, 0);
        let mut origin: Option<Origin> = None;
        let mut last_id = 0;
        while !input.is_empty() {
            let id = take_u8(&mut input).ok_or("a property is cut short")?;
            let mut value = take_bytes(&mut input).ok_or("a property is cut short")?;
            if id <= last_id {
                return Err("the properties are out of order");
            }
            last_id = id;
            match id {
                RESERVED_KEY_ID => return Err("a property is reserved for a newer program"),
                INGESTED_AFTER => {
                    let after = take_varint64(&mut value).filter(|_| value.is_empty());
                    let after = after.filter(|after| *after <= MAX_SEQNO);
                    properties.ingested_after =
                        Some(after.ok_or("a property is out of its range")?);
                }
                SMALLEST => properties.smallest = value.to_vec(),
                LARGEST => properties.largest = value.to_vec(),
                NAME => {
                    origin.get_or_insert_default().name = String::from_utf8(value.to_vec())
                        .map_err(|_| "the keyspace's name is no text")?;
                }
                SETTINGS => origin.get_or_insert_default().settings = value.to_vec(),
                REPLACES | OBSOLETE => {
                    let origin = origin.get_or_insert_default();
                    let list =
                        if id == REPLACES { &mut origin.replaces } else { &mut origin.obsolete };
                    while !value.is_empty() {
                        let file = take_varint64(&mut value);
                        let table = file.zip(take_varint64(&mut value));
                        list.push(table.ok_or("a list of tables is cut short")?);
                    }
                }
                VALUE_FILES => {
                    properties.value_files =
                        take_uses(value).ok_or("the list of value files is no such list")?;
                }
                FROM => origin.get_or_insert_default().from = Some(value.to_vec()),
                TO => origin.get_or_insert_default().to = Some(value.to_vec()),
                DATABASE | EDITS | FLUSHED_THROUGH => {
                    let number = take_varint64(&mut value)
                        .filter(|_| value.is_empty())
                        .ok_or("a property is out of its range")?;
                    let origin = origin.get_or_insert_default();
                    *match id {
                        DATABASE => &mut origin.database,
                        EDITS => &mut origin.edits,
                        _ => &mut origin.flushed_through,
                    } = number;
                }
                id if id < SMALLEST => take_varint64(&mut value)
                    .filter(|_| value.is_empty())
                    .and_then(|number| properties.set_number(id, number))
                    .ok_or("a property is out of its range")?,
                _ => {}
            }
        }
        properties.origin = origin.map(Arc::new);
        if properties.smallest > properties.largest {
            return Err("the smallest key is above the largest");
        }
        Ok(properties)
    }

    /// Counts a version.
    #[inline]
    pub(crate) fn count_version(
        &mut self,
        key_len: usize,
        seqno: Seqno,
        kind: Kind,
        value_len: usize,
    ) {
        self.entries += 1;
        if kind == Kind::Delete {
            self.deletes += 1;
            self.note_delete(seqno);
        }
        self.raw_key_bytes += key_len as u64;
        self.raw_value_bytes += value_len as u64;
        self.note_seqno(seqno);
    }

    /// Counts a value in a value file.
    pub(crate) fn count_separated(&mut self, place: &ValuePlace) {
        let uses = &mut self.value_files;
        let at = match uses.binary_search_by_key(&place.file, |it| it.file) {
            Ok(at) => at,
            Err(at) => {
                uses.insert(at, ValueFileUse { file: place.file, values: 0, bytes: 0 });
                at
            }
        };
        uses[at].values += 1;
        uses[at].bytes += place.bytes;
    }

    /// Counts the time of a version that expires.
    pub(crate) fn count_expiry(&mut self, time: u64) {
        self.expiring = Some(Expiring::and(self.expiring, time));
    }

    /// Counts the tombstones, and widens the bounds to cover them and the versions up to
    /// `largest_version`, all of which were counted.
    pub(crate) fn complete(&mut self, largest_version: Option<&[u8]>, list: &FragmentedTombstones) {
        if let Some(key) = largest_version {
            self.largest = key.to_vec();
        }
        for fragment in list.fragments() {
            self.range_tombstones += fragment.seqnos.len() as u64;
            self.cover_keys(&fragment.start, &fragment.end);
            for &seqno in &fragment.seqnos {
                self.note_seqno(seqno);
                self.note_delete(seqno);
            }
        }
        // If there was nothing at all, nothing has lowered it.
        self.smallest_seqno = self.smallest_seqno.min(self.largest_seqno);
    }

    #[inline]
    fn note_seqno(&mut self, seqno: Seqno) {
        self.smallest_seqno = self.smallest_seqno.min(seqno);
        self.largest_seqno = self.largest_seqno.max(seqno);
    }

    fn note_delete(&mut self, seqno: Seqno) {
        self.oldest_delete = Some(self.oldest_delete.map_or(seqno, |oldest| oldest.min(seqno)));
    }

    /// Widens the bounds to cover keys from `smallest` to `largest`.
    fn cover_keys(&mut self, smallest: &[u8], largest: &[u8]) {
        let empty = self.smallest.is_empty();
        if empty || smallest < &self.smallest[..] {
            self.smallest = smallest.to_vec();
        }
        if empty || largest > &self.largest[..] {
            self.largest = largest.to_vec();
        }
    }

    /// Bytes of memory that the properties take.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Properties>()
            + self.smallest.capacity()
            + self.largest.capacity()
            + self.sketches.memory_bytes()
            + self.origin.as_ref().map_or(0, |origin| {
                let lists = origin.replaces.capacity() + origin.obsolete.capacity();
                let keys = origin.from.as_ref().map_or(0, Vec::capacity)
                    + origin.to.as_ref().map_or(0, Vec::capacity);
                let texts = origin.name.capacity() + origin.settings.capacity();
                size_of::<Origin>() + texts + keys + lists * size_of::<(u64, u64)>()
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Properties {
        let mut properties = Properties::empty(KeyspaceId(7), 3, 99);
        for (id, _) in properties.clone().numbers().iter().skip(5) {
            properties.set_number(*id, 1000 + u64::from(*id)).unwrap();
        }
        properties.cover_keys(b"b", b"d");
        properties.cover_keys(b"a", b"c");
        properties
    }

    #[test]
    fn properties_round_trip() {
        assert_eq!(Properties::decode(&sample().encode()), Ok(sample()));
        let with_deletes = Properties { oldest_delete: Some(1014), ..sample() };
        assert_eq!(Properties::decode(&with_deletes.encode()), Ok(with_deletes.clone()));
        let origin = Origin {
            database: 1 << 63,
            edits: 9,
            name: "k".into(),
            settings: vec![1, 2],
            replaces: vec![(3, 0), (300, 70_000)],
            to: Some(b"x".to_vec()),
            ..Origin::default()
        };
        let with_origin = Properties { origin: Some(Arc::new(origin)), ..with_deletes };
        assert_eq!(Properties::decode(&with_origin.encode()), Ok(with_origin.clone()));
        let origin =
            Origin { flushed_through: 700, ..(**with_origin.origin.as_ref().unwrap()).clone() };
        let flushed = Properties { origin: Some(Arc::new(origin)), ..with_origin };
        assert_eq!(Properties::decode(&flushed.encode()), Ok(flushed));
        assert_eq!((&sample().smallest[..], &sample().largest[..]), (&b"a"[..], &b"d"[..]));
    }

    #[test]
    fn unknown_ids_are_skipped_and_reserved_ones_refused() {
        let mut bytes = sample().encode();
        bytes.extend_from_slice(&[90, 2, 1, 1]);
        assert_eq!(Properties::decode(&bytes), Ok(sample()));
        bytes.extend_from_slice(&[RESERVED_KEY_ID, 1, 1]);
        assert!(Properties::decode(&bytes).is_err());
    }

    #[test]
    fn damaged_bytes_never_panic_and_disorder_is_refused() {
        let bytes = sample().encode();
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0xff;
            let _ = Properties::decode(&bad);
            let _ = Properties::decode(&bytes[..at]);
        }
        assert!(Properties::decode(&[2, 1, 1, 1, 1, 1]).is_err());
        assert!(Properties::decode(&[SMALLEST, 1, b'b', LARGEST, 1, b'a']).is_err());
    }
}
