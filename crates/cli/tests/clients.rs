//! Real clients against a live server: they read back what they wrote, also after restarts and
//! kills.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};

use nbd::client::Client;
use rustix::process::Signal;
use serde_json::Value;
use testkit::{Scratch, Server, client, config, noise, run, succeed};
use units::{Extent, Lba, Operation, Sectors};

const MIB: usize = 1 << 20;
const A_BYTES: usize = 64 * MIB;
const B_BYTES: usize = 32 * MIB;
/// The rotation period of the drive that these tests use, in seconds.
const ROTATION_S: f64 = 60.0 / 7_200.0;

/// A server of two volumes in memory, on a Unix socket.
fn serve(scratch: &Scratch) -> Server {
    Server::unix(scratch.path(), &scratch.write("plan.toml", config("ram")))
}

/// A server of two volumes in the file `disk.img`.
fn serve_file(scratch: &Scratch) -> Server {
    Server::unix(scratch.path(), &scratch.write("plan.toml", config("disk.img")))
}

fn fio(directory: &Path, arguments: &[&str]) {
    let mut all = vec!["--ioengine=nbd", "--verify=crc32c", "--verify_fatal=1"];
    all.extend_from_slice(arguments);
    let said = succeed("fio", &all, directory);
    assert!(said.contains("READ: bw="), "it has read what it wrote: {said}");
}

fn qemu_io(directory: &Path, uri: &str, commands: &[&str]) {
    // By default this client forces every write to the medium.
    let mut arguments = vec!["-f", "raw", "-t", "writeback"];
    arguments.extend(commands.iter().flat_map(|command| ["-c", command]));
    arguments.push(uri);
    succeed("qemu-io", &arguments, directory);
}

/// Overwrites one block `times` times with these commands, and returns the time that the server
/// ran, in revolutions. A write to the medium completes at least one revolution after the one
/// before it.
fn revolutions(commands: &[&str], times: usize) -> f64 {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    qemu_io(scratch.path(), &server.uri("a"), &commands.repeat(times));
    server.stop().json()["duration_s"].as_f64().expect("a number") / ROTATION_S
}

#[test]
fn fio_reads_back_what_it_wrote_over_two_connections_at_once() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let uri = format!("--uri={}", server.uri("a"));
    let shape = ["--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=4m"];
    let jobs = ["--name=one", &uri, "--offset=0", "--name=two", &uri, "--offset=32m"];
    fio(scratch.path(), &[&shape[..], &jobs[..]].concat());
    server.stop();
}

#[test]
fn fio_reads_back_requests_of_all_sizes_between_its_syncs() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let uri = format!("--uri={}", server.uri("b"));
    let sizes = ["--bsrange=512-256k", "--blockalign=512", "--size=16m", "--iodepth=8"];
    let job = ["--rw=randwrite", "--fsync=8", "--name=sizes", &uri];
    fio(scratch.path(), &[&sizes[..], &job[..]].concat());
    server.stop();
}

#[test]
fn fio_reads_back_requests_that_are_longer_than_a_disk_command() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let uri = format!("--uri={}", server.uri("a"));
    let shape = ["--rw=randwrite", "--bs=5m", "--iodepth=2", "--size=30m", "--name=long", &uri];
    // A checksum every 4 KiB, which contains its offset, so that exchanged pieces are detected.
    fio(scratch.path(), &[&shape[..], &["--verify_interval=4k"]].concat());
    server.stop();
}

#[test]
fn fio_reads_back_what_it_wrote_over_tcp() {
    let scratch = Scratch::new();
    let plan = scratch.write("plan.toml", config("ram"));
    let server = Server::start(scratch.path(), &plan, &["--listen", "127.0.0.1:0"]);
    assert!(server.uri("a").starts_with("nbd://127.0.0.1:"), "{}", server.address);
    let uri = format!("--uri={}", server.uri("a"));
    let shape = ["--rw=randwrite", "--bs=16k", "--iodepth=4", "--size=4m", "--name=tcp", &uri];
    fio(scratch.path(), &shape);
    server.stop();
}

#[test]
fn an_image_converted_onto_a_volume_compares_equal() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let mut image = noise(B_BYTES, 1);
    image[5 * MIB..9 * MIB].fill(0);
    scratch.write("image.raw", &image);
    let uri = server.uri("b");
    // Without this option the client would not overwrite existing data with zeroes.
    qemu_io(scratch.path(), &uri, &["write -P 0xee 4M 4M"]);
    let convert = ["convert", "-n", "-f", "raw", "-O", "raw", "image.raw", &uri];
    succeed("qemu-img", &convert, scratch.path());
    // Not in strict mode, which compares allocation too: the volume has holes for the image's
    // zeroes.
    let compare = ["compare", "-f", "raw", "-F", "raw", "image.raw", &uri];
    let said = succeed("qemu-img", &compare, scratch.path());
    assert!(said.contains("identical"), "{said}");
    server.stop();
}

