//! Admin commands (Base 5): those that a controller of a fabric has.

use super::{CommandSet, Sqe};
use crate::Status;

/// The opcodes.
pub mod opcode {
    /// Get Log Page.
    pub const GET_LOG_PAGE: u8 = 0x02;
    /// Identify.
    pub const IDENTIFY: u8 = 0x06;
    /// Abort.
    pub const ABORT: u8 = 0x08;
    /// Set Features.
    pub const SET_FEATURES: u8 = 0x09;
    /// Get Features.
    pub const GET_FEATURES: u8 = 0x0a;
    /// Asynchronous Event Request.
    pub const ASYNC_EVENT: u8 = 0x0c;
    /// Keep Alive.
    pub const KEEP_ALIVE: u8 = 0x18;

    /// All of them, for the log page that lists what is supported.
    pub const ALL: [u8; 7] =
        [GET_LOG_PAGE, IDENTIFY, ABORT, SET_FEATURES, GET_FEATURES, ASYNC_EVENT, KEEP_ALIVE];
}

/// An admin command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdminCommand {
    /// Asks for a structure of 4096 bytes.
    Identify(Identify),
    /// Asks for a part of a log page.
    GetLogPage(GetLogPage),
    /// Asks for a feature's value.
    GetFeatures {
        /// Which.
        feature: u8,
        /// 0 the current value, 1 the default, 2 the saved one, 3 what can be done with it.
        select: u8,
        /// CDW11: which of several values, for a feature that has several.
        value: u32,
    },
    /// Sets a feature.
    SetFeatures {
        /// Which.
        feature: u8,
        /// Whether to keep the value over a reset.
        save: bool,
        /// CDW11.
        value: u32,
    },
    /// Asks for a command's end.
    Abort {
        /// The command's queue.
        queue: u16,
        /// The command's id there.
        command_id: u16,
    },
    /// To be answered when something happens.
    AsyncEventRequest,
    /// The host lives.
    KeepAlive,
}

/// What to identify.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identify {
    /// CNS: which structure.
    pub structure: u8,
    /// NSID.
    pub namespace: u32,
    /// CSI, where the structure depends on the command set.
    pub command_set: u8,
}

impl Identify {
    /// The command set, if it is known here.
    pub fn set(&self) -> Result<CommandSet, Status> {
        CommandSet::of(self.command_set).ok_or(Status::COMMAND_SET_NOT_SUPPORTED)
    }
}

/// What part of which log page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetLogPage {
    /// LID: which page.
    pub page: u8,
    /// NSID.
    pub namespace: u32,
    /// CSI.
    pub command_set: u8,
    /// Where to start, in bytes. A multiple of 4.
    pub offset: u64,
    /// How many bytes. A multiple of 4, at most 2^34.
    pub bytes: u64,
    /// RAE: the event that led here stays masked.
    pub retain_event: bool,
}

impl AdminCommand {
    /// Reads the command, or says how to refuse it.
    pub fn parse(sqe: &Sqe) -> Result<Self, Status> {
        match sqe.opcode() {
            opcode::IDENTIFY => Ok(AdminCommand::Identify(Identify {
                structure: sqe.word(10) as u8,
                namespace: sqe.namespace(),
                command_set: (sqe.word(11) >> 24) as u8,
            })),
            opcode::GET_LOG_PAGE => GetLogPage::parse(sqe).map(AdminCommand::GetLogPage),
            opcode::GET_FEATURES => Ok(AdminCommand::GetFeatures {
                feature: sqe.word(10) as u8,
                select: (sqe.word(10) >> 8) as u8 & 7,
                value: sqe.word(11),
            }),
            opcode::SET_FEATURES => Ok(AdminCommand::SetFeatures {
                feature: sqe.word(10) as u8,
                save: sqe.word(10) >> 31 != 0,
                value: sqe.word(11),
            }),
            opcode::ABORT => Ok(AdminCommand::Abort {
                queue: sqe.word(10) as u16,
                command_id: (sqe.word(10) >> 16) as u16,
            }),
            opcode::ASYNC_EVENT => Ok(AdminCommand::AsyncEventRequest),
            opcode::KEEP_ALIVE => Ok(AdminCommand::KeepAlive),
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    /// The entry, all but the command id and the SGL.
    pub fn encode(&self) -> Sqe {
        match *self {
            AdminCommand::Identify(identify) => {
                let mut sqe = Sqe::new(opcode::IDENTIFY, identify.namespace);
                sqe.set_word(10, u32::from(identify.structure));
                sqe.set_word(11, u32::from(identify.command_set) << 24);
                sqe
            }
            AdminCommand::GetLogPage(page) => page.encode(),
            AdminCommand::GetFeatures { feature, select, value } => {
                let mut sqe = Sqe::new(opcode::GET_FEATURES, 0);
                sqe.set_word(10, u32::from(feature) | u32::from(select & 7) << 8);
                sqe.set_word(11, value);
                sqe
            }
            AdminCommand::SetFeatures { feature, save, value } => {
                let mut sqe = Sqe::new(opcode::SET_FEATURES, 0);
                sqe.set_word(10, u32::from(feature) | u32::from(save) << 31);
                sqe.set_word(11, value);
                sqe
            }
            AdminCommand::Abort { queue, command_id } => {
                let mut sqe = Sqe::new(opcode::ABORT, 0);
                sqe.set_word(10, u32::from(queue) | u32::from(command_id) << 16);
                sqe
            }
            AdminCommand::AsyncEventRequest => Sqe::new(opcode::ASYNC_EVENT, 0),
            AdminCommand::KeepAlive => Sqe::new(opcode::KEEP_ALIVE, 0),
        }
    }
}

impl GetLogPage {
    fn parse(sqe: &Sqe) -> Result<Self, Status> {
        let offset = sqe.double_word(12);
        let indexed = sqe.word(14) & 1 << 23 != 0;
        if !offset.is_multiple_of(4) || indexed {
            return Err(Status::INVALID_FIELD);
        }
        // NUMDL and NUMDU: words of four bytes, 0's based.
        let words = u64::from(sqe.word(10) >> 16) | u64::from(sqe.word(11) & 0xffff) << 16;
        Ok(GetLogPage {
            page: sqe.word(10) as u8,
            namespace: sqe.namespace(),
            command_set: (sqe.word(14) >> 24) as u8,
            offset,
            bytes: (words + 1) * 4,
            retain_event: sqe.word(10) & 1 << 15 != 0,
        })
    }

    fn encode(&self) -> Sqe {
        let words = (self.bytes / 4).saturating_sub(1) as u32;
        let mut sqe = Sqe::new(opcode::GET_LOG_PAGE, self.namespace);
        let retain = u32::from(self.retain_event) << 15;
        sqe.set_word(10, u32::from(self.page) | retain | (words & 0xffff) << 16);
        sqe.set_word(11, words >> 16);
        sqe.set_double_word(12, self.offset);
        sqe.set_word(14, u32::from(self.command_set) << 24);
        sqe
    }
}
