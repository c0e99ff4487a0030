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

/// The plots of the page of `results`, each as an SVG file by itself with a name for it.
pub fn plots(results: &Results) -> Vec<(String, String)> {
    let page = page(results);
    let mut plots = Vec::new();
    for (at, figure) in page.split("<figure class=\"plot\">").skip(1).enumerate() {
        let inner = |from: &str, to: &str| Some(figure.split_once(from)?.1.split_once(to)?.0);
        let Some((title, drawing)) = inner("<strong>", "</strong>").zip(inner("<svg", "</svg>"))
        else {
            continue;
        };
        let words = title.split(|letter: char| !letter.is_ascii_alphanumeric());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        let name = format!("{:03}-{}.svg", at + 1, words.join("-").to_lowercase());
        // The style is for the page's root, which a file by itself has in its only element.
        let style = page::STYLE.replace("]]>", "");
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\"{drawing}\
             <style><![CDATA[{style}]]></style></svg>\n"
        );
        plots.push((name, svg));
    }
    plots
}

#[cfg(test)]
mod tests;
