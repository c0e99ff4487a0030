//! Results as a page to read: one file with its plots and its style inside, that needs no network
//! and no script.
//!
//! `data` sorts the results; `page` is the heading and the order of the parts, `sections` says
//! which plots there are, `groups` what an experiment wants shown instead, `table` makes the tables. A plot is a drawing of fixed width (`plot`)
//! made of `bars`, `lines` or points of a `plane` on `scale`s with an `axis`. Text is escaped by the template
//! macro wherever it comes from. Colours are classes, by the `palette`, and `style.css` has them
//! for light and for dark.

mod axis;
mod bars;
mod data;
mod groups;
mod lines;
mod number;
mod page;
mod palette;
mod plane;
mod plot;
mod scale;
mod sections;
mod table;

use crate::results::Results;

/// The page's usual name, beside [`FILE_NAME`](crate::results::FILE_NAME).
pub const FILE_NAME: &str = "report.html";

/// The page of `results`, its engines compared with the first one.
pub fn page(results: &Results) -> String {
    let first = results.engines().first().copied().unwrap_or_default();
    page_against(results, first)
}

/// The page of `results`, its engines compared with `baseline`, one of them.
pub fn page_against(results: &Results, baseline: &str) -> String {
    page::render(results, baseline).into_string()
}

#[cfg(test)]
mod tests;
