//! Several keys for one call: their commands are in progress at once, on one queue.

use crate::RemoteError;
use crate::keys::{KeyClient, RETRIEVE_BYTES, Retrieved, found};
use crate::queue_pair::QueuePair;
use crate::split_command::{SubCommand, run};
use esker_api::WriteBatch;
use esker_base::{Entry, Kind};
use esker_nvme::command::kv::{Condition, Key, KvCommand};
use esker_nvme::{Cqe, Sqe, Status};
use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Duration;

/// Commands that share a deadline.
const TOGETHER: usize = 128;

/// And what they store, but for a single one that stores more: a connection that takes longer for it than any deadline is of no use.
const TOGETHER_BYTES: usize = 8 << 20;

/// A store or delete of a batch.
struct Change<'a> {
    key: &'a [u8],
    action: &'static str,
    sqe: Sqe,
    data: Cow<'a, [u8]>,
}

impl KeyClient {
    /// The values of `keys`, in their order.
    pub(crate) fn retrieve_many(
        &self,
        keys: &[&[u8]],
    ) -> Result<Vec<Option<Vec<u8>>>, RemoteError> {
        let names = keys.iter().map(|key| self.form.name(key)).collect::<Result<Vec<_>, _>>()?;
        let mut values = Vec::with_capacity(keys.len());
        for (keys, names) in keys.chunks(TOGETHER).zip(names.chunks(TOGETHER)) {
            let deadline = self.session.deadline();
            let attempt = |queue: &QueuePair| self.try_retrieve(queue, keys, names, deadline);
            let retrieved = self.session.retry(deadline, attempt)?;
            for ((key, name), retrieved) in keys.iter().zip(names).zip(retrieved) {
                values.push(match retrieved {
                    Retrieved::Value(value) => value,
                    // An operation of its own.
                    Retrieved::Longer(bytes) => {
                        self.retrieve_by(key, *name, bytes, self.session.deadline())?
                    }
                });
            }
        }
        Ok(values)
    }

    fn try_retrieve(
        &self,
        queue: &QueuePair,
        keys: &[&[u8]],
        names: &[Key],
        deadline: Duration,
    ) -> Result<Vec<Retrieved>, RemoteError> {
        let pieces = names.iter().map(|&key| {
            let retrieve = KvCommand::Retrieve { key, bytes: RETRIEVE_BYTES };
            let sqe = retrieve.encode(self.session.namespace());
            SubCommand { sqe, data: &[], reads: RETRIEVE_BYTES as usize }
        });
        let mut retrieved = Vec::with_capacity(names.len());
        run(queue, &pieces.collect::<Vec<_>>(), deadline, |cqe, data| {
            retrieved.push(self.retrieved(keys[retrieved.len()], cqe, data, RETRIEVE_BYTES)?);
            Ok(())
        })?;
        Ok(retrieved)
    }

    /// Carries out a batch: changes of distinct keys at a time. Nothing is done of one with an entry that can't be.
    pub(crate) fn change_many(&self, batch: &WriteBatch) -> Result<(), RemoteError> {
        let changes = batch.iter().map(|entry| self.change_of(&entry));
        let changes = changes.collect::<Result<Vec<_>, _>>()?;
        let mut rest = &changes[..];
        while !rest.is_empty() {
            let (together, later) = rest.split_at(together(rest));
            let (is_first, is_single) = (rest.len() == changes.len(), changes.len() == 1);
            self.change_together(together)
                .map_err(|error| error.of_part("batch", is_first, is_single))?;
            rest = later;
        }
        Ok(())
    }

    fn change_of<'a>(&self, entry: &Entry<'a>) -> Result<Change<'a>, RemoteError> {
        let (key, name) = (entry.key, self.form.name(entry.key)?);
        let (action, command, data) = match entry.kind {
            Kind::Put => {
                let data = self.stored(key, entry.value, self.session.deadline())?;
                let (bytes, condition) = (data.len() as u32, Condition::Always);
                ("store", KvCommand::Store { key: name, bytes, condition }, data)
            }
            Kind::Delete => ("delete", KvCommand::Delete { key: name }, Cow::default()),
            Kind::RangeDelete
            | Kind::Merge
            | Kind::Combined
            | Kind::Separated
            | Kind::ExpiringPut => {
                let status = Status::INVALID_OPCODE;
                let action = match entry.kind {
                    Kind::Merge | Kind::Combined => "merge",
                    Kind::ExpiringPut => "put a value that expires",
                    _ => "delete a range",
                };
                return Err(RemoteError::Refused { action, status });
            }
        };
        Ok(Change { key, action, sqe: command.encode(self.session.namespace()), data })
    }

    /// Carries out changes of distinct keys. They are sent again only if none of them was sent whole.
    fn change_together(&self, changes: &[Change<'_>]) -> Result<(), RemoteError> {
        let piece = |change| {
            let Change { sqe, data, .. }: &Change<'_> = change;
            SubCommand { sqe: *sqe, data, reads: 0 }
        };
        let pieces: Vec<SubCommand<'_>> = changes.iter().map(piece).collect();
        let what = if let [change] = changes { change.action } else { "batch" };
        let deadline = self.session.deadline();
        loop {
            let association = self.session.association(deadline)?;
            let (mut answered, mut is_acknowledged) = (changes.iter(), false);
            let answer = |cqe: Cqe, _| {
                let action = answered.next().map_or(what, |change| change.action);
                let is_done = found(action, cqe)?;
                is_acknowledged |= is_done;
                match is_done || action == "delete" {
                    true => Ok(()),
                    false => Err(RemoteError::Refused { action, status: cqe.status() }),
                }
            };
            let outcome = run(self.session.queue(&association), &pieces, deadline, answer);
            if is_acknowledged {
                self.session.wrote(&association);
            }
            match outcome.map_err(|stopped| stopped.of_change(what)) {
                Err(error) if error.is_of_connection() && self.session.is_before(deadline) => {}
                outcome => return outcome,
            }
        }
    }
}

/// How many of the next changes are carried out together: of distinct keys, and of no more bytes than a deadline is for.
fn together(changes: &[Change<'_>]) -> usize {
    let (mut seen, mut bytes) = (HashSet::new(), 0);
    let fit = changes.iter().take(TOGETHER).take_while(|change| {
        bytes += change.data.len();
        let is_new = seen.insert(change.key);
        is_new && (seen.len() == 1 || bytes <= TOGETHER_BYTES)
    });
    fit.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(sizes: &[usize]) -> Vec<Change<'static>> {
        const KEYS: &[u8; 256] = &{
            let mut keys = [0; 256];
            let mut number = 0;
            while number < 256 {
                keys[number] = number as u8;
                number += 1;
            }
            keys
        };
        let change = |(number, &bytes): (usize, &usize)| {
            let (sqe, data) = (Sqe([0; 64]), vec![0; bytes].into());
            Change { key: &KEYS[number..=number], action: "store", sqe, data }
        };
        sizes.iter().enumerate().map(change).collect()
    }

    #[test]
    fn what_shares_a_deadline_is_no_more_than_it_is_for() {
        const MIB: usize = 1 << 20;
        assert_eq!(together(&changes(&[MIB; 20])), 8);
        assert_eq!(together(&changes(&[MIB, 7 * MIB, 1])), 2);
        assert_eq!(together(&changes(&[9 * MIB, 1])), 1, "one always is");
        assert_eq!(together(&changes(&[0; 200])), TOGETHER);
        let mut twice = changes(&[1; 5]);
        twice[3].key = twice[1].key;
        assert_eq!(together(&twice), 3, "a key that comes again waits");
    }
}
