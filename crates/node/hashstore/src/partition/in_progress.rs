//! Reads and changes of a partition that have begun, or wait to.

use super::request::{Item, StoreCondition};
use crate::extent::Extent;
use crate::format::record::RecordKind;
use esker_base::Error;
use esker_uring::{Buffer, Slice};

/// A read in progress. Its number says which blocks it may need: none that were freed before it began.
#[derive(Debug)]
pub(super) struct Read {
    pub token: u64,
    pub key: Vec<u8>,
    pub extents: Vec<Extent>,
    pub parts: Vec<Option<Slice>>,
    pub parts_left: usize,
    pub failed: Option<Error>,
}

/// A store or delete that has not begun.
#[derive(Debug)]
pub(super) struct WritePlan {
    pub token: u64,
    pub kind: RecordKind,
    pub item: Item,
    pub only: StoreCondition,
}

impl WritePlan {
    pub fn store(token: u64, item: Item, only: StoreCondition) -> Self {
        WritePlan { token, kind: RecordKind::Store, item, only }
    }

    pub fn delete(token: u64, key: Vec<u8>) -> Self {
        let item = Item { key, value_bytes: 0, buffer: Buffer::zeroed(0), start: 0 };
        WritePlan { token, kind: RecordKind::Delete, item, only: StoreCondition::IfPresent }
    }
}

/// A store or delete whose record is on its way.
#[derive(Debug)]
pub(super) struct PendingWrite {
    pub token: u64,
    pub extents: Vec<Extent>,
    pub kind: RecordKind,
    pub key: Vec<u8>,
    pub value_bytes: usize,
    pub writes_left: usize,
}
