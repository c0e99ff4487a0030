//! Opens the device at a path, of whichever kind it is.

use super::{ChunkDevice, FdpDevice, FileChunkDevice, ZnsDevice};
use crate::device::zoned as zoned_device;
use esker_base::{Error, Result};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

/// Whether a path is a flash device: a directory with one, or a disk.
pub fn is_device(path: &Path) -> bool {
    is_disk(path) || FileChunkDevice::is_in(path)
}

/// Whether a path is a device file: to be used, it has to be a block device with zones or with placement identifiers.
pub fn is_disk(path: &Path) -> bool {
    let is_special = |kind: fs::FileType| kind.is_block_device() || kind.is_char_device();
    fs::metadata(path).is_ok_and(|found| is_special(found.file_type()))
}

/// Whether a block device has zones.
pub fn has_zones(path: &Path) -> Result<bool> {
    let found = zoned_device::has_zones(path);
    found.map_err(|source| Error::io("inspect", path.display().to_string(), source))
}

/// Opens the device at a path.
pub fn open(path: &Path) -> Result<Arc<dyn ChunkDevice>> {
    Ok(match is_disk(path) {
        true if has_zones(path)? => Arc::new(ZnsDevice::open(path)?),
        true => Arc::new(FdpDevice::open(path)?),
        false => Arc::new(FileChunkDevice::open(path)?),
    })
}

/// Opens the device at a path to inspect it, also while a process uses it, or to read it. It need
/// not be writable.
pub fn open_to_look(path: &Path) -> Result<Arc<dyn ChunkDevice>> {
    Ok(match is_disk(path) {
        true if has_zones(path)? => Arc::new(ZnsDevice::open_to_look(path)?),
        true => Arc::new(FdpDevice::open_to_look(path)?),
        false => Arc::new(FileChunkDevice::open_to_look(path)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_device_is_refused_with_what_to_name_instead() {
        let path = Path::new("/dev/null");
        assert!(is_device(path));
        for refused in [open(path), open_to_look(path)] {
            let refused = refused.err().unwrap().to_string();
            assert!(refused.contains("name its block device"), "{refused}");
        }
    }
}
