//! The picture of the tree by key range: where each table begins and ends.
//!
//! The smallest keys of all tables of a keyspace, in order, are spread evenly over the width. A table is
//! drawn from its own smallest key's place to that of the next smallest key above its largest. So
//! tables that are drawn above each other overlap, and no others do, whatever the distances between
//! their keys.

use crate::text::shorten;
use esker::inspect::TablePlace;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// How much of a key is shown.
const KEY_WIDTH: usize = 24;

/// A run of more tables is drawn in so many pieces.
const PIECES_MOST: usize = 300;
/// Keyspaces beyond so many are left out, the smallest ones.
const KEYSPACES_MOST: usize = 12;

/// For each keyspace its runs, from the top, with the pieces of each: start and end as shares of the
/// width, bytes, tables, the smallest and the largest key.
pub fn of(tables: &[TablePlace]) -> Json {
    let mut keyspaces = BTreeMap::<_, Vec<&TablePlace>>::new();
    for table in tables {
        keyspaces.entry((table.keyspace, &table.keyspace_name)).or_default().push(table);
    }
    let mut drawn: Vec<_> = keyspaces
        .into_iter()
        .map(|((_, name), tables)| (bytes_of(&tables), name, tables))
        .collect();
    drawn.sort_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
    let left_out = drawn.len().saturating_sub(KEYSPACES_MOST);
    drawn.truncate(KEYSPACES_MOST);
    let keyspaces: Vec<_> = drawn
        .into_iter()
        .map(|(bytes, name, tables)| json!({ "name": name, "bytes": bytes, "runs": runs(&tables) }))
        .collect();
    json!({ "keyspaces": keyspaces, "left_out": left_out })
}

fn bytes_of(tables: &[&TablePlace]) -> u64 {
    tables.iter().map(|table| table.meta.bytes).sum()
}

fn runs(tables: &[&TablePlace]) -> Vec<Json> {
    let mut starts: Vec<&[u8]> = tables.iter().map(|it| &it.meta.smallest[..]).collect();
    starts.sort_unstable();
    starts.dedup();
    let share = |place: usize| place as f64 / starts.len() as f64;
    let start = |key: &[u8]| share(starts.partition_point(|start| *start < key));
    let end = |key: &[u8]| share(starts.partition_point(|start| *start <= key));
    // Newer runs are above older ones.
    let mut runs = BTreeMap::<_, Vec<&TablePlace>>::new();
    for table in tables {
        runs.entry((table.level, std::cmp::Reverse(table.run))).or_default().push(table);
    }
    let piece = |tables: &[&TablePlace]| {
        let (first, last) = (&tables[0].meta, &tables[tables.len() - 1].meta);
        json!([
            start(&first.smallest),
            end(&last.largest),
            bytes_of(tables),
            tables.len(),
            shorten(&first.smallest, KEY_WIDTH),
            shorten(&last.largest, KEY_WIDTH),
        ])
    };
    let run = |((level, std::cmp::Reverse(run)), tables): ((usize, _), Vec<&TablePlace>)| {
        let size = tables.len().div_ceil(PIECES_MOST).max(1);
        let pieces: Vec<_> = tables.chunks(size).map(piece).collect();
        let (bytes, count) = (bytes_of(&tables), tables.len());
        json!({ "level": level, "run": run, "bytes": bytes, "tables": count, "pieces": pieces })
    };
    runs.into_iter().map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::inspect::Inspector;
    use esker::{Db, Settings};

    #[test]
    fn runs_are_above_each_other_and_tables_beside_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Settings::default()).unwrap();
        let keyspace = db.default_keyspace();
        for (from, to) in [("a", "c"), ("c", "e"), ("d", "z")] {
            keyspace.put(from, "1").unwrap();
            keyspace.put(to, "1").unwrap();
            db.flush().unwrap();
        }
        db.close().unwrap();
        let inspector = Inspector::open(dir.path(), None).unwrap();
        let picture = of(&inspector.tables().unwrap());
        let keyspace = &picture["keyspaces"][0];
        assert_eq!(
            (keyspace["name"].as_str(), picture["left_out"].as_u64()),
            (Some("default"), Some(0))
        );
        let runs = keyspace["runs"].as_array().unwrap();
        let places: Vec<_> = runs
            .iter()
            .map(|run| {
                let piece = &run["pieces"][0];
                (piece[0].as_f64().unwrap(), piece[1].as_f64().unwrap(), piece[4].as_str().unwrap())
            })
            .collect();
        assert_eq!(places, [(2.0 / 3.0, 1.0, "d"), (1.0 / 3.0, 1.0, "c"), (0.0, 2.0 / 3.0, "a")]);
    }

    #[test]
    fn a_database_without_tables_has_an_empty_picture() {
        assert_eq!(of(&[]), json!({ "keyspaces": [], "left_out": 0 }));
    }
}
