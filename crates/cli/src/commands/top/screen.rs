//! The screen of `esker top`, as lines of a terminal of any size.
//!
//! The parts come in the order of their importance: a small terminal shows the first of them.

use super::sample::{CallRate, QUANTILES, Sample};
use crate::text::shorten;
use crate::units;
use esker::stats::{CallKind, LevelStatus};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use std::collections::VecDeque;
use std::time::Duration;

/// From so many columns on, tables have all of their columns.
const WIDE: usize = 70;
/// From so many rows on, all kinds of calls have a line.
const TALL: usize = 18;
/// So many samples are kept for the curve.
const HISTORY: usize = 200;
/// A level that is fuller by this is far behind.
const FAR_BEHIND: f64 = 2.0;

/// What is shown.
#[derive(Default)]
pub struct View {
    pub database: String,
    pub interval: Duration,
    pub sample: Option<Sample>,
    /// Why there is no sample, or no new one.
    pub notice: Option<String>,
    /// Calls a second, the latest last.
    pub history: VecDeque<f64>,
}

impl View {
    /// Shows `sample` from now on.
    pub fn show(&mut self, sample: Sample) {
        self.history.push_back(sample.calls_per_second());
        while self.history.len() > HISTORY {
            self.history.pop_front();
        }
        (self.sample, self.notice) = (Some(sample), None);
    }

    /// The lines for a terminal of this size: as many as it has rows.
    pub fn lines(&self, width: usize, height: usize) -> Vec<Line<'static>> {
        let mut lines = vec![self.title(width)];
        if let Some(notice) = &self.notice {
            lines.push(styled(cut(notice, width), Style::new().fg(Color::Red)));
        }
        match &self.sample {
            Some(sample) => self.body(sample, width, height, &mut lines),
            None if self.notice.is_none() => lines.push(Line::from("measuring ...")),
            None => {}
        }
        lines.truncate(height.saturating_sub(1));
        lines.resize(height.saturating_sub(1), Line::default());
        lines.push(styled(cut("q quit", width), dim()));
        lines.truncate(height);
        lines
    }

    fn title(&self, width: usize) -> Line<'static> {
        let pid = self.sample.as_ref().map(|sample| format!("process {}", sample.status.pid));
        let right = format!("{} every {:?}", pid.unwrap_or_default(), self.interval);
        let left = format!("esker top  {}", self.database);
        let gap = width.saturating_sub(left.chars().count() + right.chars().count());
        let text = match gap {
            0 | 1 => cut(&left, width),
            _ => format!("{left}{}{right}", " ".repeat(gap)),
        };
        styled(text, Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED))
    }

    fn body(&self, sample: &Sample, width: usize, height: usize, lines: &mut Vec<Line<'static>>) {
        let is_wide = width >= WIDE;
        let shown = |call: &&CallRate| {
            height >= TALL || matches!(call.call, CallKind::Get | CallKind::Write)
        };
        lines.push(styled(call_heads(is_wide), dim()));
        lines.extend(sample.calls.iter().filter(shown).map(|call| call_line(call, is_wide)));
        if height >= TALL {
            lines.push(self.curve(width));
        }
        lines.extend(traffic(sample, width));
        lines.extend(memory(sample, width, height >= TALL));
        let compactions = compactions(sample, width);
        let events = sample.status.events.iter().rev().take(3);
        let events: Vec<_> = events.map(|event| styled(cut(event, width), dim())).collect();
        // Compactions and events get what levels leave, and one line each in any case.
        let kept = usize::from(height >= TALL) * (compactions.len().min(2) + events.len().min(2));
        let left = height.saturating_sub(lines.len() + 1);
        lines.extend(levels(sample, width, left.saturating_sub(kept)));
        lines.extend(compactions);
        if height >= TALL && !events.is_empty() {
            lines.extend(events.into_iter().rev());
        }
    }

    /// Calls a second as a curve.
    fn curve(&self, width: usize) -> Line<'static> {
        const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let most = self.history.iter().copied().fold(0.0, f64::max);
        let label = format!("calls/s up to {} ", number(most));
        let columns = width.saturating_sub(label.chars().count());
        let skipped = self.history.len().saturating_sub(columns);
        let step = |&calls: &f64| {
            let share = if most > 0.0 { calls / most } else { 0.0 };
            STEPS[((share * 7.0).round() as usize).min(7)]
        };
        let curve: String = self.history.iter().skip(skipped).map(step).collect();
        Line::from(vec![
            Span::styled(label, dim()),
            Span::styled(curve, Style::new().fg(Color::Cyan)),
        ])
    }
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn styled(text: impl Into<String>, style: Style) -> Line<'static> {
    Line::styled(text.into(), style)
}

fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

fn call_heads(is_wide: bool) -> String {
    let heads = format!("{:<10}{:>12}", "calls", "a second");
    let shown = QUANTILES.iter().take(if is_wide { 3 } else { 1 } + usize::from(!is_wide));
    shown.fold(heads, |heads, (_, name)| heads + &format!("{name:>9}"))
}

fn call_line(call: &CallRate, is_wide: bool) -> Line<'static> {
    let text = format!("{:<10}{:>12}", call.call.name(), number(call.per_second));
    let shown = call.times.iter().take(if is_wide { 3 } else { 2 });
    let text = shown.fold(text, |text, time| text + &format!("{:>9}", duration(*time)));
    match call.per_second > 0.0 {
        true => Line::from(text),
        false => styled(text, dim()),
    }
}

/// Bytes a second, and how long writers waited.
fn traffic(sample: &Sample, width: usize) -> Vec<Line<'static>> {
    let bytes = |name: &str| units::bytes(sample.rate(name) as u64) + "/s";
    let stalled = sample.rate("esker_stalled_seconds_total");
    let style = match stalled {
        stalled if stalled >= 0.1 => Style::new().fg(Color::Red),
        stalled if stalled > 0.0 => Style::new().fg(Color::Yellow),
        _ => Style::new(),
    };
    let stall = format!("stalls {:.1} ms/s", stalled * 1e3);
    let written = format!("written {}", bytes("esker_written_bytes_total"));
    let flushed = format!("flush {}", bytes("esker_flush_bytes_total"));
    let compacted = format!("compaction {}", bytes("esker_compaction_bytes_total"));
    if width >= WIDE {
        let text = format!("{written}  {flushed}  {compacted}  ");
        return vec![Line::from(vec![Span::raw(text), Span::styled(stall, style)])];
    }
    vec![
        Line::from(cut(&format!("{written}  {flushed}"), width)),
        Line::from(vec![Span::raw(format!("{compacted}  ")), Span::styled(stall, style)]),
    ]
}

/// The budget and, with `has_caches`, the cache and the DRAMTable.
fn memory(sample: &Sample, width: usize, has_caches: bool) -> Vec<Line<'static>> {
    let metric = |name: &str| sample.status.metric(name);
    let percent = |share: Option<f64>| {
        share.map_or_else(|| "no reads".to_owned(), |share| format!("{:.1}% hits", share * 100.0))
    };
    let budget = metric("esker_memory_budget_bytes");
    let used = metric("esker_memory_charged_bytes") + metric("esker_cache_bytes");
    let cache = sample.hit_share("esker_cache_hits_total", "esker_cache_misses_total");
    let dram = sample.hit_share("esker_dram_table_hits_total", "esker_dram_table_misses_total");
    let size = |bytes: f64| units::bytes(bytes as u64);
    let bar_width = if width >= WIDE { 20 } else { 10 };
    let mut first = vec![Span::raw("memory ")];
    first.extend(bar(if budget > 0.0 { used / budget } else { 0.0 }, bar_width, Color::Cyan));
    first.push(Span::raw(format!(" {} of {}", size(used), size(budget))));
    let mut second = format!(
        "cache {} {}  dram table {}",
        size(metric("esker_cache_bytes")),
        percent(cache),
        percent(dram)
    );
    if width >= WIDE {
        let (memtables, bytes) = (metric("esker_memtables"), metric("esker_memtable_bytes"));
        first.push(Span::raw(format!("  {memtables} memtables {}", size(bytes))));
        second += &format!("  snapshots {}", metric("esker_snapshots"));
    }
    let mut lines = vec![Line::from(first)];
    if has_caches {
        lines.push(Line::from(cut(&second, width)));
    }
    if metric("esker_background_error") > 0.0 {
        let text = "background work fails: see esker stats, background_error";
        lines.push(styled(cut(text, width), Style::new().fg(Color::Red)));
    }
    lines
}

