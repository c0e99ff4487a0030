//! A host made of a socket and bytes.

use crate::{HOST, NODE};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Where it is in a PDU.
pub const KIND: usize = 0;

/// CRC32C, bit by bit.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    })
}

/// A completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    pub word: u32,
    pub head: u16,
    pub queue: u16,
    pub id: u16,
    /// Type and code, without "do not retry".
    pub status: u16,
    pub do_not_retry: bool,
}

pub struct Wire {
    pub stream: TcpStream,
    header_digest: bool,
    data_digest: bool,
    /// Whether data digests cover zeros up to a multiple of four bytes, as SPDK's do.
    pub pads_digests: bool,
    next_id: u16,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

impl Wire {
    /// A socket, and nothing said yet.
    pub fn raw(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Wire { stream, header_digest: false, data_digest: false, pads_digests: false, next_id: 0 }
    }

    /// An opened connection without digests, if the target keeps it.
    pub fn try_open(address: SocketAddr) -> Option<Self> {
        let mut wire = Wire::raw(address);
        let mut request = [0u8; 128];
        request[..8].copy_from_slice(&[0, 0, 128, 0, 128, 0, 0, 0]);
        wire.stream.write_all(&request).ok()?;
        wire.stream.read_exact(&mut [0; 128]).ok()?;
        Some(wire)
    }

    /// An opened connection: digests as in ICReq, bit 0 header, bit 1 data.
    pub fn open(address: SocketAddr, digests: u8) -> Self {
        let mut wire = Wire::raw(address);
        let mut request = [0u8; 128];
        request[..8].copy_from_slice(&[0, 0, 128, 0, 128, 0, 0, 0]);
        request[11] = digests;
        wire.stream.write_all(&request).unwrap();
        let mut response = [0u8; 128];
        wire.stream.read_exact(&mut response).unwrap();
        assert_eq!(response[..8], [1, 0, 128, 0, 128, 0, 0, 0]);
        assert_eq!((response[10], response[11]), (0, digests), "CPDA, and the digests asked for");
        assert_eq!(u32_at(&response, 12) % 4, 0);
        wire.header_digest = digests & 1 != 0;
        wire.data_digest = digests & 2 != 0;
        wire
    }

    /// Admin queue of a controller that runs.
    pub fn admin(address: SocketAddr, digests: u8) -> (Self, u16) {
        let mut wire = Wire::open(address, digests);
        let done = wire.connect(NODE, HOST, 0xffff, 0, 31, 0);
        assert_eq!(done.status, 0, "{done:?}");
        wire.enable();
        (wire, done.word as u16)
    }

    /// Admin and I/O queue.
    pub fn queues(address: SocketAddr, digests: u8) -> (Self, Self) {
        let (admin, controller) = Wire::admin(address, digests);
        (admin, Wire::io(address, digests, controller, 1))
    }

    pub fn io(address: SocketAddr, digests: u8, controller: u16, queue: u16) -> Self {
        let mut wire = Wire::open(address, digests);
        let done = wire.connect(NODE, HOST, controller, queue, 127, 0);
        assert_eq!((done.status, done.queue), (0, queue), "{done:?}");
        wire
    }

    pub fn connect(
        &mut self,
        node: &str,
        host: &str,
        controller: u16,
        queue: u16,
        entries_less_one: u16,
        keep_alive_ms: u32,
    ) -> Completion {
        let (sqe, data) = connect(node, host, controller, queue, entries_less_one, keep_alive_ms);
        self.with_data(sqe, &data)
    }

    pub fn connect_without_flow_control(
        &mut self,
        node: &str,
        host: &str,
        controller: u16,
        queue: u16,
    ) -> Completion {
        let (mut sqe, data) = connect(node, host, controller, queue, 127, 0);
        sqe[46] = 4;
        self.with_data(sqe, &data)
    }

    /// Writes CC, as Linux does, and reads CSTS.
    pub fn enable(&mut self) {
        self.set_property(0x14, 0x0046_0061);
        assert_eq!(self.get_property(0x1c, false).1, 1, "ready");
    }

