//! Compaction filters, and factories of them.

use crate::border::callback::{Destructor, State, start};
use crate::border::{Handle, c_api};
use crate::merge::{Name, name_of};
use esker::filter::FilterDecision;
use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type FilterFunction = Option<
    unsafe extern "C" fn(
        *mut c_void,
        c_int,
        *const c_char,
        usize,
        *const c_char,
        usize,
        *mut *mut c_char,
        *mut usize,
        *mut c_uchar,
    ) -> c_uchar,
>;
type CreateFilter = Option<unsafe extern "C" fn(*mut c_void, *mut Context) -> Handle<Arc<Filter>>>;

/// The level that a filter gets: Esker asks it when an entry is rewritten, on any level.
const LEVEL: c_int = 1;

/// How many entries one filter of a factory decides about. A compaction of RocksDB has one filter;
/// Esker's compactions call a filter for single entries only.
const DECISIONS_MAX: u64 = 1 << 20;

/// RocksDB's `rocksdb_compactionfilter_t`, or its factory.
pub enum Filter {
    /// One whose function a C program gave.
    Given(Functions),
    /// One that makes filters.
    Factory(Factory),
}

/// The function of a filter.
pub struct Functions {
    state: State,
    filter: FilterFunction,
    name: Name,
}

/// The function that makes filters, and the last filter that it made.
pub struct Factory {
    state: State,
    create: CreateFilter,
    name: Name,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    filter: Option<Arc<Filter>>,
    decisions: u64,
}

/// RocksDB's `rocksdb_compactionfiltercontext_t`.
pub struct Context {
    is_manual: bool,
}

impl Filter {
    /// The name, for messages.
    pub fn name(&self) -> String {
        match self {
            Filter::Given(functions) => name_of(&functions.state, functions.name),
            Filter::Factory(factory) => name_of(&factory.state, factory.name),
        }
    }

    /// What the filter decides about an entry.
    pub fn decide(&self, key: &[u8], value: &[u8]) -> FilterDecision {
        match self {
            Filter::Given(functions) => functions.decide(key, value),
            Filter::Factory(factory) => factory.decide(key, value),
        }
    }

    /// Lets a factory make a new filter, for a compaction that a program asks for.
    pub fn begin_compaction(&self) {
        if let Filter::Factory(factory) = self {
            *factory.lock() = Made::default();
        }
    }
}

impl Factory {
    fn lock(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A filter is used by one thread at a time, as in RocksDB, and for so many entries at most.
    fn decide(&self, key: &[u8], value: &[u8]) -> FilterDecision {
        let mut made = self.lock();
        if made.filter.is_none() || made.decisions == DECISIONS_MAX {
            *made = Made { filter: self.create(), decisions: 0 };
        }
        made.decisions += 1;
        made.filter.as_ref().map_or(FilterDecision::Keep, |filter| filter.decide(key, value))
    }

    fn create(&self) -> Option<Arc<Filter>> {
        let create = self.create?;
        let mut context = Context { is_manual: false };
        // SAFETY: the C program gave both for this call, and returns a filter that is ours then.
        unsafe { create(self.state.get(), &mut context) }.take().map(|filter| *filter)
    }
}

impl Functions {
    fn decide(&self, key: &[u8], value: &[u8]) -> FilterDecision {
        let Some(filter) = self.filter else { return FilterDecision::Keep };
        let mut new_value: *mut c_char = std::ptr::null_mut();
        let (mut new_length, mut is_changed) = (0, 0);
        // SAFETY: the arguments are those of `c.h`, and live during the call.
        let drops = unsafe {
            filter(
                self.state.get(),
                LEVEL,
                start(key),
                key.len(),
                start(value),
                value.len(),
                &mut new_value,
                &mut new_length,
                &mut is_changed,
            )
        };
        if drops != 0 {
            return FilterDecision::Drop;
        }
        if is_changed == 0 {
            return FilterDecision::Keep;
        }
        if new_value.is_null() {
            return FilterDecision::Replace(Vec::new());
        }
        // SAFETY: the filter set both to a value that stays valid until it is called again.
        let bytes = unsafe { std::slice::from_raw_parts(new_value.cast::<u8>(), new_length) };
        FilterDecision::Replace(bytes.to_vec())
    }
}

c_api! {
    fn rocksdb_compactionfilter_create(
        state: *mut c_void,
        destructor: Destructor,
        filter: FilterFunction,
        name: Name,
    ) -> Handle<Arc<Filter>> {
        let state = State::new(state, destructor);
        Handle::new(Arc::new(Filter::Given(Functions { state, filter, name })))
    }

    fn rocksdb_compactionfilter_destroy(filter: Handle<Arc<Filter>>) {
        drop(filter.take());
    }

    /// Esker's filters always ignore what snapshots see: they are asked about newer values only.
    fn rocksdb_compactionfilter_set_ignore_snapshots(_filter: Handle<Arc<Filter>>, _ignore: c_uchar) {}

    fn rocksdb_compactionfilterfactory_create(
        state: *mut c_void,
        destructor: Destructor,
        create: CreateFilter,
        name: Name,
    ) -> Handle<Arc<Filter>> {
        let state = State::new(state, destructor);
        Handle::new(Arc::new(Filter::Factory(Factory {
            state,
            create,
            name,
            made: Mutex::default(),
        })))
    }

    fn rocksdb_compactionfilterfactory_destroy(factory: Handle<Arc<Filter>>) {
        drop(factory.take());
    }

    fn rocksdb_compactionfiltercontext_is_full_compaction(_context: Handle<Context>) -> c_uchar {
        0
    }

    fn rocksdb_compactionfiltercontext_is_manual_compaction(context: Handle<Context>) -> c_uchar {
        c_uchar::from(context.get().is_manual)
    }
}
