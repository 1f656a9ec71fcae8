//! Clients of other projects, each with all requests that it supports.

use std::os::unix::fs::FileExt;
use std::process::{Child, Command};

use nbd::client::Client;
use rustix::process::{Pid, Signal, kill_process};
use testkit::{Export, Scratch, Server, client, config, noise, run, succeed};
use units::{Extent, Lba, Operation, Sectors};

const MIB: usize = 1 << 20;

fn serve(scratch: &Scratch) -> Server {
    Server::unix(scratch.path(), &scratch.write("plan.toml", config("ram")))
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn nbdinfo_reports_supported_and_unsupported_requests() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let uri = server.uri("a");
    let can = [
        "connect",
        "read",
        "write",
        "df",
        "fast-zero",
        "flush",
        "fua",
        "multi-conn",
        "trim",
        "zero",
    ];
    for ability in can.into_iter().chain(["structured-reply"]) {
        succeed("nbdinfo", &["--can", ability, &uri], scratch.path());
    }
    succeed("nbdinfo", &["--is", "rotational", &uri], scratch.path());
    for (question, ability) in [("--can", "cache"), ("--is", "read-only"), ("--is", "tls")] {
        let mut command = client("nbdinfo");
        command.args([question, ability, &uri]);
        // Exit code 2 means "no"; 1 would be an error.
        assert_eq!(run(command, scratch.path()).code, Some(2), "{question} {ability}");
    }
    let totals = succeed("nbdinfo", &["--map", "--totals", &uri], scratch.path());
    assert!(totals.contains("100.0%") && totals.contains("hole,zero"), "{totals}");
    server.stop();
}

#[test]
fn nbdcopy_copies_in_all_its_modes_between_files_and_volumes() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let mut image = noise(32 * MIB, 5);
    image[2 * MIB..9 * MIB].fill(0);
    image[20 * MIB + 4_096..20 * MIB + 12_288].fill(0);
    scratch.write("image.raw", &image);
    let (a, b) = (server.uri("a"), server.uri("b"));
    let ways: [&[&str]; 6] = [
        &["--connections=1", "--requests=1"],
        &["--connections=4", "--requests=64", "--flush"],
        &["--synchronous"],
        &["--sparse=4096", "--threads=2"],
        &["--sparse=0", "--allocated"],
        &["--request-size=4194304", "--no-extents"],
    ];
    for way in ways {
        // The destination has other data first, so that zeroes must be written too.
        succeed("qemu-io", &["-f", "raw", "-c", "write -P 0xee 0 32M", &b], scratch.path());
        succeed("nbdcopy", &[way, &["image.raw", &b]].concat(), scratch.path());
        succeed("nbdcopy", &[way, &[&b, "back.raw"]].concat(), scratch.path());
        let back = std::fs::read(scratch.join("back.raw")).expect("a copy");
        assert!(back == image, "{way:?}");
        // From one volume to a larger one.
        succeed("nbdcopy", &[way, &[&b, &a]].concat(), scratch.path());
        std::fs::remove_file(scratch.join("back.raw")).expect("it is there");
    }
    succeed("nbdcopy", &[&a, "a.raw"], scratch.path());
    let copied = std::fs::read(scratch.join("a.raw")).expect("a copy");
    assert!(copied[..32 * MIB] == image && copied[32 * MIB..].iter().all(|byte| *byte == 0));
    server.stop();
}

#[test]
fn lengths_that_are_not_whole_sectors_are_copied_written_and_zeroed() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let a = server.uri("a");
    let image = noise(3 * MIB + 317, 8);
    scratch.write("odd.raw", &image);
    succeed("nbdcopy", &["odd.raw", &a], scratch.path());
    succeed("nbdcopy", &[&a, "back.raw"], scratch.path());
    let back = std::fs::read(scratch.join("back.raw")).expect("a copy");
    assert!(back[..image.len()] == image && back[image.len()..].iter().all(|byte| *byte == 0));
    let steps = [
        "write -P 0x11 0 4096",
        "write -P 0x22 100 1000",
        "write -z 300 700",
        "write -f -P 0x33 511 2",
        "read -P 0x11 0 100",
        "read -P 0x22 100 200",
        "read -P 0 300 211",
        "read -P 0x33 511 2",
        "read -P 0 513 487",
        "read -P 0x22 1000 100",
        "read -P 0x11 1100 2996",
        "discard 5 3000",
        "flush",
    ];
    let steps = steps.iter().flat_map(|step| ["-c", step]);
    let arguments: Vec<&str> = ["-f", "raw"].into_iter().chain(steps).chain([&*a]).collect();
    let output = succeed("qemu-io", &arguments, scratch.path());
    assert!(!output.contains("verification failed"), "{output}");
    server.stop();
}

#[test]
fn a_volume_mounted_as_a_file_is_written_and_read() {
    if std::fs::File::open("/dev/fuse").is_err() {
        eprintln!("SKIPPED: /dev/fuse cannot be opened here");
        return;
    }
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let file = scratch.join(&scratch.write("disk", ""));
    let mut command = client("nbdfuse");
    command.args(["disk", &server.uri("a")]).current_dir(scratch.path());
    let mut mounted = Running(command.spawn().expect("it is installed"));
    while std::fs::metadata(&file).expect("it is there").len() != 64 << 20 {
        assert!(mounted.0.try_wait().expect("a child").is_none(), "it ended before it mounted");
        std::thread::yield_now();
    }
    let data = noise(8 * MIB, 7);
    let disk = std::fs::File::options().read(true).write(true).open(&file).expect("it is mounted");
    disk.write_all_at(&data, 3 << 20).expect("written");
    disk.sync_all().expect("flushed");
    let mut back = vec![0; data.len()];
    disk.read_exact_at(&mut back, 3 << 20).expect("read");
    assert!(back == data);
    // A write of a few bytes reaches the server unaligned.
    disk.write_all_at(b"few", (1 << 20) + 509).expect("written");
    let mut around = [9; 5];
    disk.read_exact_at(&mut around, (1 << 20) + 508).expect("read");
    assert_eq!(&around, b"\0few\0");
    // The kernel aligns reads of any length.
    let mut few = [0; 7];
    disk.read_exact_at(&mut few, (3 << 20) + 1_021).expect("read");
    assert!(few == data[1_021..1_028]);
    drop(disk);
    kill_process(Pid::from_child(&mounted.0), Signal::TERM).expect("it runs");
    mounted.0.wait().expect("a child");
    assert_eq!(std::fs::metadata(&file).expect("it is there").len(), 0, "it has unmounted");
    server.stop();
}

