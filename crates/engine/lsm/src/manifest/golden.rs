//! Golden manifests: what each tag looked like when it was new.

use super::manifest_file::parse_manifest;
use super::manifest_file::tests::{file_of, open_edit};
use super::version_edit::tests::sample_table;
use super::version_edit::{VersionChange, VersionEdit};
use crate::options::settings::KeyspaceSettings;
use crate::stats::cumulative::{CumulativeStats, tests::sample_account};
use crate::stats::reclaim_accuracy::ReclaimAccuracy;
use crate::stats::table_reads::TableReadStats;
use crate::version::{TableMeta, ValueFileMeta};
use esker_base::KeyspaceId;
use esker_table::{Expiring, ValueFileUse};
use std::time::Duration;

#[test]
fn a_manifest_of_version_1_is_read_for_ever() {
    reads("version_1", &open_edit(), Writer::Present);
}

#[test]
fn a_manifest_with_an_account_is_read_for_ever() {
    let stalls = sample_account();
    // As it was before it told how long writers were stalled.
    let whole = CumulativeStats { stalled_us: 0, ..stalls };
    // Before it told what gets visit and read of files, and how large segments are.
    let TableReadStats { hits, hit_reads, misses, miss_reads, .. } = whole.table_gets;
    let table_gets =
        TableReadStats { hits, hit_reads, misses, miss_reads, ..TableReadStats::default() };
    let reclaims = CumulativeStats { table_gets, segment_bytes: 0, ..whole };
    // And before it told how well compactions were judged.
    let account = CumulativeStats { reclaim_errors: ReclaimAccuracy::default(), ..reclaims };
    for (name, account, writer) in [
        ("account", account, Writer::Earlier),
        ("reclaims", reclaims, Writer::Earlier),
        ("reads", whole, Writer::Earlier),
        ("stalls", stalls, Writer::Present),
    ] {
        let edit = VersionEdit::of([VersionChange::Account(account), VersionChange::NextFile(9)]);
        reads(&format!("version_1_{name}"), &edit, writer);
    }
}

#[test]
fn a_manifest_with_lifetimes_or_dates_is_read_for_ever() {
    use crate::manifest::version_edit::tests::{sample_dates, sample_lifetimes};
    for (name, change) in [("lifetimes", sample_lifetimes()), ("dates", sample_dates())] {
        let edit = VersionEdit::of([change, VersionChange::NextFile(9)]);
        reads(&format!("version_1_{name}"), &edit, Writer::Present);
    }
}

fn made(id: u32, name: &str, settings: KeyspaceSettings) -> VersionChange {
    let (id, name) = (KeyspaceId(id), name.into());
    VersionChange::CreateKeyspace { id, name, settings, retention_seqno: None }
}

#[test]
fn a_manifest_with_names_of_functions_is_read_for_ever() {
    let merging = KeyspaceSettings::default().merge("add_i64");
    let (visits, next) = (made(4, "visits", merging), VersionChange::NextFile(9));
    let edit = VersionEdit::of([VersionChange::HasMerges, visits, next]);
    reads("version_1_merges", &edit, Writer::Present);
    let plain = KeyspaceSettings::default().compaction_filter("live_users");
    let visits = made(5, "visits", merging.compaction_filter("live_users"));
    let edit = VersionEdit::of([VersionChange::HasMerges, made(4, "sessions", plain), visits]);
    reads("version_1_filters", &edit, Writer::Present);
}

#[test]
fn a_manifest_of_a_database_with_expiring_entries_is_read_for_ever() {
    let mark = VersionChange::ExpiryMark(1_700_000_000_000);
    let expiring = Expiring { entries: 40, earliest: 1_700_000_000_001, latest: 1_700_000_360_000 };
    let add = VersionChange::AddTable {
        keyspace: KeyspaceId(0),
        level: 2,
        run: 7,
        meta: TableMeta { expiring: Some(expiring), ..sample_table(8) },
    };
    let edit = VersionEdit::of([mark, add, VersionChange::NextFile(9)]);
    reads("version_1_expiry", &edit, Writer::Present);
}

