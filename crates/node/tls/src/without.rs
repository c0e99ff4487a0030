//! What stands for a channel in a program without TLS: nothing can make one.

use crate::{HostKeys, Peer, TlsError};
use esker_nvme::tls::TlsPsk;
use std::convert::Infallible;
use std::sync::Arc;

/// A channel that cannot be.
pub struct Channel(Infallible);

impl Channel {
    /// Fails.
    pub fn server(_keys: Arc<HostKeys>) -> Result<Self, TlsError> {
        Err(TlsError::NotBuilt)
    }

    /// Fails.
    pub fn client(_psk: &TlsPsk) -> Result<Self, TlsError> {
        Err(TlsError::NotBuilt)
    }

    /// Takes what the socket received.
    pub fn feed(&mut self, _bytes: &[u8]) {
        match self.0 {}
    }

    /// Goes on with the handshake.
    pub fn handshake(&mut self) -> Result<bool, TlsError> {
        match self.0 {}
    }

    /// Whether the peer has proved its key.
    pub fn is_proved(&self) -> bool {
        match self.0 {}
    }

    /// Whom the peer proved to be.
    pub fn peer(&self) -> Option<&Peer> {
        match self.0 {}
    }

    /// Decrypts.
    pub fn decrypt(&mut self, _out: &mut [u8]) -> Result<Option<usize>, TlsError> {
        match self.0 {}
    }

    /// Encrypts.
    pub fn encrypt(&mut self, _bytes: &[u8]) -> Result<(), TlsError> {
        match self.0 {}
    }

    /// Notifies the peer that nothing more comes.
    pub fn close(&mut self) {
        match self.0 {}
    }

    /// What the socket is to send.
    pub fn take_output(&mut self) -> Vec<u8> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    /// The tests of channels are in `s2n`, which this build does not have.
    #[test]
    fn channels_with_each_other() {
        let why = "built without TLS; --features esker-tls/s2n has it";
        esker_base::skipped("channels with each other", why);
    }
}
