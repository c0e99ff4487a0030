//! Every public type can be named through `esker`, be printed, and be sent or shared.

use esker::*;
use std::fmt::Debug;

const fn is_shared<T: Send + Sync + Debug>() {}
const fn is_sent<T: Send + Debug + 'static>() {}
const fn is_named<T: ?Sized>() {}

macro_rules! each {
    ($check:ident: $($public:ty),* $(,)?) => { $(const _: () = $check::<$public>();)* };
}

each!(is_shared:
    Db,
    Error,
    KeyRange,
    Keyspace,
    KeyspaceId,
    KeyspaceInfo,
    KeyspaceSettings,
    Log,
    Settings,
    Snapshot,
    Stats,
    SyncPolicy,
    TransactionOptions,
    Value,
    WriteBatch,
);

each!(is_shared:
    options::Compression,
    options::Dedup,
    options::Forwarding,
    options::Ratio,
    options::Recovery,
    options::Resources,
    options::Shape,
);

each!(is_shared:
    transaction::Concurrency,
    transaction::Isolation,
    transaction::LockWait,
    transaction::PreparedError,
    transaction::PreparedTransaction,
);

each!(is_shared:
    index::Index,
    index::IndexCheck,
    index::IndexError,
    index::IndexInfo,
    index::IndexSettings,
    index::IndexStatus,
);

each!(is_shared:
    ingest::Ingested,
);

each!(is_shared:
    api::BatchLimits,
    api::BatchMark,
    api::Entry<'static>,
    api::LockStats,
    api::KeyspaceRef,
    api::Kind,
    api::Store,
    api::StoreId,
    api::TransactionDb<Db>,
);

each!(is_shared:
    checkpoint::Requested,
);

each!(is_shared:
    merge::AddI64,
    merge::Append,
    merge::HyperLogLog,
    merge::Max,
    merge::MergeError,
    merge::MergeOperators,
    merge::Min,
    merge::OperatorName,
    merge::SetUnion,
);

each!(is_shared:
    filter::CompactionFilters,
    filter::FilterDecision,
    filter::FilterError,
    stats::FilterStats,
);

each!(is_named: dyn filter::CompactionFilter);
each!(is_named: dyn merge::MergeOperator);

each!(is_shared:
    env::Env,
    env::FileKind,
    env::WriteHint,
    env::MemoryStorage,
    env::PosixStorage,
    env::Pace,
    env::Priority,
    env::SystemClock,
    env::Threads,
);

each!(is_shared:
    inspect::TableBirth,
    inspect::VersionChange,
    inspect::CheckReport,
    inspect::ReadPurpose,
    inspect::Dates,
    inspect::VersionEdit,
    inspect::FrameInfo,
    inspect::Inspector,
    inspect::KeyFormat,
    inspect::FramesPastGap,
    inspect::LifetimeEstimator,
    inspect::LogDump,
    inspect::LogEnd,
    inspect::LostKeys,
    inspect::DroppedTable,
    inspect::ManifestDump,
    inspect::Mark,
    inspect::MissingLogPolicy,
    inspect::Origin,
    inspect::Properties,
    inspect::Record,
    inspect::RepairReport,
    inspect::ScanResult,
    inspect::SegmentHeader,
    inspect::Skipped,
    inspect::ScanEnd,
    inspect::Table,
    inspect::TablePlace,
);

each!(is_shared:
    pmem::Accept,
    pmem::Domain,
    pmem::Pool,
);

each!(is_shared:
    stats::CumulativeStats,
    stats::CompactionReason,
    stats::CompactionCounts,
    stats::ReasonCount,
    stats::DramTableStats,
    stats::FramesBehind,
    stats::SpaceAmpStatus,
    stats::KeyspaceLevels,
    stats::LevelInfo,
    stats::LiveData,
    stats::ReclaimAccuracy,
    stats::RunInfo,
    stats::SpaceAmpSamples,
    stats::TableReadStats,
    stats::TableId,
    stats::TableMeta,
    stats::TornTail,
    stats::UnreadableTable,
);

each!(is_shared:
    typed::Json<u32>,
    typed::TypedError,
    typed::TypedKeyspace<(u32,), String>,
    tuple::Bytes,
    tuple::DecodeError,
    tuple::Element<'static>,
);

// Readers belong to one thread at a time, and a range of a transaction to that of the transaction.
each!(is_sent:
    DbCursor,
    IndexedBatch,
    Range,
    Transaction,
    transaction::TransactionRange<'static>,
    index::IndexEntries,
    index::IndexRows,
    ingest::BulkLoader,
    ingest::SortedWriter,
    inspect::TableIter,
    typed::TypedRange<(u32,), String>,
);

// The traits that signatures name.
each!(is_named:
    api::Seqno,
    index::IndexKeys,
    index::IndexRow,
    dyn Cursor,
    dyn api::Kv,
    dyn api::Ordered,
    dyn api::Snapshot,
    dyn api::Transaction,
    dyn api::Transactional,
    dyn env::Background,
    dyn env::Clock,
    dyn env::LogFile,
    dyn env::ReadableFile,
    dyn env::Running,
    dyn env::Storage,
    dyn env::WritableFile,
    env::Body,
);

#[test]
fn statistics_print_one_subject_per_line() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Settings::default()).unwrap();
    db.put(&db.default_keyspace(), "a", "1").unwrap();
    let text = db.stats().to_string();
    assert!(text.starts_with("writes: 1 (") && text.contains("\nwrite amplification: "), "{text}");
}
