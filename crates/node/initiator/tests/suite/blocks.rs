//! Files, and a database, in a namespace of blocks on a node.

use crate::clock::{HandClock, WatchedClock, wait_until};
use crate::silent::Silent;
use crate::{blocks as connect, blocks_by, serve, serve_at, settings};
use esker_base::background::Stepped;
use esker_base::{Background, Clock, FileKind, SystemClock, Threads, WriteHint};
use esker_initiator::{BlockClient, RemoteError};
use esker_lsm::{Db, Env, KeyspaceSettings, Log, Settings as DbSettings, SyncPolicy};
use esker_storage::blocks::BlockDevice;
use esker_storage::{BlockStorage, Storage};
use esker_target::{Description, MemoryBlocks, MemoryKeys, Namespace, Reply, Request, Target};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const DEVICE_BYTES: usize = 96 << 20;

fn blocks(block_bytes_log2: u8) -> Arc<dyn Namespace> {
    let blocks = DEVICE_BYTES >> block_bytes_log2;
    Arc::new(MemoryBlocks::new([2; 16], blocks, block_bytes_log2))
}

fn client(target: &Target) -> Arc<BlockClient> {
    Arc::new(connect(settings(target.address())).unwrap())
}

fn pattern(bytes: usize, salt: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at / 251) as u8 ^ at as u8 ^ salt).collect()
}

#[test]
fn blocks_are_read_as_they_were_written() {
    for log2 in [9, 12] {
        let target = serve(vec![blocks(log2)]);
        let client = client(&target);
        assert_eq!(client.bytes(), DEVICE_BYTES as u64);
        for (salt, bytes) in [(1, 4096), (2, 65_536), (3, 69_632), (4, 5 << 20)] {
            let data = pattern(bytes, salt);
            client.write(8192, &data).unwrap();
            client.flush().unwrap();
            let mut read = vec![0; bytes];
            client.read(8192, &mut read).unwrap();
            assert!(read == data, "{bytes}");
        }
        client.write_zeroes(8192, 4 << 20).unwrap();
        let mut read = vec![1; (4 << 20) + 4096];
        client.read(8192, &mut read).unwrap();
        assert!(read[..4 << 20].iter().all(|byte| *byte == 0));
        assert!(read[4 << 20..] == pattern(5 << 20, 4)[4 << 20..][..4096]);
    }
}

#[test]
fn many_threads_with_long_writes_share_a_short_queue() {
    let target = serve(vec![blocks(12)]);
    let client = connect(settings(target.address()).depth(3)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let client = &client;
            scope.spawn(move || {
                let offset = u64::from(thread) << 20;
                for round in 0..5 {
                    let data = pattern(1 << 20, thread * 5 + round);
                    client.write(offset, &data).unwrap();
                    let mut read = vec![0; 1 << 20];
                    client.read(offset, &mut read).unwrap();
                    assert!(read == data);
                }
            });
        }
    });
}

#[test]
fn what_is_beyond_the_end_is_refused_and_the_connection_goes_on() {
    let target = serve(vec![blocks(12)]);
    let client = client(&target);
    let end = DEVICE_BYTES as u64;
    let error = client.write(end - 65_536, &[1; 1 << 20]).unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    let mut read = [0; 4096];
    client.read(end - 4096, &mut read).unwrap();
    assert!(client.read(end, &mut read).is_err());
}

#[test]
fn a_namespace_of_keys_is_refused() {
    let keys = Arc::new(MemoryKeys::new([1; 16], 1 << 30));
    let target = serve(vec![keys]);
    let refused = connect(settings(target.address())).err();
    assert!(matches!(refused, Some(RemoteError::Refused { .. })), "{refused:?}");
}

fn database(target: &Target, background: Arc<dyn Background>) -> Db {
    let storage = BlockStorage::open(client(target), &Threads).unwrap();
    let env = Env::over(Arc::new(storage))
        .clock(Arc::new(SystemClock::new()))
        .background(background)
        .seed(1);
    let settings = DbSettings::default()
        .log(Log::File { dir: None, sync: SyncPolicy::Always })
        .segment_bytes(1 << 20);
    Db::open_with(env, settings).unwrap()
}

