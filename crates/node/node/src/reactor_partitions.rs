//! The partitions of a hash store that one reactor owns.
//!
//! Partitions say what they want read, written and synced; all of it goes through the reactor's ring. They share one
//! file, so one sync serves all of them that ask for one before it begins.
//!
//! What comes together in a round of the reactor is given to the partitions first, and what they want of that begins at the round's end: a ring
//! would give it to the system no sooner, and so it is the fewest writes, and one sync for all that is written by then.
//!
//! Writes of a partition that are one behind the other are gathered ([`gather`](crate::gather)): one is in progress, and those that come meanwhile
//! are the next.
//!
//! A record that its partition wants written durably is alone there, but perhaps not here. Only if nothing else of this
//! part is being written or synced is that done, which saves a wait; otherwise it is written, and shares a sync with the others.
//!
//! A list inspects some keys, and lets others have their turn before it goes on: one at a time does, when a timer of no time is over, which takes a round.
//!
//! After a sync or a durable write that failed, in whichever part, no sync is taken for one: what the device's cache had of others may
//! be lost, and the system reports that once, to who happened to wait.

mod listing;
mod status_mapping;

use crate::hash_keys::Shared;
use crate::write_coalescer::{CoalescedWrite, WriteCoalescer};
use esker_base::hash64;
use esker_hashstore::device::check_kept;
use esker_hashstore::partition::{self, Io, IoKind, Item, Partition, StoreCondition};
use esker_hashstore::{Layout, PARTITIONS_MAX};
use esker_nvme::Status;
use esker_nvme::command::kv::{Condition, Key, ListBuilder};
use esker_target::{Answer, GroupCommit, OperationSink, PerCoreNamespace, Reply, Request};
use esker_uring::{Buffer, Descriptor, Operation, Slice};
use listing::{Listing, Step};
use status_mapping::{again, answer_of, is_fault, reason};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The tag of a sync, and that of the timer after which a list goes on. All others have a partition's tag, which is never 0, above [`THEN_SYNC`] and the
/// partition's place.
const SYNC: u64 = 0;
const LIST: u64 = 1;
const PLACE_BITS: u32 = 6;
const _: () = assert!(PARTITIONS_MAX <= 1 << PLACE_BITS);
/// In the tag of a write that is reported to its partition after a sync.
const THEN_SYNC: u64 = 1 << PLACE_BITS;
const TAG_SHIFT: u32 = PLACE_BITS + 1;

/// Reads of one part on their way, in bytes, and what has come of values that are not whole yet; more wait. A connection is not asked for what
/// it reads on the device: of a value all is read, however little of it the host wants. Once whole, it goes to the connection, which keeps
/// what its host wants, and counts that until it is sent.
const READ_BYTES: usize = 64 << 20;

/// A read without memory.
struct WaitingRead {
    token: u64,
    offset: u64,
    bytes: usize,
}

/// What a partition wants written in this round.
struct Wanted {
    tag: u64,
    offset: u64,
    from: Slice,
    /// It is a record that is alone in its partition.
    durably: bool,
}

/// What all parts of a store know: constant, but for what is shared.
pub(crate) struct Store {
    pub(crate) reactors: usize,
    pub(crate) layout: Arc<Layout>,
    pub(crate) file: Descriptor,
    /// Another opening, for durable writes: there is one at a time, and it takes no error that a sync of `file` is to report.
    pub(crate) durable: Descriptor,
    pub(crate) has_volatile_cache: bool,
    pub(crate) shared: Arc<Shared>,
}

impl Store {
    /// Fails if the file was removed or shortened while it is open: nothing is acknowledged then.
    fn check(&self) -> io::Result<()> {
        check_kept(&self.file, self.layout.device_bytes)
    }
}

pub(crate) struct ReactorPartitions {
    store: Store,
    /// Partition `p` is at place `p / reactors`.
    partitions: Vec<Partition>,
    /// Places of partitions that failed, a bit each.
    stopped: u64,
    /// Who asked, by the token that a partition was given; free ones are none.
    callers: Vec<Option<PendingCaller>>,
    free_callers: Vec<usize>,
    syncs: GroupCommit<Waiter>,
    /// Reads that there is no memory for yet.
    reads_waiting: VecDeque<WaitingRead>,
    /// What those on their way read.
    reading_bytes: usize,
    /// What partitions hold of values that are not whole yet.
    held_bytes: usize,
    /// Writes that wait for others.
    writes: WriteCoalescer,
    /// What is to be written since this round began, in its order.
    wanted: Vec<Wanted>,
    /// Places of partitions that may want something done, a bit each.
    touched: u64,
    /// Writes and syncs on their way.
    changing: usize,
    /// Lists that wait for their turn. A timer is in progress if there are any.
    lists: VecDeque<(Listing, Reply)>,
    closing: bool,
}

