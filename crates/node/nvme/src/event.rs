//! Asynchronous events: what an Asynchronous Event Request is answered with (Base 5.2).

/// What a controller reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Namespaces were added, removed or changed: read log page 04h.
    NamespacesChanged,
    /// The discovery log changed: read log page 70h.
    DiscoveryChanged,
    /// A permanent failure, or stored data is damaged: read log page 02h.
    ReliabilityDegraded,
}

impl Event {
    /// DW0 of the completion: type in bits 2:0, information in 15:8, log page in 23:16.
    pub const fn dw0(self) -> u32 {
        const HEALTH: u32 = 1;
        const NOTICE: u32 = 2;
        match self {
            Event::NamespacesChanged => NOTICE | 0x04 << 16,
            Event::DiscoveryChanged => NOTICE | 0xf0 << 8 | 0x70 << 16,
            Event::ReliabilityDegraded => HEALTH | 0x02 << 16,
        }
    }

    /// The event of a completion's DW0, or `None` for one that is not known here.
    pub const fn of(dw0: u32) -> Option<Event> {
        const NAMESPACES: u32 = Event::NamespacesChanged.dw0();
        const DISCOVERY: u32 = Event::DiscoveryChanged.dw0();
        const RELIABILITY: u32 = Event::ReliabilityDegraded.dw0();
        match dw0 & 0x00ff_ff07 {
            NAMESPACES => Some(Event::NamespacesChanged),
            DISCOVERY => Some(Event::DiscoveryChanged),
            RELIABILITY => Some(Event::ReliabilityDegraded),
            _ => None,
        }
    }

    /// The bit that asks for this event, in the Asynchronous Event Configuration feature; for notices in OAES, too. For events of
    /// health it is that of the warning in log page 02h.
    pub const fn mask(self) -> u32 {
        match self {
            Event::ReliabilityDegraded => 1 << 2,
            Event::NamespacesChanged => 1 << 8,
            Event::DiscoveryChanged => 1 << 31,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_specification() {
        assert_eq!(Event::NamespacesChanged.dw0(), 0x0004_0002);
        assert_eq!(Event::DiscoveryChanged.dw0(), 0x0070_f002);
        assert_eq!(Event::ReliabilityDegraded.dw0(), 0x0002_0001);
        assert_eq!(Event::of(0x0070_f002), Some(Event::DiscoveryChanged));
        assert_eq!(Event::of(0x0002_0001), Some(Event::ReliabilityDegraded));
        assert_eq!(Event::of(0x0002_0101), None, "a temperature");
    }
}
