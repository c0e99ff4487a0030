//! Cases that belong together, and figures that somebody published: what turns a list of cases into
//! an account of an experiment.

use serde::{Deserialize, Serialize};

/// Cases that are to be looked at side by side.
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
}

/// Ratios that somebody published, and what here is to be laid beside them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Published {
    /// Where they stand.
    pub source: String,
    /// What was compared there, and what is different here.
    pub about: String,
    /// What the published column is called.
    pub column: String,
    /// The columns of what was measured here.
    pub comparisons: Vec<Comparison>,
    /// The published numbers.
    pub rows: Vec<PublishedRow>,
}

/// One engine beside another.
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
