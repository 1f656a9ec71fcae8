//! Whatever is read, nothing panics; whatever is written, is read again.

mod common;

use common::{read, read_with, record, write};
use spindle_trace::{Format, Options, Reader, Record, Stat, Target};
use units::{Duration, Op, Sectors};

/// `SplitMix64`: a seed means one trace for good.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).expect("small")
    }
}

const PIECES: [&[u8]; 12] = [
    b"-",
    b"99999999999999999999",
    b"\n",
    b",",
    b" ",
    b"\0",
    b"\xff\xff\xff\xff",
    b".",
    b"+",
    b"0",
    b"F",
    b"R",
];

fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len());
        match rng.below(5) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] = u8::try_from(rng.below(256)).expect("a byte"),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => {
                let end = (at + rng.below(40)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => drop(bytes.splice(at..at, PIECES[rng.below(PIECES.len())].iter().copied())),
        }
    }
}

/// Reads it all; gives whether it was refused. What is given keeps the reader's promises.
fn survive(bytes: &[u8], options: Options) -> bool {
    let Ok(mut reader) = Reader::new(bytes, "mutant", options) else { return true };
    let (mut last, mut stat) = (units::Instant::ZERO, Stat::default());
    for record in reader.by_ref() {
        let Ok(record) = record else { return true };
        assert!(record.at >= last, "time goes back");
        let extent = record.operation.extent;
        assert_eq!(extent.is_empty(), record.operation.op == Op::Flush, "an extent of nothing");
        last = record.at;
        stat.add(&record);
    }
    assert_eq!(stat.requests, reader.tally().records);
    false
}

#[test]
fn mutants_of_every_format_are_read_or_refused() {
    let (samples, mut refused, mut cases) = (common::samples(), 0, 0);
    let limit = std::env::var("SPINDLE_CASES").ok().and_then(|cases| cases.parse().ok());
    for seed in 0..limit.unwrap_or(20_000) {
        let mut rng = Rng(seed);
        let mut bytes = samples[rng.below(samples.len())].clone();
        mutate(&mut rng, &mut bytes);
        let format = (rng.below(4) == 0).then(|| Format::ALL[rng.below(Format::ALL.len())]);
        let capacity = (rng.below(4) == 0).then_some(Sectors(1 << 20));
        let options = Options { format, capacity, device: None, lenient: rng.below(2) == 0 };
        let survived = std::panic::catch_unwind(|| survive(&bytes, options));
        refused += u64::from(survived.unwrap_or_else(|_| panic!("seed {seed} broke it")));
        cases += 1;
    }
    let (few, many) = (cases / 5, cases * 19 / 20);
    assert!((few..many).contains(&refused), "{refused} of {cases}: too mild or too wild");
}

#[test]
fn a_trace_that_ends_at_any_byte_is_read_or_refused() {
    for sample in common::samples() {
        for end in 0..sample.len() {
            survive(&sample[..end], Options::default());
            survive(&sample[..end], Options { lenient: true, ..Options::default() });
        }
    }
}

/// Records as any trace might have them.
fn random_records(rng: &mut Rng, count: usize) -> Vec<Record> {
    let mut nanos = 0;
    let ops = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes];
    (0..count)
        .map(|_| {
            nanos += rng.next() % 10_000_000;
            let op = ops[rng.below(ops.len())];
            let (start, len) = match op {
                Op::Flush => (0, 0),
                _ => (rng.next() >> 16, 1 + rng.next() % 2_048),
            };
            let device = u32::try_from(rng.below(5)).expect("small");
            let mut record = record(nanos, device, op, start, len);
            record.operation.fua = op == Op::Write && rng.below(3) == 0;
            let mut time = || (rng.below(2) == 0).then(|| Duration::from_nanos(rng.next() >> 20));
            (record.response, record.think) = (time(), time());
            record
        })
        .collect()
}

#[test]
fn what_is_written_is_read_again() {
    for seed in 0..200 {
        let records = random_records(&mut Rng(seed), 50);
        let (bytes, left_out) = write(&records, Target::Spindle);
        assert_eq!((read(&bytes).1, left_out.requests), (records.clone(), 0), "seed {seed}");

        let (bytes, left_out) = write(&records, Target::DiskSimAscii);
        let plain = |record: &Record| {
            let operation = units::Operation { fua: false, ..record.operation };
            Record { operation, response: None, think: None, ..*record }
        };
        let kept = records.iter().filter(|r| matches!(r.operation.op, Op::Read | Op::Write));
        let kept: Vec<Record> = kept.map(plain).collect();
        assert_eq!(left_out.requests, (records.len() - kept.len()) as u64);
        let options = Options { format: Some(Format::DiskSimAscii), ..Options::default() };
        assert_eq!(read_with(&bytes, options).1, kept, "seed {seed}");

        for target in [Target::FioV2, Target::FioV3] {
            let (bytes, left_out) = write(&records, target);
            // fio's devices are numbered as they come, and its times are whole microseconds.
            let mut devices = Vec::new();
            let expected: Vec<Record> = records
                .iter()
                .filter(|record| record.operation.op != Op::WriteZeroes)
                .map(|record| {
                    if !devices.contains(&record.device) {
                        devices.push(record.device);
                    }
                    let device = devices.iter().position(|known| *known == record.device);
                    let device = u32::try_from(device.expect("just added")).expect("few");
                    let at = units::Instant::from_nanos(record.at.as_nanos() / 1_000 * 1_000);
                    Record { device, at, ..plain(record) }
                })
                .collect();
            assert_eq!(read(&bytes).1, expected, "seed {seed}");
            assert_eq!(left_out.requests, (records.len() - expected.len()) as u64);
        }
    }
}

#[test]
fn absurd_requests_are_counted_without_a_panic() {
    let mut stat = Stat::default();
    for line in 0..9 {
        let (_, records, _) = read(format!("spindle trace 1\n{line} R 0 9007199254740992 0\n"));
        stat.add(&records[0]);
        stat.add(&Record { at: units::Instant::FAR_FUTURE, ..records[0] });
    }
    assert_eq!((stat.requests, stat.bytes().0), (18, u64::MAX));
}
