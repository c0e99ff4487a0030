//! Commands for NVMe namespaces, as they are: what no block device offers, such as one that appends to a zone.
//!
//! The kernel takes them for a namespace's generic character device (`/dev/ng0n1`), in entries of 128 bytes, and answers
//! in entries of 32, which have space for what a command says: so they have rings of their own, since Linux 5.19.
//!
//! The thread that sends a command waits for it. Each waits on a ring of its own, which others use again: as many rings are made
//! as threads ever sent at the same time, or as the kernel lets this process have; then they wait for each other. The kernel has a command's buffer while it is in progress, and no other thread does; if the
//! kernel can't say what became of it, the buffer is leaked.
//!
//! Commands carry data to the device, never from it: how much that is a device is given twice, once in the command, which
//! the kernel does not understand. One that read too much would put wrong bytes on a disk, and one that wrote too much,
//! into memory.

#![expect(unsafe_code, reason = "the kernel is given addresses")]

use crate::{Buffer, Descriptor};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// `NVME_URING_CMD_IO` of Linux's `include/uapi/linux/nvme_ioctl.h`: read and write, 72 bytes, 'N', 80h.
const COMMAND_IO: u32 = 0xc048_4e80;

/// Of the bits of an opcode that say where data goes: to the device.
const DIRECTION: u8 = 0b11;
const TO_DEVICE: u8 = 0b01;

/// A ring has one command at a time.
const ENTRIES: u32 = 1;

type Ring = IoUring<squeue::Entry128, cqueue::Entry32>;

/// A command for a namespace that takes data to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// Its opcode, which says that data goes to the device: its last two bits are 01b.
    pub opcode: u8,
    /// The namespace's identifier.
    pub namespace: u32,
    /// Dwords 10 to 15.
    pub words: [u32; 6],
}

/// What a device said of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// 0 if it was done.
    pub status: u16,
    /// Dwords 0 and 1 of the completion.
    pub result: u64,
}

/// Sends commands, for any threads.
pub struct Passthrough {
    rings: Mutex<Rings>,
    /// A ring was given back, or is no more.
    given_back: Condvar,
    new_ring: fn() -> io::Result<Ring>,
}

struct Rings {
    /// Those that no thread uses now.
    idle: Vec<Ring>,
    in_use: usize,
}

