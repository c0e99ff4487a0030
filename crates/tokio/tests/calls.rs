//! Calls give what the engine's own give, block no thread of the runtime, and may be dropped.

use esker::{Db, Error, KeyspaceSettings, Settings, TransactionOptions};
use esker_tokio::{AsyncDb, AsyncKeyspace, Scan};
use std::future::Future;
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A database of its own directory.
struct Place {
    db: AsyncDb,
    _dir: tempfile::TempDir,
}

fn place(threads: usize) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Settings::default()).unwrap();
    Place { db: AsyncDb::with_threads(db, threads), _dir: dir }
}

/// Fills `count` keys that have different lengths, in many parts of a scan.
async fn fill(keyspace: &AsyncKeyspace, db: &AsyncDb, count: u32) {
    let mut batch = db.db().batch();
    for number in 0..count {
        batch.put(keyspace.keyspace(), format!("key {number:06}"), vec![7; number as usize % 300]);
    }
    db.write(batch).await.unwrap();
}

async fn keys(mut scan: Scan) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    while let Some(entry) = scan.next().await {
        keys.push(entry.unwrap().0.to_vec());
    }
    keys
}

fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn what_is_written_is_read() {
    let place = place(4);
    let users = place.db.keyspace("users", KeyspaceSettings::default()).await.unwrap();
    users.put("ada", "analyst").await.unwrap();
    users.put("bob", "baker").await.unwrap();
    users.delete("bob").await.unwrap();
    assert_eq!(users.get("ada").await.unwrap().as_deref(), Some(&b"analyst"[..]));
    assert_eq!(users.get("bob").await.unwrap(), None);
    let found = users.multi_get(vec![b"bob".to_vec(), b"ada".to_vec()]).await.unwrap();
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    let keyspace = users.keyspace().clone();
    let written = place.db.transact(move |tx| {
        let before = tx.get_for_update(&keyspace, "ada")?.map_or(0, |value| value.len());
        tx.put(&keyspace, "ada", "author")?;
        Ok(before)
    });
    assert_eq!(written.await.unwrap(), 7);
    let mut tx = place.db.db().transaction().unwrap();
    tx.put(users.keyspace(), "eve", "editor").unwrap();
    place.db.commit(tx).await.unwrap();
    assert_eq!(keys(users.range(..)).await, [b"ada".to_vec(), b"eve".to_vec()]);
    place.db.close().await.unwrap();
}

#[tokio::test]
async fn an_error_of_the_engine_is_the_future_s() {
    let place = place(4);
    let missing = place.db.blocking(|db| db.open_keyspace("missing")).await;
    assert!(matches!(missing, Err(Error::UnknownKeyspace { .. })));
    let other = place.db.default_keyspace();
    let too_long = other.put(vec![0; 1 << 20], "").await;
    assert!(matches!(too_long, Err(Error::KeyTooLong { .. })));
}

#[tokio::test]
async fn a_scan_gives_every_entry_in_either_direction() {
    let place = place(4);
    let keyspace = place.db.default_keyspace();
    assert_eq!(keys(keyspace.range(..)).await, [] as [Vec<u8>; 0]);
    fill(&keyspace, &place.db, 5_000).await;
    let mut expected: Vec<_> = (0..5_000).map(|n| format!("key {n:06}").into_bytes()).collect();
    assert_eq!(keys(keyspace.range(..)).await, expected);
    assert_eq!(keys(keyspace.prefix("key 0012")).await, expected[1_200..1_300]);
    expected.reverse();
    assert_eq!(keys(keyspace.range(..).rev()).await, expected);
}

#[tokio::test]
async fn a_scan_loses_no_entry_if_a_future_of_it_is_dropped() {
    let place = place(4);
    let keyspace = place.db.default_keyspace();
    fill(&keyspace, &place.db, 100).await;
    let mut scan = keyspace.range(..);
    let mut found = 0;
    loop {
        // Dropped, whether it had begun to read or not.
        if let Poll::Ready(entry) = poll_once(scan.next()) {
            let Some(entry) = entry else { break };
            drop(entry.unwrap());
            found += 1;
        }
        tokio::task::yield_now().await;
        match scan.next().await {
            Some(entry) => drop(entry.unwrap()),
            None => break,
        }
        found += 1;
    }
    assert_eq!(found, 100);
}

