//! Tests of edits and their encoding.

use super::super::settings_code::{read_settings_property, settings_property};
use super::*;
use crate::options::settings::Shape;
use crate::options::space_policy::{Dedup, Ratio};
use crate::version::dates::Mark;

pub(crate) fn sample_table(file: u64) -> TableMeta {
    TableMeta {
        id: TableId { file, offset: 0 },
        bytes: 4096,
        smallest: b"a".to_vec(),
        largest: b"m".to_vec(),
        largest_is_exclusive: true,
        entries: 10,
        deletes: 1,
        range_tombstones: 1,
        raw_bytes: 1000,
        min_seqno: 1,
        max_seqno: 11,
        global_seqno: Some(9),
        expiring: None,
        value_files: Vec::new(),
    }
}

pub(crate) fn sample_edit() -> VersionEdit {
    VersionEdit::of([
        VersionChange::CreateKeyspace {
            id: KeyspaceId(3),
            name: "users".into(),
            settings: KeyspaceSettings::default().shape(Shape::Tiered { runs: 4 }),
            retention_seqno: Some(5),
        },
        VersionChange::DropKeyspace(KeyspaceId(2)),
        VersionChange::AddTable {
            keyspace: KeyspaceId(3),
            level: 1,
            run: 77,
            meta: sample_table(12),
        },
        VersionChange::RemoveTable {
            keyspace: KeyspaceId(3),
            id: TableId { file: 9, offset: 100 },
        },
        VersionChange::FlushedThrough(1 << 40),
        VersionChange::NextFile(13),
        VersionChange::NextKeyspace(4),
        VersionChange::AddLog { epoch: 8, end: None },
        VersionChange::AddLog { epoch: 7, end: Some(LogEnd { offset: 640, last_seqno: 99 }) },
        VersionChange::RemoveLog(6),
        VersionChange::Closed,
    ])
}

pub(crate) fn sample_lifetimes() -> VersionChange {
    let mut lives: Box<[LifetimeEstimator; LEVELS]> = Box::default();
    lives[0].note(vec![100, 100, 700], 1_000);
    lives[6].note(vec![5], 1_300);
    let born = TableBirth { at: 1_000, level: 6 };
    let of = |file, born| (TableId { file, offset: 40 }, born);
    VersionChange::Lifetimes {
        keyspace: KeyspaceId(3),
        lives,
        born: vec![of(12, born), of(13, TableBirth { at: 1_200, level: 0 })],
    }
}

pub(crate) fn sample_dates() -> VersionChange {
    let mut dates = Dates::default();
    for (through, at) in [(70, 1_700_000_000), (90, 1_700_000_100)] {
        dates.note(Mark { through, at });
    }
    VersionChange::Dates(dates)
}

#[test]
fn every_change_round_trips() {
    let account = VersionChange::Account(crate::stats::cumulative::tests::sample_account());
    let formats = [KeyFormat::AsGiven, KeyFormat::Mapped].map(VersionChange::KeyFormat);
    let mark = VersionChange::ExpiryMark(u64::MAX);
    let changed = VersionChange::ChangeSettings {
        id: KeyspaceId(3),
        settings: KeyspaceSettings::default().filter_bits(7),
        changed: ChangedSettings::of_bits(5).unwrap(),
    };
    let merges = VersionChange::HasMerges;
    let others = [account, sample_lifetimes(), sample_dates(), merges, mark, changed];
    let keyspace = KeyspaceId(3);
    let aging = [
        VersionChange::Ttl { keyspace, millis: Some(60_000), zeroed_as: 70 },
        VersionChange::Ttl { keyspace, millis: None, zeroed_as: 0 },
        VersionChange::ExpiredThrough { keyspace, through: 60 },
    ];
    let edits = [VersionEdit::of(others), VersionEdit::of(formats), VersionEdit::of(aging)];
    for edit in edits.into_iter().chain([sample_edit()]) {
        assert_eq!(VersionEdit::decode(&edit.encode()), Ok(edit));
    }
}

