//! The way back of a request.

use crate::Answer;
use crate::reactor_message::{ConnectionId, Message};
use esker_nvme::Status;
use esker_uring::Sender;

/// Answers one request, from any thread. Dropped without an answer, it fails the command: so none is ever left hanging,
/// not even by a worker that panics.
#[derive(Debug)]
pub struct Reply {
    to: Sender<Message>,
    connection: ConnectionId,
    slot: u16,
    answered: bool,
}

impl Reply {
    pub(crate) fn new(to: Sender<Message>, connection: ConnectionId, slot: u16) -> Self {
        Reply { to, connection, slot, answered: false }
    }

    /// Sends the answer.
    pub fn send(mut self, answer: Answer) {
        self.post(answer);
    }

    /// Whether it answers the command in this slot of this connection.
    pub(crate) fn is_of(&self, connection: ConnectionId, slot: u16) -> bool {
        (self.connection, self.slot) == (connection, slot)
    }

    /// Ends it without an answer: the client that asked knows.
    pub(crate) fn forget(mut self) {
        self.answered = true;
    }

    fn post(&mut self, answer: Answer) {
        self.answered = true;
        let message = Message::Answered { connection: self.connection, slot: self.slot, answer };
        // A reactor that is gone has no connection to answer.
        let _ = self.to.send(message);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.answered {
            self.post(Answer::Failed(Status::INTERNAL_ERROR));
        }
    }
}
