//! A repository of backups with a damaged record or shipment: verified, listed, restored and pruned.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| esker_backup::fuzz_repository(bytes));
