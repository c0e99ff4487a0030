//! What reactors are sent by other threads.

use crate::dh_step::DhResult;
use crate::{Answer, Reply, Request};
use esker_uring::{Descriptor, Sender};
use std::sync::mpsc;

/// The name of a connection, unique in a target.
pub(crate) type ConnectionId = u64;

/// What an operation was: in the three lowest bits of its token. Above them is the connection, or the resident part and
/// its tag.
pub(crate) const RECEIVE: u64 = 0;
pub(crate) const SEND: u64 = 1;
pub(crate) const ACCEPT: u64 = 2;
pub(crate) const ACCEPT_TIMER: u64 = 3;
pub(crate) const RESIDENT: u64 = 4;
pub(crate) const TICK: u64 = 5;

/// An Abort that waits for an answer.
#[derive(Debug)]
pub(crate) struct AbortedBy {
    pub(crate) to: Sender<Message>,
    pub(crate) connection: ConnectionId,
    pub(crate) slot: u16,
}

#[derive(Debug)]
pub(crate) enum Message {
    /// All reactors are there, in their order: begin.
    Begin(Vec<Sender<Message>>),
    /// A new connection is yours.
    Accepted(Descriptor),
    /// A request was answered.
    Answered {
        connection: ConnectionId,
        /// The command's place in its queue.
        slot: u16,
        answer: Answer,
    },
    /// What a proof on this connection takes was computed.
    Computed { connection: ConnectionId, slot: u16, computed: DhResult },
    /// End this command of this connection, if that can be done at once.
    Abort { connection: ConnectionId, command_id: u16, by: AbortedBy },
    /// The command that the one in this slot was to end was ended at once, or was not.
    Aborted { connection: ConnectionId, slot: u16, is_aborted: bool },
    /// The controller of this connection's queue is gone.
    Close { connection: ConnectionId },
    /// A request for a part that is yours.
    Request {
        /// The number of the namespace among those with parts.
        resident: usize,
        request: Request,
        reply: Reply,
    },
    /// Take no more commands, and finish those in progress; then drop what came along.
    Drain(mpsc::Sender<()>),
    /// Show that you are alive.
    Ping(mpsc::Sender<()>),
    /// All reactors have shut down: close the parts, and stop.
    Stop,
}
