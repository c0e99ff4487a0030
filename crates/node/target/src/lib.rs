//! A storage node: an NVMe/TCP controller in user space that serves namespaces of keys, and of blocks, to standard
//! initiators.
//!
//! ```text
//!              accept (reactor 0, handed out in turn)
//!                 │
//!  reactor 0      ▼       reactor 1 …              each is one thread with its own connections
//!  ┌───────────────────┐ ┌───────────────────┐
//!  │ Connection        │ │ Connection        │     bytes in → requests; answers → bytes out; no I/O
//!  └─────────┬─────────┘ └─────────┬─────────┘
//!            │ Request, Reply      │
//!            ▼                     ▼
//!   resident parts ◄─messages─► resident parts      blocks on a device: files through the reactor's own ring
//!            │                     │
//!            ▼                     ▼
//!         shared namespaces: memory, any `esker_api` store behind workers
//! ```
//!
//! A connection is a state machine without I/O: the reactor gives it bytes and answers, and takes bytes
//! and requests. A [`Namespace`] gets a [`Request`] and a [`Reply`], and answers at once or later, from any thread;
//! so no reactor ever waits for a store. Between cores there are messages only. What controllers share, such as who is
//! connected, has a lock that is taken when a queue connects and by admin commands, never by I/O.
//!
//! Everything that a peer can make the target hold is bounded: PDUs and queues by what was
//! announced, values and answers in progress by [`limits`], for each connection and for all together;
//! connections that say nothing, and transfers that stall, by a deadline. A peer that breaks
//! the protocol is notified how and loses its connection; others go on.

#![forbid(unsafe_code)]

mod connection;
mod controller;
mod controllers;
mod dh_step;
mod dh_worker;
mod identify;
pub mod limits;
mod memory;
mod namespace;
mod orphaned_writes;
mod poll_backoff;
mod reactor;
mod reactor_message;
mod reactor_namespaces;
mod responder;
mod secure;
mod settings;
mod stalls;
mod stats;
mod target;
mod target_state;
mod workers;

#[doc(hidden)]
pub use connection::authenticator::{AuthResult, Authenticator};
#[doc(hidden)]
pub use dh_step::{DhResult, Step as DhStep};
pub use namespace::{
    Answer, Description, DeviceBlocks, FailedNamespace, GroupCommit, LongKeys, MemoryBlocks,
    MemoryKeys, Namespace, NamespaceHealth, OperationSink, OrderedKeys, PerCoreNamespace, Request,
};
pub use responder::Reply;
pub use settings::{Access, HostAccess, Settings, Subsystem};
pub use stats::Totals;
pub use target::Target;
