//! A thousand damaged databases, hash stores and flash devices.

use esker_sim::damaged::Campaign;
use std::path::Path;

#[test]
fn a_thousand_damaged_images_return_no_wrong_value_and_lose_none_in_silence() {
    let campaign = Campaign::new(Path::new("/dev/shm")).unwrap();
    let totals = campaign.run(0..1000).unwrap_or_else(|failures| panic!("{failures}"));
    assert_eq!(totals.trials, 1000);
    assert!(totals.reported > 300 && totals.harmless > 100, "{totals}");
    assert!(totals.repaired > 500, "{totals}");
}
