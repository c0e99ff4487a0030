//! The standard workloads by their letters.

use super::{Mix, Options, Requests};
use esker_base::{Error, Result};

/// A workload of the YCSB core package (A to F), or one of those that the paper on write-behind
/// logging adds: G and H, and its own F, which is called `rmw` here because YCSB's F is another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Preset {
    /// Half reads, half updates; zipfian.
    A,
    /// 95% reads, 5% updates; zipfian.
    B,
    /// Reads alone; zipfian.
    C,
    /// 95% reads, 5% inserts; the newest records are read most.
    D,
    /// 95% scans of up to 100 records, 5% inserts; zipfian.
    E,
    /// Half reads, half read-modify-writes; zipfian.
    F,
    /// Inserts alone.
    G,
    /// Half inserts, half reads; zipfian.
    H,
    /// Read-modify-writes alone; zipfian.
    Rmw,
}

impl Preset {
    /// All of them, in order.
    pub const ALL: [Preset; 9] = [
        Preset::A,
        Preset::B,
        Preset::C,
        Preset::D,
        Preset::E,
        Preset::F,
        Preset::G,
        Preset::H,
        Preset::Rmw,
    ];

    /// Those that have a letter, in order.
    pub const LETTERS: [Preset; 8] =
        [Preset::A, Preset::B, Preset::C, Preset::D, Preset::E, Preset::F, Preset::G, Preset::H];

    /// Its letter, in lower case, or its name.
    pub fn name(self) -> &'static str {
        match self {
            Preset::A => "a",
            Preset::B => "b",
            Preset::C => "c",
            Preset::D => "d",
            Preset::E => "e",
            Preset::F => "f",
            Preset::G => "g",
            Preset::H => "h",
            Preset::Rmw => "rmw",
        }
    }

    /// What it does, in a few words.
    pub fn description(self) -> &'static str {
        match self {
            Preset::A => "50% reads, 50% updates, zipfian",
            Preset::B => "95% reads, 5% updates, zipfian",
            Preset::C => "reads, zipfian",
            Preset::D => "95% reads of the latest, 5% inserts",
            Preset::E => "95% scans, 5% inserts, zipfian",
            Preset::F => "50% reads, 50% read-modify-writes, zipfian",
            Preset::G => "inserts",
            Preset::H => "50% inserts, 50% reads, zipfian",
            Preset::Rmw => "read-modify-writes, zipfian",
        }
    }

    /// Its operations.
    pub fn mix(self) -> Mix {
        match self {
            Preset::A => Mix { read: 0.5, update: 0.5, ..Mix::NONE },
            Preset::B => Mix { read: 0.95, update: 0.05, ..Mix::NONE },
            Preset::C => Mix { read: 1.0, ..Mix::NONE },
            Preset::D => Mix { read: 0.95, insert: 0.05, ..Mix::NONE },
            Preset::E => Mix { scan: 0.95, insert: 0.05, ..Mix::NONE },
            Preset::F => Mix { read: 0.5, read_modify_write: 0.5, ..Mix::NONE },
            Preset::G => Mix { insert: 1.0, ..Mix::NONE },
            Preset::H => Mix { insert: 0.5, read: 0.5, ..Mix::NONE },
            Preset::Rmw => Mix { read_modify_write: 1.0, ..Mix::NONE },
        }
    }

    /// Which records it asks for.
    pub fn requests(self) -> Requests {
        match self {
            Preset::D => Requests::Latest,
            _ => Requests::Zipfian,
        }
    }

    /// `base` with the operations and requests of this workload, all else as it is.
    pub fn options(self, base: &Options) -> Options {
        Options { mix: self.mix(), requests: self.requests(), ..base.clone() }
    }
}

impl std::fmt::Display for Preset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Preset {
    type Err = Error;

    /// A letter or a name in either case, alone or after `workload`.
    fn from_str(name: &str) -> Result<Self> {
        let letter = name.strip_prefix("workload").unwrap_or(name);
        let found = Preset::ALL.into_iter().find(|p| p.name().eq_ignore_ascii_case(letter));
        found.ok_or_else(|| Error::InvalidSetting {
            setting: "workload",
            value: name.to_owned(),
            reason: format!("there are {}", Preset::ALL.map(Preset::name).join(", ")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_and_nothing_else_does() {
        for preset in Preset::ALL {
            assert_eq!(preset.name().parse::<Preset>().unwrap(), preset);
            assert_eq!(preset.name().to_uppercase().parse::<Preset>().unwrap(), preset);
            assert_eq!(format!("workload{preset}").parse::<Preset>().unwrap(), preset);
        }
        for name in ["", "i", "ab", "workload"] {
            let message = name.parse::<Preset>().unwrap_err().to_string();
            assert!(message.contains("a, b, c"), "{message}");
        }
    }

    #[test]
    fn every_operation_of_rmw_reads_and_writes() {
        let mix = Preset::Rmw.mix();
        assert_eq!((mix.read_modify_write, mix.sum()), (1.0, 1.0));
        assert!(mix.looks_up() && mix.writes() && Preset::Rmw.requests() == Requests::Zipfian);
        assert!(!Preset::LETTERS.contains(&Preset::Rmw), "it is no letter's workload");
        assert!(Preset::LETTERS.iter().all(|preset| preset.name().len() == 1));
    }

    #[test]
    fn all_of_them_can_be_run() {
        for preset in Preset::ALL {
            preset.options(&Options::default()).check().unwrap();
            assert_eq!(preset.mix().sum(), 1.0);
        }
    }
}
