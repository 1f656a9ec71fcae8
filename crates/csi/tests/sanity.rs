//! The conformance suite of the container storage interface, `csi-sanity`, against the driver and a
//! daemon on emulated disks. `make csi-sanity` installs it.

mod support;

use std::path::PathBuf;
use std::process::Command;

use support::node::attach;
use support::{DriverProcess, cannot_mount, create_pool, serve};
use testkit::{Scratch, binary, run};

/// The specs of 5.6.0 that the driver's capabilities select, without the node's: fewer would mean
/// that a capability is no longer advertised.
const CONTROLLER_SPECS: u32 = 58;
/// As `CONTROLLER_SPECS`, of the node.
const NODE_SPECS: u32 = 27;

/// The suite, where it is installed.
fn suite() -> Option<PathBuf> {
    // Beside the directory of the profile.
    let profile = binary("spindle-csi");
    let target = profile.parent().and_then(std::path::Path::parent).expect("it lies in target");
    let suite = target.join("tools/bin/csi-sanity");
    if suite.is_file() {
        return Some(suite);
    }
    let is_ci = std::env::var_os("CI").is_some();
    assert!(!is_ci, "{} is missing: `make csi-sanity` installs it", suite.display());
    eprintln!("SKIPPED: {} is missing: `make csi-sanity` installs it", suite.display());
    None
}

/// Runs the specs that `which` selects; returns the number of those that passed.
fn passed(which: &[&str], attach: &str) -> u32 {
    let Some(suite) = suite() else { return u32::MAX };
    let scratch = Scratch::new();
    create_pool(&scratch);
    let server = serve(&scratch);
    let driver = DriverProcess::start(scratch.path(), "node-1", attach);
    let of = |name: &str| scratch.join(name).display().to_string();
    scratch.write("parameters.yaml", "reserve: \"2%\"\n");
    scratch.write("mutable.yaml", "reserve: \"3%\"\n");
    let mut command = Command::new(suite);
    command
        .args(["-csi.endpoint", &of("csi.sock"), "--ginkgo.no-color"])
        .args(["-csi.stagingdir", &of("staging"), "-csi.mountdir", &of("target")])
        .args(["-csi.testvolumeparameters", &of("parameters.yaml")])
        .args(["-csi.testvolumemutableparameters", &of("mutable.yaml")])
        .args(["-csi.testvolumesize", "67108864", "-csi.testvolumeexpandsize", "134217728"])
        .args(which);
    let ran = run(command, scratch.path());
    drop(driver);
    let left = testkit::spindle(scratch.path(), &["vol", "ls", "--json"]).json();
    server.stop();
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(left["volumes"].as_array().map(Vec::len), Some(0), "the suite removes all: {left}");
    print!("{}", ran.stdout);
    let count = ran.stdout.split(" Passed").next().and_then(|text| text.rsplit(' ').next());
    let count = count.and_then(|text| text.parse().ok());
    count.unwrap_or_else(|| panic!("expected a number of specs: {}", ran.stdout))
}

#[test]
fn the_controller_and_the_identity_conform_to_csi() {
    let count = passed(&["--ginkgo.skip", "Node Service"], "nbd");
    assert!(count >= CONTROLLER_SPECS, "{count} specs passed");
}

#[test]
fn the_node_conforms_to_csi_with_file_systems_and_block_devices() {
    if let Some(why) = cannot_mount() {
        eprintln!("SKIPPED: {why}: the node's part of csi-sanity was NOT run");
        return;
    }
    for access in ["mount", "block"] {
        let which = ["--ginkgo.focus", "Node Service", "-csi.testvolumeaccesstype", access];
        let count = passed(&which, &attach());
        assert!(count >= NODE_SPECS, "{access}: {count} specs passed");
    }
}