#[test]
fn every_way_to_arrange_tables_round_trips() {
    let ratio = Ratio::of_hundredths(160);
    let dedups =
        [Dedup::None, Dedup::PerLevel { threshold: ratio }, Dedup::SpaceGoal { amp: ratio }];
    for dedup in dedups {
        let settings = KeyspaceSettings::default().shape(Shape::Tiered { runs: 9 }).dedup(dedup);
        let (merging, filtered) = (settings.merge("append"), settings.compaction_filter("odd"));
        for settings in [settings, merging, filtered, merging.compaction_filter("odd")] {
            let edit = VersionEdit::of([VersionChange::CreateKeyspace {
                id: KeyspaceId(3),
                name: "users".into(),
                settings,
                retention_seqno: None,
            }]);
            assert_eq!(VersionEdit::decode(&edit.encode()), Ok(edit));
            let property = settings_property(&settings, KeyFormat::Mapped);
            let read = read_settings_property(&property);
            assert_eq!(read, Some((settings, KeyFormat::Mapped)));
        }
    }
}

#[test]
fn truncated_edits_are_refused_or_end_between_changes() {
    let edit = sample_edit();
    let bytes = edit.encode();
    for len in 0..bytes.len() {
        if let Ok(part) = VersionEdit::decode(&bytes[..len]) {
            assert!(edit.changes.starts_with(&part.changes));
        }
    }
}

#[test]
fn unknown_changes_are_refused() {
    for tag in [0, 12, 34, 200] {
        let refused = VersionEdit::decode(&[tag]).unwrap_err();
        assert!(refused.contains(&format!("tag {tag}, which is not known here")), "{refused}");
    }
    assert!(VersionEdit::decode(&[ACCOUNT, 2, 1]).unwrap_err().contains("malformed"));
    assert!(VersionEdit::decode(&[KEY_FORMAT, 2]).unwrap_err().contains("malformed"));
    assert!(VersionEdit::decode(&[CHANGE_SETTINGS, 3, 8]).unwrap_err().contains("malformed"));
    assert!(VersionEdit::decode(&[NUMBERED, 1]).unwrap_err().contains("malformed"));
    assert!(VersionEdit::decode(&[DATES, 1, 5]).unwrap_err().contains("malformed"));
}

#[test]
fn lifetimes_of_levels_that_are_not_there_are_refused() {
    // Of a keyspace: one death at a level; one table of a level.
    for level in [6, 7] {
        let is_level = level == 6;
        let lives = VersionEdit::decode(&[LIFETIMES, 3, 1, level, 0, 1, 6, 5, 1, 0]);
        let born = VersionEdit::decode(&[LIFETIMES, 3, 0, 1, 12, 0, 9, level]);
        assert_eq!([lives.is_ok(), born.is_ok()], [is_level; 2], "{level}");
    }
}

/// As they are written: levels of which something is known, in order.
#[test]
fn lifetimes_that_would_be_written_in_another_way_are_refused() {
    let decoded = |lives: &[u8]| {
        let edit = [&[LIFETIMES, 3], lives, &[0]].concat();
        VersionEdit::decode(&edit).is_ok()
    };
    assert!(decoded(&[2, 4, 0, 1, 6, 5, 1, 6, 0, 1, 6, 5, 1]));
    assert!(!decoded(&[2, 6, 0, 1, 6, 5, 1, 4, 0, 1, 6, 5, 1]), "order");
    assert!(!decoded(&[2, 4, 0, 1, 6, 5, 1, 4, 0, 1, 6, 5, 1]), "one level twice");
    assert!(!decoded(&[1, 4, 100, 0]), "no deaths");
}

#[test]
fn a_keyspace_of_the_engine_with_an_operator_is_refused() {
    let merging = |name: &str| {
        let settings = KeyspaceSettings::default().merge("append");
        let name = name.to_owned();
        let id = KeyspaceId(3);
        let create = VersionChange::CreateKeyspace { id, name, settings, retention_seqno: None };
        VersionEdit::of([create]).encode()
    };
    let mut bytes = merging("index");
    assert!(VersionEdit::decode(&bytes).is_ok());
    // The first byte of its name.
    bytes[3] = 1;
    assert!(VersionEdit::decode(&bytes).is_err());
}
