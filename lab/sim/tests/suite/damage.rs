//! Damaged databases, hash stores and flash devices.

use esker_sim::damaged::{Campaign, Totals};
use std::path::Path;

#[test]
fn damaged_images_return_no_wrong_value_and_lose_none_in_silence() {
    let campaign = Campaign::new(Path::new("/dev/shm")).unwrap();
    let totals = campaign.run(0..400).unwrap_or_else(|failures| panic!("{failures}"));
    for totals in &totals {
        println!("{totals}");
    }
    for it in &totals {
        // At least so many trials: reported; repaired without a loss; repaired with one.
        let [reported, restored, salvaged] = match it.name.split([' ', '(', ')']).nth(3) {
            Some("Files") => [40, 10, 20],
            Some("Pool") => [40, 15, 15],
            // Most of what is on the device is in files that were removed.
            Some("Flash") => [5, 34, 1],
            _ => [20, 20, 15],
        };
        let Totals { trials: 50, .. } = it else { panic!("{it}") };
        assert!(it.reported >= reported, "{it}");
        assert!(it.restored >= restored && it.salvaged >= salvaged, "{it}");
    }
}
