//! A data block, with checksums that match whatever is in it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| esker_sim::decoders::block(bytes));
