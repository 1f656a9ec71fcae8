//! Sessions under clients that break every rule, drawn from a seed.
//!
//! A case is one connection: a stream made of valid, damaged and senseless messages, cut anywhere; a disk
//! that answers in any order, wrongly at times; and a socket that takes output when it likes. Checked after
//! every step: nothing panics, the invariants hold, memory is bounded, no request lies outside its export,
//! and no byte of the shared budget is lost.

use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use units::{Bytes, Extent, Lba, Op};

use crate::export::{Export, ExportId, Exports};
use crate::limits::{PAYLOAD_BYTES_MAX, PAYLOAD_SKIP_BYTES_MAX, RECEIVE_BYTES_MAX};
use crate::request::{ConnectionId, Errno, Request};
use crate::session::{Budget, Event, Session, World};
use crate::wire::{RequestHeader, command, info, option, option_request};

/// A case that failed. Its text ends with the seed that repeats it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed of the one case.
    pub seed: u64,
    /// What did not hold.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, with seed {}", self.message, self.seed)
    }
}

impl std::error::Error for Failure {}

/// A server with one export named `vol` of so many bytes.
#[derive(Clone, Copy, Debug)]
pub struct OneExport(
    /// Its size.
    pub u64,
);

impl Exports for OneExport {
    fn list(&self) -> Vec<Export> {
        vec![Export::new(ExportId(0), "vol", Bytes(self.0))]
    }

    fn open(&self, name: &str) -> Option<Export> {
        self.list().into_iter().find(|export| export.name == name)
    }
}

/// Runs `cases` cases with the seeds from `seed` on.
///
/// # Errors
/// The first case that fails.
pub fn run(seed: u64, cases: u64) -> Result<(), Failure> {
    for seed in (0..cases).map(|case| seed.wrapping_add(case)) {
        let outcome = catch_unwind(AssertUnwindSafe(|| Case::new(seed).run()));
        outcome.map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Failure { seed, message: text.unwrap_or_else(|| "a panic".to_owned()) }
        })?;
    }
    Ok(())
}

/// Dice: a Weyl sequence, scrambled by multiplications and shifts.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ (mixed >> 32)
    }

    fn word(&mut self) -> u32 {
        let [_, _, _, _, bytes @ ..] = self.next().to_be_bytes();
        u32::from_be_bytes(bytes)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }

    /// Under `end`, which is not zero.
    fn under(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn size(&mut self, end: usize) -> usize {
        usize::try_from(self.under(end as u64)).unwrap_or(0)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.under(n) == 0
    }

    fn among<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.size(choices.len())]
    }
}

