//! A part of a volume that one client has for itself, and what it may hold.
//!
//! A block that was written holds, in each of its sectors, what the last acknowledged write wrote,
//! or what a later one wanted to write of which no answer came. After a cut such a write may still
//! be under way, and its block is left alone until the daemon is another one: NBD has no way to ask
//! for it.

use std::collections::BTreeMap;
use std::sync::mpsc;

use nbd::client::{Client, Receiver, Sender};
use sim::SeededRng;
use units::{Extent, Lba, Op, Operation, Sectors};

const SECTOR: usize = 512;
const BLOCK_SECTORS: u64 = 8;
const BLOCK: usize = 4_096;
/// Blocks of a part: 8 MiB.
const BLOCKS: u64 = 2_048;
const REQUEST_BLOCKS_MAX: u64 = 16;
const DEPTH: usize = 8;
/// How often a read that failed is tried again before a daemon's clients work: faults are put into
/// its disks.
const TRIES_MAX: u32 = 50;
/// One answer in this number is the last before the connection is cut.
const CUT: u64 = 300;

/// What a write wrote: its number, or 0 for zeroes.
type Content = u64;

#[derive(Clone, Debug, Default)]
struct Block {
    settled: Content,
    /// Written later than that, with no answer or a bad one.
    maybe: Vec<Content>,
    /// What is asked of it has no answer yet.
    busy: bool,
    /// A request whose connection was cut may still reach it.
    haunted: bool,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Asked {
    op: Op,
    first: u64,
    blocks: u64,
    content: Content,
}

/// One client's part of a volume.
#[derive(Debug)]
pub(crate) struct Range {
    volume: &'static str,
    /// Where it begins, in blocks.
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

/// What a write of this number puts into a sector.
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

    /// Reads everything back from a daemon that has no older requests under way; what is found of
    /// what was not known to be there is known from here on.
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
                block.haunted = false;
                if contents.iter().all(|content| *content == contents[0]) {
                    block.settled = contents[0];
                    block.maybe.clear();
                }
            }
        }
        client.disconnect().expect("goodbye");
    }

    /// What each sector of a block holds: something that it may.
    fn check(&mut self, number: u64, bytes: &[u8]) -> Vec<Content> {
        let start = (self.start + number) * BLOCK_SECTORS;
        let (volume, block) = (self.volume, self.block(number).clone());
        let held = |(lba, bytes): (u64, &[u8])| {
            let may = |content: &&Content| sector(**content, lba) == *bytes;
            let found = core::iter::once(&block.settled).chain(&block.maybe).find(may);
            found.copied().unwrap_or_else(|| {
                panic!("{volume}: sector {lba} holds {:x?}, not one of {block:x?}", &bytes[..16])
            })
        };
        (start..).zip(bytes.chunks_exact(SECTOR)).map(held).collect()
    }

    /// Keeps requests in flight until `count` more are answered or the daemon is gone. Each answer
    /// is reported.
    pub(crate) fn work(&mut self, address: &str, quota: u64, progress: Option<&mpsc::Sender<()>>) {
        let mut left = quota;
        while left > 0 {
            let Ok((mut sender, mut receiver)) = self.connect(address) else { return };
            let mut under_way = BTreeMap::new();
            let cut = loop {
                while left > under_way.len() as u64 && under_way.len() < DEPTH {
                    if !self.ask(&mut sender, &mut under_way) {
                        break;
                    }
                }
                if under_way.is_empty() {
                    break false;
                }
                let Ok(completion) = receiver.receive() else {
                    self.abandon(under_way);
                    return;
                };
                let asked = under_way.remove(&completion.cookie).expect("it was asked");
                self.answer(asked, &completion.result);
                left -= 1;
                // The receiver is gone once there have been enough.
                let _ = progress.map(|progress| progress.send(()));
                if self.rng.below(CUT) == 0 {
                    break true;
                }
            };
            if cut {
                self.cuts += 1;
                sender.hang_up().expect("it was whole");
                self.abandon(under_way);
            } else if sender.disconnect().is_ok() {
                assert!(receiver.receive().is_err(), "nothing else was asked");
            }
        }
    }

    /// Sends one request, of blocks that nothing else is asked of; false if the connection is gone.
    fn ask(&mut self, sender: &mut Sender, under_way: &mut BTreeMap<u64, Asked>) -> bool {
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
        let barred = |block: &Block| block.busy || (op.writes() && block.haunted);
        let barred = (first..first + blocks).any(|number| barred(self.block(number)));
        let (op, blocks) = if barred || op == Op::Flush { (Op::Flush, 0) } else { (op, blocks) };
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
        // Even of a request that could not be sent whole, some may have arrived: it is one that is
        // left open.
        under_way.insert(self.cookie, Asked { op, first, blocks, content });
        sender.send(self.cookie, operation, &data).is_ok()
    }

    fn answer(&mut self, asked: Asked, result: &Result<Vec<u8>, nbd::Errno>) {
        self.answered += 1;
        self.errors += u64::from(result.is_err());
        for number in asked.first..asked.first + asked.blocks {
            let block = self.block(number);
            block.busy = false;
            match result {
                Ok(_) if asked.op.writes() => {
                    block.settled = asked.content;
                    block.maybe.clear();
                }
                Err(_) if asked.op.writes() => block.maybe.push(asked.content),
                _ => {}
            }
        }
        if let (Op::Read, Ok(data)) = (asked.op, result) {
            for (number, bytes) in (asked.first..).zip(data.chunks_exact(BLOCK)) {
                self.check(number, bytes);
            }
        }
    }

    /// The connection is gone: it is unknown whether these requests were performed.
    fn abandon(&mut self, under_way: BTreeMap<u64, Asked>) {
        self.open += under_way.len() as u64;
        for asked in under_way.into_values() {
            for number in asked.first..asked.first + asked.blocks {
                let block = self.block(number);
                block.busy = false;
                if asked.op.writes() {
                    block.maybe.push(asked.content);
                    block.haunted = true;
                }
            }
        }
    }
}
