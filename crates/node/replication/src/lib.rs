//! Followers of a database over a network: each has a copy of its own, to which it applies what the primary writes, and
//! which serves reads. A follower can be promoted to a database that is written to.
//!
//! ```text
//! writers ─► Db ─► log ─► Primary ──── frames ────► Follower ─► Replica ─► readers
//!                            ▲                          │
//!                            └──── applied through ─────┘
//! ```
//!
//! * `primary` listens; `serving` is one connection. A named consumer of the change feed keeps the log that a follower
//!   needs, up to a bound. If what it needs is gone, it gets a base.
//! * `follower` is the other end; `base` has the files of a base, at both ends.
//! * `message` is the protocol, `wire` carries it, and `auth` is DH-HMAC-CHAP as in a storage node.
//!
//! `docs/guide/followers.md` says how to use it, and what a promotion can lose; `docs/formats/replication.md` has the
//! bytes.

#![forbid(unsafe_code)]

mod auth;
mod base;
mod error;
mod follower;
mod fuzz;
mod lag;
mod message;
mod primary;
mod serving;
mod wire;

pub use error::{ReplicationError, Result};
pub use follower::{FOLLOWER_NQN, Follower, FollowerSettings, FollowerStats};
#[doc(hidden)]
pub use fuzz::fuzz_decode;
#[doc(hidden)]
pub use message::{BadMessage, Decoder, Message, VERSION};
pub use primary::{FollowerInfo, PRIMARY_NQN, Primary, PrimarySettings, StopNotice};
