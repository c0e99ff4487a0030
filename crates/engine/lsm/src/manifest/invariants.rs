//! What must hold of every version, as named predicates.
//!
//! They run on every edit in debug and simulation builds, and once on what an open reads in every
//! build: a manifest that breaks one is reported as corruption, not used.

use crate::options::settings::Shape;
use crate::version::{KeyspaceVersion, Version};
use std::collections::HashSet;

/// A predicate over one keyspace.
type Predicate = fn(&Version, &KeyspaceVersion) -> Result<(), String>;

const PREDICATES: [(&str, Predicate); 7] = [
    ("levels are newest first", levels_are_newest_first),
    ("runs are not empty", runs_are_not_empty),
    ("a leveled keyspace has one run a level below level 0", leveled_levels_are_one_run),
    ("runs are sorted and disjoint", runs_are_sorted_and_disjoint),
    ("a table's range is in order", table_ranges_are_in_order),
    ("tables are listed once", tables_are_listed_once),
    ("tables hold flushed writes only", tables_hold_flushed_writes_only),
];

/// The first predicate that `version` breaks, and how.
pub fn check(version: &Version) -> Result<(), String> {
    for keyspace in version.keyspaces.values() {
        for (name, predicate) in PREDICATES {
            predicate(version, keyspace).map_err(|what| {
                format!("the invariant “{name}” is broken in keyspace {:?}: {what}", keyspace.name)
            })?;
        }
    }
    names_are_unique(version)
}

fn names_are_unique(version: &Version) -> Result<(), String> {
    let mut seen = HashSet::new();
    match version.keyspaces.values().find(|keyspace| !seen.insert(&keyspace.name)) {
        None => Ok(()),
        Some(keyspace) => Err(format!("two keyspaces are called {:?}", keyspace.name)),
    }
}

fn levels_are_newest_first(_: &Version, keyspace: &KeyspaceVersion) -> Result<(), String> {
    for (depth, level) in keyspace.levels.iter().enumerate() {
        for pair in level.runs.windows(2) {
            if pair[0].id <= pair[1].id {
                return Err(format!(
                    "level {depth} lists run {} before run {}",
                    pair[0].id, pair[1].id
                ));
            }
        }
    }
    Ok(())
}

fn runs_are_not_empty(_: &Version, keyspace: &KeyspaceVersion) -> Result<(), String> {
    let mut runs = keyspace.levels.iter().flat_map(|level| &level.runs);
    match runs.find(|run| run.tables().is_empty()) {
        None => Ok(()),
        Some(run) => Err(format!("run {} has no table", run.id)),
    }
}

fn leveled_levels_are_one_run(_: &Version, keyspace: &KeyspaceVersion) -> Result<(), String> {
    let is_leveled = matches!(keyspace.settings.shape, Shape::Leveled { .. });
    let mut levels = keyspace.levels.iter().enumerate().skip(1);
    match levels.find(|(_, level)| is_leveled && level.runs.len() > 1) {
        None => Ok(()),
        Some((depth, level)) => Err(format!("level {depth} has {} runs", level.runs.len())),
    }
}

fn runs_are_sorted_and_disjoint(_: &Version, keyspace: &KeyspaceVersion) -> Result<(), String> {
    for run in keyspace.levels.iter().flat_map(|level| &level.runs) {
        for pair in run.tables().windows(2) {
            if !pair[0].meta.ends_before(&pair[1].meta.smallest) {
                return Err(format!(
                    "in run {} tables {:?} and {:?} overlap",
                    run.id, pair[0].meta.id, pair[1].meta.id
                ));
            }
        }
    }
    Ok(())
}

fn table_ranges_are_in_order(_: &Version, keyspace: &KeyspaceVersion) -> Result<(), String> {
    for (_, _, table) in keyspace.tables() {
        let meta = &table.meta;
        if meta.ends_before(&meta.smallest) || meta.min_seqno > meta.max_seqno {
            return Err(format!("table {:?} ends before it starts", meta.id));
        }
    }
    Ok(())
}

