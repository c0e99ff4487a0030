//! Opening and closing of databases.

use crate::border::{Array, Code, Handle, Out, Result, Status, Text, c_api};
use crate::comparator::KeyOrder;
use crate::database::{Database, Family, LockTimeouts, Open};
use crate::direction::Direction;
use crate::identity;
use crate::info_log;
use crate::knobs::Knobs;
use crate::options::Options;
use crate::options_file;
use crate::settings::{keyspace_settings, settings};
use crate::slots::{Place, Slots, free_slot, slot_of, with_slot};
use crate::stamps;
use crate::transaction::timeout_of;
use esker::env::Env;
use esker::{DEFAULT_KEYSPACE, Db, KeyspaceSettings, Settings};
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uchar};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How a database is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// For reading and writing.
    Write,
    /// For reading, at its present state.
    ReadOnly,
    /// For reading, and catching up with a writer.
    Follow,
}

/// A column family to open.
pub struct Wanted<'a> {
    name: &'a str,
    options: &'a Options,
    ttl: Option<Duration>,
}

impl<'a> Wanted<'a> {
    /// The default column family.
    pub fn default_family(options: &'a Options) -> Self {
        Wanted { name: DEFAULT_KEYSPACE, options, ttl: None }
    }
}

/// A database with the families that were asked for, in their order.
type Opened = (Database, Vec<Arc<Family>>);

/// A time to live in seconds; zero and less is none.
fn ttl_of(seconds: c_int) -> Option<Duration> {
    u64::try_from(seconds).ok().filter(|&seconds| seconds > 0).map(Duration::from_secs)
}

/// Fails if the directory has a database of RocksDB.
///
/// # Errors
/// Names the directory.
pub fn refuse_rocksdb(path: &str) -> Result<()> {
    let current = std::fs::read_to_string(Path::new(path).join("CURRENT")).unwrap_or_default();
    if !current.starts_with("MANIFEST-") {
        return Ok(());
    }
    Err(Status::invalid(format!(
        "{path} holds a database of RocksDB, and this library is Esker's, which does not read its files; \
         open it with RocksDB, and write its data to another directory"
    )))
}

/// Whether there is a database at `path`.
pub fn exists(path: &str, options: &Options) -> bool {
    let in_memory = options.environment.as_ref().and_then(|env| env.storage(path));
    match in_memory {
        Some(storage) => esker::env::Storage::exists(&*storage, "CURRENT").unwrap_or(false),
        None => Path::new(path).join("CURRENT").exists(),
    }
}

fn open_db(path: &str, options: &Options, mode: Mode, settings: Settings) -> Result<Db> {
    let in_memory = options.environment.as_ref().and_then(|env| env.storage(path));
    let opened = match (in_memory, mode) {
        (Some(storage), Mode::Write) => Db::open_with(Env::over(storage), settings),
        (Some(storage), _) => Db::open_read_only_with(Env::over(storage), settings),
        (None, Mode::Write) => Db::open(path, settings),
        (None, Mode::ReadOnly) => Db::open_read_only(path, settings),
        (None, Mode::Follow) => Db::open_follower(path, settings, None),
    };
    opened.map_err(|error| match error {
        esker::Error::Locked { .. } => {
            Status::new(Code::IoError, format!("lock hold by current process or another: {error}"))
        }
        error => error.into(),
    })
}

