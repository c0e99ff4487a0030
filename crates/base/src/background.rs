//! Threads as a value that is passed in.

use crate::{Error, Result};
use std::sync::Arc;

/// What a background thread runs.
pub type Body = Box<dyn FnOnce() + Send + 'static>;

/// A started thread, to wait for.
pub trait Running: Send {
    /// Waits until the body has returned. Says whether it returned rather than panicked.
    fn join(self: Box<Self>) -> bool;
}

/// Where an engine gets its background threads from.
pub trait Background: Send + Sync + 'static {
    /// Starts a thread called `name` that runs `body`, or returns `None` if this background has no
    /// threads: then whoever owns the engine steps its work by hand, as the simulator does.
    fn spawn(&self, name: &str, body: Body) -> Result<Option<Box<dyn Running>>>;
}

/// Operating-system threads.
#[derive(Debug, Default, Clone, Copy)]
pub struct Threads;

impl Background for Threads {
    #[expect(clippy::disallowed_methods, reason = "this is where ambient threads enter")]
    fn spawn(&self, name: &str, body: Body) -> Result<Option<Box<dyn Running>>> {
        struct Thread(std::thread::JoinHandle<()>);
        impl Running for Thread {
            fn join(self: Box<Self>) -> bool {
                self.0.join().is_ok()
            }
        }
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

/// No threads: all background work is stepped by the engine's owner.
#[derive(Debug, Default, Clone, Copy)]
pub struct Stepped;

impl Background for Stepped {
    fn spawn(&self, _name: &str, _body: Body) -> Result<Option<Box<dyn Running>>> {
        Ok(None)
    }
}