#[test]
fn a_database_on_a_node_has_what_was_acknowledged_when_its_process_is_gone() {
    let target = serve(vec![blocks(12)]);
    let written = 600u32;
    {
        // Without threads: nothing of it goes on writing when it is forgotten.
        let db = database(&target, Arc::new(Stepped));
        let keys = db.keyspace("k", KeyspaceSettings::default()).unwrap();
        for number in 0..written {
            if number == written / 2 {
                db.flush().unwrap();
            }
            db.put(&keys, number.to_be_bytes(), pattern(10_000, number as u8)).unwrap();
        }
        let stats = db.stats();
        assert!(stats.flush_bytes > 0, "tables, too, are there");
        // As if it were killed: nothing is closed.
        std::mem::forget((db, keys));
    }
    let db = database(&target, Arc::new(Threads));
    let keys = db.keyspace("k", KeyspaceSettings::default()).unwrap();
    for number in 0..written {
        let value = db.get(&keys, number.to_be_bytes()).unwrap().unwrap();
        assert!(value[..] == pattern(10_000, number as u8), "{number}");
    }
}

#[test]
fn files_outlive_a_restart_of_the_node() {
    let namespace = blocks(12);
    let target = serve(vec![namespace.clone()]);
    let address = target.address();
    let storage = BlockStorage::open(client(&target), &Threads).unwrap();
    let mut file = storage.create("a", WriteHint::of(FileKind::Meta)).unwrap();
    file.append(b"bytes").unwrap();
    file.sync().unwrap();
    target.drain();
    let target = serve_at(address, vec![namespace]);
    let mut read = [0; 5];
    storage.open("a").unwrap().read_exact_at(0, &mut read).unwrap();
    assert_eq!(&read, b"bytes", "a read is sent again");
    drop(target);
}

#[test]
fn a_write_that_was_not_answered_is_unknown_and_not_sent_again() {
    let silent = Silent::of_blocks();
    let target = serve(vec![silent.clone()]);
    let (settings, clock) = (settings(target.address()), Arc::new(HandClock::default()));
    let deadline = settings.deadline;
    let client = blocks_by(clock.clone(), settings).unwrap();
    let error = std::thread::scope(|scope| {
        let write = scope.spawn(|| client.write(0, &[1; 4096]));
        wait_until("the node has the write", || silent.count() == 1);
        clock.sleep(deadline);
        write.join().unwrap().unwrap_err()
    });
    assert!(error.to_string().contains("it was done or it was not"), "{error}");
    assert_eq!(silent.count(), 1);
    silent.answer_all();
}

/// It waits for a place in its queue, which another write has, when that is dropped.
#[test]
fn a_write_of_which_nothing_was_sent_is_sent_when_there_is_a_connection_again() {
    /// More than a write inspects the clock that does not wait.
    const LOOKS: usize = 10;
    let silent = Silent::of_blocks();
    let target = serve(vec![silent.clone()]);
    let clock = Arc::new(WatchedClock::default());
    let (depth, keep_alive, deadline) = (1, Duration::ZERO, Duration::from_secs(3600));
    let settings =
        settings(target.address()).depth(depth).keep_alive(keep_alive).deadline(deadline);
    let client = blocks_by(clock.clone(), settings).unwrap();
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| client.write(0, &[1; 4096]));
        wait_until("the node has the first", || silent.count() == 1);
        clock.sleep(deadline / 2);
        let unsent = scope.spawn(|| client.write(4096, &[2; 4096]));
        let thread = unsent.thread().id();
        wait_until("the second waits", || clock.looks(thread) > LOOKS);
        clock.sleep(deadline / 2);
        let error = sent.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("it was done or it was not"), "{error}");
        // The node answers nobody until it has done with the first.
        silent.answer_all();
        wait_until("the node has the second", || silent.count() == 1 || unsent.is_finished());
        silent.answer_all();
        unsent.join().unwrap().unwrap();
    });
}

/// Blocks whose acknowledged writes are safe only after a flush, as far as it says. Notes how much is made zero at a time.
struct Cached {
    blocks: MemoryBlocks,
    zeroed: Mutex<Vec<u64>>,
}

impl Cached {
    fn new() -> Arc<Self> {
        Arc::new(Cached {
            blocks: MemoryBlocks::new([2; 16], 16 << 10, 12),
            zeroed: Mutex::default(),
        })
    }
}

