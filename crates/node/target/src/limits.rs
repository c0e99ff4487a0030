//! What peers can make a target hold, and for how long.

use std::time::Duration;

/// Connections of one reactor.
pub const CONNECTIONS: usize = 2048;

/// Reads, writes and syncs of one reactor in progress. More wait.
pub(crate) const FILE_OPERATIONS: usize = 1024;

/// Operations of one reactor in progress: a receive and a send for each connection, an accept, a timer, and those of files.
pub(crate) const OPERATIONS: u32 = (2 * CONNECTIONS + 2 + FILE_OPERATIONS) as u32;

/// Bytes of transfers that one connection may have in progress: values that were asked for by R2T, and answers until they
/// are sent. Commands beyond wait for those before. Data in capsules is bounded by the queue's length instead.
pub const TRANSFER_BYTES_UNDER_WAY: usize = 8 << 20;

/// Bytes of data in flight that all connections of a target hold together, unless it is configured
/// otherwise.
pub const MEMORY_BYTES: usize = 256 << 20;

/// How long a connection may leave data half sent, or what it is sent unread, without moving
/// [`PROGRESS_BYTES`] of it.
pub const TRANSFER_TIME: Duration = Duration::from_secs(30);

/// The same while other connections wait for memory.
pub const TRANSFER_TIME_SHORT: Duration = Duration::from_secs(5);

/// What counts as progress of a transfer, unless it is over before.
pub const PROGRESS_BYTES: usize = 64 << 10;

/// While other connections wait for memory, a connection must turn over this fraction of what it
/// holds in [`TRANSFER_TIME_SHORT`]: all of it in 20 s, and hosts wait 30 s for an answer.
pub const PROGRESS_FRACTION: usize = 4;

/// Output of one connection that is not sent: when there is so much, nothing is received until there is less. That is the
/// answers above and another megabyte, of completions and of answers to admin commands.
pub(crate) const OUTPUT_BYTES: usize = TRANSFER_BYTES_UNDER_WAY + (1 << 20);

/// How long a new connection may take until its queue is connected.
pub const CONNECT_TIME: Duration = Duration::from_secs(10);

/// TLS handshakes of one reactor in progress. For a further one, the oldest whose host has not proved its key ends; without
/// such, the further one is refused.
pub const HANDSHAKES: usize = 128;

/// What one receive of a TLS connection takes: a record of the longest kind.
pub(crate) const RECORD_BYTES: usize = 17 << 10;

/// Controllers of discovery at one time. A client that reaches the port can have one, so that they leave most of a reactor's
/// connections to those who have to do with keys and blocks.
pub const DISCOVERY_CONTROLLERS: usize = CONNECTIONS / 4;

/// The keep-alive time of a discovery controller whose host names none: the specification's default.
pub const DISCOVERY_KEEP_ALIVE: Duration = Duration::from_secs(120);

/// A queue without keep-alive time that was silent for so long makes space, if its host's name is all that let it in.
pub const SILENCE_TIME: Duration = Duration::from_secs(120);

/// How long a connection that was notified why it ends is read from, so that the message is not lost in a reset.
pub const LINGER_TIME: Duration = Duration::from_secs(2);

/// With so much to send it is sent before more commands are inspected, so that the host takes it while they are carried out, and that what
/// was read for it is still in the processor's cache.
pub(crate) const SEND_BYTES: usize = 64 << 10;

/// So much is sent of a connection at once, before others have their turn.
pub(crate) const TURN_BYTES: usize = 1 << 20;

/// The most parts of one send: a full queue's answers with data, and some.
pub(crate) const SEND_PARTS: usize = 512;