/// Who waits for a sync.
enum Waiter {
    Partition { place: usize, tag: u64 },
    Flush(Reply),
}

struct PendingCaller {
    reply: Reply,
    asked_for_presence: bool,
}

impl ReactorPartitions {
    pub(crate) fn new(partitions: Vec<Partition>, store: Store) -> Self {
        ReactorPartitions {
            store,
            partitions,
            stopped: 0,
            callers: Vec::new(),
            free_callers: Vec::new(),
            syncs: GroupCommit::default(),
            reads_waiting: VecDeque::new(),
            reading_bytes: 0,
            held_bytes: 0,
            writes: WriteCoalescer::default(),
            wanted: Vec::new(),
            touched: 0,
            changing: 0,
            lists: VecDeque::new(),
            closing: false,
        }
    }

    fn place_of(&self, key: &Key) -> usize {
        self.store.layout.partition_of(hash64(key.as_bytes())) as usize / self.store.reactors
    }

    fn ask(&mut self, key: &Key, request: partition::Request, reply: Reply) {
        let asked_for_presence = matches!(request, partition::Request::Exist(_));
        let caller = Some(PendingCaller { reply, asked_for_presence });
        let token = match self.free_callers.pop() {
            Some(token) => {
                self.callers[token] = caller;
                token
            }
            None => {
                self.callers.push(caller);
                self.callers.len() - 1
            }
        };
        let place = self.place_of(key);
        self.partitions[place].request(token as u64, request);
        self.turn(place);
    }

    /// Passes on what a partition says. What it wants done begins at the end of the round.
    fn turn(&mut self, place: usize) {
        self.touched |= 1 << place;
        // Before the replies: who has one finds it counted.
        let partition = &self.partitions[place];
        self.store.shared.figures[partition.number() as usize].tell(partition);
        if let Err(error) = partition.outcome()
            && self.stopped & 1 << place == 0
        {
            self.stopped |= 1 << place;
            let (number, of) = (partition.number(), self.store.layout.partitions);
            self.store.shared.failures.stop_partition(number, of, || reason(&error));
        }
        while let Some(reply) = self.partitions[place].take_reply() {
            let token = reply.token as usize;
            if let Err(error) = &reply.result
                && is_fault(error)
            {
                self.store.shared.failures.fault(|| error.to_string());
            }
            if let Some(caller) = self.callers[token].take() {
                self.free_callers.push(token);
                caller.reply.send(answer_of(reply.result, caller.asked_for_presence));
            }
        }
    }

    /// Takes what a partition wants done.
    fn take_io(&mut self, place: usize) {
        if self.closing && self.partitions[place].is_idle() {
            self.partitions[place].checkpoint();
        }
        let kept = self.store.check();
        let mut is_refused = false;
        while let Some(Io { tag, what }) = self.partitions[place].take_io() {
            let token = tag << TAG_SHIFT | place as u64;
            if let Err(error) = &kept
                && !matches!(what, IoKind::Read { .. })
            {
                self.store.shared.failed.store(true, Relaxed);
                let refusal = io::Error::new(error.kind(), error.to_string());
                self.partitions[place].report(tag, Err(refusal), None);
                is_refused = true;
                continue;
            }
            match what {
                IoKind::Read { offset, bytes } => {
                    self.reads_waiting.push_back(WaitingRead { token, offset, bytes });
                }
                IoKind::Write { offset, from } => {
                    self.wanted.push(Wanted { tag: token, offset, from, durably: false });
                }
                IoKind::WriteDurably { offset, from } => {
                    self.wanted.push(Wanted { tag: token, offset, from, durably: true });
                }
                IoKind::Sync => self.syncs.add(Waiter::Partition { place, tag }),
            }
        }
        if is_refused {
            self.turn(place);
        }
    }

