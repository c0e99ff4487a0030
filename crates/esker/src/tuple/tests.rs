//! Byte order is value order, encodings are unique, hostile bytes are refused.

use super::*;
use proptest::prelude::*;
use std::borrow::Cow;

fn element() -> impl Strategy<Value = Element<'static>> {
    // Small alphabets, so that random tuples share beginnings and meet the escaped bytes.
    let bytes = || prop::collection::vec(prop_oneof![0u8..4, 0xfdu8..=0xff], 0..5);
    let leaf = prop_oneof![
        Just(Element::Null),
        any::<bool>().prop_map(Element::Bool),
        any::<i128>().prop_map(Element::Int),
        (-300i128..300).prop_map(Element::Int),
        any::<i64>().prop_map(|value| Element::Int(value.into())),
        any::<u64>().prop_map(|bits| Element::Float(f64::from_bits(bits))),
        (-3i8..3).prop_map(|value| Element::Float(value.into())),
        bytes().prop_map(|value| Element::Bytes(Cow::Owned(value))),
        "[\u{0}\u{1}\u{2}aé\u{10ffff}]{0,4}".prop_map(|value| Element::Text(Cow::Owned(value))),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop::collection::vec(inner, 0..3).prop_map(Element::Tuple)
    })
}

fn tuple() -> impl Strategy<Value = Vec<Element<'static>>> {
    prop::collection::vec(element(), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn byte_order_is_value_order(a in tuple(), b in tuple()) {
        prop_assert_eq!(encode(&a).cmp(&encode(&b)), a.cmp(&b));
    }

    #[test]
    fn neighbours_in_value_are_ordered_too(a in any::<i128>(), step in 0i128..3) {
        let b = a.saturating_add(step);
        prop_assert_eq!(encode(&(a,)).cmp(&encode(&(b,))), a.cmp(&b));
    }

    #[test]
    fn a_tuple_round_trips(a in tuple()) {
        let key = encode(&a);
        prop_assert_eq!(decode_elements(&key).unwrap(), a);
    }

    #[test]
    fn a_prefix_of_elements_is_a_prefix_of_bytes(a in tuple(), b in tuple()) {
        let prefix_of_bytes = encode(&b).starts_with(&encode(&a));
        prop_assert_eq!(prefix_of_bytes, b.starts_with(&a));
    }

    #[test]
    fn bytes_that_decode_are_what_would_be_encoded(
        bytes in prop::collection::vec(prop_oneof![0u8..6, 0x10u8..0x20, Just(0x30), Just(0x40), Just(0x48), Just(0x50)], 0..14)
    ) {
        if let Ok(elements) = decode_elements(&bytes) {
            prop_assert_eq!(encode(&elements), bytes);
        }
    }
}

#[test]
fn the_bytes_never_change() {
    let inner = ("x", -1i64);
    let key = encode(
        &(None::<u8>, false, true, 0, 258u64, -258i64, 1.0, -1.0, Bytes(vec![0, 1, 2])).short(),
    );
    assert_eq!(
        key,
        [
            &[0x02, 0x03, 0x04, 0x18, 0x1a, 1, 2, 0x16, 0xfe, 0xfd][..],
            &[0x30, 0xbf, 0xf0, 0, 0, 0, 0, 0, 0],
            &[0x30, 0x40, 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0x40, 1, 1, 1, 2, 2, 0],
        ]
        .concat()
    );
    assert_eq!(encode(&("aé", inner)), b"\x48a\xc3\xa9\x00\x50\x48x\x00\x17\xfe\x00");
}

/// Nine values are more than a Rust tuple of this codec has: they go in as elements.
trait Short {
    fn short(&self) -> Vec<Element<'_>>;
}

impl Short for (Option<u8>, bool, bool, i32, u64, i64, f64, f64, Bytes) {
    fn short(&self) -> Vec<Element<'_>> {
        vec![
            self.0.to_element(),
            self.1.to_element(),
            self.2.to_element(),
            self.3.to_element(),
            self.4.to_element(),
            self.5.to_element(),
            self.6.to_element(),
            self.7.to_element(),
            self.8.to_element(),
        ]
    }
}

#[test]
fn integers_of_every_width_are_one_type() {
    for value in [i64::MIN, -256, -255, -1, 0, 1, 255, 256, i64::MAX] {
        assert_eq!(encode(&(value,)), encode(&(i128::from(value),)));
        assert_eq!(decode::<(i64,)>(&encode(&(value,))), Ok((value,)));
    }
    assert_eq!(decode::<(u64,)>(&encode(&(u64::MAX,))), Ok((u64::MAX,)));
    assert_eq!(decode::<(i128,)>(&encode(&(i128::MIN,))), Ok((i128::MIN,)));
    assert!(decode::<(u64,)>(&encode(&(-1,))).unwrap_err().what.contains("a u64"));
}

#[test]
fn every_truncation_inside_an_element_is_refused() {
    let key = encode(&("text", 70_000u32, 0.5, ("inner", Bytes(vec![0; 3]))));
    let ends: Vec<usize> =
        (0..=4).map(|count| encode(&decode_elements(&key).unwrap()[..count]).len()).collect();
    for len in 0..=key.len() {
        assert_eq!(decode_elements(&key[..len]).is_ok(), ends.contains(&len), "{len} bytes");
    }
}

#[test]
fn bytes_with_two_meanings_are_refused() {
    for (bad, why) in [
        (&[0x19, 0x00][..], "longer than it needs"),
        (&[0x17, 0xff], "longer than it needs"),
        (&[0x40, 0x01, 0x03, 0x00], "stands for nothing"),
        (&[0x40, 0x01, 0x00], "stands for nothing"),
        (&[0x48, 0xff, 0x00], "not UTF-8"),
        (&[0x00], "no type"),
        (&[0xff], "no type"),
        (&[[0x28].as_slice(), &[0xff; 16]].concat(), "out of range"),
        (&[0x50; 40], "too deep"),
    ] {
        let error = decode_elements(bad).unwrap_err();
        assert!(error.what.contains(why), "{bad:02x?}: {error}");
    }
}

#[test]
fn a_wrong_shape_is_named() {
    let key = encode(&("a", 1));
    assert!(decode::<(String,)>(&key).unwrap_err().to_string().contains("2 elements, 1"));
    let error = decode::<(String, String)>(&key).unwrap_err();
    assert!(error.to_string().contains("element 1 is a whole number that is not text"), "{error}");
}
