//! Stores to namespaces of long keys: the full key must belong to the digest, and to the value that is there already.
//!
//! The value that is there is retrieved first. Between that and the store another store may come; that it brings another
//! key of the same digest takes two keys of one digest, and then the later one wins.

use super::Connection;
use super::commands::{CommandKind, State};
use super::io::value_bytes_max;
use crate::{Answer, Request};
use esker_nvme::Status;
use esker_nvme::command::kv::Key;
use esker_nvme::command::long_key::{digest, split};

impl Connection {
    /// The memory that the comparison before `purpose` takes, in addition to that for its data.
    pub(super) fn compared_bytes(&self, purpose: &CommandKind) -> usize {
        let CommandKind::Store { namespace, .. } = purpose else { return 0 };
        match self.namespace(*namespace) {
            Ok(namespace) if namespace.has_long_keys() => {
                value_bytes_max(namespace.description()) as usize
            }
            _ => 0,
        }
    }

    /// Begins a store whose value begins with the full key, and says where it goes on. The memory for the value that is there
    /// is reserved, or is to be: never while the store holds some already, for then stores could wait for each other.
    pub(super) fn store_long(
        &mut self,
        id: u16,
        (namespace, key): (u32, Key),
        store: Request,
        memory: Option<usize>,
    ) -> Result<u16, Status> {
        let Request::Store { value, .. } = &store else { return Err(Status::INTERNAL_ERROR) };
        split(value).filter(|(full, _)| digest(full) == key).ok_or(Status::INVALID_FIELD)?;
        let Some(memory) = memory else {
            let slot = self.commands.add(id, State::Compares { namespace, store });
            self.submit(slot, namespace, Request::Retrieve { key });
            return Ok(slot);
        };
        let waits = State::AwaitsComparison { namespace, key, store, memory };
        let slot = self.commands.add(id, waits);
        if self.commands.reserve(slot, memory) {
            self.submit_waiting(slot);
        }
        Ok(slot)
    }

    /// The value that is there came, or there is none: the store goes on, or it fails.
    pub(super) fn compared(
        &mut self,
        (id, reserved, received): (u16, usize, usize),
        namespace: u32,
        store: Request,
        there: Answer,
    ) {
        let may_go_on = match (&store, &there) {
            (_, Answer::Failed(status)) if status.is(Status::KEY_NOT_FOUND) => Ok(()),
            (_, Answer::Failed(status)) => Err(*status),
            (Request::Store { value, .. }, Answer::Data(there)) => {
                let key = |stored| split(stored).map(|(key, _)| key);
                if key(value) == key(there) { Ok(()) } else { Err(Status::DIGEST_TAKEN) }
            }
            _ => Err(Status::INTERNAL_ERROR),
        };
        match may_go_on {
            Ok(()) => {
                let slot = self.commands.add(id, State::Submitted { answer: None });
                self.commands.hold(slot, reserved);
                self.commands.count_received(slot, received);
                self.submit(slot, namespace, store);
            }
            Err(status) => {
                self.commands.release(reserved);
                self.fail(id, status);
            }
        }
    }
}
