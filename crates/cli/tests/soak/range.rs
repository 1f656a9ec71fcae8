//! A part of a volume that one client uses alone, and the contents that its blocks may have.
//!
//! Each sector of a block contains the data of the last acknowledged write, or of a later write
//! without a reply. After a cut connection such a write may still be in flight, and NBD has no way
//! to query it. Its block is therefore not written again until the daemon has been restarted.

use std::collections::BTreeMap;
use std::sync::mpsc;

use nbd::client::{Client, Receiver, Sender};
use sim::SeededRng;
use units::{Extent, Lba, Op, Operation, Sectors};

const SECTOR: usize = 512;
const BLOCK_SECTORS: u64 = 8;
const BLOCK: usize = 4_096;
/// Blocks of one part: 8 MiB.
const BLOCKS: u64 = 2_048;
const REQUEST_BLOCKS_MAX: u64 = 16;
const DEPTH: usize = 8;
/// The number of attempts of a verifying read, because the disks inject faults.
const TRIES_MAX: u32 = 50;
/// After one reply in this number the connection is cut.
const CUT: u64 = 300;

/// The content of a block: the number of the write, or 0 for zeroes.
type Content = u64;

#[derive(Clone, Debug, Default)]
struct Block {
    /// The content of the last acknowledged write.
    settled: Content,
    /// The contents of later writes that failed or have no reply.
    maybe: Vec<Content>,
    /// A request on this block is in flight.
    busy: bool,
    /// A write whose connection was cut may still change this block.
    uncertain: bool,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct Request {
    op: Op,
    first: u64,
    blocks: u64,
    content: Content,
}

/// One client's part of a volume.
#[derive(Debug)]
pub(crate) struct Range {
    volume: &'static str,
    /// The first block of the part, within the volume.
    start: u64,
    blocks: Vec<Block>,
    rng: SeededRng,
    written: Content,
    cookie: u64,
    pub(crate) answered: u64,
    pub(crate) errors: u64,
    pub(crate) cuts: u64,
    pub(crate) open: u64,
}

/// The content of a sector that write `content` writes.
fn sector(content: Content, lba: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    if content != 0 {
        let words = [content.to_be_bytes(), lba.to_be_bytes()].concat();
        bytes.chunks_exact_mut(16).for_each(|chunk| chunk.copy_from_slice(&words));
    }
    bytes
}

impl Range {
    pub(crate) fn new(volume: &'static str, part: usize, rng: SeededRng) -> Self {
        let blocks = vec![Block::default(); usize::try_from(BLOCKS).expect("small")];
        let (written, cookie, answered, errors, cuts, open) = (0, 0, 0, 0, 0, 0);
        let start = part as u64 * BLOCKS;
        Self { volume, start, blocks, rng, written, cookie, answered, errors, cuts, open }
    }

    fn block(&mut self, number: u64) -> &mut Block {
        &mut self.blocks[usize::try_from(number).expect("small")]
    }

    fn extent(&self, first: u64, blocks: u64) -> Extent {
        Extent::new(Lba((self.start + first) * BLOCK_SECTORS), Sectors(blocks * BLOCK_SECTORS))
    }

    fn connect(&self, address: &str) -> Result<(Sender, Receiver), nbd::client::ClientError> {
        let mut client = Client::connect(&address.parse().expect("an address"))?;
        client.go(self.volume)?;
        Ok(client.split())
    }

    /// Reads the whole part from a daemon without older requests in flight, and checks it. Contents
    /// that were uncertain are known from then on.
    pub(crate) fn verify(&mut self, address: &str) {
        let mut client =
            Client::connect(&address.parse().expect("an address")).expect("it listens");
        client.go(self.volume).expect("it is served");
        for first in (0..BLOCKS).step_by(64) {
            let mut tried = (0..TRIES_MAX).map(|_| client.read(self.extent(first, 64)));
            let data = tried.find_map(Result::ok).expect("it can be read");
            for (number, bytes) in (first..).zip(data.chunks_exact(BLOCK)) {
                let contents = self.check(number, bytes);
                let block = self.block(number);
                block.uncertain = false;
                if contents.iter().all(|content| *content == contents[0]) {
                    block.settled = contents[0];
                    block.maybe.clear();
                }
            }
        }
        client.disconnect().expect("goodbye");
    }

