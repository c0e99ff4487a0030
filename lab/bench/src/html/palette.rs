//! A colour for each engine: always the same for the same name, and distinguished by people who see
//! fewer colours.
//!
//! The name up to the first hyphen is the family and decides the hue, but for those tunings of one
//! engine that are many: they are a family of their own. The rest decides the shade and
//! the dashes, so that the engines of a family are seen to belong together. The colours themselves
//! are in the style sheet, since they depend on the reader's scheme.

use super::data::first_seen;
use std::collections::BTreeMap;

/// Families that have a hue of their own.
const FAMILIES: [&str; 7] =
    [PER_LEVEL, SPACE_GOAL, UNIVERSAL, "esker", "rocksdb", "leveldb", "fjall"];
const PER_LEVEL: &str = "esker-perlevel";
const SPACE_GOAL: &str = "esker-spacegoal";
const UNIVERSAL: &str = "rocksdb-universal";
/// Hues for all others.
const OTHERS: usize = 4;
/// Shades of a hue.
const SHADES: usize = 5;
/// Kinds of lines that each shade has: whole or in its own dashes, then in others.
const KINDS: usize = 4;

/// The classes of the engines.
pub(super) struct Palette(BTreeMap<String, String>);

impl Palette {
    pub(super) fn new(engines: &[&str]) -> Self {
        // By name and not by appearance: the order of the engines in a run changes no colour.
        let mut names: Vec<&str> = first_seen(engines.iter().copied());
        names.sort_unstable();
        let families = first_seen(names.iter().map(|name| family(name)));
        let others: Vec<&str> =
            families.into_iter().filter(|family| !FAMILIES.contains(family)).collect();
        let mut taken: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        // Names with a shade of their own choose first.
        let (own, rest): (Vec<&str>, Vec<&str>) =
            names.into_iter().partition(|name| own_shade(name).is_some());
        let mut classes = BTreeMap::new();
        for name in own.into_iter().chain(rest) {
            let hue = match others.iter().position(|other| *other == family(name)) {
                Some(at) => format!("other{}", at % OTHERS),
                None => family(name).to_owned(),
            };
            // Families that share a hue share its looks, too.
            let taken = taken.entry(hue.clone()).or_default();
            let free = |look: &usize| !taken.contains(look);
            let look = own_shade(name).filter(free).or_else(|| (0..SHADES * KINDS).find(free));
            // More than there are looks: they share, and the labels tell them apart.
            let look = look.unwrap_or(taken.len() % (SHADES * KINDS));
            taken.push(look);
            let kind = match look / SHADES {
                0 => String::new(),
                kind => format!(" kind{kind}"),
            };
            classes.insert(name.to_owned(), format!("{hue} shade{}{kind}", look % SHADES));
        }
        Palette(classes)
    }

    /// The classes that give what belongs to `engine` its colour and dashes.
    pub(super) fn class(&self, engine: &str) -> &str {
        self.0.get(engine).map_or("other0 shade0", String::as_str)
    }
}

fn family(engine: &str) -> &str {
    let tunings = [PER_LEVEL, SPACE_GOAL, UNIVERSAL];
    if let Some(tuned) = tunings.into_iter().find(|family| engine.starts_with(family)) {
        return tuned;
    }
    engine.split('-').next().unwrap_or(engine)
}

/// The shade of a variant that many engines have.
fn own_shade(engine: &str) -> Option<usize> {
    let variant = engine.strip_prefix(family(engine))?;
    ["-wal", "-wal-sync", "-nolog"].iter().position(|known| *known == variant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn an_engine_keeps_its_colour_in_whatever_company() {
        let alone = Palette::new(&["esker-wal"]);
        let among = Palette::new(&["rocksdb-wal", "esker-nolog", "esker-wal", "esker-new"]);
        assert_eq!(alone.class("esker-wal"), among.class("esker-wal"));
        assert_eq!(among.class("esker-wal"), "esker shade0");
        assert_eq!(among.class("rocksdb-wal"), "rocksdb shade0");
        assert_eq!(among.class("esker-nolog"), "esker shade2");
    }

    #[test]
    fn engines_differ_while_there_are_shades() {
        let names = ["esker-wal", "esker-wal-sync", "esker-nolog", "esker-pmem", "esker", "new"];
        let palette = Palette::new(&names);
        let mut classes: Vec<&str> = names.iter().map(|name| palette.class(name)).collect();
        classes.sort_unstable();
        classes.dedup();
        assert_eq!(classes.len(), names.len());
    }

    #[test]
    fn twenty_engines_of_a_hue_differ() {
        let names: Vec<String> = (0..20).map(|n| format!("esker-{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let palette = Palette::new(&names);
        let classes: BTreeSet<&str> = names.iter().map(|name| palette.class(name)).collect();
        assert_eq!(classes.len(), names.len());
        // Families beyond the hues that there are for others.
        let families = ["a", "b", "c", "d", "e", "f-x", "g"];
        let palette = Palette::new(&families);
        let classes: BTreeSet<&str> = families.iter().map(|name| palette.class(name)).collect();
        assert_eq!(classes.len(), families.len());
    }

    #[test]
    fn tunings_of_one_engine_have_a_hue_of_their_own() {
        let names = ["esker-perlevel-1.2", "esker-perlevel-1.4", "esker-leveled"];
        let palette = Palette::new(&names);
        let classes = names.map(|name| palette.class(name));
        assert_eq!(classes, ["esker-perlevel shade0", "esker-perlevel shade1", "esker shade0"]);
    }

    #[test]
    fn a_class_holds_nothing_of_an_unknown_name() {
        assert_eq!(Palette::new(&["\"><b>-x"]).class("\"><b>-x"), "other0 shade0");
    }
}
