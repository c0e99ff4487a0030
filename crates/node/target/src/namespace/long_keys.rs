//! Any namespace of keys as one of long keys: what it holds are digests, and values that begin with the full key. The
//! connection checks and compares them before a store reaches the namespace (`connection/long_keys.rs`).

use super::{Answer, Description, Namespace, NamespaceHealth, PerCoreNamespace, Request};
use crate::Reply;
use esker_base::Result;
use esker_nvme::command::kv::Key;
use esker_uring::Slice;
use std::sync::Arc;

/// See the file's head.
pub struct LongKeys(Arc<dyn Namespace>);

impl LongKeys {
    /// Serves `keys`, which must hold nothing but what was stored through such a namespace.
    pub fn new(keys: Arc<dyn Namespace>) -> Self {
        LongKeys(keys)
    }
}

impl Namespace for LongKeys {
    fn guid(&self) -> [u8; 16] {
        self.0.guid()
    }

    fn description(&self) -> Description {
        self.0.description()
    }

    fn used_bytes(&self) -> u64 {
        self.0.used_bytes()
    }

    fn has_long_keys(&self) -> bool {
        true
    }

    fn has_volatile_cache(&self) -> bool {
        self.0.has_volatile_cache()
    }

    fn is_ready(&self) -> bool {
        self.0.is_ready()
    }

    fn failures(&self) -> Option<&NamespaceHealth> {
        self.0.failures()
    }

    fn room(&self, key: &Key, bytes: usize) -> Slice {
        self.0.room(key, bytes)
    }

    fn place(&self, key: &Key) -> usize {
        self.0.place(key)
    }

    fn answer_at_once(&self, request: Request) -> std::result::Result<Answer, Request> {
        self.0.answer_at_once(request)
    }

    fn submit(&self, request: Request, reply: Reply) {
        self.0.submit(request, reply);
    }

    fn withdraw(&self, is_it: &dyn Fn(&Reply) -> bool) -> Option<Reply> {
        self.0.withdraw(is_it)
    }

    fn parts(&self, reactors: usize) -> Result<Vec<Box<dyn PerCoreNamespace>>> {
        self.0.parts(reactors)
    }

    fn owner(&self, request: &Request, reactors: usize) -> Option<usize> {
        self.0.owner(request, reactors)
    }
}