/// Opens a database.
///
/// # Errors
/// If the options do not allow it, or Esker cannot.
pub fn open(
    path: &str,
    options: &Options,
    wanted: &[Wanted<'_>],
    mode: Mode,
    lock_timeouts: Option<LockTimeouts>,
) -> Result<Opened> {
    refuse_rocksdb(path)?;
    options.check()?;
    wanted.iter().try_for_each(|wanted| wanted.options.check_family())?;
    check_existence(path, options, mode)?;
    let is_new = !exists(path, options);
    let slots = Arc::new(Slots::default());
    let default = wanted.iter().find(|it| it.name == DEFAULT_KEYSPACE);
    let of_default = default.map_or(options, |wanted| wanted.options);
    let keyspace = new_keyspace(of_default, Some(0))?;
    let settings = slots.add_to(settings(options, path)?.default_keyspace(keyspace));
    let settings = stamps::operators().fold(settings, |settings, it| settings.merge_operator(it));
    let db = open_db(path, options, mode, settings)?;
    let families = open_families(&db, options, wanted, mode, &slots);
    let families = families.inspect_err(|_| drop(db.clone().close()))?;
    if is_new || mode == Mode::Write {
        let all = || wanted.iter().map(|wanted| (wanted.name, wanted.options));
        info_log::begin(path, options, all());
        options_file::write(path, options, all());
    }
    keep_logs(&db, options, mode)?;
    let all = families.clone();
    let tables = families_options(options, wanted).filter_map(|it| it.table.as_ref());
    let cache = tables.filter_map(|table| table.cache.clone()).next();
    let mut open = Open::new(db, path, options, slots, all, mode != Mode::Write, lock_timeouts)?;
    open.cache = cache;
    let open = Arc::new(open);
    if let Some(statistics) = open.statistics() {
        let weak = Arc::downgrade(&open);
        statistics.attach(open.address(), move || weak.upgrade().map(|open| open.db.stats()));
    }
    if let Some(cache) = &open.cache {
        let weak = Arc::downgrade(&open);
        let cached = move || weak.upgrade().map(|open| cached_bytes(&open.db.stats()));
        cache.attach(open.address(), cached);
    }
    Ok((Database { open }, families))
}

/// The bytes that a database keeps in memory for reads: blocks, and indexes and filters of tables.
fn cached_bytes(stats: &esker::Stats) -> u64 {
    stats.cache_bytes + stats.table_memory_bytes
}

/// The options of a database, then those of its families.
fn families_options<'a>(
    options: &'a Options,
    wanted: &'a [Wanted<'a>],
) -> impl Iterator<Item = &'a Options> {
    std::iter::once(options).chain(wanted.iter().map(|wanted| wanted.options))
}

/// Fails if the database is there and must not be, or the other way round.
fn check_existence(path: &str, options: &Options, mode: Mode) -> Result<()> {
    let is_there = exists(path, options);
    let creates = mode == Mode::Write && options.knobs.is_on("create_if_missing");
    if !is_there && mode != Mode::Write {
        let what = format!("No such file or directory: {path}/CURRENT: there is no database");
        return Err(Status::new(Code::IoError, what));
    }
    if !is_there && !creates {
        let what = format!("{path}: does not exist (create_if_missing is false)");
        return Err(Status::invalid(what));
    }
    if is_there && mode == Mode::Write && options.knobs.is_on("error_if_exists") {
        return Err(Status::invalid(format!("{path}: exists (error_if_exists is true)")));
    }
    Ok(())
}

/// The consumer of changes that keeps logs for `rocksdb_get_updates_since`.
const LOG_KEEPER: &str = "rocksdb:wal";

/// Keeps flushed logs if the options ask for it, by time or by size.
fn keep_logs(db: &Db, options: &Options, mode: Mode) -> Result<()> {
    let megabytes = options.knobs.number("WAL_size_limit_MB", 0_u64);
    let seconds = options.knobs.number("WAL_ttl_seconds", 0_u64);
    if mode != Mode::Write {
        return Ok(());
    }
    if megabytes == 0 && seconds == 0 {
        // An earlier open may have kept logs.
        if db.change_consumers().iter().any(|consumer| consumer.name == LOG_KEEPER) {
            db.drop_change_consumer(LOG_KEEPER)?;
        }
        return Ok(());
    }
    // A time alone has this bound, too: logs do not go by their age.
    let bound = megabytes.saturating_mul(1 << 20).max(1 << 30);
    db.change_consumer(LOG_KEEPER, bound)?;
    Ok(())
}

