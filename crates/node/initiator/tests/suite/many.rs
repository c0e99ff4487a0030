//! Several keys for one call.

use crate::clock::{HandClock, wait_until};
use crate::{keys as connect, keys_by, serve, settings};
use esker_api::{Kv, WriteBatch};
use esker_base::{Clock, KeyspaceId};
use esker_target::{Description, MemoryKeys, Namespace, Reply, Request};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Commands that one call has in progress.
const WINDOW: usize = 16;

/// Keys in memory that hold what they are asked until the test lets them go on, in the opposite order.
struct Held {
    keys: MemoryKeys,
    requests: Mutex<Option<Vec<(Request, Reply)>>>,
}

impl Held {
    fn new() -> Arc<Self> {
        let keys = MemoryKeys::new([1; 16], 1 << 30);
        Arc::new(Held { keys, requests: Mutex::new(None) })
    }

    fn hold(&self) {
        *self.requests.lock().unwrap() = Some(Vec::new());
    }

    fn count(&self) -> usize {
        self.requests.lock().unwrap().as_ref().map_or(0, Vec::len)
    }

    /// Goes on with what came, and holds what comes.
    fn let_go(&self) {
        let held = self.requests.lock().unwrap().as_mut().map(std::mem::take);
        for (request, reply) in held.into_iter().flatten().rev() {
            self.keys.submit(request, reply);
        }
    }

    fn go_on(&self) {
        self.let_go();
        let held = self.requests.lock().unwrap().take();
        assert!(held.is_some_and(|held| held.is_empty()));
    }
}

impl Namespace for Held {
    fn guid(&self) -> [u8; 16] {
        self.keys.guid()
    }
    fn description(&self) -> Description {
        self.keys.description()
    }
    fn submit(&self, request: Request, reply: Reply) {
        match &mut *self.requests.lock().unwrap() {
            Some(held) => held.push((request, reply)),
            None => self.keys.submit(request, reply),
        }
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

fn batch(changes: impl IntoIterator<Item = (usize, Option<Vec<u8>>)>) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for (number, value) in changes {
        match value {
            Some(value) => batch.put(KeyspaceId::DEFAULT, key(number), &value),
            None => batch.delete(KeyspaceId::DEFAULT, key(number)),
        }
    }
    batch
}

#[test]
fn one_thread_has_several_keys_read_at_a_time() {
    const KEYS: usize = 300;
    let held = Held::new();
    let target = serve(vec![held.clone()]);
    let client = connect(settings(target.address())).unwrap();
    // Some are longer than what is asked for at first, and some keys are not there.
    let value =
        |number: usize| (!number.is_multiple_of(7)).then(|| vec![number as u8; number * 400]);
    client.write(&batch((0..KEYS).filter_map(|n| Some((n, Some(value(n)?)))))).unwrap();
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    held.hold();
    std::thread::scope(|scope| {
        let read = scope.spawn(|| client.multi_get(&keys).unwrap());
        wait_until("a window is under way", || held.count() == WINDOW);
        held.let_go();
        wait_until("another is", || held.count() == WINDOW);
        held.let_go();
        wait_until("all are read", || {
            held.let_go();
            read.is_finished()
        });
        for (number, found) in read.join().unwrap().into_iter().enumerate() {
            assert!(found.as_deref() == value(number).as_deref(), "{number}");
        }
    });
}

#[test]
fn a_batch_changes_several_keys_at_a_time_and_each_in_its_order() {
    let held = Held::new();
    let target = serve(vec![held.clone()]);
    let client = connect(settings(target.address())).unwrap();
    let half = WINDOW / 2;
    let value = |text: &str| Some(text.as_bytes().to_vec());
    let first = (0..half).map(|number| (number, value("first")));
    let second = (0..half).map(|number| (number, if number == 3 { None } else { value("second") }));
    let batch = batch(first.chain(second));
    held.hold();
    std::thread::scope(|scope| {
        let write = scope.spawn(|| client.write(&batch));
        for _ in 0..2 {
            wait_until("half of it is under way", || held.count() >= half);
            held.let_go();
        }
        wait_until("it is done", || {
            held.let_go();
            write.is_finished()
        });
        write.join().unwrap().unwrap();
    });
    held.go_on();
    for number in 0..half {
        let found = client.retrieve(&key(number)).unwrap();
        assert_eq!(found, if number == 3 { None } else { value("second") }, "{number}");
    }
}

#[test]
fn nothing_is_done_of_a_batch_with_an_entry_that_cannot_be() {
    let target = serve(vec![Held::new()]);
    let client = connect(settings(target.address())).unwrap();
    let mut ranges = batch([(1, Some(b"v".to_vec()))]);
    ranges.delete_range(KeyspaceId::DEFAULT, b"a"..b"b");
    let mut long_keys = batch([(1, Some(b"v".to_vec()))]);
    long_keys.put(KeyspaceId::DEFAULT, [7; 17], b"v");
    let long_values = batch([(1, Some(b"v".to_vec())), (2, Some(vec![0; (1 << 20) + 1]))]);
    for batch in [ranges, long_keys, long_values] {
        client.write(&batch).unwrap_err();
        assert!(!client.exist(&key(1)).unwrap());
    }
    // A delete of what is not there is one all the same.
    client.write(&batch([(1, None), (2, None)])).unwrap();
}

const DEADLINE: Duration = Duration::from_secs(3200);

/// Entries of a MiB that are written by one deadline.
const TOGETHER: usize = 8;

/// Keys in memory of which each store takes so long that more than a deadline is for takes longer; and that forget one of them.
struct Slow {
    keys: MemoryKeys,
    clock: Arc<HandClock>,
    forgets: Option<usize>,
    stores: AtomicUsize,
    forgotten: Mutex<Vec<Reply>>,
}

impl Namespace for Slow {
    fn guid(&self) -> [u8; 16] {
        self.keys.guid()
    }
    fn description(&self) -> Description {
        self.keys.description()
    }
    fn submit(&self, request: Request, reply: Reply) {
        if Some(self.stores.fetch_add(1, SeqCst)) == self.forgets {
            self.forgotten.lock().unwrap().push(reply);
            return self.clock.sleep(DEADLINE);
        }
        self.clock.sleep(DEADLINE / (2 * TOGETHER as u32));
        self.keys.submit(request, reply);
    }
}

/// Writes three times as much as is written by one deadline, to a node that is slow.
fn write_slowly(forgets: Option<usize>) -> Result<(), String> {
    let clock = Arc::new(HandClock::default());
    let keys = MemoryKeys::new([1; 16], 1 << 30);
    let (stores, forgotten) = Default::default();
    let slow = Slow { keys, clock: clock.clone(), forgets, stores, forgotten };
    let target = serve(vec![Arc::new(slow)]);
    let (keep_alive, deadline) = (Duration::ZERO, DEADLINE);
    let settings = settings(target.address()).keep_alive(keep_alive).deadline(deadline);
    let client = keys_by(clock, settings).unwrap();
    let batch = batch((0..3 * TOGETHER).map(|number| (number, Some(vec![7; 1 << 20]))));
    client.write(&batch).map_err(|error| error.to_string())
}

#[test]
fn each_8_mib_of_a_batch_have_a_deadline_of_their_own() {
    assert_eq!(write_slowly(None), Ok(()));
}

#[test]
fn a_batch_that_is_cut_off_may_be_done_in_part() {
    for forgotten in [0, TOGETHER] {
        let error = write_slowly(Some(forgotten)).unwrap_err();
        assert!(error.contains("each part of it was done or was not"), "{error}");
        assert!(error.contains("the node did not respond, or stopped receiving"), "{error}");
    }
}
