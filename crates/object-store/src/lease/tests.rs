use super::*;
use esker::env::SystemClock;
use object_store::memory::InMemory;

const BRIEF: Times =
    Times { renewed_every: Duration::from_millis(5), stale_after: Duration::from_secs(3600) };

fn lock(store: &Arc<dyn ObjectStore>, times: Times) -> Lock {
    let location = Path::from("repository/LOCK");
    // Processes in containers may well describe themselves alike.
    let lock = Lock::new(store.clone(), location, "7 on ada".to_owned());
    Lock { times, ..lock }
}

fn take(store: &Arc<dyn ObjectStore>, times: Times, lease: &Lease) -> Result<Held> {
    let calls = Arc::new(Calls::new()?);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    super::take(&calls, lock(store, times), lease, &clock, "memory")
}

#[test]
fn one_holder_has_the_lock_and_gives_it_back() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let held = take(&store, Times::default(), &Lease::default()).unwrap();
    match take(&store, Times::default(), &Lease::default()) {
        Err(Error::Locked { dir, pid }) => {
            assert_eq!((&dir[..], &pid[..]), ("memory", "7 on ada"));
        }
        _ => panic!("two have the lock"),
    }
    drop(held);
    drop(take(&store, Times::default(), &Lease::default()).unwrap());
}

#[test]
fn a_lock_that_was_not_renewed_for_long_is_taken_over() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let dead = take(&store, Times::default(), &Lease::default()).unwrap();
    let at_once = Times { stale_after: Duration::ZERO, ..Times::default() };
    drop(take(&store, at_once, &Lease::default()).unwrap());
    drop(dead);
}

#[test]
fn a_holder_whose_lock_was_taken_writes_nothing_any_more() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let lease = Lease::default();
    let held = take(&store, BRIEF, &lease).unwrap();
    lease.term().expect_held().unwrap();
    let other = lock(&store, BRIEF);
    Calls::new().unwrap().wait(async move { other.put(PutMode::Overwrite).await }).unwrap();
    while lease.term().expect_held().is_ok() {
        std::thread::yield_now();
    }
    drop(held);
    // The lock is the other's: it is still there.
    assert!(matches!(take(&store, Times::default(), &Lease::default()), Err(Error::Locked { .. })));
}

fn content(store: &Arc<dyn ObjectStore>) -> String {
    let lock = lock(store, BRIEF);
    let found = Calls::new().unwrap().wait(async move { lock.find().await });
    found.unwrap().unwrap().content
}

/// A store that makes ETags of contents, as S3 does, distinguishes holders and renewals by them.
#[test]
fn each_writing_of_the_lock_has_a_content_of_its_own() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let mut seen = std::collections::HashSet::new();
    for _ in 0..3 {
        let held = take(&store, BRIEF, &Lease::default()).unwrap();
        for _ in 0..3 {
            let first = content(&store);
            assert!(seen.insert(first.clone()), "{first}");
            assert!(first.starts_with("7 on ada\n"), "{first}");
            while content(&store) == first {
                std::thread::yield_now();
            }
        }
        seen.insert(content(&store));
        drop(held);
    }
}

#[test]
fn a_holder_goes_on_after_the_answer_to_a_renewal_was_lost() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let own = lock(&store, BRIEF);
    Calls::new().unwrap().wait(async move {
        let first = own.put(PutMode::Create).await.unwrap();
        // Its answer does not arrive, so the holder knows the first version only.
        own.put(PutMode::Overwrite).await.unwrap();
        let renewed = own.renew(&first).await.unwrap();
        own.renew(&renewed).await.unwrap();
        let other = lock(&own.store, BRIEF);
        other.put(PutMode::Overwrite).await.unwrap();
        own.renew(&renewed).await.unwrap_err();
        let clock = SystemClock::new();
        assert!(matches!(own.take(&clock).await, Err(Refusal::Held(_))));
        assert!(other.take(&clock).await.is_ok(), "the answer to its first write was lost");
    });
}

/// Clocks that a test sets: the monotonic one and the calendar, in seconds.
#[derive(Default)]
struct Set(AtomicU64, AtomicU64);

impl Clock for Set {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }

    fn calendar(&self) -> Duration {
        Duration::from_secs(self.1.load(Ordering::Relaxed))
    }

    fn sleep(&self, _: Duration) {}
}

#[test]
fn a_holder_whose_lease_ran_out_writes_nothing_before_its_task_notices() {
    for by_calendar in [false, true] {
        let clock = Arc::new(Set::default());
        let term = Term::new(clock.clone(), Times::default(), both(&*clock));
        let moved = if by_calendar { &clock.1 } else { &clock.0 };
        moved.store(149, Ordering::Relaxed);
        term.expect_held().unwrap();
        moved.store(150, Ordering::Relaxed);
        term.expect_held().unwrap_err();
        // A calendar that is set back does not give it back.
        moved.store(0, Ordering::Relaxed);
        term.expect_held().unwrap_err();
    }
}

#[test]
fn a_lease_that_was_lost_stays_lost_after_a_new_lock() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let lease = Lease::default();
    let held = take(&store, BRIEF, &lease).unwrap();
    let first = lease.term();
    let other = lock(&store, BRIEF);
    Calls::new().unwrap().wait(async move { other.put(PutMode::Overwrite).await }).unwrap();
    while first.expect_held().is_ok() {
        std::thread::yield_now();
    }
    drop(held);
    Calls::new().unwrap().wait({
        let store = store.clone();
        async move { store.delete(&Path::from("repository/LOCK")).await.unwrap() }
    });
    let _held = take(&store, BRIEF, &lease).unwrap();
    lease.term().expect_held().unwrap();
    first.expect_held().unwrap_err();
}
