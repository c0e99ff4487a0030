//! A channel by s2n-tls.
//!
//! s2n reads and writes by two callbacks, which get a pointer to the channel's [`Pipes`]: bytes from
//! the peer and bytes for it. The socket is the caller's.

use crate::{HELLO_BYTES_MAX, HostKeys, Peer, TlsError};
use esker_nvme::auth::Hash;
use esker_nvme::tls::TlsPsk;
use s2n_tls::config::Config;
use s2n_tls::connection::Connection;
use s2n_tls::enums::{Blinding, Mode, PskHmac, Version};
use s2n_tls::{error, psk, security};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

mod pipes;

use pipes::Pipes;

/// A secure channel: of the peer's bytes it makes plain ones, and of plain ones bytes for the peer.
pub struct Channel {
    state: State,
    peer: Option<Peer>,
    is_established: bool,
}

enum State {
    /// A node's, until the host's first message is there.
    Gathers {
        keys: Arc<HostKeys>,
        bytes: Vec<u8>,
    },
    Runs(Box<Running>),
    /// It failed; what is left to send.
    Ended(Vec<u8>),
}

/// The fields are dropped in this order: s2n has a pointer to the pipes.
struct Running {
    connection: Connection,
    pipes: Pipes,
}

impl Channel {
    /// The node's end.
    pub fn server(keys: Arc<HostKeys>) -> Result<Self, TlsError> {
        Ok(Self::new(State::Gathers { keys, bytes: Vec::new() }))
    }

    /// The host's end, with the PSK that it offers. Its first output is there at once.
    pub fn client(psk: &TlsPsk) -> Result<Self, TlsError> {
        let running = Running::new(Mode::Client, psk).map_err(failed)?;
        Ok(Self::new(State::Runs(Box::new(running))))
    }

    fn new(state: State) -> Self {
        Channel { state, peer: None, is_established: false }
    }

    /// Takes what the socket received.
    pub fn feed(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Gathers { bytes: gathered, .. } => gathered.extend_from_slice(bytes),
            State::Runs(running) => running.pipes.feed(bytes),
            State::Ended(_) => {}
        }
    }

    /// Goes on with the handshake. Says whether it is complete.
    ///
    /// # Errors
    ///
    /// After an error there may be an alert to send, and nothing else can be done.
    pub fn handshake(&mut self) -> Result<bool, TlsError> {
        if let State::Gathers { keys, bytes } = &self.state {
            let Some(record) = record_bytes(bytes) else { return Ok(false) };
            if record > HELLO_BYTES_MAX {
                return Err(TlsError::Hello("it is too long"));
            }
            let Some(hello) = bytes.get(..record) else { return Ok(false) };
            let (psk, peer) = match keys.find(hello) {
                Ok(found) => found,
                Err(error) => {
                    self.state = State::Ended(alert(&error));
                    return Err(error);
                }
            };
            let mut running = Running::new(Mode::Server, &psk).map_err(failed)?;
            running.pipes.feed(bytes);
            self.peer = Some(peer);
            self.state = State::Runs(Box::new(running));
        }
        let State::Runs(running) = &mut self.state else { return Err(ended()) };
        if !self.is_established {
            match running.connection.poll_negotiate() {
                Poll::Pending => return Ok(false),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Err(self.end(&error)),
            }
            if running.connection.actual_protocol_version().ok() != Some(Version::TLS13) {
                self.state = State::Ended(Vec::new());
                return Err(TlsError::Failed("the peer does not speak TLS 1.3".to_owned()));
            }
            self.is_established = true;
        }
        Ok(true)
    }

    /// Whether a node's end has found the key that the host's first message proves. A host's end has its key.
    pub fn is_proved(&self) -> bool {
        matches!(self.state, State::Runs(_))
    }

    /// Whom a host has proved to be.
    pub fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref().filter(|_| self.is_established)
    }

    /// Decrypts into `out`. None: more has to come first. Zero bytes: the peer has ended it.
    ///
    /// # Errors
    ///
    /// As [`handshake`](Self::handshake); a record that was changed on its way is one.
    pub fn decrypt(&mut self, out: &mut [u8]) -> Result<Option<usize>, TlsError> {
        let State::Runs(running) = &mut self.state else { return Err(ended()) };
        match running.connection.poll_recv(out) {
            Poll::Pending => Ok(None),
            Poll::Ready(Ok(bytes)) => Ok(Some(bytes)),
            Poll::Ready(Err(error)) => Err(self.end(&error)),
        }
    }

    /// Encrypts all of `bytes`, to be sent.
    pub fn encrypt(&mut self, bytes: &[u8]) -> Result<(), TlsError> {
        let State::Runs(running) = &mut self.state else { return Err(ended()) };
        let mut rest = bytes;
        while !rest.is_empty() {
            match running.connection.poll_send(rest) {
                Poll::Ready(Ok(sent)) => rest = &rest[sent..],
                Poll::Ready(Err(error)) => return Err(self.end(&error)),
                // The pipe takes everything.
                Poll::Pending => {
                    return Err(TlsError::Failed("it cannot be written to".to_owned()));
                }
            }
        }
        Ok(())
    }

    /// Notifies the peer that nothing more comes.
    pub fn close(&mut self) {
        if let State::Runs(running) = &mut self.state {
            // What fails here ends by the connection's end.
            let _ = running.connection.poll_shutdown_send();
        }
    }

    /// What the socket is to send.
    pub fn take_output(&mut self) -> Vec<u8> {
        match &mut self.state {
            State::Gathers { .. } => Vec::new(),
            State::Runs(running) => running.pipes.take_output(),
            State::Ended(output) => std::mem::take(output),
        }
    }

    /// After an error: what is left is to send the alert.
    fn end(&mut self, error: &error::Error) -> TlsError {
        let alert = self.take_output();
        self.state = State::Ended(alert);
        failed_by(error)
    }
}

