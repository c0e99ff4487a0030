//! A writer, a follower with a thread, and readers of it, at once.

use crate::support::*;
use esker_lsm::Db;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Batches set two keys of two keyspaces to the same number, which only rises.
#[test]
fn readers_beside_a_following_thread_see_whole_batches_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Db::open(dir.path(), settings()).unwrap();
    let other = writer.keyspace("other", appending()).unwrap();
    let keyspace = writer.default_keyspace();
    let follower = Db::open_follower(dir.path(), settings(), Duration::from_millis(1)).unwrap();
    let is_over = AtomicBool::new(false);
    let last = 3_000_u32;
    std::thread::scope(|scope| {
        let _stops = scopeguard::guard((), |()| is_over.store(true, Ordering::SeqCst));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let here = follower.default_keyspace();
                    let beyond = follower.open_keyspace("other").unwrap();
                    let (mut before, mut looks) = (None, 0_u64);
                    // At least one look: the thread may begin late.
                    loop {
                        let snapshot = follower.snapshot();
                        let one = snapshot.get(&here, "number").unwrap();
                        let two = snapshot.range(&beyond, "number"..).next().transpose().unwrap();
                        assert_eq!(one, two.map(|(_, value)| value));
                        let number = one.map(|it| u32::from_be_bytes((&*it).try_into().unwrap()));
                        assert!(number >= before);
                        before = number;
                        looks += 1;
                        if is_over.load(Ordering::SeqCst) {
                            break looks;
                        }
                    }
                })
            })
            .collect();
        for number in 1..=last {
            let mut batch = writer.batch();
            batch.put(&keyspace, "number", number.to_be_bytes());
            batch.put(&keyspace, number.to_be_bytes(), [7; 200]);
            batch.put(&other, "number", number.to_be_bytes());
            writer.write(&batch).unwrap();
        }
        while follower.default_keyspace().get("number").unwrap().as_deref()
            != Some(&last.to_be_bytes()[..])
        {
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::SeqCst);
        assert!(readers.into_iter().all(|reader| reader.join().unwrap() > 0));
    });
    assert_eq!(Mirror::of(&follower), Mirror::of(&writer));
    follower.close().unwrap();
}

/// A close does not wait for the interval to pass.
#[test]
fn a_close_ends_the_thread() {
    let dir = tempfile::tempdir().unwrap();
    let _writer = Db::open(dir.path(), settings()).unwrap();
    let follower = Db::open_follower(dir.path(), settings(), Duration::from_secs(100_000)).unwrap();
    follower.close().unwrap();
}
