//! Work on Node's threads, whose result is a promise.

use crate::{NativeDb, NativeKeyspace, NativeScan, NativeTransaction};
use napi::bindgen_prelude::{AsyncTask, Buffer};
use napi::{Env, Result, Task};
use std::panic::{AssertUnwindSafe, catch_unwind};

type Work<T> = Box<dyn FnOnce() -> esker::Result<T> + Send>;

/// What becomes a promise of `T`.
pub(crate) type Promise<T> = AsyncTask<Job<T>>;

/// Work that is done once.
pub struct Job<T>(Option<Work<T>>);

impl<T: Send + 'static> Job<T>
where
    Job<T>: Task,
{
    pub(crate) fn start(
        work: impl FnOnce() -> esker::Result<T> + Send + 'static,
    ) -> AsyncTask<Self> {
        AsyncTask::new(Job(Some(Box::new(work))))
    }
}

/// Runs `work`. Its panic is an error: on Node's thread it would end the process.
fn caught<T>(work: impl FnOnce() -> esker::Result<T>) -> std::result::Result<T, String> {
    // What the work used is its own, or behind locks that a panic poisons.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let text = text.unwrap_or("without a text");
            Err(format!("the call panicked: {text}; this is a bug of Esker, please report it"))
        }
    }
}

/// Says what a result is in JavaScript.
macro_rules! in_javascript {
    ($($rust:ty => $javascript:ty: $convert:expr;)*) => {$(
        impl Task for Job<$rust> {
            type Output = $rust;
            type JsValue = $javascript;

            fn compute(&mut self) -> Result<$rust> {
                let work = self.0.take().expect("a task runs once");
                caught(work).map_err(napi::Error::from_reason)
            }

            fn resolve(&mut self, _env: Env, output: $rust) -> Result<$javascript> {
                let convert: fn($rust) -> $javascript = $convert;
                Ok(convert(output))
            }
        }
    )*};
}

in_javascript! {
    () => (): |()| ();
    bool => bool: |it| it;
    Option<Vec<u8>> => Option<Buffer>: |it| it.map(Into::into);
    Vec<Vec<u8>> => Vec<Buffer>: |it| it.into_iter().map(Into::into).collect();
    NativeDb => NativeDb: |it| it;
    NativeKeyspace => NativeKeyspace: |it| it;
    NativeScan => NativeScan: |it| it;
    NativeTransaction => NativeTransaction: |it| it;
}
