//! RocksDB's files in a [`Storage`]: `shim.cc` is a RocksDB file system that calls this side.
//!
//! Files are appended to and read like any file of the storage; nothing is cached here. If the log
//! is synced at every write, it uses the storage's log files, as Esker's does: they have a fixed
//! size, are zeroed at creation, and are reused when RocksDB recycles logs. A sync then writes the
//! log's bytes and no directory.

use ::rocksdb::Env;
use esker_base::{Error, FileKind, Result, WriteHint};
use esker_storage::{LogFile, ReadableFile, Storage, WritableFile};
use std::ffi::{c_char, c_void};
use std::io::ErrorKind;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// As `shim.cc` has it.
#[repr(C)]
struct Outcome {
    code: i32,
    message: [u8; 252],
}

/// As `shim.cc` has it.
#[repr(C)]
struct Name {
    bytes: *const c_char,
    length: usize,
}

// SAFETY: `list` says what its caller promises.
type Add = unsafe extern "C" fn(*mut c_void, *const c_char, usize);

/// As `shim.cc` has it.
#[repr(C)]
struct Table {
    context: *const c_void,
    // SAFETY: of each it is said below what its caller promises; `shim.cc` alone calls them.
    open: unsafe extern "C" fn(*const c_void, Name, *mut Outcome) -> *mut c_void,
    length: unsafe extern "C" fn(*const c_void, *mut Outcome) -> u64,
    read: unsafe extern "C" fn(*const c_void, u64, *mut u8, usize, *mut Outcome),
    close_reader: unsafe extern "C" fn(*mut c_void),
    create: unsafe extern "C" fn(*const c_void, Name, *mut Outcome) -> *mut c_void,
    reuse: unsafe extern "C" fn(*const c_void, Name, Name, *mut Outcome) -> *mut c_void,
    append: unsafe extern "C" fn(*mut c_void, *const u8, usize, *mut Outcome),
    // SAFETY: as above.
    sync: unsafe extern "C" fn(*mut c_void, *mut Outcome),
    close_writer: unsafe extern "C" fn(*mut c_void),
    list: unsafe extern "C" fn(*const c_void, *mut c_void, Add, *mut Outcome),
    remove: unsafe extern "C" fn(*const c_void, Name, *mut Outcome),
    rename: unsafe extern "C" fn(*const c_void, Name, Name, *mut Outcome),
    sync_names: unsafe extern "C" fn(*const c_void, *mut Outcome),
    // SAFETY: as above.
    lock: unsafe extern "C" fn(*const c_void, *mut Outcome) -> *mut c_void,
    unlock: unsafe extern "C" fn(*mut c_void),
    dropped: unsafe extern "C" fn(*const c_void),
}

// SAFETY: declared as in `shim.cc`.
unsafe extern "C" {
    /// Copies the table. Its calls come until `dropped`.
    fn esker_peers_store_env(table: *const Table) -> *mut c_void;
}

/// What the calls are about.
struct Files {
    storage: Arc<dyn Storage>,
    /// The size of a log that is synced at every write.
    log_bytes: Option<u64>,
}

/// A file that is written.
enum Writer {
    Stream(Box<dyn WritableFile>),
    Log { file: Arc<dyn LogFile>, at: u64 },
}

type Reader = Arc<dyn ReadableFile>;
type Lock = Box<dyn Send + Sync>;

/// Files in `storage`. With `log_bytes`, logs are files of that size.
pub(super) fn in_storage(storage: Arc<dyn Storage>, log_bytes: Option<u64>) -> Env {
    let context = Arc::into_raw(Arc::new(Files { storage, log_bytes })).cast();
    let table = Table {
        context,
        open,
        length,
        read,
        close_reader,
        create,
        reuse,
        append,
        sync,
        close_writer,
        list,
        remove,
        rename,
        sync_names,
        lock,
        unlock,
        dropped,
    };
    // SAFETY: the context is counted until `dropped`, as the functions below want it; the result is an env that
    // nobody else has, as `from_raw` wants it.
    unsafe { Env::from_raw(esker_peers_store_env(&table).cast()) }
}

