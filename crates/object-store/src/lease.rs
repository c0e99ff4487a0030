//! The lock of a repository: an object that its holder renews.
//!
//! An object store does not notice when a process dies. So the lock is a lease:
//!
//! ```text
//! take    write LOCK if there is none ─► held
//!         there is one, renewed within `STALE_AFTER` ─► Error::Locked
//!         there is an older one ─► replace it, if it is still the same
//! held    every `RENEWED_EVERY`: replace LOCK, if it is still ours; otherwise the lease is lost
//! drop    remove LOCK
//! ```
//!
//! A holder that lost its lease, or could not renew it for half of `STALE_AFTER`, writes nothing any more.
//! The times compare the store's clock with that of this machine, which may differ by a minute or two.

use crate::calls::{Calls, failed};
use esker::env::Clock;
use esker::{Error, Result};
use object_store::path::Path;
use object_store::{
    Error as StoreError, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutResult, UpdateVersion,
};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How often the holder renews its lease.
const RENEWED_EVERY: Duration = Duration::from_secs(30);

/// After this time without a renewal the holder is taken for dead.
const STALE_AFTER: Duration = Duration::from_secs(300);

/// Whether the lease of a storage was lost while it was held.
#[derive(Clone, Default)]
pub(crate) struct Lease {
    is_lost: Arc<AtomicBool>,
}

impl Lease {
    /// Fails if another process may write to the repository.
    pub fn expect_held(&self) -> Result<()> {
        if !self.is_lost.load(Ordering::Acquire) {
            return Ok(());
        }
        let why = "the lock of the repository was lost: it could not be renewed, or another process \
                   took it; start again";
        Err(Error::io("write to", "the object store", io::Error::other(why)))
    }
}

/// The object with the lock, and how its holder describes itself.
pub(crate) struct Lock {
    pub store: Arc<dyn ObjectStore>,
    pub location: Path,
    pub holder: String,
    pub times: Times,
}

#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub renewed_every: Duration,
    pub stale_after: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Times { renewed_every: RENEWED_EVERY, stale_after: STALE_AFTER }
    }
}

/// Releases the lock when it is dropped.
pub(crate) struct Held {
    calls: Arc<Calls>,
    /// `None` only while this is dropped.
    release: Option<oneshot::Sender<()>>,
    released: Option<oneshot::Receiver<()>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.release.take());
        if let Some(released) = self.released.take() {
            let _ = self.calls.wait(released);
        }
    }
}

/// Takes the lock of the storage `place`.
pub(crate) fn take(
    calls: &Arc<Calls>,
    lock: Lock,
    lease: &Lease,
    clock: &Arc<dyn Clock>,
    place: &str,
) -> Result<Held> {
    let lock = Arc::new(lock);
    let now = Duration::from_millis(clock.calendar().as_millis() as u64);
    let taking = lock.clone();
    let taken = calls.wait(async move { taking.take(now).await });
    let version = match taken {
        Ok(version) => version,
        Err(Refusal::Held(pid)) => return Err(Error::Locked { dir: place.to_owned(), pid }),
        Err(Refusal::Failed(error)) => {
            return Err(failed("take the lock", lock.location.to_string(), error));
        }
    };
    lease.is_lost.store(false, Ordering::Release);
    let (release, stop) = oneshot::channel();
    let (done, released) = oneshot::channel();
    let (lease, clock) = (lease.clone(), clock.clone());
    calls.start(async move {
        lock.keep(version, lease, &*clock, stop).await;
        drop(done);
    });
    Ok(Held { calls: calls.clone(), release: Some(release), released: Some(released) })
}

enum Refusal {
    /// Who holds it.
    Held(String),
    Failed(StoreError),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Refusal::Failed(error)
    }
}

impl Lock {
    async fn put(&self, mode: PutMode) -> object_store::Result<UpdateVersion> {
        let options = PutOptions::from(mode);
        let put = self.store.put_opts(&self.location, self.holder.clone().into(), options).await;
        put.map(|PutResult { e_tag, version, .. }| UpdateVersion { e_tag, version })
    }

    /// Replaces the lock if it is still of this version. A store that cannot compare versions, such as a
    /// directory, replaces whatever is there.
    async fn replace(&self, version: &UpdateVersion) -> object_store::Result<UpdateVersion> {
        match self.put(PutMode::Update(version.clone())).await {
            Err(StoreError::NotImplemented { .. }) => self.put(PutMode::Overwrite).await,
            replaced => replaced,
        }
    }

    async fn take(&self, now: Duration) -> Result<UpdateVersion, Refusal> {
        // Twice: a lock that is found may be released before it is read.
        for _ in 0..2 {
            match self.put(PutMode::Create).await {
                Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => {}
                put => return Ok(put?),
            }
            let found = match self.store.get(&self.location).await {
                Err(StoreError::NotFound { .. }) => continue,
                found => found?,
            };
            let renewed = Duration::from_millis(found.meta.last_modified.timestamp_millis() as u64);
            let version = UpdateVersion {
                e_tag: found.meta.e_tag.clone(),
                version: found.meta.version.clone(),
            };
            let holder = String::from_utf8_lossy(&found.bytes().await?).trim().to_owned();
            if now.saturating_sub(renewed) < self.times.stale_after {
                return Err(Refusal::Held(holder));
            }
            return match self.replace(&version).await {
                Err(StoreError::Precondition { .. } | StoreError::AlreadyExists { .. }) => {
                    Err(Refusal::Held(holder))
                }
                replaced => Ok(replaced?),
            };
        }
        Err(Refusal::Held("unknown".to_owned()))
    }

    /// Renews the lock until `stop` is dropped, then removes it.
    async fn keep(
        &self,
        mut version: UpdateVersion,
        lease: Lease,
        clock: &dyn Clock,
        mut stop: oneshot::Receiver<()>,
    ) {
        let mut renewed = clock.now();
        loop {
            let stops = timeout(self.times.renewed_every, &mut stop).await.is_ok();
            match self.replace(&version).await {
                Ok(_) if stops => {
                    // It was ours a moment ago. The store cannot compare and remove at once.
                    let _ = self.store.delete(&self.location).await;
                    return;
                }
                Ok(newer) => (version, renewed) = (newer, clock.now()),
                Err(StoreError::Precondition { .. } | StoreError::NotFound { .. }) => {
                    lease.is_lost.store(true, Ordering::Release);
                    return;
                }
                Err(_) if clock.now().saturating_sub(renewed) >= self.times.stale_after / 2 => {
                    lease.is_lost.store(true, Ordering::Release);
                    return;
                }
                // The lock becomes stale.
                Err(_) if stops => return,
                // The next time may find the store again.
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::env::SystemClock;
    use object_store::memory::InMemory;

    const BRIEF: Times =
        Times { renewed_every: Duration::from_millis(5), stale_after: Duration::from_secs(3600) };

    fn lock(store: &Arc<dyn ObjectStore>, times: Times) -> Lock {
        let (store, location) = (store.clone(), Path::from("repository/LOCK"));
        Lock { store, location, holder: "7 on ada".to_owned(), times }
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
        lease.expect_held().unwrap();
        let other = lock(&store, BRIEF);
        Calls::new().unwrap().wait(async move { other.put(PutMode::Overwrite).await }).unwrap();
        while lease.expect_held().is_ok() {
            std::thread::yield_now();
        }
        drop(held);
        // The lock is the other's: it is still there.
        assert!(matches!(
            take(&store, Times::default(), &Lease::default()),
            Err(Error::Locked { .. })
        ));
    }
}
