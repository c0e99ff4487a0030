//! The first message of a host (ClientHello; RFC 8446, 4.1.2 and 4.2.11), as far as a node has to
//! read it to find the key.

use crate::{HANDSHAKE, TlsError};

/// The type of the handshake message, and of the extension with the keys.
const CLIENT_HELLO: u8 = 1;
const PRE_SHARED_KEY: u16 = 41;

const RECORD_HEAD_BYTES: usize = 5;

/// Keys that a host offers, and what their binders are computed over.
pub(crate) struct Hello<'a> {
    /// Identities with their binders.
    pub offers: Vec<(&'a [u8], &'a [u8])>,
    /// The message up to the binders.
    pub truncated: &'a [u8],
}

/// The message in a record that holds it whole.
pub(crate) fn message(record: &[u8]) -> Result<&[u8], TlsError> {
    let message = match record.first() {
        Some(&HANDSHAKE) => record.get(RECORD_HEAD_BYTES..),
        _ => None,
    };
    message.ok_or(TlsError::Hello("it is no handshake record"))
}

impl<'a> Hello<'a> {
    /// Reads a message.
    pub fn parse(message: &'a [u8]) -> Result<Self, TlsError> {
        Self::read(message).ok_or(TlsError::Hello("it is no ClientHello with pre-shared keys"))
    }

    fn read(message: &'a [u8]) -> Option<Self> {
        let mut rest = Rest(message);
        if rest.take(1)? != [CLIENT_HELLO] {
            return None;
        }
        let mut body = Rest(rest.vector(3)?);
        if !rest.0.is_empty() {
            return None;
        }
        // The version and the random; then the session, cipher suites and compressions.
        body.take(2 + 32)?;
        for length_bytes in [1, 2, 1] {
            body.vector(length_bytes)?;
        }
        let mut extensions = Rest(body.vector(2)?);
        if !body.0.is_empty() {
            return None;
        }
        loop {
            let kind = extensions.number(2)?;
            let extension = extensions.vector(2)?;
            if kind == usize::from(PRE_SHARED_KEY) {
                // It is the last one, so that the binders end the message.
                return extensions.0.is_empty().then(|| Self::offers(message, extension))?;
            }
        }
    }

    fn offers(message: &'a [u8], extension: &'a [u8]) -> Option<Self> {
        const AGE_BYTES: usize = 4;
        let mut rest = Rest(extension);
        let mut identities = Rest(rest.vector(2)?);
        let binder_bytes = rest.0.len();
        let mut binders = Rest(rest.vector(2)?);
        let mut offers = Vec::new();
        while !identities.0.is_empty() {
            let identity = identities.vector(2)?;
            identities.take(AGE_BYTES)?;
            offers.push((identity, binders.vector(1)?));
        }
        let is_whole = binders.0.is_empty() && rest.0.is_empty();
        let truncated = &message[..message.len() - binder_bytes];
        is_whole.then_some(Hello { offers, truncated })
    }
}

/// Bytes that are yet to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |number, &byte| number << 8 | usize::from(byte)))
    }

    /// A vector behind its length, which takes so many bytes.
    fn vector(&mut self, length_bytes: usize) -> Option<&'a [u8]> {
        let bytes = self.number(length_bytes)?;
        self.take(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(length_bytes: usize, bytes: &[u8]) -> Vec<u8> {
        let length = bytes.len().to_be_bytes();
        [&length[length.len() - length_bytes..], bytes].concat()
    }

    /// A ClientHello with an extension of no interest, and these offers.
    fn hello(offers: &[(&[u8], &[u8])]) -> Vec<u8> {
        let identities = offers.iter().flat_map(|(name, _)| [vector(2, name), vec![0; 4]].concat());
        let binders = offers.iter().flat_map(|(_, binder)| vector(1, binder));
        let keys =
            [vector(2, &identities.collect::<Vec<_>>()), vector(2, &binders.collect::<Vec<_>>())];
        let extensions = [vec![0, 45], vector(2, &[1, 1]), vec![0, 41], vector(2, &keys.concat())];
        let body = [
            vec![3, 3],
            vec![7; 32],
            vector(1, &[9; 32]),
            vector(2, &[0x13, 1]),
            vector(1, &[0]),
            vector(2, &extensions.concat()),
        ];
        [vec![CLIENT_HELLO], vector(3, &body.concat())].concat()
    }

    #[test]
    fn offers_are_read_with_what_their_binders_are_over() {
        let message = hello(&[(b"one", &[1; 32]), (b"two", &[2; 48])]);
        let parsed = Hello::parse(&message).unwrap();
        let expected: [(&[u8], &[u8]); 2] = [(b"one", &[1; 32]), (b"two", &[2; 48])];
        assert_eq!(parsed.offers, expected);
        assert_eq!(parsed.truncated.len(), message.len() - (2 + 33 + 49));
        let record = [vec![HANDSHAKE, 3, 1], vector(2, &message)].concat();
        assert_eq!(super::message(&record).unwrap(), message);
    }

    #[test]
    fn what_is_cut_off_or_goes_on_is_refused() {
        let message = hello(&[(b"one", &[1; 32])]);
        for end in 0..message.len() {
            assert!(Hello::parse(&message[..end]).is_err(), "{end}");
        }
        assert!(Hello::parse(&[&message[..], &[0]].concat()).is_err());
        // Every byte changed: nothing panics.
        for place in 0..message.len() {
            for flipped in [1, 0x80, 0xff] {
                let mut changed = message.clone();
                changed[place] ^= flipped;
                let _ = Hello::parse(&changed);
            }
        }
        assert!(super::message(&[20, 3, 1, 0, 0]).is_err());
    }
}
