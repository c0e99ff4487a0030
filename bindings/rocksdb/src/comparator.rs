//! Comparators. Esker sorts keys by their bytes, or in reverse. A comparator sorts samples of keys, and a
//! database is not opened if that is in another order.

use crate::border::callback::{Destructor, State, start};
use crate::border::{Handle, Result, Status, c_api};
use crate::direction::Direction;
use crate::merge::{Name, name_of};
use crate::stamps::order::{Order, STAMP_BYTES};
use std::cmp::Ordering;
use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::sync::{Arc, OnceLock};

/// The names of RocksDB's order of bytes, and of its reverse.
const BYTEWISE: &str = "leveldb.BytewiseComparator";
const REVERSE_BYTEWISE: &str = "rocksdb.ReverseBytewiseComparator";

/// How a column family sorts its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyOrder {
    /// By their bytes, or in reverse.
    Plain(Direction),
    /// By their bytes, or in reverse, and by their timestamps.
    Stamped(Order),
}

impl KeyOrder {
    /// The order of keys with timestamps, if they have some.
    pub fn stamped(self) -> Option<Order> {
        match self {
            KeyOrder::Plain(_) => None,
            KeyOrder::Stamped(order) => Some(order),
        }
    }

    /// The direction in which stored keys are read. Those with timestamps are stored in their order.
    pub fn direction(self) -> Direction {
        match self {
            KeyOrder::Plain(direction) => direction,
            KeyOrder::Stamped(_) => Direction::default(),
        }
    }
}

type Compare =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int>;
type CompareWithoutStamps = Option<
    unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        usize,
        c_uchar,
        *const c_char,
        usize,
        c_uchar,
    ) -> c_int,
>;

/// RocksDB's `rocksdb_comparator_t`.
pub struct Comparator {
    state: State,
    name: Name,
    /// Of keys without timestamps.
    compare: Compare,
    stamped: Option<Stamped>,
}

/// The functions of a comparator whose keys have timestamps.
struct Stamped {
    compare: Compare,
    compare_stamps: Compare,
    compare_without_stamps: CompareWithoutStamps,
    bytes: usize,
    /// What it answered for the samples.
    order: OnceLock<Option<Order>>,
}

impl Comparator {
    /// The order of keys.
    ///
    /// # Errors
    /// If it is one that Esker does not have. Names the comparator.
    pub fn order(&self) -> Result<KeyOrder> {
        let order = match &self.stamped {
            None => self.direction().map(KeyOrder::Plain),
            Some(stamped) => {
                stamped.order.get_or_init(|| stamped.ask(&self.state)).map(KeyOrder::Stamped)
            }
        };
        order.ok_or_else(|| {
            Status::unsupported(format!(
                "comparator {:?}: Esker sorts keys by their bytes or in reverse only, and timestamps are \
                 numbers of 64 bits; encode keys so that their bytes have the order",
                name_of(&self.state, self.name)
            ))
        })
    }

    /// How keys without timestamps are sorted: so says the name, or each sample.
    fn direction(&self) -> Option<Direction> {
        let directions = [false, true].map(|is_reverse| Direction { is_reverse });
        let name = name_of(&self.state, self.name);
        let names = [BYTEWISE, REVERSE_BYTEWISE];
        if let Some(known) = names.iter().position(|known| *known == name) {
            return Some(directions[known]);
        }
        let compare = self.compare?;
        let sorts = |direction: &Direction| {
            samples().all(|(one, other)| {
                // SAFETY: the C program gave the function for keys, and the bytes live during the call.
                let found = unsafe {
                    compare(self.state.get(), start(&one), one.len(), start(&other), other.len())
                };
                let order = (*one).cmp(&*other);
                found.cmp(&0) == if direction.is_reverse { order.reverse() } else { order }
            })
        };
        directions.into_iter().find(sorts)
    }
}

/// Keys, two and two, by which an order is known.
fn samples() -> impl Iterator<Item = (Sample, Sample)> {
    const KEYS: [&[u8]; 12] = [
        b"",
        b"\0",
        b"\0\0",
        b"\0\xff",
        b"a",
        b"a\0",
        b"a\0b",
        b"ab",
        b"b",
        b"\x7f",
        b"\x80",
        b"\xff\xff",
    ];
    // What an order of text or of numbers sorts differently.
    const WORDS: [&[u8]; 8] = [b"10", b"9", b"A", b"B", b"Ab", b"a b", b"a-b", b"b2"];
    let words = || KEYS.into_iter().chain(WORDS);
    let pairs = words().flat_map(move |one| words().map(move |other| (one, other)));
    let pairs = pairs.map(|(one, other)| (Sample::of(one), Sample::of(other)));
    let neighbours = (0..u8::MAX).map(|byte| (Sample::of(&[byte]), Sample::of(&[byte + 1])));
    // Keys that have a number, or several parts, may be sorted by these.
    let numbers = [4, 8, 9, 12, 16, 20, 24].into_iter().flat_map(|length| {
        (0..length).flat_map(move |at| {
            // The one is smaller by its byte there, and larger by each byte behind.
            let (mut one, mut other) = (vec![0x40; length], vec![0x40; length]);
            (one[at], other[at]) = (0x7f, 0x80);
            one[at + 1..].fill(0x41);
            let (one, other) = (Sample::of(&one), Sample::of(&other));
            [(one.clone(), other.clone()), (other, one)]
        })
    });
    pairs.chain(neighbours).chain(numbers)
}

