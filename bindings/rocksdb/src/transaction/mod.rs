//! Transactions, pessimistic and optimistic.
//!
//! A transaction of Esker has the locks and checks conflicts. Its reads are made here: RocksDB's see the
//! newest data or a snapshot of the call, and their iterators outlive later writes of the transaction.

mod functions;
mod reads;

use crate::batch::indexed::Indexed;
use crate::batch::wire::{Record, Wire};
use crate::border::{Code, Handle, Result, Status};
use crate::database::{Family, Open};
use crate::knobs::Knobs;
use esker::env::{Clock as _, SystemClock};
use esker::transaction::{Concurrency, Isolation};
use esker::{Snapshot, TransactionOptions};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use {functions::FUNCTIONS, reads::FUNCTIONS as READS};

/// A lock timeout below zero waits without a limit, in practice.
const UNLIMITED: Duration = Duration::from_secs(365 * 24 * 3600);

/// The longest name that Esker's prepared transactions have. RocksDB allows 512 bytes.
const NAME_MAX: usize = 255;

/// RocksDB's default lock timeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);

/// RocksDB's `rocksdb_transaction_t`.
pub struct Transaction {
    open: Arc<Open>,
    options: TransactionOptions,
    /// Whether a commit is durable when it returns.
    sync: bool,
    state: State,
    /// The writes, which the program may ask for as a batch.
    writes: Handle<Indexed>,
    /// What writes are checked against, or null. The program may ask for it.
    snapshot: Handle<Snapshot>,
    name: Vec<u8>,
    /// How long it can be committed, by a clock that started with it.
    expiration: Option<(SystemClock, Duration)>,
    /// The most bytes of its batch. Zero is no limit.
    max_bytes: usize,
}

// SAFETY: `writes` and `snapshot` are its own pointers, and only it frees what they point to.
unsafe impl Send for Transaction {}

/// What has become of a transaction.
enum State {
    /// It has Esker's transaction once it reads or writes.
    Running(Option<Box<esker::Transaction>>),
    Prepared,
    Ended,
}

impl Transaction {
    /// Begins a transaction.
    pub fn new(
        open: &Arc<Open>,
        write: Option<&Knobs>,
        options: Option<&Knobs>,
        concurrency: Concurrency,
    ) -> Result<Self> {
        let mut transaction = Transaction {
            open: open.clone(),
            options: TransactionOptions::default(),
            sync: false,
            state: State::Ended,
            writes: Handle::new(Indexed::default()),
            snapshot: Handle::null(),
            name: Vec::new(),
            expiration: None,
            max_bytes: 0,
        };
        transaction.begin(write, options, concurrency)?;
        Ok(transaction)
    }

    /// Begins anew: RocksDB's programs may use the memory of an old transaction.
    pub fn begin(
        &mut self,
        write: Option<&Knobs>,
        options: Option<&Knobs>,
        concurrency: Concurrency,
    ) -> Result<()> {
        self.end();
        self.forget_snapshot();
        let timeout = options.map_or(-1, |options| options.number("lock_timeout", -1_i64));
        let timeout = match u64::try_from(timeout) {
            Ok(millis) => Duration::from_millis(millis),
            Err(_) => self.open.lock_timeouts.map_or(DEFAULT_TIMEOUT, |it| it.of_transactions),
        };
        self.options = TransactionOptions::default()
            .isolation(Isolation::ReadCommitted)
            .concurrency(concurrency)
            .lock_timeout(timeout);
        self.sync = write.is_some_and(|write| write.is_on("sync"));
        let expiration = options.map_or(-1, |options| options.number("expiration", -1_i64));
        let lives = u64::try_from(expiration).ok().map(Duration::from_millis);
        self.expiration = lives.map(|lives| (SystemClock::new(), lives));
        self.max_bytes = options.map_or(0, |options| options.number("max_write_batch_size", 0));
        self.state = State::Running(None);
        if options.is_some_and(|options| options.is_on("set_snapshot")) {
            self.set_snapshot();
        }
        Ok(())
    }

