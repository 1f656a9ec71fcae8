//! `[[workload]]` tables with `access = "trace"`.

use super::*;

/// The plan or the message of a trace workload with these lines. Its directory has a trace `t` with
/// two reads, of devices 3 and 4: 8 sectors up to the volume's end, at sector 2,097,144, and one
/// read beyond.
fn traced(name: &str, lines: &str) -> Result<Plan, String> {
    let directory = std::env::temp_dir().join(format!("spindle-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a scratch directory");
    let trace = "spindle trace 1\n5 R 2097144 8 3\n9 R 2097145 8 4\n";
    std::fs::write(directory.join("t"), trace).expect("a scratch file");
    let text = [DISK, VOLUME, "[[workload]]\nvolume = \"v\"\naccess = \"trace\"\n", lines].concat();
    let plan = Plan::parse(&text, "plan.toml", &directory);
    let said = plan.map_err(|error| {
        let before = (DISK.lines().count() + VOLUME.lines().count()) as u64;
        let own = error.line().expect("a line") as u64 - before;
        let said = error.to_string().replace(&directory.display().to_string(), "HERE");
        let from = said.find(": ").expect("a place");
        format!("{own}{}", &said[from..])
    });
    std::fs::remove_dir_all(&directory).expect("it was there");
    said
}

fn expect(name: &str, lines: &str, said: &str) {
    let message = traced(name, lines).expect_err("is refused");
    let (line, rest) = said.split_once(": ").expect("a line");
    assert_eq!(message, format!("{line}: [[workload]] #1: {rest}"));
}

#[test]
fn a_trace_is_a_workload() {
    let plan = traced("good", "file = \"t\"\ndevice = 3\nscale = 0.5\n").expect("sound");
    let spindle_config::Requests::Trace(replay) = &plan.workloads[0].requests else {
        panic!("not a trace: {plan:?}")
    };
    assert!(replay.path.ends_with("t"));
    assert_eq!((replay.options.device, replay.scale.to_string()), (Some(3), "0.5".into()));
    assert_eq!(replay.options.capacity, Some(units::Sectors(2_097_152)));
    let plan =
        traced("modulo", "file = \"t\"\nscale = \"2\"\nremap = \"modulo\"\n").expect("sound");
    let spindle_config::Requests::Trace(replay) = &plan.workloads[0].requests else {
        panic!("not a trace: {plan:?}")
    };
    assert_eq!((replay.options.capacity, replay.scale.to_string()), (None, "2".into()));
}

#[test]
fn without_a_file_or_with_a_missing_one() {
    expect("none", "", "1: field `file`: found nothing, expected the path of a trace");
    expect(
        "gone",
        "file = \"gone\"\n",
        "4: field `file`: found `gone`, expected a trace that can be replayed (HERE/gone: found \
         No such file or \
         directory (os error 2), expected a file that can be read)",
    );
}

#[test]
fn whose_first_request_passes_the_end_of_the_volume() {
    expect(
        "end",
        "file = \"t\"\ndevice = 4\n",
        "4: field `file`: found `t`, expected a trace that can be replayed (HERE/t:3: found a \
         read of sectors \
         2097145+8, expected a disk of 2097152 sectors to hold them)",
    );
}

#[test]
fn without_a_request_to_the_device() {
    let said = "4: field `file`: found `t`, expected a trace with a request to this device";
    expect("device", "file = \"t\"\ndevice = 5\n", said);
}

#[test]
fn with_an_invalid_format_scale_or_remap() {
    let mut said = "5: field `format`: found `csv`, expected one of the formats ".to_owned();
    said += "spindle, hp-srt, disksim-ascii, disksim-validate, blkparse, blkparse-issue, fio-v2, \
         fio-v3, msr, \
             vscsi, alicloud, tencent";
    expect("format", "file = \"t\"\nformat = \"csv\"\n", &said);
    for scale in ["0", "-1", "101", "1e2", "nan", "true"] {
        let said = format!(
            "5: field `scale`: found `{scale}`, expected a factor above 0 and up to 100, such as \
             0.5 (twice as fast)"
        );
        expect("scale", &format!("file = \"t\"\nscale = {scale}\n"), &said);
    }
    let said = "5: field `remap`: found `wrap`, expected \"refuse\" or \"modulo\"";
    expect("remap", "file = \"t\"\nremap = \"wrap\"\n", said);
}

#[test]
fn with_keys_that_the_trace_determines() {
    let said = "5: field `rate`: found `1/s`, expected no such field: with access = \"trace\" \
         the trace says it";
    expect("rate", "file = \"t\"\nrate = \"1/s\"\n", said);
    let said = "5: field `op`: found `read`, expected no such field: with access = \"trace\" the \
         trace says it";
    expect("op", "file = \"t\"\nop = \"read\"\n", said);
}

#[test]
fn a_file_without_a_trace() {
    assert_eq!(
        workload("outstanding = 1\nfile = \"t\"\n"),
        "plan.toml:2: [[workload]] #1: field `file`: found `t`, expected no such field, or \
         access = \"trace\""
    );
}
