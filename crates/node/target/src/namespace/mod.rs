//! What a namespace is asked, and how it answers.

mod blocks;
mod device_blocks;
mod failed;
mod group_commit;
mod health;
mod keys;
mod long_keys;
mod ordered;
mod per_core;

pub use blocks::MemoryBlocks;
pub use device_blocks::DeviceBlocks;
pub use failed::FailedNamespace;
pub use group_commit::GroupCommit;
pub use health::NamespaceHealth;
pub use keys::MemoryKeys;
pub use long_keys::LongKeys;
pub use ordered::OrderedKeys;
pub use per_core::{OperationSink, PerCoreNamespace};

use crate::Reply;
use esker_base::Result;
use esker_nvme::Status;
use esker_nvme::command::CommandSet;
use esker_nvme::command::kv::{Condition, Key, ListBuilder};
use esker_uring::{Buffer, Slice};
use std::collections::VecDeque;

/// Something that is served: keys with values, or blocks. Shared by all reactors.
pub trait Namespace: Send + Sync {
    /// NGUID: the namespace's permanent identifier.
    fn guid(&self) -> [u8; 16];

    /// What it is, and how large. Each command asks: it takes no lock and adds nothing up.
    fn description(&self) -> Description;

    /// Of keys, the bytes in use, as far as that is known. Asked by those who look after it, and by no command of I/O.
    fn used_bytes(&self) -> u64 {
        0
    }

    /// Whether its keys are digests of longer ones, which its values begin with.
    fn has_long_keys(&self) -> bool {
        false
    }

    /// Whether what was acknowledged may be lost with the power until a flush.
    fn has_volatile_cache(&self) -> bool {
        false
    }

    /// Whether commands can succeed. If not, none reaches it: the connection refuses them all.
    fn is_ready(&self) -> bool {
        true
    }

    /// What has failed in it, if it can fail.
    fn failures(&self) -> Option<&NamespaceHealth> {
        None
    }

    /// Where a value of `bytes` is to be received, all of it, so that it need not be copied again: it comes as
    /// [`Request::Store`]'s value.
    fn room(&self, _key: &Key, bytes: usize) -> Slice {
        Buffer::stale(bytes).whole()
    }

    /// Where in a page of 4096 bytes a value, or the data of a write, is to begin in memory, so that it need not be copied
    /// again if it came in a buffer with its command.
    fn place(&self, _key: &Key) -> usize {
        0
    }

    /// The answer to `request`, if that takes no longer than a copy; or the request, to be [`submit`](Self::submit)ted. It must not
    /// block: a reactor calls it. Not called if the namespace has [`parts`](Self::parts).
    fn answer_at_once(&self, request: Request) -> std::result::Result<Answer, Request> {
        Err(request)
    }

    /// Carries out a request that was not [answered at once](Self::answer_at_once), and answers by `reply`, from another thread: it, too,
    /// must not block.
    fn submit(&self, request: Request, reply: Reply) {
        let answer = self.answer_at_once(request);
        reply.send(answer.unwrap_or(Answer::Failed(Status::INVALID_OPCODE)));
    }

    /// Drops a request that was submitted and that nothing was done of yet, and gives back its reply: that which is it. None if
    /// there is none such, or it is on its way.
    fn withdraw(&self, _is_it: &dyn Fn(&Reply) -> bool) -> Option<Reply> {
        None
    }

    /// If it lives inside the reactors, its parts: one for each. Called when a target starts.
    fn parts(&self, _reactors: usize) -> Result<Vec<Box<dyn PerCoreNamespace>>> {
        Ok(Vec::new())
    }

    /// Which of so many parts has to do with `request`; if it is none in particular, the one at hand gets it.
    fn owner(&self, _request: &Request, _reactors: usize) -> Option<usize> {
        None
    }
}

/// What a namespace is, for as long as a node serves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Description {
    /// Keys with values.
    Keys {
        /// Bytes that it holds.
        capacity_bytes: u64,
        /// The longest value. At most [`VALUE_BYTES`](esker_nvme::limits::VALUE_BYTES).
        value_bytes_max: u32,
    },
    /// Blocks.
    Blocks {
        /// Its length, a multiple of the block size.
        bytes: u64,
        /// Blocks have 2^this bytes: 9 or 12.
        block_bytes_log2: u8,
    },
}

impl Description {
    /// The command set that it is used by.
    pub fn command_set(&self) -> CommandSet {
        match self {
            Description::Keys { .. } => CommandSet::KeyValue,
            Description::Blocks { .. } => CommandSet::Nvm,
        }
    }
}

/// What is to be done. Lengths and offsets are inside of what the namespace's [`Description`] says, and of its kind.
#[derive(Debug)]
pub enum Request {
    /// Set a key. Answered by `Done` when it is as safe as the namespace promises.
    Store {
        /// The key.
        key: Key,
        /// The value.
        value: Slice,
        /// When.
        condition: Condition,
    },
    /// Read a value. Answered by `Data`, the whole value.
    Retrieve {
        /// The key.
        key: Key,
    },
    /// Remove a key. Answered by `Done`, or `KEY_NOT_FOUND`.
    Delete {
        /// The key.
        key: Key,
    },
    /// Look for a key. Answered by `Done`, or `KEY_NOT_FOUND`.
    Exist {
        /// The key.
        key: Key,
    },
    /// List keys. Answered by `Data`, as [`ListBuilder`](esker_nvme::command::kv::ListBuilder) builds it.
    List {
        /// Where to start.
        from: Option<Key>,
        /// The longest answer.
        bytes: usize,
    },
    /// Go on with a list that another part has begun.
    ListOn {
        /// Where: what it means, the namespace knows.
        place: u32,
        /// What was listed so far.
        list: ListBuilder,
    },
    /// Make what was acknowledged safe.
    Flush,
    /// Write bytes.
    Write {
        /// Where.
        offset: u64,
        /// What.
        data: Slice,
        /// Make them safe before it is acknowledged.
        force_unit_access: bool,
    },
    /// Read bytes. Answered by `Data`.
    Read {
        /// Where.
        offset: u64,
        /// How many.
        bytes: usize,
    },
    /// Free ranges of bytes, in their order: where each begins, and how long it is. They read as
    /// zeros from then on. Answered when that is as safe as a write.
    Deallocate {
        /// Which. None is empty.
        ranges: VecDeque<(u64, u64)>,
    },
    /// Make bytes zero.
    WriteZeroes {
        /// Where.
        offset: u64,
        /// How many.
        bytes: u64,
        /// Make them safe before it is acknowledged.
        force_unit_access: bool,
    },
}

/// What came of a request.
#[derive(Debug)]
pub enum Answer {
    /// It was done.
    Done,
    /// It was done, and this is what was asked for.
    Data(Slice),
    /// It was not.
    Failed(Status),
}