impl Files {
    fn create(&self, name: &str) -> Result<Writer> {
        match self.log_bytes.filter(|_| name.ends_with(".log")) {
            Some(bytes) => Ok(Writer::Log { file: self.storage.create_log(name, bytes)?, at: 0 }),
            None => Ok(Writer::Stream(self.storage.create(name, WriteHint::of(FileKind::Table))?)),
        }
    }

    fn reuse(&self, name: &str, old: &str) -> Result<Writer> {
        if let Some(bytes) = self.log_bytes
            && let Some(file) = self.storage.recycle_log(old, name, bytes)?
        {
            return Ok(Writer::Log { file, at: 0 });
        }
        self.storage.remove(old)?;
        self.create(name)
    }
}

impl Writer {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Writer::Stream(file) => file.append(bytes),
            Writer::Log { file, at } => {
                file.write_at(*at, bytes)?;
                *at += bytes.len() as u64;
                Ok(())
            }
        }
    }

    fn sync(&mut self) -> Result<()> {
        match self {
            Writer::Stream(file) => file.sync(),
            Writer::Log { file, .. } => file.sync(),
        }
    }
}

/// Says how a call ended. Gives what it gave, if it did.
fn tell<T>(result: Result<T>, outcome: *mut Outcome) -> Option<T> {
    let error = match result {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    let is_missing =
        matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::NotFound);
    let mut message = [0; 252];
    for (out, byte) in message[..251].iter_mut().zip(error.to_string().bytes()) {
        *out = byte;
    }
    // SAFETY: whoever calls gives an outcome to be written; an `Outcome` has nothing to be dropped.
    unsafe { outcome.write(Outcome { code: if is_missing { 1 } else { 2 }, message }) };
    None
}

fn boxed<T>(result: Result<T>, outcome: *mut Outcome) -> *mut c_void {
    tell(result, outcome)
        .map_or(std::ptr::null_mut(), |value| Box::into_raw(Box::new(value)).cast())
}

/// The files that the calls are about, borrowed: the count that was given away is not taken back.
///
/// # Safety
/// `context` is the table's, before `dropped`.
unsafe fn files(context: *const c_void) -> ManuallyDrop<Arc<Files>> {
    // SAFETY: as the caller promises: it came from `into_raw` of such a count.
    ManuallyDrop::new(unsafe { Arc::from_raw(context.cast::<Files>()) })
}

