//! NVMe passthrough commands of Linux, one at a time. Structures and numbers are those of the
//! kernel's `include/uapi/linux/nvme_ioctl.h`. Also contains the query that all kinds of disks
//! share: the format of a namespace.

#![expect(
    unsafe_code,
    reason = "ioctl takes a structure with the address and the length of a buffer"
)]

use rustix::fd::AsFd;
use rustix::io::{Errno, Result};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};
use std::ffi::c_void;
use std::io;
use std::marker::PhantomData;
use std::ptr;

const NAMESPACE: Opcode = opcode::none(b'N', 0x40);
const ADMIN: Opcode = opcode::read_write::<Raw>(b'N', 0x47);
const IO: Opcode = opcode::read_write::<Raw>(b'N', 0x48);

/// `struct nvme_passthru_cmd64`.
#[repr(C)]
#[derive(Default)]
struct Raw {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    bytes: u32,
    words_10: [u32; 6],
    timeout_ms: u32,
    reserved_end: u32,
    result: u64,
}

/// Which of a controller's queues a command is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Queue {
    Admin,
    Io,
}

/// What goes along with a command.
pub(super) enum Data<'a> {
    None,
    ToDevice(&'a [u8]),
    FromDevice(&'a mut [u8]),
}

/// A command: dwords 10 and on.
pub(super) struct Command {
    pub(super) queue: Queue,
    pub(super) opcode: u8,
    pub(super) words: [u32; 6],
}

struct Call<'a> {
    number: Opcode,
    raw: Raw,
    /// The buffer is borrowed while the kernel has it.
    buffer: PhantomData<&'a mut [u8]>,
}

// SAFETY: the numbers take a `Raw`, which the pointer is of, and write its result; the kernel reads or writes, by the
// command's direction, `bytes` bytes at `address`, which are a buffer that is borrowed, mutably if it is written.
unsafe impl Ioctl for Call<'_> {
    /// The command's status, 0 if it was done, and its result.
    type Output = (u16, u64);

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.number
    }

    fn as_ptr(&mut self) -> *mut c_void {
        ptr::from_mut(&mut self.raw).cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, pointer: *mut c_void) -> Result<Self::Output> {
        // SAFETY: the pointer is that of `as_ptr`, and every value of its bytes is a `Raw`.
        let raw = unsafe { &*pointer.cast::<Raw>() };
        Ok((out as u16, raw.result))
    }
}

struct Namespace;

// SAFETY: the number takes nothing; what is returned is a namespace's identifier.
unsafe impl Ioctl for Namespace {
    type Output = u32;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        NAMESPACE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        ptr::null_mut()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _pointer: *mut c_void) -> Result<Self::Output> {
        Ok(out as u32)
    }
}

/// The identifier of a device's namespace; `None` of one that is not NVMe.
pub(super) fn namespace(device: impl AsFd) -> io::Result<Option<u32>> {
    // SAFETY: as said of `Namespace`.
    match unsafe { ioctl(device, Namespace) } {
        Ok(number) => Ok(Some(number)),
        Err(Errno::NOTTY | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Bytes of an identify structure.
pub(super) const IDENTIFY_BYTES: usize = 4096;

const IDENTIFY: u8 = 0x06;

/// A namespace's structure (0), or that of its controller (1).
pub(super) fn identify(device: impl AsFd, namespace: u32, which: u32) -> io::Result<Vec<u8>> {
    let mut out = vec![0; IDENTIFY_BYTES];
    let words = [which, 0, 0, 0, 0, 0];
    let command = Command { queue: Queue::Admin, opcode: IDENTIFY, words };
    execute(device, namespace, &command, Data::FromDevice(&mut out))?;
    Ok(out)
}

/// What a namespace is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Format {
    /// Its endurance group.
    pub(super) group: u16,
    pub(super) block_bytes: u64,
    /// Bytes of separate metadata of each block.
    pub(super) metadata_bytes: u16,
}

impl Format {
    /// As a namespace's structure says it.
    pub(super) fn of(identified: &[u8]) -> Self {
        let number = |at: usize| u16::from_le_bytes([identified[at], identified[at + 1]]);
        // A format's number has its upper bits apart.
        let format = usize::from(identified[26] & 0xf | (identified[26] & 0x60) >> 1);
        let at = 128 + 4 * format;
        let block_bytes = 1 << (identified[at + 2] & 0x3f);
        Format { group: number(102), block_bytes, metadata_bytes: number(at) }
    }
}

/// Executes a command. Fails with its status if that is not 0.
pub(super) fn execute(
    device: impl AsFd,
    namespace: u32,
    command: &Command,
    data: Data<'_>,
) -> io::Result<u64> {
    let (address, bytes) = match data {
        Data::None => (0, 0),
        Data::ToDevice(bytes) => (bytes.as_ptr() as u64, bytes.len() as u32),
        Data::FromDevice(bytes) => (bytes.as_mut_ptr() as u64, bytes.len() as u32),
    };
    let &Command { queue, opcode, words: words_10 } = command;
    let raw = Raw { opcode, namespace, address, bytes, words_10, ..Raw::default() };
    let number = if queue == Queue::Admin { ADMIN } else { IO };
    // SAFETY: as said of `Call`. Bit 0 of an opcode says that data goes to the device, bit 1 that it comes from it.
    let outcome = unsafe { ioctl(device, Call { number, raw, buffer: PhantomData }) };
    match outcome? {
        (0, result) => Ok(result),
        (status, _) => {
            let what = format!("the disk refused command {opcode:02x}h with status {status:03x}h");
            Err(io::Error::other(what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn a_namespace_tells_its_group_and_its_format() {
        let mut identified = vec![0; IDENTIFY_BYTES];
        identified[102] = 7;
        // Format 17: 1h in the lower bits, 1 in bits 6:5.
        identified[26] = 0x21;
        identified[128 + 4 * 17..][..4].copy_from_slice(&[8, 0, 12, 0]);
        let expected = Format { group: 7, block_bytes: 4096, metadata_bytes: 8 };
        assert_eq!(Format::of(&identified), expected);
    }

    #[test]
    fn structures_and_numbers_are_the_kernels() {
        assert_eq!(size_of::<Raw>(), 80);
        let offsets = [
            offset_of!(Raw, namespace),
            offset_of!(Raw, address),
            offset_of!(Raw, bytes),
            offset_of!(Raw, words_10),
            offset_of!(Raw, result),
        ];
        assert_eq!(offsets, [4, 24, 36, 40, 72]);
        assert_eq!([NAMESPACE, ADMIN, IO], [0x4e40, 0xc050_4e47, 0xc050_4e48]);
    }
}
