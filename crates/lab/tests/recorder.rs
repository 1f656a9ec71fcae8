//! `spindle-lab recorder` as a script sees it.

use testkit::{Scratch, lab};

#[test]
fn the_recorder_exits_as_it_judges_whatever_the_policy() {
    let scratch = Scratch::new();
    for policy in ["delta-star", "fcfs"] {
        let arguments = ["recorder", "--policy", policy, "--seconds", "2", "--json"];
        let ran = lab(scratch.path(), &arguments);
        let shown = ran.json();
        assert_eq!(shown["schema"], stats::SCHEMA);
        assert_eq!(shown["policy"], policy);
        let streams = shown["streams"].as_array().expect("a list");
        assert_eq!(streams.len(), 17);
        let sum = |key: &str| streams.iter().filter_map(|stream| stream[key].as_u64()).sum::<u64>();
        assert_eq!(shown["blocks"], sum("blocks"));
        assert_eq!(shown["frames_dropped"], sum("frames_dropped"));
        assert!(sum("blocks") > 17, "{shown}");
        let holds = sum("frames_dropped") == 0;
        assert_eq!(shown["holds"], holds);
        assert_eq!(ran.code, Some(i32::from(!holds)), "{ran:?}");
    }
}

#[test]
fn a_policy_that_schedules_no_disk_of_its_own_or_is_unknown_is_bad_usage() {
    let scratch = Scratch::new();
    for policy in ["throughput", "best"] {
        let ran = lab(scratch.path(), &["recorder", "--policy", policy]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    }
}
