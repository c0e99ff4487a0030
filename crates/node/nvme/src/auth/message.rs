//! The messages' bytes (Base 8.3.4.5.1 to 8.3.4.5.7).
//!
//! Every message starts with type, id, two reserved bytes and the transaction's number. Lengths in a message are
//! checked against the bytes that are there before anything is read by them.

use super::group::Group;
use super::hash::{HASH_BYTES_MAX, Hash};
use crate::le_fields::{put_u16, put_u32, u16_at, u32_at};

/// Message types: common to all protocols, and DH-HMAC-CHAP's.
const COMMON: u8 = 0;
const DHCHAP: u8 = 1;

mod id {
    pub const NEGOTIATE: u8 = 0x00;
    pub const CHALLENGE: u8 = 0x01;
    pub const REPLY: u8 = 0x02;
    pub const SUCCESS1: u8 = 0x03;
    pub const SUCCESS2: u8 = 0x04;
    pub const FAILURE2: u8 = 0xf0;
    pub const FAILURE1: u8 = 0xf1;
}

/// Ids in one list of a protocol descriptor.
const LIST_IDS_MAX: usize = 30;

/// A protocol descriptor's length: 4 bytes, and two lists.
const DESCRIPTOR_BYTES: usize = 4 + 2 * LIST_IDS_MAX;

/// Why authentication failed (the explanation; the reason is always "failed").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Failure {
    /// The response is not the right one.
    Failed = 1,
    /// No protocol that both know.
    NoProtocol = 2,
    /// A secure channel was asked for that is not available.
    Channel = 3,
    /// No hash that both know.
    NoHash = 4,
    /// No group that both know.
    NoGroup = 5,
    /// A message with bytes that are not right.
    Payload = 6,
    /// A message that does not come at this point.
    Message = 7,
}

/// Negotiate: what the host can do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Negotiate {
    /// T_ID.
    pub transaction: u16,
    /// SC_C: the secure channel wanted afterwards; 0 for none.
    pub channel: u8,
    /// Hashes, the preferred first; those not known here are left out.
    pub hashes: Vec<Hash>,
    /// Groups, the preferred first; those not known here are left out.
    pub groups: Vec<Group>,
}

/// Challenge: what the controller chose, and asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Challenge {
    /// T_ID.
    pub transaction: u16,
    /// The hash chosen.
    pub hash: Hash,
    /// The group chosen.
    pub group: Group,
    /// SEQNUM.
    pub sequence: u32,
    /// As many bytes as the hash has.
    pub challenge: Vec<u8>,
    /// The controller's public key; as many bytes as the group has.
    pub public: Vec<u8>,
}

/// Reply: the host's response, and perhaps a challenge of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// T_ID.
    pub transaction: u16,
    /// SEQNUM of the host's challenge.
    pub sequence: u32,
    /// The response.
    pub response: Vec<u8>,
    /// The host's challenge, if the controller is to prove itself, too.
    pub challenge: Option<Vec<u8>>,
    /// The host's public key; empty without a group.
    pub public: Vec<u8>,
}

/// Success1: the host is who it says; perhaps the controller's response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Success1 {
    /// T_ID.
    pub transaction: u16,
    /// The hash's length.
    pub hash_bytes: u8,
    /// The response to the host's challenge.
    pub response: Option<Vec<u8>>,
}

/// Any message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// From the host, first.
    Negotiate(Negotiate),
    /// From the controller.
    Challenge(Challenge),
    /// From the host.
    Reply(Reply),
    /// From the controller.
    Success1(Success1),
    /// From the host, T_ID: the controller's response is right.
    Success2(u16),
    /// From the controller, T_ID and why.
    Failure1(u16, Failure),
    /// From the host, T_ID and why.
    Failure2(u16, Failure),
}

impl Message {
    /// Reads a message, or says what to answer to one that can't be read.
    pub fn parse(data: &[u8]) -> Result<Self, Failure> {
        if data.len() < 8 {
            return Err(Failure::Payload);
        }
        let transaction = u16_at(data, 4);
        match (data[0], data[1]) {
            (COMMON, id::NEGOTIATE) => Negotiate::parse(data).map(Message::Negotiate),
            (DHCHAP, id::CHALLENGE) => Challenge::parse(data).map(Message::Challenge),
            (DHCHAP, id::REPLY) => Reply::parse(data).map(Message::Reply),
            (DHCHAP, id::SUCCESS1) => Success1::parse(data).map(Message::Success1),
            (DHCHAP, id::SUCCESS2) => Ok(Message::Success2(transaction)),
            (COMMON, id::FAILURE1) => Ok(Message::Failure1(transaction, Failure::of(data[7]))),
            (COMMON, id::FAILURE2) => Ok(Message::Failure2(transaction, Failure::of(data[7]))),
            _ => Err(Failure::Message),
        }
    }

    /// The message's bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Message::Negotiate(message) => message.encode(),
            Message::Challenge(message) => message.encode(),
            Message::Reply(message) => message.encode(),
            Message::Success1(message) => message.encode(),
            Message::Success2(transaction) => head(DHCHAP, id::SUCCESS2, *transaction, 16),
            Message::Failure1(transaction, why) => why.encode(id::FAILURE1, *transaction),
            Message::Failure2(transaction, why) => why.encode(id::FAILURE2, *transaction),
        }
    }
}

fn head(kind: u8, id: u8, transaction: u16, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    out[0] = kind;
    out[1] = id;
    put_u16(&mut out, 4, transaction);
    out
}

impl Failure {
    fn of(number: u8) -> Self {
        match number {
            2 => Failure::NoProtocol,
            3 => Failure::Channel,
            4 => Failure::NoHash,
            5 => Failure::NoGroup,
            6 => Failure::Payload,
            7 => Failure::Message,
            _ => Failure::Failed,
        }
    }