#[test]
fn nbdinfo_reports_sizes_and_abilities_of_every_volume() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let size = succeed("nbdinfo", &["--size", &server.uri("a")], scratch.path());
    assert_eq!(size.trim(), A_BYTES.to_string());
    let list = succeed("nbdinfo", &["--list", "--json", &server.uri("")], scratch.path());
    let list: Value = serde_json::from_str(&list).expect("JSON");
    let exports = list["exports"].as_array().expect("a list");
    for (export, (name, size)) in exports.iter().zip([("a", A_BYTES), ("b", B_BYTES)]) {
        assert_eq!((&export["export-name"], &export["export-size"]), (&name.into(), &size.into()));
        for ability in ["can_flush", "can_fua", "can_trim", "can_zero", "can_multi_conn"] {
            assert_eq!(export[ability], true, "{ability}: {export}");
        }
        assert_eq!(
            (&export["is_read_only"], &export["block_size_minimum"]),
            (&false.into(), &1.into())
        );
    }
    assert_eq!(exports.len(), 2);
    server.stop();
}

#[test]
fn a_name_without_a_volume_is_refused() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let mut command = client("nbdinfo");
    command.arg(server.uri("c"));
    let ran = run(command, scratch.path());
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    server.stop();
}

#[test]
fn volumes_share_no_byte_on_one_disk_or_on_two() {
    let scratch = Scratch::new();
    let second = config("ram")
        .replace("\"d0\"", "\"d1\"")
        .replace("\"a\"", "\"c\"")
        .replace("\"b\"", "\"d\"");
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", config("ram") + &second));
    let volumes = [("a", A_BYTES), ("b", B_BYTES), ("c", A_BYTES), ("d", B_BYTES)];
    for (seed, (name, size)) in (0..).zip(volumes) {
        let file = scratch.write(name, noise(size, seed));
        succeed("nbdcopy", &[&file, &server.uri(name)], scratch.path());
    }
    for (name, _) in volumes {
        succeed("nbdcopy", &[&server.uri(name), "back"], scratch.path());
        let read = |file: &str| std::fs::read(scratch.join(file)).expect("a copy");
        assert!(
            read(name) == read("back"),
            "volume {name} gives back other bytes than it was given"
        );
    }
    server.stop();
}

#[test]
fn qemu_io_reads_the_pattern_that_it_wrote_and_zeroes_around_it() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let commands = [
        "write -P 0xa5 1M 64k",
        "flush",
        "read -P 0xa5 1M 64k",
        "read -P 0 960k 64k",
        "read -P 0 1088k 64k",
    ];
    qemu_io(scratch.path(), &server.uri("a"), &commands);
    server.stop();
}

#[test]
fn zeroed_and_discarded_sectors_read_as_zeroes_and_their_neighbours_stay() {
    for backing in ["ram", "disk.img"] {
        let scratch = Scratch::new();
        let server = Server::unix(scratch.path(), &scratch.write("plan.toml", config(backing)));
        let commands = [
            "write -P 0xa5 0 1M",
            "write -z 4k 512",
            "write -z -u 8k 128k",
            "discard 512k 64k",
            "read -P 0xa5 0 4k",
            "read -P 0 4k 512",
            "read -P 0xa5 4608 3584",
            "read -P 0 8k 128k",
            "read -P 0xa5 136k 376k",
            "read -P 0 512k 64k",
            "read -P 0xa5 576k 448k",
        ];
        qemu_io(scratch.path(), &server.uri("a"), &commands);
        server.stop();
    }
}

#[test]
fn forced_writes_wait_for_the_platter() {
    let revolutions = revolutions(&["write -f -P 1 1M 4k"], 100);
    assert!(revolutions >= 99.0, "100 writes through to one block took {revolutions} revolutions");
}

#[test]
fn a_flush_waits_for_the_platter_where_the_cached_write_before_it_did_not() {
    let revolutions = revolutions(&["write -P 1 1M 4k", "flush"], 100);
    assert!(
        revolutions >= 99.0,
        "100 writes to one block, each flushed, took {revolutions} revolutions"
    );
}

