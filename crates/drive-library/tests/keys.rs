//! The descriptions of a profile file's keys.

use spindle_drive_library::profile::keys;

#[test]
fn every_table_and_key_of_a_profile_file_has_a_sentence() {
    let tables = keys();
    assert!(tables.len() > 1);
    for table in &tables {
        let abouts = table.keys.iter().map(|key| key.about).chain([table.about]);
        for about in abouts {
            assert!(about.ends_with('.'), "{}: {about}", table.header);
        }
    }
}
