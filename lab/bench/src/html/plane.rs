//! Engines as points in a plane of two costs, each with its name, and the line that none is expected
//! beyond. Towards the lower left everything is better.
//!
//! Both axes are logarithmic, so that equal distances are equal factors; across, what is more than
//! once the live data counts, which is where engines differ.
//!
//! Names are put where they hide neither a point nor each other, near their points if there is space,
//! else farther away with a line to them.

use super::axis;
use super::number::{Quantity, digits};
use super::plot::{Caption, Px, WIDTH, figure};
use super::scale::Scale;
use maud::{Markup, html};

/// A plot of points.
pub(super) struct Plane<'a> {
    pub(super) title: &'a str,
    pub(super) hint: &'a str,
    /// What the axes are.
    pub(super) across: &'a str,
    pub(super) up: &'a str,
    pub(super) points: Vec<Point<'a>>,
    /// The line, from left to right.
    pub(super) line: &'a [[f64; 2]],
    /// What the line is.
    pub(super) line_name: &'a str,
}

/// One engine.
pub(super) struct Point<'a> {
    /// Its colour.
    pub(super) class: &'a str,
    pub(super) engine: &'a str,
    pub(super) across: f64,
    pub(super) up: f64,
}

const HEIGHT: f64 = 350.0 + axis::HEIGHT;
const TOP: f64 = 8.0;
const BOTTOM: f64 = HEIGHT - axis::HEIGHT;
const LEFT: f64 = 52.0;
const RIGHT: f64 = WIDTH - 6.0;
/// The axis across begins here at the latest, so that planes compare.
const LITTLE_SPACE: f64 = 1.1;
const RADIUS: f64 = 4.0;
/// Of a letter, about.
const LETTER: f64 = 6.0;
const LINE_HEIGHT: f64 = 12.0;

/// The figure, or `None` if no point can be shown.
pub(super) fn plane(plot: &Plane<'_>) -> Option<Markup> {
    let is_usable = |point: &&Point<'_>| {
        point.across.is_finite() && point.up.is_finite() && point.up > 0.0 && point.across > 0.0
    };
    let points: Vec<&Point<'_>> = plot.points.iter().filter(is_usable).collect();
    let least = |of: fn(&Point<'_>) -> f64| points.iter().map(|point| of(point)).reduce(f64::min);
    let most = |of: fn(&Point<'_>) -> f64| points.iter().map(|point| of(point)).reduce(f64::max);
    let across = (least(|point| point.across)?, most(|point| point.across)?);
    let up = (least(|point| point.up)?, most(|point| point.up)?);
    let x = Scale::above_one(across.0.min(LITTLE_SPACE), across.1, (LEFT, RIGHT));
    let y = Scale::log(up.0, up.1, (BOTTOM, TOP));
    let places: Vec<(f64, f64)> =
        points.iter().map(|point| (x.at(point.across), y.at(point.up))).collect();
    let names: Vec<&str> = points.iter().map(|point| short_name(point.engine)).collect();
    let labels = arranged(&places, &names);
    let drawing = html! {
        (axis::below(&x, Quantity::Ratio, TOP, BOTTOM))
        (axis::beside(&y, Quantity::Ratio, LEFT, RIGHT))
        (axis::title_below(&format!("{}, logarithmic", plot.across), (LEFT, RIGHT), BOTTOM))
        (axis::title_beside(&format!("{}, logarithmic", plot.up), (TOP, BOTTOM)))
        @let path = line_path(plot.line, &x, &y);
        @if !path.is_empty() {
            path.limit d=(path) { title { (plot.line_name) } }
        }
        @for ((point, place), (name, label)) in points.iter().zip(&places).zip(names.iter().zip(&labels)) {
            g.{ (point.class) } {
                title {
                    (point.engine) ": " (digits(point.up)) "× written, " (digits(point.across)) "× space"
                }
                @if label.is_far {
                    path.stem d={ "M" (Px(place.0)) " " (Px(place.1)) "L" (Px(label.end.0)) " " (Px(label.end.1)) } {}
                }
                circle.bar cx=(Px(place.0)) cy=(Px(place.1)) r=(Px(RADIUS)) {}
                text.value x=(Px(label.at.0)) y=(Px(label.at.1)) { (name) }
            }
        }
    };
    let label = format!("{}, by engine; {}", plot.title, plot.hint);
    Some(figure(&Caption { title: plot.title, hint: plot.hint, label }, HEIGHT, drawing))
}

/// The line where it is within both axes: beyond them it would run along the plot's edge.
fn line_path(line: &[[f64; 2]], x: &Scale, y: &Scale) -> String {
    let mut path = String::new();
    let mut is_down = false;
    for &[across, up] in line {
        let is_within = x.spans(across) && y.spans(up);
        if is_within {
            let command = if is_down { 'L' } else { 'M' };
            path.push_str(&format!("{command}{} {}", Px(x.at(across)), Px(y.at(up))));
        }
        is_down = is_within;
    }
    path
}

/// Colours show which engines are Esker's.
fn short_name(engine: &str) -> &str {
    engine.strip_prefix("esker-").unwrap_or(engine)
}

/// Where a name is.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Label {
    /// The left end of its base line.
    at: (f64, f64),
    /// Whether it needs a line to its point.
    is_far: bool,
    /// Where that line ends.
    end: (f64, f64),
}

