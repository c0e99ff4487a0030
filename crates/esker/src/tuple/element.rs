//! A value inside a tuple, and the order of values.

use std::borrow::Cow;
use std::cmp::Ordering;

/// One value of a tuple. Values of different types are ordered as the variants are listed here.
#[derive(Clone, Debug)]
pub enum Element<'a> {
    /// Nothing. Before everything else.
    Null,
    /// `false` before `true`.
    Bool(bool),
    /// A whole number of any width, signed or not: all compare by value.
    Int(i128),
    /// A floating-point number in IEEE 754's total order, as [`f64::total_cmp`] has it: `-0.0` is
    /// before `0.0`, and NaNs lie beyond the infinities of their sign. Not comparable with whole
    /// numbers: every `Float` is after every `Int`.
    Float(f64),
    /// Bytes, compared as Esker compares keys.
    Bytes(Cow<'a, [u8]>),
    /// Text, compared by its UTF-8 bytes, which is by code point.
    Text(Cow<'a, str>),
    /// A tuple inside the tuple, compared element by element; a shorter one is before its extensions.
    Tuple(Vec<Element<'a>>),
}

impl Element<'_> {
    /// What to call the type in messages.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Element::Null => "null",
            Element::Bool(_) => "a bool",
            Element::Int(_) => "a whole number",
            Element::Float(_) => "a float",
            Element::Bytes(_) => "bytes",
            Element::Text(_) => "text",
            Element::Tuple(_) => "a tuple",
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Element::Null => 0,
            Element::Bool(_) => 1,
            Element::Int(_) => 2,
            Element::Float(_) => 3,
            Element::Bytes(_) => 4,
            Element::Text(_) => 5,
            Element::Tuple(_) => 6,
        }
    }
}

impl Ord for Element<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Element::Bool(a), Element::Bool(b)) => a.cmp(b),
            (Element::Int(a), Element::Int(b)) => a.cmp(b),
            (Element::Float(a), Element::Float(b)) => a.total_cmp(b),
            (Element::Bytes(a), Element::Bytes(b)) => a.cmp(b),
            (Element::Text(a), Element::Text(b)) => a.cmp(b),
            (Element::Tuple(a), Element::Tuple(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element<'_> {}
