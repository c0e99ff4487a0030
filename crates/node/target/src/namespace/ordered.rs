//! Any ordered store as a namespace of keys: reads that memory can answer are answered at once, all else by workers.
//!
//! A key belongs to one worker, by its hash, so that what depends on the key's presence sees no other write between its
//! look and its own. Plain stores that wait together are written in one batch, and so synced once; what depends on the
//! key's presence, as a delete does, is written by itself.

use super::{Answer, Description, Namespace, NamespaceHealth, Request};
use crate::Reply;
use crate::workers::Workers;
use esker_api::{KeyRange, Ordered, WriteBatch};
use esker_base::{Background, Error, Result, hash64};
use esker_nvme::Status;
use esker_nvme::command::kv::{Condition, Key, ListBuilder};
use esker_nvme::limits::VALUE_BYTES;
use esker_uring::{Buffer, Slice};
use std::sync::Arc;

/// Workers of one namespace: as many syncs as a device does well at a time, and reads from it.
const WORKERS: usize = 16;

/// A namespace over a store.
pub struct OrderedKeys {
    guid: [u8; 16],
    capacity_bytes: u64,
    served: Served,
    workers: Workers<Job>,
    usage: Option<Usage>,
}

/// Says how many bytes a store uses. It must not block: a reactor calls it.
type Usage = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The store, and what has failed in it.
#[derive(Clone)]
struct Served {
    store: Arc<dyn Ordered>,
    failures: Arc<NamespaceHealth>,
}

/// A batch is written when it has so many bytes: stores take batches up to a few MiB, and one value is at most 1 MiB.
const BATCH_BYTES: usize = 1 << 20;

struct Job {
    request: Request,
    reply: Reply,
}

impl OrderedKeys {
    /// Serves `store`. What its writes promise when they return is what acknowledged means. `capacity_bytes` is what
    /// is announced: the store itself is the one to say when it is full.
    pub fn new(
        guid: [u8; 16],
        capacity_bytes: u64,
        store: Arc<dyn Ordered>,
        background: &dyn Background,
    ) -> Result<Self> {
        let served = Served { store, failures: Arc::default() };
        let for_workers = served.clone();
        let run = move |jobs: &mut Vec<Job>| for_workers.run(jobs);
        let workers = Workers::start(background, "esker-namespace", WORKERS, run)?;
        Ok(OrderedKeys { guid, capacity_bytes, served, workers, usage: None })
    }

    /// The same, with `usage` to say how many bytes the store uses. It must not block: a reactor
    /// calls it.
    pub fn with_usage(self, usage: Usage) -> Self {
        OrderedKeys { usage: Some(usage), ..self }
    }
}

impl Namespace for OrderedKeys {
    fn guid(&self) -> [u8; 16] {
        self.guid
    }

    fn description(&self) -> Description {
        Description::Keys { capacity_bytes: self.capacity_bytes, value_bytes_max: VALUE_BYTES }
    }

    fn used_bytes(&self) -> u64 {
        self.usage.as_ref().map_or(0, |usage| usage())
    }

    fn failures(&self) -> Option<&NamespaceHealth> {
        Some(&self.served.failures)
    }

    fn answer_at_once(&self, request: Request) -> std::result::Result<Answer, Request> {
        match &request {
            Request::Retrieve { key } | Request::Exist { key } => {
                let wants_value = matches!(request, Request::Retrieve { .. });
                match self.served.store.try_get(key.as_bytes()) {
                    Err(Error::WouldBlock) => Err(request),
                    read => Ok(self.served.answer_to_read(read, wants_value)),
                }
            }
            Request::Store { .. } | Request::Delete { .. } | Request::List { .. } => Err(request),
            Request::Flush => Ok(Answer::Done),
            _ => Ok(Answer::Failed(Status::INVALID_OPCODE)),
        }
    }

    fn submit(&self, request: Request, reply: Reply) {
        let key = match &request {
            Request::Retrieve { key }
            | Request::Exist { key }
            | Request::Store { key, .. }
            | Request::Delete { key } => *key,
            Request::List { from, .. } => from.unwrap_or_default(),
            _ => Key::default(),
        };
        self.workers.submit(hash64(key.as_bytes()), Job { request, reply });
    }

    fn withdraw(&self, is_it: &dyn Fn(&Reply) -> bool) -> Option<Reply> {
        self.workers.withdraw(|job| is_it(&job.reply)).map(|job| job.reply)
    }
}

impl Served {
    /// Does jobs in their order, plain writes together.
    fn run(&self, jobs: &mut Vec<Job>) {
        let mut batch = WriteBatch::new();
        let mut waiting: Vec<Reply> = Vec::new();
        for job in jobs.drain(..) {
            if let Request::Store { key, value, condition: Condition::Always } = &job.request {
                batch.put(self.store.keyspace_ref(), key.as_bytes(), &value[..]);
                waiting.push(job.reply);
                if batch.encoded().len() >= BATCH_BYTES {
                    self.write(&mut batch, &mut waiting);
                }
                continue;
            }
            self.write(&mut batch, &mut waiting);
            let answer = self.carry_out(job.request);
            job.reply.send(answer.unwrap_or_else(|error| self.failed(&error)));
        }
        self.write(&mut batch, &mut waiting);
    }

