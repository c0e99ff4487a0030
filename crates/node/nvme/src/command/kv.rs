//! The Key Value command set (CSI 1): store, retrieve, list, delete, exist (KV 3.2).
//!
//! A key has 1 to 16 bytes: the first eight are in CDW2 and CDW3, the others in CDW14 and CDW15, its length in
//! CDW11. CDW10 is the length of the value or of the host's buffer.

use super::Sqe;
use crate::Status;
use crate::le_fields::u16_at;
use crate::limits::KEY_BYTES;
use esker_base::coding::u32_at;

/// The opcodes.
pub mod opcode {
    /// Flush, which all I/O command sets have (Base 7.1).
    pub const FLUSH: u8 = 0x00;
    /// Store.
    pub const STORE: u8 = 0x01;
    /// Retrieve.
    pub const RETRIEVE: u8 = 0x02;
    /// List.
    pub const LIST: u8 = 0x06;
    /// Delete.
    pub const DELETE: u8 = 0x10;
    /// Exist.
    pub const EXIST: u8 = 0x14;

    /// All of them, for the log page that lists what is supported.
    pub const ALL: [u8; 6] = [FLUSH, STORE, RETRIEVE, LIST, DELETE, EXIST];
}

/// A key as commands carry it: up to 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Key {
    bytes: [u8; KEY_BYTES],
    length: u8,
}

impl Key {
    /// A key of 1 to 16 bytes; none for other lengths.
    pub fn new(key: &[u8]) -> Option<Self> {
        if key.is_empty() || key.len() > KEY_BYTES {
            return None;
        }
        let mut bytes = [0; KEY_BYTES];
        bytes[..key.len()].copy_from_slice(key);
        Some(Key { bytes, length: key.len() as u8 })
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The key in a command. `None` is no key, which only List may have.
    fn parse(sqe: &Sqe) -> Result<Option<Self>, Status> {
        let length = sqe.word(11) as u8;
        if usize::from(length) > KEY_BYTES {
            return Err(Status::INVALID_KEY_SIZE);
        }
        let mut bytes = [0; KEY_BYTES];
        bytes[..8].copy_from_slice(&sqe.0[8..16]);
        bytes[8..].copy_from_slice(&sqe.0[56..64]);
        // What stands behind the key's end is not part of it.
        bytes[usize::from(length)..].fill(0);
        Ok((length > 0).then_some(Key { bytes, length }))
    }

    fn put(&self, sqe: &mut Sqe) {
        sqe.0[8..16].copy_from_slice(&self.bytes[..8]);
        sqe.0[56..64].copy_from_slice(&self.bytes[8..]);
        sqe.0[44] = self.length;
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.as_bytes().escape_ascii())
    }
}

/// When a store is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Condition {
    /// Always.
    #[default]
    Always,
    /// Only if the key is there.
    IfExists,
    /// Only if the key is not there.
    IfAbsent,
}

/// A command of the Key Value set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KvCommand {
    /// Makes safe what was acknowledged.
    Flush,
    /// Sets a key to a value.
    Store {
        /// The key.
        key: Key,
        /// The length of the value.
        bytes: u32,
        /// When.
        condition: Condition,
    },
    /// Reads a value: as much of it as the host's buffer takes. DW0 of the answer is the whole value's length.
    Retrieve {
        /// The key.
        key: Key,
        /// The length of the host's buffer.
        bytes: u32,
    },
    /// Lists keys, from `from` on, in the controller's order: see [`ListBuilder`].
    List {
        /// Where to start. `None` is the first key.
        from: Option<Key>,
        /// The length of the host's buffer.
        bytes: u32,
    },
    /// Removes a key.
    Delete {
        /// The key.
        key: Key,
    },
    /// Asks whether a key is there.
    Exist {
        /// The key.
        key: Key,
    },
}

/// Store options, in CDW11 bits 15:8.
mod option {
    pub const IF_EXISTS: u8 = 1;
    pub const IF_ABSENT: u8 = 1 << 1;
    /// Allowed, and nothing to do with: values are stored as they are.
    pub const NO_COMPRESSION: u8 = 1 << 2;
    /// Retrieve: the value as it is stored, which here is as it came.
    pub const RAW: u8 = 1;
}

