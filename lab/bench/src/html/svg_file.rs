//! A plot of the page as an SVG file by itself: with its title, the engines that its colours stand for, and
//! its style.

use super::page::STYLE;
use super::palette::Palette;
use super::plot::{Px, WIDTH};
use maud::{Markup, PreEscaped, html};

/// Space for the title above the drawing.
const TITLE_HEIGHT: f64 = 42.0;

/// Height of a row of engines below it.
const ROW_HEIGHT: f64 = 18.0;

/// Width of an engine's mark, and of a letter of its name on average.
const MARK_WIDTH: f64 = 36.0;
const LETTER_WIDTH: f64 = 6.6;

/// What the page says of a plot, and its drawing.
pub(super) struct Figure<'a> {
    pub(super) title: &'a str,
    pub(super) hint: &'a str,
    pub(super) height: f64,
    /// What is inside the page's `svg` element.
    pub(super) drawing: &'a str,
}

impl<'a> Figure<'a> {
    /// Finds the parts of a figure in the page's text. `None` if it has no drawing.
    pub(super) fn of(figure: &'a str) -> Option<Self> {
        let inner =
            |text: &'a str, from: &str, to: &str| Some(text.split_once(from)?.1.split_once(to)?.0);
        let svg = inner(figure, "<svg", "</svg>")?;
        let (attributes, drawing) = svg.split_once('>')?;
        let view = inner(attributes, "viewBox=\"", "\"")?;
        Some(Figure {
            title: inner(figure, "<strong>", "</strong>")?,
            hint: inner(figure, "<span>", "</span>").unwrap_or_default(),
            height: view.rsplit(' ').next()?.parse().ok()?,
            drawing,
        })
    }

    /// The file. `engines` are all those of the results.
    pub(super) fn file(&self, engines: &[&str], palette: &Palette) -> String {
        let shown = engines.iter().copied().filter(|engine| self.shows(palette.class(engine)));
        let (legend, rows) = legend(shown, palette, TITLE_HEIGHT + self.height);
        let height = TITLE_HEIGHT + self.height + rows + 6.0;
        let drawing = html! {
            svg xmlns="http://www.w3.org/2000/svg" width="720"
                viewBox={ "0 0 " (Px(WIDTH)) " " (Px(height)) } {
                // Text and colours on white paper, wherever the file is shown.
                style { (PreEscaped(style())) }
                rect width="100%" height="100%" fill="#ffffff" {}
                text.group x="0" y="16" { (PreEscaped(self.title)) }
                text.tick x="0" y="32" { (PreEscaped(self.hint)) }
                svg x="0" y=(Px(TITLE_HEIGHT)) width=(Px(WIDTH)) height=(Px(self.height)) overflow="visible" {
                    (PreEscaped(self.drawing))
                }
                (legend)
            }
        };
        drawing.into_string() + "\n"
    }

    /// Whether something of these classes is drawn.
    fn shows(&self, class: &str) -> bool {
        let attributes = self.drawing.split("class=\"").skip(1);
        let mut classes = attributes.filter_map(|rest| rest.split_once('"').map(|(all, _)| all));
        // Whole words: one engine's classes may begin another's.
        classes.any(|all| {
            let is_of_kind = |all: &str| all.split(' ').any(|word| word.starts_with("kind"));
            let words: Vec<_> = all.split(' ').collect();
            class.split(' ').all(|word| words.contains(&word))
                && is_of_kind(all) == is_of_kind(class)
        })
    }
}

/// The engines with their colours, in rows below `top`, and the height of those.
fn legend<'a>(
    engines: impl Iterator<Item = &'a str>,
    palette: &Palette,
    top: f64,
) -> (Markup, f64) {
    let (mut x, mut rows) = (0.0, 0.0);
    let mut places = Vec::new();
    for engine in engines {
        let width = MARK_WIDTH + LETTER_WIDTH * engine.chars().count() as f64 + 10.0;
        if rows == 0.0 || x + width > WIDTH {
            (x, rows) = (0.0, rows + ROW_HEIGHT);
        }
        places.push((engine, x, top + rows));
        x += width;
    }
    let markup = html! {
        @for (engine, x, y) in places {
            g.{ (palette.class(engine)) } transform={ "translate(" (Px(x)) " " (Px(y - 10.0)) ")" } {
                rect.bar x="0" y="1" width="10" height="10" rx="1.5" {}
                path.line d="M13 6H30" {}
                text x=(Px(MARK_WIDTH)) y="10" { (engine) }
            }
        }
    };
    (markup, rows)
}

/// The page's style without its rules for dark screens.
fn style() -> String {
    let dark = "@media screen and (prefers-color-scheme: dark) {";
    let light = match STYLE.split_once(dark) {
        Some((before, rest)) => {
            let after = rest.split_once("\n}\n").map_or("", |(_, after)| after);
            format!("{before}{after}")
        }
        None => STYLE.to_owned(),
    };
    format!("{light}\nsvg {{ font-family: system-ui, sans-serif; }}\n")
}
