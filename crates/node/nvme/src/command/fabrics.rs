//! Fabrics commands (Base 6): connect a queue, read and write properties, authenticate.

use super::Sqe;
use super::sgl::Sgl;
use crate::le_fields::{put_u16, u16_at, u32_at};
use crate::nqn::NQN_FIELD_BYTES;
use crate::{Nqn, Status};

/// The opcode of all fabrics commands; byte 4 says which.
pub const OPCODE: u8 = 0x7f;

/// The length of Connect's data.
pub const CONNECT_DATA_BYTES: usize = 1024;

/// The controller id of a host that wants any controller.
pub const ANY_CONTROLLER: u16 = 0xffff;

/// DW0 of a successful Connect, bit 17: authenticate before anything else (AUTHREQ, ATR).
pub const AUTH_REQUIRED: u32 = 1 << 17;

mod kind {
    pub const PROPERTY_SET: u8 = 0x00;
    pub const CONNECT: u8 = 0x01;
    pub const PROPERTY_GET: u8 = 0x04;
    pub const AUTH_SEND: u8 = 0x05;
    pub const AUTH_RECEIVE: u8 = 0x06;
    pub const DISCONNECT: u8 = 0x08;
}

/// DH-HMAC-CHAP among security protocols (SECP), with SPSP0 and SPSP1 both 1.
const SECURITY_PROTOCOL: u32 = 0xe9_01_01_00;

/// A fabrics command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FabricsCommand {
    /// Makes this connection a queue.
    Connect(Connect),
    /// Writes a property.
    PropertySet {
        /// Its offset.
        offset: u32,
        /// What to write.
        value: u64,
    },
    /// Reads a property.
    PropertyGet {
        /// Its offset.
        offset: u32,
        /// Whether it has eight bytes, not four.
        wide: bool,
    },
    /// A message of DH-HMAC-CHAP from the host.
    AuthSend {
        /// Its length.
        bytes: u32,
    },
    /// Asks for a message of DH-HMAC-CHAP.
    AuthReceive {
        /// The longest that the host takes.
        bytes: u32,
    },
    /// Ends the queue.
    Disconnect,
}

/// Connect, without its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connect {
    /// 0 for the admin queue.
    pub queue: u16,
    /// Entries of the queue, 0's based, as sent.
    pub entries_less_one: u16,
    /// The host does not want to know how far the queue was taken.
    pub no_flow_control: bool,
    /// Keep-alive time in milliseconds, 0 for none. On the admin queue.
    pub keep_alive_ms: u32,
}

/// Connect's data: who wants what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectData {
    /// The host's own 128 bits.
    pub host_id: [u8; 16],
    /// On the admin queue [`ANY_CONTROLLER`]; on an I/O queue the controller that the queue belongs to.
    pub controller: u16,
    /// Which subsystem.
    pub subsystem: Nqn,
    /// Which host.
    pub host: Nqn,
}

/// A Connect that was refused: the status, and in DW0 which field is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectError {
    /// How to complete the command.
    pub status: Status,
    /// DW0: offset of the field in bits 15:0, and in bit 16 whether it is in the data.
    pub word: u32,
}

impl ConnectError {
    /// A field of the command.
    pub const fn command(offset: u16) -> Self {
        ConnectError { status: Status::CONNECT_INVALID, word: offset as u32 }
    }

    /// A field of the data.
    pub const fn data(offset: u16) -> Self {
        ConnectError { status: Status::CONNECT_INVALID, word: offset as u32 | 1 << 16 }
    }
}

/// Offsets of Connect's fields, for refusals.
pub mod connect_field {
    /// In the command: which queue.
    pub const QUEUE: u16 = 42;
    /// In the command: how long.
    pub const ENTRIES: u16 = 44;
    /// In the data: which controller.
    pub const CONTROLLER: u16 = 16;
    /// In the data: which subsystem.
    pub const SUBSYSTEM: u16 = 256;
    /// In the data: which host.
    pub const HOST: u16 = 512;
}

