//! How far a follower is.

use esker_base::Seqno;
use std::time::Duration;

/// How far a follower is: see [`Db::open_follower`](crate::Db::open_follower).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FollowerStats {
    /// The sequence number of the last write that reads see.
    pub shown_through: Seqno,
    /// The sequence number of the last write that was read from the log. Writes beyond `shown_through` are
    /// shown once their batch is whole, and earlier ingests are done.
    pub read_through: Seqno,
    /// The sequence number of the last write that reads see and that survives a power failure, as far as
    /// the log says. What comes after it is written, and may not be synced.
    pub durable_through: Seqno,
    /// How old the state is that reads see: the time since the start of the last call that has read and
    /// shown all that was written.
    pub behind: Duration,
    /// Bytes of log that were read since the last new beginning.
    pub log_bytes_read: u64,
    /// Calls of [`Db::catch_up`](crate::Db::catch_up), those of the thread included.
    pub catch_ups: u64,
    /// How often it began anew since the open here, because another process has opened the database for writing,
    /// has repaired it, or has put a copy in its place.
    pub new_beginnings: u64,
    /// An ingest that has begun, before which reads end until it is done. After an ingest that failed, they
    /// do until the writer flushes.
    pub awaited_ingest: Option<Seqno>,
}

/// What [`Db::catch_up`](crate::Db::catch_up) has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CaughtUp {
    /// The sequence number of the last write that reads see.
    pub through: Seqno,
    /// Whether another process has opened the database for writing since, has repaired it, or has put a copy in its
    /// place. There may be fewer writes than were shown before, and others may have their sequence numbers.
    pub began_anew: bool,
}
