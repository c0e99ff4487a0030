//! A controller: what one host sees of a subsystem. Its admin queue and its I/O queues are connections that may live on
//! different reactors; what they share is here, and changes only when queues come and go and by admin commands.

use crate::limits::DISCOVERY_KEEP_ALIVE;
use crate::reactor_message::{ConnectionId, Message};
use esker_nvme::limits::IO_QUEUES;
use esker_nvme::property::{self, Configuration};
use esker_nvme::{Nqn, Status};
use esker_uring::Sender;
use parking_lot::Mutex;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Duration;

pub(crate) struct Controller {
    pub(crate) id: u16,
    /// The index of the subsystem; none for discovery.
    pub(crate) subsystem: Option<usize>,
    pub(crate) host: Nqn,
    pub(crate) host_id: [u8; 16],
    /// In milliseconds, 0 for none.
    keep_alive_ms: AtomicU32,
    /// What `state` says of it, for every command: without a lock.
    ready: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    configuration: Configuration,
    status: u32,
    io_queues: Vec<IoQueue>,
    gone: bool,
}

pub(crate) struct IoQueue {
    pub(crate) id: u16,
    pub(crate) connection: ConnectionId,
    pub(crate) mailbox: Sender<Message>,
    /// Whether its host has proved who it is, or need not.
    pub(crate) is_proved: bool,
}

impl Controller {
    pub(crate) fn new(id: u16, subsystem: Option<usize>, host: Nqn, host_id: [u8; 16]) -> Self {
        let (keep_alive_ms, ready, state) = Default::default();
        Controller { id, subsystem, host, host_id, keep_alive_ms, ready, state }
    }

    pub(crate) fn is_discovery(&self) -> bool {
        self.subsystem.is_none()
    }

    /// How long its host may say nothing on the admin queue; zero is without a limit.
    pub(crate) fn keep_alive(&self) -> Duration {
        Duration::from_millis(self.keep_alive_ms.load(Relaxed).into())
    }

    /// What the host wishes. Discovery is for any host, so none is silent there for longer than the default.
    pub(crate) fn set_keep_alive(&self, milliseconds: u32) {
        let longest = DISCOVERY_KEEP_ALIVE.as_millis() as u32;
        let kept = match (self.is_discovery(), milliseconds) {
            (true, 0) => longest,
            (true, wished) => wished.min(longest),
            (false, wished) => wished,
        };
        self.keep_alive_ms.store(kept, Relaxed);
    }

    pub(crate) fn configuration(&self) -> Configuration {
        self.state.lock().configuration
    }

    pub(crate) fn status(&self) -> u32 {
        self.state.lock().status
    }

    /// CC was written: starts, stops, or shuts down at once, for nothing is kept here that would have to be written.
    pub(crate) fn configure(&self, new: Configuration) {
        let mut state = self.state.lock();
        state.configuration = new;
        state.status = match (new.enabled(), new.shutdown()) {
            (_, true) => state.status & property::READY | property::SHUTDOWN_COMPLETE,
            (true, false) if is_possible(new) => property::READY,
            (true, false) => property::FATAL,
            (false, false) => 0,
        };
        self.ready.store(state.is_ready(), Release);
        if !new.enabled() || new.shutdown() {
            state.close_io_queues();
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Acquire)
    }

    /// An I/O queue connects, or is notified why not. One of the same id that has not been proved makes way: a client that names the host may
    /// have opened it, and would keep the host out.
    pub(crate) fn add_queue(&self, new: IoQueue) -> Result<(), Status> {
        let mut state = self.state.lock();
        if state.gone || state.status & property::READY == 0 {
            return Err(Status::SEQUENCE_ERROR);
        }
        if new.id == 0 || new.id > IO_QUEUES || self.is_discovery() {
            return Err(Status::CONNECT_INVALID);
        }
        match state.io_queues.iter_mut().find(|queue| queue.id == new.id) {
            Some(holder) if holder.is_proved => return Err(Status::SEQUENCE_ERROR),
            Some(holder) => std::mem::replace(holder, new).close(),
            None => state.io_queues.push(new),
        }
        Ok(())
    }

    /// The host has proved who it is on this connection.
    pub(crate) fn queue_is_proved(&self, connection: ConnectionId) {
        let mut state = self.state.lock();
        let queue = state.io_queues.iter_mut().find(|queue| queue.connection == connection);
        if let Some(queue) = queue {
            queue.is_proved = true;
        }
    }

    /// Where the connection of an I/O queue is reached.
    pub(crate) fn io_queue(&self, id: u16) -> Option<(ConnectionId, Sender<Message>)> {
        let state = self.state.lock();
        let queue = state.io_queues.iter().find(|queue| queue.id == id)?;
        Some((queue.connection, queue.mailbox.clone()))
    }

    pub(crate) fn remove_queue(&self, connection: ConnectionId) {
        self.state.lock().io_queues.retain(|queue| queue.connection != connection);
    }

    pub(crate) fn has_io_queues(&self) -> bool {
        !self.state.lock().io_queues.is_empty()
    }

    /// The admin queue is gone: so are the others.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.gone = true;
        self.ready.store(false, Release);
        state.close_io_queues();
    }
}

impl State {
    fn is_ready(&self) -> bool {
        !self.gone && self.status & property::READY != 0 && !self.configuration.shutdown()
    }

    fn close_io_queues(&mut self) {
        self.io_queues.drain(..).for_each(IoQueue::close);
    }
}

impl IoQueue {
    fn close(self) {
        // A reactor that is gone has closed it.
        let _ = self.mailbox.send(Message::Close { connection: self.connection });
    }
}

/// Pages of 4 KiB, and NVM alone or all command sets.
fn is_possible(configuration: Configuration) -> bool {
    matches!(configuration.command_sets(), 0 | 6) && configuration.page_size() == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::{Background, Priority, Threads};
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    #[test]
    fn whether_it_is_ready_is_known_while_others_have_its_lock() {
        const PATIENCE: Duration = Duration::from_secs(20);
        let host = Nqn::new("nqn.host").unwrap();
        let controller = Arc::new(Controller::new(1, Some(0), host, [1; 16]));
        // In a thread of its own: one that waited for the lock would wait for ever.
        let is_ready_by_another = || {
            let (controller, (answer, answers)) = (controller.clone(), channel());
            let ask = Box::new(move || {
                // Who does not wait any more has failed.
                let _ = answer.send(controller.is_ready());
            });
            Threads.spawn("asker", Priority::Normal, ask).unwrap();
            answers.recv_timeout(PATIENCE).expect("it waits for the lock")
        };
        for (written, is_ready) in [(0x0046_0061, true), (0x0046_4061, false), (0x0046_0060, false)]
        {
            controller.configure(Configuration(written));
            let held = controller.state.lock();
            assert_eq!((is_ready_by_another(), held.is_ready()), (is_ready, is_ready));
        }
        controller.configure(Configuration(0x0046_0061));
        controller.end();
        assert!(!controller.is_ready());
    }
}
