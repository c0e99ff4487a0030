//! A connection that carries messages. One thread uses it.

use crate::error::{ReplicationError, Result};
use crate::message::{Decoder, Message};
use esker_base::Clock;
use esker_nvme::tls::TlsPsk;
use esker_tls::{Channel, HANDSHAKE, HostKeys, Peer, TlsError};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a read or a write of the socket waits before it is looked whether to stop.
const WAIT: Duration = Duration::from_millis(100);

/// What one read of the socket takes.
const READ_BYTES: usize = 64 << 10;

/// A peer that takes nothing for so long is gone.
const STUCK: Duration = Duration::from_secs(60);

/// Asks the thread of a connection to end.
#[derive(Clone, Default, Debug)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Sleeps, or returns sooner if it is set.
    pub(crate) fn sleep(&self, clock: &dyn Clock, time: Duration) {
        let until = clock.now().saturating_add(time);
        while !self.is_set() {
            let left = until.saturating_sub(clock.now());
            if left.is_zero() {
                return;
            }
            clock.sleep(left.min(WAIT));
        }
    }
}

pub(crate) struct Wire {
    socket: TcpStream,
    address: String,
    /// What encrypts, if anything does.
    tls: Option<Channel>,
    decoder: Decoder,
    clock: Arc<dyn Clock>,
    stop: Stop,
    /// When the peer must have said who it is, until it has.
    deadline: Option<Duration>,
    /// Bytes that were received.
    pub(crate) received: u64,
    /// Bytes that were sent.
    pub(crate) sent: u64,
}

impl Wire {
    pub(crate) fn new(
        socket: TcpStream,
        peer: SocketAddr,
        clock: Arc<dyn Clock>,
        stop: Stop,
    ) -> Result<Wire> {
        let address = peer.to_string();
        let failed = |source| ReplicationError::Unreachable {
            action: "use the connection to",
            address: peer.to_string(),
            source: Arc::new(source),
        };
        socket.set_nonblocking(false).map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        socket.set_read_timeout(Some(WAIT)).map_err(failed)?;
        socket.set_write_timeout(Some(WAIT)).map_err(failed)?;
        let decoder = Decoder::default();
        let (tls, deadline, received, sent) = (None, None, 0, 0);
        Ok(Wire { socket, address, tls, decoder, clock, stop, deadline, received, sent })
    }

    /// Has calls that receive fail once this time is over, however much arrives. `None`: no longer.
    pub(crate) fn set_deadline(&mut self, timeout: Option<Duration>) {
        self.deadline = timeout.map(|timeout| self.clock.now().saturating_add(timeout));
    }

    fn check_deadline(&self) -> Result<()> {
        match self.deadline {
            Some(deadline) if self.clock.now() > deadline => {
                Err(self.lost("the peer took too long to say who it is"))
            }
            _ => Ok(()),
        }
    }

    /// Comes before what has arrived: a peer that never stops sending would keep this side from ending.
    fn check_stop(&self) -> Result<()> {
        match self.stop.is_set() {
            true => Err(self.lost("it was stopped")),
            false => Ok(()),
        }
    }

    /// Has the follower prove by TLS who it is, if it begins so.
    pub(crate) fn accept_tls(&mut self, keys: HostKeys, timeout: Duration) -> Result<()> {
        let since = self.clock.now();
        let mut first = [0];
        loop {
            match self.socket.peek(&mut first) {
                Ok(0) => return Err(self.lost("the peer closed it")),
                Ok(_) if first[0] == HANDSHAKE => break,
                Ok(_) => return Ok(()),
                Err(error) if is_no_failure(error.kind()) => self.check_waits(since, timeout)?,
                Err(error) => return Err(self.lost(error)),
            }
        }
        let channel = Channel::server(Arc::new(keys)).map_err(tls_failed)?;
        self.shake_hands(channel, timeout)
    }

    /// Proves by TLS that this is the host of `psk`.
    pub(crate) fn begin_tls(&mut self, psk: &TlsPsk, timeout: Duration) -> Result<()> {
        self.shake_hands(Channel::client(psk).map_err(tls_failed)?, timeout)
    }

    /// Whom the follower has proved to be by TLS.
    pub(crate) fn peer(&self) -> Option<&Peer> {
        self.tls.as_ref().and_then(Channel::peer)
    }

