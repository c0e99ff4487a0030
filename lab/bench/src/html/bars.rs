//! Bars by group and engine, lying, with whiskers from the least to the most of the rounds.
//!
//! On a linear axis a bar grows from zero and may have parts. A logarithmic axis has no zero to grow
//! from: there the number is a dot, on a faint line from the axis's start or from `origin`.

use super::axis;
use super::number::Quantity;
use super::plot::{Caption, Px, figure};
use super::scale::Scale;
use maud::{Markup, html};

/// A plot of bars.
pub(super) struct Bars<'a> {
    pub(super) title: &'a str,
    pub(super) hint: &'a str,
    pub(super) quantity: Quantity,
    pub(super) axis: Axis,
    /// What the bars are called where they are close: thin and with no numbers next to them.
    pub(super) is_dense: bool,
    pub(super) groups: Vec<Group>,
}

/// How numbers become lengths.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Axis {
    /// From zero.
    Linear,
    /// Every step ten times more.
    Log,
    /// Likewise, from this number to both sides.
    LogAround(f64),
}

/// The bars of one case.
pub(super) struct Group {
    pub(super) name: String,
    pub(super) bars: Vec<Bar>,
}

/// One engine's number in one case.
pub(super) struct Bar {
    /// Its colour.
    pub(super) class: String,
    /// What is before the bar, if colours are not enough.
    pub(super) name: Option<String>,
    /// Whose number it is and what it says, in words.
    pub(super) description: String,
    /// Lengths, one after the other from the axis's start; one if the number has no parts.
    pub(super) parts: Vec<f64>,
    /// From the least to the most.
    pub(super) whisker: (f64, f64),
    /// The number as it is next to the bar.
    pub(super) text: String,
}

impl Bar {
    fn length(&self) -> f64 {
        self.parts.iter().sum()
    }
}

/// Bars in one drawing, so that it fits on a printed page.
const MOST_BARS: usize = 40;

/// Measures of a drawing.
struct Measures {
    /// A bar with the gap to the next.
    lane: f64,
    bar: f64,
    /// The name of a group, above its bars.
    heading: f64,
    /// Between groups.
    gap: f64,
    left: f64,
    right: f64,
}

const ROOMY: Measures =
    Measures { lane: 15.0, bar: 11.0, heading: 17.0, gap: 9.0, left: 6.0, right: 288.0 };
const NAMED: Measures =
    Measures { lane: 15.0, bar: 11.0, heading: 17.0, gap: 9.0, left: 124.0, right: 310.0 };
const DENSE: Measures =
    Measures { lane: 8.0, bar: 6.0, heading: 0.0, gap: 9.0, left: 84.0, right: 340.0 };

/// One figure, or several on the same scale if the bars are too many for one; none of no bars.
pub(super) fn bars(plot: &Bars<'_>) -> Vec<Markup> {
    let all = || plot.groups.iter().flat_map(|group| &group.bars);
    let m = match plot.is_dense {
        true => &DENSE,
        false if all().any(|bar| bar.name.is_some()) => &NAMED,
        false => &ROOMY,
    };
    if all().next().is_none() {
        return Vec::new();
    }
    let ends = || all().flat_map(|bar| [bar.length(), bar.whisker.0, bar.whisker.1]);
    let positive = || ends().filter(|end| end.is_finite() && *end > 0.0);
    let least = positive().fold(f64::INFINITY, f64::min);
    let most = positive().fold(0.0, f64::max);
    // What is below the origin has its number to the left.
    let range = match plot.axis {
        Axis::LogAround(_) => (m.left + 50.0, m.right),
        _ => (m.left, m.right),
    };
    let scale = match plot.axis {
        Axis::Linear => Scale::linear(most, plot.quantity.unit(most).0, range),
        Axis::Log => Scale::log(least, most, range),
        Axis::LogAround(origin) => Scale::log(least.min(origin), most.max(origin), range),
    };
    let sheets = sheets(&plot.groups);
    let count = sheets.len();
    let sheet = |(at, groups): (usize, &[Group])| {
        let part = if count > 1 { format!(" ({} of {count})", at + 1) } else { String::new() };
        draw(plot, &part, groups, &scale, m)
    };
    sheets.into_iter().enumerate().map(sheet).collect()
}

/// The groups that have bars, cut into drawings of similar height.
fn sheets(groups: &[Group]) -> Vec<&[Group]> {
    let total: usize = groups.iter().map(|group| group.bars.len() + 1).sum();
    let count = total.div_ceil(MOST_BARS).max(1);
    groups.chunks(groups.len().div_ceil(count).max(1)).collect()
}

