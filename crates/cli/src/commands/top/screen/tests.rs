use super::super::terminal::draw;
use super::*;
use esker::stats::{CallTimes, CompactionStatus, LatencyHistogram, LiveStatus};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn level(keyspace: &str, level: usize, bytes: u64, fill: Option<f64>) -> LevelStatus {
    let mut status = LevelStatus::new(keyspace, level);
    (status.runs, status.tables, status.bytes, status.fill) = (1, bytes >> 26, bytes, fill);
    status
}

/// A status `seconds` after the open, of a database that is busy.
fn status(seconds: u64) -> LiveStatus {
    let mut status = LiveStatus::default();
    (status.pid, status.at) = (4711, Duration::from_secs(seconds));
    let per_second = [
        ("esker_written_bytes_total", 12e6),
        ("esker_flush_bytes_total", 11e6),
        ("esker_compaction_bytes_total", 60e6),
        ("esker_stalled_seconds_total", 0.012),
        ("esker_cache_hits_total", 9_000.0),
        ("esker_cache_misses_total", 1_000.0),
    ];
    let metrics = per_second.map(|(name, rate)| (name, rate * seconds as f64));
    let gauges = [
        ("esker_memory_budget_bytes", 1e9),
        ("esker_memory_charged_bytes", 3e8),
        ("esker_cache_bytes", 2e8),
        ("esker_memtables", 2.0),
        ("esker_memtable_bytes", 1.2e8),
        ("esker_snapshots", 3.0),
    ];
    let all = metrics.into_iter().chain(gauges);
    status.metrics = all.map(|(name, value)| (name.to_owned(), value)).collect();
    let calls = [(CallKind::Get, 123_456), (CallKind::MultiGet, 0)];
    let calls = calls.into_iter().chain([(CallKind::Write, 9_876), (CallKind::Scan, 5)]);
    let of = |(call, count): (CallKind, u64)| {
        let mut times = LatencyHistogram::default();
        let nanos = (0..count.min(1_000) * seconds).map(|n| 300 + (n % 1_000).pow(2) / 100);
        nanos.for_each(|nanos| times.record(Duration::from_nanos(nanos)));
        CallTimes::new(call, count * seconds, times)
    };
    status.calls = calls.map(of).collect();
    status
}

fn view(seconds: &[u64]) -> View {
    let interval = Duration::from_secs(1);
    let mut view = View { database: "/data/users".into(), interval, ..View::default() };
    for pair in seconds.windows(2) {
        let mut now = status(pair[1]);
        now.levels = vec![
            level("default", 0, 100 << 20, Some(0.75)),
            level("default", 1, 300 << 20, Some(1.2)),
            level("default", 6, 40 << 30, None),
            level("a keyspace with a long name", 6, 5 << 20, Some(2.5)),
        ];
        let mut compaction = CompactionStatus::new("default", "level size", 0);
        (compaction.output_level, compaction.expected_bytes) = (Some(1), 400 << 20);
        now.compactions = vec![compaction];
        now.events = vec!["flush of 64.0 MiB, 120ms".into(), "set slow_call=10ms".into()];
        view.show(Sample::between(&status(pair[0]), now).unwrap());
    }
    view
}

fn drawn(view: &View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, view)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let cells = buffer.content().chunks(usize::from(width));
    let lines = cells.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
    lines.map(|line| line.trim_end().to_owned() + "\n").collect()
}

#[test]
fn a_usual_terminal_has_it_all() {
    assert_eq!(drawn(&view(&[1, 2, 3]), 80, 24), include_str!("80x24.txt"));
}

#[test]
fn a_small_terminal_has_what_matters_most() {
    assert_eq!(drawn(&view(&[1, 2]), 40, 12), include_str!("40x12.txt"));
}

#[test]
fn a_database_that_was_closed_says_so_above_the_last_sample() {
    let mut view = view(&[1, 2]);
    view.notice = Some("no process has the database open".into());
    let text = drawn(&view, 80, 24);
    assert_eq!(text.lines().nth(1), Some("no process has the database open"));
    assert!(text.contains("123,456"));
    view.sample = None;
    let text = drawn(&view, 40, 12);
    assert_eq!(text.lines().nth(1), Some("no process has the database open"));
    assert_eq!(text.lines().last(), Some("q quit"));
}

#[test]
fn it_fits_any_size() {
    let (mut busy, empty) = (view(&[1, 2]), View::default());
    let sample = busy.sample.as_mut().unwrap();
    let level = sample.status.levels[0].clone();
    sample.status.levels = vec![level; 1_000];
    for (width, height) in [(1, 1), (2, 2), (10, 3), (39, 11), (69, 17), (70, 18), (300, 100)] {
        for view in [&busy, &empty] {
            assert_eq!(view.lines(width.into(), height.into()).len(), usize::from(height));
            drawn(view, width, height);
        }
    }
    // Levels leave room for compactions and events.
    let text = drawn(&busy, 80, 24);
    assert!(text.contains("and 993 more\n") && text.contains("1 compaction in"), "{text}");
}

#[test]
fn times_fit_their_column() {
    let nanos =
        [0, 999, 1_000, 99_949, 99_950, 999_999, 5_000_000, 60_000_000_000, 999_000_000_000];
    let texts = nanos.map(|nanos| duration(Some(Duration::from_nanos(nanos))));
    assert_eq!(
        texts,
        ["0 ns", "999 ns", "1.0 us", "99.9 us", "100 us", "1000 us", "5.0 ms", "60.0 s", "999 s"]
    );
    assert!(texts.iter().all(|text| text.len() <= 8));
    assert_eq!(duration(None), "-");
}
