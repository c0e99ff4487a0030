//! Disks that say where they put what was written, and another program that writes next to them.

use super::*;

fn appending(zones: u64) -> MemoryDisk {
    let disk = MemoryDisk::new(zones);
    disk.change(|state| state.appends = true);
    disk
}

#[test]
fn what_is_written_goes_to_the_disk_in_parts_that_it_takes() {
    for appends in [true, false] {
        let disk = MemoryDisk::new(8);
        disk.change(|state| (state.appends, state.write_bytes_max) = (appends, 12 << 10));
        let zones = open(&disk);
        let chunk = zones.geometry().chunk(2);
        zones.write(chunk, 0, &blocks(7, 1)).unwrap();
        let start = 2 * ZONE_BYTES;
        let expected = [(0, 3), (3, 3), (6, 1)].map(|(at, len)| (start + at * 4096, len * 4096));
        assert_eq!(disk.change(|state| state.writes.clone()), expected);
        assert_eq!(content(&zones, chunk), blocks(7, 1));
    }
}

#[test]
fn a_gap_inside_of_a_block_is_part_of_what_is_appended() {
    let disk = appending(8);
    disk.change(|state| (state.tear, state.write_bytes_max) = (Some(512), 4096));
    let zones = open(&disk);
    let chunk = zones.geometry().chunk(0);
    zones.write(chunk, 0, &blocks(1, 1)).unwrap_err();
    zones.write(chunk, 4096, &blocks(2, 2)).unwrap();
    let writes = disk.change(|state| state.writes.clone());
    assert_eq!(writes, [(0, 512), (512, 4096), (4608, 4096), (8704, 3584)]);
    assert_eq!(content(&zones, chunk)[4096..], blocks(2, 2));
}

#[test]
fn bytes_of_somebody_else_are_told_and_their_zone_is_left_alone() {
    let disk = appending(8);
    let zones = open(&disk);
    let (chunk, other) = (zones.geometry().chunk(3), zones.geometry().chunk(4));
    zones.write(chunk, 0, &blocks(2, 1)).unwrap();
    disk.write_as_another(3, &[7; 512]);
    let told = zones.write(chunk, 8192, &blocks(1, 2)).unwrap_err().to_string();
    let expected = "zone 3 of a zoned disk in memory";
    assert!(told.contains(expected) && told.contains("byte 8704 of it and not to 8192"), "{told}");
    let left = [blocks(2, 1), vec![7; 512], blocks(1, 2)].concat();
    assert_eq!(disk.content(3), left);
    assert!(zones.is_bad(chunk) && !zones.is_bad(other));
    let at = zones.written(chunk).unwrap();
    for refused in [zones.write(chunk, at, &blocks(1, 3)), zones.reset(chunk)] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("zone 3") && refused.contains("another program"), "{refused}");
    }
    assert_eq!(disk.content(3), left);
    zones.write(other, 0, &blocks(1, 4)).unwrap();
    let mut before = vec![0; 8192];
    zones.read(chunk, 0, &mut before).unwrap();
    assert_eq!(before, blocks(2, 1));
    // Whoever takes the disk next finds what is there.
    let _lock = zones.lock().unwrap();
    assert!(!zones.is_bad(chunk));
    zones.reset(chunk).unwrap();
}

/// The disk refuses what does not fit any more, and says no place.
#[test]
fn a_zone_that_somebody_else_filled_or_finished_is_left_alone() {
    for finishes in [false, true] {
        let disk = appending(8);
        let zones = open(&disk);
        let chunk = zones.geometry().chunk(3);
        zones.write(chunk, 0, &blocks(2, 1)).unwrap();
        disk.write_as_another(3, &vec![7; CAPACITY as usize - 3 * 4096]);
        if finishes {
            disk.finish(&disk.zone(3)).unwrap();
        }
        let left = disk.content(3);
        zones.write(chunk, 8192, &blocks(2, 2)).unwrap_err();
        assert!(zones.is_bad(chunk));
        zones.finish(chunk).unwrap();
        let refused = zones.reset(chunk).unwrap_err().to_string();
        assert!(refused.contains("another program"), "{refused}");
        assert_eq!(disk.content(3), left);
    }
}

#[test]
fn a_zone_that_somebody_else_emptied_is_left_alone() {
    let disk = appending(8);
    let zones = open(&disk);
    let chunk = zones.geometry().chunk(1);
    zones.write(chunk, 0, &blocks(1, 1)).unwrap();
    disk.reset(&disk.zone(1)).unwrap();
    let told = zones.write(chunk, 4096, &blocks(1, 2)).unwrap_err().to_string();
    assert!(told.contains("byte 0 of it and not to 4096"), "{told}");
    zones.write(chunk, 4096, &blocks(1, 3)).unwrap_err();
    assert_eq!(disk.content(1), blocks(1, 2));
}