fn tables_are_listed_once(_: &Version, keyspace: &KeyspaceVersion) -> Result<(), String> {
    let mut seen = HashSet::new();
    let mut tables = keyspace.tables();
    match tables.find(|(_, _, table)| !seen.insert(table.meta.id)) {
        None => Ok(()),
        Some((_, _, table)) => Err(format!("table {:?} is listed twice", table.meta.id)),
    }
}

fn tables_hold_flushed_writes_only(
    version: &Version,
    keyspace: &KeyspaceVersion,
) -> Result<(), String> {
    let mut tables = keyspace.tables();
    // An ingest comes right after what is flushed.
    let through = version.flushed_through + 1;
    match tables.find(|(_, _, table)| table.meta.max_seqno > through) {
        None => Ok(()),
        Some((_, _, table)) => Err(format!(
            "table {:?} holds seqno {}, and only {} is flushed",
            table.meta.id, table.meta.max_seqno, version.flushed_through
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::version_edit::tests::sample_table;
    use crate::options::settings::KeyspaceSettings;
    use crate::version::{Run, TableHandle, TableMeta};
    use esker_base::KeyspaceId;
    use std::sync::Arc;

    fn version(runs: Vec<(u64, Vec<TableMeta>)>) -> Version {
        shaped(Shape::Tiered { runs: 4 }, runs)
    }

    fn shaped(shape: Shape, runs: Vec<(u64, Vec<TableMeta>)>) -> Version {
        let settings = KeyspaceSettings::default().shape(shape);
        let mut keyspace = KeyspaceVersion::new(KeyspaceId(0), "k".into(), settings);
        keyspace.levels[1].runs = runs
            .into_iter()
            .map(|(id, tables)| {
                let tables = tables.into_iter().map(TableHandle::detached).collect();
                Arc::new(Run::new(id, tables))
            })
            .collect();
        let keyspaces = [(keyspace.id, Arc::new(keyspace))].into();
        Version { keyspaces, flushed_through: 100, ..Version::default() }
    }

    fn table(file: u64, smallest: &str, largest: &str) -> TableMeta {
        TableMeta {
            smallest: smallest.into(),
            largest: largest.into(),
            largest_is_exclusive: false,
            ..sample_table(file)
        }
    }

    fn broken(version: Version) -> String {
        check(&version).unwrap_err()
    }

    #[test]
    fn a_sound_version_passes() {
        check(&version(vec![
            (9, vec![table(1, "a", "c"), table(2, "d", "e")]),
            (4, vec![table(3, "a", "z")]),
        ]))
        .unwrap();
    }

    #[test]
    fn each_predicate_catches_its_breach() {
        let overlapping = version(vec![(9, vec![table(1, "a", "d"), table(2, "d", "e")])]);
        assert!(broken(overlapping).contains("disjoint"));
        let misordered =
            version(vec![(4, vec![table(1, "a", "b")]), (9, vec![table(2, "a", "b")])]);
        assert!(broken(misordered).contains("newest first"));
        assert!(broken(version(vec![(4, vec![])])).contains("not empty"));
        let two = vec![(9, vec![table(1, "a", "b")]), (4, vec![table(2, "c", "d")])];
        assert!(broken(shaped(Shape::Leveled { ratio: 10 }, two)).contains("one run a level"));
        assert!(broken(version(vec![(4, vec![table(1, "b", "a")])])).contains("in order"));
        let twice = version(vec![(9, vec![table(1, "a", "b")]), (4, vec![table(1, "a", "b")])]);
        assert!(broken(twice).contains("listed once"));
        let unflushed = TableMeta { max_seqno: 102, ..table(1, "a", "b") };
        assert!(broken(version(vec![(4, vec![unflushed])])).contains("flushed writes"));
    }

    #[test]
    fn a_table_may_start_where_an_exclusive_end_is() {
        let first = TableMeta { largest_is_exclusive: true, ..table(1, "a", "d") };
        check(&version(vec![(9, vec![first, table(2, "d", "e")])])).unwrap();
    }
}
