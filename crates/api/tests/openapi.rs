//! The description in the repository is the one that the code serves.

#[test]
fn the_description_in_the_repository_is_the_one_that_is_served() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/reference/openapi.json");
    let served = spindle_api::description().to_pretty_json().expect("JSON") + "\n";
    if std::env::var_os("SPINDLE_WRITE").is_some() {
        std::fs::write(path, &served).expect("the repository can be written");
    }
    let stored = std::fs::read_to_string(path).expect("it is in the repository");
    assert!(
        stored == served,
        "docs/src/reference/openapi.json is not what is served: SPINDLE_WRITE=1 writes it"
    );
}
