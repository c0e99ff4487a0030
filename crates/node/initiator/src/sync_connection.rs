//! A connection with one command at a time: how every queue begins, and all that an admin queue needs.

use crate::deadline::{Deadline, WAIT_TIME, left};
use crate::wire::{Wire, is_no_failure};
use crate::{RemoteError, Settings};
use esker_base::Clock;
use esker_nvme::command::Sgl;
use esker_nvme::command::fabrics::{Connect, ConnectData, FabricsCommand};
use esker_nvme::pdu::{
    ControllerPdu, DataHeader, Decoder, Encoder, InitializeRequest, Limits, ReadyToTransfer, Sender,
};
use esker_nvme::tls::TlsPsk;
use esker_nvme::{Cqe, Nqn, Sqe, Status};
use esker_tls::client_psks;
use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::time::Duration;

/// Data that one PDU of a controller may carry: all that a command can ask for.
pub(crate) const LIMITS: Limits = Limits { command_data_bytes: 0, data_bytes: 2 << 20 };

pub(crate) struct SyncConnection {
    pub(crate) wire: Wire,
    /// What the node knows the host by, if it is by TLS.
    psk: Option<TlsPsk>,
    pub(crate) address: String,
    /// Of all that is done with it.
    pub(crate) deadline: Deadline,
    pub(crate) decoder: Decoder,
    pub(crate) encoder: Encoder,
    /// The most data of one H2CData.
    pub(crate) data_bytes_max: usize,
    /// The most data of a capsule.
    pub(crate) capsule_bytes: usize,
    next_id: u16,
}

/// Capsules of an admin queue, and of a Connect, carry this much whatever the controller says later.
const ADMIN_CAPSULE_BYTES: usize = 8192;

