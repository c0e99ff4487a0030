//! The calls of ptrace that a tracer of system calls needs. Linux on x86-64.
//!
//! All act on threads of this process's own children. None hands the kernel memory but for the
//! registers, which have a place of their own.

use std::io::{Error, Result};
use std::ptr::null_mut;

/// A traced thread's registers.
pub type Registers = libc::user_regs_struct;

/// What a traced thread has reported.
pub enum Event {
    /// It stopped at the entry to, or the exit from, a system call.
    Call,
    /// It stopped at a signal, which is still to be delivered.
    Signal(i32),
    /// It stopped for ptrace itself.
    Stop,
    /// It has ended with this exit code.
    Exited(i32),
    /// A signal has ended it.
    Killed(i32),
}

/// Begins to trace a thread, and those that it starts. They die with the tracer.
pub fn seize(thread: i32) -> Result<()> {
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
    // SAFETY: the request takes numbers only.
    let done = unsafe {
        libc::ptrace(libc::PTRACE_SEIZE, thread, null_mut::<u8>(), options as usize as *mut u8)
    };
    checked(done)
}

/// Stops a thread.
pub fn interrupt(thread: i32) -> Result<()> {
    // SAFETY: the request takes numbers only.
    checked(unsafe {
        libc::ptrace(libc::PTRACE_INTERRUPT, thread, null_mut::<u8>(), null_mut::<u8>())
    })
}

/// Has a stopped thread go on to its next system call, with `signal` delivered unless it is 0.
pub fn go_on(thread: i32, signal: i32) -> Result<()> {
    // SAFETY: the request takes numbers only.
    checked(unsafe {
        libc::ptrace(libc::PTRACE_SYSCALL, thread, null_mut::<u8>(), signal as usize as *mut u8)
    })
}

/// The registers of a stopped thread.
pub fn registers(thread: i32) -> Result<Registers> {
    let mut registers = std::mem::MaybeUninit::<Registers>::uninit();
    // SAFETY: the kernel writes one such struct to where the last argument points.
    let done = unsafe {
        libc::ptrace(libc::PTRACE_GETREGS, thread, null_mut::<u8>(), registers.as_mut_ptr())
    };
    // SAFETY: the call succeeded, so the kernel has filled the struct.
    checked(done).map(|()| unsafe { registers.assume_init() })
}

/// Waits for a child or a traced thread to report something. `None` once there is none left.
pub fn wait() -> Option<(i32, Event)> {
    let mut status = 0;
    loop {
        // SAFETY: `status` lives through the call.
        let thread = unsafe { libc::waitpid(-1, &mut status, libc::__WALL) };
        if thread > 0 {
            return Some((thread, event(status)));
        }
        match Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ECHILD) => return None,
            other => panic!("wait: {other:?}"),
        }
    }
}

fn event(status: i32) -> Event {
    if libc::WIFEXITED(status) {
        Event::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Event::Killed(libc::WTERMSIG(status))
    } else if status >> 16 != 0 {
        Event::Stop
    } else if libc::WSTOPSIG(status) == libc::SIGTRAP | 0x80 {
        Event::Call
    } else {
        Event::Signal(libc::WSTOPSIG(status))
    }
}

fn checked(done: libc::c_long) -> Result<()> {
    if done == -1 { Err(Error::last_os_error()) } else { Ok(()) }
}
