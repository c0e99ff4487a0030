//! What keeps an association while no caller uses it: a thread at the connection of the admin queue.
//!
//! It sends a Keep Alive three times in the time after which the node gives the host up, whether there are other
//! commands or not: those of I/O queues don't count. In between it waits for the connection's end. When that comes, or an
//! answer does not come within the deadline of an operation, all queues fail: waiters are notified, and the next call finds
//! a failed association and connects, rather than send a store where nothing answers.

use crate::deadline::{Deadline, WAIT_TIME};
use crate::queue_pair::QueuePair;
use crate::sync_connection::{SyncConnection, closed, lost};
use crate::wire::is_timeout;
use crate::{RemoteError, Settings};
use esker_base::background::Running;
use esker_base::{Background, Priority};
use esker_nvme::command::admin::AdminCommand;
use parking_lot::Mutex;
use std::io::ErrorKind;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// How often a Keep Alive is sent in the keep-alive time: two may be late.
const SENT_IN_TIME: u32 = 3;

/// The thread. It ends when this is dropped, and with it the association.
pub(crate) struct KeepAlive {
    socket: TcpStream,
    /// In a lock only because the association is shared, and `Running` is not.
    thread: Mutex<Option<Box<dyn Running>>>,
}

impl KeepAlive {
    /// Keeps the association that `link` is the admin queue of, and `queues` the others.
    pub(crate) fn start(
        link: SyncConnection,
        queues: Arc<[QueuePair]>,
        settings: &Settings,
        background: &dyn Background,
    ) -> Result<Self, RemoteError> {
        let socket = link.wire.socket.try_clone().map_err(|error| lost(&link.address, &error))?;
        let interval = settings.keep_alive / SENT_IN_TIME;
        let interval = (!interval.is_zero()).then_some(interval);
        let mut keeper = Keeper { link, interval, deadline: settings.deadline };
        let body = move || {
            let error = keeper.keep();
            let _ = keeper.link.wire.socket.shutdown(Shutdown::Both);
            queues.iter().for_each(|queue| queue.end(&error));
        };
        let thread = background.spawn("esker-keep-alive", Priority::Normal, Box::new(body));
        let thread = thread.map_err(|error| RemoteError::Thread { why: error.to_string() })?;
        let none = || RemoteError::Thread { why: "there are none here".to_owned() };
        Ok(KeepAlive { socket, thread: Mutex::new(Some(thread.ok_or_else(none)?)) })
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
        self.thread.get_mut().take().map(Running::join);
    }
}

struct Keeper {
    link: SyncConnection,
    /// None if the node never gives a silent host up.
    interval: Option<Duration>,
    deadline: Duration,
}

impl Keeper {
    /// Until it can't be kept any more; says why.
    fn keep(&mut self) -> RemoteError {
        loop {
            let kept = self.wait().and_then(|()| {
                let sqe = AdminCommand::KeepAlive.encode();
                self.link.deadline = Deadline::after(&self.link.deadline.clock, self.deadline);
                self.link.call("keep the connection", sqe, &[], 0)
            });
            match kept {
                Ok(_) => {}
                Err(RemoteError::Deadline) => {
                    let why = "it did not answer a Keep Alive in time".to_owned();
                    return RemoteError::Lost { address: self.link.address.clone(), why };
                }
                Err(error) => return error,
            }
        }
    }

    /// Until it is time to send; or until something comes, which the next call makes something of.
    fn wait(&self) -> Result<(), RemoteError> {
        let (socket, address) = (&self.link.wire.socket, &self.link.address);
        let timed = |time| socket.set_read_timeout(time).map_err(|error| lost(address, &error));
        timed(self.interval)?;
        loop {
            match socket.peek(&mut [0]) {
                Ok(0) => return Err(closed(address)),
                Ok(_) => break,
                Err(error) if is_timeout(&error) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(address, &error)),
            }
        }
        timed(Some(WAIT_TIME))
    }
}
