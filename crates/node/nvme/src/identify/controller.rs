//! Identify Controller (CNS 01h; Base figure 275).

use super::Structure;
use crate::Nqn;
use crate::event::Event;
use crate::le_fields::{put_text, put_u16, put_u32, text_of, u16_at, u32_at};
use crate::limits::{ABORTS, EVENT_REQUESTS, IN_CAPSULE_BYTES, QUEUE_ENTRIES, TRANSFER_PAGES_LOG2};
use crate::nqn::{NQN_FIELD_BYTES, NqnError};
use crate::property::VERSION_2_0;

/// What a controller is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerKind {
    /// It has namespaces.
    Io,
    /// It says which subsystems there are.
    Discovery,
}

/// What differs from controller to controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Controller {
    /// CNTRLTYPE.
    pub kind: ControllerKind,
    /// CNTLID.
    pub id: u16,
    /// SN, up to 20 ASCII characters.
    pub serial: String,
    /// MN, up to 40 ASCII characters.
    pub model: String,
    /// FR, up to 8 ASCII characters.
    pub firmware: String,
    /// NN: the highest namespace id.
    pub namespaces: u32,
    /// VWC: acknowledged writes may be in a volatile cache until a Flush.
    pub volatile_write_cache: bool,
    /// Data that travels in a capsule, in bytes: a multiple of 16.
    pub in_capsule_bytes: u32,
    /// MDTS: 2^this pages of 4 KiB a command.
    pub transfer_pages_log2: u8,
    /// SUBNQN.
    pub subsystem: Nqn,
}

/// The keep-alive timer's grain: 10 x 100 ms.
const KEEP_ALIVE_GRAIN: u16 = 10;

/// SGLS (Base 2.0, figure 275): SGLs without restriction of alignment; data blocks whose address is
/// an offset into the capsule (bit 20); Transport SGL Data Blocks (bit 21). No keyed ones (bit 2),
/// which are RDMA's.
const SGLS: u32 = 1 | 1 << 20 | 1 << 21;

/// Entries of queues: 64 and 16 bytes, no other.
const SQES: u8 = 0x66;
const CQES: u8 = 0x44;

/// CMIC (byte 76): the subsystem may have two or more ports (bit 0) and two or more controllers
/// (bit 1). Hosts connect by as many ways as they like; each connection of an admin queue is a
/// controller of its own, and all are equal: no ANA (bit 3).
const MULTIPLE_PORTS_AND_CONTROLLERS: u8 = 1 | 1 << 1;

/// OFCS: Disconnect is known.
const DISCONNECT: u16 = 1;
/// ONCS: Dataset Management and Write Zeroes are known, and Get Features' Select field.
const DATASET_MANAGEMENT: u16 = 1 << 2;
const WRITE_ZEROES: u16 = 1 << 3;
const SELECT: u16 = 1 << 4;
/// VWC: there is a cache; Flush takes every namespace for itself.
const CACHE_PRESENT: u8 = 1 | 2 << 1;
/// LPA: the log of command effects is there (bit 1), logs can be read from an offset (bit 2), and
/// log pages 00h, 12h and 13h and the scopes in page 05h are there (bit 5).
const LOG_ATTRIBUTES: u8 = 1 << 1 | 1 << 2 | 1 << 5;

impl Controller {
    /// A controller with this implementation's limits.
    pub fn new(kind: ControllerKind, id: u16, subsystem: Nqn) -> Self {
        Controller {
            kind,
            id,
            serial: String::new(),
            model: "Esker".to_owned(),
            firmware: env!("CARGO_PKG_VERSION").to_owned(),
            namespaces: 0,
            volatile_write_cache: false,
            in_capsule_bytes: IN_CAPSULE_BYTES,
            transfer_pages_log2: TRANSFER_PAGES_LOG2,
            subsystem,
        }
    }

    /// Writes the structure.
    pub fn encode(&self, out: &mut Structure) {
        out.fill(0);
        put_text(&mut out[4..24], &self.serial);
        put_text(&mut out[24..64], &self.model);
        put_text(&mut out[64..72], &self.firmware);
        out[76] = MULTIPLE_PORTS_AND_CONTROLLERS;
        out[77] = self.transfer_pages_log2;
        put_u16(out, 78, self.id);
        put_u32(out, 80, VERSION_2_0);
        out[111] = match self.kind {
            ControllerKind::Io => 1,
            ControllerKind::Discovery => 2,
        };
        put_u32(out, 92, self.event().mask());
        out[258] = ABORTS - 1;
        out[259] = EVENT_REQUESTS - 1;
        out[261] = LOG_ATTRIBUTES;
        put_u16(out, 320, KEEP_ALIVE_GRAIN);
        put_u16(out, 514, QUEUE_ENTRIES);
        put_u32(out, 536, SGLS);
        self.subsystem.put(&mut out[768..768 + NQN_FIELD_BYTES]);
        put_u32(out, 1792, (crate::command::SQE_BYTES as u32 + self.in_capsule_bytes) / 16);
        put_u32(out, 1796, 1);
        out[1803] = 1;
        if self.kind == ControllerKind::Io {
            self.encode_io(out);
        }
    }

    fn encode_io(&self, out: &mut Structure) {
        out[512] = SQES;
        out[513] = CQES;
        put_u32(out, 516, self.namespaces);
        put_u16(out, 520, DATASET_MANAGEMENT | WRITE_ZEROES | SELECT);
        out[525] = if self.volatile_write_cache { CACHE_PRESENT } else { 0 };
        put_u16(out, 1804, DISCONNECT);
    }

    /// The notice that this controller may give.
    pub fn event(&self) -> Event {
        match self.kind {
            ControllerKind::Io => Event::NamespacesChanged,
            ControllerKind::Discovery => Event::DiscoveryChanged,
        }
    }

    /// Reads the structure.
    pub fn parse(data: &Structure) -> Result<Self, NqnError> {
        let capsule_bytes = u32_at(data, 1792).saturating_mul(16);
        Ok(Controller {
            kind: if data[111] == 2 { ControllerKind::Discovery } else { ControllerKind::Io },
            id: u16_at(data, 78),
            serial: text_of(&data[4..24]),
            model: text_of(&data[24..64]),
            firmware: text_of(&data[64..72]),
            namespaces: u32_at(data, 516),
            volatile_write_cache: data[525] & 1 != 0,
            in_capsule_bytes: capsule_bytes.saturating_sub(crate::command::SQE_BYTES as u32),
            transfer_pages_log2: data[77],
            subsystem: Nqn::from_field(&data[768..768 + NQN_FIELD_BYTES])?,
        })
    }
}
