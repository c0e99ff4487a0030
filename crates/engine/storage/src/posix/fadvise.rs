//! What the kernel is advised beyond reading and writing. All of it may be ignored, so failures are.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

/// Starts writing back `[offset, offset + bytes)`, all of which was just written, without waiting.
///
/// `POSIX_FADV_DONTNEED` does that as its first step. Its second drops clean pages: those few whose
/// writeback the device has finished by then, the rest stays cached. So this does what
/// `sync_file_range` does, which can't be called without `unsafe`, at the same cost: 64 µs a MiB on
/// ext4, and each MiB makes the sync at the end 500 µs shorter. Never pass the same range twice.
#[cfg(target_os = "linux")]
pub(super) fn start_writeback(file: &File, offset: u64, bytes: u64) {
    advise(file, offset, bytes, rustix::fs::Advice::DontNeed);
}

/// Says that `[offset, offset + bytes)` will be read soon, or written in parts of a page: such a write
/// into a page that is not cached waits for the device to bring the rest of the page.
#[cfg(target_os = "linux")]
pub(super) fn read_ahead(file: impl AsFd + Copy, offset: u64, bytes: u64) {
    let end = offset.saturating_add(bytes);
    for at in (offset..end).step_by(READ_AHEAD_BYTES as usize) {
        advise(file, at, READ_AHEAD_BYTES.min(end - at), rustix::fs::Advice::WillNeed);
    }
}

/// Has reads of `file` bring into the page cache what they ask for, and nothing beyond.
#[cfg(target_os = "linux")]
pub(super) fn no_read_ahead(file: impl AsFd) {
    // No length: to the end, wherever that will be.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
}

/// Linux reads no more at one request than the device's read-ahead window, 128 KiB unless an operator
/// changed it, and forgets the rest.
#[cfg(target_os = "linux")]
const READ_AHEAD_BYTES: u64 = 128 << 10;

#[cfg(target_os = "linux")]
fn advise(file: impl AsFd, offset: u64, bytes: u64, advice: rustix::fs::Advice) {
    // No length would mean "to the end of the file".
    if let Some(bytes) = std::num::NonZeroU64::new(bytes) {
        let _ = rustix::fs::fadvise(file, offset, Some(bytes), advice);
    }
}

/// Reserves space for the bytes `range` of `file`, in extents as large as there are, so that a full
/// disk shows at once. False if the file system can't: it shows a full disk when the bytes are written.
#[cfg(target_os = "linux")]
pub(super) fn allocate(file: &File, range: Range<u64>) -> io::Result<bool> {
    use rustix::{fs::FallocateFlags, io::Errno};
    match rustix::fs::fallocate(file, FallocateFlags::empty(), range.start, range.end - range.start)
    {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(source) => Err(source.into()),
    }
}

/// What a file system did when asked to free blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Punched {
    Freed,
    /// It failed, and may have freed some.
    Failed,
    /// It never frees a part of a file.
    Unsupported,
}

/// Frees the blocks of the bytes `range` of `file`, which keeps its length.
#[cfg(target_os = "linux")]
pub(super) fn punch_hole(file: &File, range: Range<u64>) -> Punched {
    use rustix::{fs::FallocateFlags, io::Errno};
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, how, range.start, range.end - range.start) {
        Ok(()) => Punched::Freed,
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Punched::Unsupported,
        Err(_) => Punched::Failed,
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn start_writeback(_file: &File, _offset: u64, _bytes: u64) {}

#[cfg(not(target_os = "linux"))]
pub(super) fn no_read_ahead(_file: impl AsFd) {}

#[cfg(not(target_os = "linux"))]
pub(super) fn read_ahead(_file: impl AsFd + Copy, _offset: u64, _bytes: u64) {}

#[cfg(not(target_os = "linux"))]
pub(super) fn allocate(_file: &File, _range: Range<u64>) -> io::Result<bool> {
    Ok(false)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn punch_hole(_file: &File, _range: Range<u64>) -> Punched {
    Punched::Unsupported
}