/// A line for each level, in at most `most` lines.
fn levels(sample: &Sample, width: usize, most: usize) -> Vec<Line<'static>> {
    let levels = &sample.status.levels;
    if levels.is_empty() || most < 2 {
        return Vec::new();
    }
    let name_width = if width >= WIDE { 18 } else { 9 };
    let head = match width >= WIDE {
        true => format!(
            "{:<name_width$} {:<5}{:>6}{:>8}{:>11}  fill",
            "keyspace", "level", "runs", "tables", "size"
        ),
        false => format!("{:<name_width$} {:<3}{:>5}{:>11} fill", "keyspace", "lv", "runs", "size"),
    };
    let mut lines = vec![styled(cut(&head, width), dim())];
    let fits = if levels.len() < most { levels.len() } else { most - 2 };
    for level in levels.iter().take(fits) {
        lines.push(level_line(level, name_width, width));
    }
    let left_out = (levels.len() - fits) as u64 + sample.status.levels_left_out;
    if left_out > 0 {
        lines.push(styled(format!("and {} more", units::count(left_out)), dim()));
    }
    lines
}

fn level_line(level: &LevelStatus, name_width: usize, width: usize) -> Line<'static> {
    let name = shorten(level.keyspace.as_bytes(), name_width);
    let size = units::bytes(level.bytes);
    let text = match width >= WIDE {
        true => format!(
            "{name:<name_width$} L{:<4}{:>6}{:>8}{size:>11}  ",
            level.level, level.runs, level.tables
        ),
        false => format!("{name:<name_width$} L{:<2}{:>5}{size:>11} ", level.level, level.runs),
    };
    let left = width.saturating_sub(text.chars().count());
    let mut spans = vec![Span::raw(text)];
    match level.fill {
        None => spans.push(Span::styled("no limit", dim())),
        Some(fill) => {
            let colour = match fill {
                fill if fill >= FAR_BEHIND => Color::Red,
                fill if fill >= 1.0 => Color::Yellow,
                _ => Color::Green,
            };
            let percent = format!("{:>5.0}%", fill * 100.0);
            spans.extend(bar(fill, left.saturating_sub(percent.len()).min(20), colour));
            spans.push(Span::raw(percent));
        }
    }
    Line::from(spans)
}

fn compactions(sample: &Sample, width: usize) -> Vec<Line<'static>> {
    let running = &sample.status.compactions;
    let count = match running.len() {
        0 => return vec![styled("no compaction in progress", dim())],
        count => units::counted(count as u64, "compaction"),
    };
    let mut lines = vec![styled(format!("{count} in progress"), dim())];
    lines.extend(running.iter().map(|it| {
        let output = it.output_level.map_or("drops".to_owned(), |level| format!("L{level}"));
        let (name, size) = (shorten(it.keyspace.as_bytes(), 18), units::bytes(it.expected_bytes));
        let text = format!("{name} L{} → {output}  {size}  {}", it.from_level, it.reason);
        Line::from(cut(&text, width))
    }));
    lines
}

/// A bar of so many columns, full at 1.
fn bar(share: f64, width: usize, colour: Color) -> [Span<'static>; 2] {
    let full = ((share * width as f64).round() as usize).min(width);
    let full = if share > 0.0 { full.max(1).min(width) } else { 0 };
    [
        Span::styled("█".repeat(full), Style::new().fg(colour)),
        Span::styled("░".repeat(width - full), dim()),
    ]
}

/// A number a second.
fn number(per_second: f64) -> String {
    match per_second {
        few if few > 0.0 && few < 10.0 => format!("{few:.1}"),
        many => units::count(many.round() as u64),
    }
}

/// Three digits or so, in at most eight columns.
fn duration(time: Option<Duration>) -> String {
    let Some(time) = time else { return "-".to_owned() };
    let nanos = time.as_nanos() as f64;
    let (value, unit) = match nanos {
        nanos if nanos < 1e3 => (nanos, "ns"),
        nanos if nanos < 1e6 => (nanos / 1e3, "us"),
        nanos if nanos < 1e9 => (nanos / 1e6, "ms"),
        nanos => (nanos / 1e9, "s"),
    };
    let decimals = usize::from(value < 99.95 && unit != "ns");
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests;
