//! The short structures: lists of namespaces, a namespace's identifiers, what all namespaces have in common.

use super::{SHARED, Structure};
use crate::command::CommandSet;
use crate::le_fields::{put_u32, put_u64, u32_at};

/// Namespace identifier types (NIDT).
const GUID: u8 = 2;
const UUID: u8 = 3;
const COMMAND_SET: u8 = 4;

/// NSTAT.NRDY: the namespace is ready.
const READY: u8 = 1;

/// Writes those of `ids` that are above `after`, in order (CNS 02h, 07h). `ids` ascend.
pub fn namespaces(ids: impl Iterator<Item = u32>, after: u32, out: &mut Structure) {
    out.fill(0);
    let places = out.len() / 4;
    for (at, id) in ids.filter(|&id| id > after).take(places).enumerate() {
        put_u32(out, at * 4, id);
    }
}

/// Writes a namespace's identifiers (CNS 03h): without the one for its command set, no initiator takes a
/// namespace of keys for what it is.
pub fn descriptors(guid: &[u8; 16], set: CommandSet, out: &mut Structure) {
    out.fill(0);
    let mut at = 0;
    for (kind, id) in [(GUID, &guid[..]), (UUID, &uuid(guid)), (COMMAND_SET, &[set as u8])] {
        out[at] = kind;
        out[at + 1] = id.len() as u8;
        out[at + 4..at + 4 + id.len()].copy_from_slice(id);
        at += 4 + id.len();
    }
}

/// The UUID of the namespace with this NGUID: the same bytes, but for the version (8, of the
/// maker's own kind) and the variant (RFC 9562). Linux names a namespace by it:
/// `/dev/disk/by-id/nvme-uuid.…`.
pub fn uuid(guid: &[u8; 16]) -> [u8; 16] {
    let mut uuid = *guid;
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// A UUID as it is written.
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Reads the command set out of a namespace's identifiers. Without one it is NVM.
pub fn command_set_of(data: &Structure) -> Option<CommandSet> {
    let mut at = 0;
    while at + 4 < data.len() && data[at] != 0 {
        let length = usize::from(data[at + 1]);
        if data[at] == COMMAND_SET && length == 1 {
            return CommandSet::of(data[at + 4]);
        }
        at += 4 + length;
    }
    Some(CommandSet::Nvm)
}

/// Writes what namespaces have whatever their command set is (CNS 08h).
pub fn independent_namespace(is_ready: bool, out: &mut Structure) {
    out.fill(0);
    out[1] = SHARED;
    out[14] = if is_ready { READY } else { 0 };
}

/// Whether a namespace is ready, as [`independent_namespace`] has it.
pub fn is_ready(data: &Structure) -> bool {
    data[14] & READY != 0
}

/// Writes the combinations of command sets that a controller can have enabled (CNS 1Ch): one, with all that are
/// known here.
pub fn command_sets(out: &mut Structure) {
    out.fill(0);
    put_u64(out, 0, 1 << CommandSet::Nvm as u64 | 1 << CommandSet::KeyValue as u64);
}

/// The ids in a list of namespaces.
pub fn listed(data: &Structure) -> impl Iterator<Item = u32> {
    (0..data.len() / 4).map(|at| u32_at(data, at * 4)).take_while(|&id| id != 0)
}