/// Opens an export over a plain socket, without an NBD library.
fn open_raw(server: &Server, export: &str) -> UnixStream {
    let path = server.address.strip_prefix("unix:").expect("a Unix socket");
    let mut socket = UnixStream::connect(path).expect("it listens");
    socket.read_exact(&mut [0; 18]).expect("a greeting");
    let length = u32::try_from(export.len()).expect("a short name");
    let mut hello = 3_u32.to_be_bytes().to_vec();
    hello.extend(b"IHAVEOPT");
    hello.extend(1_u32.to_be_bytes());
    hello.extend(length.to_be_bytes());
    hello.extend(export.as_bytes());
    socket.write_all(&hello).expect("it reads");
    socket.read_exact(&mut [0; 10]).expect("size and flags");
    socket
}

/// Sends one request without payload and returns the error of the reply, 0 for none.
fn request_raw(socket: &mut UnixStream, command: u16, offset: u64, length: u32) -> u32 {
    let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
    request.extend(0_u16.to_be_bytes());
    request.extend(command.to_be_bytes());
    request.extend(77_u64.to_be_bytes());
    request.extend(offset.to_be_bytes());
    request.extend(length.to_be_bytes());
    socket.write_all(&request).expect("it reads");
    let mut reply = [0; 16];
    socket.read_exact(&mut reply).expect("an answer");
    assert_eq!(reply[8..], 77_u64.to_be_bytes(), "the answer to this request");
    u32::from_be_bytes(reply[4..8].try_into().expect("four bytes"))
}

#[test]
fn a_request_past_the_end_is_refused_and_an_unaligned_one_is_served() {
    const READ: u16 = 0;
    const TRIM: u16 = 4;
    const WRITE_ZEROES: u16 = 6;
    const INVALID: u32 = 22;
    const NO_SPACE: u32 = 28;
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let mut socket = open_raw(&server, "b");
    let end = B_BYTES as u64;
    assert_eq!(request_raw(&mut socket, TRIM, 511, 512), 0);
    assert_eq!(request_raw(&mut socket, WRITE_ZEROES, 100, 700), 0);
    assert_eq!(request_raw(&mut socket, READ, end - 100, 101), INVALID);
    assert_eq!(request_raw(&mut socket, WRITE_ZEROES, end - 100, 101), NO_SPACE);
    assert_eq!(request_raw(&mut socket, READ, end, 512), INVALID);
    assert_eq!(request_raw(&mut socket, TRIM, end - 512, 1_024), INVALID);
    assert_eq!(request_raw(&mut socket, WRITE_ZEROES, end - 512, 1_024), NO_SPACE);
    assert_eq!(request_raw(&mut socket, TRIM, end - 512, 512), 0);
    server.stop();
    assert_eq!(socket.read(&mut [0]).expect("a clean end"), 0, "an idle client is hung up on");
}

#[test]
fn a_file_keeps_the_data_of_both_volumes_over_a_restart() {
    let scratch = Scratch::new();
    let server = serve_file(&scratch);
    qemu_io(scratch.path(), &server.uri("a"), &["write -P 0xaa 63M 1M"]);
    qemu_io(scratch.path(), &server.uri("b"), &["write -P 0xbb 0 1M"]);
    server.stop();
    let server = serve_file(&scratch);
    qemu_io(scratch.path(), &server.uri("a"), &["read -P 0xaa 63M 1M", "read -P 0 62M 1M"]);
    qemu_io(scratch.path(), &server.uri("b"), &["read -P 0xbb 0 1M", "read -P 0 1M 1M"]);
    server.stop();
}

#[test]
fn a_killed_server_is_started_again_on_the_same_socket_and_file() {
    let scratch = Scratch::new();
    let server = serve_file(&scratch);
    qemu_io(scratch.path(), &server.uri("a"), &["write -P 0xaa 0 1M"]);
    server.signal(Signal::KILL);
    assert_eq!(server.ended().code, None);
    assert_eq!(scratch.names(), ["disk.img", "nbd.sock", "plan.toml", "spindle-api.sock"]);
    let server = serve_file(&scratch);
    qemu_io(scratch.path(), &server.uri("a"), &["read -P 0xaa 0 1M"]);
    server.stop();
}

