//! A node in this process, and a host that keeps many commands in progress on one connection, by one thread.
#![allow(dead_code, reason = "each example uses a part of it")]

use esker_base::{Background, Rng, SystemClock, SystemEntropy, Threads};
use esker_hashstore::device::FileDevice;
use esker_hashstore::{CreateSettings, store_file};
use esker_node::HashKeys;
use esker_nvme::command::Sgl;
use esker_nvme::command::fabrics::{ANY_CONTROLLER, Connect, ConnectData, FabricsCommand};
use esker_nvme::command::kv::{Condition, Key, KvCommand};
use esker_nvme::pdu::{
    ControllerPdu, Decoder, Digests, Encoder, InitializeRequest, Limits, Sender,
};
use esker_nvme::property::{self, Configuration};
use esker_nvme::{Cqe, Nqn, Sqe};
use esker_target::{Namespace, Subsystem, Target};
use rustix::time::{ClockId, clock_gettime};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub const NODE: &str = "nqn.2024-01.io.esker:node";
const HOST: &str = "nqn.measure";
/// Stores on their way at a time, where there are many.
const STORED_TOGETHER: u16 = 64;

pub type Failure = Box<dyn std::error::Error>;

/// The two ends of a connection.
pub fn connected() -> Result<[TcpStream; 2], Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    for socket in [&near, &far] {
        socket.set_nodelay(true)?;
    }
    Ok([near, far])
}

pub fn hash_store(path: &Path, bytes: u64) -> Result<HashKeys, Failure> {
    hash_store_with(path, bytes, false)
}

pub fn hash_store_with(
    path: &Path,
    bytes: u64,
    has_volatile_cache: bool,
) -> Result<HashKeys, Failure> {
    let device = FileDevice::create(path, Some(bytes))?;
    store_file::create(&device, &CreateSettings::default(), &mut Rng::new(1))?;
    drop(device);
    Ok(HashKeys::open([2; 16], path, has_volatile_cache)?)
}

pub fn serve(namespaces: Vec<Arc<dyn Namespace>>) -> Result<Target, Failure> {
    let nqn = Nqn::new(NODE)?;
    let subsystem = Subsystem::new(nqn, "MEASURE", namespaces);
    let settings = esker_target::Settings::new("127.0.0.1:0".parse()?)
        .reactors(1)
        .drain_time(Duration::from_secs(5))
        .memory_bytes(esker_target::limits::MEMORY_BYTES)
        .subsystems(vec![subsystem]);
    let background: Arc<dyn Background> = Arc::new(Threads);
    let clock = Arc::new(SystemClock::new());
    Ok(Target::start(settings, clock, Arc::new(SystemEntropy), &background)?)
}

/// The processor time that this process has had, and that this thread has.
pub fn busy() -> [Duration; 2] {
    [ClockId::ProcessCPUTime, ClockId::ThreadCPUTime].map(|clock| {
        let time = clock_gettime(clock);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    })
}

