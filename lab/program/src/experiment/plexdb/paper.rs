//! What the paper on level deduplication compaction reports, next to what is measured here.

use esker_bench::results::{Figure, Published};

/// Where the figures are.
const SOURCE: &str = "Y.-C. Seo, S.-H. Park, PlexDB: Efficient Compaction Algorithm for Deduplication of \
                      LSM-tree based Key-Value Store, DCS 21(8), 2020";

/// What the paper compared, and what is different here.
const ABOUT: &str = "\
    It compares PlexDB with LevelDB and LSM-trie: writes alone, 10 B keys, 200 B values, 20 GB with 9 \
    updates of each key, then 100 GB with 20 and a threshold of 1.6. Here the level deduplication is that \
    of Esker's tiered trees, and plain tiered trees stand for LSM-trie: they drop stale versions when \
    levels are merged, and LSM-trie never merges its deepest one. Space is the mean of the tables while keys are \
    updated, and writes are those of tables. For LSM-trie's writes the paper says only that they are the \
    fewest.";

/// What it says of one system: the case here, the engine here, the metric, its words.
struct Said {
    system: &'static str,
    case: &'static str,
    engine: &'static str,
    metric: &'static str,
    words: &'static str,
}

const SPACE: &str = "table_space_amp_mean";
const WRITES: &str = "table_write_amp";

const fn said(
    system: &'static str,
    case: &'static str,
    metric: &'static str,
    words: &'static str,
    engine: &'static str,
) -> Said {
    Said { system, case, engine, metric, words }
}

static SAID: [Said; 11] = [
    said("LevelDB", "uniform-9", SPACE, "1.2", "esker-leveled"),
    said("LevelDB", "uniform-9", SPACE, "1.2", "leveldb"),
    said("LSM-trie", "uniform-9", SPACE, "more than 11", "esker-tiered"),
    said("PlexDB, threshold 1.2", "uniform-9", SPACE, "about 1.2", "esker-perlevel-1.2"),
    said("PlexDB, threshold 1.8", "uniform-9", SPACE, "about 2", "esker-perlevel-1.8"),
    said("LevelDB", "uniform-9", WRITES, "about 10", "esker-leveled"),
    said("LevelDB", "uniform-9", WRITES, "about 10", "leveldb"),
    said("PlexDB, threshold 1.6", "uniform-9", WRITES, "about LSM-trie's", "esker-perlevel-1.6"),
    said("LevelDB", "uniform-20", SPACE, "close to 2", "esker-leveled"),
    said("LSM-trie", "uniform-20", SPACE, "close to 18", "esker-tiered"),
    said("PlexDB, threshold 1.6", "uniform-20", SPACE, "close to 2", "esker-perlevel-1.6"),
];

/// The table, for a run of `engines`. None without any that stands for one of those of the paper.
pub(super) fn published(engines: &[String]) -> Vec<Published> {
    let is_there = |said: &&Said| engines.iter().any(|engine| engine == said.engine);
    let figure = |said: &Said| Figure {
        system: said.system.to_owned(),
        words: said.words.to_owned(),
        engine: said.engine.to_owned(),
        case: said.case.to_owned(),
        metric: said.metric.to_owned(),
    };
    let figures: Vec<Figure> = SAID.iter().filter(is_there).map(figure).collect();
    if figures.is_empty() {
        return Vec::new();
    }
    let (source, about) = (SOURCE.to_owned(), ABOUT.to_owned());
    vec![Published { source, about, figures, ..Published::default() }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_measured_is_compared() {
        let engines =
            |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let table = published(&engines(&["esker-perlevel-1.8", "fjall"]));
        let systems: Vec<&str> = table[0].figures.iter().map(|figure| &figure.system[..]).collect();
        assert_eq!(systems, ["PlexDB, threshold 1.8"]);
        assert_eq!(published(&engines(&["fjall"])), []);
    }

    #[test]
    fn every_engine_that_stands_for_one_is_in_the_experiment() {
        for said in &SAID {
            assert!(super::super::ENGINES.contains(&said.engine), "{}", said.engine);
            assert!(super::super::loads::ALL.contains(said.case));
        }
    }
}
