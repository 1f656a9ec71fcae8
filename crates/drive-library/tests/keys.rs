//! The description of a profile file's keys, from which the reference page is generated.

use std::collections::BTreeSet;

use spindle_drive_library::profile::keys;

#[test]
fn the_keys_of_a_profile_are_described_table_by_table() {
    let tables = keys();
    let headers: BTreeSet<_> = tables.iter().map(|table| table.header.as_str()).collect();
    assert_eq!(headers.len(), tables.len(), "each table once");
    for header in
        ["", "[device]", "[run]", "[found]", "[found.rotation]", "[[found.geometry.band]]"]
    {
        assert!(headers.contains(header), "{header}: {headers:?}");
    }
    for table in &tables {
        assert!(!table.keys.is_empty(), "{}", table.header);
        assert!(table.keys.iter().all(|key| !key.shape.is_empty()), "{}", table.header);
    }
    assert!(tables[0].names().eq(["schema", "device", "run", "found"]));
}
