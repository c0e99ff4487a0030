//! Inspects a device without changing it.

use crate::chunk_device::ChunkDevice;
use crate::storage::chunks::chunk_table::EraseCounts;
use crate::storage::chunks::chunk_table::default_policy;
use crate::storage::journal::found;
use crate::storage::journal::replay::{self, Files, LostFile};
use esker_base::Result;

/// The content of a device, inspected without changing it.
#[derive(Clone, PartialEq, Debug)]
pub struct Content {
    /// The names of the files.
    pub names: Vec<String>,
    /// Those that are not whole.
    pub lost: Vec<LostFile>,
    /// Bytes of chunks that are good and not the journal's.
    pub good_bytes: u64,
    /// Bytes of these that files have.
    pub live_bytes: u64,
    /// Chunks in which nothing is alive.
    pub free_chunks: u32,
    /// How often chunks were reset.
    pub erases: EraseCounts,
    /// Why this may not be the newest state, if that is so.
    pub doubt: Option<String>,
}

/// Inspects the content of a device. While another process writes to it, the result may be
/// outdated, or an error.
pub fn look(zones: &dyn ChunkDevice) -> Result<Content> {
    let mut found = found::find(zones)?;
    let Files { names, space, lost, lost_edit, .. } =
        replay::files(zones, default_policy(&zones.geometry()), &mut found)?;
    if found.doubt.is_some() {
        // A writer may have written meanwhile what was not found.
        let again = found::find(zones)?;
        let is_found = lost_edit.is_none_or(|edit| edit <= again.sequence());
        if again.sequence() > found.sequence() && is_found {
            found.doubt = again.doubt;
        }
    }
    let (good_bytes, live_bytes) = space.usage();
    let (free_chunks, erases) = (space.free_chunks(), space.erases());
    let (names, doubt) = (names.into_keys().collect(), found.doubt);
    Ok(Content { names, lost, good_bytes, live_bytes, free_chunks, erases, doubt })
}
