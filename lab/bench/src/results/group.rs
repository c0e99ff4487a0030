//! Cases that belong together, and figures that others published: what turns a list of cases into
//! an account of an experiment.

use serde::{Deserialize, Serialize};

/// Cases that are to be inspected side by side.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Group {
    /// What it is about.
    pub title: String,
    /// What to know of it.
    pub about: String,
    /// Its cases, in their order.
    pub cases: Vec<String>,
    /// What is shown of them. The first metric is what engines are compared by.
    pub metrics: Vec<String>,
    /// What is shown over time.
    pub series: Vec<String>,
    /// One metric against another, each in a case.
    #[serde(default)]
    pub planes: Vec<Plane>,
    /// A number that the cases differ in: the metrics are drawn over it.
    #[serde(default)]
    pub across: Option<Across>,
}

/// A number that cases differ in, such as the size of a store.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Across {
    /// What it is.
    pub title: String,
    /// The cases, each with its number.
    pub places: Vec<Place>,
}

/// A case, and where it is on an axis.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Place {
    /// The case.
    pub case: String,
    /// Its number: above zero, because the axis is logarithmic.
    pub at: f64,
}

/// Two metrics that are had one for the other, of which less is better: each engine is a point.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Plane {
    /// The case.
    pub case: String,
    /// The metric across: a ratio, of which what is above 1 counts.
    pub across: String,
    /// The metric upwards.
    pub up: String,
    /// What no engine is expected below or left of.
    pub line: Line,
}

/// A line in a plane.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Line {
    /// What it is.
    pub name: String,
    /// Across and upwards, from left to right.
    pub points: Vec<[f64; 2]>,
}

/// Figures that others published, and what here is to be compared with them: ratios of an engine to
/// another, or figures by themselves.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Published {
    /// Where they are.
    pub source: String,
    /// What was compared there, and what is different here.
    pub about: String,
    /// What the published column is called.
    pub column: String,
    /// The columns of what was measured here.
    pub comparisons: Vec<Comparison>,
    /// The published numbers.
    pub rows: Vec<PublishedRow>,
    /// Figures that are no ratios.
    #[serde(default)]
    pub figures: Vec<Figure>,
}

/// A figure that others published of a system, and the engine that stands for it here.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Figure {
    /// The system there.
    pub system: String,
    /// What is said of it, in words where it was read off a plot.
    pub words: String,
    /// The engine here.
    pub engine: String,
    /// The case here.
    pub case: String,
    /// The metric here.
    pub metric: String,
}

/// One engine compared with another.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Comparison {
    /// What the column is called.
    pub title: String,
    /// The engine.
    pub engine: String,
    /// What it is compared with.
    pub baseline: String,
    /// In which metric.
    pub metric: String,
}

/// One published ratio.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PublishedRow {
    /// What was done.
    pub name: String,
    /// How many times the baseline's.
    pub ratio: f64,
    /// The same here: a case for each of the comparisons.
    pub cases: Vec<String>,
}

impl Group {
    /// Every place where a case is named.
    pub(super) fn case_names(&mut self) -> impl Iterator<Item = &mut String> {
        let of_planes = self.planes.iter_mut().map(|plane| &mut plane.case);
        let places = self.across.iter_mut().flat_map(|across| &mut across.places);
        self.cases.iter_mut().chain(of_planes).chain(places.map(|place| &mut place.case))
    }
}

impl Published {
    /// Every place where a case is named.
    pub(super) fn case_names(&mut self) -> impl Iterator<Item = &mut String> {
        let of_rows = self.rows.iter_mut().flat_map(|row| &mut row.cases);
        of_rows.chain(self.figures.iter_mut().map(|figure| &mut figure.case))
    }
}
