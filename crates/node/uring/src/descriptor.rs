//! Files and sockets that stay open as long as an operation uses them.

use std::fs::File;
use std::io;
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

impl Descriptor {
    /// The same file opened again. The system reports to every opening of a file once that something written to it was lost: so
    /// who syncs for others, and must not miss that, has one of their own. Fails where there is no `/proc`.
    pub fn reopen(&self) -> io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(self)? | rustix::fs::OFlags::CLOEXEC;
        let path = format!("/proc/self/fd/{}", self.as_raw_fd());
        Ok(rustix::fs::open(path, flags, rustix::fs::Mode::empty())?.into())
    }
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
