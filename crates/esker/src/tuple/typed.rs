//! Converts Rust values and tuples to elements and back.

use super::{DecodeError, Element, decode_elements, encode_elements};
use std::borrow::Cow;

/// A value that can be an element of a tuple.
pub trait ToElement {
    /// Returns the value as an element.
    fn to_element(&self) -> Element<'_>;
}

/// A value that can be decoded from an element.
pub trait FromElement: Sized {
    /// Returns the value of `element`.
    ///
    /// # Errors
    /// The expected type, as text, if the element has another type or is out of range.
    fn from_element(element: Element<'_>) -> Result<Self, &'static str>;
}

/// A tuple of [`ToElement`] values: Rust tuples of 1 to 8, slices and vectors of [`Element`]s.
pub trait ToTuple {
    /// Returns the elements, in order.
    fn to_elements(&self) -> Vec<Element<'_>>;
}

/// A tuple of [`FromElement`] values: Rust tuples of 1 to 8.
pub trait FromTuple: Sized {
    /// Returns the tuple of exactly these elements.
    fn from_elements(elements: Vec<Element<'_>>) -> Result<Self, DecodeError>;
}

/// Returns the key that encodes `tuple`.
///
/// # Panics
/// If tuples nest deeper than 32 levels.
///
/// # Examples
///
/// ```
/// use esker::tuple::encode;
///
/// assert!(encode(&("a", 2)) < encode(&("a", 10)));
/// assert!(encode(&("a", 10)) < encode(&("b", 1)));
/// assert!(encode(&(-1.5, "x")) < encode(&(0.25, "a")));
/// ```
pub fn encode(tuple: &(impl ToTuple + ?Sized)) -> Vec<u8> {
    let mut key = Vec::with_capacity(32);
    encode_elements(&tuple.to_elements(), &mut key);
    key
}

/// Returns the tuple that `key` encodes.
///
/// # Errors
/// [`DecodeError`] if `key` is not an encoded tuple, or has another number of elements or other
/// types.
///
/// # Examples
///
/// ```
/// use esker::tuple::{decode, encode};
///
/// let key = encode(&("sensor", Some(7u32), true));
/// let (kind, number, on): (String, Option<u32>, bool) = decode(&key)?;
/// assert_eq!((kind.as_str(), number, on), ("sensor", Some(7), true));
///
/// assert!(decode::<(String, u8)>(&key).is_err());
/// # Ok::<(), esker::tuple::DecodeError>(())
/// ```
pub fn decode<T: FromTuple>(key: &[u8]) -> Result<T, DecodeError> {
    T::from_elements(decode_elements(key)?)
}

/// Bytes as one element, as opposed to a vector of elements.
///
/// # Examples
///
/// ```
/// use esker::tuple::{Bytes, decode, encode};
///
/// let key = encode(&("digest", Bytes(vec![0, 1, 255])));
/// let (_, digest): (String, Bytes) = decode(&key)?;
/// assert_eq!(digest.0, [0, 1, 255]);
/// # Ok::<(), esker::tuple::DecodeError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(pub Vec<u8>);

impl ToElement for Bytes {
    fn to_element(&self) -> Element<'_> {
        Element::Bytes(Cow::Borrowed(&self.0))
    }
}

impl FromElement for Bytes {
    fn from_element(element: Element<'_>) -> Result<Self, &'static str> {
        match element {
            Element::Bytes(bytes) => Ok(Bytes(bytes.into_owned())),
            _ => Err("bytes"),
        }
    }
}

impl ToElement for [u8] {
    fn to_element(&self) -> Element<'_> {
        Element::Bytes(Cow::Borrowed(self))
    }
}

impl ToElement for str {
    fn to_element(&self) -> Element<'_> {
        Element::Text(Cow::Borrowed(self))
    }
}

impl ToElement for String {
    fn to_element(&self) -> Element<'_> {
        self.as_str().to_element()
    }
}

impl FromElement for String {
    fn from_element(element: Element<'_>) -> Result<Self, &'static str> {
        match element {
            Element::Text(text) => Ok(text.into_owned()),
            _ => Err("text"),
        }
    }
}

impl ToElement for bool {
    fn to_element(&self) -> Element<'_> {
        Element::Bool(*self)
    }
}

