//! What a client was answered is there after a kill of the daemon, flushed or not: the client did
//! not crash, and its next flush succeeds.

use nbd::Address;
use nbd::client::Client;
use rustix::process::Signal;
use testkit::{Scratch, Server};
use units::{Extent, Lba, Sectors};

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
    let address: Address = server.address.parse().expect("an address");
    let mut client = Client::connect(&address).expect("it listens");
    client.go("a").expect("it serves the volume");
    client
}

/// Blocks that lie apart from each other, so that each is a write of its own to the disk.
fn block(number: u64) -> Extent {
    Extent::new(Lba(number * 3 * BLOCK.0), BLOCK)
}

/// The number of a write in each of its bytes.
fn content(write: u64) -> Vec<u8> {
    vec![u8::try_from(write % 251 + 1).expect("a byte"); BLOCK.bytes_usize()]
}

fn logs(scratch: &Scratch) -> usize {
    std::fs::read_dir(scratch.join("log")).map_or(0, Iterator::count)
}

#[test]
fn what_was_answered_is_there_after_a_kill() {
    let scratch = Scratch::new();
    let mut written = vec![0; usize::try_from(BLOCKS).expect("few")];
    let kills = std::env::var("SPINDLE_KILLS").ok();
    let kills = kills.map_or(3, |kills| kills.parse().expect("SPINDLE_KILLS is a number"));
    for round in 0..kills {
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