    /// Whether the connection is encrypted.
    pub(crate) fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    fn shake_hands(&mut self, mut channel: Channel, timeout: Duration) -> Result<()> {
        let since = self.clock.now();
        let mut bytes = [0; READ_BYTES];
        loop {
            self.check_deadline()?;
            let is_done = channel.handshake();
            // After an error, too: an alert says why.
            self.write(&channel.take_output())?;
            if is_done.map_err(tls_failed)? {
                self.tls = Some(channel);
                return Ok(());
            }
            match self.socket.read(&mut bytes) {
                Ok(0) => return Err(self.lost("the peer closed it during the TLS handshake")),
                Ok(count) => channel.feed(&bytes[..count]),
                Err(error) if is_no_failure(error.kind()) => self.check_waits(since, timeout)?,
                Err(error) => return Err(self.lost(error)),
            }
        }
    }

    fn check_waits(&self, since: Duration, timeout: Duration) -> Result<()> {
        self.check_stop()?;
        match self.clock.now().saturating_sub(since) > timeout {
            true => Err(self.lost("the peer sends nothing any more")),
            false => Ok(()),
        }
    }

    /// Whether this side is asked to end the connection.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_set()
    }

    /// Accepts long messages from now on.
    pub(crate) fn trust(&mut self) {
        self.decoder.trust();
    }

    pub(crate) fn send(&mut self, message: &Message) -> Result<()> {
        self.check_stop()?;
        let bytes = message.encode();
        match &mut self.tls {
            None => self.write(&bytes)?,
            Some(channel) => {
                for part in bytes.chunks(READ_BYTES) {
                    channel.encrypt(part).map_err(tls_failed)?;
                }
                let sealed = channel.take_output();
                self.write(&sealed)?;
            }
        }
        self.sent += bytes.len() as u64;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let (mut rest, mut since) = (bytes, self.clock.now());
        while !rest.is_empty() {
            match self.socket.write(rest) {
                Ok(0) => return Err(self.lost("the peer closed it")),
                Ok(written) => {
                    rest = &rest[written..];
                    since = self.clock.now();
                }
                Err(error) if is_no_failure(error.kind()) => {
                    self.check_stop()?;
                    if self.clock.now().saturating_sub(since) > STUCK {
                        return Err(self.lost("the peer takes nothing any more"));
                    }
                }
                Err(error) => return Err(self.lost(error)),
            }
        }
        Ok(())
    }

    /// Sends why this side does not go on, if the peer takes it at once.
    pub(crate) fn refuse(&mut self, why: impl ToString) {
        let mut bytes = Message::Refuse(why.to_string()).encode();
        if let Some(channel) = &mut self.tls {
            bytes = match channel.encrypt(&bytes) {
                Ok(()) => channel.take_output(),
                Err(_) => return,
            };
        }
        // What fails here fails after the connection did.
        let _ = self.socket.write_all(&bytes);
    }

    /// Waits for the next message, for `timeout` at most.
    pub(crate) fn receive(&mut self, timeout: Duration) -> Result<Message> {
        let mut since = self.clock.now();
        loop {
            self.check_stop()?;
            if let Some(message) = self.decoded()? {
                return Ok(message);
            }
            self.check_deadline()?;
            match self.fill()? {
                true => since = self.clock.now(),
                false if self.clock.now().saturating_sub(since) > timeout => {
                    return Err(self.lost("the peer sends nothing any more"));
                }
                false => {}
            }
        }
    }

    /// Returns the next message if it has arrived.
    pub(crate) fn try_receive(&mut self) -> Result<Option<Message>> {
        self.check_stop()?;
        if let Some(message) = self.decoded()? {
            return Ok(Some(message));
        }
        self.block(false)?;
        let filled = self.fill();
        self.block(true)?;
        filled?;
        self.decoded()
    }

    /// The error for a message that has no place here.
    pub(crate) fn unexpected(&self, message: &Message, expected: &str) -> ReplicationError {
        self.broken(format!("it sent {}, where {expected} was expected", message.what()))
    }

    pub(crate) fn broken(&self, what: impl Into<String>) -> ReplicationError {
        ReplicationError::Protocol { address: self.address.clone(), what: what.into() }
    }

    fn lost(&self, why: impl ToString) -> ReplicationError {
        ReplicationError::Lost { address: self.address.clone(), why: why.to_string() }
    }

    fn block(&self, blocks: bool) -> Result<()> {
        self.socket.set_nonblocking(!blocks).map_err(|error| self.lost(error))
    }

    fn decoded(&mut self) -> Result<Option<Message>> {
        match self.decoder.next_message() {
            Ok(Some(Message::Refuse(why))) => {
                Err(ReplicationError::Refused { address: self.address.clone(), why })
            }
            Ok(message) => Ok(message),
            Err(bad) => Err(self.broken(bad.to_string())),
        }
    }

    /// Decrypts what there is. Returns whether there was anything.
    fn decrypt(&mut self) -> Result<bool> {
        let Some(channel) = &mut self.tls else { return Ok(false) };
        let (mut bytes, mut any) = ([0; READ_BYTES], false);
        while let Some(count) = channel.decrypt(&mut bytes).map_err(tls_failed)? {
            if count == 0 {
                return Err(self.lost("the peer closed it"));
            }
            self.decoder.feed(&bytes[..count]);
            any = true;
        }
        Ok(any)
    }

    /// Reads once. Returns whether anything came.
    fn fill(&mut self) -> Result<bool> {
        // It may have come with the handshake.
        if self.decrypt()? {
            return Ok(true);
        }
        let mut bytes = [0; READ_BYTES];
        match self.socket.read(&mut bytes) {
            Ok(0) => Err(self.lost("the peer closed it")),
            Ok(count) => {
                self.received += count as u64;
                match &mut self.tls {
                    None => self.decoder.feed(&bytes[..count]),
                    Some(channel) => channel.feed(&bytes[..count]),
                }
                self.decrypt()?;
                Ok(true)
            }
            Err(error) if is_no_failure(error.kind()) => Ok(false),
            Err(error) => Err(self.lost(error)),
        }
    }
}

