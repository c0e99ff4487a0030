//! What is supported, with its effects: commands (page 05h; Base 2.0, 5.16.1.6), log pages (00h;
//! 5.16.1.1), features (12h; 5.16.1.18) and NVMe-MI commands (13h). Four bytes for each opcode or
//! identifier.

use crate::command::{CommandSet, admin, kv, nvm};
use crate::identify::Structure;
use crate::le_fields::put_u32;

/// The command, log page or feature is there.
const SUPPORTED: u32 = 1;
/// It concerns one namespace, or the controller: bits of the scope, from bit 20 on.
const OF_NAMESPACE: u32 = 1 << 20;
const OF_CONTROLLER: u32 = 1 << 21;
/// It changes the content of the namespace.
const CHANGES_CONTENT: u32 = 1 << 1;

/// Where I/O commands start.
const IO: usize = 1024;

/// Writes the page for a command set.
pub fn command_effects(set: CommandSet, out: &mut Structure) {
    out.fill(0);
    for opcode in admin::opcode::ALL {
        put_u32(out, usize::from(opcode) * 4, SUPPORTED | OF_CONTROLLER);
    }
    let (all, writes): (&[u8], &[u8]) = match set {
        CommandSet::Nvm => {
            use nvm::opcode::{DATASET_MANAGEMENT, WRITE, WRITE_ZEROES};
            (&nvm::opcode::ALL, &[WRITE, WRITE_ZEROES, DATASET_MANAGEMENT])
        }
        CommandSet::KeyValue => (&kv::opcode::ALL, &[kv::opcode::STORE, kv::opcode::DELETE]),
    };
    for &opcode in all {
        let effect = if writes.contains(&opcode) { CHANGES_CONTENT } else { 0 };
        put_u32(out, IO + usize::from(opcode) * 4, SUPPORTED | OF_NAMESPACE | effect);
    }
}

/// The length of the pages that have four bytes for each of 256 identifiers.
const IDENTIFIERS_BYTES: usize = 256 * 4;

/// The page of supported log pages (00h): those of `pages`.
pub fn supported_log_pages(pages: &[u8]) -> Vec<u8> {
    let mut out = vec![0; IDENTIFIERS_BYTES];
    pages.iter().for_each(|&page| put_u32(&mut out, usize::from(page) * 4, SUPPORTED));
    out
}

/// The page of supported features (12h): those of `features`, each with whether it is of a
/// namespace.
pub fn feature_effects(features: &[(u8, bool)]) -> Vec<u8> {
    let mut out = vec![0; IDENTIFIERS_BYTES];
    for &(feature, is_of_namespace) in features {
        let scope = if is_of_namespace { OF_NAMESPACE } else { OF_CONTROLLER };
        put_u32(&mut out, usize::from(feature) * 4, SUPPORTED | scope);
    }
    out
}

/// The page of supported NVMe-MI commands (13h): none.
pub fn management_effects() -> Vec<u8> {
    vec![0; crate::identify::IDENTIFY_BYTES]
}
