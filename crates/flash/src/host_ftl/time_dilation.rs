//! Makes the model's time follow a clock.
//!
//! Time advances whenever a thread checks it: by the elapsed clock time divided by the dilation.
//! Events due by then are executed. After a thread was answered, time advances at most [`LATE_NS`]
//! until it returns with its next request. The model therefore never runs ahead of a machine with
//! too few processors, and computation between requests takes at most that long. A thread that does
//! not return within [`AWAY`] is assumed to wait for something else.
//!
//! Clock time that passes meanwhile is made up for, up to [`OWED_NS`]; the excess is dropped. While
//! some remains, a thread that starts to wait executes the due events, and hands over to the thread
//! they answer. A thread that only polled would be late each time on a busy machine, and every step
//! of [`LATE_NS`] would take as long as its delay.

use super::Shared;
use super::state::State;
use esker_base::{Background, Clock};
use std::sync::Arc;
use std::time::Duration;

/// How far the model's time goes on while a thread that was answered is away: about a tenth of what a read takes.
const LATE_NS: u64 = 10_000;

/// For how long that holds on the clock: longer than a thread waits for a processor among a hundred others.
const AWAY: Duration = Duration::from_millis(100);

/// What is made up for at the most, in the model's time: more than a machine that others use keeps threads from it.
const OWED_NS: u64 = 20_000_000;

/// How often it is looked, on the clock, whether something is due. An operating system adds about as much.
const LOOK: Duration = Duration::from_micros(50);
/// The same while time must be made up for: then the waiting threads poll.
const LOOK_BEHIND: Duration = Duration::from_millis(1);

/// What a paced model goes by.
#[derive(Clone)]
pub struct DilatedClock {
    /// The time outside.
    pub clock: Arc<dyn Clock>,
    /// So many nanoseconds of it are one of the model's, at least.
    pub dilation: f64,
    /// Gives the thread that makes events happen.
    pub background: Arc<dyn Background>,
}

impl Shared {
    /// Lets the time pass that has passed on the clock.
    pub(super) fn advance(&self, state: &mut State, pace: &DilatedClock) {
        let real = pace.clock.now();
        let passed = real.saturating_sub(state.real_at).as_nanos() as f64 / pace.dilation;
        state.real_at = real;
        let target = state.sim.now() + (state.owed_ns + passed as u64).min(OWED_NS);
        loop {
            let limit =
                state.oldest_answer(real.saturating_sub(AWAY)).map_or(u64::MAX, |at| at + LATE_NS);
            let until = target.min(limit).max(state.sim.now());
            let Some(done) = state.sim.completion_by(until) else { break };
            if state.take(&done) {
                self.room.notify_all();
            }
        }
        state.owed_ns = target.saturating_sub(state.sim.now());
    }

    /// Makes events happen until the host is dropped.
    pub(super) fn pump(&self) {
        let pace = self.pace.as_ref().expect("only a paced host has a pump");
        let mut state = self.state.lock();
        while !state.is_closing {
            self.advance(&mut state, pace);
            if state.sim.is_idle() {
                self.work.wait(&mut state);
                continue;
            }
            let pause = if state.owed_ns > 0 { LOOK_BEHIND } else { LOOK };
            drop(state);
            pace.clock.sleep(pause);
            state = self.state.lock();
        }
    }
}