    /// The content of each sector of a block.
    ///
    /// # Panics
    /// If a sector has a content that it may not have.
    fn check(&mut self, number: u64, bytes: &[u8]) -> Vec<Content> {
        let start = (self.start + number) * BLOCK_SECTORS;
        let (volume, block) = (self.volume, self.block(number).clone());
        let identify = |(lba, bytes): (u64, &[u8])| {
            let may = |content: &&Content| sector(**content, lba) == *bytes;
            let found = core::iter::once(&block.settled).chain(&block.maybe).find(may);
            found.copied().unwrap_or_else(|| {
                panic!("{volume}: sector {lba} holds {:x?}, not one of {block:x?}", &bytes[..16])
            })
        };
        (start..).zip(bytes.chunks_exact(SECTOR)).map(identify).collect()
    }

    /// Keeps requests in flight until `count` more are answered or the daemon is gone. Each answer
    /// is reported.
    pub(crate) fn work(&mut self, address: &str, quota: u64, progress: Option<&mpsc::Sender<()>>) {
        let mut left = quota;
        while left > 0 {
            let Ok((mut sender, mut receiver)) = self.connect(address) else { return };
            let mut in_flight = BTreeMap::new();
            let cut = loop {
                while left > in_flight.len() as u64 && in_flight.len() < DEPTH {
                    if !self.send_random(&mut sender, &mut in_flight) {
                        break;
                    }
                }
                if in_flight.is_empty() {
                    break false;
                }
                let Ok(completion) = receiver.receive() else {
                    self.abandon(in_flight);
                    return;
                };
                let request = in_flight.remove(&completion.cookie).expect("it was sent");
                self.record(request, &completion.result);
                left -= 1;
                // The receiver is dropped once there have been enough replies.
                let _ = progress.map(|progress| progress.send(()));
                if self.rng.below(CUT) == 0 {
                    break true;
                }
            };
            if cut {
                self.cuts += 1;
                sender.hang_up().expect("it was whole");
                self.abandon(in_flight);
            } else if sender.disconnect().is_ok() {
                assert!(receiver.receive().is_err(), "no other request was sent");
            }
        }
    }

    /// Sends one request to blocks without other requests in flight. Returns false if the
    /// connection is closed.
    fn send_random(&mut self, sender: &mut Sender, in_flight: &mut BTreeMap<u64, Request>) -> bool {
        let kind = self.rng.below(20);
        let op = match kind {
            0..=8 => Op::Read,
            9..=16 => Op::Write,
            17 => Op::WriteZeroes,
            18 => Op::Trim,
            _ => Op::Flush,
        };
        let blocks = 1 + self.rng.below(REQUEST_BLOCKS_MAX);
        let first = self.rng.below(BLOCKS - blocks);
        let blocked = |block: &Block| block.busy || (op.writes() && block.uncertain);
        let blocked = (first..first + blocks).any(|number| blocked(self.block(number)));
        let (op, blocks) = if blocked || op == Op::Flush { (Op::Flush, 0) } else { (op, blocks) };
        let content = if op == Op::Write { self.written + 1 } else { 0 };
        self.written += u64::from(op == Op::Write);
        let extent = self.extent(first, blocks);
        let fua = op.writes() && self.rng.below(8) == 0;
        let operation = match op {
            Op::Flush => Operation::flush(),
            _ => Operation { op, extent, fua },
        };
        let lbas = extent.start.0..extent.start.0 + extent.len.0;
        let data: Vec<u8> = match op {
            Op::Write => lbas.flat_map(|lba| sector(content, lba)).collect(),
            _ => Vec::new(),
        };
        (first..first + blocks).for_each(|number| self.block(number).busy = true);
        self.cookie += 1;
        // A request that was sent in part may have reached the server, so it counts as in flight.
        in_flight.insert(self.cookie, Request { op, first, blocks, content });
        sender.send(self.cookie, operation, &data).is_ok()
    }

    fn record(&mut self, request: Request, result: &Result<Vec<u8>, nbd::Errno>) {
        self.answered += 1;
        self.errors += u64::from(result.is_err());
        for number in request.first..request.first + request.blocks {
            let block = self.block(number);
            block.busy = false;
            match result {
                Ok(_) if request.op.writes() => {
                    block.settled = request.content;
                    block.maybe.clear();
                }
                Err(_) if request.op.writes() => block.maybe.push(request.content),
                _ => {}
            }
        }
        if let (Op::Read, Ok(data)) = (request.op, result) {
            for (number, bytes) in (request.first..).zip(data.chunks_exact(BLOCK)) {
                self.check(number, bytes);
            }
        }
    }

    /// Records that the connection is closed: it is unknown whether these requests were performed.
    fn abandon(&mut self, in_flight: BTreeMap<u64, Request>) {
        self.open += in_flight.len() as u64;
        for request in in_flight.into_values() {
            for number in request.first..request.first + request.blocks {
                let block = self.block(number);
                block.busy = false;
                if request.op.writes() {
                    block.maybe.push(request.content);
                    block.uncertain = true;
                }
            }
        }
    }
}
