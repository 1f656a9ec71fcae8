//! `spindle profile` as a script sees it: refusals, files, and the figures of files and models.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use testkit::{Ran, Scratch, spindle};

/// A scratch directory on a file system that supports direct access, with a file of 16 MiB without
/// holes.
fn scratch() -> Scratch {
    let scratch = Scratch::new();
    let mut file = std::fs::File::create(scratch.join("disk.img")).expect("a scratch file");
    file.write_all(&vec![7; 16 << 20]).expect("room");
    file.sync_all().expect("it is written");
    scratch
}

fn refused(directory: &Path, arguments: &[&str]) -> String {
    let ran = spindle(directory, arguments);
    assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.stderr);
    assert_eq!(ran.stdout, "", "{arguments:?}");
    ran.stderr
}

fn succeed(directory: &Path, arguments: &[&str]) -> Ran {
    let ran = spindle(directory, arguments);
    assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
    ran
}

#[test]
fn an_unmeasurable_target_is_refused_with_the_accepted_ones() {
    let scratch = scratch();
    let mut partitioned = vec![0; 4 << 20];
    partitioned[510..512].copy_from_slice(&[0x55, 0xaa]);
    scratch.write("table.img", partitioned);
    scratch.write("small.img", [0; 512]);
    scratch.write("odd.toml", "schema = 9\n");
    let table: &[(&[&str], &str)] = &[
        (&["profile"], "required"),
        (&["profile", "/no/such"], "/no/such: expected a device or a file that can be opened"),
        (&["profile", "/dev/null"], "/dev/null: expected a block device or a regular file"),
        (&["profile", "."], ".: expected a block device or a regular file"),
        (&["profile", "small.img"], "small.img: holds 512B, expected at least 1MiB"),
        (
            &["profile", "disk.img", "--write", "disk2.img"],
            "--write: found `disk2.img`, expected `disk.img`, the device again",
        ),
        (
            &["profile", "table.img", "--write", "table.img"],
            "it begins with a boot sector or a table of partitions",
        ),
        (&["profile", "--emulated", "no-such"], "no drive `no-such`: expected one of"),
        (
            &["profile", "disk.img", "--noise", "1ms"],
            "--noise and --seed: expected --simulated DRIVE",
        ),
        (&["profile", "disk.img", "--emulated", "hgst-7k8"], "cannot be used with"),
        (
            &["profile", "disk.img", "--budget", "1ms"],
            "--budget: found `1ms`, expected a time from 1s to 24h",
        ),
        (&["profile", "disk.img", "--budget", "soon"], "found `soon`, expected a time such as"),
        (&["profile", "disk.img", "-o", "no/such/dir.toml"], "no/such/dir.toml: "),
        (&["profile", "disk.img", "-o", "odd.toml"], "odd.toml:1: field `schema`: found `9`"),
        (&["profile", "disk.img", "--resume", "none.toml"], "none.toml: found"),
        (&["profile", "nbd+unix:///x"], "expected nbd+unix:///EXPORT?socket=PATH"),
        (&["profile", "nbd+unix:///x?socket=no.sock"], "No such file"),
        (&["profile", "show", "disk.img"], "disk.img:1: "),
        (&["profile", "compare", "odd.toml", "odd.toml"], "odd.toml:1: "),
        (&["drive", "import", "--profile", "odd.toml"], "odd.toml:1: "),
    ];
    for (arguments, expected) in table {
        let message = refused(scratch.path(), arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn a_file_is_measured_shown_compared_and_resumed() {
    let scratch = scratch();
    // The run ends before that: the budget is for a busy machine, on which 6 s were too few.
    let measure = ["profile", "disk.img", "--quick", "--budget", "60s", "-o", "p.toml"];
    let Ran { stdout: shown, stderr: message, .. } = succeed(scratch.path(), &measure);
    assert!(shown.contains("not rotating"), "{shown}");
    assert!(message.contains("not rotating"), "reported before the figures: {message}");
    let text = std::fs::read_to_string(scratch.join("p.toml")).expect("it was written");
    assert!(text.contains("non_rotating = true") && !text.contains("[found.geometry]"), "{text}");
    // Nothing was written to the file.
    let bytes = std::fs::read(scratch.join("disk.img")).expect("it is there");
    assert!(bytes.iter().all(|byte| *byte == 7));

    let json = succeed(scratch.path(), &["profile", "show", "p.toml", "--json"]).json();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["profile"]["device"]["name"], "disk.img");

    let same = succeed(scratch.path(), &["profile", "compare", "p.toml", "p.toml"]).stdout;
    assert!(same.contains("0 figures differ"), "{same}");
    let other = text.replace("non_rotating = true", "non_rotating = false");
    scratch.write("other.toml", other);
    let differs = spindle(scratch.path(), &["profile", "compare", "p.toml", "other.toml"]);
    assert_eq!(differs.code, Some(0), "`false` is the same as no finding: {differs:?}");

    // Completed stages stay; another device's profile is not changed.
    succeed(scratch.path(), &measure);
    let again = std::fs::read_to_string(scratch.join("p.toml")).expect("it is there");
    assert!(again.contains("done = [\"rotation\""), "{again}");
    std::fs::copy(scratch.join("disk.img"), scratch.join("disk2.img")).expect("a copy");
    let message = refused(scratch.path(), &["profile", "disk2.img", "-o", "p.toml"]);
    assert!(
        message.contains("is a profile of disk.img, expected one of disk2.img, or --fresh"),
        "{message}"
    );
}

#[test]
fn an_interrupted_run_leaves_a_valid_profile() {
    let scratch = scratch();
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    // On a rotating drive the first stage takes seconds in real time.
    command.args(["profile", "--emulated", "cheetah9LP", "-o", "p.toml"]);
    command.current_dir(scratch.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("it was built");
    // The probe file beside the profile's path is removed before the measurement begins, when the
    // signal handlers are installed. The kernel reports whether they are.
    let pid = child.id();
    let caught = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim);
        let mask = line.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
        mask & (1 << 1) != 0 && mask & (1 << 14) != 0
    };
    while !caught() {
        std::thread::yield_now();
    }
    let raw = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    kill_process(raw, Signal::INT).expect("it is ours");
    let ended = child.wait_with_output().expect("it ends").status;
    assert_eq!(ended.code(), Some(1));
    let shown = succeed(scratch.path(), &["profile", "show", "p.toml"]).stdout;
    assert!(shown.contains("until interrupted"), "{shown}");
}

#[test]
fn a_simulated_drive_gives_one_profile_for_one_seed() {
    let scratch = Scratch::new();
    let measure =
        ["profile", "--simulated", "samsung-870evo-1t", "--quick", "--noise", "5us", "--seed", "3"];
    let one = succeed(scratch.path(), &measure).stdout;
    assert_eq!(one, succeed(scratch.path(), &measure).stdout);
    scratch.write("p.toml", &one);
    // The drive that is made of the profile reproduces its rates within 5 %, at depth 1 and more.
    let rate = |name: &str, what: &str| {
        let shown = succeed(scratch.path(), &["drive", "show", name, "--json"]).json();
        shown[what].as_f64().unwrap_or_else(|| panic!("{what}: {shown}"))
    };
    succeed(scratch.path(), &["drive", "import", "--profile", "p.toml", "-o", "own.toml"]);
    for what in ["random_read_4k_iops", "random_write_4k_iops"] {
        let (ours, theirs) = (rate("own.toml", what), rate("samsung-870evo-1t", what));
        assert!((ours / theirs - 1.0).abs() < 0.05, "{what}: {ours} for {theirs}");
    }
}

/// The line of a text that begins with `begins`.
fn line<'a>(text: &'a str, begins: &str) -> &'a str {
    text.lines().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("{begins}: {text}"))
}

