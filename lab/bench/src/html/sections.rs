//! The parts of the page that hold plots. A part with nothing to show is left out.

use super::bars::{Axis, Bar, Bars, Group, bars};
use super::data::{Data, first_seen};
use super::lines::{Line, Lines, distribution, over_time};
use super::number::Quantity;
use super::palette::Palette;
use super::plot::{legend, metric_title};
use super::table;
use crate::results::Spread;
use maud::{Markup, html};

/// All that a part is made from.
pub(super) struct Page<'a> {
    pub(super) data: Data<'a>,
    pub(super) palette: Palette,
    /// The engine that the others are compared with.
    pub(super) baseline: &'a str,
}

/// Plots of one kind, with a heading and the meaning of the colours.
fn section(page: &Page<'_>, title: &str, note: &str, plots: Vec<Markup>) -> Markup {
    html! {
        @if !plots.is_empty() {
            section {
                div.lead {
                    h2 { (title) }
                    p.note { (note) }
                    (legend(&page.data.engines, &page.palette))
                }
                div.plots { @for plot in plots { (plot) } }
            }
        }
    }
}

/// The number of engines that colours distinguish; if there are more, each bar has its name.
const MOST_BY_COLOUR: usize = 8;

/// A number of an engine in a case: its median's parts and its spread.
type Number = (Vec<f64>, Spread);

/// A plot of one number by case and engine.
struct ByCase<'a> {
    title: &'a str,
    hint: &'a str,
    quantity: Quantity,
    axis: Axis,
}

