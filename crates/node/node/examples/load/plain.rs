//! What a node is compared with: peers that answer any request with the same bytes, and reads of a file at random.

use crate::peer::{ANSWER_BYTES, REQUEST_BYTES};
use crate::support::Failure;
use crate::{DEPTH_BY_THE_CLOCK, FILE_BYTES, VALUE_BYTES};
use esker_base::{Rng, Threads};
use esker_uring::{Buffer, Completion, Descriptor, Operation, Reactor};
use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const DEPTH: usize = DEPTH_BY_THE_CLOCK as usize;

/// Direct reads at random places of a file, through a ring.
pub struct ReadRing {
    file: Descriptor,
    reactor: Reactor,
    rng: Rng,
    done: Vec<Completion>,
}

impl ReadRing {
    pub fn new(path: &Path) -> Result<Self, Failure> {
        const O_DIRECT: i32 = 0o40000;
        let file = File::options().read(true).custom_flags(O_DIRECT).open(path)?;
        let reactor = Reactor::new(DEPTH as u32 + 1, &Threads)?;
        Ok(ReadRing { file: file.into(), reactor, rng: Rng::new(3), done: Vec::new() })
    }

    pub fn read(&mut self, token: u64) -> Result<(), Failure> {
        let offset = self.rng.below(FILE_BYTES / VALUE_BYTES as u64) * VALUE_BYTES as u64;
        let into = Buffer::stale(VALUE_BYTES).whole();
        let read = Operation::ReadAt { file: self.file.clone(), offset, into };
        self.submit(token, read)
    }

    pub fn submit(&mut self, token: u64, operation: Operation) -> Result<(), Failure> {
        self.reactor.submit(token, operation).map(drop).map_err(|_| "the ring is full".into())
    }

    /// Begins what was submitted, and takes what is done.
    pub fn done(&mut self, waits: bool) -> Result<impl Iterator<Item = Completion>, Failure> {
        match waits {
            true => self.reactor.wait(None, &mut self.done)?,
            false => self.reactor.poll(&mut self.done)?,
        }
        let is_good = |completion: &Completion| match (&completion.operation, &completion.result) {
            (Operation::ReadAt { .. }, Ok(bytes)) => *bytes == VALUE_BYTES,
            (_, result) => result.is_ok(),
        };
        match self.done.iter().all(is_good) {
            true => Ok(self.done.drain(..)),
            false => Err("an operation failed, or a read was short".into()),
        }
    }
}

/// Answers until the other end is gone.
pub fn answer_from_memory(mut socket: TcpStream) -> Result<(), Failure> {
    let answers = vec![7; DEPTH * ANSWER_BYTES];
    let (mut requests, mut begun) = (vec![0; DEPTH * REQUEST_BYTES], 0);
    while let bytes @ 1.. = socket.read(&mut requests)? {
        let whole = (begun + bytes) / REQUEST_BYTES;
        begun = (begun + bytes) % REQUEST_BYTES;
        socket.write_all(&answers[..whole * ANSWER_BYTES])?;
    }
    Ok(())
}

/// The same with a read of the file for each answer. As a node does, it waits for requests and reads by one system call, and
/// sends all that a wait brought together.
pub fn answer_from_file(mut socket: TcpStream, path: &Path) -> Result<(), Failure> {
    let mut ring = ReadRing::new(path)?;
    let requests = Descriptor::from(std::os::fd::OwnedFd::from(socket.try_clone()?));
    let receive = |into| Operation::Receive { socket: requests.clone(), into, all: false };
    ring.submit(0, receive(Buffer::zeroed(DEPTH * REQUEST_BYTES).whole()))?;
    let (mut begun, mut read) = (0, Vec::new());
    loop {
        let done: Vec<_> = ring.done(true)?.collect();
        for completion in done {
            match completion.operation {
                Operation::Receive { into, .. } => {
                    let bytes = completion.result?;
                    if bytes == 0 {
                        return Ok(());
                    }
                    for _ in 0..(begun + bytes) / REQUEST_BYTES {
                        ring.read(0)?;
                    }
                    begun = (begun + bytes) % REQUEST_BYTES;
                    ring.submit(0, receive(into))?;
                }
                operation => read.extend(operation.into_buffer()),
            }
        }
        let parts = read.iter().flat_map(|data| [&[7; 24], &data[..], &[7; 24]]);
        let mut parts: Vec<_> = parts.map(IoSlice::new).collect();
        let mut parts = &mut parts[..];
        while !parts.is_empty() {
            let written = socket.write_vectored(parts)?;
            IoSlice::advance_slices(&mut parts, written);
        }
        read.clear();
    }
}
