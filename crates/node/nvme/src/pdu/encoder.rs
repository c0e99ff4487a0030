//! Builds PDUs into a buffer that its owner empties, so that nothing is allocated once it has grown. Data is
//! not copied: its PDU's head and tail are built around it, to be sent with it in one call.

use super::header::{DATA_DIGEST, HEADER_DIGEST, LAST, PduKind, put_header};
use super::scanner::padded_digest;
use super::termination::put_fatal;
use super::{
    DIGEST_BYTES, DataHeader, Digests, FatalError, ReadyToTransfer, TERM_BYTES_MAX, capsule,
};
use crate::command::{Cqe, Sqe};
use esker_base::checksum::crc32c;

/// Builds the PDUs of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Encoder {
    digests: Digests,
    /// Data starts at a multiple of this.
    alignment: usize,
    /// Whether data digests cover zeros up to a multiple of four bytes, too.
    pads: bool,
}

const HEADER_BYTES_MAX: usize = 128;

impl Encoder {
    /// An encoder for what a connection agreed on. `data_alignment` is the receiver's HPDA or CPDA.
    pub fn new(digests: Digests, data_alignment: u8) -> Self {
        Encoder { digests, alignment: (usize::from(data_alignment) + 1) * 4, pads: false }
    }

    /// From now on computes data digests as a peer does that sent a
    /// [padded](super::DataDigest::Padded) one.
    pub fn pad_digests(&mut self) {
        self.pads = true;
    }

    /// A completion.
    pub fn response(&self, cqe: &Cqe, out: &mut Vec<u8>) {
        self.without_data(PduKind::Response, out, |header| capsule::put_response(header, cqe));
    }

    /// A request for data.
    pub fn ready_to_transfer(&self, ready: &ReadyToTransfer, out: &mut Vec<u8>) {
        self.without_data(PduKind::ReadyToTransfer, out, |header| ready.put(header));
    }

    /// A command, up to its in-capsule data. If `data_bytes` is not zero, that many and
    /// [`data_tail`](Self::data_tail) follow.
    pub fn command(&self, sqe: &Sqe, data_bytes: usize, out: &mut Vec<u8>) {
        let fill = |header: &mut [u8]| capsule::put_command(header, sqe);
        if data_bytes == 0 {
            self.without_data(PduKind::Command, out, fill);
        } else {
            self.before_data(PduKind::Command, 0, data_bytes, out, fill);
        }
    }

    /// The head of a controller's data PDU. The data and [`data_tail`](Self::data_tail) follow.
    pub fn controller_data(&self, data: &DataHeader, last: bool, out: &mut Vec<u8>) {
        self.data(PduKind::ControllerData, data, last, out);
    }

    /// The head of a host's data PDU. The data and [`data_tail`](Self::data_tail) follow.
    pub fn host_data(&self, data: &DataHeader, last: bool, out: &mut Vec<u8>) {
        self.data(PduKind::HostData, data, last, out);
    }

    fn data(&self, kind: PduKind, data: &DataHeader, last: bool, out: &mut Vec<u8>) {
        let last = if last { LAST } else { 0 };
        self.before_data(kind, last, data.bytes as usize, out, |header| data.put(header));
    }

    /// What follows `data`: its digest, if there is one.
    pub fn data_tail(&self, data: &[u8], out: &mut Vec<u8>) {
        if self.digests.data {
            let digest = if self.pads { padded_digest(data) } else { crc32c(data) };
            out.extend_from_slice(&digest.to_le_bytes());
        }
    }

    fn header_end(&self, kind: PduKind) -> usize {
        kind.header_bytes() + if self.digests.header { DIGEST_BYTES } else { 0 }
    }

    fn header_flags(&self) -> u8 {
        if self.digests.header { HEADER_DIGEST } else { 0 }
    }

    fn without_data(&self, kind: PduKind, out: &mut Vec<u8>, fill: impl FnOnce(&mut [u8])) {
        let mut header = [0; HEADER_BYTES_MAX];
        put_header(&mut header, kind, self.header_flags(), 0, self.header_end(kind) as u32);
        fill(&mut header);
        self.append(&header[..kind.header_bytes()], out);
    }

    fn before_data(
        &self,
        kind: PduKind,
        flags: u8,
        data_bytes: usize,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut [u8]),
    ) {
        let (data_flag, digest) =
            if self.digests.data { (DATA_DIGEST, DIGEST_BYTES) } else { (0, 0) };
        let header_end = self.header_end(kind);
        let offset = header_end.next_multiple_of(self.alignment);
        let flags = flags | self.header_flags() | data_flag;
        let mut header = [0; HEADER_BYTES_MAX];
        let bytes = offset + data_bytes + digest;
        put_header(&mut header, kind, flags, offset as u8, bytes as u32);
        fill(&mut header);
        self.append(&header[..kind.header_bytes()], out);
        out.resize(out.len() + offset - header_end, 0);
    }

    fn append(&self, header: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(header);
        if self.digests.header {
            out.extend_from_slice(&crc32c(header).to_le_bytes());
        }
    }

    /// A controller's last PDU: it says why, and repeats the header that it complains about.
    pub fn controller_termination(fatal: &FatalError, header: &[u8], out: &mut Vec<u8>) {
        Self::termination(PduKind::ControllerTermination, fatal, header, out);
    }

    /// A host's last PDU.
    pub fn host_termination(fatal: &FatalError, header: &[u8], out: &mut Vec<u8>) {
        Self::termination(PduKind::HostTermination, fatal, header, out);
    }

    fn termination(kind: PduKind, fatal: &FatalError, about: &[u8], out: &mut Vec<u8>) {
        let own = kind.header_bytes();
        let about = &about[..about.len().min(TERM_BYTES_MAX - own)];
        let mut header = [0; HEADER_BYTES_MAX];
        put_header(&mut header, kind, 0, 0, (own + about.len()) as u32);
        put_fatal(&mut header, fatal);
        out.extend_from_slice(&header[..own]);
        out.extend_from_slice(about);
    }
}
