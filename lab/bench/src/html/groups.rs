//! The parts of the page that an experiment asks for: its groups of cases, and published figures
//! next to what was measured.

use super::bars::Axis;
use super::lines::{Line, Lines, over_times};
use super::number::Quantity;
use super::plane::{self, Point};
use super::plot::{legend, metric_title};
use super::sections::Page;
use super::table;
use crate::results::{self, Across, Group, Published};
use maud::{Markup, html};

impl Page<'_> {
    /// Every group that has something to show.
    pub(super) fn groups(&self) -> Markup {
        let groups = &self.data.results.groups;
        html! { @for group in groups { @if let Some(shown) = self.group(group) { (shown) } } }
    }

    /// What others published, next to this.
    pub(super) fn published(&self) -> Markup {
        let all = &self.data.results.published;
        html! {
            @if !all.is_empty() {
                section {
                    h2 { "Beside what was published" }
                    @if self.data.results.scale.contains("quick") {
                        p.notice {
                            strong { "Quick: " }
                            "this run was small and short. Its figures show that the comparison works; they are \
                             not to be compared with published ones, as those of a full run are."
                        }
                    }
                    @for (index, published) in all.iter().enumerate() {
                        // Several tables of one source follow one text.
                        @let before = index.checked_sub(1).map(|before| introduction(&all[before]));
                        @if before != Some(introduction(published)) {
                            div.lead { p.note { (published.source) ". " (published.about) } }
                        }
                        (self.beside(published))
                    }
                }
            }
        }
    }

    fn beside(&self, published: &Published) -> Markup {
        html! {
            @if !published.rows.is_empty() { (table::published(&self.data, published)) }
            @if !published.figures.is_empty() { (table::figures(&self.data, &published.figures)) }
        }
    }

    fn group(&self, group: &Group) -> Option<Markup> {
        let measured = |case: &&str| self.data.cases.contains(case);
        let cases: Vec<&str> = group.cases.iter().map(String::as_str).filter(measured).collect();
        let takes_part = |engine: &&str| cases.iter().any(|case| self.takes_part(engine, case));
        let engines: Vec<&str> = self.data.engines.iter().copied().filter(takes_part).collect();
        let first = group.metrics.first()?;
        if engines.is_empty() {
            return None;
        }
        let baseline = if engines.contains(&self.baseline) { self.baseline } else { engines[0] };
        let (table, rest) = match engines.len() {
            1 => {
                let metrics = &group.metrics;
                (table::metrics(&self.data, engines[0], &cases, metrics), &metrics[..])
            }
            _ => {
                let compared =
                    table::Compared { engines: &engines, baseline, cases: &cases, metric: first };
                (table::summary(&self.data, &compared, &self.palette), &group.metrics[1..])
            }
        };
        let planes = group.planes.iter().filter(|plane| cases.contains(&&plane.case[..]));
        let planes: Vec<Markup> = planes.filter_map(|plane| self.plane(plane, &engines)).collect();
        let mut plots: Vec<Markup> = match &group.across {
            Some(across) => group
                .metrics
                .iter()
                .flat_map(|metric| self.plots_across(metric, across, &engines))
                .collect(),
            None => rest.iter().flat_map(|metric| self.plots_of(metric, &cases)).collect(),
        };
        for case in &cases {
            plots.extend(self.series(case, Some(&group.series)));
        }
        Some(html! {
            section {
                div.lead {
                    h2 { (group.title) }
                    p.note {
                        (group.about)
                        @if engines.len() > 1 {
                            " " (metric_title(first, "").0) "; below each, how many times that of "
                            b { (baseline) } "."
                        }
                    }
                    (legend(&engines, &self.palette))
                }
                @if !planes.is_empty() { div.plots { @for plane in &planes { (plane) } } }
                @if let Some(table) = table { (table) }
                div.plots { @for plot in plots { (plot) } }
            }
        })
    }

    /// The engines of a case in a plane of two metrics.
    fn plane(&self, plane: &results::Plane, engines: &[&str]) -> Option<Markup> {
        let median = |engine: &str, metric: &str| {
            Some(self.data.spread(engine, &plane.case, metric)?.median)
        };
        let mut points = Vec::new();
        for &engine in engines {
            let numbers = median(engine, &plane.across).zip(median(engine, &plane.up));
            let Some((across, up)) = numbers else { continue };
            points.push(Point { class: self.palette.class(engine), engine, across, up });
        }
        let name = |metric: &str| metric_title(metric, "").0.to_lowercase();
        plane::plane(&plane::Plane {
            title: &plane.case,
            hint: &format!(
                "{} by {}; dashed: {}",
                name(&plane.up),
                name(&plane.across),
                plane.line.name
            ),
            across: &name(&plane.across),
            up: &name(&plane.up),
            points,
            line: &plane.line.points,
            line_name: &plane.line.name,
        })
    }

    /// A metric over the number that the cases differ in; by case if there is one alone.
    fn plots_across(&self, metric: &str, across: &Across, engines: &[&str]) -> Vec<Markup> {
        let points = |engine: &str| -> Vec<[f64; 2]> {
            let point = |place: &results::Place| {
                Some([place.at, self.data.spread(engine, &place.case, metric)?.median])
            };
            across.places.iter().filter_map(point).collect()
        };
        let found: Vec<(&str, Vec<[f64; 2]>)> =
            engines.iter().map(|&engine| (engine, points(engine))).collect();
        let lines = found.iter().filter(|(_, points)| !points.is_empty());
        let lines = lines
            .map(|(engine, points)| Line { class: self.palette.class(engine), engine, points })
            .collect();
        let (title, quantity) = metric_title(metric, self.data.unit(metric));
        let is_log = metric.contains("latency");
        let hint = match better(metric, quantity) {
            Some(Better::More) => "more is better",
            Some(Better::Less) => "less is better",
            None => "",
        };
        let plot = Lines { title: &title, hint, is_log, quantity, lines };
        if let Some(drawn) = over_times(&plot, &across.title) {
            return vec![drawn];
        }
        let cases: Vec<&str> = across.places.iter().map(|place| &place.case[..]).collect();
        self.plots_of(metric, &cases)
    }

    /// A metric of some cases, drawn as the page draws it elsewhere.
    fn plots_of(&self, metric: &str, cases: &[&str]) -> Vec<Markup> {
        let (title, quantity) = metric_title(metric, self.data.unit(metric));
        let axis = match metric.contains("latency") {
            true => Axis::Log,
            false => Axis::Linear,
        };
        let hint = match (quantity, better(metric, quantity)) {
            (Quantity::Rate, Some(Better::More)) => "ops/s, more is better",
            (_, Some(Better::More)) => "more is better",
            (_, Some(Better::Less)) => "less is better",
            (_, None) => "",
        };
        match metric {
            "write_amp" => self.write_amplification(cases),
            "table_write_amp" => self.write_amplification_of_tables(cases),
            "space_amp_peak" => self.space(cases),
            "table_space_amp_peak" => self.space_of_tables(cases),
            _ => self.metric(cases, &title, hint, metric, axis),
        }
    }
}