/// Opens the families that are wanted, and creates those that are missing if the options allow that.
fn open_families(
    db: &Db,
    options: &Options,
    wanted: &[Wanted<'_>],
    mode: Mode,
    slots: &Slots,
) -> Result<Vec<Arc<Family>>> {
    let there = db.keyspaces();
    if !wanted.iter().any(|it| it.name == DEFAULT_KEYSPACE) {
        return Err(Status::invalid("Default column family not specified"));
    }
    let unopened: Vec<&str> = there
        .iter()
        .map(|it| &it.name[..])
        .filter(|name| !wanted.iter().any(|wanted| wanted.name == *name))
        .collect();
    if mode == Mode::Write && !unopened.is_empty() {
        let names = unopened.join(", ");
        return Err(Status::invalid(format!("Column families not opened: {names}")));
    }
    let creates = mode == Mode::Write && options.knobs.is_on("create_missing_column_families");
    let missing = wanted.iter().find(|wanted| !there.iter().any(|it| it.name == wanted.name));
    if let Some(missing) = missing.filter(|_| !creates) {
        return Err(Status::invalid(format!("Column family not found: {}", missing.name)));
    }
    let open = |wanted: &Wanted<'_>| {
        if db.open_keyspace(wanted.name).is_err() {
            create(db, wanted.name, wanted.options)?;
        }
        let keyspace = db.open_keyspace(wanted.name)?;
        Ok(Arc::new(Family::new(keyspace, wanted.options, wanted.ttl, slots)?))
    };
    let families: Vec<Arc<Family>> = wanted.iter().map(open).collect::<Result<_>>()?;
    check_slots(&families)?;
    Ok(families)
}

/// Fails if an operator or a filter would be called for two families.
fn check_slots(families: &[Arc<Family>]) -> Result<()> {
    let mut slots: HashMap<usize, &Family> = HashMap::new();
    for family in families {
        let Some(Place { number: slot, .. }) = slot_of(&family.keyspace.settings()?) else {
            continue;
        };
        let Some(other) = slots.insert(slot, family) else { continue };
        if [family, other].iter().any(|it| it.merge.is_some() || it.filter.is_some()) {
            return Err(Status::new(
                Code::Corruption,
                format!(
                    "column families {:?} and {:?} have one place for a merge operator and a filter; open \
                     them without, and copy one of them to a new column family",
                    other.name(),
                    family.name()
                ),
            ));
        }
    }
    Ok(())
}

/// Creates a column family. The caller excludes that another is created meanwhile.
///
/// # Errors
/// If there is one of this name, or the name is not valid.
pub fn create(db: &Db, name: &str, options: &Options) -> Result<()> {
    options.check_family()?;
    if db.open_keyspace(name).is_ok() {
        return Err(Status::invalid("Column family already exists"));
    }
    db.keyspace(name, new_keyspace(options, free_slot(&db.keyspaces()))?)?;
    Ok(())
}

/// The settings of a new column family, which has the slot if its keys have no timestamps.
fn new_keyspace(options: &Options, slot: Option<usize>) -> Result<KeyspaceSettings> {
    let settings = keyspace_settings(options);
    Ok(match (options.key_order()?, slot) {
        (KeyOrder::Stamped(order), _) => stamps::with_order(settings, order),
        // Windows have no merges.
        (KeyOrder::Plain(_), _) if options.is_fifo() => settings,
        (KeyOrder::Plain(direction), Some(number)) => {
            with_slot(settings, Place { number, direction }, options.filter.is_some())
        }
        (KeyOrder::Plain(Direction { is_reverse: false }), None) => settings,
        (KeyOrder::Plain(Direction { is_reverse: true }), None) => {
            return Err(Status::unsupported(
                "a reverse comparator: the database has too many column families; use another database",
            ));
        }
    })
}

/// The handle of an open database, whose listeners are called from now on.
fn given(database: Database) -> Handle<Database> {
    let handle = Handle::new(database);
    handle.get().hear();
    handle
}

/// The arrays that name the families to open.
#[derive(Clone, Copy)]
pub struct Families {
    /// How many.
    pub count: c_int,
    /// Their names.
    pub names: Array<Text>,
    /// Their options.
    pub options: Array<Handle<Options>>,
    /// The handles of the opened ones.
    pub handles: Out<Handle<Arc<Family>>>,
}

