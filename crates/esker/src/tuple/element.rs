//! The values of tuples and their order.

use std::borrow::Cow;
use std::cmp::Ordering;

/// One value of a tuple. Values of different types sort in the order of the variants.
#[derive(Clone, Debug)]
pub enum Element<'a> {
    /// No value. Sorts before everything else.
    Null,
    /// A boolean; `false` sorts before `true`.
    Bool(bool),
    /// A signed or unsigned integer of any width, sorted by value.
    Int(i128),
    /// A floating-point number, sorted as [`f64::total_cmp`] does.
    ///
    /// `-0.0` sorts before `0.0`, and NaNs sort beyond the infinities of their sign. Every `Float`
    /// sorts after every `Int`, whatever their values.
    Float(f64),
    /// Bytes, sorted as Esker sorts keys.
    Bytes(Cow<'a, [u8]>),
    /// Text, sorted by its UTF-8 bytes, which is the order of code points.
    Text(Cow<'a, str>),
    /// A nested tuple, sorted element by element. A tuple sorts before its extensions.
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
