//! Loggers of programs.

use crate::border::callback::start;
use crate::border::{Handle, Text, c_api};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Arc;

/// `INFO_LEVEL` of RocksDB.
const INFO: c_uint = 1;

type Callback = Option<unsafe extern "C" fn(*mut c_void, c_uint, *mut c_char, usize)>;

/// RocksDB's `rocksdb_logger_t`.
pub enum Logger {
    /// Writes to the standard error stream.
    Stderr {
        /// Begins each line.
        prefix: String,
    },
    /// Calls a function of the program.
    Callback {
        /// The function.
        callback: Callback,
        /// Its first argument.
        state: *mut c_void,
        /// Messages of a lower level are left out.
        level: c_int,
    },
}

// SAFETY: `c.h` lets any thread call the function of a logger with its argument.
unsafe impl Send for Logger {}
// SAFETY: as above.
unsafe impl Sync for Logger {}

impl Logger {
    /// Logs a message.
    pub fn log(&self, message: &str) {
        match self {
            Logger::Stderr { prefix } => eprintln!("{prefix}{message}"),
            Logger::Callback { callback, state, level } => {
                if let Some(callback) = callback
                    && *level <= INFO as c_int
                {
                    let text = start(message.as_bytes()).cast_mut();
                    // SAFETY: the arguments are those of `c.h`, and live during the call.
                    unsafe { callback(*state, INFO, text, message.len()) };
                }
            }
        }
    }
}

c_api! {
    fn rocksdb_logger_create_stderr_logger(_level: c_int, prefix: Text) -> Handle<Arc<Logger>> {
        let prefix = prefix.optional().ok().flatten().unwrap_or_default().to_owned();
        Handle::new(Arc::new(Logger::Stderr { prefix }))
    }

    fn rocksdb_logger_create_callback_logger(
        level: c_int,
        callback: Callback,
        state: *mut c_void,
    ) -> Handle<Arc<Logger>> {
        Handle::new(Arc::new(Logger::Callback { callback, state, level }))
    }

    fn rocksdb_logger_destroy(logger: Handle<Arc<Logger>>) {
        drop(logger.take());
    }
}
