//! Whom to ask for 4 KiB: a node, a plain socket's other end, a file.

use crate::plain::{self, ReadRing};
use crate::support::{Failure, Queue, connected};
use crate::{DEPTH_BY_THE_CLOCK, KEYS, VALUE_BYTES};
use esker_base::{Background, Priority, Rng, Threads};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;

/// A command, and its answer: data and a completion.
pub const REQUEST_BYTES: usize = 72;
pub const ANSWER_BYTES: usize = 24 + VALUE_BYTES + 24;

pub trait Peer {
    /// Puts something to ask behind what is to be sent.
    fn ask(&mut self, id: u16) -> Result<(), Failure>;
    fn send(&mut self) -> Result<(), Failure>;
    /// Says what was answered; waits for that, or not.
    fn receive(&mut self, answered: impl FnMut(u16)) -> Result<(), Failure>;
    fn set_waits(&mut self, waits: bool) -> Result<(), Failure>;
}

/// Retrieves from a node.
pub struct Retrieves<'a> {
    io: &'a mut Queue,
    namespace: u32,
    rng: Rng,
}

impl<'a> Retrieves<'a> {
    pub fn new(io: &'a mut Queue, namespace: u32) -> Self {
        Retrieves { io, namespace, rng: Rng::new(1) }
    }
}

impl Peer for Retrieves<'_> {
    fn ask(&mut self, id: u16) -> Result<(), Failure> {
        let key = self.rng.below(KEYS).to_be_bytes();
        self.io.retrieve(self.namespace, id, &key, VALUE_BYTES as u32);
        Ok(())
    }

    fn send(&mut self) -> Result<(), Failure> {
        self.io.send()
    }

    fn receive(&mut self, mut answered: impl FnMut(u16)) -> Result<(), Failure> {
        self.io.receive(|cqe| answered(cqe.command_id()))
    }

    fn set_waits(&mut self, waits: bool) -> Result<(), Failure> {
        Ok(self.io.socket.set_nonblocking(!waits)?)
    }
}

/// The same bytes over a plain socket, whose peer does no more than it must. Which of the requests an answer belongs to is not
/// given: they count as answered in order.
pub struct Exchanges {
    socket: TcpStream,
    asked: VecDeque<u16>,
    unsent: Vec<u8>,
    answers: Vec<u8>,
    /// Bytes of an answer that came in part.
    begun: usize,
}

impl Exchanges {
    /// With a peer that answers what it has in memory.
    pub fn of_memory() -> Result<Self, Failure> {
        Self::new(plain::answer_from_memory)
    }

    /// With a peer that reads from the file at `path`.
    pub fn of_file(path: &Path) -> Result<Self, Failure> {
        let path = path.to_owned();
        Self::new(move |socket| plain::answer_from_file(socket, &path))
    }

    fn new<F>(serve: F) -> Result<Self, Failure>
    where
        F: FnOnce(TcpStream) -> Result<(), Failure> + Send + 'static,
    {
        let [socket, peer] = connected()?;
        // It ends with its socket.
        let serve = move || drop(serve(peer));
        Threads.spawn("peer", Priority::Normal, Box::new(serve))?;
        let answers = vec![0; usize::from(DEPTH_BY_THE_CLOCK) * ANSWER_BYTES];
        let (asked, unsent) = Default::default();
        Ok(Exchanges { socket, asked, unsent, answers, begun: 0 })
    }
}

impl Peer for Exchanges {
    fn ask(&mut self, id: u16) -> Result<(), Failure> {
        self.asked.push_back(id);
        self.unsent.extend_from_slice(&[7; REQUEST_BYTES]);
        Ok(())
    }

    fn send(&mut self) -> Result<(), Failure> {
        self.socket.write_all(&self.unsent)?;
        self.unsent.clear();
        Ok(())
    }

    fn receive(&mut self, answered: impl FnMut(u16)) -> Result<(), Failure> {
        match self.socket.read(&mut self.answers) {
            Ok(0) => Err("the peer is gone".into()),
            Ok(bytes) => {
                let whole = (self.begun + bytes) / ANSWER_BYTES;
                self.begun = (self.begun + bytes) % ANSWER_BYTES;
                self.asked.drain(..whole).for_each(answered);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn set_waits(&mut self, waits: bool) -> Result<(), Failure> {
        Ok(self.socket.set_nonblocking(!waits)?)
    }
}

/// Direct reads at random places of a file, through a ring.
pub struct Reads {
    ring: ReadRing,
    waits: bool,
}

impl Reads {
    pub fn new(path: &Path) -> Result<Self, Failure> {
        Ok(Reads { ring: ReadRing::new(path)?, waits: true })
    }
}

impl Peer for Reads {
    fn ask(&mut self, id: u16) -> Result<(), Failure> {
        self.ring.read(id.into())
    }

    /// What was submitted begins with the wait.
    fn send(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn receive(&mut self, mut answered: impl FnMut(u16)) -> Result<(), Failure> {
        for completion in self.ring.done(self.waits)? {
            answered(completion.token as u16);
        }
        Ok(())
    }

    fn set_waits(&mut self, waits: bool) -> Result<(), Failure> {
        self.waits = waits;
        Ok(())
    }
}
