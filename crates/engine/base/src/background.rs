//! Threads as a value that is passed in.

use crate::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a background thread runs.
pub type Body = Box<dyn FnOnce() + Send + 'static>;

/// How a thread fares when there is more to do than processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Priority {
    /// As all threads.
    Normal,
    /// Behind those who wait for answers: about a tenth of a processor next to a busy thread of normal
    /// priority, and all of it otherwise.
    Low,
}

/// A started thread, to wait for.
pub trait Running: Send {
    /// Waits until the body has returned. Says whether it returned rather than panicked.
    fn join(self: Box<Self>) -> bool;

    /// Whether the body has returned, as far as that is known without a wait.
    fn is_over(&self) -> bool {
        false
    }
}

/// Where an engine gets its background threads from.
pub trait Background: Send + Sync + 'static {
    /// Starts a thread called `name` that runs `body`, or returns `None` if this background has no
    /// threads: then the owner of the engine steps its work by hand, as the simulator does.
    fn spawn(&self, name: &str, priority: Priority, body: Body)
    -> Result<Option<Box<dyn Running>>>;
}

/// Operating-system threads.
#[derive(Debug, Default, Clone, Copy)]
pub struct Threads;

impl Background for Threads {
    #[expect(clippy::disallowed_methods, reason = "this is where ambient threads enter")]
    fn spawn(
        &self,
        name: &str,
        priority: Priority,
        body: Body,
    ) -> Result<Option<Box<dyn Running>>> {
        struct Thread(std::thread::JoinHandle<()>);
        impl Running for Thread {
            fn join(self: Box<Self>) -> bool {
                self.0.join().is_ok()
            }
            fn is_over(&self) -> bool {
                self.0.is_finished()
            }
        }
        let body = move || {
            if priority == Priority::Low {
                lower_priority();
            }
            body();
        };
        let thread =
            std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(|source| {
                Error::Io {
                    action: "start a thread",
                    path: name.to_owned(),
                    source: Arc::new(source),
                }
            })?;
        Ok(Some(Box::new(Thread(thread))))
    }
}

/// Operating-system threads, of which those whose name has a prefix are counted. For tests.
#[doc(hidden)]
#[derive(Debug)]
pub struct CountedThreads {
    prefix: &'static str,
    started: AtomicUsize,
}

impl CountedThreads {
    /// Returns an executor that counts the threads whose name begins with `prefix`.
    pub fn new(prefix: &'static str) -> Self {
        CountedThreads { prefix, started: AtomicUsize::new(0) }
    }

    /// Returns how many were started so far.
    pub fn started(&self) -> usize {
        self.started.load(Ordering::Relaxed)
    }
}

impl Background for CountedThreads {
    fn spawn(
        &self,
        name: &str,
        priority: Priority,
        body: Body,
    ) -> Result<Option<Box<dyn Running>>> {
        self.started.fetch_add(usize::from(name.starts_with(self.prefix)), Ordering::Relaxed);
        Threads.spawn(name, priority, body)
    }
}

/// No threads: all background work is stepped by the engine's owner.
#[derive(Debug, Default, Clone, Copy)]
pub struct Stepped;

impl Background for Stepped {
    fn spawn(
        &self,
        _name: &str,
        _priority: Priority,
        _body: Body,
    ) -> Result<Option<Box<dyn Running>>> {
        Ok(None)
    }
}

/// Lowers the calling thread's priority. Where that is not allowed, it stays as it is.
#[cfg(target_os = "linux")]
fn lower_priority() {
    // On Linux a thread has a niceness of its own, and "no process" means the calling thread.
    let process = rustix::process::getpriority_process(None).unwrap_or(0);
    let niceness = (process + LOWER_NICENESS).min(19);
    let _ = rustix::process::setpriority_process(None, niceness);
}

#[cfg(not(target_os = "linux"))]
fn lower_priority() {}

/// Each step of niceness is a factor of about 1.25 in processor time.
#[cfg(target_os = "linux")]
const LOWER_NICENESS: i32 = 10;
