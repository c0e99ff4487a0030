//! Stores to namespaces of long keys: the full key must belong to the digest, and to the value that is there already.
//!
//! The value that is there is retrieved first. Between that and the store another store may come; that it brings another
//! key of the same digest takes two keys of one digest, and then the later one wins.

use super::Connection;
use super::commands::State;
use crate::{Answer, Request};
use esker_nvme::Status;
use esker_nvme::command::kv::Key;
use esker_nvme::command::long_key::{digest, split};

impl Connection {
    /// Begins a store whose value begins with the full key.
    pub(super) fn store_long(
        &mut self,
        id: u16,
        namespace: u32,
        key: Key,
        store: Request,
    ) -> Result<(), Status> {
        let Request::Store { value, .. } = &store else { return Err(Status::INTERNAL_ERROR) };
        split(value).filter(|(full, _)| digest(full) == key).ok_or(Status::INVALID_FIELD)?;
        let slot = self.commands.add(id, State::Compares { namespace, store });
        self.submit(slot, namespace, Request::Retrieve { key });
        Ok(())
    }

    /// The value that is there came, or there is none: the store goes on, or it fails.
    pub(super) fn compared(&mut self, id: u16, namespace: u32, store: Request, there: Answer) {
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
                self.submit(slot, namespace, store);
            }
            Err(status) => self.fail(id, status),
        }
    }
}
