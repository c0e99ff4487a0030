//! An operation in progress, and how far it came. Systems do less than asked for when they please;
//! both engines go on by the same rules until all is done.

use crate::{Completion, Descriptor, Operation};
use std::io::{self, ErrorKind};

/// Files end inside of a sector or between two, and a read stops short of its end only between two.
const SECTOR_BYTES: usize = 512;

#[derive(Debug)]
pub(crate) struct Pending {
    pub token: u64,
    pub operation: Operation,
    /// Bytes moved so far.
    pub done: usize,
    pub accepted: Option<Descriptor>,
}

/// What comes after a step.
#[derive(Debug)]
pub(crate) enum Next {
    /// Do the rest.
    Rest,
    /// All is done.
    End(io::Result<usize>),
}

impl Pending {
    pub fn new(token: u64, operation: Operation) -> Self {
        Pending { token, operation, done: 0, accepted: None }
    }

    /// Takes note of a step that moved `bytes`.
    pub fn advance(&mut self, bytes: usize) -> Next {
        self.done += bytes;
        let is_whole = self.done >= self.operation.wanted();
        let goes_on = match self.operation {
            Operation::ReadAt { .. } => bytes > 0 && bytes.is_multiple_of(SECTOR_BYTES),
            Operation::Receive { all, .. } => bytes > 0 && all,
            Operation::WriteAt { .. }
            | Operation::WriteDurablyAt { .. }
            | Operation::WriteGatheredAt { .. }
            | Operation::Send { .. } => {
                if bytes == 0 && !is_whole {
                    return Next::End(Err(ErrorKind::WriteZero.into()));
                }
                true
            }
            _ => false,
        };
        if is_whole || !goes_on { Next::End(Ok(self.done)) } else { Next::Rest }
    }

    pub fn complete(self, result: io::Result<usize>) -> Completion {
        let Pending { token, operation, accepted, .. } = self;
        Completion { token, result, operation, accepted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;
    use std::fs::File;

    fn pending(operation: impl FnOnce(Descriptor, crate::Slice) -> Operation) -> Pending {
        let file = File::open("/dev/null").expect("every Linux has it");
        Pending::new(1, operation(file.into(), Buffer::zeroed(2048).whole()))
    }

    #[test]
    fn a_short_step_is_followed_by_the_rest() {
        let mut write = pending(|file, from| Operation::WriteAt { file, offset: 0, from });
        assert!(matches!(write.advance(100), Next::Rest));
        assert!(matches!(write.advance(1948), Next::End(Ok(2048))));
        let mut send = pending(|socket, from| Operation::Send { socket, from: vec![from] });
        assert!(matches!(send.advance(2047), Next::Rest));
    }

    #[test]
    fn a_read_ends_at_the_end_of_the_file() {
        let mut read = pending(|file, into| Operation::ReadAt { file, offset: 0, into });
        assert!(matches!(read.advance(512), Next::Rest));
        assert!(matches!(read.advance(0), Next::End(Ok(512))));
        let mut read = pending(|file, into| Operation::ReadAt { file, offset: 0, into });
        assert!(matches!(read.advance(700), Next::End(Ok(700))));
    }

    #[test]
    fn a_receive_ends_with_what_there_is_unless_all_is_asked_for() {
        for (all, goes_on) in [(false, false), (true, true)] {
            let mut receive = pending(|socket, into| Operation::Receive { socket, into, all });
            assert_eq!(matches!(receive.advance(10), Next::Rest), goes_on);
        }
    }

    #[test]
    fn a_write_that_moves_nothing_is_an_error() {
        let mut write = pending(|file, from| Operation::WriteAt { file, offset: 0, from });
        assert!(matches!(write.advance(0), Next::End(Err(_))));
    }
}
