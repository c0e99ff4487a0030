//! What the tests share: small MemTables, and a map to compare them with.
#![allow(dead_code, reason = "each test file uses its part")]

use esker_base::{Entry, EntryCursor, KeyspaceId, Kind, MAX_SEQNO, Seqno, hash64};
use esker_memtable::{FrameMode, HeapMemory, MemTable, SegmentHeader, SegmentWriter};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

pub fn header(capacity: usize, alignment: u32, epoch: u32) -> SegmentHeader {
    SegmentHeader { epoch, capacity: capacity as u64, alignment, key_id: 0, salt: 0, flags: 0 }
}

pub fn memtable(capacity: usize, alignment: u32) -> Arc<MemTable> {
    let memory = HeapMemory::new(capacity);
    Arc::new(MemTable::new(memory, header(capacity, alignment, 1), FrameMode::Logged))
}

/// One write of a test: a put, a delete, or a range delete.
#[derive(Clone, Debug)]
pub struct Write {
    pub keyspace: u32,
    pub kind: Kind,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl Write {
    pub fn put(keyspace: u32, key: &[u8], value: &[u8]) -> Write {
        Write { keyspace, kind: Kind::Put, key: key.to_vec(), value: value.to_vec() }
    }

    pub fn entry(&self) -> Entry<'_> {
        Entry {
            keyspace: KeyspaceId(self.keyspace),
            kind: self.kind,
            key: &self.key,
            value: &self.value,
        }
    }
}

pub fn encode(batch: &[Write]) -> Vec<u8> {
    let mut bytes = Vec::new();
    batch.iter().for_each(|write| write.entry().encode(&mut bytes));
    bytes
}

/// Writes a batch through all steps. The seqno of its last entry, or `None` if it does not fit.
pub fn write(memtable: &MemTable, tail: &mut SegmentWriter, batch: &[Write]) -> Option<Seqno> {
    let bytes = encode(batch);
    let reservation = memtable.reserve(tail, bytes.len(), batch.len() as u32)?;
    let durable_through = reservation.first_seqno() - 1;
    let filled = memtable.fill(reservation, durable_through, &bytes).fence();
    memtable.insert(&filled);
    Some(filled.last_seqno())
}

/// What all the frames of a MemTable are in its file: header and frames, and zeros to the end.
pub fn file_of(memtable: &MemTable) -> Vec<u8> {
    let mut file = vec![0; memtable.header().capacity as usize];
    file[..64].copy_from_slice(&memtable.header().encode());
    let start = memtable.start();
    let end = memtable.completed(start);
    file[start.offset() as usize..end.offset() as usize]
        .copy_from_slice(memtable.bytes(start, end));
    file
}

/// Memory that holds `file`.
pub fn memory_with(file: &[u8]) -> HeapMemory {
    let mut memory = HeapMemory::new(file.len());
    memory.bytes_mut()[..file.len()].copy_from_slice(file);
    memory
}

/// A version: seqno, kind and value.
pub type Version = (Seqno, Kind, Vec<u8>);

type VersionKey = (u32, Vec<u8>, Reverse<Seqno>);
type Written = (Kind, Vec<u8>);

/// All versions, in the engine's order.
#[derive(Default, Clone)]
pub struct Model {
    versions: BTreeMap<VersionKey, Written>,
    pub ranges: Vec<(u32, Vec<u8>, Vec<u8>, Seqno)>,
}

impl Model {
    pub fn apply(&mut self, batch: &[Write], first_seqno: Seqno) {
        for (seqno, write) in (first_seqno..).zip(batch) {
            let Write { keyspace, kind, key, value } = write.clone();
            if kind == Kind::RangeDelete {
                self.ranges.push((keyspace, key, value, seqno));
            } else {
                self.versions.insert((keyspace, key, Reverse(seqno)), (kind, value));
            }
        }
    }

    pub fn get(&self, keyspace: u32, key: &[u8], snapshot: Seqno) -> Option<Version> {
        let from = (keyspace, key.to_vec(), Reverse(snapshot));
        let to = (keyspace, key.to_vec(), Reverse(0));
        let ((.., seqno), (kind, value)) = self.versions.range(from..=to).next()?;
        Some((seqno.0, *kind, value.clone()))
    }

