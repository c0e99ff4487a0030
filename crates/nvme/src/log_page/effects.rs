//! Commands supported and effects (page 05h; Base 5.16.1.6): four bytes for each of 256 admin and 256 I/O opcodes.

use crate::bytes::put_u32;
use crate::command::{CommandSet, admin, kv, nvm};
use crate::identify::Structure;

/// The command is there.
const SUPPORTED: u32 = 1;
/// It changes the content of the namespace.
const CHANGES_CONTENT: u32 = 1 << 1;

/// Where I/O commands start.
const IO: usize = 1024;

/// Writes the page for a command set.
pub fn command_effects(set: CommandSet, out: &mut Structure) {
    out.fill(0);
    for opcode in admin::opcode::ALL {
        put_u32(out, usize::from(opcode) * 4, SUPPORTED);
    }
    let (all, writes): (&[u8], &[u8]) = match set {
        CommandSet::Nvm => (&nvm::opcode::ALL, &[nvm::opcode::WRITE, nvm::opcode::WRITE_ZEROES]),
        CommandSet::KeyValue => (&kv::opcode::ALL, &[kv::opcode::STORE, kv::opcode::DELETE]),
    };
    for &opcode in all {
        let effect = if writes.contains(&opcode) { CHANGES_CONTENT } else { 0 };
        put_u32(out, IO + usize::from(opcode) * 4, SUPPORTED | effect);
    }
}
