//! What a node sends on an I/O queue, taken as this host takes it, without a socket: for the fuzz target, and its short run among the tests.

use crate::RemoteError;
use crate::command_table::{CommandTable, NextStep};
use crate::sync_connection::{LIMITS, transfer, unexpected};
use esker_nvme::auth::message::Message;
use esker_nvme::command::kv;
use esker_nvme::identify::{self, IDENTIFY_BYTES};
use esker_nvme::log_page::parse_discovery;
use esker_nvme::pdu::{ControllerPdu, Decoder, Digests, Encoder, Sender};

/// Commands in progress. Those with even places read, the others write.
const DEPTH: u16 = 4;

/// What each reads or writes, at most.
const DATA_BYTES: usize = 9000;

/// The longest PDU of a node, with its header, both digests and what comes between.
const PDU_BYTES_MAX: usize = (2 << 20) + 256;

/// Takes `stream`, the first byte of which says which digests this host asks for and how the others are cut. Says how many commands were
/// completed before it ended, or was not the protocol any more.
pub fn answers(stream: &[u8]) -> usize {
    let Some((&first, stream)) = stream.split_first() else { return 0 };
    let digests = Digests { header: first & 1 != 0, data: first & 2 != 0 };
    let cut = usize::from(first >> 2) * 16 + 1;
    let mut host = Host::new(digests);
    for piece in stream.chunks(cut) {
        let mut rest = piece;
        while !rest.is_empty() {
            rest = &rest[host.decoder.push(rest)..];
            if host.take().is_err() {
                return host.completed;
            }
        }
        assert!(host.decoder.memory_bytes() <= 2 * PDU_BYTES_MAX, "the buffer is bounded");
    }
    host.completed
}

struct Host {
    digests: Digests,
    decoder: Decoder,
    slots: CommandTable,
    /// Once the connection is open, with the most data of one H2CData.
    encoder: Option<(Encoder, usize)>,
    completed: usize,
}

impl Host {
    fn new(digests: Digests) -> Self {
        let mut slots = CommandTable::new(DEPTH);
        while slots.take(DATA_BYTES).is_some() {}
        let decoder = Decoder::new(Sender::Controller, LIMITS);
        Host { digests, decoder, slots, encoder: None, completed: 0 }
    }

    fn take(&mut self) -> Result<(), RemoteError> {
        while let Some(frame) = self.decoder.next_frame()? {
            let pdu = ControllerPdu::parse(&frame)?;
            let Some((encoder, data_bytes_max)) = self.encoder else {
                let ControllerPdu::Initialize(response) = pdu else {
                    return Err(unexpected("another PDU than ICResp"));
                };
                if response.digests != self.digests {
                    return Err(unexpected("digests that this host did not ask for"));
                }
                self.decoder.agreed(response.digests);
                let encoder = Encoder::new(response.digests, response.data_alignment);
                self.encoder = Some((encoder, response.host_data_bytes_max as usize));
                continue;
            };
            let Some(place) = self.slots.received(pdu)? else { continue };
            match self.slots.next(place)? {
                NextStep::Transfer(ready) => {
                    let data = vec![7; if place % 2 == 1 { DATA_BYTES } else { 0 }];
                    transfer(&encoder, data_bytes_max, &ready, &data)?;
                }
                NextStep::Done { data, .. } => {
                    assert!(data.len() <= DATA_BYTES, "no more than was asked for");
                    read(&data);
                    self.completed += 1;
                    assert_eq!(self.slots.take(DATA_BYTES), Some(place), "its place is free");
                }
                NextStep::Wait => {}
            }
        }
        Ok(())
    }
}