/// `--at-least` measures uncertain stages of a profile again, not only missing ones.
#[test]
fn stages_with_figures_below_the_requested_confidence_are_measured_again() {
    let scratch = Scratch::new();
    let words = "profile --simulated hp_c3323a --noise 0.2ms --seed 2 --quick -o p.toml";
    let measure: Vec<&str> = words.split(' ').collect();
    let first = {
        succeed(scratch.path(), &measure);
        std::fs::read_to_string(scratch.join("p.toml")).expect("it was written")
    };
    // A complete profile, with a rotation period of low confidence.
    let stages = "rotation zones surfaces seeks overheads read-buffer write-buffer chunks depth \
                  prediction rates rate-limit";
    let stages: Vec<String> = stages.split(' ').map(|stage| format!("\"{stage}\"")).collect();
    let period = line(&first, "period = ");
    let doubted =
        format!("{}confidence = \"40%\" }}", period.split("confidence").next().expect("a figure"));
    let done = format!("done = [{}]", stages.join(", "));
    let doubtful = first.replace(line(&first, "done = "), &done).replace(period, &doubted);
    scratch.write("p.toml", &doubtful);
    let again = |more: &[&str]| {
        succeed(scratch.path(), &[&measure[..], more].concat());
        std::fs::read_to_string(scratch.join("p.toml")).expect("it was written")
    };
    let kept = again(&[]);
    assert_eq!(line(&kept, "period = "), doubted, "what is done is left as it is");
    let sure = again(&["--at-least", "60%"]);
    assert_ne!(line(&sure, "period = "), doubted, "{sure}");
}

