//! What a client was answered is there after a kill of the daemon, flushed or not: the client did
//! not crash, and its next flush succeeds. Without a log of the write buffers a kill is a loss of
//! power: what was flushed is there.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nbd::Address;
use nbd::client::Client;
use rustix::process::Signal;
use sim::SeededRng;
use testkit::{Export, Scratch, Server, client as program, config as two_volumes, run, spindle};
use units::{Extent, Lba, Operation, Sectors};

const BLOCK: Sectors = Sectors(8);
const BLOCKS: u64 = 200;

/// A drive that is so slow that nothing which is buffered is on it soon, or one that is not.
fn config(speed: &str) -> String {
    format!(
        "[[disk]]\nname = \"d0\"\ndrive = \"hgst-7k8\"\nbacking = \"disk.img\"\n\
         slowed = {speed}\nwrite_buffer = \"auto\"\nwrite_buffer_log = \"log\"\n\n\
         [[volume]]\nname = \"a\"\ndisk = \"d0\"\nsize = \"64MiB\"\nreserve = \"50%\"\n"
    )
}

fn serve(scratch: &Scratch, speed: &str) -> Server {
    Server::unix(scratch.path(), &scratch.write("plan.toml", config(speed)))
}

fn client(server: &Server) -> Client {
    client_of(server, "a")
}

fn client_of(server: &Server, volume: &str) -> Client {
    let address: Address = server.address.parse().expect("an address");
    let mut client = Client::connect(&address).expect("it listens");
    client.go(volume).expect("it serves the volume");
    client
}

/// The requests of volume `a` that the daemon in this directory has served.
fn requests(directory: &Path) -> u64 {
    let shown = spindle(directory, &["vol", "show", "a", "--json"]).json();
    shown["volume"]["requests"].as_u64().expect("a number")
}

/// Blocks that lie apart from each other, so that each is a write of its own to the disk.
fn block(number: u64) -> Extent {
    Extent::new(Lba(number * 3 * BLOCK.0), BLOCK)
}

/// The number of a write in each of its bytes.
fn content(write: u64) -> Vec<u8> {
    vec![u8::try_from(write % 251 + 1).expect("a byte"); BLOCK.bytes_usize()]
}

/// The number of times that a test kills the daemon.
fn kills() -> u64 {
    let kills = std::env::var("SPINDLE_KILLS").ok();
    kills.map_or(3, |kills| kills.parse().expect("SPINDLE_KILLS is a number"))
}

fn logs(scratch: &Scratch) -> usize {
    std::fs::read_dir(scratch.join("log")).map_or(0, Iterator::count)
}

#[test]
fn what_was_answered_is_there_after_a_kill() {
    let scratch = Scratch::new();
    let mut written = vec![0; usize::try_from(BLOCKS).expect("few")];
    for round in 0..kills() {
        let server = serve(&scratch, "0.01");
        let mut client = client(&server);
        for write in 0..BLOCKS {
            // Every third block is written twice, and one in ten in the rounds before alone.
            let target = if write % 3 == 0 { write / 2 } else { write };
            if write % 10 == round % 10 {
                continue;
            }
            let number = 1 + round * BLOCKS + write;
            client.write(block(target), &content(number)).expect("it is buffered");
            written[usize::try_from(target).expect("few")] = number;
        }
        server.signal(Signal::KILL);
        assert_eq!(server.ended().code, None, "it was killed");
        assert_eq!(logs(&scratch), 2, "what is buffered is logged");
    }
    let server = serve(&scratch, "1");
    let mut client = client(&server);
    for (number, write) in (0..BLOCKS).zip(written) {
        let expected = if write == 0 { vec![0; BLOCK.bytes_usize()] } else { content(write) };
        assert!(client.read(block(number)).expect("it is read") == expected, "block {number}");
    }
    let ran = server.stop();
    let words = "that an earlier daemon had buffered are on the disk now";
    assert!(ran.stderr.contains(words), "{ran:?}");
    assert_eq!(logs(&scratch), 0, "a daemon that is stopped leaves no log");
}

#[test]
fn what_cannot_be_written_back_is_refused_and_kept() {
    let scratch = Scratch::new();
    let server = serve(&scratch, "0.01");
    let mut client = client(&server);
    client.write(block(1), &content(1)).expect("it is buffered");
    client.write(block(9), &content(2)).expect("it is buffered");
    server.signal(Signal::KILL);
    server.ended();
    let files = std::fs::read_dir(scratch.join("log")).expect("the log");
    let mut files = files.map(|file| file.expect("a file").path());
    let records = files.find(|path| path.extension().is_some_and(|end| end == "records"));
    let records = records.expect("the records");
    let whole = std::fs::read(&records).expect("they are read");
    let mut damaged = whole.clone();
    damaged[50] ^= 1;
    std::fs::write(&records, damaged).expect("they are written");
    let ran = Server::refused(scratch.path(), &["plan.toml", "--listen", "unix:nbd.sock"]);
    assert!(ran.refusal().contains("found damage in"), "{ran:?}");
    std::fs::write(&records, whole).expect("they are written");
    let server = serve(&scratch, "1");
    let mut client = self::client(&server);
    assert!(client.read(block(9)).expect("it is read") == content(2), "once it is mended");
    server.stop();
}

