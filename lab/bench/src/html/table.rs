//! The tables: what it comes to, all numbers, settings, the machine.

use super::data::Data;
use super::number::{Quantity, grouped, ratio as times};
use super::palette::Palette;
use super::plot::metric_title;
use crate::results::{Comparison, Figure, Published, RUN, Spread, geometric_mean};
use maud::{Markup, html};

/// A table in a box of its own that scrolls where the page is narrow.
fn scrolling(label: &str, table: Markup) -> Markup {
    html! { div.scroll role="region" aria-label=(label) tabindex="0" { (table) } }
}

/// The head of an engine's column.
fn engine_head(engine: &str, palette: &Palette) -> Markup {
    html! {
        th scope="col" {
            span.swatch.{ (palette.class(engine)) } {}
            (engine)
        }
    }
}

/// Engines in a metric.
pub(super) struct Compared<'a> {
    pub(super) engines: &'a [&'a str],
    /// The one of them that the others are compared with.
    pub(super) baseline: &'a str,
    pub(super) cases: &'a [&'a str],
    pub(super) metric: &'a str,
}

/// The metric of each case and engine, what it is compared with the baseline's, and the mean of that.
pub(super) fn summary(
    data: &Data<'_>,
    compared: &Compared<'_>,
    palette: &Palette,
) -> Option<Markup> {
    let Compared { baseline, metric, .. } = *compared;
    let has_metric =
        |case: &&&str| compared.engines.iter().any(|e| data.spread(e, case, metric).is_some());
    let cases: Vec<&str> = compared.cases.iter().filter(has_metric).copied().collect();
    if cases.is_empty() {
        return None;
    }
    let others: Vec<&str> = compared.engines.iter().filter(|e| **e != baseline).copied().collect();
    let engines: Vec<&str> = std::iter::once(baseline).chain(others.iter().copied()).collect();
    let label = format!("{} by case and engine", metric_title(metric, "").0);
    if engines.len() > MOST_COLUMNS {
        let table = summary_by_engine(data, compared, &engines, &cases, palette);
        return Some(scrolling(&label, table));
    }
    let table = html! {
        table.summary {
            thead {
                tr {
                    th scope="col" { "Case" }
                    @for engine in &engines { (engine_head(engine, palette)) }
                }
            }
            tbody {
                @for case in &cases {
                    tr {
                        th scope="row" { (case) }
                        @for engine in &engines { (summary_cell(data, compared, engine, case)) }
                    }
                }
            }
            @if !others.is_empty() {
                tfoot {
                    tr {
                        th scope="row" { "Geometric mean" }
                        td { b { "1.00×" } }
                        @for engine in &others { (mean_cell(data, compared, engine, &cases)) }
                    }
                }
            }
        }
    };
    Some(scrolling(&label, table))
}

/// More engines than these have a row each, and the cases the columns.
const MOST_COLUMNS: usize = 8;

fn summary_by_engine(
    data: &Data<'_>,
    compared: &Compared<'_>,
    engines: &[&str],
    cases: &[&str],
    palette: &Palette,
) -> Markup {
    html! {
        table.summary {
            thead {
                tr {
                    th scope="col" { "Engine" }
                    @for case in cases { th scope="col" { (case) } }
                    th scope="col" { "Geometric mean" }
                }
            }
            tbody {
                @for engine in engines {
                    tr {
                        th scope="row" { span.swatch.{ (palette.class(engine)) } {} (engine) }
                        @for case in cases { (summary_cell(data, compared, engine, case)) }
                        @if *engine == compared.baseline {
                            td { b { "1.00×" } }
                        } @else {
                            (mean_cell(data, compared, engine, cases))
                        }
                    }
                }
            }
        }
    }
}

fn summary_cell(data: &Data<'_>, compared: &Compared<'_>, engine: &str, case: &str) -> Markup {
    let Compared { baseline, metric, .. } = *compared;
    let unit = data.unit(metric);
    let show: fn(f64) -> String = match Quantity::of(metric, unit) {
        Quantity::Ratio | Quantity::Mean => times,
        Quantity::Share => |share| Quantity::Share.short(share),
        // Some are less than one.
        Quantity::Micros => |micros| Quantity::Micros.short(micros),
        _ => grouped,
    };
    let number = data.spread(engine, case, metric);
    let ratio = data.ratio(engine, baseline, case, metric);
    html! {
        td {
            @if let Some(number) = number {
                (show(number.median))
                small {
                    @if engine == baseline {
                        (range(number, show))
                    } @else if let Some(ratio) = ratio {
                        span.same[is_even(ratio)].differs[!is_even(ratio)] {
                            (times(ratio.median)) "×"
                        }
                        " " (range(ratio, times))
                    }
                }
            } @else { "–" }
        }
    }
}