/// Reads data as any that a host asks for.
fn read(data: &[u8]) {
    let _ = (kv::listed(data).count(), parse_discovery(data).is_ok(), Message::parse(data).is_ok());
    if let Some(structure) = data.first_chunk::<IDENTIFY_BYTES>() {
        let _ = identify::Controller::parse(structure).is_ok();
        let _ = (identify::KvNamespace::parse(structure), identify::NvmNamespace::parse(structure));
        let _ = identify::command_set_of(structure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;
    use esker_nvme::pdu::{DataHeader, FatalError, InitializeResponse, ReadyToTransfer};
    use esker_nvme::{Cqe, Status};

    const ROUNDS: u64 = 10_000;

    /// All that a node may send: the commands of places 0 and 2 read, 1 and 3 write.
    fn conversation(first: u8) -> Vec<u8> {
        let digests = Digests { header: first & 1 != 0, data: first & 2 != 0 };
        let response = InitializeResponse { data_alignment: 0, digests, host_data_bytes_max: 4096 };
        let mut out = vec![first];
        out.extend_from_slice(&response.encode());
        let encoder = Encoder::new(digests, 0);
        for (command_id, bytes) in [(0, 4096u32), (2, 9000), (0, 16)] {
            let half = bytes / 2;
            for offset in [0, half] {
                let data = vec![command_id as u8; half as usize];
                let header = DataHeader { command_id, transfer_tag: 0, offset, bytes: half };
                encoder.controller_data(&header, offset > 0, &mut out);
                out.extend_from_slice(&data);
                encoder.data_tail(&data, &mut out);
            }
            encoder.response(&Cqe::new(command_id, Status::SUCCESS), &mut out);
        }
        for command_id in [1, 3] {
            let ready = ReadyToTransfer { command_id, transfer_tag: 9, offset: 0, bytes: 9000 };
            encoder.ready_to_transfer(&ready, &mut out);
            encoder.response(&Cqe::new(command_id, Status::CAPACITY_EXCEEDED), &mut out);
        }
        let fatal = FatalError::sequence("enough");
        Encoder::controller_termination(&fatal, &[4; 72], &mut out);
        out
    }

    /// An opened connection, then data for command 0 in these pieces, each at its offset, and its completion.
    fn data(pieces: &[(u32, u32)]) -> Vec<u8> {
        let digests = Digests::default();
        let response = InitializeResponse { data_alignment: 0, digests, host_data_bytes_max: 4096 };
        let mut out = vec![0xfc];
        out.extend_from_slice(&response.encode());
        let encoder = Encoder::new(digests, 0);
        for &(offset, bytes) in pieces {
            let header = DataHeader { command_id: 0, transfer_tag: 0, offset, bytes };
            encoder.controller_data(&header, true, &mut out);
            out.resize(out.len() + bytes as usize, 7);
        }
        encoder.response(&Cqe::new(0, Status::SUCCESS), &mut out);
        out
    }

    #[test]
    fn data_that_was_not_asked_for_is_refused() {
        let all = DATA_BYTES as u32;
        assert_eq!(answers(&data(&[(0, all)])), 1);
        assert_eq!(answers(&data(&[(0, 16), (16, all - 16)])), 1);
        for pieces in
            [[(0, all), (all, 16)], [(0, 16), (16, all)], [(0, 16), (0, 16)], [(0, 16), (32, 16)]]
        {
            assert_eq!(answers(&data(&pieces)), 0, "{pieces:?}");
        }
        assert_eq!(answers(&data(&[(16, 16)])), 0);
    }

    /// Where the PDUs begin.
    fn starts(conversation: &[u8]) -> Vec<usize> {
        let (mut starts, mut at) = (Vec::new(), 1);
        while at < conversation.len() {
            starts.push(at);
            at += u32::from_le_bytes(conversation[at + 4..at + 8].try_into().unwrap()) as usize;
        }
        starts
    }

    #[test]
    fn what_a_node_sends_is_taken_however_it_is_cut() {
        for first in 0..=255 {
            assert_eq!(answers(&conversation(first)), 5, "{first}");
        }
    }

    #[test]
    fn damaged_answers_are_taken_or_refused() {
        let mut rng = Rng::new(7);
        let mut cut_short = 0;
        for round in 0..ROUNDS {
            let mut bytes = conversation(round as u8);
            let starts = starts(&bytes);
            for _ in 0..=rng.below(3) {
                // Most of it in headers: of data every byte is like any other.
                let start = starts[rng.below(starts.len() as u64) as usize];
                let at = (start + rng.below(28) as usize).min(bytes.len() - 1);
                match rng.below(5) {
                    0 => bytes[at] ^= 1 << rng.below(8),
                    1 => bytes[at] = rng.next_u64() as u8,
                    2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.below(5) as usize],
                    3 => drop(bytes.drain(at..(at + 1 + rng.below(40) as usize).min(bytes.len()))),
                    _ => {
                        let pdu = bytes[start..(start + 200).min(bytes.len())].to_vec();
                        bytes.splice(at..at, pdu);
                    }
                }
            }
            cut_short += u64::from(answers(&bytes) < 5);
        }
        assert!(cut_short > ROUNDS / 4, "most damage is noticed: {cut_short}");
    }
}
