//! An input that is read ahead by a thread of its own.
//!
//! Reading and importing overlap; and as the importer waits for the thread and not for the input, it
//! can be interrupted while a terminal or a pipe has nothing to say.

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use esker_base::{Background, Priority};
use std::io::{BufRead, Error, ErrorKind, Read, Result};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

const CHUNK_BYTES: usize = 256 << 10;
/// Chunks read ahead.
const AHEAD: usize = 4;
/// How often a waiting reader looks whether it was interrupted.
const GLANCE: Duration = Duration::from_millis(50);

/// A reader of chunks that come from a thread.
pub struct Source {
    chunks: Receiver<Result<Vec<u8>>>,
    interrupt: Interrupt,
    chunk: Vec<u8>,
    at: usize,
    ended: bool,
}

impl Source {
    /// Starts to read `input`. When `interrupt` is set, reads fail with [`ErrorKind::Interrupted`].
    pub fn start(input: impl Read + Send + 'static, interrupt: &Interrupt) -> Outcome<Self> {
        let (sender, chunks) = sync_channel(AHEAD);
        let body = Box::new(move || read_all(input, &sender));
        let thread = esker_base::Threads.spawn("esker-input", Priority::Normal, body)?;
        // Never joined: it may wait for a terminal for ever, and ends with the process.
        drop(thread.ok_or_else(|| Failure::new("no thread to read the input"))?);
        let interrupt = interrupt.clone();
        Ok(Source { chunks, interrupt, chunk: Vec::new(), at: 0, ended: false })
    }
}

fn read_all(mut input: impl Read, sender: &SyncSender<Result<Vec<u8>>>) {
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = match input.read(&mut chunk) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read,
        };
        let ended = !matches!(read, Ok(len) if len > 0);
        let sent = sender.send(read.map(|len| {
            chunk.truncate(len);
            chunk
        }));
        if ended || sent.is_err() {
            return;
        }
    }
}

impl BufRead for Source {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        while self.at == self.chunk.len() && !self.ended {
            if self.interrupt.is_set() {
                return Err(Error::from(ErrorKind::Interrupted));
            }
            match self.chunks.recv_timeout(GLANCE) {
                Ok(chunk) => (self.chunk, self.at) = (chunk?, 0),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => self.ended = true,
            }
            self.ended |= self.chunk.is_empty();
        }
        Ok(&self.chunk[self.at..])
    }

    fn consume(&mut self, amount: usize) {
        self.at += amount;
    }
}

impl Read for Source {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let mut available = self.fill_buf()?;
        let len = available.read(out)?;
        self.consume(len);
        Ok(len)
    }
}