    /// Writes the stores of those who wait in one batch. If the store does not take it for its size, each by itself, for the
    /// others may be small enough.
    fn write(&self, batch: &mut WriteBatch, waiting: &mut Vec<Reply>) {
        if batch.is_empty() {
            return;
        }
        match self.store.write(batch) {
            Err(
                Error::BatchTooLarge { .. } | Error::ValueTooLarge { .. } | Error::LargeValue(_),
            ) if waiting.len() > 1 => {
                for (entry, reply) in batch.iter().zip(waiting.drain(..)) {
                    reply.send(self.answer_to_write(&self.store.put(entry.key, entry.value)));
                }
            }
            written => {
                waiting.drain(..).for_each(|reply| reply.send(self.answer_to_write(&written)))
            }
        }
        batch.clear();
    }

    fn answer_to_write(&self, written: &Result<()>) -> Answer {
        match written {
            Ok(()) => Answer::Done,
            Err(error) => self.failed(error),
        }
    }

    fn carry_out(&self, request: Request) -> Result<Answer> {
        let store = self.store.as_ref();
        match request {
            Request::Store { key, value, condition } => {
                let exists = store.get(key.as_bytes())?.is_some();
                match (condition, exists) {
                    (Condition::IfExists, false) => Ok(Answer::Failed(Status::KEY_NOT_FOUND)),
                    (Condition::IfAbsent, true) => Ok(Answer::Failed(Status::KEY_EXISTS)),
                    _ => store.put(key.as_bytes(), &value).map(|()| Answer::Done),
                }
            }
            Request::Delete { key } => match store.get(key.as_bytes())? {
                Some(_) => store.delete(key.as_bytes()).map(|()| Answer::Done),
                None => Ok(Answer::Failed(Status::KEY_NOT_FOUND)),
            },
            Request::Retrieve { key } => Ok(self.answer_to_read(store.get(key.as_bytes()), true)),
            Request::Exist { key } => Ok(self.answer_to_read(store.get(key.as_bytes()), false)),
            Request::List { from, bytes } => list(store, from, bytes).map(Answer::Data),
            _ => Ok(Answer::Failed(Status::INVALID_OPCODE)),
        }
    }

    fn answer_to_read(&self, read: Result<Option<esker_api::Value>>, wants_value: bool) -> Answer {
        match read {
            Ok(Some(value)) if wants_value => Answer::Data(Buffer::from_slice(&value).whole()),
            Ok(Some(_)) => Answer::Done,
            Ok(None) => Answer::Failed(Status::KEY_NOT_FOUND),
            Err(error) => self.failed(&error),
        }
    }

    /// The answer to a request that the store failed. What is no fault of the request is reported to those who look after the node; a full
    /// disk is none as long as it may be made space on.
    fn failed(&self, error: &Error) -> Answer {
        match error {
            Error::LogFailed { .. } => self.failures.stop(|| error.to_string()),
            error if error.is_out_of_space() => {}
            error if error.is_corruption() => self.failures.fault(|| error.to_string()),
            Error::Io { .. } | Error::Lost { .. } => self.failures.fault(|| error.to_string()),
            _ => {}
        }
        Answer::Failed(status_of(error))
    }
}

/// Keys too long for the command set are not seen by it.
fn list(store: &dyn Ordered, from: Option<Key>, bytes: usize) -> Result<Slice> {
    let mut list = ListBuilder::new(Vec::new(), bytes);
    let mut cursor = store.cursor(KeyRange::all())?;
    match from {
        Some(key) => cursor.seek(key.as_bytes())?,
        None => cursor.seek_first()?,
    }
    while let Some((key, _)) = cursor.current() {
        if Key::new(key).is_some() && !list.push(key) {
            break;
        }
        cursor.next()?;
    }
    Ok(Buffer::from_slice(&list.finish()).whole())
}

fn status_of(error: &Error) -> Status {
    match error {
        Error::ValueTooLarge { .. } | Error::BatchTooLarge { .. } | Error::LargeValue(_) => {
            Status::INVALID_VALUE_SIZE
        }
        Error::EmptyKey | Error::KeyTooLong { .. } => Status::INVALID_KEY_SIZE,
        // Whatever its cause: room that is made is of no use to it.
        Error::LogFailed { .. } => Status::INTERNAL_ERROR,
        error if error.is_out_of_space() => Status::CAPACITY_EXCEEDED,
        error if error.is_corruption() || error.is_lost() => Status::UNRECOVERED_ERROR,
        _ => Status::INTERNAL_ERROR,
    }
}