    /// Lets writes conflict with writes of others after this.
    fn set_snapshot(&mut self) {
        self.forget_snapshot();
        self.snapshot = Handle::new(self.open.db.snapshot());
    }

    fn forget_snapshot(&mut self) {
        drop(std::mem::replace(&mut self.snapshot, Handle::null()).take());
    }

    /// Esker's transaction.
    fn running(&mut self) -> Result<&mut esker::Transaction> {
        let State::Running(running) = &mut self.state else { return Err(ended()) };
        if running.is_none() {
            let mut transaction = self.open.db.transaction_with(self.options)?;
            if let Some(snapshot) = self.snapshot.optional() {
                transaction.set_snapshot(snapshot)?;
            }
            *running = Some(Box::new(transaction));
        }
        running.as_deref_mut().ok_or_else(ended)
    }

    /// Locks a key. An optimistic transaction notes it for the commit.
    fn lock(&mut self, family: &Family, key: &[u8]) -> Result<()> {
        self.running()?.get_for_update(family.plain()?, key)?;
        Ok(())
    }

    /// Fails once the transaction has expired.
    fn check_expiration(&self) -> Result<()> {
        match self.expiration.as_ref().is_some_and(|(clock, lives)| clock.now() >= *lives) {
            true => Err(Status::new(Code::Expired, "the transaction has expired; begin another")),
            false => Ok(()),
        }
    }

    /// Fails if the transaction may not have the write.
    fn check_write(&self, record: Record<'_>) -> Result<()> {
        self.check_expiration()?;
        let bytes = self.writes.get().wire().bytes().len() + record.bytes();
        match self.max_bytes > 0 && bytes > self.max_bytes {
            true => Err(Status::new(Code::Aborted, "Memory limit reached: max_write_batch_size")),
            false => Ok(()),
        }
    }

    /// Adds a write.
    pub fn write(&mut self, family: &Family, record: Record<'_>) -> Result<()> {
        self.check_write(record)?;
        let is_optimistic = self.options.concurrency == Concurrency::Optimistic;
        let keyspace = family.plain()?.clone();
        match record {
            Record::Put(key, _) | Record::Delete(key) | Record::SingleDelete(key)
                if is_optimistic =>
            {
                // Esker's optimistic transactions check what they read for update.
                self.lock(family, key)?;
            }
            _ => {}
        }
        let transaction = self.running()?;
        match (record, family.ttl) {
            (Record::Put(key, value), None) => transaction.put(&keyspace, key, value)?,
            (Record::Put(key, value), Some(ttl)) => {
                transaction.put_with_ttl(&keyspace, key, value, ttl)?;
            }
            (Record::Delete(key) | Record::SingleDelete(key), _) => {
                transaction.delete(&keyspace, key)?;
            }
            (Record::Merge(..), _) if family.merge.is_none() => return Err(Status::no_operator()),
            (Record::Merge(key, operand), _) => transaction.merge(&keyspace, key, operand)?,
            (Record::DeleteRange(..), _) => {
                return Err(Status::unsupported("a transaction cannot delete a range of keys"));
            }
            (Record::LogData(_), _) => {}
        }
        self.writes.change(|writes| writes.push(family.id(), record));
        Ok(())
    }

    /// Adds the records of a batch to an empty transaction.
    pub fn rebuild(&mut self, batch: &Wire) -> Result<()> {
        for record in batch.records() {
            let (id, record) = record?;
            let family = self.open.family(id)?;
            self.write(&family, record)?;
        }
        Ok(())
    }

    /// Sets a savepoint.
    pub fn set_savepoint(&mut self) -> Result<()> {
        self.running()?.set_savepoint()?;
        self.writes.change(Indexed::set_savepoint);
        Ok(())
    }

    /// Removes the writes since the last savepoint. Their locks stay.
    pub fn rollback_to_savepoint(&mut self) -> Result<()> {
        self.running()?.rollback_to_savepoint()?;
        self.writes.change(Indexed::rollback_to_savepoint)
    }