struct Case {
    dice: Dice,
    exports: OneExport,
    session: Session,
    budget: Budget,
    memory: usize,
    outstanding: Vec<Request>,
    /// One message in so many is damaged.
    damage: u64,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let memory = dice.among(&[1 << 30, 1 << 26, 1 << 16]);
        let sectors = dice.among(&[0, 1, 64, 1 << 17, 1 << 40]);
        Self {
            exports: OneExport(sectors * units::SECTOR_BYTES),
            session: Session::new(ConnectionId(dice.next())),
            budget: Budget::new(memory),
            memory,
            outstanding: Vec::new(),
            damage: dice.among(&[2, 20, 1_000_000]),
            dice,
        }
    }

    fn run(mut self) {
        let mut stream = self.handshake();
        for _ in 0..self.dice.size(40) {
            let message = self.message();
            stream.extend_from_slice(&message);
        }
        let mut rest = &stream[..];
        let mut steps = 0;
        while !rest.is_empty() && !self.session.is_finished() && steps < 20_000 {
            steps += 1;
            match self.dice.under(8) {
                0 => self.send(),
                1 => self.answer(),
                2 => self.resume(),
                _ if self.session.wants_input() => {
                    let piece = self.dice.among(&[1, 30, 5_000, RECEIVE_BYTES_MAX]);
                    let piece = rest.len().min(1 + self.dice.size(piece));
                    self.feed(&rest[..piece]);
                    rest = &rest[piece..];
                }
                _ => {}
            }
            self.session.invariants();
        }
        self.depart();
    }

    /// Whatever happened, all memory comes back.
    fn depart(self) {
        let Self { session, mut budget, memory, outstanding, .. } = self;
        let mut in_flight = session.depart(&mut budget);
        assert_eq!(in_flight.count(), outstanding.len(), "each request is known until answered");
        for request in outstanding {
            let entry = in_flight.close(request.id.sequence).expect("an outstanding request");
            budget.give(entry.bytes);
        }
        assert_eq!(budget.free(), memory, "no memory is lost");
    }

    fn feed(&mut self, bytes: &[u8]) {
        let mut events = Vec::new();
        let (exports, budget) = (&self.exports, &mut self.budget);
        self.session.feed(bytes, &mut World { exports, budget, events: &mut events });
        self.note(events);
    }

    fn resume(&mut self) {
        let mut events = Vec::new();
        let (exports, budget) = (&self.exports, &mut self.budget);
        let mut world = World { exports, budget, events: &mut events };
        if self.session.blocked().is_some() {
            self.session.resume(&mut world);
        } else if let Some(space) = self.session.payload_space(world.budget) {
            let count = space.len().min(1 + self.dice.size(100_000));
            self.session.payload_filled(count, &mut world);
        }
        self.note(events);
    }

    fn note(&mut self, events: Vec<Event>) {
        for event in events {
            let Event::Request(request) = event else { continue };
            let disk = Extent::new(Lba(0), Bytes(self.exports.0).sectors_floor());
            assert!(disk.contains(request.operation.extent), "a request lies inside the export");
            let payload = if request.operation.op == Op::Write {
                request.operation.extent.len.bytes_usize()
            } else {
                0
            };
            assert_eq!(request.data.len(), payload, "a write brings its data, and only a write");
            self.outstanding.push(request);
        }
    }

    fn answer(&mut self) {
        if self.outstanding.is_empty() {
            return;
        }
        let request = self.outstanding.swap_remove(self.dice.size(self.outstanding.len()));
        let asked = request.operation.extent.len.bytes().0.min(PAYLOAD_BYTES_MAX as u64);
        let asked = usize::try_from(asked).unwrap_or(0);
        let result = match self.dice.under(8) {
            0 => Err(Errno::Io),
            1 => Ok(vec![0; self.dice.size(2_000)]),
            _ if request.operation.op == Op::Read => Ok(vec![0; asked]),
            _ => Ok(request.data),
        };
        let sequence = request.id.sequence;
        assert!(self.session.reply(sequence, result, &mut self.budget), "it was outstanding");
        assert!(!self.session.reply(sequence, Ok(Vec::new()), &mut self.budget), "and is no more");
        self.session.reply(self.dice.next(), Err(Errno::Perm), &mut self.budget);
    }

    fn send(&mut self) {
        let mut slices = [std::io::IoSlice::new(&[]); 5];
        let (used, bytes) = self.session.output().slices(&mut slices);
        assert_eq!(slices[..used].iter().map(|slice| slice.len()).sum::<usize>(), bytes);
        let count = if self.dice.one_in(2) { bytes } else { self.dice.size(bytes + 1) };
        self.session.sent(count, &mut self.budget);
    }

    fn handshake(&mut self) -> Vec<u8> {
        let flags = if self.dice.one_in(self.damage) { self.dice.word() % 64 } else { 3 };
        let mut out = flags.to_be_bytes().to_vec();
        for _ in 0..self.dice.size(4) {
            let data: Vec<_> = (0..self.dice.size(40)).map(|_| self.dice.byte()).collect();
            let option = self.dice.word() % 14;
            if !matches!(option, option::EXPORT_NAME | option::ABORT) {
                option_request(&mut out, option, &[&data]);
            }
        }
        let name: &[u8] = self.dice.among(&[b"vol", b""]);
        if self.dice.one_in(4) {
            option_request(&mut out, option::EXPORT_NAME, &[name]);
        } else {
            let length = if name.is_empty() { [0; 4] } else { [0, 0, 0, 3] };
            let wanted = [&[0, 1][..], &info::BLOCK_SIZE.to_be_bytes()].concat();
            option_request(&mut out, option::GO, &[&length, name, &wanted]);
        }
        self.maybe_damage(&mut out);
        out
    }

    fn message(&mut self) -> Vec<u8> {
        let disk_end = self.exports.0.saturating_add(4096);
        let sectors = self.dice.among(&[0, 1, 8, 300, 70_000, 200_000_u32]);
        let header = RequestHeader {
            flags: self.dice.among(&[0, 0, 0, 1, 2, 3, 0x8000]),
            command: self.dice.among(&[0, 0, 1, 1, 1, 3, 4, 5, 6, 99]),
            cookie: self.dice.under(8),
            offset: self.dice.under(disk_end) / 512 * 512 + self.dice.among(&[0, 0, 0, 1]),
            length: if self.dice.one_in(30) { self.dice.word() } else { sectors * 512 },
        };
        let mut out = Vec::new();
        header.encode(&mut out);
        let payload = usize::try_from(header.length).unwrap_or(0);
        // Long payloads cost time and teach nothing new: most stay promises, and what follows is taken for
        // their bytes.
        let kept = payload < 200_000 || (payload <= PAYLOAD_SKIP_BYTES_MAX && self.dice.one_in(40));
        if header.command == command::WRITE && kept {
            out.resize(out.len() + payload, 0xa5);
        }
        self.maybe_damage(&mut out);
        if self.dice.one_in(60) {
            RequestHeader { command: command::DISC, ..header }.encode(&mut out);
        }
        out
    }

    fn maybe_damage(&mut self, message: &mut Vec<u8>) {
        if !self.dice.one_in(self.damage) {
            return;
        }
        let at = self.dice.size(message.len().min(64));
        match self.dice.under(4) {
            0 => message[at] ^= 1 << self.dice.under(8),
            1 => message[at] = self.dice.byte(),
            2 => message.truncate(at),
            _ => drop(message.splice(at..at, [0xff, 0, 0xff])),
        }
    }
}
