//! NVMe qualified names: who a host or a subsystem is (Base 4.5).

use std::fmt;

/// The name that every discovery subsystem answers to.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// The longest name, without the zero that ends it.
pub const NQN_BYTES_MAX: usize = 223;

/// The length of a name's field in a structure.
pub(crate) const NQN_FIELD_BYTES: usize = 256;

/// A qualified name: 1 to 223 bytes of UTF-8 that start with `nqn.` and hold no control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Nqn(String);

/// Why bytes are no qualified name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}; a qualified name looks like nqn.2024-01.com.example:disk and has at most 223 bytes")]
pub struct NqnError(&'static str);

impl Nqn {
    /// Checks `name`.
    pub fn new(name: &str) -> Result<Self, NqnError> {
        if !name.starts_with("nqn.") {
            return Err(NqnError("the name does not start with \"nqn.\""));
        }
        if name.len() > NQN_BYTES_MAX {
            return Err(NqnError("the name is too long"));
        }
        if name.chars().any(char::is_control) {
            return Err(NqnError("the name holds a control character"));
        }
        Ok(Nqn(name.to_owned()))
    }

    /// Reads a field of 256 bytes that a zero ends.
    pub fn from_field(field: &[u8]) -> Result<Self, NqnError> {
        let end = field.iter().position(|&byte| byte == 0);
        let end = end.ok_or(NqnError("no zero ends the name"))?;
        let name = std::str::from_utf8(&field[..end]);
        Nqn::new(name.map_err(|_| NqnError("the name is not UTF-8"))?)
    }

    /// Writes the name into a field, padded with zeros.
    pub fn put(&self, field: &mut [u8]) {
        field.fill(0);
        field[..self.0.len()].copy_from_slice(self.0.as_bytes());
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the discovery subsystem's well-known name.
    pub fn is_discovery(&self) -> bool {
        self.0 == DISCOVERY_NQN
    }
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_gives_back_the_name_put_in() {
        let name = Nqn::new("nqn.2024-01.io.example:node").unwrap();
        let mut field = [0xff; NQN_FIELD_BYTES];
        name.put(&mut field);
        assert_eq!(Nqn::from_field(&field), Ok(name));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = format!("nqn.{}", "x".repeat(220));
        for bad in ["", "nqn", "iqn.2001-04.com.example", "nqn.a\nb", &long] {
            assert!(Nqn::new(bad).is_err(), "{bad:?}");
        }
        assert!(Nqn::new(&long[..223]).is_ok());
        assert!(Nqn::from_field(&[b'n'; 256]).is_err(), "no zero at the end");
        assert!(Nqn::from_field(b"nqn.\xff\0").is_err(), "not UTF-8");
    }
}
