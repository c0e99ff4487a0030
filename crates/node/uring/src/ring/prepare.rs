//! Operations as entries of the submission queue.

use crate::pending::Pending;
use crate::{Operation, Slice};
use io_uring::{opcode, squeue, types};
use std::os::fd::AsRawFd;

/// What [`entry`] and the ring itself use.
pub(super) const OPCODES: [u8; 11] = [
    opcode::Read::CODE,
    opcode::Write::CODE,
    opcode::Writev::CODE,
    opcode::Fsync::CODE,
    opcode::Fallocate::CODE,
    opcode::Accept::CODE,
    opcode::Recv::CODE,
    opcode::Send::CODE,
    opcode::SendMsg::CODE,
    opcode::Timeout::CODE,
    opcode::AsyncCancel::CODE,
];

/// The most bytes in one entry. Linux moves at most 2 GiB less a page at a time, and this keeps
/// what is left aligned.
const STEP_BYTES_MAX: usize = 1 << 30;

/// The most slices in one entry: Linux's `UIO_MAXIOV`.
const SLICES_MAX: usize = 1024;

/// Structures that the kernel reads, at addresses that stay.
#[derive(Debug)]
pub(super) enum Scratch {
    None,
    Parts(Vec<libc::iovec>),
    Message(Box<Message>),
    Timeout(Box<types::Timespec>),
}

/// Several slices to send at once.
#[derive(Debug)]
pub(super) struct Message {
    header: libc::msghdr,
    parts: Vec<libc::iovec>,
}

impl Scratch {
    pub fn of(operation: &Operation) -> Self {
        match operation {
            Operation::Send { from, .. } if from.len() > 1 => {
                // SAFETY: zeros are a valid header, of no parts and no address.
                let header = unsafe { std::mem::zeroed() };
                Scratch::Message(Box::new(Message { header, parts: Vec::new() }))
            }
            Operation::WriteGatheredAt { .. } => Scratch::Parts(Vec::new()),
            Operation::Timeout { after } => Scratch::Timeout(Box::new((*after).into())),
            _ => Scratch::None,
        }
    }
}

/// The entry for what is left of an operation. It has addresses of the operation's buffers and of
/// `scratch`.
pub(super) fn entry(pending: &Pending, scratch: &mut Scratch) -> squeue::Entry {
    let done = pending.done;
    let bytes = |len: usize| (len - done).min(STEP_BYTES_MAX) as u32;
    match &pending.operation {
        Operation::ReadAt { file, offset, into } => {
            opcode::Read::new(types::Fd(file.as_raw_fd()), into.address(done), bytes(into.len()))
                .offset(offset + done as u64)
                .build()
        }
        Operation::WriteAt { file, offset, from } => {
            opcode::Write::new(types::Fd(file.as_raw_fd()), from.address(done), bytes(from.len()))
                .offset(offset + done as u64)
                .build()
        }
        Operation::WriteDurablyAt { file, offset, from } => {
            opcode::Write::new(types::Fd(file.as_raw_fd()), from.address(done), bytes(from.len()))
                .offset(offset + done as u64)
                .rw_flags(libc::RWF_DSYNC)
                .build()
        }
        Operation::WriteGatheredAt { file, offset, from } => {
            let Scratch::Parts(parts) = scratch else {
                unreachable!("a gathered write's scratch is its parts")
            };
            fill(parts, rest(from, done));
            opcode::Writev::new(types::Fd(file.as_raw_fd()), parts.as_ptr(), parts.len() as u32)
                .offset(offset + done as u64)
                .build()
        }
        Operation::SyncData { file } => opcode::Fsync::new(types::Fd(file.as_raw_fd()))
            .flags(types::FsyncFlags::DATASYNC)
            .build(),
        Operation::Deallocate { file, offset, bytes } => {
            opcode::Fallocate::new(types::Fd(file.as_raw_fd()), *bytes)
                .offset(*offset)
                .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
                .build()
        }
        Operation::Accept { listener } => {
            let listener = types::Fd(listener.as_raw_fd());
            opcode::Accept::new(listener, std::ptr::null_mut(), std::ptr::null_mut())
                .flags(libc::SOCK_CLOEXEC)
                .build()
        }
        Operation::Receive { socket, into, all } => {
            let socket = types::Fd(socket.as_raw_fd());
            let flags = if *all { libc::MSG_WAITALL } else { 0 };
            opcode::Recv::new(socket, into.address(done), bytes(into.len())).flags(flags).build()
        }
        Operation::Send { .. } => send(pending, scratch),
        Operation::Timeout { .. } => {
            let Scratch::Timeout(after) = scratch else {
                unreachable!("a timeout's scratch is its time")
            };
            opcode::Timeout::new(&raw const **after).build()
        }
    }
}

fn send(pending: &Pending, scratch: &mut Scratch) -> squeue::Entry {
    let Operation::Send { socket, from } = &pending.operation else {
        unreachable!("the caller has just looked")
    };
    let socket = types::Fd(socket.as_raw_fd());
    let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
    let mut rest = rest(from, pending.done);
    let Scratch::Message(message) = scratch else {
        let (address, len) = rest.next().unwrap_or((std::ptr::dangling_mut(), 0));
        let len = len.min(STEP_BYTES_MAX) as u32;
        return opcode::Send::new(socket, address, len).flags(flags).build();
    };
    fill(&mut message.parts, rest);
    message.header.msg_iov = message.parts.as_mut_ptr();
    // An int in musl; at most SLICES_MAX.
    message.header.msg_iovlen = message.parts.len() as _;
    opcode::SendMsg::new(socket, &raw const message.header).flags(flags as u32).build()
}

/// Where what is left of some slices is, when the first `done` bytes are done.
fn rest(slices: &[Slice], done: usize) -> impl Iterator<Item = (*mut u8, usize)> {
    let mut skip = done;
    slices.iter().filter_map(move |slice| {
        let skipped = skip.min(slice.len());
        skip -= skipped;
        let len = slice.len() - skipped;
        (len > 0).then(|| (slice.address(skipped), len))
    })
}

/// As many of them as one entry has.
fn fill(parts: &mut Vec<libc::iovec>, rest: impl Iterator<Item = (*mut u8, usize)>) {
    let part =
        |(address, len): (*mut u8, usize)| libc::iovec { iov_base: address.cast(), iov_len: len };
    parts.clear();
    parts.extend(rest.take(SLICES_MAX).map(part));
}