impl Passthrough {
    /// Fails if the kernel has no such rings, or forbids them, and on machines of the other byte order.
    pub fn new() -> io::Result<Self> {
        if cfg!(target_endian = "big") {
            return Err(ErrorKind::Unsupported.into());
        }
        let ring = new_ring()?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        match probe.is_supported(opcode::UringCmd80::CODE) {
            true => Ok(Passthrough {
                rings: Mutex::new(Rings { idle: vec![ring], in_use: 0 }),
                given_back: Condvar::new(),
                new_ring,
            }),
            false => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Sends a command with its data, and waits until it is done. The data comes back, unless the kernel can't say what became
    /// of the command. An error is the kernel's: if it is that the kernel refuses such commands, or this user's, or any
    /// ring (`Unsupported`, `PermissionDenied`), the device saw nothing of it.
    pub fn send(
        &self,
        device: &Descriptor,
        command: &Command,
        data: Buffer,
    ) -> (io::Result<Answer>, Option<Buffer>) {
        if command.opcode & DIRECTION != TO_DEVICE {
            let what = format!("command {:02x}h takes no data to its device", command.opcode);
            return (Err(io::Error::new(ErrorKind::InvalidInput, what)), Some(data));
        }
        let mut ring = match self.take_ring() {
            Ok(ring) => ring,
            Err(error) => return (Err(error), Some(data)),
        };
        let address = data.address() as u64;
        let device = types::Fd(device.as_raw_fd());
        let bytes = encode(command, address, data.len() as u32);
        let entry = opcode::UringCmd80::new(device, COMMAND_IO).cmd(bytes).build();
        // SAFETY: the entry's address is the data's, and the device is borrowed: both stay until the kernel is done with
        // them, or for ever. The queue has no other entry, and the ring is this thread's alone.
        match unsafe { submit_and_wait(&mut ring, &entry) } {
            Ok((result, said)) => {
                self.give_back(Some(ring));
                let answer = match u16::try_from(result) {
                    Ok(status) => Ok(Answer { status, result: said }),
                    Err(_) => Err(io::Error::from_raw_os_error(-result)),
                };
                (answer, Some(data))
            }
            Err(error) => {
                // The kernel may still read there.
                std::mem::forget(data);
                self.give_back(None);
                (Err(error), None)
            }
        }
    }

    fn rings(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A ring that no thread uses, or a new one. Where no more can be made, as the memory that a process may lock or its
    /// descriptors are used up, one of those that there are once it is given back.
    fn take_ring(&self) -> io::Result<Ring> {
        let mut rings = self.rings();
        loop {
            let ring = match rings.idle.pop() {
                Some(ring) => Ok(ring),
                None => (self.new_ring)(),
            };
            match ring {
                Ok(ring) => {
                    rings.in_use += 1;
                    return Ok(ring);
                }
                Err(_) if rings.in_use > 0 => {
                    let waited = self.given_back.wait(rings);
                    rings = waited.unwrap_or_else(PoisonError::into_inner);
                }
                Err(error) => {
                    let what = format!("no ring for commands can be made: {error}");
                    return Err(io::Error::new(ErrorKind::Unsupported, what));
                }
            }
        }
    }

    /// Gives back a ring that was taken, or nothing in place of one that can't be used any more.
    fn give_back(&self, ring: Option<Ring>) {
        let mut rings = self.rings();
        rings.in_use -= 1;
        rings.idle.extend(ring);
        self.given_back.notify_one();
    }
}

/// # Safety
/// What the entry points to stays until this returns, and permanently if it fails. Nothing else is in the ring.
unsafe fn submit_and_wait(ring: &mut Ring, entry: &squeue::Entry128) -> io::Result<(i32, u64)> {
    // SAFETY: by this function's own contract.
    let pushed = unsafe { ring.submission().push(entry) };
    pushed.map_err(|_| io::Error::other("a ring for commands is full"))?;
    loop {
        crate::ring::expect_some(ring.submit_and_wait(1))?;
        if let Some(done) = ring.completion().next() {
            return Ok((done.result(), done.big_cqe()[0]));
        }
    }
}

fn new_ring() -> io::Result<Ring> {
    IoUring::builder().build(ENTRIES)
}

/// `struct nvme_uring_cmd`, 72 bytes, and zeros behind it. The kernel reads it in the machine's byte order, which is this.
fn encode(command: &Command, address: u64, bytes: u32) -> [u8; 80] {
    let mut out = [0; 80];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[command.opcode]);
    put(4, &command.namespace.to_le_bytes());
    put(24, &address.to_le_bytes());
    put(36, &bytes.to_le_bytes());
    for (place, word) in command.words.iter().enumerate() {
        put(40 + 4 * place, &word.to_le_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    const APPEND: Command =
        Command { opcode: 0x7d, namespace: 0x0102, words: [0x8000_1000, 7, 0x1f, 4, 5, 6] };

    /// `None`, and said so, where the kernel has no rings for commands.
    fn commands() -> Option<Passthrough> {
        Passthrough::new()
            .inspect_err(|error| {
                let why = format_args!("no rings for commands here: {error}");
                esker_base::skipped("commands to devices", why);
            })
            .ok()
    }

    fn idle(commands: &Passthrough) -> usize {
        commands.rings().idle.len()
    }

    /// Byte for byte what the kernel's header says of `struct nvme_uring_cmd`.
    #[test]
    fn a_command_lies_in_its_entry_as_the_kernel_reads_it() {
        let expected = [
            [0x7d, 0, 0, 0, 0x02, 0x01, 0, 0], // opcode, flags, 2 reserved, namespace
            [0; 8],                            // dwords 2 and 3
            [0; 8],                            // address of metadata
            [0x00, 0xf0, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x7f], // address of data
            [0, 0, 0, 0, 0x00, 0x00, 0x02, 0x00], // bytes of metadata, of data
            [0x00, 0x10, 0x00, 0x80, 7, 0, 0, 0], // dwords 10 and 11
            [0x1f, 0, 0, 0, 4, 0, 0, 0],       // dwords 12 and 13
            [5, 0, 0, 0, 6, 0, 0, 0],          // dwords 14 and 15
            [0; 8],                            // timeout, 4 reserved
            [0; 8],                            // behind the structure
        ];
        assert_eq!(encode(&APPEND, 0x7faa_bbcc_ddee_f000, 128 << 10), *expected.as_flattened());
    }

    #[test]
    fn commands_that_bring_data_are_refused() {
        let Some(commands) = commands() else { return };
        let device = File::open("/dev/null").unwrap().into();
        for opcode in [0x00, 0x02, 0x03] {
            let command = Command { opcode, ..APPEND };
            let (refused, _) = commands.send(&device, &command, Buffer::zeroed(4096));
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn a_file_takes_no_commands_and_the_next_one_is_sent_all_the_same() {
        let Some(commands) = commands() else { return };
        let file: Descriptor = tempfile::tempfile().unwrap().into();
        for _ in 0..3 {
            let (refused, data) = commands.send(&file, &APPEND, Buffer::zeroed(4096));
            let refused = refused.unwrap_err();
            assert_eq!(data.map(|data| data.len()), Some(4096));
            assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
        }
        assert_eq!(idle(&commands), 1);
    }

    /// Sends from four threads at a time. Since Linux 6.1 this device answers any command.
    fn send_from_threads(commands: &Passthrough) {
        let device: Descriptor = File::open("/dev/null").unwrap().into();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        match commands.send(&device, &APPEND, Buffer::zeroed(4096)).0 {
                            Ok(answer) => assert_eq!(answer, Answer { status: 0, result: 0 }),
                            Err(refused) => {
                                assert_eq!(refused.kind(), ErrorKind::Unsupported);
                                assert!(!refused.to_string().contains("no ring"), "{refused}");
                            }
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn threads_that_send_at_the_same_time_have_rings_of_their_own() {
        let Some(commands) = commands() else { return };
        send_from_threads(&commands);
        assert!((1..=4).contains(&idle(&commands)));
    }

    fn no_ring() -> io::Result<Ring> {
        Err(ErrorKind::OutOfMemory.into())
    }

    #[test]
    fn threads_share_a_ring_where_no_more_can_be_made() {
        let Some(commands) = commands() else { return };
        let commands = Passthrough { new_ring: no_ring, ..commands };
        send_from_threads(&commands);
        assert_eq!((idle(&commands), commands.rings().in_use), (1, 0));
    }

    #[test]
    fn where_no_ring_can_be_made_at_all_the_bytes_come_back_as_of_a_refusal() {
        let rings = Mutex::new(Rings { idle: Vec::new(), in_use: 0 });
        let commands = Passthrough { rings, given_back: Condvar::new(), new_ring: no_ring };
        let device = File::open("/dev/null").unwrap().into();
        let (refused, data) = commands.send(&device, &APPEND, Buffer::zeroed(4096));
        let refused = refused.unwrap_err();
        assert_eq!(
            (refused.kind(), data.map(|data| data.len())),
            (ErrorKind::Unsupported, Some(4096))
        );
        assert!(refused.to_string().contains("no ring for commands"), "{refused}");
    }
}
