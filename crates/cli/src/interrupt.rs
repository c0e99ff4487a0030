//! Ctrl-C, for commands that have something to finish first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user asked to stop.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on SIGINT and SIGTERM are noted here. A second one ends the program at once.
    pub fn listen() -> std::io::Result<Self> {
        use signal_hook::consts::{SIGINT, SIGTERM};
        let interrupt = Interrupt::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag unset, sets it, and does not shut down.
            let flag = || interrupt.0.clone();
            signal_hook::flag::register_conditional_shutdown(signal, 130, flag())?;
            signal_hook::flag::register(signal, flag())?;
        }
        Ok(interrupt)
    }

    /// Whether it was asked for.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
