//! How many links a node has: few have very many.

/// Of all nodes, how many percent have at most so many links: points of the section `nlinks` of
/// `config/Distribution.dat` of the published program, which was taken from Facebook's graph. Exact up to
/// ten links; beyond, the curve between two points is a power law. The last point is 100% there, and here
/// just below, so that a power law can lead to it.
const POINTS: [(f64, f64); 39] = [
    (0.0, 19.747_449_2),
    (1.0, 72.984_623_4),
    (2.0, 86.737_518_5),
    (3.0, 91.816_809_2),
    (4.0, 94.459_130_3),
    (5.0, 95.868_614_6),
    (6.0, 96.777_775_1),
    (7.0, 97.379_272_2),
    (8.0, 97.816_738_3),
    (9.0, 98.114_715_1),
    (10.0, 98.340_988_4),
    (15.0, 98.963_388_3),
    (20.0, 99.222_098_0),
    (30.0, 99.464_962_6),
    (40.0, 99.586_161_6),
    (50.0, 99.651_762_8),
    (70.0, 99.722_477_8),
    (100.0, 99.773_521_7),
    (150.0, 99.815_793_9),
    (200.0, 99.839_794_9),
    (300.0, 99.869_581_4),
    (400.0, 99.887_908_7),
    (500.0, 99.899_647_8),
    (700.0, 99.916_407_4),
    (1_581.0, 99.950_897_0),
    (2_002.0, 99.960_041_9),
    (2_765.0, 99.970_605_4),
    (6_773.0, 99.991_974_8),
    (8_399.0, 99.994_419_7),
    (10_020.0, 99.995_950_1),
    (12_109.0, 99.997_275_2),
    (14_000.0, 99.998_152_3),
    (16_384.0, 99.998_693_6),
    (20_188.0, 99.999_103_8),
    (30_010.0, 99.999_589_4),
    (50_105.0, 99.999_850_7),
    (124_441.0, 99.999_962_7),
    (186_879.0, 99.999_981_3),
    (311_772.0, 99.999_999_9),
];

/// The number of links of the node at which `share` of all have as many or fewer: a number in `[0, 1)`.
pub(super) fn of_share(share: f64) -> u64 {
    let percent = share * 100.0;
    let at = POINTS.partition_point(|&(_, up_to)| up_to < percent);
    let Some(&(links, up_to)) = POINTS.get(at) else { return POINTS[POINTS.len() - 1].0 as u64 };
    let Some(&(before, from)) = at.checked_sub(1).and_then(|at| POINTS.get(at)) else {
        return links as u64;
    };
    if links - before == 1.0 {
        return links as u64;
    }
    // The share of nodes that have more falls as a power of the number of links.
    let fall = |to: f64| ((100.0 - from) / (100.0 - to)).ln();
    let curve = before * (links / before).powf(fall(percent) / fall(up_to));
    (curve.ceil() as u64).clamp(before as u64 + 1, links as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The degrees of `count` nodes, the most first.
    fn degrees(count: u64) -> Vec<u64> {
        (0..count).map(|rank| of_share(1.0 - (rank as f64 + 0.5) / count as f64)).collect()
    }

    #[test]
    fn as_many_nodes_as_published_have_at_most_so_many_links() {
        let degrees = degrees(1_000_000);
        for (links, percent) in POINTS {
            let have = degrees.len() - degrees.partition_point(|&degree| degree > links as u64);
            let published = percent / 100.0 * 1e6;
            // One node in a million is the grain.
            assert!((have as f64 - published).abs() <= 2.0, "{links}: {have} of {published}");
        }
    }

    #[test]
    fn degrees_between_the_points_are_near_the_published_ones() {
        // More of the same table: links, and how many percent have as many or fewer.
        for (links, published) in [
            (12, 98.674_630_9),
            (60, 99.694_277_7),
            (250, 99.855_919_9),
            (600, 99.908_494_2),
            (1_900, 99.957_709_1),
            (7_500, 99.993_16),
            (34_401, 99.999_72),
        ] {
            let drawn = of_share(published / 100.0 - 1e-9) as f64;
            let off = drawn / f64::from(links);
            assert!((0.85..1.18).contains(&off), "{links}: {drawn}");
        }
    }

    #[test]
    fn a_node_has_about_five_links() {
        let degrees = degrees(1_000_000);
        let mean = degrees.iter().sum::<u64>() as f64 / 1e6;
        assert!((4.5..6.5).contains(&mean), "{mean}");
        assert!(degrees.is_sorted_by(|a, b| a >= b));
    }
}