fn draw(plot: &Bars<'_>, part: &str, groups: &[Group], scale: &Scale, m: &Measures) -> Markup {
    let groups = || groups.iter().filter(|group| !group.bars.is_empty());
    let height_of = |group: &Group| m.heading + m.lane * group.bars.len() as f64 + m.gap;
    let bottom: f64 = groups().map(height_of).sum::<f64>() + 2.0;
    let mut top = 0.0;
    let mut placed = Vec::new();
    for group in groups() {
        placed.push((top, group));
        top += height_of(group);
    }
    let title = format!("{}{part}", plot.title);
    let label = format!("{title}, by case and engine; {}", plot.hint);
    let caption = Caption { title: &title, hint: plot.hint, label };
    let name = match plot.quantity.axis_title() {
        "" => plot.title,
        name => name,
    };
    let axis_title = match plot.axis {
        Axis::Linear => name.to_owned(),
        Axis::Log | Axis::LogAround(_) => format!("{name}, logarithmic"),
    };
    let drawing = html! {
        (axis::below(scale, plot.quantity, 2.0, bottom))
        (axis::title_below(&axis_title, (m.left, m.right), bottom))
        @if let Axis::LogAround(origin) = plot.axis {
            path.base d={ "M" (Px(scale.at(origin))) " 2V" (Px(bottom)) } {}
        }
        @for (top, group) in placed {
            @if plot.is_dense {
                @let middle = top + m.gap / 2.0 + m.lane * group.bars.len() as f64 / 2.0;
                text.group x=(Px(m.left - 8.0)) y=(Px(middle + 4.0)) text-anchor="end" {
                    (group.name)
                }
            } @else {
                text.group x="0" y=(Px(top + m.gap / 2.0 + 12.0)) { (group.name) }
            }
            @for (at, bar) in group.bars.iter().enumerate() {
                @let y = top + m.gap / 2.0 + m.heading + m.lane * at as f64;
                (draw_bar(plot, bar, scale, y, m))
            }
        }
    };
    figure(&caption, bottom + axis::HEIGHT, drawing)
}

fn draw_bar(plot: &Bars<'_>, bar: &Bar, scale: &Scale, y: f64, m: &Measures) -> Markup {
    let middle = y + m.lane / 2.0;
    let (least, most) = bar.whisker;
    let end = scale.at(bar.length());
    html! {
        g.{ (bar.class) } {
            title { (bar.description) }
            @if let Some(name) = bar.name.as_ref().filter(|_| !plot.is_dense) {
                text.tick x=(Px(m.left - 6.0)) y=(Px(middle + 4.0)) text-anchor="end" { (name) }
            }
            @if plot.axis == Axis::Linear {
                @for (at, (from, to)) in stacked(&bar.parts).enumerate().filter(is_visible) {
                    @let (from, to) = (scale.at(from), scale.at(to));
                    rect.{ "bar part" (at) } x=(Px(from)) y=(Px(middle - m.bar / 2.0))
                        width=(Px((to - from).max(0.1))) height=(Px(m.bar)) {}
                }
            } @else {
                @let origin = if let Axis::LogAround(origin) = plot.axis { scale.at(origin) }
                    else { scale.start() };
                path.stem d={ "M" (Px(origin)) " " (Px(middle)) "H" (Px(end)) } {}
            }
            @if most > least {
                (whisker(scale.at(least), scale.at(most), middle, m.bar / 3.6))
            }
            @if plot.axis != Axis::Linear {
                circle.bar cx=(Px(end)) cy=(Px(middle)) r=(Px(m.bar / 2.75)) {}
            }
            @if !plot.is_dense { (number(plot.axis, bar, scale, middle + 4.0)) }
        }
    }
}

/// The number in figures, beyond the bar and its whisker.
fn number(axis: Axis, bar: &Bar, scale: &Scale, y: f64) -> Markup {
    let (least, most) = bar.whisker;
    let is_left = matches!(axis, Axis::LogAround(origin) if bar.length() < origin);
    let end = scale.at(bar.length());
    let (x, anchor) = match is_left {
        true => (end.min(scale.at(least)) - 7.0, "end"),
        false => (end.max(scale.at(most)) + 7.0, "start"),
    };
    html! { text.value x=(Px(x)) y=(Px(y)) text-anchor=(anchor) { (bar.text) } }
}

fn whisker(from: f64, to: f64, y: f64, half: f64) -> Markup {
    let (up, down) = (Px(y - half), Px(y + half));
    let (from, to) = (Px(from), Px(to));
    html! {
        path.whisker d={ "M" (from) " " (up) "V" (down) "M" (to) " " (up) "V" (down)
            "M" (from) " " (Px(y)) "H" (to) } {}
    }
}

fn is_visible((_, (from, to)): &(usize, (f64, f64))) -> bool {
    to > from
}

/// Where each part starts and ends.
fn stacked(parts: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    parts.iter().scan(0.0, |at, part| {
        let from = *at;
        *at += part;
        Some((from, *at))
    })
}
