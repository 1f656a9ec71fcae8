//! The different requirements of a simulation and a daemon.

use super::*;

fn plan(text: &str) -> Plan {
    Plan::parse(text, "plan.toml", Path::new("")).expect("a good config")
}

#[test]
fn a_simulation_needs_a_workload() {
    assert_eq!(
        plan(DISK).for_sim().expect_err("nothing to do").to_string(),
        "plan.toml:1: field `workload`: found nothing, expected at least one table \
         `[[workload]]` to simulate"
    );
}

#[test]
fn a_simulation_needs_an_end() {
    assert_eq!(
        plan(&format!("{DISK}{VOLUME}{WORKLOAD}rate = \"1/s\"\n"))
            .for_sim()
            .expect_err("endless")
            .to_string(),
        "plan.toml:8: [[workload]] #1: field `stop`: found nothing, expected a time, or a \
         `duration` at \
         the top of the file: else the run has no end"
    );
}

#[test]
fn a_daemon_needs_a_disk() {
    assert_eq!(
        plan("").for_serve().expect_err("nothing to serve").to_string(),
        "plan.toml:1: field `disk`: found nothing, expected at least one table `[[disk]]` to \
         serve from"
    );
}

#[test]
fn a_daemon_may_begin_without_a_volume() {
    let plan = plan(DISK).for_serve().expect("volumes may be created later");
    assert!(plan.volumes.is_empty());
}
