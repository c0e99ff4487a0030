//! Compiles the C++ part of the RocksDB peer, against the headers of the RocksDB that its crate brings.

fn main() {
    #[cfg(feature = "rocksdb")]
    rocksdb_file_system();
}

#[cfg(feature = "rocksdb")]
fn rocksdb_file_system() {
    const SOURCES: [&str; 2] =
        ["src/rocksdb/file_system/shim.cc", "src/rocksdb/storage_files/shim.cc"];
    let sources = std::env::var("DEP_ROCKSDB_CARGO_MANIFEST_DIR")
        .expect("librocksdb-sys says where its sources are");
    SOURCES.iter().for_each(|source| println!("cargo::rerun-if-changed={source}"));
    // The language and the platform as librocksdb-sys compiles RocksDB itself, which decide what its
    // headers declare.
    cc::Build::new()
        .cpp(true)
        .std("c++20")
        .flag_if_supported("-Wno-unused-parameter")
        .include(format!("{sources}/rocksdb/include"))
        .define("NDEBUG", "1")
        .define("OS_LINUX", None)
        .define("ROCKSDB_PLATFORM_POSIX", None)
        .define("ROCKSDB_LIB_IO_POSIX", None)
        .files(SOURCES)
        .compile("esker_rocksdb_file_system");
}