impl Running {
    fn new(mode: Mode, psk: &TlsPsk) -> Result<Self, error::Error> {
        let mut connection = Connection::new(mode);
        connection.set_config(config()?)?;
        // A failed connection is closed at once: how long that took tells nothing.
        connection.set_blinding(Blinding::SelfService)?;
        connection.prefer_throughput()?;
        let TlsPsk { identity, hash, secret } = psk;
        let mut psk = psk::Psk::builder()?;
        psk.set_identity(identity.as_bytes())?.set_secret(secret)?.set_hmac(match hash {
            Hash::Sha256 => PskHmac::SHA256,
            _ => PskHmac::SHA384,
        })?;
        connection.append_psk(&psk.build()?)?;
        let pipes = Pipes::attach(&mut connection)?;
        let mut running = Running { connection, pipes };
        if mode == Mode::Client
            && let Poll::Ready(Err(error)) = running.connection.poll_negotiate()
        {
            return Err(error);
        }
        Ok(running)
    }
}

/// Made once: it has no certificates.
fn config() -> Result<Config, error::Error> {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let mut builder = Config::builder();
    builder.with_system_certs(false)?.set_security_policy(&security::DEFAULT_TLS13)?;
    Ok(CONFIG.get_or_init(|| builder.build().expect("the settings above")).clone())
}

/// How many bytes a record has, if its head is there.
fn record_bytes(bytes: &[u8]) -> Option<usize> {
    let length = bytes.get(3..5)?;
    Some(5 + usize::from(u16::from_be_bytes([length[0], length[1]])))
}

/// A record that says why the first message is refused (RFC 8446, 6.2).
fn alert(error: &TlsError) -> Vec<u8> {
    const FATAL: u8 = 2;
    const DECODE_ERROR: u8 = 50;
    const UNKNOWN_PSK_IDENTITY: u8 = 115;
    let what = match error {
        TlsError::UnknownKey => UNKNOWN_PSK_IDENTITY,
        _ => DECODE_ERROR,
    };
    vec![21, 3, 3, 0, 2, FATAL, what]
}

fn failed(error: error::Error) -> TlsError {
    failed_by(&error)
}

fn failed_by(error: &error::Error) -> TlsError {
    TlsError::Failed(error.message().to_owned())
}

fn ended() -> TlsError {
    TlsError::Failed("it has ended".to_owned())
}

#[cfg(test)]
mod tests;