impl SyncConnection {
    /// Connects a socket and agrees on digests.
    ///
    /// A node that looks for one identity of a TLS key only, as Linux does, may know the key by
    /// another one. So each is tried, on a connection of its own.
    pub(crate) fn open(
        settings: &Settings,
        subsystem: &Nqn,
        deadline: &Deadline,
    ) -> Result<Self, RemoteError> {
        let Some(key) = &settings.tls_key else {
            return Self::begin(settings, None, deadline)?.initialize(settings);
        };
        let mut refused = RemoteError::Deadline;
        for psk in client_psks(key, &settings.host, subsystem) {
            match Self::begin(settings, Some(psk), deadline) {
                Ok(link) => return link.initialize(settings),
                Err(error @ (RemoteError::Tls { .. } | RemoteError::Lost { .. })) => {
                    refused = error;
                }
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }

    /// The same once more, by the identity that the node accepted.
    pub(crate) fn open_another(
        &self,
        settings: &Settings,
        deadline: &Deadline,
    ) -> Result<Self, RemoteError> {
        Self::begin(settings, self.psk.clone(), deadline)?.initialize(settings)
    }

    fn begin(
        settings: &Settings,
        psk: Option<TlsPsk>,
        deadline: &Deadline,
    ) -> Result<Self, RemoteError> {
        let address = settings.address.to_string();
        let unreachable = |source| RemoteError::Unreachable {
            address: address.clone(),
            source: std::sync::Arc::new(source),
        };
        let socket =
            TcpStream::connect_timeout(&settings.address, deadline.left()?).map_err(unreachable)?;
        socket.set_nodelay(true).map_err(unreachable)?;
        socket.set_read_timeout(Some(WAIT_TIME)).map_err(unreachable)?;
        socket.set_write_timeout(Some(WAIT_TIME)).map_err(unreachable)?;
        let wire = match &psk {
            Some(psk) => Wire::secure(socket, psk, &address, deadline)?,
            None => Wire::clear(socket),
        };
        Ok(SyncConnection {
            wire,
            psk,
            address,
            deadline: deadline.clone(),
            decoder: Decoder::new(Sender::Controller, LIMITS),
            encoder: Encoder::new(settings.digests, 0),
            data_bytes_max: 0,
            capsule_bytes: ADMIN_CAPSULE_BYTES,
            next_id: 0,
        })
    }

    /// Agrees on digests.
    fn initialize(mut self, settings: &Settings) -> Result<Self, RemoteError> {
        let request = InitializeRequest {
            data_alignment: 0,
            digests: settings.digests,
            ready_to_transfer_max: 1,
        };
        let request = Outgoing { head: request.encode().to_vec(), data: &[], tail: Vec::new() };
        self.write(&[request])?;
        let response = loop {
            if let Some(frame) = self.decoder.next_frame()? {
                match ControllerPdu::parse(&frame)? {
                    ControllerPdu::Initialize(response) => break response,
                    ControllerPdu::Terminate(by) => return Err(RemoteError::terminated(by)),
                    _ => return Err(unexpected("another PDU than ICResp")),
                }
            }
            self.fill()?;
        };
        if response.digests != settings.digests {
            return Err(unexpected("digests that this host did not ask for"));
        }
        self.decoder.agreed(response.digests);
        self.encoder = Encoder::new(response.digests, response.data_alignment);
        self.data_bytes_max = response.host_data_bytes_max as usize;
        Ok(self)
    }

    /// Makes the connection a queue. Says which controller it belongs to, and whether to authenticate.
    pub(crate) fn connect(
        &mut self,
        settings: &Settings,
        subsystem: &Nqn,
        controller: u16,
        connect: Connect,
    ) -> Result<u32, RemoteError> {
        let data = ConnectData {
            host_id: settings.host_id,
            controller,
            subsystem: subsystem.clone(),
            host: settings.host.clone(),
        };
        let sqe = FabricsCommand::Connect(connect).encode();
        let (cqe, _) = self.call("connect", sqe, &data.encode(), 0)?;
        Ok(cqe.word())
    }

    /// Sends a command, with `data` or to get up to `reads` bytes, and waits for its success.
    pub(crate) fn call(
        &mut self,
        action: &'static str,
        mut sqe: Sqe,
        data: &[u8],
        reads: u32,
    ) -> Result<(Cqe, Vec<u8>), RemoteError> {
        self.next_id = self.next_id.wrapping_add(1);
        let id = self.next_id;
        sqe.set_command_id(id);
        let out = command(&self.encoder, self.capsule_bytes, &mut sqe, data, reads);
        self.write(&[out])?;
        let mut read = Vec::new();
        loop {
            let Some(frame) = self.decoder.next_frame()? else {
                self.fill()?;
                continue;
            };
            match ControllerPdu::parse(&frame)? {
                ControllerPdu::Data { header, payload, success, .. } if header.command_id == id => {
                    if !payload.is_intact() || header.offset as usize != read.len() {
                        return Err(unexpected("data that is damaged or out of order"));
                    }
                    if read.len() + payload.bytes.len() > reads as usize {
                        return Err(unexpected("more data than was asked for"));
                    }
                    read.extend_from_slice(payload.bytes);
                    // Linux sends no completion then.
                    if success {
                        return Ok((Cqe::new(id, Status::SUCCESS), read));
                    }
                }
                ControllerPdu::Response(cqe) if cqe.command_id() == id => {
                    let status = cqe.status();
                    return match status.is_success() {
                        true => Ok((cqe, read)),
                        false => Err(RemoteError::Refused { action, status }),
                    };
                }
                ControllerPdu::Terminate(by) => return Err(RemoteError::terminated(by)),
                ControllerPdu::ReadyToTransfer(ready) if ready.command_id == id => {
                    let out = transfer(&self.encoder, self.data_bytes_max, &ready, data)?;
                    self.write(&out)?;
                }
                _ => return Err(unexpected("a PDU that no command asked for")),
            }
        }
    }

    fn write(&mut self, pdus: &[Outgoing<'_>]) -> Result<(), RemoteError> {
        let Deadline { clock, at } = &self.deadline;
        let written = write_all(&self.wire, &self.address, pdus, &**clock, *at);
        written.map_err(|unwritten| unwritten.error)
    }

    /// Reads once, if anything comes.
    fn fill(&mut self) -> Result<(), RemoteError> {
        self.deadline.left()?;
        match self.wire.read(self.decoder.space()) {
            Ok(0) => Err(closed(&self.address)),
            Ok(bytes) => {
                self.decoder.filled(bytes);
                Ok(())
            }
            Err(error) if is_no_failure(&error) => Ok(()),
            Err(error) => Err(lost(&self.address, &error)),
        }
    }
}

/// A PDU to be written: its data is not copied.
pub(crate) struct Outgoing<'a> {
    head: Vec<u8>,
    data: &'a [u8],
    tail: Vec<u8>,
}

/// Why not all was written, and whether some of it was: then it is unknown where the next PDU would begin.
#[derive(Debug)]
pub(crate) struct UnsentCommand {
    pub(crate) error: RemoteError,
    pub(crate) is_begun: bool,
}

/// Writes all of `pdus` by `at`, however slowly the node takes them.
pub(crate) fn write_all(
    wire: &Wire,
    address: &str,
    pdus: &[Outgoing<'_>],
    clock: &dyn Clock,
    at: Duration,
) -> Result<(), UnsentCommand> {
    let mut is_begun = false;
    let check = |is_begun| left(clock, at).map_err(|error| UnsentCommand { error, is_begun });
    for pdu in pdus {
        let mut parts = [&pdu.head[..], pdu.data, &pdu.tail].map(IoSlice::new);
        let mut parts = &mut parts[..];
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            check(is_begun)?;
            let error = match wire.write(parts) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(bytes) => {
                    is_begun = true;
                    IoSlice::advance_slices(&mut parts, bytes);
                    continue;
                }
                Err(error) if is_no_failure(&error) => continue,
                Err(error) => error,
            };
            return Err(UnsentCommand { error: lost(address, &error), is_begun });
        }
    }
    loop {
        match wire.flush() {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) if is_no_failure(&error) => {}
            Err(error) => return Err(UnsentCommand { error: lost(address, &error), is_begun }),
        }
        check(is_begun)?;
    }
}