#[test]
fn a_file_that_is_served_is_refused_to_a_second_server() {
    let scratch = Scratch::new();
    let server = serve_file(&scratch);
    let ran = Server::refused(scratch.path(), &["plan.toml", "--listen", "unix:second.sock"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert_eq!(
        ran.stderr,
        "spindle: plan.toml:1: [[disk]] \"d0\": field `backing`: found `disk.img`, expected a \
         file that can be \
         used (it is in use by another process)\n"
    );
    assert_eq!(scratch.names(), ["disk.img", "nbd.sock", "plan.toml", "spindle-api.sock"]);
    qemu_io(scratch.path(), &server.uri("a"), &["write -P 0xaa 0 1M", "read -P 0xaa 0 1M"]);
    server.stop();
}

#[test]
fn a_stopped_server_leaves_no_socket_behind_and_says_so_with_success() {
    for signal in [Signal::TERM, Signal::INT] {
        let scratch = Scratch::new();
        let server = serve(&scratch);
        server.signal(signal);
        assert_eq!(server.ended().code, Some(0));
        assert_eq!(scratch.names(), ["plan.toml"]);
    }
}

const BLOCK: u64 = 4_096;
/// The first offset of the endless writer. It is not 0, so that no block's content is zeroes.
const FROM: u64 = 1 << 20;
const LENGTH: u64 = 8 << 20;

/// A fio process that writes until its connection is closed. Every block contains its own offset,
/// and fio logs each reply.
fn write_without_end(server: &Server, directory: &Path) -> Child {
    let mut command = client("fio");
    command
        .args(["--ioengine=nbd", "--rw=randwrite", "--bs=4k", "--iodepth=16", "--time_based"])
        .args(["--verify=pattern", "--verify_pattern=%o", "--do_verify=0", "--runtime=1d"])
        .args(["--write_lat_log=answers", "--log_offset=1", "--name=endless"])
        .arg(format!("--uri={}", server.uri("a")))
        .arg(format!("--offset={FROM}"))
        .arg(format!("--size={LENGTH}"))
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("it is installed")
}

/// A connection to volume `a`.
fn open(server: &Server) -> Client {
    let address = server.address.parse().expect("an address");
    let mut client = Client::connect(&address).expect("it listens");
    client.go("a").expect("it is served");
    client
}

fn read(server: &Server, offset: u64, length: u64) -> Vec<u8> {
    let mut client = open(server);
    let data = client.read(Extent::new(Lba(offset / 512), Sectors(length / 512)));
    client.disconnect().expect("goodbye");
    data.expect("it can be read")
}

/// The offsets of the writes for which fio has received replies.
fn answered(directory: &Path) -> Vec<u64> {
    let log = directory.join("answers_clat.1.log");
    let log = std::fs::read_to_string(log).expect("fio writes its log at its end");
    let offset = |line: &str| line.split(", ").nth(4).and_then(|field| field.parse().ok());
    log.lines().map(|line| offset(line).unwrap_or_else(|| panic!("no offset: {line}"))).collect()
}

#[test]
fn a_server_that_is_stopped_amid_writes_keeps_every_acknowledged_one() {
    let scratch = Scratch::new();
    let server = serve_file(&scratch);
    let mut fio = write_without_end(&server, scratch.path());
    // The last block, which each round writes once.
    while read(&server, FROM + LENGTH - BLOCK, BLOCK).iter().all(|byte| *byte == 0) {
        assert!(fio.try_wait().expect("a child").is_none(), "fio ended too early");
    }
    server.stop();
    let ended = fio.wait().expect("a child");
    assert!(!ended.success(), "it was hung up on");
    let server = serve_file(&scratch);
    let found = read(&server, FROM, LENGTH);
    server.stop();
    let answered = answered(scratch.path());
    assert!(!answered.is_empty(), "some writes were answered");
    for offset in answered {
        let start = usize::try_from(offset - FROM).expect("within the range");
        let expected = offset.to_le_bytes().repeat(512);
        assert!(found[start..start + 4_096] == expected, "the write at {offset} is lost");
    }
}

#[test]
fn requests_in_flight_are_answered_before_a_server_ends() {
    const REQUESTS: u64 = 32;
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let (mut sender, mut receiver) = open(&server).split();
    for cookie in 0..REQUESTS {
        // At distant locations, so that each takes a seek.
        let extent = Extent::new(Lba(cookie * 37 % REQUESTS * 4_096), Sectors(8));
        sender.queue(cookie, Operation::read(extent), &[]).expect("room");
    }
    // Sent in one write: when the first reply arrives, the server has all of them.
    sender.flush().expect("it reads");
    let mut answered = vec![receiver.receive().expect("an answer").cookie];
    server.signal(Signal::TERM);
    for _ in 1..REQUESTS {
        let completion = receiver.receive().expect("an answer");
        assert_eq!(completion.result.expect("it was read").len(), 4_096);
        answered.push(completion.cookie);
    }
    answered.sort_unstable();
    assert_eq!(answered, (0..REQUESTS).collect::<Vec<_>>());
    assert!(receiver.receive().is_err(), "then the server hangs up");
    assert_eq!(server.ended().code, Some(0));
}
