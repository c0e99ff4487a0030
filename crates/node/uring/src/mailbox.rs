//! Messages to the thread that owns a reactor: a lock-free queue and a wake.

use crate::{Reactor, Waker};
use std::sync::mpsc;

/// Creates a mailbox that wakes `reactor`.
pub fn mailbox<T>(reactor: &Reactor) -> (Sender<T>, Inbox<T>) {
    let (sender, receiver) = mpsc::channel();
    (Sender { queue: sender, waker: reactor.waker() }, Inbox { queue: receiver })
}

/// Where messages go in, from any thread.
#[derive(Debug)]
pub struct Sender<T> {
    queue: mpsc::Sender<T>,
    waker: Waker,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender { queue: self.queue.clone(), waker: self.waker.clone() }
    }
}

impl<T> Sender<T> {
    /// Sends a message and wakes the reactor, or gives the message back if the inbox is gone.
    pub fn send(&self, message: T) -> Result<(), T> {
        self.queue.send(message).map_err(|error| error.0)?;
        self.waker.wake();
        Ok(())
    }
}

/// Where messages come out, in the order in which each sender sent them.
#[derive(Debug)]
pub struct Inbox<T> {
    queue: mpsc::Receiver<T>,
}

impl<T> Inbox<T> {
    /// The next message, if there is one.
    pub fn take(&self) -> Option<T> {
        self.queue.try_recv().ok()
    }
}
