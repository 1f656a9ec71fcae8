//! Preemptible execution under real clients: nothing is lost, and preemptions are counted.

use nbd::client::Client;
use serde_json::Value;
use testkit::{Scratch, Server, client, config, noise, run, spindle, succeed};
use units::{Extent, Lba, Operation, Sectors};

const MIB: usize = 1 << 20;
/// The urgent reads of a test.
const READS: u64 = 60;
/// Sectors in 1 MiB.
const LONG: u64 = 2_048;
/// The rotation period of the drive that these tests use, in seconds.
const ROTATION_S: f64 = 60.0 / 7_200.0;

/// One disk with preemptible execution, a volume, and a high-priority volume with the same sectors.
const PLAN: &str = r#"[[disk]]
name = "d0"
drive = "st318437lw"
backing = "ram"
policy = "fcfs"
execution = "preemptible"

[[volume]]
name = "a"
disk = "d0"
size = "64MiB"

[[volume]]
name = "urgent"
disk = "d0"
same_as = "a"
priority = "high"
"#;

fn serve(scratch: &Scratch) -> Server {
    Server::unix(scratch.path(), &scratch.write("plan.toml", PLAN))
}

fn open(server: &Server, export: &str) -> Client {
    let address = server.address.parse().expect("an address");
    let mut client = Client::connect(&address).expect("it listens");
    client.go(export).expect("it is served");
    client
}

fn executed(served: &Value, counter: &str) -> u64 {
    served["disks"][0]["execution"][counter].as_u64().unwrap_or_else(|| panic!("{served}"))
}

/// The 1 MiB with this number, modulo 64.
fn long(number: u64) -> Extent {
    Extent::new(Lba(number % 64 * LONG), Sectors(LONG))
}

/// Reads through both volumes what was written, with eight long reads in flight at all times, so
/// that every urgent read preempts one of them.
fn read_back(scratch: &Scratch, server: &Server) {
    let image = noise(64 * MIB, 3);
    scratch.write("image", &image);
    succeed("nbdcopy", &["image", &server.uri("a")], scratch.path());
    let bytes = |extent: Extent| {
        let start = extent.start.0 * 512;
        let (start, len) = (start.try_into().expect("small"), extent.len.bytes_usize());
        let start: usize = start;
        &image[start..start + len]
    };
    let mut big = open(server, "a");
    let mut urgent = open(server, "urgent");
    let mut next = 0_u64;
    let mut send = |big: &mut Client| {
        let number = next * 29;
        next += 1;
        big.send(number, Operation::read(long(number)), &[]).expect("it is sent");
    };
    (0..8).for_each(|_| send(&mut big));
    for read in 0..READS {
        let small = Extent::new(Lba(read * 7_919 % 131_000), Sectors(8));
        assert!(urgent.read(small).expect("it is read") == bytes(small), "urgent read {read}");
        let done = big.receive().expect("an answer");
        assert!(done.result.expect("it is read") == bytes(long(done.cookie)), "{}", done.cookie);
        send(&mut big);
    }
    for _ in 0..8 {
        let done = big.receive().expect("an answer");
        assert!(done.result.expect("it is read") == bytes(long(done.cookie)), "{}", done.cookie);
    }
}

#[test]
fn long_reads_are_complete_although_a_high_priority_volume_preempts_them() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    read_back(&scratch, &server);
    let served = server.stop().json();
    assert_eq!(served["volumes"][1]["requests"], READS);
    assert!(executed(&served, "preempted") > 0, "{served}");
    assert!(executed(&served, "timed") > 0, "{served}");
}

#[test]
fn short_reads_that_move_the_arm_are_no_clients_data_and_are_counted_as_seeks() {
    let scratch = Scratch::new();
    let plan = PLAN.replace("st318437lw", "hgst-7k8");
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", plan));
    read_back(&scratch, &server);
    let served = server.stop().json();
    assert_eq!(served["volumes"][1]["requests"], READS);
    assert!(executed(&served, "seeks") > 0, "{served}");
}

/// A file stands for the disk: it answers before a drive could, so that its predictions fail and
/// seeks are soon not timed.
#[test]
fn disk_ls_says_how_the_arm_of_a_real_disk_is_moved_and_why() {
    let scratch = Scratch::beside();
    let profile = ["profile", "--simulated", "deskstar-34gxp", "-o", "profile.toml"];
    assert_eq!(spindle(scratch.path(), &profile).code, Some(0));
    let file = std::fs::File::create(scratch.join("disk.img")).expect("a file");
    file.set_len(20_514_816_000).expect("a sparse one of the drive's size");
    let real = "path = \"disk.img\"\nbuffered = true\nprofile = \"profile.toml\"";
    let plan = PLAN.replace("drive = \"st318437lw\"\nbacking = \"ram\"", real);
    for (approach, by, text) in [
        ("", "short-read", "by a short read: saves "),
        ("approach = \"transfer\"\n", "off", "off: a short read would save "),
        ("approach = \"in-time\"\n", "off", " off "),
    ] {
        let plan = plan.replace(
            "\n\n[[volume]]\nname = \"a\"",
            &format!("\n{approach}[[volume]]\nname = \"a\""),
        );
        let server = Server::unix(scratch.path(), &scratch.write("plan.toml", plan));
        if approach.is_empty() {
            read_back(&scratch, &server);
        }
        let json = spindle(scratch.path(), &["disk", "ls", "--json"]).json();
        assert_eq!(json["disks"][0]["seeks_ahead"]["by"], by, "{json}");
        let has_trade = json["disks"][0]["seeks_ahead"]["waiting_saved"].is_number();
        assert_eq!(has_trade, !approach.contains("in-time"), "{json}");
        let table = spindle(scratch.path(), &["disk", "ls"]).stdout;
        assert!(table.contains(text), "{table}");
        server.stop();
    }
}

