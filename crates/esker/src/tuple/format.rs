//! Tuples as bytes: see `docs/formats/tuple.md`.
//!
//! An element is a type byte and then bytes whose order is the order of the values. Type bytes are
//! never 0, so a 0 can end a nested tuple and is below every continuation. Inside strings the bytes
//! 0 and 1 are written as two (`01 01` and `01 02`), which leaves 0 free to end them too.

use super::{DecodeError, Element};
use esker_base::coding::{take, take_u8};
use std::borrow::Cow;

const END: u8 = 0x00;
const ESCAPE: u8 = 0x01;
const NULL: u8 = 0x02;
const FALSE: u8 = 0x03;
const TRUE: u8 = 0x04;
/// The number zero; `ZERO + n` and `ZERO - n` are numbers of `n` bytes above and below it.
const ZERO: u8 = 0x18;
const INT_BYTES_MAX: u8 = 16;
const INT_FIRST: u8 = ZERO - INT_BYTES_MAX;
const INT_LAST: u8 = ZERO + INT_BYTES_MAX;
const FLOAT: u8 = 0x30;
const BYTES: u8 = 0x40;
const TEXT: u8 = 0x48;
const TUPLE: u8 = 0x50;

/// How deep tuples may nest, so that hostile bytes can't exhaust the stack.
const DEPTH_MAX: usize = 32;

