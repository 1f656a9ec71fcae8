//! Real disks, served to real clients; a file stands for a disk. Written data survives the end of
//! the server with every I/O method, and a client that reconnects sees a pause.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Stdio};

use api::Client as Api;
use nbd::Address;
use nbd::client::Client;
use rustix::process::Signal;
use serde_json::Value;
use testkit::{Scratch, Server, client, noise, spindle, succeed};
use units::{Extent, Lba, Operation, SECTOR_BYTES, Sectors};

const MIB: usize = 1 << 20;

const CONFIG: &str = r#"[[disk]]
name = "d0"
path = "disk.img"
depth = 8
linger = "0ms"

[[volume]]
name = "a"
disk = "d0"
size = "64MiB"
reserve = "50%"

[[volume]]
name = "b"
disk = "d0"
size = "32MiB"
"#;

/// The I/O methods: io_uring if the kernel permits it, and threads.
const WAYS: [&str; 2] = ["", "io_uring = false\n"];

/// A directory on a file system with direct access, with a file that stands for a disk.
fn scratch() -> Scratch {
    scratch_for(WAYS[0])
}

fn scratch_for(io_method: &str) -> Scratch {
    let scratch = Scratch::beside();
    let file = std::fs::File::create(scratch.join("disk.img")).expect("a file");
    file.set_len(96 * MIB as u64).expect("a sparse one");
    scratch.write("plan.toml", CONFIG.replace("depth = 8\n", &format!("depth = 8\n{io_method}")));
    scratch
}

fn serve(scratch: &Scratch) -> Server {
    Server::unix(scratch.path(), "plan.toml")
}

fn qemu_io(directory: &Path, uri: &str, commands: &[&str]) {
    let mut arguments = vec!["-f", "raw", "-t", "writeback"];
    arguments.extend(commands.iter().flat_map(|command| ["-c", command]));
    arguments.push(uri);
    succeed("qemu-io", &arguments, directory);
}

#[test]
fn fio_reads_back_what_it_wrote_in_requests_of_all_sizes() {
    WAYS.into_iter().for_each(fio_verifies);
}

fn fio_verifies(io_method: &str) {
    let scratch = scratch_for(io_method);
    let server = serve(&scratch);
    let uri = format!("--uri={}", server.uri("a"));
    let shape = ["--ioengine=nbd", "--verify=crc32c", "--verify_fatal=1", "--rw=randwrite"];
    let sizes = ["--bsrange=512-2m", "--blockalign=512", "--size=48m", "--iodepth=16"];
    let job = ["--fsync=16", "--name=sizes", &uri];
    let said = succeed("fio", &[&shape[..], &sizes[..], &job[..]].concat(), scratch.path());
    assert!(said.contains("READ: bw="), "it has read what it wrote: {said}");
    server.stop();
}

#[test]
fn zeroes_holes_and_forced_writes_take_effect_and_the_file_holds_them() {
    WAYS.into_iter().for_each(holds_zeroes);
}

fn holds_zeroes(io_method: &str) {
    let scratch = scratch_for(io_method);
    let server = serve(&scratch);
    let commands = [
        "write -P 0xa5 0 4M",
        "write -z 4k 512",
        "write -z -u 8k 128k",
        "discard 1M 1M",
        "write -f -P 7 512 1024",
        "flush",
        "read -P 0xa5 0 512",
        "read -P 7 512 1k",
        "read -P 0 4k 512",
        "read -P 0 8k 128k",
        "read -P 0 1M 1M",
        "read -P 0xa5 2M 2M",
    ];
    qemu_io(scratch.path(), &server.uri("a"), &commands);
    let said = succeed("nbdinfo", &["--map", "--json", &server.uri("a")], scratch.path());
    let map: Value = serde_json::from_str(&said).expect("JSON");
    let hole = |at: u64| {
        let runs = map.as_array().expect("a list").iter();
        let end = |run: &Value| run["offset"].as_u64().zip(run["length"].as_u64());
        let found =
            runs.filter(|run| end(run).is_some_and(|(from, len)| from <= at && at < from + len));
        found.map(|run| run["description"] == "hole,zero").next_back().expect("it is in the volume")
    };
    assert!(!hole(0) && hole(MIB as u64 + 4_096) && !hole(3 * MIB as u64) && hole(63 * MIB as u64));
    let told = spindle(scratch.path(), &["disk", "ls", "--json"]).json();
    assert_eq!(
        (&told["disks"][0]["state"], &told["disks"][0]["drive"]),
        (&"well".into(), &"disk.img".into())
    );
    let access = told["disks"][0]["access"].as_str().expect("it is a real one");
    assert!(
        access == "threads" || io_method.is_empty() && access.starts_with("io_uring"),
        "{access}"
    );
    eprintln!("by {access}");
    server.stop();
    let held = std::fs::read(scratch.join("disk.img")).expect("it is there");
    assert!(held[512..1_536].iter().all(|byte| *byte == 7), "volume a is the file's beginning");
    assert!(held[MIB..2 * MIB].iter().all(|byte| *byte == 0));
}

