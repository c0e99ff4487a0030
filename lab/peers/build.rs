//! Sets `any_peer` if a peer is built in, and `range_peer` if it is one whose iterators cannot seek.
//! Compiles the C++ part of the RocksDB peer against the headers of the RocksDB that its crate brings.

fn main() {
    let has = |peer: &str| {
        let feature = peer.to_uppercase().replace('-', "_");
        std::env::var_os(format!("CARGO_FEATURE_{feature}")).is_some()
    };
    println!("cargo::rustc-check-cfg=cfg(any_peer, range_peer)");
    if PEERS.iter().any(|peer| has(peer)) {
        println!("cargo::rustc-cfg=any_peer");
    }
    if ["lmdb", "redb"].iter().any(|peer| has(peer)) {
        println!("cargo::rustc-cfg=range_peer");
    }
    #[cfg(feature = "rocksdb")]
    rocksdb_file_system();
}

/// The features that each build a peer in.
const PEERS: [&str; 7] = ["rocksdb", "leveldb", "fjall", "lmdb", "redb", "bf-tree", "tidesdb"];

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