/// The capsule of a command: with its data, if that fits.
pub(crate) fn command<'a>(
    encoder: &Encoder,
    capsule_bytes: usize,
    sqe: &mut Sqe,
    data: &'a [u8],
    reads: u32,
) -> Outgoing<'a> {
    let in_capsule = data.len() <= capsule_bytes && !data.is_empty();
    sqe.set_sgl(match (data.len(), in_capsule) {
        (0, _) => Sgl::Transport { bytes: reads },
        (bytes, true) => Sgl::InCapsule { offset: 0, bytes: bytes as u32 },
        (bytes, false) => Sgl::Transport { bytes: bytes as u32 },
    });
    let data = if in_capsule { data } else { &[] };
    let (mut head, mut tail) = (Vec::with_capacity(128), Vec::new());
    encoder.command(sqe, data.len(), &mut head);
    if in_capsule {
        encoder.data_tail(data, &mut tail);
    }
    Outgoing { head, data, tail }
}

/// The data PDUs that answer an R2T.
pub(crate) fn transfer<'a>(
    encoder: &Encoder,
    data_bytes_max: usize,
    ready: &ReadyToTransfer,
    data: &'a [u8],
) -> Result<Vec<Outgoing<'a>>, RemoteError> {
    let start = ready.offset as usize;
    let asked = data.get(start..).and_then(|rest| rest.get(..ready.bytes as usize));
    let asked = asked.filter(|asked| !asked.is_empty());
    let asked = asked.ok_or(unexpected("an R2T for more data than the command has"))?;
    let pieces = asked.chunks(data_bytes_max);
    let count = pieces.len();
    let pdu = |(number, data): (usize, &'a [u8])| {
        let header = DataHeader {
            command_id: ready.command_id,
            transfer_tag: ready.transfer_tag,
            offset: (start + number * data_bytes_max) as u32,
            bytes: data.len() as u32,
        };
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        encoder.host_data(&header, number + 1 == count, &mut head);
        encoder.data_tail(data, &mut tail);
        Outgoing { head, data, tail }
    };
    Ok(pieces.enumerate().map(pdu).collect())
}