    pub fn set_property(&mut self, offset: u32, value: u64) -> Completion {
        let mut sqe = entry(0x7f, 0);
        sqe[44..48].copy_from_slice(&offset.to_le_bytes());
        sqe[48..56].copy_from_slice(&value.to_le_bytes());
        self.plain(sqe)
    }

    pub fn get_property(&mut self, offset: u32, wide: bool) -> (Completion, u64) {
        let mut sqe = entry(0x7f, 0);
        sqe[4] = 4;
        sqe[40] = u8::from(wide);
        sqe[44..48].copy_from_slice(&offset.to_le_bytes());
        self.send(&mut sqe, &[]);
        let pdu = self.read();
        (completion(&pdu), u64::from_le_bytes(pdu[8..16].try_into().unwrap()))
    }

    /// Sends a command with data in its capsule, and reads the completion.
    pub fn with_data(&mut self, mut sqe: [u8; 64], data: &[u8]) -> Completion {
        in_capsule(&mut sqe, data.len());
        self.send(&mut sqe, data);
        self.completion()
    }

    /// Sends a command without data.
    pub fn plain(&mut self, mut sqe: [u8; 64]) -> Completion {
        self.send(&mut sqe, &[]);
        self.completion()
    }

    /// Sends a command that reads up to `bytes`: the data, if any comes, and the completion.
    pub fn reading(&mut self, mut sqe: [u8; 64], bytes: u32) -> (Vec<u8>, Completion) {
        by_transport(&mut sqe, bytes);
        let id = self.send(&mut sqe, &[]);
        self.answer(id)
    }

    /// Data and completion of command `id`.
    pub fn answer(&mut self, id: u16) -> (Vec<u8>, Completion) {
        let mut data = Vec::new();
        loop {
            let pdu = self.read();
            match pdu[KIND] {
                7 => {
                    assert_eq!(u16_at(&pdu, 8), id);
                    assert_eq!(u32_at(&pdu, 12) as usize, data.len(), "in order");
                    assert_eq!(pdu[1] & 8, 0, "the success flag, which loses DW0");
                    data.extend_from_slice(self.data_of(&pdu));
                    assert_ne!(pdu[1] & 4, 0, "all in one, and marked as the last");
                }
                5 => return (data, completion(&pdu)),
                other => panic!("a PDU of type {other}"),
            }
        }
    }