/// Whether the rounds do not agree on which of the two is larger.
fn is_even(ratio: Spread) -> bool {
    ratio.least <= 1.0 && ratio.most >= 1.0
}

/// `(least–most)`, nothing where they are shown alike.
fn range(spread: Spread, show: fn(f64) -> String) -> String {
    let (least, most) = (show(spread.least), show(spread.most));
    if least == most { String::new() } else { format!("({least}–{most})") }
}

fn mean_cell(data: &Data<'_>, compared: &Compared<'_>, engine: &str, cases: &[&str]) -> Markup {
    let ratio = |case: &&str| data.ratio(engine, compared.baseline, case, compared.metric);
    let ratios: Vec<f64> = cases.iter().filter_map(ratio).map(|ratio| ratio.median).collect();
    html! {
        td {
            @if let Some(mean) = geometric_mean(&ratios) {
                b { (times(mean)) "×" }
                @if ratios.len() < cases.len() {
                    small { "of " (ratios.len()) " in " (cases.len()) " cases" }
                }
            } @else { "–" }
        }
    }
}

/// Some numbers of one engine, case by case.
pub(super) fn metrics(
    data: &Data<'_>,
    engine: &str,
    cases: &[&str],
    metrics: &[String],
) -> Option<Markup> {
    let is_known = |metric: &&str| cases.iter().any(|c| data.spread(engine, c, metric).is_some());
    let metrics: Vec<&str> = metrics.iter().map(String::as_str).filter(is_known).collect();
    let table = html! {
        table.long {
            thead {
                tr {
                    th scope="col" { "Case" }
                    @for metric in &metrics { th scope="col" { (metric_title(metric, "").0) } }
                }
            }
            tbody {
                @for case in cases {
                    tr {
                        th scope="row" { (case) }
                        @for metric in &metrics {
                            td { (number(data.spread(engine, case, metric), metric, data.unit(metric))) }
                        }
                    }
                }
            }
        }
    };
    (!metrics.is_empty()).then(|| scrolling(&format!("{engine}, case by case"), table))
}

/// Published ratios next to those measured, all as changes in percent.
pub(super) fn published(data: &Data<'_>, published: &Published) -> Markup {
    let cell = |comparison: &Comparison, case: Option<&String>| {
        let Comparison { engine, baseline, metric, .. } = comparison;
        let ratio = case.and_then(|case| data.ratio(engine, baseline, case, metric));
        html! {
            td {
                @if let Some(ratio) = ratio {
                    (change(ratio.median))
                    @if ratio.least < ratio.most { small { (range(ratio, change)) } }
                } @else { "–" }
            }
        }
    };
    let table = html! {
        table.summary.long {
            thead {
                tr {
                    th scope="col" { "Workload" }
                    th scope="col" { (published.column) }
                    @for comparison in &published.comparisons {
                        th scope="col" { (comparison.title) }
                    }
                }
            }
            tbody {
                @for row in &published.rows {
                    tr {
                        th scope="row" { (row.name) }
                        td { (change(row.ratio)) }
                        @for (at, comparison) in published.comparisons.iter().enumerate() {
                            (cell(comparison, row.cases.get(at)))
                        }
                    }
                }
            }
        }
    };
    scrolling("Published figures beside those measured", table)
}

/// Published figures, each next to the number of the engine that stands for its system here.
pub(super) fn figures(data: &Data<'_>, figures: &[Figure]) -> Markup {
    let table = html! {
        table.long {
            thead {
                tr {
                    th scope="col" { "There" }
                    th scope="col" { "Case" }
                    th scope="col" { "Metric" }
                    th scope="col" { "Published" }
                    th scope="col" { "Measured" }
                    th scope="col" { "Here" }
                }
            }
            tbody {
                @for figure in figures {
                    tr {
                        th scope="row" { (figure.system) }
                        td { (figure.case) }
                        td { (metric_title(&figure.metric, "").0) }
                        td { (figure.words) }
                        td {
                            (number(
                                data.spread(&figure.engine, &figure.case, &figure.metric),
                                &figure.metric,
                                data.unit(&figure.metric),
                            ))
                        }
                        td { (figure.engine) }
                    }
                }
            }
        }
    };
    scrolling("Published figures beside those measured", table)
}

/// A ratio as a change: `+2.82%`, or how many times from twofold on.
fn change(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 2.0 => format!("{}×", times(ratio)),
        ratio => {
            let percent = (ratio - 1.0) * 100.0;
            let sign = if percent < 0.0 { "−" } else { "+" };
            let decimals = if percent.abs() < 20.0 { 2 } else { 0 };
            format!("{sign}{:.decimals$}%", percent.abs())
        }
    }
}

