//! Runs what may block, on few threads.

use esker::{Error, Result};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Calls that may block at a time, if the program does not say otherwise. Writers that wait for one sync
/// of the log together share it, so some more than there are processors pay off.
pub const DEFAULT_THREADS: usize = 16;

/// Tokio's pool of blocking threads, of which so many at a time serve a database.
#[derive(Clone, Debug)]
pub(crate) struct Blocking {
    turns: Arc<Semaphore>,
}

impl Blocking {
    pub(crate) fn new(threads: usize) -> Self {
        Blocking { turns: Arc::new(Semaphore::new(threads.max(1))) }
    }

    /// Runs `work` where it may block. If the future is dropped before its turn, `work` does not run.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let turn = self.turns.clone().acquire_owned().await.expect("it is never closed");
        run_at_once(move || {
            let _turn = turn;
            work()
        })
        .await
    }
}

/// Runs `work` where it may block, without a turn: for calls that others with a turn may wait for.
pub(crate) async fn run_at_once<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime shuts down, and no longer starts what waits for a thread.
        Err(_) => Err(Error::Cancelled { what: "call" }),
    }
}
