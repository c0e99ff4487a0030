//! The tree of tables as a drawing: keyspaces, their levels, the levels' runs, the runs' tables.

use crate::options::arrangement;
use crate::style::Style;
use crate::text::shorten;
use crate::units;
use esker::stats::{KeyspaceLevels, LevelInfo, RunInfo, TableMeta};
use std::io::Write;

/// How much of a key is shown.
const KEY_WIDTH: usize = 20;

/// One line: a label with its branches before it, and columns that are aligned over all lines.
struct Row {
    label: String,
    label_width: usize,
    counts: [String; 2],
    bytes: String,
    range: String,
}

/// Draws `trees`, with a line for each table if `with_tables`.
pub fn draw(
    out: &mut impl Write,
    trees: &[KeyspaceLevels],
    with_tables: bool,
    style: Style,
) -> std::io::Result<()> {
    let rows: Vec<Row> =
        trees.iter().flat_map(|keyspace| keyspace_rows(keyspace, with_tables, style)).collect();
    let widest = |column: fn(&Row) -> usize| rows.iter().map(column).max().unwrap_or(0);
    let label = widest(|row| row.label_width);
    let first = widest(|row| row.counts[0].chars().count());
    let second = widest(|row| row.counts[1].chars().count());
    let bytes = widest(|row| row.bytes.chars().count());
    for row in rows {
        let pad = " ".repeat(label - row.label_width);
        let [runs, tables] = &row.counts;
        let line = format!(
            "{}{pad}  {runs:>first$}  {tables:>second$}  {:>bytes$}  {}",
            row.label, row.bytes, row.range
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn keyspace_rows(keyspace: &KeyspaceLevels, with_tables: bool, style: Style) -> Vec<Row> {
    let runs = || keyspace.levels.iter().flat_map(|level| &level.runs);
    let settings = keyspace.settings;
    let about = format!(" ({}, {})", arrangement(settings), settings.compression);
    let name = shorten(keyspace.name.as_bytes(), 40);
    let mut rows = vec![Row {
        label_width: name.chars().count() + about.chars().count(),
        label: format!("{}{}", style.bold(&name), style.faint(&about)),
        ..totals(runs())
    }];
    for (at, level) in keyspace.levels.iter().enumerate() {
        let is_last = at + 1 == keyspace.levels.len();
        let label = format!("{}L{}", branch(is_last), level.level);
        rows.push(Row {
            label_width: label.chars().count(),
            label,
            range: repeats(level),
            ..totals(level.runs.iter())
        });
        let stem = stem(is_last);
        for (at, run) in level.runs.iter().enumerate() {
            run_rows(run, stem, at + 1 == level.runs.len(), with_tables, &mut rows);
        }
    }
    rows
}

fn run_rows(run: &RunInfo, above: &str, is_last: bool, with_tables: bool, rows: &mut Vec<Row>) {
    let label = format!("{above}{}run {}", branch(is_last), run.id);
    let mut total = totals(std::iter::once(run));
    total.counts[0].clear();
    if let (Some(first), Some(last)) = (run.tables.first(), run.tables.last()) {
        total.range = range(&first.smallest, last);
    }
    rows.push(Row { label_width: label.chars().count(), label, ..total });
    if !with_tables {
        return;
    }
    for (at, table) in run.tables.iter().enumerate() {
        let branch = branch(at + 1 == run.tables.len());
        let id = table.id;
        let label = format!("{above}{}{branch}table {}+{}", stem(is_last), id.file, id.offset);
        rows.push(Row {
            label_width: label.chars().count(),
            label,
            counts: [String::new(), entries(table.entries)],
            bytes: units::bytes(table.bytes),
            range: range(&table.smallest, table),
        });
    }
}

/// How often a level of several runs holds each of its keys.
fn repeats(level: &LevelInfo) -> String {
    match level.duplicate_rate {
        Some(rate) if level.runs.len() > 1 => format!("each key {rate:.2} times"),
        _ => String::new(),
    }
}

fn branch(is_last: bool) -> &'static str {
    if is_last { "└─ " } else { "├─ " }
}

fn stem(is_last: bool) -> &'static str {
    if is_last { "   " } else { "│  " }
}

fn range(smallest: &[u8], last: &TableMeta) -> String {
    format!("{} … {}", shorten(smallest, KEY_WIDTH), shorten(&last.largest, KEY_WIDTH))
}

fn entries(number: u64) -> String {
    match number {
        1 => "1 entry".to_owned(),
        number => format!("{} entries", units::count(number)),
    }
}

fn totals<'a>(runs: impl Iterator<Item = &'a RunInfo>) -> Row {
    let (mut count, mut tables, mut bytes) = (0, 0, 0);
    for run in runs {
        count += 1;
        tables += run.tables.len() as u64;
        bytes += run.bytes();
    }
    Row {
        label: String::new(),
        label_width: 0,
        counts: [units::counted(count, "run"), units::counted(tables, "table")],
        bytes: units::bytes(bytes),
        range: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::KeyspaceSettings;
    use esker::stats::TableId;
    use esker_base::KeyspaceId;

    fn table(file: u64, smallest: &str, largest: &str) -> TableMeta {
        let mut table = TableMeta::new(TableId { file, offset: 0 }, smallest, largest);
        (table.bytes, table.raw_bytes, table.entries) = (2048, 4096, 1);
        (table.min_seqno, table.max_seqno) = (1, 9);
        table
    }

    fn level(level: usize, duplicate_rate: f64, runs: Vec<RunInfo>) -> LevelInfo {
        let mut level = LevelInfo::new(level, runs);
        level.duplicate_rate = Some(duplicate_rate);
        level
    }

    fn sample() -> KeyspaceLevels {
        let runs = [(12, vec![table(7, "a", "q")]), (9, vec![table(5, "b", "z")])];
        let top = runs.map(|(id, tables)| RunInfo::new(id, tables)).to_vec();
        let bottom = vec![RunInfo::new(4, vec![table(1, "a", "m"), table(2, "n", "z")])];
        let levels = vec![level(0, 1.5, top), level(3, 1.0, bottom)];
        KeyspaceLevels::new(KeyspaceId(0), "default", KeyspaceSettings::default(), levels)
    }

    fn drawn(with_tables: bool) -> String {
        let mut out = Vec::new();
        // Tests have no terminal, so this is without colour.
        draw(&mut out, &[sample()], with_tables, Style::of_stdout()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn levels_and_runs_are_drawn_aligned() {
        let expected = "\
default (leveled:10, lz4)  3 runs  4 tables  8.00 KiB
├─ L0                      2 runs  2 tables  4.00 KiB  each key 1.50 times
│  ├─ run 12                        1 table  2.00 KiB  a … q
│  └─ run 9                         1 table  2.00 KiB  b … z
└─ L3                       1 run  2 tables  4.00 KiB
   └─ run 4                        2 tables  4.00 KiB  a … z
";
        assert_eq!(drawn(false), expected);
    }

    #[test]
    fn tables_are_drawn_when_asked_for() {
        let drawn = drawn(true);
        assert!(drawn.contains("│  │  └─ table 7+0"), "{drawn}");
        assert!(drawn.contains("   └─ run 4"), "{drawn}");
        assert!(drawn.contains("      ├─ table 1+0"), "{drawn}");
        assert!(drawn.contains("1 entry  2.00 KiB  n … z"), "{drawn}");
    }
}
