//! A socket, with TLS or without.
//!
//! One thread reads at a time, and one writes; both may at once. Only the channel between is locked,
//! and never while the socket is waited for.

use crate::RemoteError;
use crate::deadline::Deadline;
use esker_nvme::tls::TlsPsk;
use esker_tls::{Channel, TlsError};
use parking_lot::Mutex;
use std::fmt::Display;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;

/// Plain bytes that are encrypted at a time: some records.
const PIECE_BYTES: usize = 64 << 10;

const IN_HANDSHAKE: &str = "during the TLS handshake; the node may have no TLS, not know the key, \
                            or have too many handshakes in progress";

/// What one read of the socket takes.
const RECORD_BYTES: usize = 17 << 10;

pub(crate) struct Wire {
    pub(crate) socket: TcpStream,
    tls: Option<Tls>,
}

struct Tls {
    channel: Mutex<Channel>,
    /// Encrypted, and not yet taken by the socket. Only who writes locks it.
    unsent: Mutex<Vec<u8>>,
}

impl Wire {
    pub(crate) fn clear(socket: TcpStream) -> Self {
        Wire { socket, tls: None }
    }

    /// The same by TLS. If the node does not accept `psk`, the error is [`RemoteError::Tls`], or
    /// [`RemoteError::Lost`] of a node that says nothing.
    pub(crate) fn secure(
        socket: TcpStream,
        psk: &TlsPsk,
        address: &str,
        deadline: &Deadline,
    ) -> Result<Self, RemoteError> {
        let failed = |error: TlsError| {
            let (address, why) = (address.to_owned(), error.to_string());
            RemoteError::Tls { address, why }
        };
        let lost = |how: &dyn Display| {
            let (address, why) = (address.to_owned(), format!("{how} {IN_HANDSHAKE}"));
            RemoteError::Lost { address, why }
        };
        let channel = Channel::client(psk).map_err(failed)?;
        let (channel, unsent) = (Mutex::new(channel), Mutex::default());
        let wire = Wire { socket, tls: Some(Tls { channel, unsent }) };
        let mut piece = vec![0; RECORD_BYTES];
        while let Some(tls) = &wire.tls {
            deadline.left()?;
            let is_through = tls.channel.lock().handshake();
            // After an error, too: an alert says why.
            let flushed = wire.flush();
            let is_through = is_through.map_err(failed)?;
            match flushed {
                Ok(true) if is_through => break,
                Err(error) if !is_no_failure(&error) => return Err(lost(&error)),
                _ => {}
            }
            match (&wire.socket).read(&mut piece) {
                Ok(0) => return Err(lost(&"the node closed it")),
                Ok(bytes) => tls.channel.lock().feed(&piece[..bytes]),
                Err(error) if is_no_failure(&error) => {}
                Err(error) => return Err(lost(&error)),
            }
        }
        Ok(wire)
    }

    /// Reads once. What the system has may be no whole record yet: then it is as if it had nothing.
    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return (&self.socket).read(into) };
        let decrypt = |into: &mut [u8]| tls.channel.lock().decrypt(into).map_err(io::Error::other);
        if let Some(bytes) = decrypt(into)? {
            return Ok(bytes);
        }
        let mut piece = [0; RECORD_BYTES];
        let bytes = (&self.socket).read(&mut piece)?;
        if bytes == 0 {
            return Ok(0);
        }
        tls.channel.lock().feed(&piece[..bytes]);
        decrypt(into)?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// Writes some of `parts`. By TLS these may still be [unsent](Self::flush) then.
    pub(crate) fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return (&self.socket).write_vectored(parts) };
        if !self.flush()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut taken = 0;
        let mut channel = tls.channel.lock();
        for part in parts {
            let piece = &part[..part.len().min(PIECE_BYTES - taken)];
            channel.encrypt(piece).map_err(io::Error::other)?;
            taken += piece.len();
        }
        tls.unsent.lock().append(&mut channel.take_output());
        drop(channel);
        match self.flush() {
            // What was encrypted is written, now or later.
            Err(error) if !is_no_failure(&error) => Err(error),
            _ => Ok(taken),
        }
    }

    /// Writes once of what is encrypted. Says whether that was all.
    pub(crate) fn flush(&self) -> io::Result<bool> {
        let Some(tls) = &self.tls else { return Ok(true) };
        let mut unsent = tls.unsent.lock();
        unsent.append(&mut tls.channel.lock().take_output());
        if unsent.is_empty() {
            return Ok(true);
        }
        let bytes = (&self.socket).write(&unsent)?;
        unsent.drain(..bytes);
        Ok(unsent.is_empty())
    }
}

pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Whether the same may be tried again, if there is time.
pub(crate) fn is_no_failure(error: &io::Error) -> bool {
    is_timeout(error) || error.kind() == io::ErrorKind::Interrupted
}