fn tls_failed(error: TlsError) -> ReplicationError {
    ReplicationError::Authentication { why: error.to_string() }
}

fn is_no_failure(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::SystemClock;
    use parking_lot::Mutex;
    use std::net::TcpListener;

    /// Two ends of a connection.
    fn connected() -> (TcpStream, TcpStream, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, address) = listener.accept().unwrap();
        (peer, socket, address)
    }

    /// A second passes at each look, and the peer sends one more byte in it.
    struct Trickle {
        peer: Mutex<TcpStream>,
        bytes: Vec<u8>,
        looks: Mutex<usize>,
    }

    impl Clock for Trickle {
        fn now(&self) -> Duration {
            let mut looks = self.looks.lock();
            if let Some(byte) = self.bytes.get(*looks) {
                self.peer.lock().write_all(&[*byte]).unwrap();
            }
            *looks += 1;
            Duration::from_secs(*looks as u64)
        }

        fn sleep(&self, _duration: Duration) {}
    }

    /// It is never silent for long, and would take hours to say who it is.
    #[test]
    fn a_peer_that_trickles_is_not_waited_for() {
        let (peer, socket, address) = connected();
        let bytes = Message::Data(vec![7; 4_000]).encode();
        let clock = Trickle { peer: Mutex::new(peer), bytes, looks: Mutex::new(0) };
        let mut wire = Wire::new(socket, address, Arc::new(clock), Stop::default()).unwrap();
        wire.set_deadline(Some(Duration::from_secs(20)));
        let error = wire.receive(Duration::from_secs(10)).unwrap_err().to_string();
        assert!(error.contains("took too long to say who it is"), "{error}");
    }

    #[test]
    fn what_arrives_does_not_keep_a_connection_from_its_stop() {
        let (mut peer, socket, address) = connected();
        peer.write_all(&Message::Applied { through: 1 }.encode().repeat(9)).unwrap();
        let (clock, stop) = (Arc::new(SystemClock::new()), Stop::default());
        let mut wire = Wire::new(socket, address, clock, stop.clone()).unwrap();
        let forever = Duration::from_secs(600);
        assert!(matches!(wire.receive(forever), Ok(Message::Applied { through: 1 })));
        stop.set();
        assert!(matches!(wire.try_receive(), Err(ReplicationError::Lost { .. })));
        assert!(matches!(wire.receive(forever), Err(ReplicationError::Lost { .. })));
    }
}