    /// Names the transaction, to prepare it.
    pub fn set_name(&mut self, name: &[u8]) -> Result<()> {
        if !self.name.is_empty() {
            return Err(Status::invalid("Transaction has already been named."));
        }
        if name.is_empty() || name.len() > NAME_MAX {
            let what = format!(
                "a transaction has a name of 1 to {NAME_MAX} bytes, and this one has {}",
                name.len()
            );
            return Err(Status::invalid(what));
        }
        if !self.open.names().insert(name.to_vec()) {
            return Err(Status::invalid("Transaction name must be unique."));
        }
        self.name = name.to_vec();
        Ok(())
    }

    /// The first phase of a two-phase commit.
    pub fn prepare(&mut self) -> Result<()> {
        if self.name.is_empty() {
            return Err(Status::invalid("Cannot prepare a transaction that has not been named."));
        }
        self.check_expiration()?;
        let name = self.name.clone();
        // After an error it goes on, and may be prepared again, committed or rolled back.
        self.running()?.prepare_or_keep(name)?;
        self.state = State::Prepared;
        Ok(())
    }

    /// Commits. After an error nothing is written.
    pub fn commit(&mut self) -> Result<()> {
        if matches!(self.state, State::Running(_)) {
            self.check_expiration()?;
        }
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Running(transaction) => {
                transaction.map_or(Ok(()), |transaction| transaction.commit())?;
            }
            State::Prepared => {
                self.state = State::Prepared;
                let committed = self.open.db.commit_prepared(&self.name);
                self.decided(committed)?;
            }
            State::Ended => return Err(ended()),
        }
        self.end();
        if self.sync { self.open.db.sync().map_err(Status::from) } else { Ok(()) }
    }

    /// Discards all writes. The transaction may go on with others.
    pub fn rollback(&mut self) -> Result<()> {
        if let State::Prepared = self.state {
            let rolled_back = self.open.db.rollback_prepared(&self.name);
            self.decided(rolled_back)?;
        }
        self.end();
        self.state = State::Running(None);
        Ok(())
    }

    /// What comes of the decision about a prepared transaction. After an error it may be committed or rolled
    /// back, unless it is not prepared any more: where only the sync failed, it has ended.
    fn decided(&mut self, outcome: esker::Result<()>) -> Result<()> {
        let Err(error) = outcome else { return Ok(()) };
        let prepared = self.open.db.prepared();
        if prepared.is_ok_and(|all| all.iter().all(|it| it.id[..] != self.name[..])) {
            self.end();
        }
        Err(error.into())
    }

    /// Releases all that it holds but the snapshot, which the program may read until the transaction is
    /// begun anew or destroyed, and which later writes are checked against. A prepared transaction stays
    /// prepared.
    fn end(&mut self) {
        self.state = State::Ended;
        self.writes.change(Indexed::clear);
        if !self.name.is_empty() {
            self.open.names().remove(&self.name);
            self.name.clear();
        }
    }

    /// Transactions that were prepared, and not decided, before this open or since.
    pub fn prepared(open: &Arc<Open>) -> Result<Vec<Transaction>> {
        let all = open.db.prepared()?;
        let restored = all.into_iter().map(|prepared| {
            let mut transaction = Transaction::new(open, None, None, Concurrency::Pessimistic)?;
            transaction.name = prepared.id.to_vec();
            transaction.state = State::Prepared;
            Ok(transaction)
        });
        restored.collect()
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            self.open.names().remove(&self.name);
        }
        drop(self.writes.take());
        drop(self.snapshot.take());
    }
}

fn ended() -> Status {
    Status::invalid("Transaction is not in a state in which this can be done: it has ended")
}

/// A lock timeout in milliseconds, as RocksDB has it.
pub fn timeout_of(millis: i64) -> Duration {
    u64::try_from(millis).map_or(UNLIMITED, Duration::from_millis)
}
