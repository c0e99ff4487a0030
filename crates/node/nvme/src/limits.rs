//! Sizes that the transport, or this implementation of it, allows.

/// The most data that travels in a command capsule: a Store of 32 KiB needs no R2T, and so no round trip.
pub const IN_CAPSULE_BYTES: u32 = 64 << 10;

/// The most data in one H2CData PDU, announced in ICResp (MAXH2CDATA).
pub const H2C_DATA_BYTES: u32 = 128 << 10;

/// The most data of one command, as a power of two of pages of 4 KiB (MDTS): 1 MiB.
pub const TRANSFER_PAGES_LOG2: u8 = 8;

/// The most data of one command, in bytes.
pub const TRANSFER_BYTES: u32 = 4096 << TRANSFER_PAGES_LOG2;

/// Entries of the longest queue (CAP.MQES + 1).
pub const QUEUE_ENTRIES: u16 = 128;

/// I/O queues of one controller.
pub const IO_QUEUES: u16 = 64;

/// The longest key of the Key Value command set, in bytes.
pub const KEY_BYTES: usize = 16;

/// The longest value of a Key Value namespace, in bytes.
pub const VALUE_BYTES: u32 = TRANSFER_BYTES;

/// Aborts that a controller works on at a time (ACL + 1).
pub const ABORTS: u8 = 4;

/// Asynchronous event requests that a controller holds (AERL + 1).
pub const EVENT_REQUESTS: u8 = 4;
