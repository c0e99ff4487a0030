//! Waits for the asynchronous calls of an object store.

use esker::{Error, Result};
use std::io;
use std::sync::mpsc;
use tokio::runtime::{Builder, Runtime};

/// A runtime for the calls of one storage.
///
/// A call is run by the runtime's own thread, and the caller waits on a channel. So it may be called from
/// a thread of another runtime, too, which waits like at any other blocking call.
pub(crate) struct Calls {
    /// `None` only while this is dropped.
    runtime: Option<Runtime>,
}

impl Calls {
    pub fn new() -> Result<Calls> {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("esker-objects").enable_all().build();
        let runtime = runtime.map_err(|error| Error::io("start threads for", "objects", error))?;
        Ok(Calls { runtime: Some(runtime) })
    }

    /// Runs `call` to its end.
    pub fn wait<T: Send + 'static>(&self, call: impl Future<Output = T> + Send + 'static) -> T {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.start(async move {
            // The receiver waits for it.
            let _ = sender.send(call.await);
        });
        receiver.recv().expect("the runtime runs every call to its end, unless the call panicked")
    }

    /// Runs `call`, and does not wait for it.
    pub fn start(&self, call: impl Future<Output = ()> + Send + 'static) {
        self.runtime.as_ref().expect("it is there until it is dropped").spawn(call);
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        // An ordinary drop waits for threads, which another runtime forbids.
        self.runtime.take().expect("it is dropped once").shutdown_background();
    }
}

/// The error of a call that did `action` to the object `path`.
pub(crate) fn failed(action: &'static str, path: String, error: object_store::Error) -> Error {
    use object_store::Error as Store;
    let kind = match &error {
        Store::NotFound { .. } => io::ErrorKind::NotFound,
        Store::AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => {
            io::ErrorKind::PermissionDenied
        }
        Store::NotSupported { .. } | Store::NotImplemented { .. } => io::ErrorKind::Unsupported,
        _ => io::ErrorKind::Other,
    };
    Error::io(action, path, io::Error::new(kind, error))
}