    /// Begins the reads that there is memory for, in their order. One always is.
    fn read(&mut self, out: &mut OperationSink) {
        while let Some(next) = self.reads_waiting.front()
            && (self.reading_bytes == 0
                || self.reading_bytes + self.held_bytes + next.bytes <= READ_BYTES)
            && let Some(WaitingRead { token, offset, bytes }) = self.reads_waiting.pop_front()
        {
            self.reading_bytes += bytes;
            let file = self.store.file.clone();
            // A read that does not fill it fails.
            let into = Buffer::contiguous(bytes).whole();
            out.submit(token, Operation::ReadAt { file, offset, into });
        }
    }

    /// Begins what was wanted in this round. A record that is alone here, too, is written durably.
    fn write_wanted(&mut self, out: &mut OperationSink) {
        let is_alone = self.wanted.len() == 1 && self.changing == 0;
        for Wanted { tag, offset, from, durably } in std::mem::take(&mut self.wanted) {
            if is_alone && durably {
                let file = self.store.durable.clone();
                self.change(tag, Operation::WriteDurablyAt { file, offset, from }, out);
            } else {
                let then_sync = if durably { THEN_SYNC } else { 0 };
                self.writes.add(place_of(tag), tag | then_sync, offset, from);
            }
        }
        self.write(out);
    }

    /// Begins the writes that wait for no others.
    fn write(&mut self, out: &mut OperationSink) {
        while let Some(CoalescedWrite { tag, offset, mut slices }) = self.writes.next() {
            let file = self.store.file.clone();
            let write = match (slices.pop(), slices.is_empty()) {
                (Some(from), true) => Operation::WriteAt { file, offset, from },
                (last, _) => {
                    slices.extend(last);
                    Operation::WriteGatheredAt { file, offset, from: slices }
                }
            };
            self.change(tag, write, out);
        }
    }

    /// Submits a write or a sync.
    fn change(&mut self, token: u64, operation: Operation, out: &mut OperationSink) {
        self.changing += 1;
        out.submit(token, operation);
    }

    fn sync(&mut self, out: &mut OperationSink) {
        if self.syncs.begins() {
            let file = self.store.file.clone();
            self.change(SYNC, Operation::SyncData { file }, out);
        }
    }

    fn synced(&mut self, result: &io::Result<usize>) {
        if let Err(error) = result {
            self.store.shared.failed.store(true, Relaxed);
            // Perhaps it was for a flush alone, and no partition hears of it.
            let why = || format!("a sync of the hash store failed: {error}");
            self.store.shared.failures.stop(why);
        }
        let failed = self.store.shared.failed.load(Relaxed);
        for waiter in self.syncs.ended() {
            match waiter {
                Waiter::Partition { place, tag } => {
                    let failure = || io::Error::other("a sync of the device failed");
                    let result = if failed { again(result).and(Err(failure())) } else { Ok(0) };
                    self.partitions[place].report(tag, result, None);
                    self.turn(place);
                }
                Waiter::Flush(reply) if failed => reply.send(Answer::Failed(Status::WRITE_FAULT)),
                Waiter::Flush(reply) => reply.send(Answer::Done),
            }
        }
    }

    /// Writes that began together are done, together.
    fn written(&mut self, tag: u64, result: &io::Result<usize>) {
        for tag in self.writes.ended(tag) {
            if tag & THEN_SYNC != 0 && result.is_ok() {
                let (place, tag) = (place_of(tag), tag >> TAG_SHIFT);
                self.syncs.add(Waiter::Partition { place, tag });
            } else {
                self.report(tag, again(result), None);
            }
        }
    }

    /// Notifies a partition that something of it is done.
    fn report(&mut self, tag: u64, result: io::Result<usize>, slice: Option<Slice>) {
        let place = place_of(tag);
        self.held_bytes -= self.partitions[place].held_bytes();
        self.partitions[place].report(tag >> TAG_SHIFT, result, slice);
        self.held_bytes += self.partitions[place].held_bytes();
        self.turn(place);
    }

    /// The partitions' syncs and this one are of the same file: it covers all of them, those of other reactors, too.
    fn flush(&mut self, reply: Reply) {
        match self.store.has_volatile_cache {
            true => self.syncs.add(Waiter::Flush(reply)),
            false => reply.send(Answer::Done),
        }
    }
}

impl ReactorPartitions {
    /// Adds some keys to a list. The rest is later, or another part's.
    fn list(&mut self, mut listing: Listing, reply: Reply, out: &mut OperationSink) {
        let (number, of) = (listing.number, self.store.layout.partitions);
        let step = listing.step(&self.partitions, self.store.reactors, of);
        if step == Step::IsDone {
            let data = listing.list.finish();
            reply.send(Answer::Data(Buffer::from_slice(&data).whole()));
        } else if listing.is_with(number, self.store.reactors) {
            self.lists.push_back((listing, reply));
            if self.lists.len() == 1 {
                out.submit(LIST, Operation::Timeout { after: Duration::ZERO });
            }
        } else {
            let Listing { number: place, list, .. } = listing;
            out.pass_on(Request::ListOn { place, list }, reply);
        }
    }