    /// The data of a data PDU, whose digest must match.
    pub fn data_of<'a>(&self, pdu: &'a [u8]) -> &'a [u8] {
        let (start, bytes) = (usize::from(pdu[3]), u32_at(pdu, 16) as usize);
        let data = &pdu[start..start + bytes];
        if self.data_digest {
            assert_eq!(u32_at(pdu, start + bytes), self.digest(data), "data digest");
        }
        data
    }

    /// Sends a capsule under a fresh id.
    pub fn send(&mut self, sqe: &mut [u8; 64], data: &[u8]) -> u16 {
        self.next_id += 1;
        sqe[2..4].copy_from_slice(&self.next_id.to_le_bytes());
        let pdu = self.capsule(sqe, data);
        self.stream.write_all(&pdu).unwrap();
        self.next_id
    }

    /// A capsule's bytes.
    pub fn capsule(&self, sqe: &[u8; 64], data: &[u8]) -> Vec<u8> {
        let mut pdu = vec![4, 0, 72, 0, 0, 0, 0, 0];
        pdu.extend_from_slice(sqe);
        self.seal(pdu, data)
    }

    /// H2CData.
    pub fn host_data(&self, id: u16, tag: u16, offset: u32, data: &[u8], last: bool) -> Vec<u8> {
        let mut pdu = vec![6, if last { 4 } else { 0 }, 24, 0, 0, 0, 0, 0];
        pdu.extend_from_slice(&id.to_le_bytes());
        pdu.extend_from_slice(&tag.to_le_bytes());
        pdu.extend_from_slice(&offset.to_le_bytes());
        pdu.extend_from_slice(&(data.len() as u32).to_le_bytes());
        pdu.extend_from_slice(&[0; 4]);
        self.seal(pdu, data)
    }

    /// Sends `bytes` that an R2T asked for, in data PDUs of 128 KiB.
    pub fn transfer(&mut self, id: u16, tag: u16, bytes: u32) {
        const PIECE_BYTES: u32 = 128 << 10;
        for offset in (0..bytes).step_by(PIECE_BYTES as usize) {
            let piece = vec![1; PIECE_BYTES.min(bytes - offset) as usize];
            let last = offset + piece.len() as u32 == bytes;
            let pdu = self.host_data(id, tag, offset, &piece, last);
            self.stream.write_all(&pdu).unwrap();
        }
    }

    /// Adds digests and data, and fills in flags, offset and length.
    fn seal(&self, mut pdu: Vec<u8>, data: &[u8]) -> Vec<u8> {
        let header_digest = if self.header_digest { 4 } else { 0 };
        let data_digest = if self.data_digest && !data.is_empty() { 4 } else { 0 };
        let start = pdu.len() + header_digest;
        pdu[1] |= u8::from(header_digest > 0) | u8::from(data_digest > 0) << 1;
        pdu[3] = if data.is_empty() { 0 } else { start as u8 };
        let total = (start + data.len() + data_digest) as u32;
        pdu[4..8].copy_from_slice(&total.to_le_bytes());
        if header_digest > 0 {
            let digest = crc32c(&pdu);
            pdu.extend_from_slice(&digest.to_le_bytes());
        }
        pdu.extend_from_slice(data);
        if data_digest > 0 {
            pdu.extend_from_slice(&self.digest(data).to_le_bytes());
        }
        pdu
    }

    fn digest(&self, data: &[u8]) -> u32 {
        match self.pads_digests {
            true => crc32c(&[data, &[0; 3][..(4 - data.len() % 4) % 4]].concat()),
            false => crc32c(data),
        }
    }

    /// The next PDU, whose header digest must match.
    pub fn read(&mut self) -> Vec<u8> {
        self.try_read().expect("the connection is open")
    }

    /// The next PDU, or none if the connection ends.
    pub fn try_read(&mut self) -> Option<Vec<u8>> {
        let mut pdu = vec![0; 8];
        self.stream.read_exact(&mut pdu).ok()?;
        pdu.resize(u32_at(&pdu, 4) as usize, 0);
        self.stream.read_exact(&mut pdu[8..]).ok()?;
        let header = usize::from(pdu[2]);
        if self.header_digest && pdu[KIND] != 3 {
            assert_eq!(pdu[1] & 1, 1);
            assert_eq!(u32_at(&pdu, header), crc32c(&pdu[..header]), "header digest");
        }
        Some(pdu)
    }

    pub fn completion(&mut self) -> Completion {
        let pdu = self.read();
        assert_eq!(pdu[KIND], 5, "a completion, not {pdu:?}");
        completion(&pdu)
    }

    /// The connection ends with a C2HTermReq: its status and information.
    pub fn terminated(&mut self) -> (u16, u32) {
        loop {
            let pdu = self.try_read().expect("a termination comes before the end");
            if pdu[KIND] == 3 {
                assert!(self.try_read().is_none(), "nothing comes behind it");
                return (u16_at(&pdu, 8), u32_at(&pdu, 10));
            }
        }
    }

    /// The connection ends, with or without a word.
    pub fn ends(&mut self) {
        while self.try_read().is_some() {}
        let mut byte = [0];
        let read = self.stream.read(&mut byte);
        let timed_out = read.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!timed_out, "it is still open");
    }
}

/// Connect, and its data.
pub fn connect(
    node: &str,
    host: &str,
    controller: u16,
    queue: u16,
    entries_less_one: u16,
    keep_alive_ms: u32,
) -> ([u8; 64], Vec<u8>) {
    let mut data = vec![0u8; 1024];
    data[..16].fill(9);
    data[16..18].copy_from_slice(&controller.to_le_bytes());
    data[256..256 + node.len()].copy_from_slice(node.as_bytes());
    data[512..512 + host.len()].copy_from_slice(host.as_bytes());
    let mut sqe = entry(0x7f, 0);
    sqe[4] = 1;
    sqe[42..44].copy_from_slice(&queue.to_le_bytes());
    sqe[44..46].copy_from_slice(&entries_less_one.to_le_bytes());
    sqe[48..52].copy_from_slice(&keep_alive_ms.to_le_bytes());
    (sqe, data)
}

