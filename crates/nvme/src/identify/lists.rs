//! The short structures: lists of namespaces, a namespace's identifiers, what all namespaces have in common.

use super::Structure;
use crate::bytes::{put_u32, put_u64, u32_at};
use crate::command::CommandSet;

/// Namespace identifier types (NIDT).
const GUID: u8 = 2;
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
    out[0] = GUID;
    out[1] = 16;
    out[4..20].copy_from_slice(guid);
    out[20] = COMMAND_SET;
    out[21] = 1;
    out[24] = set as u8;
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