#[test]
fn qemu_img_maps_compares_and_measures_a_volume() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let (a, b) = (server.uri("a"), server.uri("b"));
    let image = noise(32 * MIB, 6);
    scratch.write("image.raw", &image);
    for target in [&a, &b] {
        let convert =
            ["convert", "-n", "-W", "-m", "8", "-f", "raw", "-O", "raw", "image.raw", target];
        succeed("qemu-img", &convert, scratch.path());
    }
    // The larger one has zeroes after the image.
    let output =
        succeed("qemu-img", &["compare", "-f", "raw", "-F", "raw", &a, &b], scratch.path());
    assert!(output.contains("identical"), "{output}");
    let info = succeed("qemu-img", &["info", "--output=json", &a], scratch.path());
    assert!(info.contains("67108864"), "{info}");
    succeed(
        "qemu-img",
        &["bench", "-f", "raw", "-c", "200", "-d", "8", "-s", "4k", &a],
        scratch.path(),
    );
    let bench = ["bench", "-f", "raw", "-w", "--pattern=65", "-c", "64", "-d", "4", "-s", "64k"];
    succeed("qemu-img", &[&bench[..], &["--flush-interval=8", &b]].concat(), scratch.path());
    let read = ["-f", "raw", "-c", "read -P 65 0 4M", &b];
    succeed("qemu-io", &read, scratch.path());
    server.stop();
}

#[test]
fn qemu_io_zeroes_and_discards_unaligned_ranges_and_forces_and_flushes() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let commands = [
        "write -P 1 0 1M",
        "write -P 7 3 5",
        "read -P 7 3 5",
        "write -P 9 511 2",
        "read -P 9 511 2",
        "read -P 1 513 100",
        "write -z 1000 10000",
        "read -P 0 1000 10000",
        "read -P 1 11000 5000",
        "write -z -u -f 128k 64k",
        "read -P 0 128k 64k",
        "write -f -P 5 64k 4k",
        "aio_write -P 6 256k 64k",
        "aio_write -P 6 320k 64k",
        "aio_flush",
        "read -P 6 256k 128k",
        "writev -P 3 512k 4k 8k 1k",
        "readv -P 3 512k 1k 8k 4k",
        "discard 700k 1k",
        "flush",
        "read -P 1 768k 1k",
        "length",
        "map",
    ];
    for cache in ["writeback", "writethrough", "none"] {
        let mut arguments = vec!["-f", "raw", "-t", cache];
        arguments.extend(commands.iter().flat_map(|command| ["-c", command]));
        let uri = server.uri("a");
        arguments.push(&uri);
        let output = succeed("qemu-io", &arguments, scratch.path());
        assert!(!output.contains("verification failed"), "{cache}: {output}");
    }
    server.stop();
}

#[test]
fn a_client_that_reconnects_sees_a_restart_as_a_pause() {
    let scratch = Scratch::new();
    let plan = scratch.write("plan.toml", config("disk.img"));
    let server = Server::unix(scratch.path(), &plan);
    let again = Export::start(&server, scratch.path());
    let address = format!("unix:{}", scratch.join("again.sock").display());
    let mut client = Client::connect(&address.parse().expect("an address")).expect("it listens");
    client.go("a").expect("it is exported");
    let extent = |block: u64| Extent::new(Lba(8 * block), Sectors(8));
    client.write(extent(0), &[1; 4_096]).expect("written");
    client.flush().expect("flushed");
    server.stop();
    // Requested while no daemon serves.
    for block in 1..8_u8 {
        let write = Operation::write(extent(u64::from(block)));
        client.send(block.into(), write, &[block + 1; 4_096]).expect("sent");
    }
    let server = Server::unix(scratch.path(), &plan);
    for _ in 1..8 {
        client.receive().expect("an answer").result.expect("a pause, and no error");
    }
    for block in 0..8_u8 {
        let read = client.read(extent(u64::from(block))).expect("read");
        assert!(read == [block + 1; 4_096], "block {block}");
    }
    client.flush().expect("flushed");
    client.disconnect().expect("goodbye");
    drop(again);
    server.stop();
    let file = std::fs::File::open(scratch.join("disk.img")).expect("the backing");
    let mut block = [0; 4_096];
    file.read_exact_at(&mut block, 7 * 4_096).expect("read");
    assert!(block == [8; 4_096]);
}

#[test]
fn nbd_client_lists_the_volumes() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let path = server.address.strip_prefix("unix:").expect("a Unix socket");
    // `/usr/sbin` may be missing from PATH.
    let mut command = Command::new("/usr/sbin/nbd-client");
    command.args(["-unix", path, "-l"]);
    let ran = run(command, scratch.path());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let names: Vec<_> = ran.stdout.lines().filter_map(|line| line.split(':').next()).collect();
    assert!(names.contains(&"a") && names.contains(&"b"), "{}", ran.stdout);
    server.stop();
}