impl KvCommand {
    /// Reads the command, or says how to refuse it.
    pub fn parse(sqe: &Sqe) -> Result<Self, Status> {
        let (bytes, options) = (sqe.word(10), (sqe.word(11) >> 8) as u8);
        let required = || Key::parse(sqe)?.ok_or(Status::INVALID_KEY_SIZE);
        match sqe.opcode() {
            opcode::FLUSH => Ok(KvCommand::Flush),
            opcode::STORE => {
                Ok(KvCommand::Store { key: required()?, bytes, condition: Condition::of(options)? })
            }
            opcode::RETRIEVE if options & !option::RAW != 0 => Err(Status::INVALID_FIELD),
            opcode::RETRIEVE => Ok(KvCommand::Retrieve { key: required()?, bytes }),
            opcode::LIST => Ok(KvCommand::List { from: Key::parse(sqe)?, bytes }),
            opcode::DELETE => Ok(KvCommand::Delete { key: required()? }),
            opcode::EXIST => Ok(KvCommand::Exist { key: required()? }),
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    /// The entry for `namespace`, all but the command id and the SGL.
    pub fn encode(&self, namespace: u32) -> Sqe {
        let (opcode, key, bytes, options) = match *self {
            KvCommand::Flush => (opcode::FLUSH, None, 0, 0),
            KvCommand::Store { key, bytes, condition } => {
                (opcode::STORE, Some(key), bytes, condition.options())
            }
            KvCommand::Retrieve { key, bytes } => (opcode::RETRIEVE, Some(key), bytes, 0),
            KvCommand::List { from, bytes } => (opcode::LIST, from, bytes, 0),
            KvCommand::Delete { key } => (opcode::DELETE, Some(key), 0, 0),
            KvCommand::Exist { key } => (opcode::EXIST, Some(key), 0, 0),
        };
        let mut sqe = Sqe::new(opcode, namespace);
        sqe.set_word(10, bytes);
        sqe.set_word(11, u32::from(options) << 8);
        if let Some(key) = key {
            key.put(&mut sqe);
        }
        sqe
    }
}

impl Condition {
    fn of(options: u8) -> Result<Self, Status> {
        match options & !option::NO_COMPRESSION {
            0 => Ok(Condition::Always),
            option::IF_EXISTS => Ok(Condition::IfExists),
            option::IF_ABSENT => Ok(Condition::IfAbsent),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    fn options(self) -> u8 {
        match self {
            Condition::Always => 0,
            Condition::IfExists => option::IF_EXISTS,
            Condition::IfAbsent => option::IF_ABSENT,
        }
    }
}

/// Builds List's data: a count of four bytes, then for each key its length in two bytes and the key, padded to
/// four bytes.
#[derive(Debug)]
pub struct ListBuilder {
    data: Vec<u8>,
    bytes_max: usize,
    keys: u32,
}

/// The length of the count that a list starts with.
const LIST_HEAD_BYTES: usize = 4;

impl ListBuilder {
    /// A list for a host's buffer of `bytes_max`. Reuses `data`'s memory.
    pub fn new(mut data: Vec<u8>, bytes_max: usize) -> Self {
        data.clear();
        data.resize(LIST_HEAD_BYTES.min(bytes_max), 0);
        ListBuilder { data, bytes_max, keys: 0 }
    }

    /// Adds a key, or says that there is no space for it.
    pub fn push(&mut self, key: &[u8]) -> bool {
        let entry = (2 + key.len()).next_multiple_of(4);
        if self.data.len() + entry > self.bytes_max || self.data.len() < LIST_HEAD_BYTES {
            return false;
        }
        let end = self.data.len() + entry;
        self.data.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.data.extend_from_slice(key);
        self.data.resize(end, 0);
        self.keys += 1;
        true
    }

    /// The data.
    pub fn finish(mut self) -> Vec<u8> {
        if let Some(count) = self.data.first_chunk_mut::<LIST_HEAD_BYTES>() {
            *count = self.keys.to_le_bytes();
        }
        self.data
    }
}

/// The keys of List's data, or `None` in place of the first that does not fit into it.
pub fn listed(data: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut left = if data.len() < LIST_HEAD_BYTES { 0 } else { u32_at(data, 0) };
    let mut rest = data.get(LIST_HEAD_BYTES..).unwrap_or_default();
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let entry = take_listed(&mut rest);
        if entry.is_none() {
            left = 0;
        }
        Some(entry)
    })
}

fn take_listed<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::from(u16_at(rest.get(..2)?, 0));
    let key = rest.get(2..2 + length)?;
    // A controller may leave out the padding of the last one.
    *rest = rest.get((2 + length).next_multiple_of(4)..).unwrap_or_default();
    Some(key)
}
