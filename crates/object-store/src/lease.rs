//! The lock of a repository: an object that its holder renews.
//!
//! An object store does not notice when a process dies. So the lock is a lease:
//!
//! ```text
//! take    write LOCK if there is none ─► held
//!         there is one, written within `STALE_AFTER` ─► Error::Locked
//!         there is an older one ─► watch it for half of `STALE_AFTER`
//!             it changed ─► Error::Locked
//!             it did not ─► replace it, if it is still the same ─► held
//! held    every `RENEWED_EVERY`: replace LOCK, if it is still ours; otherwise the lease is lost
//! drop    remove LOCK
//! ```
//!
//! A holder that lost its lease writes nothing any more. Neither does one whose last renewal began half of
//! `STALE_AFTER` ago, by the monotonic or the calendar clock: the latter goes on while a machine sleeps.
//! So a lock that did not change while it was watched has no holder that writes, whatever the clocks of
//! two machines say.
//!
//! Each writing of the lock has a content of its own: a random token of the holder and a count. Stores that
//! make the ETag of the content, as S3 does, could not distinguish two holders otherwise. It also shows a
//! holder that the lock is its own if the answer to a write was lost.

use crate::calls::{Calls, failed};
use esker::env::{Clock, seed_from_os};
use esker::{Error, Result};
use object_store::path::Path;
use object_store::{
    Error as StoreError, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutResult, UpdateVersion,
};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// How often the holder renews its lease.
const RENEWED_EVERY: Duration = Duration::from_secs(30);

/// After this time without a renewal the holder is taken for dead.
const STALE_AFTER: Duration = Duration::from_secs(300);

/// How long the end of a lock waits for the store. Without an answer the lock becomes stale.
const RELEASE_TIME: Duration = Duration::from_secs(10);

/// The leases of a storage: each lock begins a new one.
#[derive(Default)]
pub(crate) struct Lease {
    current: Mutex<Term>,
}

impl Lease {
    /// The lease of the last lock that was taken.
    pub fn term(&self) -> Term {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn begin(&self, term: Term) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = term;
    }
}

/// One lease, which ends permanently. Without a lock it does not end.
#[derive(Clone, Default)]
pub(crate) struct Term {
    held: Option<Arc<Holding>>,
}

struct Holding {
    clock: Arc<dyn Clock>,
    good_for: Duration,
    /// When the last renewal began, by both clocks.
    renewed: Mutex<(Duration, Duration)>,
    is_lost: AtomicBool,
    is_released: AtomicBool,
}

impl Term {
    fn new(clock: Arc<dyn Clock>, times: Times, began: (Duration, Duration)) -> Term {
        let (is_lost, is_released) = (AtomicBool::new(false), AtomicBool::new(false));
        let (good_for, renewed) = (times.stale_after / 2, Mutex::new(began));
        Term { held: Some(Arc::new(Holding { clock, good_for, renewed, is_lost, is_released })) }
    }

    /// Fails if another process may write to the repository.
    pub fn expect_held(&self) -> Result<()> {
        match &self.held {
            Some(held) if !held.is_held() => {
                let why = "the lock of the repository was lost: it could not be renewed, or another \
                           process took it; start again";
                Err(Error::io("write to", "the object store", io::Error::other(why)))
            }
            _ => Ok(()),
        }
    }
}

fn both(clock: &dyn Clock) -> (Duration, Duration) {
    (clock.now(), clock.calendar())
}

impl Holding {
    fn is_held(&self) -> bool {
        if !self.is_released.load(Ordering::Acquire) && self.left().is_zero() {
            self.is_lost.store(true, Ordering::Release);
        }
        !self.is_lost.load(Ordering::Acquire)
    }

    /// How long the lease still is good.
    fn left(&self) -> Duration {
        let (now, calendar) = both(&*self.clock);
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_sub(renewed.0).max(calendar.saturating_sub(renewed.1));
        self.good_for.saturating_sub(passed)
    }

    fn renewed(&self, began: (Duration, Duration)) {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = began;
    }
}