/// A loop device over a file, detached when dropped.
struct Loop(String);

impl Loop {
    /// `None` without the privilege to attach one.
    fn over(file: &Path) -> Option<Self> {
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show", "--read-only"]).arg(file);
        let made = losetup.output().ok().filter(|made| made.status.success())?;
        Some(Self(String::from_utf8(made.stdout).ok()?.trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_loop_device_has_no_geometry_and_is_not_written_under() {
    let scratch = scratch();
    let Some(device) = Loop::over(&scratch.join("disk.img")) else {
        eprintln!("skipped: no loop device can be made here (losetup, as root)");
        return;
    };
    let measure = ["profile", &device.0, "--quick", "--budget", "2s"];
    let text = succeed(scratch.path(), &measure).stdout;
    assert!(text.contains("non_rotating = true") && !text.contains("[found.geometry]"), "{text}");
    let message = refused(scratch.path(), &["profile", "disk.img", "--write", "disk.img"]);
    assert!(message.contains("is built on it"), "{message}");
}

#[test]
fn disks_are_measured_alone_and_together_and_those_that_cannot_be_are_refused() {
    let scratch = scratch();
    let path = scratch.path();
    let one = "disk.img";
    std::fs::copy(scratch.join(one), scratch.join("other.img")).expect("room");
    assert!(refused(path, &["profile", "bus", one]).contains("DEVICES"));
    assert!(refused(path, &["profile", "bus", one, one]).contains("each device once"));
    assert!(refused(path, &["profile", "bus", one, "none.img"]).contains("none.img"));
    let short = refused(path, &["profile", "bus", one, "other.img", "--time", "1ms"]);
    assert!(short.contains("from 100ms to 10m"), "{short}");
    let measured = ["profile", "bus", one, "other.img", "--time", "100ms", "--json"];
    let told = succeed(path, &measured).json();
    let devices = told["devices"].as_array().expect("a list");
    assert_eq!(devices.len(), 2, "{told}");
    for device in devices {
        assert!(device["alone_bytes_per_s"].as_u64() > Some(0), "{told}");
        assert!(device["together_bytes_per_s"].as_u64() > Some(0), "{told}");
        let bandwidth = told["bandwidth_bytes_per_s"].as_u64();
        assert_eq!(device["shares_bus"].as_bool(), Some(bandwidth.is_some()), "{told}");
    }
}
