//! Several connections write bytes of the same sectors concurrently, over real sockets.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, channel};

use rng::SeededRng;
use spindle_nbd::client::{Client, Receiver as Answers, Sender};
use spindle_nbd::memory::FixedExports;
use spindle_nbd::{
    Address, ByteRange, Export, ExportId, Handle, Reply, Request, RequestHandler, Server,
};
use tempfile::TempDir;
use units::{Bytes, Instant, Op};

const SECTOR: usize = 512;
const BYTES: usize = 8 * SECTOR;
const ROUNDS: u64 = 300;
const CONNECTIONS: usize = 3;
/// The number of threads of the server: each has one of the connections.
const THREADS: usize = 3;
/// Concurrent writes in each round.
const WRITES: u64 = 12;

/// A number below `end`.
fn under(rng: &mut SeededRng, end: usize) -> usize {
    usize::try_from(rng.below(end as u64)).expect("under an index")
}

#[derive(Clone)]
struct Forward(std::sync::mpsc::Sender<Request>);

impl RequestHandler for Forward {
    fn submit(&mut self, request: Request) {
        assert!(!request.operation.extent.is_empty(), "there is something to do");
        self.0.send(request).expect("a thread takes requests");
    }
}

/// A disk that carries out its requests in any order.
fn disk(requests: &Receiver<Request>, handle: &Handle, mut rng: SeededRng) {
    let (mut bytes, mut waiting) = (vec![0; BYTES], Vec::new());
    loop {
        if waiting.is_empty() {
            let Ok(request) = requests.recv() else { return };
            waiting.push(request);
        }
        waiting.extend(requests.try_iter());
        let request: Request = waiting.swap_remove(under(&mut rng, waiting.len()));
        let extent = request.operation.extent;
        let start = usize::try_from(extent.start.0).expect("small") * SECTOR;
        let place = &mut bytes[start..start + extent.len.bytes_usize()];
        let data = match request.operation.op {
            Op::Read => place.to_vec(),
            Op::Write => {
                place.copy_from_slice(&request.data);
                request.data
            }
            _ => {
                place.fill(0);
                Vec::new()
            }
        };
        handle.reply(Reply { id: request.id, result: Ok(data) });
    }
}

fn span(start: usize, len: usize) -> ByteRange {
    ByteRange { start: Bytes(start as u64), len: Bytes(len as u64) }
}

struct Connection {
    sender: Sender,
    answers: Answers,
}

impl Connection {
    fn open(address: &Address) -> Self {
        let mut client = Client::connect(address).expect("it listens");
        assert_eq!(client.go("vol").expect("it is there").block_min, Bytes(1));
        let (sender, answers) = client.split();
        Self { sender, answers }
    }

    /// Sends a write to a random range, without waiting. Returns the bytes and their range.
    fn write(&mut self, cookie: u64, rng: &mut SeededRng) -> (core::ops::Range<usize>, u8) {
        let value = u8::try_from(1 + under(rng, 255)).expect("a byte");
        let longest = [7, 300, 1_500, BYTES][under(rng, 4)];
        let mut start = under(rng, BYTES);
        let mut len = 1 + under(rng, longest.min(BYTES - start));
        if under(rng, 4) == 0 {
            start = start / SECTOR * SECTOR;
            len = len.next_multiple_of(SECTOR).min(BYTES - start);
        }
        let (op, value) =
            if under(rng, 4) == 0 { (Op::WriteZeroes, 0) } else { (Op::Write, value) };
        let data = if op == Op::Write { vec![value; len] } else { Vec::new() };
        let sent = self.sender.queue_bytes(cookie, (op, false), span(start, len), &data);
        sent.and_then(|()| self.sender.flush()).expect("it is sent");
        (start..start + len, value)
    }

    fn read(&mut self, cookie: u64, start: usize, len: usize) -> Vec<u8> {
        let sent = self.sender.queue_bytes(cookie, (Op::Read, false), span(start, len), &[]);
        sent.and_then(|()| self.sender.flush()).expect("it is sent");
        self.answers.receive().expect("an answer").result.expect("it was read")
    }
}

#[test]
fn what_several_connections_write_into_one_sector_is_all_there() {
    let seed = std::env::var("SPINDLE_SEED").map_or(1, |seed| seed.parse().expect("a seed"));
    println!("seed {seed}");
    let mut rng = SeededRng::new(seed, 0);
    let directory = TempDir::new().expect("a directory");
    let address = Address::Unix(directory.path().join("socket"));
    let server = Server::bind(std::slice::from_ref(&address)).expect("it is free");
    let server = server.with_threads(THREADS).expect("the system has enough descriptors");
    // The size is rounded down to whole sectors.
    let export = Export::new(ExportId(0), "vol", Bytes(BYTES as u64 + 100));
    let (handle, stop) = (server.handle(), server.handle());
    let (sender, requests) = channel();
    let order = SeededRng::new(seed, 1);
    std::thread::scope(|scope| {
        scope.spawn(move || disk(&requests, &handle, order));
        scope.spawn(move || {
            let mut handlers = vec![Forward(sender); THREADS];
            server.run_on_threads(&FixedExports(vec![export]), &mut handlers, &|| Instant::ZERO)
        });
        let open = |_| Connection::open(&address);
        let mut connections: Vec<_> = (0..CONNECTIONS).map(open).collect();
        let mut held = vec![0; BYTES];
        for round in 0..ROUNDS {
            let mut may: Vec<BTreeSet<u8>> = vec![BTreeSet::new(); BYTES];
            let mut asked = [0; CONNECTIONS];
            for cookie in 0..WRITES {
                let connection = under(&mut rng, CONNECTIONS);
                let (bytes, value) = connections[connection].write(cookie, &mut rng);
                may[bytes].iter_mut().for_each(|may| may.extend([value]));
                asked[connection] += 1;
            }
            for (connection, asked) in connections.iter_mut().zip(asked) {
                for _ in 0..asked {
                    connection.answers.receive().expect("an answer").result.expect("it is done");
                }
            }
            // In two pieces, most of which are no whole number of sectors.
            let cut = 1 + under(&mut rng, BYTES - 1);
            let first = connections[0].read(WRITES, 0, cut);
            let found = [first, connections[1].read(WRITES, cut, BYTES - cut)].concat();
            for (place, (now, may)) in found.iter().zip(&may).enumerate() {
                let right = if may.is_empty() { *now == held[place] } else { may.contains(now) };
                assert!(right, "seed {seed}, round {round}: byte {place} holds {now}, not {may:?}");
            }
            held = found;
        }
        drop(connections);
        stop.stop();
    });
}
