//! What a follower and its primary send each other: messages, and what a follower checks before it applies it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| esker_replication::fuzz_decode(bytes));