    /// A list that has waited for its turn goes on.
    fn list_on(&mut self, out: &mut OperationSink) {
        let Some((listing, reply)) = self.lists.pop_front() else { return };
        let others = !self.lists.is_empty();
        self.list(listing, reply, out);
        // It has begun the timer only if it is alone.
        if others {
            out.submit(LIST, Operation::Timeout { after: Duration::ZERO });
        }
    }
}

impl PerCoreNamespace for ReactorPartitions {
    fn request(&mut self, request: Request, reply: Reply, out: &mut OperationSink) {
        match request {
            Request::Store { key, value, condition } => {
                let item = Item::of(key.as_bytes(), value, self.store.layout.block_bytes);
                let only = match condition {
                    Condition::Always => StoreCondition::Always,
                    Condition::IfExists => StoreCondition::IfPresent,
                    Condition::IfAbsent => StoreCondition::IfAbsent,
                };
                self.ask(&key, partition::Request::Store(item, only), reply);
            }
            Request::Retrieve { key } => {
                let request = partition::Request::Retrieve(key.as_bytes().to_vec());
                self.ask(&key, request, reply);
            }
            Request::Delete { key } => {
                let request = partition::Request::Delete(key.as_bytes().to_vec());
                self.ask(&key, request, reply);
            }
            Request::Exist { key } => {
                let request = partition::Request::Exist(key.as_bytes().to_vec());
                self.ask(&key, request, reply);
            }
            Request::List { from, bytes } => {
                let list = ListBuilder::new(Vec::new(), bytes);
                let from = from.map(|key| key.as_bytes().to_vec());
                let number =
                    from.as_ref().map_or(0, |key| self.store.layout.partition_of(hash64(key)));
                self.list(Listing { number, from, list }, reply, out);
            }
            Request::ListOn { place: number, list } => {
                self.list(Listing { number, from: None, list }, reply, out);
            }
            Request::Flush => self.flush(reply),
            _ => reply.send(Answer::Failed(Status::INVALID_OPCODE)),
        }
    }

    fn completed(
        &mut self,
        tag: u64,
        result: io::Result<usize>,
        operation: Operation,
        out: &mut OperationSink,
    ) {
        if tag == LIST {
            return self.list_on(out);
        }
        match &operation {
            Operation::ReadAt { into, .. } => self.reading_bytes -= into.len(),
            _ => self.changing -= 1,
        }
        let result = match (&operation, result) {
            (Operation::SyncData { .. } | Operation::WriteDurablyAt { .. }, Ok(bytes)) => {
                self.store.check().map(|()| bytes)
            }
            (Operation::ReadAt { .. }, Err(error))
                if error.kind() == io::ErrorKind::UnexpectedEof =>
            {
                self.store.check().and(Err(error))
            }
            (_, result) => result,
        };
        if tag == SYNC {
            return self.synced(&result);
        }
        match operation {
            Operation::WriteAt { .. } | Operation::WriteGatheredAt { .. } => {
                self.written(tag, &result);
            }
            operation => {
                if result.is_err() && matches!(operation, Operation::WriteDurablyAt { .. }) {
                    self.store.shared.failed.store(true, Relaxed);
                }
                self.report(tag, result, operation.into_buffer().map(Slice::from));
            }
        }
    }

    /// What came together begins together: the fewest writes, and a sync for all that is written.
    fn end_round(&mut self, out: &mut OperationSink) {
        for place in 0..self.partitions.len() {
            if self.touched & 1 << place != 0 {
                self.take_io(place);
            }
        }
        self.touched = 0;
        self.read(out);
        self.write_wanted(out);
        self.sync(out);
    }

    /// A checkpoint leaves nothing to replay.
    fn close(&mut self, _: &mut OperationSink) {
        self.closing = true;
        self.touched = (0..self.partitions.len()).fold(0, |touched, place| touched | 1 << place);
    }
}

/// The place of the partition that gave this tag.
fn place_of(tag: u64) -> usize {
    (tag & ((1 << PLACE_BITS) - 1)) as usize
}

#[cfg(test)]
mod tests;
