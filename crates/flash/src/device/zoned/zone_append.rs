//! Zone Append of NVMe's Zoned Namespace command set. The disk appends the data to a zone and
//! returns its address. If another program has written to the zone, the address shows it; a write
//! at the write pointer would only fail.
//!
//! Linux has no system call for it. The command goes to the character device of the namespace
//! through io_uring. Its addresses count blocks from the start of the namespace, so a partition is
//! written without appends. Passthrough commands also bypass the kernel's record of write pointers,
//! so an open disk writes all zones in one of the two ways ([`super::way`]).

use super::Zone;
use super::write_mode::Failure;
use crate::chunk_device::BLOCK_BYTES;
use crate::device::block_limits::{self, BlockLimits};
use crate::device::nvme::{self, Format};
use esker_uring::passthrough::{Command, Passthrough};
use esker_uring::{Buffer, Descriptor};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

const ZONE_APPEND: u8 = 0x7d;

/// A command counts blocks in 16 bits, less one.
const BLOCKS_MAX: u64 = 1 << 16;

/// A status without the bits that say whether to try again (14) and when (12:11), and whether there is more to know (13).
const STATUS: u16 = 0x07ff;

/// What appends to the zones of a namespace.
pub(super) struct ZoneAppender {
    commands: Passthrough,
    device: Descriptor,
    path: PathBuf,
    namespace: u32,
    block_bytes: u64,
    bytes_max: usize,
}

impl ZoneAppender {
    /// Those of a block device. Says why if it can't be appended to.
    pub(super) fn of(
        device: &File,
        limits: &BlockLimits,
        request_bytes: usize,
    ) -> Result<Self, String> {
        let said = |error: io::Error| error.to_string();
        if block_limits::is_partition(device).map_err(said)? {
            return Err("it is a part of a disk".to_owned());
        }
        let (path, generic) = block_limits::generic_of(device)?;
        let namespace = nvme::namespace(&generic).map_err(said)?;
        let namespace = namespace.ok_or("it is no NVMe namespace")?;
        let identified = nvme::identify(&generic, namespace, 0).map_err(said)?;
        let Format { block_bytes, metadata_bytes, .. } = Format::of(&identified);
        if metadata_bytes > 0 {
            return Err(format!("its blocks have {metadata_bytes} bytes of metadata"));
        }
        // The controller's limit (ZASL), as the kernel knows it.
        let append_bytes = limits.number("zone_append_max_bytes").unwrap_or(0);
        let bytes_max = bytes_max(append_bytes.min(request_bytes), block_bytes);
        if bytes_max == 0 {
            return Err(format!("it appends no more than {append_bytes} bytes at a time"));
        }
        let commands = Passthrough::new();
        let commands = commands.map_err(|error| {
            format!("the kernel takes no commands through io_uring (since Linux 5.19): {error}")
        })?;
        let device = Descriptor::from(generic);
        Ok(ZoneAppender { commands, device, path, namespace, block_bytes, bytes_max })
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Says where on the disk the bytes are.
    pub(super) fn append(&self, zone: &Zone, bytes: Buffer) -> Result<u64, Failure> {
        let command = command(self.namespace, self.block_bytes, zone.start, bytes.len());
        let (answer, bytes) = self.commands.send(&self.device, &command, bytes);
        match (answer, bytes) {
            (Ok(answer), _) if answer.status == 0 => answer
                .result
                .checked_mul(self.block_bytes)
                .ok_or_else(|| Failure::Failed(io::Error::other("the disk named no place on it"))),
            (Ok(answer), _) => Err(Failure::Failed(refusal(answer.status))),
            (Err(error), Some(bytes)) if is_refused(&error) => Err(Failure::Refused(error, bytes)),
            (Err(error), _) => Err(Failure::Failed(error)),
        }
    }
}

/// What is appended at a time, where kernel and disk take so many bytes, and the disk has blocks of this size: whole ones of
/// ours.
fn bytes_max(taken_bytes: usize, block_bytes: u64) -> usize {
    let counted_bytes = BLOCKS_MAX * block_bytes;
    let bytes = (taken_bytes as u64).min(counted_bytes);
    (bytes / BLOCK_BYTES * BLOCK_BYTES) as usize
}

fn is_refused(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported)
}

/// In dwords 10 and 11 the zone's first block, in the lower half of dword 12 the number of blocks less one.
fn command(namespace: u32, block_bytes: u64, zone_start: u64, bytes: usize) -> Command {
    let (first, blocks) = (zone_start / block_bytes, bytes as u64 / block_bytes);
    debug_assert!((1..=BLOCKS_MAX).contains(&blocks), "{blocks} blocks in one command");
    let words = [first as u32, (first >> 32) as u32, blocks as u32 - 1, 0, 0, 0];
    Command { opcode: ZONE_APPEND, namespace, words }
}

/// Type 1, specific to commands, has those of zones.
fn refusal(status: u16) -> io::Error {
    let status = status & STATUS;
    let why = match status {
        0x1b8 => ": it goes beyond the zone's end",
        0x1b9 => ": the zone is full",
        0x1ba => ": the zone can only be read",
        0x1bb => ": the zone is offline",
        0x1bd => ": too many zones are active",
        0x1be => ": too many zones are open",
        _ => "",
    };
    io::Error::other(format!("the disk refused to append, with status {status:03x}h{why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layout of the Zoned Namespace Command Set specification 1.1, figures of Zone Append.
    #[test]
    fn an_append_names_the_zones_first_block_and_the_number_of_blocks_less_one() {
        // 5 TiB in blocks of 512 bytes are block 2_8000_0000h; 64 KiB are 128 blocks.
        let found = command(3, 512, 5 << 40, 64 << 10);
        let words = [0x8000_0000, 0x2, 0x7f, 0, 0, 0];
        assert_eq!(found, Command { opcode: 0x7d, namespace: 3, words });
        // One block of 4 KiB in the zone of 8 MiB behind the first.
        let words = [0x800, 0, 0, 0, 0, 0];
        assert_eq!(command(1, 4096, 8 << 20, 4096).words, words);
    }

    #[test]
    fn a_status_is_told_with_what_it_means_for_a_zone() {
        // Do not retry.
        let full = refusal(0x41b9).to_string();
        assert!(full.contains("1b9h: the zone is full"), "{full}");
        assert!(refusal(0x4002).to_string().ends_with("status 002h"));
    }

    #[test]
    fn as_much_is_appended_at_a_time_as_whole_blocks_hold() {
        let found = [4095, 4096, 130_000].map(|taken| bytes_max(taken, 512));
        assert_eq!(found, [0, 4096, 126_976]);
    }

    #[test]
    fn no_more_is_appended_at_a_time_than_a_command_counts_blocks() {
        let most = [512, 4096].map(|block_bytes| bytes_max(1 << 30, block_bytes));
        assert_eq!(most, [32 << 20, 256 << 20]);
        assert_eq!(command(1, 512, 0, most[0]).words[2], 0xffff);
    }
}
