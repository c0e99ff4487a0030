//! Keys in memory, for tests and for measuring the way to a namespace: nothing survives the process.
//!
//! A value is found by its key's hash, which touches less memory than a search would. Only lists ask for the keys' order, which changes
//! with keys that come and go, and not with their values.

use super::{Answer, Description, Namespace, Request};
use esker_nvme::Status;
use esker_nvme::command::kv::{Condition, Key, ListBuilder};
use esker_nvme::limits::VALUE_BYTES;
use esker_uring::{Buffer, Slice};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

/// A volatile namespace of keys, in their order.
pub struct MemoryKeys {
    guid: [u8; 16],
    capacity_bytes: u64,
    pairs: Mutex<Pairs>,
}

#[derive(Default)]
struct Pairs {
    values: HashMap<Key, Slice>,
    /// In the order in which they are listed.
    keys: BTreeSet<Key>,
    bytes: u64,
}

impl MemoryKeys {
    /// An empty namespace for so many bytes of keys and values.
    pub fn new(guid: [u8; 16], capacity_bytes: u64) -> Self {
        MemoryKeys { guid, capacity_bytes, pairs: Mutex::default() }
    }

    fn carry_out(&self, request: Request) -> Result<Answer, Status> {
        let mut pairs = self.pairs.lock();
        match request {
            Request::Store { key, value, condition } => {
                pairs.store(key, value, condition, self.capacity_bytes)
            }
            Request::Retrieve { key } => {
                let value = pairs.values.get(&key).ok_or(Status::KEY_NOT_FOUND)?;
                Ok(Answer::Data(Buffer::from_slice(value).whole()))
            }
            Request::Delete { key } => {
                let value = pairs.values.remove(&key).ok_or(Status::KEY_NOT_FOUND)?;
                pairs.keys.remove(&key);
                pairs.bytes -= weight(&key, &value);
                Ok(Answer::Done)
            }
            Request::Exist { key } if pairs.values.contains_key(&key) => Ok(Answer::Done),
            Request::Exist { .. } => Err(Status::KEY_NOT_FOUND),
            Request::List { from, bytes } => Ok(Answer::Data(pairs.list(from, bytes))),
            Request::Flush => Ok(Answer::Done),
            _ => Err(Status::INVALID_OPCODE),
        }
    }
}

fn weight(key: &Key, value: &[u8]) -> u64 {
    (key.as_bytes().len() + value.len()) as u64
}

/// A value without much of a buffer that is longer: a host may send a value of a byte in a megabyte, and what is kept is to be
/// what is counted.
fn trimmed(value: Slice) -> Slice {
    let (range, buffer) = (value.range(), value.into_buffer());
    match buffer.len() - range.len() > range.len() / 2 {
        true => Buffer::from_slice(&buffer[range]).whole(),
        false => buffer.slice(range),
    }
}

impl Pairs {
    fn store(
        &mut self,
        key: Key,
        value: Slice,
        condition: Condition,
        capacity: u64,
    ) -> Result<Answer, Status> {
        let old = self.values.get(&key).map(|old| weight(&key, old));
        match (condition, old) {
            (Condition::IfExists, None) => return Err(Status::KEY_NOT_FOUND),
            (Condition::IfAbsent, Some(_)) => return Err(Status::KEY_EXISTS),
            _ => {}
        }
        let bytes = self.bytes - old.unwrap_or(0) + weight(&key, &value);
        if bytes > capacity {
            return Err(Status::CAPACITY_EXCEEDED);
        }
        self.bytes = bytes;
        if self.values.insert(key, trimmed(value)).is_none() {
            self.keys.insert(key);
        }
        Ok(Answer::Done)
    }

    fn list(&self, from: Option<Key>, bytes: usize) -> Slice {
        let mut list = ListBuilder::new(Vec::new(), bytes);
        let start = from.map_or(Bound::Unbounded, Bound::Included);
        for key in self.keys.range((start, Bound::Unbounded)) {
            if !list.push(key.as_bytes()) {
                break;
            }
        }
        Buffer::from_slice(&list.finish()).whole()
    }
}

impl Namespace for MemoryKeys {
    fn guid(&self) -> [u8; 16] {
        self.guid
    }

    fn description(&self) -> Description {
        Description::Keys { capacity_bytes: self.capacity_bytes, value_bytes_max: VALUE_BYTES }
    }

    fn used_bytes(&self) -> u64 {
        self.pairs.lock().bytes
    }

    fn answer_at_once(&self, request: Request) -> Result<Answer, Request> {
        Ok(self.carry_out(request).unwrap_or_else(Answer::Failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_keeps_no_long_buffer_and_a_fitting_one_is_not_copied() {
        let mut pairs = Pairs::default();
        let mut store = |key: &[u8], value: Slice| {
            let key = Key::new(key).unwrap();
            pairs.store(key, value, Condition::Always, 1 << 20).unwrap();
            pairs.values.remove(&key).unwrap()
        };
        let mut long = Buffer::zeroed(1 << 20);
        long[7] = 9;
        let kept = store(b"short in long", long.slice(7..8));
        assert_eq!((kept.to_vec(), kept.into_buffer().len()), (vec![9], 1));
        let fitting = Buffer::zeroed(20_000);
        let place = fitting.as_ptr();
        let kept = store(b"fitting", fitting.slice(72..20_000));
        assert_eq!((kept.len(), kept.into_buffer().as_ptr()), (19_928, place));
    }
}