impl Families {
    /// Opens a database with these families. A null `ttls` is none.
    fn open(
        self,
        options: &Options,
        path: Text,
        mode: Mode,
        ttls: Option<Array<c_int>>,
        lock_timeouts: Option<LockTimeouts>,
    ) -> Result<Handle<Database>> {
        self.open_with(options, path, mode, ttls, lock_timeouts, |_, _| Ok(()))
    }

    /// As [`Families::open`], and runs `then` before the program gets the database.
    ///
    /// # Errors
    /// Those of [`open`] and of `then`, which closes the database.
    pub fn open_with(
        self,
        options: &Options,
        path: Text,
        mode: Mode,
        ttls: Option<Array<c_int>>,
        lock_timeouts: Option<LockTimeouts>,
        then: impl FnOnce(&Open, &[Arc<Family>]) -> Result<()>,
    ) -> Result<Handle<Database>> {
        let count = usize::try_from(self.count).unwrap_or(0);
        let ttls: Vec<c_int> = ttls.map_or(vec![0; count], |ttls| ttls.of(count).to_vec());
        let all = self.names.of(count).iter().zip(self.options.of(count)).zip(ttls);
        let wanted = all.map(|((name, options), ttl)| {
            Ok(Wanted { name: name.get()?, options: options.get(), ttl: ttl_of(ttl) })
        });
        let wanted: Vec<_> = wanted.collect::<Result<_>>()?;
        let (database, families) = open(path.get()?, options, &wanted, mode, lock_timeouts)?;
        if let Err(status) = then(&database.open, &families) {
            database.open.detach();
            let _ = database.open.db.clone().close();
            return Err(status);
        }
        for (at, family) in families.into_iter().enumerate() {
            self.handles.set_at(at, Handle::new(family));
        }
        Ok(given(database))
    }
}

fn open_default(
    options: Handle<Options>,
    path: Text,
    mode: Mode,
    ttl: c_int,
    lock_timeouts: Option<LockTimeouts>,
) -> Result<Handle<Database>> {
    let options = options.get();
    let wanted = [Wanted { ttl: ttl_of(ttl), ..Wanted::default_family(options) }];
    let (database, _) = open(path.get()?, options, &wanted, mode, lock_timeouts)?;
    Ok(given(database))
}

/// How long calls wait for locks, in a database of pessimistic transactions.
fn lock_timeouts(options: Handle<Knobs>) -> Option<LockTimeouts> {
    let timeout = |name| {
        timeout_of(options.optional().map_or(1000, |options| options.number(name, 1000_i64)))
    };
    Some(LockTimeouts {
        of_writes: timeout("default_lock_timeout"),
        of_transactions: timeout("transaction_lock_timeout"),
    })
}

