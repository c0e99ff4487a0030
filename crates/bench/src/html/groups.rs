//! The parts of the page that an experiment asks for: its groups of cases, and published figures
//! beside what was measured.

use super::bars::Axis;
use super::number::Quantity;
use super::plot::{legend, metric_title};
use super::sections::Page;
use super::table;
use crate::results::{Group, Published};
use maud::{Markup, html};

impl Page<'_> {
    /// Every group that has something to show.
    pub(super) fn groups(&self) -> Markup {
        let groups = &self.data.results.groups;
        html! { @for group in groups { @if let Some(shown) = self.group(group) { (shown) } } }
    }

    /// What others published, beside this.
    pub(super) fn published(&self) -> Markup {
        let all = &self.data.results.published;
        html! {
            @if !all.is_empty() {
                section {
                    h2 { "Beside what was published" }
                    @for published in all { (self.beside(published)) }
                }
            }
        }
    }

    fn beside(&self, published: &Published) -> Markup {
        html! {
            div.lead { p.note { (published.source) ". " (published.about) } }
            (table::published(&self.data, published))
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
        let mut plots: Vec<Markup> =
            rest.iter().flat_map(|metric| self.plots_of(metric, &cases)).collect();
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
                @if let Some(table) = table { (table) }
                div.plots { @for plot in plots { (plot) } }
            }
        })
    }

    /// A metric of some cases, drawn as the page draws it elsewhere.
    fn plots_of(&self, metric: &str, cases: &[&str]) -> Vec<Markup> {
        let known = self.data.metrics.iter().find(|(name, _)| *name == metric);
        let unit = known.map_or("", |(_, unit)| unit);
        let (title, quantity) = metric_title(metric, unit);
        let axis = match metric.contains("latency") {
            true => Axis::Log,
            false => Axis::Linear,
        };
        let hint = match quantity {
            Quantity::Rate => "ops/s, more is better",
            Quantity::Share => "more is better",
            Quantity::Micros | Quantity::Millis | Quantity::Seconds => "less is better",
            _ => "",
        };
        match metric {
            "write_amp" => self.write_amplification(cases),
            "space_amp_peak" => self.space(cases),
            _ => self.metric(cases, &title, hint, metric, axis),
        }
    }
}
