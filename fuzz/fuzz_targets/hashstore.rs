//! Changes of a sound hash store, which is then opened and used.
#![no_main]

use std::sync::LazyLock;

static SAMPLE: LazyLock<Vec<u8>> = LazyLock::new(esker_hashstore::fuzz_corruption::sample);

libfuzzer_sys::fuzz_target!(|changes: &[u8]| {
    esker_hashstore::fuzz_corruption::open(&SAMPLE, changes);
});
