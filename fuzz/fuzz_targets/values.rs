//! A value file, and the place of a value in it; and damage of a large value.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| esker_sim::decoders::values(bytes));
