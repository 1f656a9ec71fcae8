//! What a policy does not keep is refused by name, and the rest is accepted.

use std::path::Path;

use engine::{Feature, PolicyName};
use spindle_config::Plan;

use super::{error, refused};

/// A config that demands `feature` of `policy`.
fn demanding(policy: PolicyName, feature: Feature) -> String {
    let share = if policy.has_nominal_rate() { "20/s" } else { "30%" };
    let rate = "nominal_rate = \"60/s\"\n";
    let drive = if feature == Feature::Flash { "samsung-870evo-1t" } else { "hgst-7k8" };
    let nominal = if policy.has_nominal_rate() { rate } else { "" };
    let disk = match feature {
        Feature::Preemptible => "execution = \"preemptible\"\nchunk = \"256KiB\"\n",
        Feature::Depth => "depth = 4\n",
        Feature::Chooser => "chooser = \"sweep\"\n",
        _ => "",
    };
    let volume = match feature {
        Feature::Reserve => format!("reserve = \"{share}\"\n"),
        Feature::Limit => format!("limit = \"{share}\"\n"),
        Feature::Weight => "weight = 2\n".to_owned(),
        Feature::Priority => "priority = \"high\"\n".to_owned(),
        Feature::Rate => "iops = \"10/s\"\nrun = 4\n".to_owned(),
        Feature::Stream => "stream = { bandwidth = \"1MB/s\", block = \"1MB\" }\n".to_owned(),
        Feature::Latency => {
            "latency = { within = \"200ms\", requests = \"5/s\", size = \"64KiB\" }\n".to_owned()
        }
        Feature::Preemptible | Feature::Flash | Feature::Depth | Feature::Chooser => String::new(),
    };
    format!(
        "[[disk]]\nname = \"d0\"\ndrive = \"{drive}\"\npolicy = \"{policy}\"\n{nominal}{disk}\
         [[volume]]\nname = \"v\"\ndisk = \"d0\"\nsize = \"1GiB\"\n{volume}"
    )
}

#[test]
fn a_policy_is_refused_what_it_does_not_keep_and_nothing_else() {
    for policy in PolicyName::ALL {
        for feature in Feature::ALL {
            let parsed = Plan::parse(&demanding(policy, feature), "plan.toml", Path::new("")).err();
            let said = parsed.map(|error| error.to_string());
            assert_eq!(said.is_none(), policy.keeps(feature), "{policy}, {feature}: {said:?}");
            if let Some(said) = said {
                let parts = ["plan.toml:", ": field `", ": found ", ", expected "];
                assert!(parts.iter().all(|part| said.contains(part)), "{said}");
            }
        }
    }
}

const FCFS: &str = "[[disk]]\nname = \"d0\"\ndrive = \"hgst-7k8\"\npolicy = \"fcfs\"\n";
const VOLUME: &str = "[[volume]]\nname = \"v\"\ndisk = \"d0\"\nsize = \"1GiB\"\n";

#[test]
fn a_refusal_names_the_policy_and_those_that_keep_the_contract() {
    for (line, field, found, keeping) in [
        (
            "reserve = \"30%\"\n",
            "reserve",
            "30%",
            "\"throughput\", \"utilization\", \"edf\", \"lst\", \"delta-l\", \"delta-star\", \
             \"spindle\"",
        ),
        ("limit = \"30%\"\n", "limit", "30%", "\"throughput\", \"utilization\", \"spindle\""),
        (
            "bandwidth = \"100KB/s\"\n",
            "bandwidth",
            "100KB/s",
            "\"utilization\", \"edf\", \"lst\", \"delta-l\", \"delta-star\", \"spindle\"",
        ),
    ] {
        assert_eq!(
            refused(&[FCFS, VOLUME], line),
            format!(
                "plan.toml:1: [[volume]] \"v\": field `{field}`: found `{found}`, expected no \
                 `{field}` on disk \"d0\": its policy \"fcfs\" keeps none ({keeping} do)"
            )
        );
    }
}

