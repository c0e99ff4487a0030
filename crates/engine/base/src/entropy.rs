//! Unguessable bytes as a value that is passed in: for challenges and keys, where [`Rng`](crate::Rng) will not do.

use crate::{Error, Result};
use std::sync::Arc;

/// A source of unpredictable bytes.
pub trait Entropy: Send + Sync + 'static {
    /// Fills `out`.
    fn fill(&self, out: &mut [u8]) -> Result<()>;
}

/// The kernel's generator.
#[derive(Clone, Copy, Default, Debug)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, out: &mut [u8]) -> Result<()> {
        let mut rest = out;
        while !rest.is_empty() {
            let filled = rustix::rand::getrandom(&mut *rest, rustix::rand::GetRandomFlags::empty());
            let filled = filled.map_err(|source| Error::Io {
                action: "draw random bytes from",
                path: "the kernel".to_owned(),
                source: Arc::new(source.into()),
            })?;
            rest = &mut rest[filled..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_drawn_and_differ_each_time() {
        let (mut a, mut b) = ([0; 300], [0; 300]);
        SystemEntropy.fill(&mut a).unwrap();
        SystemEntropy.fill(&mut b).unwrap();
        assert_ne!(a, b);
        assert!(a[268..].iter().any(|&byte| byte != 0), "the end, too");
    }
}
