//! What a node sends on an I/O queue, as `esker-initiator` takes it: the first byte says which digests were agreed on and how the stream is cut.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    esker_initiator::fuzz_decode::answers(bytes);
});
