//! A socket, with TLS or without.
//!
//! One thread reads at a time, and one writes; both may at once. Only the channel between is locked,
//! and never while the socket is waited for.

use crate::deadline::Deadline;
use crate::link::{is_no_failure, lost};
use crate::{RemoteError, Settings};
use esker_nvme::Nqn;
use esker_tls::{Channel, TlsError, client_psks};
use parking_lot::Mutex;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;

/// Plain bytes that are encrypted at a time: some records.
const PIECE_BYTES: usize = 64 << 10;

const HANDSHAKE_CLOSED: &str = "the node closed it during the TLS handshake; it may have no TLS, \
                                or too many handshakes in progress";

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

    /// The same by TLS, if there is a key: for `subsystem`, whose name is in the key's identity.
    pub(crate) fn open(
        socket: TcpStream,
        settings: &Settings,
        subsystem: &Nqn,
        deadline: &Deadline,
    ) -> Result<Self, RemoteError> {
        let Some(key) = &settings.tls_key else { return Ok(Self::clear(socket)) };
        let address = settings.address.to_string();
        let failed =
            |error: TlsError| RemoteError::Tls { address: address.clone(), why: error.to_string() };
        let psks = client_psks(key, &settings.host, subsystem);
        let channel = Channel::client(&psks).map_err(failed)?;
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
                Err(error) if !is_no_failure(&error) => return Err(lost(&address, &error)),
                _ => {}
            }
            match (&wire.socket).read(&mut piece) {
                Ok(0) => {
                    return Err(RemoteError::Lost { address, why: HANDSHAKE_CLOSED.to_owned() });
                }
                Ok(bytes) => tls.channel.lock().feed(&piece[..bytes]),
                Err(error) if is_no_failure(&error) => {}
                Err(error) => return Err(lost(&address, &error)),
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
