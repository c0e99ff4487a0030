//! The secure channel of NVMe/TCP: TLS 1.3 with a pre-shared key and Diffie-Hellman (TCP 3.6.1), as a
//! state machine without I/O.
//!
//! A [`Channel`] is given what the socket received and gives what the socket is to send. A node finds
//! the host's key in the first message by [`HostKeys`], before anything costly is computed: a host
//! that does not prove its key there is refused.
//!
//! TLS itself is s2n-tls, in the feature `s2n`. Without the feature there is everything but channels
//! ([`IS_BUILT`]), so that other crates need no conditions.

#![deny(unsafe_code)]

mod hello;
mod keys;
#[cfg(feature = "s2n")]
mod s2n;
#[cfg(not(feature = "s2n"))]
mod without;

pub use keys::{HostKeys, Peer, client_psks};
#[cfg(feature = "s2n")]
pub use s2n::Channel;
#[cfg(not(feature = "s2n"))]
pub use without::Channel;

/// Whether channels can be made.
pub const IS_BUILT: bool = cfg!(feature = "s2n");

/// What a TLS record begins with if it holds a handshake message. No PDU of NVMe/TCP that a host
/// begins with starts so.
pub const HANDSHAKE: u8 = 22;

/// The longest first message of a host that is read, in bytes.
pub const HELLO_BYTES_MAX: usize = 5 + (16 << 10);

/// Why a channel failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TlsError {
    /// The program has no TLS.
    #[error("this program was built without TLS; build it with `--features tls`")]
    NotBuilt,
    /// What the peer sent is no first message of TLS 1.3 with pre-shared keys.
    #[error("the host's first TLS message is not understood: {0}")]
    Hello(&'static str),
    /// The host named no key that is known, or does not have it.
    #[error("the host has no TLS key of this node")]
    UnknownKey,
    /// The peer broke the protocol, has another key, or ended the handshake.
    #[error("TLS failed: {0}")]
    Failed(String),
}