#[test]
fn an_image_is_copied_to_a_volume_and_back() {
    let scratch = scratch();
    let mut image = noise(32 * MIB, 2);
    image[3 * MIB..20 * MIB].fill(0);
    scratch.write("image.raw", &image);
    let server = serve(&scratch);
    let uri = server.uri("b");
    succeed("nbdcopy", &["--connections=4", "--flush", "image.raw", &uri], scratch.path());
    server.stop();
    let server = serve(&scratch);
    succeed("nbdcopy", &["--connections=4", &server.uri("b"), "back.raw"], scratch.path());
    assert!(std::fs::read(scratch.join("back.raw")).expect("it is there") == image);
    server.stop();
}

/// A pool. Each of its disks receives requests through its own thread.
const POOLED: &str = r#"[pool]
disks = ["p0", "p1"]

[[pool.volume]]
name = "a"
size = "48MiB"
layout = "stripe"
reserve = "50%"
"#;

#[test]
fn a_pool_is_served_from_real_disks_with_every_io_method() {
    WAYS.into_iter().for_each(pools);
}

fn pools(io_method: &str) {
    let scratch = Scratch::beside();
    let disk = |name: &str| {
        let file = std::fs::File::create(scratch.join(&format!("{name}.img"))).expect("a file");
        file.set_len(96 * MIB as u64).expect("a sparse one");
        format!("[[disk]]\nname = \"{name}\"\npath = \"{name}.img\"\ndepth = 8\n{io_method}\n")
    };
    scratch.write("plan.toml", format!("{}{}{POOLED}", disk("p0"), disk("p1")));
    succeed_here(&scratch, &["pool", "create", "--config", "plan.toml"]);
    let server = serve(&scratch);
    let uri = server.uri("a");
    let verify = ["--ioengine=nbd", "--verify=crc32c", "--verify_fatal=1", "--rw=randwrite"];
    let sizes = ["--bs=64k", "--size=32m", "--iodepth=16", "--fsync=16", "--name=pool"];
    let uri = format!("--uri={uri}");
    succeed("fio", &[&verify[..], &sizes[..], &[uri.as_str()]].concat(), scratch.path());
    qemu_io(scratch.path(), &server.uri("a"), &["write -P 9 1M 4M", "discard 2M 1M", "flush"]);
    server.stop();
    let server = serve(&scratch);
    let reads = ["read -P 9 1M 1M", "read -P 0 2M 1M", "read -P 9 3M 2M"];
    qemu_io(scratch.path(), &server.uri("a"), &reads);
    server.stop();
}