/// Appends the encoding of `elements` to `out`.
///
/// # Panics
/// If tuples nest deeper than 32 levels, which [`decode_elements`] rejects.
pub fn encode_elements(elements: &[Element<'_>], out: &mut Vec<u8>) {
    encode_nested(elements, out, 0);
}

fn encode_nested(elements: &[Element<'_>], out: &mut Vec<u8>, depth: usize) {
    assert!(depth <= DEPTH_MAX, "a tuple nests deeper than {DEPTH_MAX}");
    for element in elements {
        match element {
            Element::Null => out.push(NULL),
            Element::Bool(value) => out.push(if *value { TRUE } else { FALSE }),
            Element::Int(value) => put_int(*value, out),
            Element::Float(value) => put_float(*value, out),
            Element::Bytes(value) => put_string(BYTES, value, out),
            Element::Text(value) => put_string(TEXT, value.as_bytes(), out),
            Element::Tuple(inner) => {
                out.push(TUPLE);
                encode_nested(inner, out, depth + 1);
                out.push(END);
            }
        }
    }
}

/// The magnitude in as few bytes as it needs; for a negative number their complement, so that a
/// larger magnitude sorts lower.
pub(super) fn put_int(value: i128, out: &mut Vec<u8>) {
    let magnitude = value.unsigned_abs();
    let len = (128 - magnitude.leading_zeros()).div_ceil(8) as u8;
    let bytes = if value < 0 { !magnitude } else { magnitude }.to_be_bytes();
    out.push(if value < 0 { ZERO - len } else { ZERO + len });
    out.extend_from_slice(&bytes[16 - usize::from(len)..]);
}

/// The bits with the sign flipped, or all of them flipped for a negative number.
pub(super) fn put_float(value: f64, out: &mut Vec<u8>) {
    let bits = value.to_bits();
    let sign = 1 << 63;
    out.push(FLOAT);
    let ordered = if bits & sign == 0 { bits | sign } else { !bits };
    out.extend_from_slice(&ordered.to_be_bytes());
}

fn put_string(code: u8, value: &[u8], out: &mut Vec<u8>) {
    out.reserve(value.len() + 2);
    out.push(code);
    for &byte in value {
        if byte <= ESCAPE {
            out.extend_from_slice(&[ESCAPE, byte + 1]);
        } else {
            out.push(byte);
        }
    }
    out.push(END);
}

/// Decodes all elements of `bytes`. Strings without the bytes 0 and 1 are borrowed.
///
/// # Errors
/// [`DecodeError`] if `bytes` are not what [`encode_elements`] writes: a tuple has exactly one
/// encoding.
pub fn decode_elements(bytes: &[u8]) -> Result<Vec<Element<'_>>, DecodeError> {
    let mut decoder = Decoder { bytes, rest: bytes };
    let mut elements = Vec::new();
    while !decoder.rest.is_empty() {
        elements.push(decoder.element(0)?);
    }
    Ok(elements)
}

struct Decoder<'a> {
    bytes: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    fn fail<T>(&self, what: impl Into<String>) -> Result<T, DecodeError> {
        Err(DecodeError { offset: self.bytes.len() - self.rest.len(), what: what.into() })
    }

    fn element(&mut self, depth: usize) -> Result<Element<'a>, DecodeError> {
        let Some(code) = take_u8(&mut self.rest) else { return self.fail("the bytes end early") };
        Ok(match code {
            NULL => Element::Null,
            FALSE => Element::Bool(false),
            TRUE => Element::Bool(true),
            INT_FIRST..=INT_LAST => Element::Int(self.int(code)?),
            FLOAT => Element::Float(self.float()?),
            BYTES => Element::Bytes(self.string()?),
            TEXT => Element::Text(self.text()?),
            TUPLE if depth == DEPTH_MAX => return self.fail("tuples nest too deep"),
            TUPLE => Element::Tuple(self.nested(depth + 1)?),
            other => return self.fail(format!("{other:#04x} is no type")),
        })
    }

    fn nested(&mut self, depth: usize) -> Result<Vec<Element<'a>>, DecodeError> {
        let mut elements = Vec::new();
        loop {
            if let [END, rest @ ..] = self.rest {
                self.rest = rest;
                return Ok(elements);
            }
            elements.push(self.element(depth)?);
        }
    }

    fn int(&mut self, code: u8) -> Result<i128, DecodeError> {
        let negative = code < ZERO;
        let len = usize::from(code.abs_diff(ZERO));
        let Some(bytes) = take(&mut self.rest, len) else {
            return self.fail("a number is truncated");
        };
        let mut wide = [0; 16];
        wide[16 - len..].copy_from_slice(bytes);
        if negative {
            wide[16 - len..].iter_mut().for_each(|byte| *byte = !*byte);
        }
        if len > 0 && wide[16 - len] == 0 {
            return self.fail("a number is longer than it needs to be");
        }
        let magnitude = u128::from_be_bytes(wide);
        let value = if negative {
            0i128.checked_sub_unsigned(magnitude)
        } else {
            i128::try_from(magnitude).ok()
        };
        value.map_or_else(|| self.fail("a number is out of range"), Ok)
    }

    fn float(&mut self) -> Result<f64, DecodeError> {
        let Some(bytes) = take(&mut self.rest, 8) else { return self.fail("a float is truncated") };
        let ordered = u64::from_be_bytes(bytes.try_into().expect("eight bytes were taken"));
        let sign = 1 << 63;
        Ok(f64::from_bits(if ordered & sign != 0 { ordered & !sign } else { !ordered }))
    }

    fn string(&mut self) -> Result<Cow<'a, [u8]>, DecodeError> {
        let Some(len) = self.rest.iter().position(|&byte| byte == END) else {
            return self.fail("a string has no end");
        };
        let body = &self.rest[..len];
        let string = if body.contains(&ESCAPE) {
            Cow::Owned(self.unescape(body)?)
        } else {
            Cow::Borrowed(body)
        };
        self.rest = &self.rest[len + 1..];
        Ok(string)
    }

    fn unescape(&self, body: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let mut out = Vec::with_capacity(body.len());
        let mut bytes = body.iter();
        while let Some(&byte) = bytes.next() {
            match byte {
                ESCAPE => match bytes.next() {
                    Some(escaped @ 1..=2) => out.push(escaped - 1),
                    _ => return self.fail("a string holds an escape that stands for nothing"),
                },
                byte => out.push(byte),
            }
        }
        Ok(out)
    }

    fn text(&mut self) -> Result<Cow<'a, str>, DecodeError> {
        let at = self.rest;
        let text = match self.string()? {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
        };
        if text.is_none() {
            self.rest = at;
        }
        text.map_or_else(|| self.fail("a text is not UTF-8"), Ok)
    }
}
