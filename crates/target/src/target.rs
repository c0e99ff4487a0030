//! Starts and stops a target.

use crate::message::Message;
use crate::reactor;
use crate::shared::Shared;
use crate::stats::Counters;
use crate::{Settings, Totals};
use esker_base::background::Running;
use esker_base::{Background, Clock, Entropy, Error, Priority, Result};
use esker_uring::Sender;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::channel;

/// A target that serves. Dropping it drains it.
pub struct Target {
    address: SocketAddr,
    mailboxes: Vec<Sender<Message>>,
    counters: Vec<Arc<Counters>>,
    threads: Vec<Box<dyn Running>>,
}

impl Target {
    /// Listens, and starts the reactors.
    pub fn start(
        settings: Settings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        background: &Arc<dyn Background>,
    ) -> Result<Self> {
        let name = settings.listen.to_string();
        let listener = TcpListener::bind(settings.listen)
            .map_err(|source| Error::io("listen on", &name, source))?;
        let address =
            listener.local_addr().map_err(|source| Error::io("ask for", &name, source))?;
        let reactors = settings.reactors.max(1);
        let shared = Arc::new(Shared::new(settings, address, clock, entropy));
        let mut target =
            Target { address, mailboxes: Vec::new(), counters: Vec::new(), threads: Vec::new() };
        // The first reactor is started last, for it hands connections to the others.
        let mut listener = Some(listener);
        for number in (0..reactors).rev() {
            let listener = if number == 0 { listener.take() } else { None };
            target.start_reactor(number, listener, &shared, background)?;
        }
        Ok(target)
    }

    fn start_reactor(
        &mut self,
        number: usize,
        listener: Option<TcpListener>,
        shared: &Arc<Shared>,
        background: &Arc<dyn Background>,
    ) -> Result<()> {
        let counters = Arc::new(Counters::default());
        let start = reactor::Start {
            shared: shared.clone(),
            counters: counters.clone(),
            listener,
            others: self.mailboxes.clone(),
            background: background.clone(),
        };
        let (sender, receiver) = channel();
        let body = Box::new(move || reactor::run(start, &sender));
        let name = format!("esker-reactor {number}");
        let thread = background.spawn(&name, Priority::Normal, body)?;
        self.threads.extend(thread);
        let mailbox = receiver.recv().unwrap_or_else(|_| {
            Err(std::io::Error::other("the thread ended before it began to serve"))
        });
        self.mailboxes.push(mailbox.map_err(|source| Error::io("start", name, source))?);
        self.counters.push(counters);
        Ok(())
    }

    /// Where it listens: with the port that the system chose, if it was to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has done so far.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.counters.iter().for_each(|counters| totals.add(counters));
        totals
    }

    /// Takes no more commands, finishes those under way, and stops.
    pub fn drain(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        for mailbox in &self.mailboxes {
            // One that is gone has stopped.
            let _ = mailbox.send(Message::Drain);
        }
        for thread in self.threads.drain(..) {
            thread.join();
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.stop();
    }
}