#[test]
fn fio_reads_through_one_volume_what_it_wrote_through_the_other_while_both_wrote() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let (a, urgent) =
        (format!("--uri={}", server.uri("a")), format!("--uri={}", server.uri("urgent")));
    let all = ["--ioengine=nbd", "--verify=crc32c", "--verify_fatal=1", "--randseed=5"];
    let long = ["--bs=1m", "--iodepth=4", "--size=16m", "--rw=randwrite"];
    let short = ["--bs=4k", "--iodepth=2", "--size=1m", "--offset=32m", "--rw=randwrite"];
    let job = |name: &'static str, uri: &str, shape: &[&str]| {
        let mut job = vec![format!("--name={name}"), uri.to_owned()];
        job.extend(shape.iter().map(|&argument| argument.to_owned()));
        job
    };
    let fio = |more: &str, jobs: Vec<String>| {
        let mut arguments: Vec<String> = all.iter().map(|&all| all.to_owned()).collect();
        arguments.extend([more.to_owned()]);
        arguments.extend(jobs);
        let mut command = client("fio");
        command.args(arguments);
        let ran = run(command, scratch.path());
        assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    };
    let written = [job("long", &a, &long), job("short", &urgent, &short)].concat();
    fio("--do_verify=0", written);
    // The jobs read through the other volume each, and nothing is written.
    let read = [job("long", &urgent, &long), job("short", &a, &short)].concat();
    fio("--verify_only=1", read);
    let served = server.stop().json();
    assert_eq!(served["volumes"][0]["requests"].as_u64(), Some(16 + 256), "{served}");
    assert_eq!(served["volumes"][1]["requests"].as_u64(), Some(256 + 16), "{served}");
}

#[test]
fn long_forced_writes_wait_for_the_platter_split_into_chunks_or_not() {
    const WRITES: usize = 50;
    let scratch = Scratch::new();
    let preemptible = config("ram").replacen(
        "backing = \"ram\"",
        "backing = \"ram\"\nexecution = \"preemptible\"",
        1,
    );
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", preemptible));
    let mut arguments = vec!["-f".to_owned(), "raw".into(), "-t".into(), "writeback".into()];
    arguments
        .extend((0..WRITES).flat_map(|_| ["-c".to_owned(), "write -f -P 1 1M 256k".to_owned()]));
    arguments.push(server.uri("a"));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    succeed("qemu-io", &arguments, scratch.path());
    let served = server.stop().json();
    let revolutions = served["duration_s"].as_f64().expect("a number") / ROTATION_S;
    assert!(
        revolutions >= 49.0,
        "{WRITES} forced writes to one sector took {revolutions} revolutions"
    );
}

#[test]
fn an_unusable_just_in_time_setting_is_reported() {
    let scratch = Scratch::new();
    let plan = PLAN.replacen("execution", "depth = 4\nexecution", 1);
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", plan));
    let mut client = open(&server, "a");
    client.read(long(3)).expect("it is read");
    let ran = server.stop();
    assert!(ran.stderr.contains("disk d0: just-in-time seeks"), "{}", ran.stderr);
    assert_eq!(ran.json()["disks"][0]["execution"]["just_in_time"], false);
}

#[test]
fn a_simulation_reports_waiting_and_preemptions() {
    let load = |volume: &str, rest: &str| {
        format!("[[workload]]\nvolume = \"{volume}\"\nop = \"read\"\naccess = \"random\"\n{rest}\n")
    };
    let loads = load("a", "block = \"1MiB\"\noutstanding = 8")
        + &load("urgent", "block = \"4KiB\"\nrate = \"10/s\"");
    let scratch = Scratch::new();
    let scenario = format!("duration = \"20s\"\n{PLAN}{loads}");
    scratch.write("preemptible.toml", &scenario);
    scratch.write("whole.toml", scenario.replace("preemptible", "whole"));
    let report = |name: &str| {
        let ran = spindle(scratch.path(), &["sim", "run", "--json", name]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.json()
    };
    let (preemptible, whole) = (report("preemptible.toml"), report("whole.toml"));
    assert!(executed(&preemptible, "preempted") > 100, "{preemptible}");
    assert_eq!(whole["disks"][0].get("execution"), None, "{whole}");
    let waiting =
        |report: &Value| report["volumes"][1]["waiting_ms"]["mean"].as_f64().expect("a number");
    assert!(waiting(&preemptible) * 5.0 < waiting(&whole), "{preemptible}\n{whole}");
}
