//! Which subsystems a node has.

use crate::association::{Admin, read_log};
use crate::deadline::Deadline;
use crate::{RemoteError, Settings};
use esker_base::{Clock, Entropy};
use esker_nvme::log_page::{DiscoveryEntry, ENTRY_BYTES, page, parse_discovery};
use esker_nvme::{DISCOVERY_NQN, Nqn};
use std::sync::Arc;
use std::time::Duration;

/// Entries read at a time, at most: what one command's data holds.
const ENTRIES: u64 = 1000;

/// Asks the node at `settings.address`; its subsystem does not matter. If the log changes while it is read, it is read
/// again, within `settings.deadline`.
pub fn discover(
    settings: &Settings,
    clock: &Arc<dyn Clock>,
    entropy: &dyn Entropy,
) -> Result<Vec<DiscoveryEntry>, RemoteError> {
    let nqn = Nqn::new(DISCOVERY_NQN).expect("a name that is right");
    let deadline = Deadline::after(clock, settings.deadline);
    let mut admin = Admin::connect(settings, &nqn, Duration::ZERO, &deadline, entropy)?;
    loop {
        let head = read_log(&mut admin.link, page::DISCOVERY, ENTRY_BYTES as u32)?;
        let (before, count) = parse_discovery(&head).map_err(bad_name)?;
        let bytes = (1 + count.min(ENTRIES)) as u32 * ENTRY_BYTES as u32;
        let log = read_log(&mut admin.link, page::DISCOVERY, bytes)?;
        let (after, _) = parse_discovery(&log).map_err(bad_name)?;
        if after.generation == before.generation {
            return Ok(after.entries);
        }
    }
}

fn bad_name(error: esker_nvme::NqnError) -> RemoteError {
    RemoteError::Protocol { what: error.to_string() }
}
