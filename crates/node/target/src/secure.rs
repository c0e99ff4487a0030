//! TLS between a socket and its [`Connection`], which sees plain bytes.
//!
//! The connection's space stays away while it is received into, as without TLS, so that its limits and
//! deadlines are the same. What it sends is in progress until all of it is encrypted and sent.

use crate::connection::Connection;
use crate::limits::RECORD_BYTES;
use esker_tls::{Channel, HostKeys, TlsError};
use esker_uring::{Buffer, Slice};
use std::sync::Arc;

/// What a connection speaks.
pub(crate) enum Wire {
    /// Its first byte says.
    Undecided,
    Clear,
    Secure(Box<Secure>),
}

pub(crate) struct Secure {
    channel: Channel,
    is_established: bool,
    /// Where the connection wants to receive.
    into: Option<Slice>,
    is_receiving: bool,
    is_sending: bool,
    /// Made by the channel, and not yet given out to be sent.
    output: Vec<u8>,
    /// The plain bytes of what is sent.
    plain: Option<usize>,
}

impl Wire {
    /// Whether it is in a handshake.
    pub(crate) fn is_handshake(&self) -> bool {
        matches!(self, Wire::Secure(secure) if !secure.is_established)
    }

    /// Whether it is in a handshake, and the host has proved no key.
    pub(crate) fn is_unproved(&self) -> bool {
        matches!(self, Wire::Secure(secure) if !secure.channel.is_proved())
    }
}

impl Secure {
    /// Begins with the first bytes of a host, in memory of the connection.
    pub(crate) fn begin(keys: Arc<HostKeys>, room: Slice, bytes: usize) -> Result<Self, TlsError> {
        let mut channel = Channel::server(keys)?;
        channel.feed(&room[..bytes]);
        Ok(Secure {
            channel,
            is_established: false,
            into: Some(room),
            is_receiving: false,
            is_sending: false,
            output: Vec::new(),
            plain: None,
        })
    }

    pub(crate) fn is_established(&self) -> bool {
        self.is_established
    }

    /// Bytes came from the socket; none means that the peer sends no more.
    pub(crate) fn received(&mut self, bytes: &[u8], connection: &mut Connection) {
        self.is_receiving = false;
        match bytes {
            [] => connection.close(),
            bytes => self.channel.feed(bytes),
        }
    }

    /// Gives the connection what can be decrypted of one record, if it wants that. Says whether it is
    /// to be asked again, once it has sent what it has now.
    pub(crate) fn deliver(&mut self, connection: &mut Connection) -> Result<bool, TlsError> {
        let any = self.decrypt(connection)?;
        self.output.append(&mut self.channel.take_output());
        Ok(any || !self.output.is_empty() && !self.is_sending)
    }

    fn decrypt(&mut self, connection: &mut Connection) -> Result<bool, TlsError> {
        if !self.channel.handshake()? {
            return Ok(false);
        }
        self.is_established = true;
        if let Some(peer) = self.channel.peer() {
            connection.is_secured(peer);
        }
        let wanted = self.into.take().or_else(|| Some(connection.receive()?.0));
        let Some(mut room) = wanted else { return Ok(false) };
        let decrypted = self.channel.decrypt(&mut room)?;
        match decrypted {
            Some(bytes) => connection.received(room, bytes),
            None => self.into = Some(room),
        }
        Ok(decrypted.is_some())
    }

    /// Space for the next bytes of the socket, unless some is away, or the connection wants nothing.
    pub(crate) fn room(&mut self) -> Option<Slice> {
        let is_wanted = self.into.is_some() && !self.is_receiving;
        self.is_receiving |= is_wanted;
        is_wanted.then(|| Buffer::stale(RECORD_BYTES).whole())
    }

    /// What is to be sent now: the handshake's messages, or all that the connection has, encrypted.
    /// Until it [was sent](Self::sent) there is nothing more.
    pub(crate) fn seal(&mut self, connection: &mut Connection) -> Option<Vec<u8>> {
        if self.is_sending {
            return None;
        }
        if self.is_established && !connection.unsent().is_empty() {
            let parts = connection.take_unsent();
            self.plain = Some(parts.iter().map(|part| part.len()).sum());
            if parts.iter().any(|part| self.channel.encrypt(part).is_err()) {
                connection.close();
            }
        }
        let mut sealed = std::mem::take(&mut self.output);
        sealed.append(&mut self.channel.take_output());
        self.is_sending = !sealed.is_empty();
        self.is_sending.then_some(sealed)
    }

    /// It was sent.
    pub(crate) fn sent(&mut self, connection: &mut Connection) {
        self.is_sending = false;
        if let Some(bytes) = self.plain.take() {
            connection.rest_sent(bytes);
        }
    }

    /// Whether nothing is in progress.
    pub(crate) fn is_drained(&self) -> bool {
        !self.is_sending
    }

    /// The last bytes: that nothing more comes, or why.
    pub(crate) fn close(&mut self) -> Vec<u8> {
        self.channel.close();
        self.channel.take_output()
    }
}