/// The value in the middle, and the one that one in a hundred is above.
pub fn percentiles(times: &mut [Duration]) -> (Duration, Duration) {
    times.sort();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

/// A connection that was opened and connected.
pub struct Queue {
    pub socket: TcpStream,
    decoder: Decoder,
    encoder: Encoder,
    out: Vec<u8>,
}

impl Queue {
    /// An admin queue of a controller that runs, and an I/O queue.
    pub fn pair(address: SocketAddr) -> Result<(Self, Self), Failure> {
        let mut admin = Queue::open(address)?;
        let controller = admin.connect(0, ANY_CONTROLLER)?.word() as u16;
        let (offset, value) = (property::CONFIGURATION, Configuration::START.0.into());
        admin.call(FabricsCommand::PropertySet { offset, value }.encode(), &[])?;
        let mut io = Queue::open(address)?;
        io.connect(1, controller)?;
        Ok((admin, io))
    }

    fn open(address: SocketAddr) -> Result<Self, Failure> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let limits = Limits { command_data_bytes: 0, data_bytes: 2 << 20 };
        let decoder = Decoder::new(Sender::Controller, limits);
        let encoder = Encoder::new(Digests::default(), 0);
        let mut queue = Queue { socket, decoder, encoder, out: Vec::new() };
        let digests = Digests::default();
        let request = InitializeRequest { data_alignment: 0, digests, ready_to_transfer_max: 1 };
        queue.socket.write_all(&request.encode())?;
        while queue.decoder.next_frame().map_err(|error| error.to_string())?.is_none() {
            queue.fill()?;
        }
        Ok(queue)
    }

    fn connect(&mut self, queue: u16, controller: u16) -> Result<Cqe, Failure> {
        let (host, subsystem) = (Nqn::new(HOST)?, Nqn::new(NODE)?);
        let data = ConnectData { host_id: [9; 16], controller, subsystem, host };
        let connect =
            Connect { queue, entries_less_one: 127, no_flow_control: true, keep_alive_ms: 0 };
        self.call(FabricsCommand::Connect(connect).encode(), &data.encode())
    }

    /// A command with data in its capsule, alone.
    pub fn call(&mut self, sqe: Sqe, data: &[u8]) -> Result<Cqe, Failure> {
        self.put(sqe, data);
        self.send()?;
        let mut answer = None;
        while answer.is_none() {
            self.receive(|cqe| answer = Some(cqe))?;
        }
        answer.ok_or_else(|| "no answer".into())
    }

    fn put(&mut self, mut sqe: Sqe, data: &[u8]) {
        if !data.is_empty() {
            sqe.set_sgl(Sgl::InCapsule { offset: 0, bytes: data.len() as u32 });
        }
        self.encoder.command(&sqe, data.len(), &mut self.out);
        self.out.extend_from_slice(data);
    }

    pub fn store(&mut self, namespace: u32, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.put_store(namespace, 0, key, value);
        self.finish(1)
    }

    /// Stores many keys, of which not all wait for each other.
    pub fn store_all(
        &mut self,
        namespace: u32,
        keys: impl Iterator<Item = [u8; 8]>,
        value: &[u8],
    ) -> Result<(), Failure> {
        let mut keys = keys.peekable();
        while keys.peek().is_some() {
            let mut count = 0;
            for (id, key) in (0..STORED_TOGETHER).zip(&mut keys) {
                self.put_store(namespace, id, &key, value);
                count += 1;
            }
            self.finish(count)?;
        }
        Ok(())
    }

    fn put_store(&mut self, namespace: u32, id: u16, key: &[u8], value: &[u8]) {
        let key = Key::new(key).expect("a key of up to 16 bytes");
        let bytes = value.len() as u32;
        let mut sqe =
            KvCommand::Store { key, bytes, condition: Condition::Always }.encode(namespace);
        sqe.set_command_id(id);
        self.put(sqe, value);
    }

    /// Sends what is to be sent, and waits until `count` commands are done.
    fn finish(&mut self, count: usize) -> Result<(), Failure> {
        self.send()?;
        let mut done = 0;
        while done < count {
            self.receive(|_| done += 1)?;
        }
        Ok(())
    }

    /// Puts a retrieve of up to `bytes` behind what is to be sent.
    pub fn retrieve(&mut self, namespace: u32, id: u16, key: &[u8], bytes: u32) {
        let key = Key::new(key).expect("a key of up to 16 bytes");
        let mut sqe = KvCommand::Retrieve { key, bytes }.encode(namespace);
        sqe.set_command_id(id);
        sqe.set_sgl(Sgl::Transport { bytes });
        self.encoder.command(&sqe, 0, &mut self.out);
    }

    pub fn send(&mut self) -> Result<(), Failure> {
        self.socket.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// What was to be sent, to be sent otherwise.
    pub fn take_unsent(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Reads once, and hands out the completions that came, all of which must be of success. A socket that does not block
    /// may have nothing.
    pub fn receive(&mut self, mut done: impl FnMut(Cqe)) -> Result<(), Failure> {
        self.fill()?;
        while let Some(frame) = self.decoder.next_frame().map_err(|error| error.to_string())? {
            match ControllerPdu::parse(&frame).map_err(|error| error.to_string())? {
                ControllerPdu::Response(cqe) if cqe.status().is_success() => done(cqe),
                ControllerPdu::Data { .. } => {}
                other => return Err(format!("{other:?}").into()),
            }
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<(), Failure> {
        match self.socket.read(self.decoder.space()) {
            Ok(0) => Err("the node closed the connection".into()),
            Ok(bytes) => {
                self.decoder.filled(bytes);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
