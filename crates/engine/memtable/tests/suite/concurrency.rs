//! Many writers and readers at once, then a check of everything.
#![cfg(not(loom))]

use crate::common::*;
use esker_base::{EntryCursor, KeyspaceId, Rng, hash64};
use esker_memtable::{MemTable, scan};
use scopeguard::defer;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const WRITERS: u64 = 4;
const CAPACITY: usize = 2 << 20;

/// What is visible: the seqno before the first that is not inserted.
struct Published {
    inserted: Mutex<Vec<bool>>,
    visible: AtomicU64,
}

impl Published {
    fn new() -> Self {
        Published { inserted: Mutex::new(vec![true]), visible: AtomicU64::new(0) }
    }

    /// Marks seqnos and advances over what is contiguous.
    fn mark(&self, first: u64, last: u64) {
        let mut inserted = self.inserted.lock().unwrap();
        let len = inserted.len().max(last as usize + 1);
        inserted.resize(len, false);
        inserted[first as usize..=last as usize].fill(true);
        let mut visible = self.visible.load(Ordering::Relaxed);
        while inserted.get(visible as usize + 1) == Some(&true) {
            visible += 1;
        }
        self.visible.store(visible, Ordering::Release);
    }
}

/// Few keys, so that chains are long and contended.
fn random_batch(rng: &mut Rng, writer: u64) -> Vec<Write> {
    (0..rng.below(4) + 1)
        .map(|_| {
            let key = rng.below(500);
            let value = [writer.to_le_bytes(), key.to_le_bytes()].concat();
            Write::put((key % 3) as u32, format!("key{key:05}").as_bytes(), &value)
        })
        .collect()
}

#[test]
fn concurrent_writers_and_readers_agree_with_the_model() {
    let memtable = memtable(CAPACITY, 8);
    let tail = Mutex::new(memtable.activate(1));
    let log = Mutex::new(Vec::new());
    let published = Published::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        defer! { done.store(true, Ordering::Release) }
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (memtable, tail, log, published) = (&memtable, &tail, &log, &published);
                scope.spawn(move || {
                    let mut rng = Rng::new(writer);
                    loop {
                        let batch = random_batch(&mut rng, writer);
                        let bytes = encode(&batch);
                        let count = batch.len() as u32;
                        let reserved =
                            memtable.reserve(&mut tail.lock().unwrap(), bytes.len(), count);
                        let Some(reserved) = reserved else { break };
                        let filled = memtable.fill(reserved, 0, &bytes).fence();
                        memtable.insert(&filled);
                        log.lock().unwrap().push((filled.first_seqno(), batch));
                        published.mark(filled.first_seqno(), filled.last_seqno());
                    }
                })
            })
            .collect();
        for reader in 0..4 {
            let (memtable, published, done) = (&memtable, &published, &done);
            scope.spawn(move || read_until(memtable, published, done, reader));
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    memtable.seal(tail.into_inner().unwrap());

    let mut log = log.into_inner().unwrap();
    log.sort_unstable_by_key(|(first, _)| *first);
    let mut model = Model::default();
    log.iter().for_each(|(first, batch)| model.apply(batch, *first));
    let last = memtable.last_seqno();
    assert_eq!(published.visible.load(Ordering::Acquire), last);
    for snapshot in [last, last / 2, 17] {
        assert_agrees(&memtable, &model, snapshot);
    }
    let file = file_of(&memtable);
    let found = scan(&file, memtable.header(), Some(1));
    assert_eq!(found.frames.len(), log.len());
    let recovered = MemTable::recover(memory_with(&file), *memtable.header(), &found);
    assert_agrees(&Arc::new(recovered), &model, last);
}

/// Reads what must hold at any time: a cursor is sorted and sees exactly what gets see.
fn read_until(memtable: &Arc<MemTable>, published: &Published, done: &AtomicBool, reader: u64) {
    let mut position = memtable.start();
    loop {
        let last_round = done.load(Ordering::Acquire);
        let visible = published.visible.load(Ordering::Acquire);
        let keyspace = KeyspaceId((visible % 3) as u32);
        if reader == 0 {
            memtable.sort_through(visible);
        }
        let mut cursor = memtable.cursor(keyspace, visible);
        cursor.seek_first().unwrap();
        let mut before: Option<Vec<u8>> = None;
        while cursor.valid() {
            assert!(cursor.seqno() <= visible);
            if before.as_deref() != Some(cursor.key()) {
                assert!(before.as_deref() < Some(cursor.key()));
                let found = memtable.get(keyspace, cursor.key(), hash64(cursor.key()), visible);
                let found = found.expect("the cursor sees the key");
                assert_eq!((found.seqno, found.value), (cursor.seqno(), cursor.value()));
                before = Some(cursor.key().to_vec());
            }
            cursor.next().unwrap();
        }
        let next = memtable.completed(position);
        assert!(next.next_seqno() > visible);
        assert_eq!(memtable.bytes(position, next).len() as u64, next.offset() - position.offset());
        position = next;
        if last_round {
            return;
        }
    }
}
