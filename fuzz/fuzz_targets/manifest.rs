//! A manifest, and its edits alone.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| esker_sim::decoders::manifest(bytes));
