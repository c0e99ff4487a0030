//! Ctrl-C, and a terminal that is closed, for commands that have something to finish first.

use esker_base::{Background, Priority, Threads};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The interrupt of a shell, which all commands of its lines share.
static SHELL: OnceLock<Interrupt> = OnceLock::new();

/// Whether the user asked to stop.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on SIGINT, SIGTERM and SIGHUP are noted here. A second one of the first two ends the
    /// program at once; a terminal that goes may send several of the third. If that is ignored, as
    /// under `nohup`, it stays so.
    ///
    /// In a shell, this is the interrupt of [`Interrupt::listen_in_shell`].
    pub fn listen() -> std::io::Result<Self> {
        if let Some(shell) = SHELL.get() {
            return Ok(shell.clone());
        }
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let interrupt = Interrupt::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag unset, sets it, and does not shut down.
            let flag = || interrupt.0.clone();
            signal_hook::flag::register_conditional_shutdown(signal, 130, flag())?;
            signal_hook::flag::register(signal, flag())?;
        }
        if !is_ignored(SIGHUP) {
            signal_hook::flag::register(SIGHUP, Arc::clone(&interrupt.0))?;
        }
        Ok(interrupt)
    }

    /// From now on the end of the terminal ends the program at once, after `last`, for a command that has nothing to
    /// finish. The library that reads keys may never return once there are none.
    pub fn end_with_terminal(last: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        use signal_hook::consts::SIGHUP;
        if is_ignored(SIGHUP) {
            return Ok(());
        }
        let (mut signals, handler) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(SIGHUP, handler)?;
        let body = Box::new(move || {
            let _ = signals.read(&mut [0]);
            last();
            exit(128 + SIGHUP);
        });
        // Never joined: it ends with the process.
        drop(Threads.spawn("esker-hangup", Priority::Normal, body).map_err(std::io::Error::other)?);
        Ok(())
    }

    /// From now on SIGINT stops the command that runs, and never the program.
    pub fn listen_in_shell() -> std::io::Result<Self> {
        let interrupt = SHELL.get_or_init(Interrupt::default).clone();
        signal_hook::flag::register(signal_hook::consts::SIGINT, interrupt.0.clone())?;
        Ok(interrupt)
    }

    /// Whether the command that runs in a shell is to stop.
    pub fn stops_line() -> bool {
        SHELL.get().is_some_and(Interrupt::is_set)
    }

    /// Forgets an interrupt before the next command of a shell.
    pub fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Acts as if the user had asked, for tests.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked for.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether the process was started with `signal` ignored, where the system reports it.
fn is_ignored(signal: i32) -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores(&status, signal))
}

/// The line `SigIgn` has a bit for each signal, in hexadecimal digits.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert!(ignores(status, 1) && !ignores(status, 2) && ignores(status, 13));
        assert!(!ignores("SigIgn:\tno mask\n", 1) && !ignores("", 1));
    }
}
