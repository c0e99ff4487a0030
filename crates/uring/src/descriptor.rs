//! Files and sockets that stay open as long as an operation uses them.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// A shared, open file or socket. Clones are the same one; the last to go closes it.
///
/// Sockets are given as they come, blocking. For their options, borrow them: `descriptor.as_fd()`.
#[derive(Clone, Debug)]
pub struct Descriptor(Arc<OwnedFd>);

impl From<OwnedFd> for Descriptor {
    fn from(fd: OwnedFd) -> Self {
        Descriptor(Arc::new(fd))
    }
}

macro_rules! from_owned {
    ($($type:ty)*) => { $(
        impl From<$type> for Descriptor {
            fn from(owned: $type) -> Self {
                OwnedFd::from(owned).into()
            }
        }
    )* };
}

from_owned!(File TcpListener TcpStream UnixStream);

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
