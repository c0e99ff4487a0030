//! Input and output that own their buffers: a reactor over `io_uring`, and over `poll` and threads
//! where `io_uring` is missing.
//!
//! A [`Reactor`] belongs to one thread. It is given [`Operation`]s, each of which owns its buffers
//! and keeps its descriptors open, and hands each one back in a [`Completion`]:
//!
//! ```
//! use esker_base::Threads;
//! use esker_uring::{Buffer, Descriptor, Operation, Reactor};
//!
//! # fn main() -> std::io::Result<()> {
//! # let path = tempfile::NamedTempFile::new()?;
//! let mut reactor = Reactor::new(64, &Threads)?;
//! let file = Descriptor::from(std::fs::File::options().read(true).write(true).open(&path)?);
//! let from = Buffer::from_slice(b"hello").whole();
//! reactor.submit(7, Operation::WriteAt { file, offset: 0, from }).expect("there is room for 64");
//! let mut completions = Vec::new();
//! while completions.is_empty() {
//!     reactor.wait(None, &mut completions)?;
//! }
//! assert_eq!((completions[0].token, completions[0].result.as_ref().unwrap()), (7, &5));
//! # Ok(())
//! # }
//! ```
//!
//! What makes it safe: while an operation is in progress, the reactor alone has it, so no other thread can
//! read, change or free what the kernel works on. A cancelled operation, too, comes back only when
//! the kernel is done with it, and a reactor that is dropped cancels what is in progress and waits.
//!
//! Commands that NVMe devices take as they are go another way: [`passthrough`].
//!
//! There are no callbacks and no tasks. Threads talk to a reactor through a [`Sender`] and its
//! [`Waker`]: a thread that empties the [`Inbox`] after each [`Reactor::wait`] misses nothing.

#![deny(unsafe_code)]

mod blocking;
mod buffer;
mod descriptor;
mod mailbox;
mod operation;
pub mod passthrough;
mod pending;
mod reactor;
mod region;
mod ring;
mod slots;
mod waker;

pub use buffer::{Buffer, Slice};
pub use descriptor::Descriptor;
pub use mailbox::{Inbox, Sender, mailbox};
pub use operation::{Completion, Operation};
pub use reactor::{Engine, Reactor, SubmitError};
pub use slots::OperationId;
pub use waker::Waker;