#[test]
fn a_log_that_has_no_directory_is_refused() {
    let scratch = Scratch::new();
    let text = config("1").replace("\"log\"", "\"plan.toml\"");
    scratch.write("plan.toml", text);
    let ran = Server::refused(scratch.path(), &["plan.toml", "--listen", "unix:nbd.sock"]);
    assert!(ran.refusal().contains("field `write_buffer_log`: found plan.toml:"), "{ran:?}");
}

/// What a block may hold after a kill: what was flushed, or what was written after it.
#[derive(Clone, Debug, Default)]
struct Expected {
    flushed: u64,
    later: Vec<u64>,
}

/// A block's content of this number.
fn numbered(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(BLOCK.bytes_usize() / 8)
}

#[test]
fn without_a_log_what_was_flushed_is_there_after_a_kill() {
    let scratch = Scratch::new();
    let text = config("0.3").replace("\"log\"", "\"off\"");
    let plan = scratch.write("plan.toml", text);
    let mut rng = SeededRng::new(1, 0);
    let mut blocks = vec![Expected::default(); 50];
    let (mut number, mut lost) = (0, 0);
    for _ in 0..kills() {
        let server = Server::unix(scratch.path(), &plan);
        let mut client = client(&server);
        for _ in 0..10 + rng.below(40) {
            number += 1;
            let at = rng.below(50);
            let write = Operation::write(block(at));
            let write = if rng.below(10) == 0 { write.with_fua() } else { write };
            let expected = &mut blocks[usize::try_from(at).expect("few")];
            client.perform(write, &numbered(number)).expect("written");
            if write.fua {
                *expected = Expected { flushed: number, later: Vec::new() };
            } else {
                expected.later.push(number);
            }
            if rng.below(15) == 0 {
                client.flush().expect("flushed");
                for expected in &mut blocks {
                    expected.flushed = expected.later.pop().unwrap_or(expected.flushed);
                    expected.later.clear();
                }
            }
        }
        // These are not answered: each is there, or is not.
        for cookie in 0..4 {
            number += 1;
            let at = rng.below(50);
            blocks[usize::try_from(at).expect("few")].later.push(number);
            client.send(cookie, Operation::write(block(at)), &numbered(number)).expect("sent");
        }
        server.signal(Signal::KILL);
        server.ended();
        let server = Server::unix(scratch.path(), &plan);
        let mut client = self::client(&server);
        for (at, expected) in (0..).zip(&mut blocks) {
            let read = client.read(block(at)).expect("read");
            let found = u64::from_le_bytes(*read.first_chunk().expect("a block"));
            assert!(read == numbered(found), "block {at} is torn: {found}");
            let is_there = found == expected.flushed || expected.later.contains(&found);
            assert!(is_there, "block {at} holds {found}, expected {expected:?}");
            lost += u64::from(expected.later.last().is_some_and(|last| *last != found));
            *expected = Expected { flushed: found, later: Vec::new() };
        }
        client.flush().expect("flushed");
        server.stop();
    }
    assert!(lost > 0, "the buffers held nothing when the daemon was killed");
}

#[test]
fn fio_verifies_what_it_wrote_and_flushed_over_kills() {
    let scratch = Scratch::new();
    let plan = scratch.write("plan.toml", two_volumes("disk.img"));
    let server = Server::unix(scratch.path(), &plan);
    let again = Export::start(&server, scratch.path());
    let is_enough = AtomicBool::new(false);
    // Random writes with a flush after each 16, all of which are read back: again and again.
    let verify = || {
        let mut rounds = 0;
        while rounds == 0 || !is_enough.load(Ordering::SeqCst) {
            let mut fio = program("fio");
            fio.args(["--name=verified", "--ioengine=nbd"])
                .arg("--uri=nbd+unix:///a?socket=again.sock")
                .args(["--rw=randwrite", "--bsrange=4k-64k", "--size=8m", "--iodepth=8"])
                .args(["--fsync=16", "--verify=crc32c", "--verify_fatal=1", "--thread"])
                .arg(format!("--randseed={rounds}"));
            let ran = run(fio, scratch.path());
            assert_eq!(ran.code, Some(0), "after {rounds} rounds: {ran:?}");
            rounds += 1;
        }
        rounds
    };
    let (rounds, server) = std::thread::scope(|scope| {
        let mut server = server;
        let verified = scope.spawn(verify);
        for kill in 0..kills() {
            // What the daemon does for another volume meanwhile is the measure of time: the client
            // that connects again has been served for a while.
            let mut other = client_of(&server, "b");
            let before = requests(scratch.path());
            while requests(scratch.path()) < before + 10 + kill % 50 {
                other.write(block(kill % 16), &numbered(kill)).expect("written");
                other.flush().expect("flushed");
            }
            server.signal(Signal::KILL);
            assert_eq!(server.ended().code, None, "it was killed");
            server = Server::unix(scratch.path(), &plan);
        }
        is_enough.store(true, Ordering::SeqCst);
        (verified.join().expect("fio reads back what it wrote"), server)
    });
    println!("{rounds} verified rounds over {} kills", kills());
    drop(again);
    server.stop();
}