fn succeed_here(scratch: &Scratch, arguments: &[&str]) {
    let ran = spindle(scratch.path(), arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

/// A file declares its worst case, since nothing has measured it.
#[test]
fn a_real_disk_with_a_declared_worst_case_keeps_a_stream_and_a_bounded_latency() {
    let scratch = scratch();
    let declared = "depth = 8\nworst_case = { command = \"2s\", rate = \"10MB/s\" }\n";
    let contracts = CONFIG
        .replace("depth = 8\n", declared)
        .replace("reserve = \"50%\"\n", "stream = { bandwidth = \"100kB/s\", block = \"1MB\" }\n");
    let latency =
        "latency = { within = \"20s\", requests = \"0.05/s\", burst = 2, size = \"4KiB\" }\n";
    // Without the declaration neither is accepted.
    scratch.write("plan.toml", contracts.replace(declared, "depth = 8\n"));
    let refused = spindle(scratch.path(), &["serve", "plan.toml"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("or a `worst_case`"), "{refused:?}");
    scratch.write("plan.toml", contracts + latency);
    let server = serve(&scratch);
    let block = noise(1_000_448, 1);
    let mut client =
        Client::connect(&server.address.parse().expect("an address")).expect("it listens");
    client.go("a").expect("it is served");
    for number in 0..3 {
        let extent = Extent::new(Lba(number * 1_954), Sectors(1_954));
        client.send(number, Operation::write(extent), &block).expect("it is sent");
        client.receive().expect("it is answered").result.expect("it is written");
    }
    let mut client =
        Client::connect(&server.address.parse().expect("an address")).expect("it listens");
    client.go("b").expect("it is served");
    client.send(0, Operation::read(Extent::new(Lba(0), Sectors(8))), &[]).expect("it is sent");
    client.receive().expect("it is answered").result.expect("it is read");
    let show = |name: &str| -> Value {
        let ran = spindle(scratch.path(), &["vol", "show", name, "--json"]);
        serde_json::from_str::<Value>(&ran.stdout).expect("JSON")["volume"].clone()
    };
    let (stream, bounded) = (show("a"), show("b"));
    assert!(stream["stream"]["met"].as_u64() >= Some(1), "{stream}");
    assert_eq!((&stream["stream"]["missed"], &stream["in_flight"]), (&0.into(), &0.into()));
    assert_eq!((&bounded["kind"], &bounded["requests"]), (&"latency".into(), &1.into()));
    server.stop();
}

#[test]
fn a_disk_that_another_server_has_is_refused_by_name() {
    let scratch = scratch();
    let server = serve(&scratch);
    let listen = ["plan.toml", "--listen", "127.0.0.1:0", "--api", "none"];
    let refused = Server::refused(scratch.path(), &listen);
    assert_eq!(refused.code, Some(2));
    let said = "[[disk]] \"d0\": field `path`: found `disk.img`, expected one that no other \
                process has locked";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    server.stop();
}

/// A client that reconnects and keeps its requests waiting meanwhile. It writes its whole volume
/// with some flushes, and reads it back.
fn reconnecting(scratch: &Scratch) -> Child {
    let mut command = client("qemu-io");
    command.args(["-t", "writeback"]);
    for step in 0..512_u64 {
        let (byte, at) = (step % 251 + 1, step * 128);
        command.args(["-c", &format!("aio_write -q -P {byte} {at}k 128k")]);
        if step % 16 == 15 {
            command.args(["-c", "aio_flush", "-c", "flush"]);
        }
    }
    for step in 0..512_u64 {
        let (byte, at) = (step % 251 + 1, step * 128);
        command.args(["-c", &format!("read -q -P {byte} {at}k 128k")]);
    }
    let options = "driver=nbd,server.type=unix,server.path=nbd.sock,export=a,reconnect-delay=120";
    command.args(["--image-opts", options]).current_dir(scratch.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it is installed")
}

/// The number of requests that the volume of a running server has answered; 0 without a server.
fn answered(api: &Api) -> u64 {
    let answer = api.get("volumes", None).expect("an answer");
    answer.body["volumes"][0]["requests"].as_u64().expect("a number")
}

#[test]
fn a_client_that_reconnects_sees_no_error_while_the_server_is_started_again_and_again() {
    let scratch = scratch();
    let api = Api::new(&scratch.join("spindle-api.sock"));
    let mut server = serve(&scratch);
    let mut qemu = reconnecting(&scratch);
    let mut restarts = 0;
    let mut ended = || qemu.try_wait().expect("a child").is_some();
    loop {
        // This server answers some requests before the next one takes over.
        while !ended() && answered(&api) < 64 {
            std::thread::yield_now();
        }
        if ended() {
            break;
        }
        if restarts % 2 == 0 {
            server.stop();
        } else {
            server.signal(Signal::KILL);
            server.ended();
        }
        restarts += 1;
        server = serve(&scratch);
    }
    let output = qemu.wait_with_output().expect("a child");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("failed"), "{said}{errors}");
    eprintln!("{restarts} restarts under one client");
    assert!(restarts >= 2, "it was stopped and killed: {restarts}");
    server.stop();
}

/// The default number of kills; `make soak` has more.
fn kills() -> u64 {
    let asked = std::env::var("SPINDLE_KILLS").ok();
    asked.map_or(6, |asked| asked.parse().expect("SPINDLE_KILLS is a number"))
}

/// The first of the sectors that the killed servers write.
const PLACE: Extent = Extent::new(Lba(0), Sectors(2_048));

/// The possible contents of a sector: the number of the last acknowledged write, or of a later one.
#[derive(Clone, Copy, Default)]
struct Known {
    acknowledged: u64,
    sent: u64,
}

/// The writes of one connection, which are numbered.
struct Writers {
    known: Vec<Known>,
    rng: u64,
    number: u64,
    under_way: BTreeMap<u64, Extent>,
}

impl Writers {
    fn draw(&mut self, below: u64) -> u64 {
        self.rng = self
            .rng
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.rng >> 33) % below
    }

    /// A location without a write in flight.
    fn free_location(&mut self) -> Extent {
        loop {
            let start = self.draw(PLACE.len.0 - 24);
            let extent = Extent::new(Lba(start), Sectors(1 + self.draw(24)));
            let apart = |other: &Extent| extent.end() <= other.start || other.end() <= extent.start;
            if self.under_way.values().all(apart) {
                return extent;
            }
        }
    }

    fn sectors(&mut self, extent: Extent) -> &mut [Known] {
        let start = usize::try_from(extent.start.0).expect("a few");
        let len = usize::try_from(extent.len.0).expect("a few");
        &mut self.known[start..start + len]
    }

    /// Keeps eight writes in flight, every fifth of them forced, until `acknowledged` are
    /// acknowledged; then kills the server.
    fn write(&mut self, client: &mut Client, server: &Server, acknowledged: u64) {
        let mut count = 0;
        loop {
            while self.under_way.len() < 8 && count < acknowledged {
                self.number += 1;
                let (number, extent) = (self.number, self.free_location());
                let fua = self.draw(5) == 0;
                let operation = Operation { fua, ..Operation::write(extent) };
                let data = number.to_be_bytes().repeat(extent.len.bytes_usize() / 8);
                if client.send(number, operation, &data).is_err() {
                    break;
                }
                self.under_way.insert(number, extent);
                self.sectors(extent).iter_mut().for_each(|known| known.sent = number);
            }
            let Ok(ended) = client.receive() else { break };
            ended.result.expect("the disk is well");
            let extent = self.under_way.remove(&ended.cookie).expect("it was sent");
            self.sectors(extent).iter_mut().for_each(|known| known.acknowledged = ended.cookie);
            count += 1;
            if count == acknowledged {
                server.signal(Signal::KILL);
            }
        }
        // The outcome of an unanswered write is unknown.
        self.under_way.clear();
    }

    /// Reads and checks all sectors. Their contents are known from then on.
    fn check(&mut self, client: &mut Client) {
        let data = client.read(PLACE).expect("it is there");
        let sector = usize::try_from(SECTOR_BYTES).expect("512");
        for (nth, (known, found)) in self.known.iter_mut().zip(data.chunks(sector)).enumerate() {
            let number = u64::from_be_bytes(found[..8].try_into().expect("eight bytes"));
            assert!(found.chunks(8).all(|part| part == &found[..8]), "sector {nth} is torn");
            let Known { acknowledged, sent } = *known;
            assert!(
                number == acknowledged || number == sent,
                "sector {nth} holds {number}: {acknowledged} was acknowledged, {sent} the last \
                 one sent"
            );
            *known = Known { acknowledged: number, sent: number };
        }
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost_when_the_server_is_killed() {
    WAYS.into_iter().for_each(loses_nothing);
}

fn loses_nothing(io_method: &str) {
    let scratch = scratch_for(io_method);
    let address: Address =
        format!("unix:{}", scratch.join("nbd.sock").display()).parse().expect("an address");
    let connect = || {
        let mut client = Client::connect(&address).expect("it listens");
        client.go("a").expect("it is served");
        client
    };
    let len = usize::try_from(PLACE.len.0).expect("a few");
    let known = vec![Known::default(); len];
    let mut writers = Writers { known, rng: 1, number: 0, under_way: BTreeMap::new() };
    for _ in 0..kills() {
        let server = serve(&scratch);
        let mut client = connect();
        writers.check(&mut client);
        let acknowledged = 20 + writers.draw(200);
        writers.write(&mut client, &server, acknowledged);
        assert_eq!(server.ended().code, None, "it was killed");
    }
    let server = serve(&scratch);
    writers.check(&mut connect());
    eprintln!("{} writes over {} kills", writers.number, kills());
    server.stop();
}