    /// The versions of a keyspace that a reader at `visible` sees, in order.
    pub fn scan(&self, keyspace: u32, visible: Seqno) -> Vec<(Vec<u8>, Version)> {
        let all = self.versions.iter();
        let seen = all.filter(|((space, _, seqno), _)| *space == keyspace && seqno.0 <= visible);
        let row = |((_, key, seqno), (kind, value)): (&VersionKey, &Written)| {
            (key.clone(), (seqno.0, *kind, value.clone()))
        };
        seen.map(row).collect()
    }

    pub fn covering(&self, keyspace: u32, key: &[u8], snapshot: Seqno) -> Seqno {
        let covers = |range: &&(u32, Vec<u8>, Vec<u8>, Seqno)| {
            range.0 == keyspace && &range.1[..] <= key && key < &range.2[..] && range.3 <= snapshot
        };
        self.ranges.iter().filter(covers).map(|range| range.3).max().unwrap_or(0)
    }

    pub fn keys(&self) -> Vec<(u32, Vec<u8>)> {
        let mut keys: Vec<_> =
            self.versions.keys().map(|(space, key, _)| (*space, key.clone())).collect();
        keys.dedup();
        keys
    }

    pub fn keyspaces(&self) -> Vec<KeyspaceId> {
        let mut all: Vec<u32> = self.versions.keys().map(|(space, ..)| *space).collect();
        all.extend(self.ranges.iter().map(|range| range.0));
        all.sort_unstable();
        all.dedup();
        all.into_iter().map(KeyspaceId).collect()
    }
}

pub fn get(memtable: &MemTable, keyspace: u32, key: &[u8], snapshot: Seqno) -> Option<Version> {
    let found = memtable.get(KeyspaceId(keyspace), key, hash64(key), snapshot)?;
    Some((found.seqno, found.kind, found.value.to_vec()))
}

/// The version that a cursor is on.
pub fn current(cursor: &impl EntryCursor) -> Option<(Vec<u8>, Version)> {
    let version = || (cursor.seqno(), cursor.kind(), cursor.value().to_vec());
    cursor.valid().then(|| (cursor.key().to_vec(), version()))
}

/// Everything a cursor yields from its first version on.
pub fn forward(cursor: &mut impl EntryCursor) -> Vec<(Vec<u8>, Version)> {
    cursor.seek_first().unwrap();
    let mut rows = Vec::new();
    while let Some(row) = current(cursor) {
        rows.push(row);
        cursor.next().unwrap();
    }
    rows
}

/// Everything a cursor yields from its last version back.
pub fn backward(cursor: &mut impl EntryCursor) -> Vec<(Vec<u8>, Version)> {
    cursor.seek_last().unwrap();
    let mut rows = Vec::new();
    while let Some(row) = current(cursor) {
        rows.push(row);
        cursor.prev().unwrap();
    }
    rows
}

/// Compares gets, tombstones and whole scans with the model, at `visible`.
pub fn assert_agrees(memtable: &Arc<MemTable>, model: &Model, visible: Seqno) {
    for (keyspace, key) in model.keys() {
        assert_eq!(get(memtable, keyspace, &key, visible), model.get(keyspace, &key, visible));
        let covering = memtable
            .range_tombstones(KeyspaceId(keyspace))
            .map_or(0, |tombstones| tombstones.covering(&key, visible));
        assert_eq!(covering, model.covering(keyspace, &key, visible));
    }
    for KeyspaceId(keyspace) in model.keyspaces() {
        let expected = model.scan(keyspace, visible);
        let mut cursor = memtable.cursor(KeyspaceId(keyspace), visible);
        assert_eq!(forward(&mut cursor), expected, "forward, keyspace {keyspace} at {visible}");
        let mut reversed = expected;
        reversed.reverse();
        assert_eq!(backward(&mut cursor), reversed, "back, keyspace {keyspace} at {visible}");
    }
    assert!(get(memtable, 0, b"no such key", MAX_SEQNO).is_none());
}