/// Whether the disk appends or not: before a reset nothing is written that would show it.
#[test]
fn a_zone_that_somebody_else_wrote_since_it_was_written_is_not_reset() {
    for appends in [true, false] {
        let disk = MemoryDisk::new(8);
        disk.change(|state| state.appends = appends);
        let zones = open(&disk);
        let [written, empty, other] = [3, 4, 5].map(|number| zones.geometry().chunk(number));
        zones.write(written, 0, &blocks(2, 1)).unwrap();
        disk.write_as_another(3, &[7; 512]);
        disk.write_as_another(4, &[7; 512]);
        for (chunk, number, found, left) in [(written, 3, 8704, 8192), (empty, 4, 512, 0)] {
            let content = disk.content(number);
            let refused = zones.reset(chunk).unwrap_err().to_string();
            let expected =
                format!("written up to byte {found} and was left written up to byte {left}");
            assert!(refused.contains(&format!("zone {number} of")), "{refused}");
            assert!(refused.contains(&expected), "{refused}");
            assert!(zones.is_bad(chunk));
            zones.reset(chunk).unwrap_err();
            assert_eq!(disk.content(number), content);
        }
        zones.write(other, 0, &blocks(1, 1)).unwrap();
        zones.reset(other).unwrap();
        assert!(!zones.is_bad(other));
    }
}

#[test]
fn a_zone_that_somebody_else_finished_or_emptied_is_not_reset() {
    let disk = appending(8);
    let zones = open(&disk);
    for (number, told) in [(1, "it is full and was left"), (2, "written up to byte 0 and was left")]
    {
        let chunk = zones.geometry().chunk(number);
        zones.write(chunk, 0, &blocks(2, 1)).unwrap();
        let zone = disk.zone(number);
        if number == 1 {
            disk.finish(&zone).unwrap()
        } else {
            disk.reset(&zone).unwrap()
        }
        let refused = zones.reset(chunk).unwrap_err().to_string();
        assert!(refused.contains(told), "{refused}");
    }
    assert_eq!(disk.zone(1).condition, Condition::Full);
}

#[test]
fn a_zone_that_the_disk_says_nothing_of_is_not_reset() {
    let disk = appending(8);
    let zones = open(&disk);
    let chunk = zones.geometry().chunk(2);
    zones.write(chunk, 0, &blocks(1, 1)).unwrap();
    disk.change(|state| state.is_silent = true);
    zones.reset(chunk).unwrap_err();
    assert!(!zones.is_bad(chunk));
    disk.change(|state| state.is_silent = false);
    assert_eq!(disk.content(2), blocks(1, 1));
    zones.reset(chunk).unwrap();
}

#[test]
fn zones_that_were_filled_or_finished_by_this_process_are_reset() {
    let disk = appending(8);
    // A chunk is less than this zone takes.
    disk.change(|state| state.zones[7].capacity -= 4096);
    let zones = open(&disk);
    let [filled, finished] = [3, 4].map(|number| zones.geometry().chunk(number));
    zones.write(filled, 0, &blocks((CAPACITY / 4096 - 1) as usize, 1)).unwrap();
    zones.write(finished, 0, &blocks(1, 1)).unwrap();
    zones.finish(finished).unwrap();
    for chunk in [filled, finished] {
        zones.reset(chunk).unwrap();
    }
}

#[test]
fn of_several_parts_none_follows_one_that_came_elsewhere() {
    let disk = appending(8);
    disk.change(|state| state.write_bytes_max = 4096);
    let zones = open(&disk);
    disk.write_as_another(5, &[7; 4096]);
    zones.write(zones.geometry().chunk(5), 0, &blocks(4, 1)).unwrap_err();
    assert_eq!(disk.content(5).len(), 2 * 4096);
}

/// Where the disk does not append, it refuses what would come to another place.
#[test]
fn without_appends_nothing_is_written_over_or_behind_bytes_of_somebody_else() {
    let disk = MemoryDisk::new(8);
    let zones = open(&disk);
    disk.write_as_another(3, &[7; 4096]);
    zones.write(zones.geometry().chunk(3), 0, &blocks(1, 2)).unwrap_err();
    assert_eq!(disk.content(3), [7; 4096]);
}

#[test]
fn files_go_on_in_other_zones_and_the_zone_of_somebody_else_is_never_reset() {
    let disk = appending(16);
    let storage = store(&disk).unwrap();
    let write = |name: &str, count| {
        let mut file = storage.create(name, WriteHint::table(1))?;
        file.append(&blocks(count, 1)).and_then(|()| file.sync())
    };
    write("kept", 2).unwrap();
    let number = (4..16).find(|number| disk.zone(*number).written > 0).unwrap();
    disk.write_as_another(number, &[7; 512]);
    let told = write("lost", 2).unwrap_err().to_string();
    assert!(told.contains(&format!("zone {number} of")), "{told}");
    storage.remove("kept").unwrap();
    storage.remove("lost").unwrap();
    // More than all zones hold.
    for round in 0..20 {
        write("other", 24).unwrap_or_else(|error| panic!("{round}: {error}"));
        expect_content(&storage, "other", &blocks(24, 1));
        storage.remove("other").unwrap();
    }
    assert_eq!(disk.content(number)[2 * 4096..][..512], [7; 512]);
}