c_api! {
    try fn rocksdb_open | rocksdb_optimistictransactiondb_open(
        options: Handle<Options>,
        path: Text,
    ) -> Handle<Database> {
        open_default(options, path, Mode::Write, 0, None)
    }

    try fn rocksdb_open_with_ttl(
        options: Handle<Options>,
        path: Text,
        ttl: c_int,
    ) -> Handle<Database> {
        open_default(options, path, Mode::Write, ttl, None)
    }

    try fn rocksdb_open_for_read_only(
        options: Handle<Options>,
        path: Text,
        _error_if_wal_file_exists: c_uchar,
    ) -> Handle<Database> {
        open_default(options, path, Mode::ReadOnly, 0, None)
    }

    /// Nothing is written to the second directory: what RocksDB keeps there is a log of messages.
    try fn rocksdb_open_as_secondary(
        options: Handle<Options>,
        path: Text,
        _secondary_path: Text,
    ) -> Handle<Database> {
        open_default(options, path, Mode::Follow, 0, None)
    }

    try fn rocksdb_open_column_families | rocksdb_optimistictransactiondb_open_column_families(
        options: Handle<Options>,
        path: Text,
        count: c_int,
        names: Array<Text>,
        family_options: Array<Handle<Options>>,
        handles: Out<Handle<Arc<Family>>>,
    ) -> Handle<Database> {
        let families = Families { count, names, options: family_options, handles };
        families.open(options.get(), path, Mode::Write, None, None)
    }

    try fn rocksdb_open_column_families_with_ttl(
        options: Handle<Options>,
        path: Text,
        count: c_int,
        names: Array<Text>,
        family_options: Array<Handle<Options>>,
        handles: Out<Handle<Arc<Family>>>,
        ttls: Array<c_int>,
    ) -> Handle<Database> {
        let families = Families { count, names, options: family_options, handles };
        let ttls = Some(ttls).filter(|ttls| !ttls.is_null());
        families.open(options.get(), path, Mode::Write, ttls, None)
    }

    try fn rocksdb_open_for_read_only_column_families(
        options: Handle<Options>,
        path: Text,
        count: c_int,
        names: Array<Text>,
        family_options: Array<Handle<Options>>,
        handles: Out<Handle<Arc<Family>>>,
        _error_if_wal_file_exists: c_uchar,
    ) -> Handle<Database> {
        let families = Families { count, names, options: family_options, handles };
        families.open(options.get(), path, Mode::ReadOnly, None, None)
    }

    try fn rocksdb_open_as_secondary_column_families(
        options: Handle<Options>,
        path: Text,
        _secondary_path: Text,
        count: c_int,
        names: Array<Text>,
        family_options: Array<Handle<Options>>,
        handles: Out<Handle<Arc<Family>>>,
    ) -> Handle<Database> {
        let families = Families { count, names, options: family_options, handles };
        families.open(options.get(), path, Mode::Follow, None, None)
    }

    try fn rocksdb_transactiondb_open(
        options: Handle<Options>,
        transactions: Handle<Knobs>,
        path: Text,
    ) -> Handle<Database> {
        open_default(options, path, Mode::Write, 0, lock_timeouts(transactions))
    }

    try fn rocksdb_transactiondb_open_column_families(
        options: Handle<Options>,
        transactions: Handle<Knobs>,
        path: Text,
        count: c_int,
        names: Array<Text>,
        family_options: Array<Handle<Options>>,
        handles: Out<Handle<Arc<Family>>>,
    ) -> Handle<Database> {
        let families = Families { count, names, options: family_options, handles };
        families.open(options.get(), path, Mode::Write, None, lock_timeouts(transactions))
    }

    try fn rocksdb_optimistictransactiondb_open_with_otxn_db_options(
        options: Handle<Options>,
        _transactions: Handle<Knobs>,
        path: Text,
    ) -> Handle<Database> {
        open_default(options, path, Mode::Write, 0, None)
    }

    try fn rocksdb_optimistictransactiondb_open_column_families_with_otxn_db_options(
        options: Handle<Options>,
        _transactions: Handle<Knobs>,
        path: Text,
        count: c_int,
        names: Array<Text>,
        family_options: Array<Handle<Options>>,
        handles: Out<Handle<Arc<Family>>>,
    ) -> Handle<Database> {
        let families = Families { count, names, options: family_options, handles };
        families.open(options.get(), path, Mode::Write, None, None)
    }

    fn rocksdb_close | rocksdb_transactiondb_close | rocksdb_optimistictransactiondb_close(
        db: Handle<Database>,
    ) {
        if let Some(db) = db.take() {
            db.open.detach();
            // Other handles may be there still: they fail from now on. An error has nowhere to go.
            let _ = db.open.db.clone().close();
            // The program's pointer ends here.
            db.open.db.listen(|_| {});
        }
    }

    fn rocksdb_transactiondb_get_base_db | rocksdb_optimistictransactiondb_get_base_db(
        db: Handle<Database>,
    ) -> Handle<Database> {
        Handle::new(db.get().clone())
    }

    fn rocksdb_transactiondb_close_base_db | rocksdb_optimistictransactiondb_close_base_db(
        db: Handle<Database>,
    ) {
        drop(db.take());
    }

    fn rocksdb_get_db_identity(db: Handle<Database>, length: Out<usize>) -> *mut c_char {
        let identity = identity::of(&db.get().open);
        length.set(identity.len());
        crate::border::memory::copy_text(&identity)
    }

    try fn rocksdb_try_catch_up_with_primary(db: Handle<Database>) {
        let open = &db.get().open;
        open.db.catch_up()?;
        open.refresh()
    }
}
