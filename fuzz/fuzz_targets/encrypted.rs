//! The file below an encrypted one: its header, and its records behind an intact header.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| esker_sim::decoders::encrypted(bytes));