#[test]
fn a_simulation_may_show_that_a_policy_does_not_keep_a_reserve() {
    let text = format!("{FCFS}unkept_contracts = \"allowed\"\n{VOLUME}reserve = \"30%\"\n");
    let plan = Plan::parse(&text, "plan.toml", Path::new("")).expect("it is allowed");
    assert!(plan.disks[0].unkept_contracts);
    let error = plan.for_serve().expect_err("a daemon keeps what it accepts");
    assert_eq!(
        error.to_string(),
        "plan.toml:1: [[disk]] \"d0\": field `unkept_contracts`: found `allowed`, expected \
         \"refused\", or no such field: a daemon keeps each contract that it accepts"
    );
}

#[test]
fn another_word_for_unkept_contracts_is_refused() {
    assert_eq!(
        error(&format!("{FCFS}unkept_contracts = \"yes\"\n")).to_string(),
        "plan.toml:5: [[disk]] \"d0\": field `unkept_contracts`: found `yes`, expected \
         \"refused\", or for experiments \"allowed\""
    );
}

#[test]
fn a_pool_on_a_disk_that_keeps_no_reserves_has_none_of_its_own() {
    assert_eq!(
        refused(&[FCFS, "[pool]\ndisks = [\"d0\"]\n"], "metadata_share = \"5%\"\n"),
        "plan.toml:1: [pool]: field `metadata_share`: found `5%`, expected no `metadata_share` on \
         disk \"d0\": its policy \"fcfs\" keeps none (\"throughput\", \"utilization\", \"edf\", \
         \"lst\", \"delta-l\", \"delta-star\", \"spindle\" do)"
    );
}

#[test]
fn reads_in_rotational_waits_need_a_chooser_that_predicts() {
    let with = |keys: &str| {
        let text =
            format!("[[disk]]\nname = \"d0\"\ndrive = \"hgst-7k8\"\nfreeblock = true\n{keys}");
        Plan::parse(&format!("{text}{VOLUME}"), "plan.toml", Path::new(""))
    };
    let plan = with("").expect("the chooser predicts by default");
    assert!(plan.disks[0].freeblock && plan.disks[0].settings().freeblock);
    for (keys, chooser) in [
        ("chooser = \"sweep\"\n", "sweep"),
        ("policy = \"fcfs\"\n", "arrival"),
        ("execution = \"preemptible\"\n", "arrival"),
    ] {
        let said = with(keys).expect_err("nothing predicts").to_string();
        let expected = format!(
            "plan.toml:4: [[disk]] \"d0\": field `freeblock`: found `true`, expected false: \
             rotational waits are predicted under chooser = \"predicted\" alone, from a profile or \
             a drive file, and the chooser is \"{chooser}\""
        );
        assert_eq!(said, expected);
    }
}

#[test]
fn a_short_read_moves_the_arm_only_where_no_seek_command_does() {
    let with = |drive: &str, approach: &str| {
        let text = format!(
            "[[disk]]\nname = \"d0\"\ndrive = \"{drive}\"\nexecution = \"preemptible\"\n\
             approach = \"{approach}\"\n"
        );
        Plan::parse(&text, "plan.toml", Path::new(""))
    };
    for approach in ["ahead", "transfer", "in-time"] {
        for drive in ["hgst-7k8", "st318437lw"] {
            with(drive, approach).unwrap_or_else(|error| panic!("{drive}, {approach}: {error}"));
        }
    }
    with("hgst-7k8", "short-read").expect("it has no seek command");
    let said = with("st318437lw", "short-read").expect_err("it has one").to_string();
    let expected = "plan.toml:5: [[disk]] \"d0\": field `approach`: found `short-read`, \
                    expected \"ahead\": the drive has a seek command";
    assert_eq!(said, expected);
}