#[tokio::test]
async fn a_get_from_memory_is_ready_at_its_first_poll() {
    let place = place(4);
    let keyspace = place.db.default_keyspace();
    keyspace.put("k", "v").await.unwrap();
    let Poll::Ready(found) = poll_once(keyspace.get("k")) else { panic!("it waits") };
    assert_eq!(found.unwrap().as_deref(), Some(&b"v"[..]));
}

/// On a runtime of one thread, a call that blocked it would wait for itself.
#[tokio::test(flavor = "current_thread")]
async fn other_tasks_go_on_while_a_call_blocks() {
    let place = place(4);
    let (send, receive) = mpsc::channel::<()>();
    let blocked = tokio::spawn({
        let db = place.db.clone();
        async move { db.blocking(move |_| Ok(receive.recv().is_ok())).await }
    });
    tokio::task::yield_now().await;
    place.db.default_keyspace().put("k", "v").await.unwrap();
    send.send(()).unwrap();
    assert!(blocked.await.unwrap().unwrap());
}

#[tokio::test]
async fn a_write_that_is_dropped_before_its_turn_is_not_done() {
    let place = place(1);
    let keyspace = place.db.default_keyspace();
    let (send, receive) = mpsc::channel::<()>();
    let mut first = Box::pin(place.db.blocking(move |_| Ok(receive.recv().is_ok())));
    assert!(poll_once(first.as_mut()).is_pending());
    {
        let mut dropped = Box::pin(keyspace.put("dropped", "v"));
        assert!(poll_once(dropped.as_mut()).is_pending());
    }
    send.send(()).unwrap();
    assert!(first.await.unwrap());
    keyspace.put("kept", "v").await.unwrap();
    assert_eq!(keys(keyspace.range(..)).await, [b"kept".to_vec()]);
}

/// The call with the only turn waits for a lock that the commit releases.
#[tokio::test]
async fn a_commit_waits_for_no_call_that_waits_for_it() {
    let place = place(1);
    let keyspace = place.db.default_keyspace().keyspace().clone();
    let options = TransactionOptions::default().lock_timeout(Duration::from_secs(60));
    let mut holder = place.db.db().transaction_with(options).unwrap();
    holder.put(&keyspace, "k", "first").unwrap();
    let waits = place.db.blocking(move |db| {
        let mut waiter = db.transaction_with(options)?;
        waiter.put(&keyspace, "k", "second")?;
        waiter.commit()
    });
    let mut waits = Box::pin(waits);
    assert!(poll_once(waits.as_mut()).is_pending());
    place.db.commit(holder).await.unwrap();
    waits.await.unwrap();
    let found = place.db.default_keyspace().get("k").await.unwrap();
    assert_eq!(found.as_deref(), Some(&b"second"[..]));
}

#[tokio::test]
async fn a_panic_in_a_closure_comes_back_and_gives_its_turn_back() {
    let place = place(1);
    let db = place.db.clone();
    let task =
        tokio::spawn(async move { db.blocking(|_| -> esker::Result<()> { panic!("no") }).await });
    assert!(task.await.unwrap_err().is_panic());
    place.db.default_keyspace().put("k", "v").await.unwrap();
}

#[test]
fn futures_are_send_and_handles_are_shared() {
    fn is_send<T: Send>(_: &T) {}
    fn is_shared<T: Clone + Send + Sync>(_: &T) {}
    let place = place(1);
    let keyspace = place.db.default_keyspace();
    is_shared(&place.db);
    is_shared(&keyspace);
    is_send(&keyspace.get("k"));
    is_send(&keyspace.put("k", "v"));
    is_send(&keyspace.range(..));
    is_send(&place.db.sync());
}