#[test]
fn a_manifest_with_value_files_is_read_for_ever() {
    let keyspace = KeyspaceId(3);
    let threshold = |bytes| VersionChange::SeparationThreshold { keyspace, bytes };
    let file = ValueFileMeta { values: 40, value_bytes: 163_840, ..ValueFileMeta::new(7, 164_200) };
    let add = |meta| VersionChange::AddTable { keyspace, level: 0, run: 8, meta };
    let value_files = vec![
        ValueFileUse { file: 6, values: 1, bytes: 5_000 },
        ValueFileUse { file: 7, values: 40, bytes: 163_840 },
    ];
    let expiring = Some(Expiring { entries: 1, earliest: 70, latest: 70 });
    let table = TableMeta { value_files, ..sample_table(8) };
    let edit = VersionEdit::of([
        threshold(Some(4096)),
        VersionChange::AddValueFile { keyspace, meta: file },
        add(table.clone()),
        add(TableMeta { expiring, ..table }),
        threshold(None),
        VersionChange::NextFile(9),
    ]);
    reads("version_1_values", &edit, Writer::Present);
}

#[test]
fn a_manifest_with_a_large_value_is_read_for_ever() {
    let (keyspace, bytes) = (KeyspaceId(3), 300_008);
    let (value_bytes, in_blocks) = (bytes, true);
    let file = ValueFileMeta::new(7, 24 + bytes + 16);
    let meta = ValueFileMeta { values: 1, value_bytes, in_blocks, ..file };
    let value_files = vec![ValueFileUse { file: 7, values: 1, bytes }];
    let table = TableMeta { value_files, ..sample_table(8) };
    let edit = VersionEdit::of([
        VersionChange::AddValueFile { keyspace, meta },
        VersionChange::AddTable { keyspace, level: 6, run: 8, meta: table },
        VersionChange::NextFile(9),
    ]);
    reads("version_1_large_values", &edit, Writer::Present);
}

#[test]
fn a_manifest_of_keyspaces_with_times_to_live_is_read_for_ever() {
    let keyspace = KeyspaceId(3);
    let set = VersionChange::Ttl { keyspace, millis: Some(604_800_000), zeroed_as: 70_000 };
    let expired = VersionChange::ExpiredThrough { keyspace, through: 60_000 };
    let unset = VersionChange::Ttl { keyspace: KeyspaceId(4), millis: None, zeroed_as: 0 };
    let edit = VersionEdit::of([set, expired, unset, VersionChange::NextFile(9)]);
    reads("version_1_aging", &edit, Writer::Present);
}

#[test]
fn a_manifest_of_keyspaces_with_windows_is_read_for_ever() {
    let window = Duration::from_secs(3_600);
    let settings = |max_bytes| KeyspaceSettings::default().window(window, max_bytes);
    let (events, samples) = (settings(None), settings(Some(10 << 30)));
    let created = [made(3, "events", events), made(4, "samples", samples)];
    let edit = VersionEdit::of(created.into_iter().chain([VersionChange::NextFile(9)]));
    reads("version_1_windows", &edit, Writer::Present);
}

/// What wrote the bytes of a golden file.
#[derive(PartialEq)]
pub(super) enum Writer {
    /// Code like this.
    Present,
    /// Code that knew fewer figures of the account. This code writes more for the same edit.
    Earlier,
}

/// Checks the bytes in `tests/golden`, which hold `edit` three times, and the text of what they say.
/// `ESKER_REWRITE=1` writes the text anew, as renamed types need it, and bytes that are missing. It
/// never changes bytes: they are what the code of their time wrote.
#[track_caller]
pub(super) fn reads(name: &str, edit: &VersionEdit, writer: Writer) {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let (file, text) = (dir.join(format!("{name}.manifest")), dir.join(format!("{name}.txt")));
    let rewrites = std::env::var_os("ESKER_REWRITE").is_some();
    if rewrites && !file.exists() {
        std::fs::write(&file, file_of(edit)).unwrap();
    }
    let bytes = std::fs::read(&file).unwrap();
    let parsed = parse_manifest(&bytes, "m").unwrap();
    let dump = format!("{parsed:#?}\n");
    if rewrites {
        std::fs::write(&text, &dump).unwrap();
    }
    assert_eq!(dump, std::fs::read_to_string(&text).unwrap());
    assert!(parsed.1.len() == 3 && parsed.1.iter().all(|record| record.edit == *edit));
    match writer {
        Writer::Present => assert!(file_of(edit) == bytes, "{name}: other bytes are written"),
        Writer::Earlier => assert!(file_of(edit).len() > bytes.len(), "{name}"),
    }
}
