//! Devices by what they cost a log, each with where the figures are from.

use std::time::Duration;

/// What a device costs a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceProfile {
    /// Its name: a word.
    pub name: &'static str,
    /// A sync that has nothing to write.
    pub sync: Duration,
    /// How fast a sync writes what there is.
    pub bytes_per_second: u64,
    /// Where the figures are from.
    pub source: &'static str,
}

/// A SATA SSD without protection from power loss: a flush programs flash.
const SATA: DeviceProfile = DeviceProfile {
    name: "sata",
    sync: Duration::from_millis(1),
    bytes_per_second: 520_000_000,
    source: "sync: flash SSDs without power-loss protection take 0.5 to 3.5 ms for an fdatasync, \
             smalldatum.blogspot.com, \"SSDs, power loss protection and fsync latency\", 2026-01-07; \
             bandwidth: Samsung 850 PRO's data sheet, sequential write",
};

/// An NVMe SSD whose cache survives power loss: a flush has nothing to do.
const NVME: DeviceProfile = DeviceProfile {
    name: "nvme",
    sync: Duration::from_micros(20),
    bytes_per_second: 2_000_000_000,
    source: "Intel SSD DC P3700 product specification, 330566: write latency 20 µs, sequential write \
             2,000 MB/s",
};

/// A card of DRAM that is saved to flash when power is lost, behind NVMe.
const NVRAM: DeviceProfile = DeviceProfile {
    name: "nvram",
    sync: Duration::from_micros(5),
    bytes_per_second: 6_000_000_000,
    source: "PMC Flashtec NVRAM (NV16xx): below 1 µs in the card, enterpriseai.news, 2014-08-06; the \
             rest is our allowance for an NVMe command's way there and back; bandwidth: what PCIe 3.0 \
             x8 carries in practice",
};

impl DeviceProfile {
    /// All that can be emulated, slowest first.
    pub const ALL: [DeviceProfile; 3] = [SATA, NVME, NVRAM];

    /// The device of this name.
    pub fn named(name: &str) -> Option<DeviceProfile> {
        DeviceProfile::ALL.into_iter().find(|profile| profile.name == name)
    }

    /// How long a sync of `bytes` takes when no other thread is being served.
    pub fn service(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        self.sync + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_known_by_their_names_and_get_faster() {
        for profile in DeviceProfile::ALL {
            assert_eq!(DeviceProfile::named(profile.name), Some(profile));
        }
        assert_eq!(DeviceProfile::named("tape"), None);
        assert!(DeviceProfile::ALL.windows(2).all(|pair| pair[0].sync > pair[1].sync));
    }

    #[test]
    fn bytes_add_their_time_to_a_syncs() {
        assert_eq!(NVME.service(0), Duration::from_micros(20));
        assert_eq!(NVME.service(200_000), Duration::from_micros(120));
    }
}
