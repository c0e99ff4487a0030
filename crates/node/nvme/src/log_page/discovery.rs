//! The discovery log (page 70h; Base 5.16.1.23): a head of 1024 bytes, and 1024 for each way to a subsystem.

use crate::Nqn;
use crate::le_fields::{put_text, put_u16, put_u64, text_of, u16_at, u64_at};
use crate::limits::QUEUE_ENTRIES;
use crate::nqn::NqnError;
use std::net::{IpAddr, SocketAddr};

/// The length of the head, and of an entry.
pub const ENTRY_BYTES: usize = 1024;

/// ADRFAM.
const FAMILY_IPV4: u8 = 1;
const FAMILY_IPV6: u8 = 2;
/// TRTYPE: TCP.
const TCP: u8 = 3;
/// TREQ: a secure channel is required, or it is not (TCP 3.6).
const SECURE_CHANNEL: u8 = 1;
const NO_SECURE_CHANNEL: u8 = 2;
/// TSAS: the type of the secure channel. Zero is none.
const TLS_1_3: u8 = 2;

/// What is behind an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubsystemKind {
    /// Another discovery subsystem.
    Referral,
    /// A subsystem with namespaces.
    Io,
    /// The discovery subsystem that was asked.
    Discovery,
}

/// A way to a subsystem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiscoveryEntry {
    /// What it is.
    pub kind: SubsystemKind,
    /// Its name.
    pub subsystem: Nqn,
    /// Where it listens.
    pub address: SocketAddr,
    /// PORTID.
    pub port: u16,
    /// Whether it takes TLS 1.3 to connect.
    pub requires_tls: bool,
}

/// The page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Discovery {
    /// GENCTR: counts changes, so that a host that reads in parts sees them.
    pub generation: u64,
    /// The entries.
    pub entries: Vec<DiscoveryEntry>,
}

impl Discovery {
    /// The page's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; ENTRY_BYTES * (1 + self.entries.len())];
        put_u64(&mut out, 0, self.generation);
        put_u64(&mut out, 8, self.entries.len() as u64);
        for (entry, field) in self.entries.iter().zip(out[ENTRY_BYTES..].chunks_mut(ENTRY_BYTES)) {
            entry.put(field);
        }
        out
    }
}

impl DiscoveryEntry {
    fn put(&self, out: &mut [u8]) {
        const ANY_CONTROLLER: u16 = 0xffff;
        out[0] = TCP;
        out[1] = if self.address.is_ipv4() { FAMILY_IPV4 } else { FAMILY_IPV6 };
        out[2] = match self.kind {
            SubsystemKind::Referral => 1,
            SubsystemKind::Io => 2,
            SubsystemKind::Discovery => 3,
        };
        if self.requires_tls {
            (out[3], out[768]) = (SECURE_CHANNEL, TLS_1_3);
        } else {
            out[3] = NO_SECURE_CHANNEL;
        }
        put_u16(out, 4, self.port);
        put_u16(out, 6, ANY_CONTROLLER);
        put_u16(out, 8, QUEUE_ENTRIES);
        put_text(&mut out[32..64], &self.address.port().to_string());
        self.subsystem.put(&mut out[256..512]);
        put_text(&mut out[512..768], &self.address.ip().to_string());
    }

    fn parse(data: &[u8]) -> Result<Option<Self>, NqnError> {
        let kind = match data[2] {
            1 => SubsystemKind::Referral,
            2 => SubsystemKind::Io,
            3 => SubsystemKind::Discovery,
            _ => return Ok(None),
        };
        let address = text_of(&data[512..768]).parse::<IpAddr>();
        let port = text_of(&data[32..64]).parse::<u16>();
        let (TCP, Ok(address), Ok(port)) = (data[0], address, port) else { return Ok(None) };
        let subsystem = Nqn::from_field(&data[256..512])?;
        let address = SocketAddr::new(address, port);
        let port = u16_at(data, 4);
        let requires_tls = data[3] & 3 == SECURE_CHANNEL && data[768] == TLS_1_3;
        Ok(Some(DiscoveryEntry { kind, subsystem, address, port, requires_tls }))
    }
}

/// Reads a page: its generation, how many entries it has, and those that are in `data`. Entries of other transports
/// are left out.
pub fn parse_discovery(data: &[u8]) -> Result<(Discovery, u64), NqnError> {
    if data.len() < 16 {
        return Ok((Discovery::default(), 0));
    }
    let count = u64_at(data, 8);
    let entries = data.get(ENTRY_BYTES..).unwrap_or_default().chunks_exact(ENTRY_BYTES);
    let entries = entries.take(usize::try_from(count).unwrap_or(usize::MAX));
    let entries = entries.filter_map(|entry| DiscoveryEntry::parse(entry).transpose());
    let entries = entries.collect::<Result<_, _>>()?;
    Ok((Discovery { generation: u64_at(data, 0), entries }, count))
}