impl Name {
    /// # Safety
    /// The name has so many bytes, which stay while it is used.
    unsafe fn text(&self) -> String {
        // SAFETY: as the caller promises.
        let bytes = unsafe { std::slice::from_raw_parts(self.bytes.cast::<u8>(), self.length) };
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// # Safety
/// `context` is the table's, `name` a name, `outcome` to be written.
unsafe extern "C" fn open(
    context: *const c_void,
    name: Name,
    outcome: *mut Outcome,
) -> *mut c_void {
    // SAFETY: as the caller promises.
    let (files, name) = unsafe { (files(context), name.text()) };
    let opened: Result<Reader> = files.storage.open(&name);
    boxed(opened, outcome)
}

/// # Safety
/// `reader` is from `open`, and not closed.
unsafe extern "C" fn length(reader: *const c_void, outcome: *mut Outcome) -> u64 {
    // SAFETY: as the caller promises.
    let reader = unsafe { &*reader.cast::<Reader>() };
    tell(reader.len(), outcome).unwrap_or(0)
}

/// # Safety
/// `reader` is from `open`, and not closed; `out` has space for `bytes`, which are written and not read.
unsafe extern "C" fn read(
    reader: *const c_void,
    offset: u64,
    out: *mut u8,
    bytes: usize,
    outcome: *mut Outcome,
) {
    if bytes == 0 {
        return;
    }
    // SAFETY: as the caller promises; zeros make the bytes a slice's.
    let out = unsafe {
        out.write_bytes(0, bytes);
        std::slice::from_raw_parts_mut(out, bytes)
    };
    // SAFETY: as the caller promises.
    let reader = unsafe { &*reader.cast::<Reader>() };
    tell(reader.read_exact_at(offset, out), outcome);
}

/// # Safety
/// `reader` is from `open`, and not used any more.
unsafe extern "C" fn close_reader(reader: *mut c_void) {
    // SAFETY: as the caller promises; `open` made it as a box.
    drop(unsafe { Box::from_raw(reader.cast::<Reader>()) });
}

/// # Safety
/// As `open`.
unsafe extern "C" fn create(
    context: *const c_void,
    name: Name,
    outcome: *mut Outcome,
) -> *mut c_void {
    // SAFETY: as the caller promises.
    let (files, name) = unsafe { (files(context), name.text()) };
    boxed(files.create(&name), outcome)
}

/// # Safety
/// As `open`, with two names.
unsafe extern "C" fn reuse(
    context: *const c_void,
    name: Name,
    old: Name,
    outcome: *mut Outcome,
) -> *mut c_void {
    // SAFETY: as the caller promises.
    let (files, name, old) = unsafe { (files(context), name.text(), old.text()) };
    boxed(files.reuse(&name, &old), outcome)
}

/// # Safety
/// `writer` is from `create` or `reuse`, not closed, and no other thread's now; `bytes` has `length` bytes.
unsafe extern "C" fn append(
    writer: *mut c_void,
    bytes: *const u8,
    length: usize,
    outcome: *mut Outcome,
) {
    if length == 0 {
        return;
    }
    // SAFETY: as the caller promises.
    let (writer, bytes) =
        unsafe { (&mut *writer.cast::<Writer>(), std::slice::from_raw_parts(bytes, length)) };
    tell(writer.append(bytes), outcome);
}

/// # Safety
/// `writer` is from `create` or `reuse`, not closed, and no other thread's now.
unsafe extern "C" fn sync(writer: *mut c_void, outcome: *mut Outcome) {
    // SAFETY: as the caller promises.
    let writer = unsafe { &mut *writer.cast::<Writer>() };
    tell(writer.sync(), outcome);
}

/// # Safety
/// `writer` is from `create` or `reuse`, and not used any more.
unsafe extern "C" fn close_writer(writer: *mut c_void) {
    // SAFETY: as the caller promises; it was made as a box.
    drop(unsafe { Box::from_raw(writer.cast::<Writer>()) });
}

/// # Safety
/// `context` is the table's; `add` may be called with `names` and bytes that stay during the call.
unsafe extern "C" fn list(
    context: *const c_void,
    names: *mut c_void,
    add: Add,
    outcome: *mut Outcome,
) {
    // SAFETY: as the caller promises.
    let files = unsafe { files(context) };
    for name in tell(files.storage.list(), outcome).unwrap_or_default() {
        // SAFETY: as the caller promises; `name` stays until the end of the turn.
        unsafe { add(names, name.as_ptr().cast(), name.len()) };
    }
}

/// # Safety
/// As `open`.
unsafe extern "C" fn remove(context: *const c_void, name: Name, outcome: *mut Outcome) {
    // SAFETY: as the caller promises.
    let (files, name) = unsafe { (files(context), name.text()) };
    tell(files.storage.remove(&name), outcome);
}

/// # Safety
/// As `open`, with two names.
unsafe extern "C" fn rename(context: *const c_void, from: Name, to: Name, outcome: *mut Outcome) {
    // SAFETY: as the caller promises.
    let (files, from, to) = unsafe { (files(context), from.text(), to.text()) };
    tell(files.storage.rename(&from, &to), outcome);
}

/// # Safety
/// `context` is the table's.
unsafe extern "C" fn sync_names(context: *const c_void, outcome: *mut Outcome) {
    // SAFETY: as the caller promises.
    tell(unsafe { files(context) }.storage.sync_names(), outcome);
}

/// # Safety
/// `context` is the table's.
unsafe extern "C" fn lock(context: *const c_void, outcome: *mut Outcome) -> *mut c_void {
    // SAFETY: as the caller promises.
    let held: Result<Lock> = unsafe { files(context) }.storage.lock();
    boxed(held, outcome)
}

/// # Safety
/// `lock` is from `lock`, and not used any more.
unsafe extern "C" fn unlock(lock: *mut c_void) {
    // SAFETY: as the caller promises; it was made as a box.
    drop(unsafe { Box::from_raw(lock.cast::<Lock>()) });
}

/// # Safety
/// `context` is the table's, and no call comes after this one.
unsafe extern "C" fn dropped(context: *const c_void) {
    // SAFETY: the count that `in_storage` gave away is taken back, once.
    drop(unsafe { Arc::from_raw(context.cast::<Files>()) });
}
