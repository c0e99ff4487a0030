//! How the description of a table is encoded in manifests, and optional numbers.

use crate::version::{TableId, TableMeta};
use esker_base::coding::{put_bytes, put_varint64, take_bytes, take_u8, take_varint64};
use esker_base::{MAX_SEQNO, Seqno};
use esker_table::{Expiring, ValueFileUse};

pub(super) fn encode_table(meta: &TableMeta, out: &mut Vec<u8>) {
    put_varint64(out, meta.id.file);
    put_varint64(out, meta.id.offset);
    put_varint64(out, meta.bytes);
    put_bytes(out, &meta.smallest);
    put_bytes(out, &meta.largest);
    out.push(u8::from(meta.largest_is_exclusive));
    put_varint64(out, meta.entries);
    put_varint64(out, meta.deletes);
    put_varint64(out, meta.range_tombstones);
    put_varint64(out, meta.raw_bytes);
    put_varint64(out, meta.min_seqno);
    put_varint64(out, meta.max_seqno);
    put_optional(out, meta.global_seqno);
    if let Some(Expiring { entries, earliest, latest }) = meta.expiring {
        [entries, earliest, latest - earliest].into_iter().for_each(|it| put_varint64(out, it));
    }
}

pub(super) fn decode_table(input: &mut &[u8], has_expiring: bool) -> Option<TableMeta> {
    let mut meta = TableMeta {
        id: TableId { file: take_varint64(input)?, offset: take_varint64(input)? },
        bytes: take_varint64(input)?,
        smallest: take_bytes(input)?.to_vec(),
        largest: take_bytes(input)?.to_vec(),
        largest_is_exclusive: match take_u8(input)? {
            0 => false,
            1 => true,
            _ => return None,
        },
        entries: take_varint64(input)?,
        deletes: take_varint64(input)?,
        range_tombstones: take_varint64(input)?,
        raw_bytes: take_varint64(input)?,
        min_seqno: take_seqno(input)?,
        max_seqno: take_seqno(input)?,
        global_seqno: take_optional(input)?,
        expiring: None,
        value_files: Vec::new(),
    };
    if has_expiring {
        let (entries, earliest) = (take_varint64(input)?, take_varint64(input)?);
        let latest = earliest.checked_add(take_varint64(input)?)?;
        meta.expiring = Some(Expiring { entries, earliest, latest });
    }
    Some(meta)
}

pub(super) fn encode_uses(uses: &[ValueFileUse], out: &mut Vec<u8>) {
    put_varint64(out, uses.len() as u64);
    for ValueFileUse { file, values, bytes } in uses {
        [file, values, bytes].into_iter().for_each(|it| put_varint64(out, *it));
    }
}

pub(super) fn decode_uses(input: &mut &[u8]) -> Option<Vec<ValueFileUse>> {
    let count = take_varint64(input)?;
    let mut uses = Vec::new();
    for _ in 0..count {
        let mut next = || take_varint64(input);
        uses.push(ValueFileUse { file: next()?, values: next()?, bytes: next()? });
    }
    Some(uses)
}

pub(super) fn put_optional(out: &mut Vec<u8>, value: Option<u64>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put_varint64(out, value);
    }
}

pub(super) fn take_optional(input: &mut &[u8]) -> Option<Option<u64>> {
    match take_u8(input)? {
        0 => Some(None),
        1 => Some(Some(take_varint64(input)?)),
        _ => None,
    }
}

pub(super) fn take_seqno(input: &mut &[u8]) -> Option<Seqno> {
    take_varint64(input).filter(|seqno| *seqno <= MAX_SEQNO)
}