/// Every number of a case: the median, and below it the least and the most.
pub(super) fn numbers(data: &Data<'_>, case: &str, palette: &Palette) -> Option<Markup> {
    let engines: Vec<&str> =
        data.engines.iter().filter(|engine| data.rounds_of(engine, case) > 0).copied().collect();
    let is_known = |metric: &str| engines.iter().any(|e| data.spread(e, case, metric).is_some());
    if engines.is_empty() {
        return None;
    }
    let table = html! {
        table {
            thead {
                tr {
                    th scope="col" { "Metric" }
                    @for engine in &engines { (engine_head(engine, palette)) }
                }
                tr.rounds {
                    th scope="row" { "rounds" }
                    @for engine in &engines { td { (data.rounds_of(engine, case)) } }
                }
            }
            tbody {
                @for (metric, unit) in data.metrics.iter().filter(|(metric, _)| is_known(metric)) {
                    tr {
                        th scope="row" {
                            code { (metric) }
                            @if Quantity::of(metric, unit) == Quantity::Plain { " " small { (unit) } }
                        }
                        @for engine in &engines {
                            td { (number(data.spread(engine, case, metric), metric, unit)) }
                        }
                    }
                }
            }
        }
    };
    Some(scrolling(&format!("All numbers of {case}"), table))
}

fn number(spread: Option<Spread>, metric: &str, unit: &str) -> Markup {
    let quantity = Quantity::of(metric, unit);
    let Some(spread) = spread else { return html! { "–" } };
    html! {
        (quantity.full(spread.median))
        @if spread.least < spread.most {
            small { (quantity.full(spread.least)) "–" (quantity.full(spread.most)) }
        }
    }
}

/// What the engines were configured with, side by side, and the run itself.
pub(super) fn settings(data: &Data<'_>, palette: &Palette) -> Option<Markup> {
    let settings = &data.results.settings;
    let is_run = |name: &str| name.is_empty() || name == RUN;
    let run: Vec<(&String, &String)> =
        settings.iter().filter(|(name, _)| is_run(name)).flat_map(|(_, own)| own).collect();
    // Engines that gave numbers in their order, then those that gave none.
    let measured = data.engines.iter().copied().filter(|name| settings.contains_key(*name));
    let silent = settings.keys().map(String::as_str);
    let silent = silent.filter(|name| !is_run(name) && !data.engines.contains(name));
    let engines: Vec<&str> = measured.chain(silent).collect();
    let mut names: Vec<&String> = engines.iter().flat_map(|name| settings[*name].keys()).collect();
    names.sort_unstable();
    names.dedup();
    if run.is_empty() && names.is_empty() {
        return None;
    }
    Some(html! {
        @if !run.is_empty() {
            (pairs("Settings of the run", run.iter().map(|(name, value)| (&name[..], &value[..]))))
        }
        @if !names.is_empty() {
            (scrolling("Settings of the engines", html! {
                table.words {
                    thead {
                        tr {
                            th scope="col" { "Engine" }
                            @for engine in &engines { (engine_head(engine, palette)) }
                        }
                    }
                    tbody {
                        @for name in names {
                            tr {
                                th scope="row" { (name) }
                                @for engine in &engines {
                                    td { (settings[*engine].get(name).map_or("–", String::as_str)) }
                                }
                            }
                        }
                    }
                }
            }))
        }
    })
}

/// The machine.
pub(super) fn machine(data: &Data<'_>) -> Markup {
    let machine = &data.results.machine;
    let cores = if machine.cores > 0 { machine.cores.to_string() } else { String::new() };
    let memory = match machine.memory_bytes {
        0 => String::new(),
        bytes => Quantity::Bytes.short(bytes as f64),
    };
    let facts = [
        ("Processor", &machine.cpu),
        ("Cores", &cores),
        ("Memory", &memory),
        ("Disk", &machine.disk),
        ("File system", &machine.filesystem),
        ("Kernel", &machine.kernel),
        ("System", &machine.os),
    ];
    let told = facts.into_iter().filter(|(_, fact)| !fact.is_empty());
    pairs("Machine", told.map(|(name, fact)| (name, &fact[..])))
}

fn pairs<'a>(label: &str, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Markup {
    let rows = html! {
        table.words {
            tbody {
                @for (name, value) in pairs {
                    tr { th scope="row" { (name) } td { (value) } }
                }
            }
        }
    };
    scrolling(label, rows)
}
