//! Objects that a program creates, hands over and destroys, and that Esker does not use.

use super::P;
use crate::border::Handle;
use crate::knobs::Knobs;

/// Declares functions that create and destroy objects without a meaning, and `UNDONE`, their list.
macro_rules! placeholders {
    ($($create:ident($($type:ty),*), $destroy:ident;)*) => {
        $(
            // SAFETY: it is the only function of this name, with the arguments of `rocksdb/c.h`.
            #[unsafe(no_mangle)]
            pub extern "C" fn $create($(_: $type),*) -> Handle<Knobs> {
                crate::border::guard(|| Handle::new(Knobs::default()))
            }

            // SAFETY: it is the only function of this name, with the arguments of `rocksdb/c.h`.
            #[unsafe(no_mangle)]
            pub extern "C" fn $destroy(object: Handle<Knobs>) {
                crate::border::guard(|| drop(object.take()));
            }
        )*
        pub(super) const UNDONE: super::Undone = super::Undone {
            is_accepted: true,
            reason: "the object can be created and set; Esker does not use it",
            functions: &[$(stringify!($create), stringify!($destroy)),*],
        };
    };
}

placeholders! {
    rocksdb_dbpath_create(P, u64), rocksdb_dbpath_destroy;
    rocksdb_sst_file_manager_create(P), rocksdb_sst_file_manager_destroy;
    rocksdb_file_checksum_gen_crc32c_factory_create(), rocksdb_file_checksum_gen_factory_destroy;
    rocksdb_sst_partitioner_fixed_prefix_factory_create(usize),
        rocksdb_sst_partitioner_factory_destroy;
    rocksdb_optimistictransactiondb_lock_buckets_create(usize, u8),
        rocksdb_optimistictransactiondb_lock_buckets_destroy;
    rocksdb_walfilter_create(P, P, P, P, P), rocksdb_walfilter_destroy;
}
