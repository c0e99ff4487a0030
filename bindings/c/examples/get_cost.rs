//! The cost of the border: a get of 100 bytes through the C functions, against the Rust call.
//!
//! ```text
//! cargo run --release -p esker-c --example get_cost
//! ```

use esker::{Db, Keyspace, KeyspaceSettings, Settings};
use esker_c::bytes::{esker_bytes, esker_bytes_free};
use esker_c::keyspace::{esker_get, esker_get_into, esker_keyspace, esker_keyspace_create};
use esker_c::open::{esker_close, esker_open};
use esker_c::status::esker_status::ESKER_OK;
use std::ffi::CString;
use std::hint::black_box;
use std::ptr::null_mut;

const KEYS: u64 = 100_000;
const GETS: u64 = 20_000;
const ROUNDS: usize = 401;

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"user............";
    key[8..].copy_from_slice(&(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS).to_be_bytes());
    key
}

fn by_rust(keyspace: &Keyspace, from: u64) -> usize {
    let get = |number| keyspace.get(key(number)).unwrap().map_or(0, |value| value.len());
    (from..from + GETS).map(get).sum()
}

fn by_c(keyspace: &esker_keyspace, from: u64) -> usize {
    // By a pointer, so that it is not compiled into the loop.
    let get = black_box(esker_get);
    let mut sum = 0;
    for number in from..from + GETS {
        let key = key(number);
        let mut value = esker_bytes { data: null_mut(), len: 0, owner: null_mut(), owner_len: 0 };
        // SAFETY: key and value are there during the call.
        if unsafe { get(Some(keyspace), key.as_ptr(), 16, &mut value, null_mut()) } == ESKER_OK {
            sum += value.len;
        }
        esker_bytes_free(Some(&mut value));
    }
    sum
}

fn into_a_buffer(keyspace: &esker_keyspace, from: u64) -> usize {
    let get = black_box(esker_get_into);
    let (mut sum, mut buffer, mut len) = (0, [0; 128], 0);
    for number in from..from + GETS {
        let key = key(number);
        let to = buffer.as_mut_ptr();
        // SAFETY: key and buffer are there during the call.
        let status =
            unsafe { get(Some(keyspace), key.as_ptr(), 16, to, 128, &mut len, null_mut()) };
        sum += if status == ESKER_OK { len } else { 0 };
    }
    sum
}

/// The median and the quartiles of ratios.
fn summary(mut ratios: Vec<f64>) -> String {
    ratios.sort_by(f64::total_cmp);
    let at = |part: usize| ratios[ratios.len() * part / 4];
    format!("{:.3} ({:.3} to {:.3})", at(2), at(1), at(3))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let (rust_dir, c_dir) = (dir.path().join("rust"), dir.path().join("c"));
    for dir in [&rust_dir, &c_dir] {
        let db = Db::open(dir, Settings::default())?;
        let users = db.keyspace("users", KeyspaceSettings::default())?;
        for number in 0..KEYS {
            users.put(key(number), [7; 100])?;
        }
        db.close()?;
    }
    let db = Db::open(&rust_dir, Settings::default())?;
    let users = db.open_keyspace("users")?;
    let (mut c_db, mut c_users) = (null_mut(), null_mut());
    let c_dir = CString::new(c_dir.into_os_string().into_encoded_bytes())?;
    // SAFETY: the pointers are of values that live on, and the handles are freed once, below.
    let (c_db, c_users) = unsafe {
        assert_eq!(esker_open(c_dir.as_ptr(), None, &mut c_db, null_mut()), ESKER_OK);
        let name = c"users".as_ptr();
        let made = esker_keyspace_create(Some(&*c_db), name, None, &mut c_users, null_mut());
        assert_eq!(made, ESKER_OK);
        (Box::from_raw(c_db), Box::from_raw(c_users))
    };

    let clock = esker::env::SystemClock::new();
    let timed = |work: &dyn Fn() -> usize| {
        let start = esker::env::Clock::now(&clock);
        black_box(work());
        (esker::env::Clock::now(&clock) - start).as_secs_f64()
    };
    let (mut given, mut copied, mut nanos) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let from = round as u64 * GETS;
        let rust = timed(&|| by_rust(&users, from));
        given.push(timed(&|| by_c(&c_users, from)) / rust);
        copied.push(timed(&|| into_a_buffer(&c_users, from)) / rust);
        nanos.push(rust * 1e9 / GETS as f64);
    }
    println!("a get in Rust takes {} ns", summary(nanos));
    println!("esker_get takes {} times as long", summary(given));
    println!("esker_get_into takes {} times as long", summary(copied));
    drop(c_users);
    // SAFETY: the database is freed here only.
    unsafe { esker_close(Some(c_db), null_mut()) };
    Ok(())
}
