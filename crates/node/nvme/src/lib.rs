//! NVMe over TCP as bytes: what is where in PDUs, commands, completions, identify structures, log pages
//! and authentication messages. Nothing here does I/O, keeps time or starts a thread, and nothing on the path
//! of a command allocates.
//!
//! * [`pdu`]: the transport. [`pdu::Decoder`] is fed bytes in any split and yields checked frames.
//! * [`command`]: submission and completion entries, and what the fabrics, admin, Key Value and NVM command
//!   sets put into them.
//! * [`identify`], [`log_page`]: the structures that a controller describes itself with.
//! * [`property`], [`feature`], [`event`], [`status`]: registers, features, notices, outcomes.
//! * [`auth`]: DH-HMAC-CHAP, messages and computations.
//! * [`tls`]: pre-shared keys of the secure channel.
//!
//! All integers are little-endian. Section numbers name the NVM Express specifications: "Base" is the NVM
//! Express Base Specification 2.0c, "TCP" the NVMe TCP Transport Specification 1.0c, "KV" the Key Value Command
//! Set Specification 1.0c. The controller's and the host's side are both here: a target parses what an
//! initiator builds, and the tests hold both against bytes written by hand.

#![forbid(unsafe_code)]

pub mod auth;
pub mod command;
pub mod event;
pub mod feature;
pub mod identify;
mod le_fields;
pub mod limits;
pub mod log_page;
mod nqn;
pub mod pdu;
pub mod property;
pub mod status;
pub mod tls;

pub use command::{Cqe, Sqe};
pub use nqn::{DISCOVERY_NQN, Nqn, NqnError};
pub use status::Status;