fn completion(pdu: &[u8]) -> Completion {
    let field = u16_at(pdu, 22);
    Completion {
        word: u32_at(pdu, 8),
        head: u16_at(pdu, 16),
        queue: u16_at(pdu, 18),
        id: u16_at(pdu, 20),
        status: field >> 1 & 0x7ff,
        do_not_retry: field >> 15 != 0,
    }
}

/// A submission entry with opcode and namespace.
pub fn entry(opcode: u8, namespace: u32) -> [u8; 64] {
    let mut sqe = [0; 64];
    sqe[0] = opcode;
    sqe[1] = 0x40;
    sqe[4..8].copy_from_slice(&namespace.to_le_bytes());
    sqe
}

/// Says that the data is in the capsule.
pub fn in_capsule(sqe: &mut [u8; 64], bytes: usize) {
    sqe[24..40].fill(0);
    sqe[32..36].copy_from_slice(&(bytes as u32).to_le_bytes());
    sqe[39] = 0x01;
}

/// Says that the data is to be transferred.
pub fn by_transport(sqe: &mut [u8; 64], bytes: u32) {
    sqe[24..40].fill(0);
    sqe[32..36].copy_from_slice(&bytes.to_le_bytes());
    sqe[39] = 0x5a;
}

/// A command of the Key Value set on namespace 1.
pub fn key_command(opcode: u8, key: &[u8], bytes: u32, options: u8) -> [u8; 64] {
    let mut sqe = entry(opcode, 1);
    sqe[8..8 + key.len().min(8)].copy_from_slice(&key[..key.len().min(8)]);
    if key.len() > 8 {
        sqe[56..56 + key.len() - 8].copy_from_slice(&key[8..]);
    }
    sqe[40..44].copy_from_slice(&bytes.to_le_bytes());
    sqe[44] = key.len() as u8;
    sqe[45] = options;
    sqe
}

impl Wire {
    pub fn store(&mut self, key: &[u8], value: &[u8]) -> Completion {
        self.with_data(key_command(0x01, key, value.len() as u32, 0), value)
    }

    pub fn retrieve(&mut self, key: &[u8], bytes: u32) -> (Vec<u8>, Completion) {
        self.reading(key_command(0x02, key, bytes, 0), bytes)
    }

    /// Stores by R2T, in data PDUs of at most `piece` bytes.
    pub fn store_by_transfer(&mut self, key: &[u8], value: &[u8], piece: usize) -> Completion {
        let mut sqe = key_command(0x01, key, value.len() as u32, 0);
        by_transport(&mut sqe, value.len() as u32);
        self.write_by_transfer(sqe, value, piece)
    }

    /// Sends a command's data when it is asked for, in data PDUs of at most `piece` bytes.
    pub fn write_by_transfer(
        &mut self,
        mut sqe: [u8; 64],
        value: &[u8],
        piece: usize,
    ) -> Completion {
        let id = self.send(&mut sqe, &[]);
        let ready = self.read();
        assert_eq!((ready[KIND], u16_at(&ready, 8)), (9, id), "an R2T for this command");
        assert_eq!((u32_at(&ready, 12), u32_at(&ready, 16) as usize), (0, value.len()));
        let tag = u16_at(&ready, 10);
        let mut offset = 0;
        for piece in value.chunks(piece) {
            let last = offset + piece.len() == value.len();
            let pdu = self.host_data(id, tag, offset as u32, piece, last);
            self.stream.write_all(&pdu).unwrap();
            offset += piece.len();
        }
        self.completion()
    }
}

/// Bytes that differ from place to place.
pub fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3] ^ seed).collect()
}