/// Which direction of a metric is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Better {
    More,
    Less,
}

/// Which direction is better, where that does not depend on what one wants.
fn better(metric: &str, quantity: Quantity) -> Option<Better> {
    const MORE: [&str; 7] = [
        "throughput",
        "bandwidth",
        "hit_ratio",
        "within_tenth",
        "rate_reached",
        "commits_per_sync",
        "found",
    ];
    const LESS: [&str; 17] = [
        "latency",
        "_amp",
        "stall",
        "loss",
        "error",
        "cpu",
        "added",
        "settle_seconds",
        "unstarted",
        "_per_get",
        "_per_hit",
        "_per_miss",
        "_per_commit",
        "distance",
        "resident",
        "descriptors",
        "disk_bytes",
    ];
    let is_any = |names: &[&str]| names.iter().any(|name| metric.contains(name));
    match quantity {
        _ if is_any(&LESS) => Some(Better::Less),
        _ if is_any(&MORE) => Some(Better::More),
        Quantity::Rate => Some(Better::More),
        Quantity::Micros | Quantity::Millis | Quantity::Seconds => Some(Better::Less),
        _ => None,
    }
}

fn introduction(published: &Published) -> (&str, &str) {
    (&published.source, &published.about)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_is_said_to_be_better_in_its_own_direction() {
        for (metric, unit, expected) in [
            ("throughput", "ops/s", Some(Better::More)),
            ("cache_hit_ratio", "share", Some(Better::More)),
            ("loss_percent", "share", Some(Better::Less)),
            ("predicted_reclaim_error", "share", Some(Better::Less)),
            ("pmem_writes", "share", None),
            ("table_reads_per_miss", "ratio", Some(Better::Less)),
            ("commits_per_sync", "ratio", Some(Better::More)),
            ("resident_peak_mib", "MiB", Some(Better::Less)),
            ("settle_seconds", "s", Some(Better::Less)),
        ] {
            assert_eq!(better(metric, Quantity::of(metric, unit)), expected, "{metric}");
        }
    }
}