impl Page<'_> {
    /// What was done, and how fast.
    pub(super) fn speed(&self) -> Markup {
        let cases = &self.data.cases;
        let mut plots =
            self.metric(cases, "Throughput", "ops/s, more is better", "throughput", Axis::Linear);
        plots.extend(self.ratios());
        plots.extend(self.processor());
        let note = "Bars are medians over the rounds, whiskers reach from the least to the most.";
        section(self, "Speed", note, plots)
    }

    /// How long an operation took.
    pub(super) fn latency(&self) -> Markup {
        let wanted = [
            ("Median latency", "latency_p50_us"),
            ("99th percentile", "latency_p99_us"),
            ("99.9th percentile", "latency_p999_us"),
        ];
        let cases = &self.data.cases;
        let plot = |(title, metric)| self.metric(cases, title, "less is better", metric, Axis::Log);
        let plots = wanted.into_iter().flat_map(plot).collect();
        section(self, "Latency", "On logarithmic axes: each power of ten is one step.", plots)
    }

    /// Bytes written, and space taken.
    pub(super) fn cost(&self) -> Markup {
        let cases = &self.data.cases;
        let mut plots = self.write_amplification(cases);
        plots.extend(self.space(cases));
        plots.extend(self.metric(
            cases,
            "Memory",
            "peak, without mapped files",
            "rss_peak_mib",
            Axis::Linear,
        ));
        let note = "Bars in parts are, from dark to light: what the log, flushes and compactions wrote, \
                    as the engine tells it, and whatever else the process wrote, such as the zeros that \
                    a new log file is filled with, in outline; the mean and the peak of space.";
        section(self, "Writes, space and memory", note, plots)
    }

    /// One case after the other: its latencies, its course, and all its numbers.
    pub(super) fn cases(&self) -> Markup {
        let parts: Vec<Markup> =
            self.data.cases.iter().filter_map(|case| self.case(case)).collect();
        let note = "Lines are of one round: of each engine the one whose throughput is the median.";
        html! {
            @if !parts.is_empty() {
                section {
                    div.lead {
                        h2 { "Case by case" }
                        @if !self.data.results.series.is_empty() { p.note { (note) } }
                    }
                    @for part in parts { (part) }
                }
            }
        }
    }

    fn case(&self, case: &str) -> Option<Markup> {
        let mut plots = self.distributions(case);
        plots.extend(self.percentiles(case));
        plots.extend(self.series(case, None));
        let numbers = table::numbers(&self.data, case, &self.palette);
        let engines: Vec<&str> =
            self.data.engines.iter().filter(|name| self.takes_part(name, case)).copied().collect();
        let content = html! {
            div.plots { @for plot in &plots { (plot) } }
            @if let Some(numbers) = &numbers {
                details { summary { "All numbers of " (case) } (numbers) }
            }
        };
        // The cases of groups were shown, and are many.
        let is_folded = !self.data.results.groups.is_empty();
        (!plots.is_empty() || numbers.is_some()).then(|| {
            html! {
                article {
                    @if is_folded {
                        details {
                            summary { (case) }
                            (legend(&engines, &self.palette))
                            (content)
                        }
                    } @else {
                        div.head { h3 { (case) } (legend(&engines, &self.palette)) }
                        (content)
                    }
                }
            }
        })
    }

    pub(super) fn takes_part(&self, engine: &str, case: &str) -> bool {
        let results = self.data.results;
        self.data.rounds_of(engine, case) > 0
            || results.series.iter().any(|one| one.engine == engine && one.case == case)
            || results.distributions.iter().any(|one| one.engine == engine && one.case == case)
    }

    /// A metric as it is in the rows, by case and engine.
    pub(super) fn metric(
        &self,
        cases: &[&str],
        title: &str,
        hint: &str,
        metric: &str,
        axis: Axis,
    ) -> Vec<Markup> {
        let unit = self.data.unit(metric);
        let quantity = Quantity::of(metric, unit);
        // The numbers of others have their unit beside them.
        let hint = match (quantity, hint) {
            (Quantity::Plain, "") => unit.to_owned(),
            (Quantity::Plain, hint) if !unit.is_empty() => format!("{unit}, {hint}"),
            _ => hint.to_owned(),
        };
        let hint = &hint[..];
        self.by_case(cases, &ByCase { title, hint, quantity, axis }, |engine, case| {
            let spread = self.data.spread(engine, case, metric)?;
            Some((vec![spread.median], spread))
        })
    }

    /// Throughput next to the baseline's. It shows what a common axis can't: cases differ a
    /// hundredfold in what an operation is.
    fn ratios(&self) -> Vec<Markup> {
        let hint = format!("times that of {}", self.baseline);
        let plot = ByCase {
            title: "Throughput compared",
            hint: &hint,
            quantity: Quantity::Ratio,
            axis: Axis::LogAround(1.0),
        };
        self.by_case(&self.data.cases, &plot, |engine, case| {
            let is_other = engine != self.baseline;
            let ratio = self.data.ratio(engine, self.baseline, case, "throughput");
            let ratio = ratio.filter(|_| is_other)?;
            Some((vec![ratio.median], ratio))
        })
    }

    /// Processor time by operation, so that loads of a fixed duration compare as well; or in all,
    /// where the operations aren't known.
    fn processor(&self) -> Vec<Markup> {
        if !self.data.has("operations") {
            let (cases, title) = (&self.data.cases, "Processor time");
            return self.metric(cases, title, "all threads", "cpu_s", Axis::Linear);
        }
        let plot = ByCase {
            title: "Processor time",
            hint: "for each operation, less is better",
            quantity: Quantity::Micros,
            axis: Axis::Log,
        };
        self.by_case(&self.data.cases, &plot, |engine, case| {
            let spread = self.data.quotient(engine, case, "cpu_s", "operations")?;
            let Spread { median, least, most } = spread;
            let us = Spread { median: median * 1e6, least: least * 1e6, most: most * 1e6 };
            Some((vec![us.median], us))
        })
    }

    /// Bytes written for each that a user wrote, by cause where that is known: the parts are those of
    /// the medians, and what is left of the whole has another cause, or one that is not reported.
    pub(super) fn write_amplification(&self, cases: &[&str]) -> Vec<Markup> {
        let causes = ["log_bytes", "flush_bytes", "compaction_bytes"];
        let is_known = causes.iter().any(|cause| self.data.has(cause));
        let plot = ByCase {
            title: "Write amplification",
            hint: if is_known { "log, flush, compaction, other" } else { "less is better" },
            quantity: Quantity::Ratio,
            axis: Axis::Linear,
        };
        self.by_case(cases, &plot, |engine, case| {
            let total = self.data.spread(engine, case, "write_amp")?;
            let of_user = |cause| self.data.quotient(engine, case, cause, "user_bytes");
            let told = causes.map(|cause| of_user(cause).map_or(0.0, |share| share.median));
            Some((causes_and_rest(told, total.median), total))
        })
    }

    /// Bytes written to tables for each that a user wrote, by cause where that is known.
    pub(super) fn write_amplification_of_tables(&self, cases: &[&str]) -> Vec<Markup> {
        let plot = ByCase {
            title: "Write amplification of tables",
            hint: "flush and compaction, less is better",
            quantity: Quantity::Ratio,
            axis: Axis::Linear,
        };
        self.by_case(cases, &plot, |engine, case| {
            let total = self.data.spread(engine, case, "table_write_amp")?;
            let flushes = self.data.quotient(engine, case, "flush_bytes", "user_bytes");
            let flushes = flushes.map_or(total.median, |share| share.median.min(total.median));
            Some((vec![flushes, total.median - flushes], total))
        })
    }

    /// Space for each byte that is alive, on average and at its peak; or the bytes at their peak.
    pub(super) fn space(&self, cases: &[&str]) -> Vec<Markup> {
        if !self.data.has("space_amp_peak") && !self.data.has("space_amp_mean") {
            let title = "Space taken";
            return self.metric(cases, title, "at its peak", "disk_peak_bytes", Axis::Linear);
        }
        self.mean_and_peak(cases, "Space amplification", ["space_amp_mean", "space_amp_peak"])
    }

    /// The same of tables alone.
    pub(super) fn space_of_tables(&self, cases: &[&str]) -> Vec<Markup> {
        let metrics = ["table_space_amp_mean", "table_space_amp_peak"];
        self.mean_and_peak(cases, "Space amplification of tables", metrics)
    }

    fn mean_and_peak(&self, cases: &[&str], title: &str, metrics: [&str; 2]) -> Vec<Markup> {
        let hint = "mean and peak";
        let plot = ByCase { title, hint, quantity: Quantity::Ratio, axis: Axis::Linear };
        self.by_case(cases, &plot, |engine, case| {
            let [mean, peak] = metrics.map(|metric| self.data.spread(engine, case, metric));
            let (mean, peak) = (mean.or(peak)?, peak.or(mean)?);
            Some((vec![mean.median, (peak.median - mean.median).max(0.0)], peak))
        })
    }

    fn by_case(
        &self,
        cases: &[&str],
        plot: &ByCase<'_>,
        number: impl Fn(&str, &str) -> Option<Number>,
    ) -> Vec<Markup> {
        let bar = |engine: &str, case: &str| {
            let (parts, spread) = number(engine, case)?;
            Some(self.bar(engine, case, plot.quantity, parts, spread))
        };
        let group = |case: &&str| Group {
            name: (*case).to_owned(),
            bars: self.data.engines.iter().filter_map(|engine| bar(engine, case)).collect(),
        };
        bars(&Bars {
            title: plot.title,
            hint: plot.hint,
            quantity: plot.quantity,
            axis: plot.axis,
            is_dense: false,
            groups: cases.iter().map(group).collect(),
        })
    }

    fn bar(
        &self,
        engine: &str,
        what: &str,
        quantity: Quantity,
        parts: Vec<f64>,
        Spread { least, most, .. }: Spread,
    ) -> Bar {
        let text = quantity.short(parts.iter().sum());
        let mut description = format!("{engine}, {what}: {text}");
        if least < most {
            description += &format!(" ({}–{})", quantity.short(least), quantity.short(most));
        }
        let class = self.palette.class(engine).to_owned();
        let name = (self.data.engines.len() > MOST_BY_COLOUR).then(|| engine.to_owned());
        Bar { class, name, description, parts, whisker: (least, most), text }
    }

    /// Which part of all operations was how fast, a plot for each kind of operation.
    fn distributions(&self, case: &str) -> Vec<Markup> {
        let all = self.data.results.distributions.iter().filter(|one| one.case == case);
        let mut operations = first_seen(all.map(|one| one.operation.as_str()));
        // A single kind is the same as all of them.
        if operations.len() == 2 && operations.contains(&"all") {
            operations.retain(|operation| *operation == "all");
        }
        let plot = |operation: &&str| {
            let title = match *operation {
                "" | "all" => "Latency distribution".to_owned(),
                operation => format!("Latency distribution, {}", operation.replace('_', " ")),
            };
            let found = self.data.distributions(case, operation);
            let lines = found.into_iter().map(|one| self.line(&one.engine, &one.points)).collect();
            distribution(&Lines {
                title: &title,
                hint: "part of operations",
                is_log: true,
                quantity: Quantity::Share,
                lines,
            })
        };
        operations.iter().filter_map(plot).collect()
    }

    fn line<'b>(&'b self, engine: &'b str, points: &'b [[f64; 2]]) -> Line<'b> {
        Line { class: self.palette.class(engine), engine, points }
    }

    /// Percentiles of all operations, and those of each kind where a case has several.
    fn percentiles(&self, case: &str) -> Vec<Markup> {
        let ladder = [
            ("latency_p50_us", "median"),
            ("latency_p99_us", "99%"),
            ("latency_p999_us", "99.9%"),
            ("latency_max_us", "longest"),
        ];
        let known = ladder.map(|(metric, name)| (metric, name.to_owned()));
        let suffix = "_latency_p99_us";
        let of_kind = self.data.metrics.iter().filter_map(|(metric, _)| {
            let kind = metric.strip_suffix(suffix)?;
            Some((*metric, format!("{} 99%", short_kind(kind))))
        });
        let group = |(metric, name): (&str, String)| {
            let bar = |engine: &&str| {
                let spread = self.data.spread(engine, case, metric)?;
                Some(self.bar(engine, &name, Quantity::Micros, vec![spread.median], spread))
            };
            let bars = self.data.engines.iter().filter_map(bar).collect();
            Group { name, bars }
        };
        bars(&Bars {
            title: "Latency by percentile",
            hint: "medians of the rounds",
            quantity: Quantity::Micros,
            axis: Axis::Log,
            is_dense: true,
            groups: known.into_iter().chain(of_kind).map(group).collect(),
        })
    }

    /// Every metric that was followed over time; or those of `wanted`, the case in their titles.
    pub(super) fn series(&self, case: &str, wanted: Option<&[String]>) -> Vec<Markup> {
        let is_wanted = |metric: &String| wanted.is_none_or(|wanted| wanted.contains(metric));
        let series = self.data.results.series.iter();
        let series = series.filter(|series| series.case == case && is_wanted(&series.metric));
        let all = || series.clone();
        let plot = |metric: &&str| {
            let unit = &all().find(|series| series.metric == **metric)?.unit;
            let (mut title, quantity) = metric_title(metric, unit);
            if wanted.is_some() {
                title = format!("{case}: {}", title.to_lowercase());
            }
            let found = self.data.series(case, metric);
            let lines = found.into_iter().map(|one| self.line(&one.engine, &one.points)).collect();
            let is_log = metric.contains("latency");
            let hint = match quantity {
                Quantity::Rate => "ops/s",
                Quantity::Plain => unit,
                _ if metric.contains("stall") => "in each second",
                _ => "",
            };
            over_time(&Lines { title: &title, hint, is_log, quantity, lines })
        };
        first_seen(all().map(|series| series.metric.as_str())).iter().filter_map(plot).collect()
    }
}

/// The parts of `total` that `told` are, and the rest. What is reported may be a little more than the
/// whole, being counted elsewhere: then it fills it.
fn causes_and_rest(told: [f64; 3], total: f64) -> Vec<f64> {
    let sum: f64 = told.iter().sum();
    let fitting = if sum > total { total / sum } else { 1.0 };
    let rest = (total - sum).max(0.0);
    told.iter().map(|part| part * fitting).chain([rest]).collect()
}

/// A kind of operation in the few letters that the margin holds.
fn short_kind(kind: &str) -> String {
    match kind {
        "read_modify_write" | "readmodifywrite" => "rmw".to_owned(),
        "read_settled" => "settled".to_owned(),
        "read_beside_updates" => "busy".to_owned(),
        "read_unsettled" => "unsettled".to_owned(),
        kind => kind.replace('_', " "),
    }
}
