//! Results as a page to read: one file with its plots and its style inside, that needs no network
//! and no script.
//!
//! `data` sorts the results; `page` is the heading and the order of the parts, `sections` says
//! which plots there are, `groups` what an experiment wants shown instead, `table` makes the tables, `svg_file` files of single plots. A plot is a drawing of fixed width (`plot`)
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
mod svg_file;
mod table;

use crate::results::Results;

/// The page's usual name, in addition to [`FILE_NAME`](crate::results::FILE_NAME).
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

/// The plots of the page of `results`, each as an SVG file by itself with a name for it.
pub fn plots(results: &Results) -> Vec<(String, String)> {
    let page = page(results);
    let engines = results.engines();
    let palette = palette::Palette::new(&engines);
    let mut plots = Vec::new();
    for (at, figure) in page.split("<figure class=\"plot\">").skip(1).enumerate() {
        let Some(figure) = svg_file::Figure::of(figure) else { continue };
        let words = figure.title.split(|letter: char| !letter.is_ascii_alphanumeric());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        let name = format!("{:03}-{}.svg", at + 1, words.join("-").to_lowercase());
        plots.push((name, figure.file(&engines, &palette)));
    }
    plots
}

#[cfg(test)]
mod tests;
