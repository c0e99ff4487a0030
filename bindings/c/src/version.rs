//! The version of the library.

use std::ffi::{CStr, c_char};

/// The first number of the version of this header.
pub const ESKER_VERSION_MAJOR: u32 = 0;
/// The second number of the version of this header.
pub const ESKER_VERSION_MINOR: u32 = 1;
/// The third number of the version of this header.
pub const ESKER_VERSION_PATCH: u32 = 0;

const TEXT: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("the version has a zero"),
    };

/// Returns the version of the library that the program runs with, such as "0.1.0". The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn esker_version() -> *const c_char {
    TEXT.as_ptr()
}

#[test]
fn the_header_has_the_version_of_the_package() {
    let numbers = [ESKER_VERSION_MAJOR, ESKER_VERSION_MINOR, ESKER_VERSION_PATCH];
    let text = numbers.map(|number| number.to_string()).join(".");
    assert_eq!(text, env!("CARGO_PKG_VERSION"));
    assert_eq!(TEXT.to_str(), Ok(env!("CARGO_PKG_VERSION")));
}