impl FromElement for bool {
    fn from_element(element: Element<'_>) -> Result<Self, &'static str> {
        match element {
            Element::Bool(value) => Ok(value),
            _ => Err("a bool"),
        }
    }
}

impl ToElement for f64 {
    fn to_element(&self) -> Element<'_> {
        Element::Float(*self)
    }
}

impl FromElement for f64 {
    fn from_element(element: Element<'_>) -> Result<Self, &'static str> {
        match element {
            Element::Float(value) => Ok(value),
            _ => Err("a float"),
        }
    }
}

impl<T: ToElement> ToElement for Option<T> {
    fn to_element(&self) -> Element<'_> {
        self.as_ref().map_or(Element::Null, T::to_element)
    }
}

impl<T: FromElement> FromElement for Option<T> {
    fn from_element(element: Element<'_>) -> Result<Self, &'static str> {
        match element {
            Element::Null => Ok(None),
            element => T::from_element(element).map(Some),
        }
    }
}

impl<T: ToElement + ?Sized> ToElement for &T {
    fn to_element(&self) -> Element<'_> {
        (**self).to_element()
    }
}

impl ToTuple for [Element<'_>] {
    fn to_elements(&self) -> Vec<Element<'_>> {
        self.to_vec()
    }
}

impl ToTuple for Vec<Element<'_>> {
    fn to_elements(&self) -> Vec<Element<'_>> {
        self.clone()
    }
}

macro_rules! ints {
    ($($int:ty => $expected:literal),*) => {$(
        impl ToElement for $int {
            fn to_element(&self) -> Element<'_> {
                Element::Int(i128::from(*self))
            }
        }
        impl FromElement for $int {
            fn from_element(element: Element<'_>) -> Result<Self, &'static str> {
                match element {
                    Element::Int(value) => <$int>::try_from(value).map_err(|_| $expected),
                    _ => Err($expected),
                }
            }
        }
    )*};
}

ints!(
    i8 => "an i8", i16 => "an i16", i32 => "an i32", i64 => "an i64", i128 => "an i128",
    u8 => "a u8", u16 => "a u16", u32 => "a u32", u64 => "a u64"
);

macro_rules! tuples {
    ($($len:literal: $($name:ident $at:tt)+;)*) => {$(
        impl<$($name: ToElement),+> ToTuple for ($($name,)+) {
            fn to_elements(&self) -> Vec<Element<'_>> {
                vec![$(self.$at.to_element()),+]
            }
        }
        impl<$($name: FromElement),+> FromTuple for ($($name,)+) {
            fn from_elements(elements: Vec<Element<'_>>) -> Result<Self, DecodeError> {
                expect_count(elements.len(), $len)?;
                let mut elements = elements.into_iter();
                Ok(($(convert::<$name>(elements.next().expect("the count was checked"), $at)?,)+))
            }
        }
        impl<$($name: ToElement),+> ToElement for ($($name,)+) {
            fn to_element(&self) -> Element<'_> {
                Element::Tuple(self.to_elements())
            }
        }
        impl<$($name: FromElement),+> FromElement for ($($name,)+) {
            fn from_element(element: Element<'_>) -> Result<Self, &'static str> {
                let expected = concat!("a tuple of ", $len, " of the right types");
                match element {
                    Element::Tuple(inner) => Self::from_elements(inner).map_err(|_| expected),
                    _ => Err(expected),
                }
            }
        }
    )*};
}

tuples! {
    1: A 0;
    2: A 0 B 1;
    3: A 0 B 1 C 2;
    4: A 0 B 1 C 2 D 3;
    5: A 0 B 1 C 2 D 3 E 4;
    6: A 0 B 1 C 2 D 3 E 4 F 5;
    7: A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    8: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
}

fn expect_count(found: usize, expected: usize) -> Result<(), DecodeError> {
    if found == expected {
        return Ok(());
    }
    let what = format!("the tuple has {found} elements, {expected} were expected");
    Err(DecodeError { offset: 0, what })
}

fn convert<T: FromElement>(element: Element<'_>, at: usize) -> Result<T, DecodeError> {
    let found = element.type_name();
    T::from_element(element).map_err(|expected| DecodeError {
        offset: at,
        what: format!("element {at} is {found} that is not {expected}"),
    })
}