    fn encode(self, id: u8, transaction: u16) -> Vec<u8> {
        const REASON_FAILED: u8 = 1;
        let mut out = head(COMMON, id, transaction, 8);
        out[6] = REASON_FAILED;
        out[7] = self as u8;
        out
    }
}

impl Negotiate {
    fn parse(data: &[u8]) -> Result<Self, Failure> {
        let descriptors = data[8..].chunks_exact(DESCRIPTOR_BYTES).take(usize::from(data[7]));
        let descriptor = descriptors
            .clone()
            .find(|descriptor| descriptor[0] == DHCHAP)
            .ok_or(if descriptors.len() == 0 { Failure::Payload } else { Failure::NoProtocol })?;
        let (hashes, groups) = (usize::from(descriptor[2]), usize::from(descriptor[3]));
        if hashes > LIST_IDS_MAX || groups > LIST_IDS_MAX {
            return Err(Failure::Payload);
        }
        let (first, second) = descriptor[4..].split_at(LIST_IDS_MAX);
        Ok(Negotiate {
            transaction: u16_at(data, 4),
            channel: data[6],
            hashes: first[..hashes].iter().filter_map(|&id| Hash::of(id)).collect(),
            groups: second[..groups].iter().filter_map(|&id| Group::of(id)).collect(),
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = head(COMMON, id::NEGOTIATE, self.transaction, 8 + DESCRIPTOR_BYTES);
        out[6] = self.channel;
        out[7] = 1;
        out[8] = DHCHAP;
        out[10] = self.hashes.len() as u8;
        out[11] = self.groups.len() as u8;
        for (place, &hash) in out[12..].iter_mut().zip(&self.hashes) {
            *place = hash as u8;
        }
        for (place, &group) in out[12 + LIST_IDS_MAX..].iter_mut().zip(&self.groups) {
            *place = group as u8;
        }
        out
    }
}

/// Splits `lengths` off `data` behind the first 16 bytes.
fn parts<const N: usize>(data: &[u8], lengths: [usize; N]) -> Result<[Vec<u8>; N], Failure> {
    let mut rest = data.get(16..).ok_or(Failure::Payload)?;
    let mut out = [const { Vec::new() }; N];
    for (part, length) in out.iter_mut().zip(lengths) {
        let (own, after) = rest.split_at_checked(length).ok_or(Failure::Payload)?;
        *part = own.to_vec();
        rest = after;
    }
    Ok(out)
}

/// The hash length of a message whose fixed part is there.
fn hash_bytes(data: &[u8]) -> Result<usize, Failure> {
    if data.len() < 16 || usize::from(data[6]) > HASH_BYTES_MAX {
        return Err(Failure::Payload);
    }
    Ok(usize::from(data[6]))
}

impl Challenge {
    fn parse(data: &[u8]) -> Result<Self, Failure> {
        let length = hash_bytes(data)?;
        let hash = Hash::of(data[8]).ok_or(Failure::NoHash)?;
        let group = Group::of(data[9]).ok_or(Failure::NoGroup)?;
        let public_bytes = usize::from(u16_at(data, 10));
        if length != hash.bytes() || public_bytes != group.bytes() {
            return Err(Failure::Payload);
        }
        let [challenge, public] = parts(data, [length, public_bytes])?;
        let (transaction, sequence) = (u16_at(data, 4), u32_at(data, 12));
        Ok(Challenge { transaction, hash, group, sequence, challenge, public })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = head(DHCHAP, id::CHALLENGE, self.transaction, 16);
        out[6] = self.challenge.len() as u8;
        out[8] = self.hash as u8;
        out[9] = self.group as u8;
        put_u16(&mut out, 10, self.public.len() as u16);
        put_u32(&mut out, 12, self.sequence);
        out.extend_from_slice(&self.challenge);
        out.extend_from_slice(&self.public);
        out
    }
}

impl Reply {
    fn parse(data: &[u8]) -> Result<Self, Failure> {
        let length = hash_bytes(data)?;
        let challenged = data[8] & 1 != 0;
        let public_bytes = usize::from(u16_at(data, 10));
        let [response, challenge, public] = parts(data, [length, length, public_bytes])?;
        Ok(Reply {
            transaction: u16_at(data, 4),
            sequence: u32_at(data, 12),
            response,
            challenge: challenged.then_some(challenge),
            public,
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = head(DHCHAP, id::REPLY, self.transaction, 16);
        out[6] = self.response.len() as u8;
        out[8] = u8::from(self.challenge.is_some());
        put_u16(&mut out, 10, self.public.len() as u16);
        put_u32(&mut out, 12, self.sequence);
        out.extend_from_slice(&self.response);
        match &self.challenge {
            Some(challenge) => out.extend_from_slice(challenge),
            None => out.resize(out.len() + self.response.len(), 0),
        }
        out.extend_from_slice(&self.public);
        out
    }
}

impl Success1 {
    fn parse(data: &[u8]) -> Result<Self, Failure> {
        let length = hash_bytes(data)?;
        let response = if data[8] & 1 != 0 {
            let [response] = parts(data, [length])?;
            Some(response)
        } else {
            None
        };
        Ok(Success1 { transaction: u16_at(data, 4), hash_bytes: data[6], response })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = head(DHCHAP, id::SUCCESS1, self.transaction, 16);
        out[6] = self.hash_bytes;
        out[8] = u8::from(self.response.is_some());
        match &self.response {
            Some(response) => out.extend_from_slice(response),
            None => out.resize(16 + usize::from(self.hash_bytes), 0),
        }
        out
    }
}