/// The object with the lock, and how its holder describes itself.
pub(crate) struct Lock {
    pub store: Arc<dyn ObjectStore>,
    pub location: Path,
    pub holder: String,
    /// Random: no other lock has it.
    pub token: String,
    /// How often the lock was written.
    pub writes: AtomicU64,
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
            let _ = self.calls.wait(async move { timeout(RELEASE_TIME, released).await });
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
    let (taking, clock_of_take) = (lock.clone(), clock.clone());
    let taken = calls.wait(async move { taking.take(&*clock_of_take).await });
    let (version, began) = match taken {
        Ok(taken) => taken,
        Err(Refusal::Held(pid)) => return Err(Error::Locked { dir: place.to_owned(), pid }),
        Err(Refusal::Failed(error)) => {
            return Err(failed("take the lock", lock.location.to_string(), error));
        }
    };
    let term = Term::new(clock.clone(), lock.times, began);
    let held = term.held.clone().expect("it was made with a lock");
    lease.begin(term);
    let (release, stop) = oneshot::channel();
    let (done, released) = oneshot::channel();
    calls.start(async move {
        lock.keep(version, &held, stop).await;
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

/// A lock that is there.
struct Found {
    version: UpdateVersion,
    content: String,
    written: Duration,
}

impl Found {
    /// How its holder describes itself.
    fn holder(&self) -> String {
        self.content.lines().next().unwrap_or("unknown").to_owned()
    }
}

impl Lock {
    /// Makes the lock of a holder with a new token.
    pub fn new(store: Arc<dyn ObjectStore>, location: Path, holder: String) -> Lock {
        let token = format!("{:016x}{:016x}", seed_from_os(), seed_from_os());
        let (writes, times) = (AtomicU64::new(0), Times::default());
        Lock { store, location, holder, token, writes, times }
    }

    async fn put(&self, mode: PutMode) -> object_store::Result<UpdateVersion> {
        let count = self.writes.fetch_add(1, Ordering::Relaxed);
        let content = format!("{}\n{} {count}\n", self.holder, self.token);
        let put = self.store.put_opts(&self.location, content.into(), PutOptions::from(mode)).await;
        put.map(|PutResult { e_tag, version, .. }| UpdateVersion { e_tag, version })
    }

    /// The lock that is there, or `None`.
    async fn find(&self) -> object_store::Result<Option<Found>> {
        let found = match self.store.get(&self.location).await {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            found => found?,
        };
        let version =
            UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        let written = Duration::from_millis(found.meta.last_modified.timestamp_millis() as u64);
        let content = String::from_utf8_lossy(&found.bytes().await?).into_owned();
        Ok(Some(Found { version, content, written }))
    }

    /// The version of the lock if this holder has written it.
    async fn own(&self) -> object_store::Result<Option<UpdateVersion>> {
        let found = self.find().await?;
        Ok(found.filter(|found| found.content.contains(&self.token)).map(|found| found.version))
    }

    /// Replaces the lock if it is still of this version. A store that cannot compare versions, such as a
    /// directory, replaces whatever is there.
    async fn replace(&self, version: &UpdateVersion) -> object_store::Result<UpdateVersion> {
        match self.put(PutMode::Update(version.clone())).await {
            Err(StoreError::NotImplemented { .. }) => self.put(PutMode::Overwrite).await,
            replaced => replaced,
        }
    }

    /// Replaces the lock if it is ours, also if its version is of a write whose answer was lost.
    async fn renew(&self, version: &UpdateVersion) -> object_store::Result<UpdateVersion> {
        match self.replace(version).await {
            Err(refused @ (StoreError::Precondition { .. } | StoreError::AlreadyExists { .. })) => {
                match self.own().await? {
                    Some(version) => self.replace(&version).await,
                    None => Err(refused),
                }
            }
            replaced => replaced,
        }
    }

    /// Returns the version of the lock, and when the write of it began.
    async fn take(
        &self,
        clock: &dyn Clock,
    ) -> Result<(UpdateVersion, (Duration, Duration)), Refusal> {
        // Twice: a lock that is found may be released before it is read.
        for _ in 0..2 {
            let began = both(clock);
            match self.put(PutMode::Create).await {
                Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => {}
                put => {
                    let version = put?;
                    self.expect_conditions().await?;
                    return Ok((version, began));
                }
            }
            let Some(found) = self.find().await? else { continue };
            if found.content.contains(&self.token) {
                // It was written, and the answer was lost.
                return Ok((found.version, began));
            }
            if clock.calendar().saturating_sub(found.written) < self.times.stale_after {
                return Err(Refusal::Held(found.holder()));
            }
            sleep(self.times.stale_after / 2).await;
            let Some(later) = self.find().await? else { continue };
            if later.content != found.content {
                return Err(Refusal::Held(later.holder()));
            }
            let began = both(clock);
            return match self.replace(&later.version).await {
                Err(StoreError::Precondition { .. } | StoreError::AlreadyExists { .. }) => {
                    match self.own().await? {
                        Some(version) => Ok((version, began)),
                        None => Err(Refusal::Held(later.holder())),
                    }
                }
                replaced => Ok((replaced?, began)),
            };
        }
        Err(Refusal::Held("unknown".to_owned()))
    }

    /// Fails if the store overwrites an object although it was asked not to.
    async fn expect_conditions(&self) -> object_store::Result<()> {
        match self.put(PutMode::Create).await {
            Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => {
                let _ = self.store.delete(&self.location).await;
                let why = "the store ignores `If-None-Match`, so a lock in it would not exclude other holders";
                Err(StoreError::NotSupported { source: why.into() })
            }
        }
    }

    /// Renews the lock until `stop` is dropped, then removes it.
    async fn keep(
        &self,
        mut version: UpdateVersion,
        held: &Holding,
        mut stop: oneshot::Receiver<()>,
    ) {
        loop {
            let stops = timeout(self.times.renewed_every, &mut stop).await.is_ok();
            if stops {
                // Its own end is no loss.
                held.is_released.store(true, Ordering::Release);
            }
            let began = both(&*held.clock);
            // The store's client tries for minutes: longer than the lease may be good.
            match timeout(held.left(), self.renew(&version)).await {
                Ok(Ok(_)) if stops => {
                    // It was ours a moment ago. The store cannot compare and remove at once.
                    let _ = self.store.delete(&self.location).await;
                    return;
                }
                Ok(Ok(newer)) => {
                    version = newer;
                    held.renewed(began);
                }
                Ok(Err(StoreError::Precondition { .. } | StoreError::NotFound { .. })) => {
                    held.is_lost.store(true, Ordering::Release);
                    return;
                }
                // The lock becomes stale.
                _ if stops => return,
                _ if held.left().is_zero() => {
                    held.is_lost.store(true, Ordering::Release);
                    return;
                }
                // The next time may find the store again.
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