impl Namespace for Cached {
    fn guid(&self) -> [u8; 16] {
        self.blocks.guid()
    }
    fn description(&self) -> Description {
        self.blocks.description()
    }
    fn has_volatile_cache(&self) -> bool {
        true
    }
    fn submit(&self, request: Request, reply: Reply) {
        if let Request::WriteZeroes { bytes, .. } = &request {
            self.zeroed.lock().unwrap().push(*bytes);
        }
        self.blocks.submit(request, reply);
    }
}

#[test]
fn a_flush_does_not_answer_for_writes_from_before_the_node_was_gone() {
    let namespace = Cached::new();
    let target = serve(vec![namespace.clone()]);
    let address = target.address();
    let [flushed, unflushed] = [(); 2].map(|()| client(&target));
    for client in [&flushed, &unflushed] {
        client.write(0, &[1; 4096]).unwrap();
        client.flush().unwrap();
    }
    unflushed.write(4096, &[2; 4096]).unwrap();
    target.drain();
    let target = serve_at(address, vec![namespace]);
    for client in [&flushed, &unflushed] {
        client.read(0, &mut [0; 4096]).unwrap();
    }
    flushed.flush().unwrap();
    flushed.write(8192, &[3; 4096]).unwrap();
    flushed.flush().unwrap();
    for _ in 0..2 {
        let error = unflushed.flush().unwrap_err();
        assert!(error.to_string().contains("before a flush made safe"), "{error}");
        unflushed.write(8192, &[3; 4096]).unwrap();
    }
    drop(target);
}

#[test]
fn a_namespace_in_the_place_of_another_is_refused() {
    let target = serve(vec![blocks(12)]);
    let address = target.address();
    let client = client(&target);
    target.drain();
    for (guid, blocks, log2) in
        [([3; 16], 24 << 10, 12), ([2; 16], 8 << 10, 12), ([2; 16], 192 << 10, 9)]
    {
        let target = serve_at(address, vec![Arc::new(MemoryBlocks::new(guid, blocks, log2))]);
        let error = client.read(0, &mut [0; 4096]).unwrap_err();
        assert!(error.to_string().contains("is not the one"), "{error}");
        target.drain();
    }
    let target = serve_at(address, vec![self::blocks(12)]);
    client.read(0, &mut [0; 4096]).unwrap();
    drop(target);
}

#[test]
fn much_is_made_zero_in_pieces() {
    let namespace = Cached::new();
    let target = serve(vec![namespace.clone()]);
    client(&target).write_zeroes(4096, (40 << 20) + 4096).unwrap();
    let zeroed = namespace.zeroed.lock().unwrap();
    assert_eq!(zeroed.iter().sum::<u64>(), (40 << 20) + 4096);
    assert!(zeroed.iter().all(|bytes| *bytes <= 1 << 20), "{zeroed:?}");
}

/// Blocks of which each read and write takes a second.
struct Slow {
    blocks: MemoryBlocks,
    clock: Arc<HandClock>,
}

impl Namespace for Slow {
    fn guid(&self) -> [u8; 16] {
        self.blocks.guid()
    }
    fn description(&self) -> Description {
        self.blocks.description()
    }
    fn submit(&self, request: Request, reply: Reply) {
        self.clock.sleep(Duration::from_secs(1));
        self.blocks.submit(request, reply);
    }
}

#[test]
fn each_8_mib_of_a_write_and_of_a_read_have_a_deadline_of_their_own() {
    const BYTES: usize = 24 << 20;
    // 8 MiB are 128 commands, and the whole is 384.
    let (deadline, keep_alive) = (Duration::from_secs(200), Duration::ZERO);
    let clock = Arc::new(HandClock::default());
    let blocks = MemoryBlocks::new([2; 16], BYTES >> 12, 12);
    let target = serve(vec![Arc::new(Slow { blocks, clock: clock.clone() })]);
    let settings = settings(target.address()).deadline(deadline).keep_alive(keep_alive);
    let client = blocks_by(clock, settings).unwrap();
    let bytes: Vec<u8> = (0..BYTES).map(|at| (at >> 12) as u8).collect();
    client.write(0, &bytes).unwrap();
    let mut read = vec![0; BYTES];
    client.read(0, &mut read).unwrap();
    assert!(read == bytes);
}