/// What something covers: left, top, right, bottom.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Cover([f64; 4]);

impl Cover {
    fn of_point((x, y): (f64, f64)) -> Cover {
        let reach = RADIUS + 1.0;
        Cover([x - reach, y - reach, x + reach, y + reach])
    }

    fn meets(self, Cover(other): Cover) -> bool {
        let Cover(own) = self;
        own[0] < other[2] && other[0] < own[2] && own[1] < other[3] && other[1] < own[3]
    }

    fn is_within_plot(self) -> bool {
        let Cover([left, top, right, bottom]) = self;
        left >= LEFT && top >= TOP && right <= WIDTH && bottom <= BOTTOM
    }
}

/// A place for each name, in the order of the points.
fn arranged(points: &[(f64, f64)], names: &[&str]) -> Vec<Label> {
    let mut taken: Vec<Cover> = points.iter().map(|&point| Cover::of_point(point)).collect();
    let place = |(&point, name): (&(f64, f64), &&str)| {
        let width = LETTER * name.chars().count() as f64;
        let candidates = candidates(point, width);
        let is_free = |(cover, _): &&(Cover, Label)| {
            cover.is_within_plot() && !taken.iter().any(|other| cover.meets(*other))
        };
        // Where all is crowded, names overlap: then the list of all numbers is left.
        let (cover, label) = *candidates.iter().find(is_free).unwrap_or(&candidates[0]);
        taken.push(cover);
        label
    };
    points.iter().zip(names).map(place).collect()
}

/// Places for a name next to its point, the best first.
fn candidates((x, y): (f64, f64), width: f64) -> Vec<(Cover, Label)> {
    let gap = RADIUS + 3.0;
    let sides = [x + gap, x - gap - width, x - width / 2.0];
    let mut found = Vec::new();
    for step in 0..12 {
        let shift = f64::from(step) * LINE_HEIGHT;
        for middle in [y - shift, y + shift] {
            for (side, left) in sides.into_iter().enumerate() {
                // Straight above or below there must be room for the point itself.
                if side == 2 && step == 0 {
                    continue;
                }
                let top = middle - LINE_HEIGHT / 2.0;
                let cover = Cover([left, top, left + width, top + LINE_HEIGHT]);
                let is_above = middle < y;
                let end_x = x.clamp(left, left + width);
                let end_y = if is_above { top + LINE_HEIGHT } else { top };
                let at = (left, middle + 4.0);
                found.push((cover, Label { at, is_far: step > 1, end: (end_x, end_y) }));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(points: &[(&'static str, f64, f64)], line: &[[f64; 2]]) -> Option<String> {
        let point = |&(engine, across, up)| Point { class: "esker shade0", engine, across, up };
        let points = points.iter().map(point).collect();
        let plot = Plane {
            title: "T",
            hint: "h",
            across: "x",
            up: "y",
            points,
            line,
            line_name: "the limit",
        };
        plane(&plot).map(Markup::into_string)
    }

    #[test]
    fn every_engine_is_a_point_with_its_name() {
        let drawn = drawn(&[("esker-tiered", 3.0, 4.0), ("fjall", 1.4, 9.0)], &[]).unwrap();
        assert_eq!(drawn.matches("<circle").count(), 2);
        assert!(drawn.contains(">tiered</text>") && drawn.contains(">fjall</text>"));
        assert!(drawn.contains("esker-tiered: 4.00× written, 3.00× space"), "{drawn}");
    }

    #[test]
    fn names_hide_neither_points_nor_each_other() {
        let points: Vec<(f64, f64)> =
            (0..12).map(|n| (150.0 + f64::from(n % 4), 150.0 + 3.0 * f64::from(n))).collect();
        let names = ["perlevel-1.2"; 12];
        let width = LETTER * 12.0;
        let cover = |label: &Label| {
            let top = label.at.1 - 4.0 - LINE_HEIGHT / 2.0;
            Cover([label.at.0, top, label.at.0 + width, top + LINE_HEIGHT])
        };
        let mut covers: Vec<Cover> = arranged(&points, &names).iter().map(cover).collect();
        covers.extend(points.iter().map(|&point| Cover::of_point(point)));
        for (at, one) in covers.iter().enumerate().take(12) {
            assert!(one.is_within_plot());
            let others = covers.iter().enumerate().filter(|(other, _)| *other != at);
            assert!(others.into_iter().all(|(_, other)| !one.meets(*other)), "{one:?}");
        }
    }

    #[test]
    fn the_line_ends_where_the_axes_do() {
        let line = [[1.0001, 90.0], [1.2, 5.0], [1.5, 3.0], [900.0, 2.0]];
        let drawn = drawn(&[("a", 1.1, 2.0), ("b", 2.0, 9.0)], &line).unwrap();
        let path = drawn.split("class=\"limit\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (1, 1), "{path}");
    }

    #[test]
    fn what_is_no_number_is_no_point() {
        assert_eq!(drawn(&[("a", f64::NAN, 1.0), ("b", 1.0, 0.0)], &[]), None);
        let one = drawn(&[("a", 0.97, 1.0), ("b", f64::INFINITY, 1.0)], &[]).unwrap();
        assert_eq!(one.matches("<circle").count(), 1);
    }
}