impl FabricsCommand {
    /// Reads the command, or says how to refuse it.
    pub fn parse(sqe: &Sqe) -> Result<Self, Status> {
        match sqe.0[4] {
            kind::CONNECT => Connect::parse(sqe).map(FabricsCommand::Connect),
            kind::PROPERTY_SET => {
                Ok(FabricsCommand::PropertySet { offset: sqe.word(11), value: sqe.double_word(12) })
            }
            kind::PROPERTY_GET => {
                Ok(FabricsCommand::PropertyGet { offset: sqe.word(11), wide: sqe.0[40] & 7 == 1 })
            }
            kind::AUTH_SEND => Ok(FabricsCommand::AuthSend { bytes: security(sqe)? }),
            kind::AUTH_RECEIVE => Ok(FabricsCommand::AuthReceive { bytes: security(sqe)? }),
            kind::DISCONNECT => Ok(FabricsCommand::Disconnect),
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    /// The entry, all but the command id and the SGL, which belong to its sender.
    pub fn encode(&self) -> Sqe {
        let mut sqe = Sqe::new(OPCODE, 0);
        match *self {
            FabricsCommand::Connect(connect) => connect.put(&mut sqe),
            FabricsCommand::PropertySet { offset, value } => {
                sqe.0[4] = kind::PROPERTY_SET;
                sqe.set_word(11, offset);
                sqe.set_double_word(12, value);
            }
            FabricsCommand::PropertyGet { offset, wide } => {
                sqe.0[4] = kind::PROPERTY_GET;
                sqe.0[40] = u8::from(wide);
                sqe.set_word(11, offset);
            }
            FabricsCommand::AuthSend { bytes } => {
                sqe.0[4] = kind::AUTH_SEND;
                sqe.set_word(10, SECURITY_PROTOCOL);
                sqe.set_word(11, bytes);
            }
            FabricsCommand::AuthReceive { bytes } => {
                sqe.0[4] = kind::AUTH_RECEIVE;
                sqe.set_word(10, SECURITY_PROTOCOL);
                sqe.set_word(11, bytes);
            }
            FabricsCommand::Disconnect => sqe.0[4] = kind::DISCONNECT,
        }
        sqe
    }
}

fn security(sqe: &Sqe) -> Result<u32, Status> {
    match sqe.word(10) & 0xffff_ff00 {
        SECURITY_PROTOCOL => Ok(sqe.word(11)),
        _ => Err(Status::INVALID_FIELD),
    }
}

impl Connect {
    fn parse(sqe: &Sqe) -> Result<Self, Status> {
        if u16_at(&sqe.0, 40) != 0 {
            return Err(Status::CONNECT_FORMAT);
        }
        Ok(Connect {
            queue: u16_at(&sqe.0, 42),
            entries_less_one: u16_at(&sqe.0, 44),
            no_flow_control: sqe.0[46] & 1 << 2 != 0,
            keep_alive_ms: u32_at(&sqe.0, 48),
        })
    }

    fn put(&self, sqe: &mut Sqe) {
        sqe.0[4] = kind::CONNECT;
        put_u16(&mut sqe.0, 42, self.queue);
        put_u16(&mut sqe.0, 44, self.entries_less_one);
        sqe.0[46] = u8::from(self.no_flow_control) << 2;
        sqe.set_word(12, self.keep_alive_ms);
        sqe.set_sgl(Sgl::InCapsule { offset: 0, bytes: CONNECT_DATA_BYTES as u32 });
    }
}

impl ConnectData {
    /// Reads the data of a Connect.
    pub fn parse(data: &[u8]) -> Result<Self, ConnectError> {
        if data.len() != CONNECT_DATA_BYTES {
            let status = Status::DATA_SGL_LENGTH_INVALID;
            return Err(ConnectError { status, word: 0 });
        }
        let name = |offset: u16| {
            let at = usize::from(offset);
            let field = &data[at..at + NQN_FIELD_BYTES];
            Nqn::from_field(field).map_err(|_| ConnectError::data(offset))
        };
        Ok(ConnectData {
            host_id: data[..16].try_into().expect("a slice of 16 bytes"),
            controller: u16_at(data, usize::from(connect_field::CONTROLLER)),
            subsystem: name(connect_field::SUBSYSTEM)?,
            host: name(connect_field::HOST)?,
        })
    }

    /// The data.
    pub fn encode(&self) -> [u8; CONNECT_DATA_BYTES] {
        let mut out = [0; CONNECT_DATA_BYTES];
        out[..16].copy_from_slice(&self.host_id);
        put_u16(&mut out, usize::from(connect_field::CONTROLLER), self.controller);
        self.subsystem.put(&mut out[256..512]);
        self.host.put(&mut out[512..768]);
        out
    }
}