pub(crate) fn unexpected(what: &str) -> RemoteError {
    RemoteError::Protocol { what: what.to_owned() }
}

pub(crate) fn lost(address: &str, error: &io::Error) -> RemoteError {
    RemoteError::Lost { address: address.to_owned(), why: error.to_string() }
}

pub(crate) fn closed(address: &str) -> RemoteError {
    RemoteError::Lost { address: address.to_owned(), why: "the node closed it".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::SystemClock;
    use esker_nvme::pdu::{Digests, InitializeResponse};
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};

    /// As Linux's node does, because the host asks for no flow control.
    #[test]
    fn data_may_say_that_no_completion_follows() {
        const SUCCESS: u8 = 1 << 3;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let nqn = Nqn::new("nqn.2024-01.io.esker:any").unwrap();
        let settings = Settings::new(listener.local_addr().unwrap(), nqn.clone(), nqn.clone());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let deadline = Deadline::after(&clock, Duration::from_secs(5));
        let digests = Digests::default();
        let response = InitializeResponse { data_alignment: 0, digests, host_data_bytes_max: 4096 };
        let header = DataHeader { command_id: 1, transfer_tag: 0, offset: 0, bytes: 16 };
        let mut data = Vec::new();
        Encoder::new(digests, 0).controller_data(&header, true, &mut data);
        data[1] |= SUCCESS;
        data.extend([7; 16]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut node, _) = listener.accept().unwrap();
                node.read_exact(&mut [0; 128]).unwrap();
                node.write_all(&response.encode()).unwrap();
                node.read_exact(&mut [0; 72]).unwrap();
                node.write_all(&data).unwrap();
                // Until the host has read it.
                let _ = node.read(&mut [0]);
            });
            let mut link = SyncConnection::open(&settings, &nqn, &deadline).unwrap();
            let (cqe, read) = link.call("read", Sqe::new(2, 0), &[], 16).unwrap();
            assert!(cqe.status().is_success());
            assert_eq!(read, [7; 16]);
        });
    }

    /// Each inspection of this clock takes a second, and some of what a peer was sent.
    struct Draining(Mutex<(TcpStream, Duration)>);

    impl Clock for Draining {
        fn now(&self) -> Duration {
            let (peer, time) = &mut *self.0.lock().unwrap();
            let _ = peer.read(&mut vec![0; 1 << 20]);
            *time += Duration::from_secs(1);
            *time
        }
        fn sleep(&self, _duration: Duration) {}
    }

    #[test]
    fn a_node_that_takes_data_slowly_is_given_up_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        socket.set_write_timeout(Some(Duration::from_millis(1))).unwrap();
        let (peer, _) = listener.accept().unwrap();
        peer.set_nonblocking(true).unwrap();
        let clock = Draining(Mutex::new((peer, Duration::ZERO)));
        let data = vec![7; 64 << 20];
        let pdu = Outgoing { head: vec![1; 24], data: &data, tail: Vec::new() };
        let at = Duration::from_secs(5);
        let outcome = write_all(&Wire::clear(socket), "the node", &[pdu], &clock, at);
        let is_late =
            matches!(outcome, Err(UnsentCommand { error: RemoteError::Deadline, is_begun: true }));
        assert!(is_late, "{outcome:?}");
        assert_eq!(clock.now(), at + Duration::from_secs(1));
    }
}
