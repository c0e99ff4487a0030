//! What reactors are told by other threads.

use crate::Answer;
use esker_uring::Descriptor;

/// The name of a connection, unique in a target.
pub(crate) type ConnectionId = u64;

#[derive(Debug)]
pub(crate) enum Message {
    /// A new connection is yours.
    Accepted(Descriptor),
    /// A request was answered.
    Answered {
        connection: ConnectionId,
        /// The command's place in its queue.
        slot: u16,
        answer: Answer,
    },
    /// The controller of this connection's queue is gone.
    Close { connection: ConnectionId },
    /// Finish what is under way, and stop.
    Drain,
}
