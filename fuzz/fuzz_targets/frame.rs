//! A log segment.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| esker_sim::decoders::frame(bytes));