/// A key of few bytes in more memory than it takes: a comparator of keys of one length may read further.
#[derive(Clone)]
struct Sample {
    bytes: [u8; 64],
    length: usize,
}

impl Sample {
    fn of(key: &[u8]) -> Sample {
        let mut bytes = [0; 64];
        bytes[..key.len()].copy_from_slice(key);
        Sample { bytes, length: key.len() }
    }
}

impl std::ops::Deref for Sample {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Stamped {
    /// Finds the order in which the functions sort samples of keys and timestamps.
    fn ask(&self, state: &State) -> Option<Order> {
        if self.bytes != STAMP_BYTES {
            return None;
        }
        let orders = [(false, false), (false, true), (true, false), (true, true)];
        let mut orders = orders
            .map(|(is_reverse, is_big_endian)| Order { is_reverse, is_big_endian })
            .into_iter();
        orders.find(|order| self.sorts_as(state, *order).unwrap_or(false))
    }

    /// Whether all samples are sorted as `order` sorts them. `None` if a function is missing.
    fn sorts_as(&self, state: &State, order: Order) -> Option<bool> {
        const STAMPS: [u64; 8] = [0, 1, 2, 255, 256, 0x0102_0304_0506_0708, 1 << 63, u64::MAX];
        let compare = self.compare?;
        let (stamps, without) = (self.compare_stamps?, self.compare_without_stamps?);
        let sign = |number: c_int| number.cmp(&0);
        for one in STAMPS {
            for other in STAMPS {
                let (a, b) = (order.bytes_of(one), order.bytes_of(other));
                // SAFETY: the C program gave the function for timestamps of this length.
                let found = unsafe { stamps(state.get(), start(&a), a.len(), start(&b), b.len()) };
                if sign(found) != one.cmp(&other) {
                    return Some(false);
                }
            }
        }
        for (one, other) in samples() {
            let expected = if order.is_reverse { (*other).cmp(&*one) } else { (*one).cmp(&*other) };
            // SAFETY: the C program gave the function for keys without timestamps.
            let found = unsafe {
                without(state.get(), start(&one), one.len(), 0, start(&other), other.len(), 0)
            };
            let (a, b) = (order.with_stamp(&one, 1), order.with_stamp(&other, 2));
            // SAFETY: as above, for keys with timestamps.
            let stamped =
                unsafe { without(state.get(), start(&a), a.len(), 1, start(&b), b.len(), 1) };
            // SAFETY: as above.
            let both = unsafe { compare(state.get(), start(&a), a.len(), start(&b), b.len()) };
            // Of two versions the newer is first.
            let newer_first = expected.then(Ordering::Greater);
            if [sign(found), sign(stamped), sign(both)] != [expected, expected, newer_first] {
                return Some(false);
            }
        }
        Some(true)
    }
}

c_api! {
    fn rocksdb_comparator_create(
        state: *mut c_void,
        destructor: Destructor,
        compare: Compare,
        name: Name,
    ) -> Handle<Arc<Comparator>> {
        let state = State::new(state, destructor);
        Handle::new(Arc::new(Comparator { state, name, compare, stamped: None }))
    }

    fn rocksdb_comparator_with_ts_create(
        state: *mut c_void,
        destructor: Destructor,
        compare: Compare,
        compare_stamps: Compare,
        compare_without_stamps: CompareWithoutStamps,
        name: Name,
        bytes: usize,
    ) -> Handle<Arc<Comparator>> {
        let state = State::new(state, destructor);
        let order = OnceLock::new();
        let stamped = Some(Stamped { compare, compare_stamps, compare_without_stamps, bytes, order });
        Handle::new(Arc::new(Comparator { state, name, compare: None, stamped }))
    }

    fn rocksdb_comparator_destroy(comparator: Handle<Arc<Comparator>>) {
        drop(comparator.take());
    }
}
