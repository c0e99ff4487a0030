//! PDUs of the TCP transport (TCP 3.6).
//!
//! ```text
//!     0        1       2      3       4        8              HLEN            PDO               PLEN
//!     ┌────────┬───────┬──────┬───────┬────────┬───────────────┬──────┬───────┬────────┬────────┐
//!     │ type   │ flags │ HLEN │ PDO   │ PLEN   │ type-specific │ HDGST│ pad   │ data   │ DDGST  │
//!     └────────┴───────┴──────┴───────┴────────┴───────────────┴──────┴───────┴────────┴────────┘
//! ```
//!
//! HDGST and DDGST, 4 bytes each, are there if the connection's first exchange agreed on them; the first two
//! PDUs and the last one of a connection never have them. [`Scanner`] finds PDUs in bytes, and
//! [`Decoder`] keeps the bytes, too, and takes them in any split; [`HostPdu`] and
//! [`ControllerPdu`] say what a frame is; [`Encoder`] builds PDUs. A [`FatalError`] is what ends a connection, and
//! says what the peer is sent.

mod capsule;
mod data;
mod decoder;
mod encoder;
mod header;
mod inbound;
mod initialize;
mod r2t;
mod scanner;
mod termination;

pub use data::DataHeader;
pub use decoder::Decoder;
pub use encoder::Encoder;
pub use header::{Digests, HEADER_BYTES, Header, PduKind, Sender};
pub use inbound::{ControllerPdu, HostPdu, Payload};
pub use initialize::{InitializeRequest, InitializeResponse};
pub use r2t::ReadyToTransfer;
pub use scanner::{DataDigest, Frame, Limits, Scanner};
pub use termination::{FatalError, FatalStatus, TERM_BYTES_MAX, Termination};

/// The length of a digest.
pub const DIGEST_BYTES: usize = 4;
