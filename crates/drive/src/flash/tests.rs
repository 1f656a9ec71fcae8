//! One fact about flash drives each.

use std::sync::Arc;

use rng::SeededRng;
use units::{Bytes, Duration, Extent, Instant, Lba, Op, Operation, Sectors};

use super::{Amplification, FlashDevice, FlashSpec, Host, Memory, Nand, Suspend};
use crate::{Done, SpecError, Tag};

pub(super) fn at(us: u64) -> Instant {
    Instant::ZERO + us_of(us)
}

pub(super) const fn us_of(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// Four dies on two channels, stripes of 16 sectors. A sector takes 1 us on a channel and on the
/// link; a read 50 us, a program 500 us, an erase 2 ms.
pub(crate) fn spec() -> FlashSpec {
    let rate = Bytes(512_000_000);
    FlashSpec {
        capacity: Sectors(100_000),
        queue_depth_max: 64,
        power_loss_protection: true,
        nand: Nand {
            channels: 2,
            dies_per_channel: 2,
            planes: 2,
            page: Sectors(8),
            channel_rate: rate,
            read: us_of(50),
            program: us_of(500),
            erase: us_of(2_000),
            units_per_block: 1_000,
            suspend: None,
            reads_before_program: 4,
            write_amplification: Amplification::NONE,
        },
        memory: Memory {
            write_buffer: Sectors(64),
            read_buffer: Sectors(512),
            read_ahead: Sectors(32),
        },
        host: Host {
            read_rate: rate,
            write_rate: rate,
            duplex: true,
            read_command: us_of(2),
            write_command: us_of(3),
            read_latency: us_of(10),
            write_latency: us_of(20),
            write_random: Duration::ZERO,
            flush: us_of(5),
        },
    }
}

pub(super) fn device(change: impl FnOnce(&mut FlashSpec)) -> FlashDevice {
    let mut spec = spec();
    change(&mut spec);
    FlashDevice::new(Arc::new(spec.check().expect("a drive")))
}

pub(super) fn extent(start: u64, len: u64) -> Extent {
    Extent::new(Lba(start), Sectors(len))
}

fn read(start: u64, len: u64) -> Operation {
    Operation::read(extent(start, len))
}

fn write(start: u64, len: u64) -> Operation {
    Operation::write(extent(start, len))
}

/// The next that is done.
fn next(device: &mut FlashDevice) -> Done {
    loop {
        let now = device.next_completion().expect("a command is inside");
        if let Some(done) = device.complete(now) {
            return done;
        }
    }
}

/// Submits it and waits for the next that is done.
fn run(device: &mut FlashDevice, now: Instant, operation: Operation) -> Done {
    device.submit(now, Tag(99), operation);
    next(device)
}

#[test]
fn a_read_is_sensed_crosses_its_channel_and_the_link() {
    let mut device = device(|_| {});
    let done = run(&mut device, at(0), read(0, 8));
    assert_eq!(done.at, at(50 + 8 + 2 + 8 + 10));
    assert_eq!(done.parts.overhead, us_of(10));
    assert_eq!(done.parts.transfer, us_of(50 + 8 + 2 + 8));
    assert_eq!(done.parts.queue, Duration::ZERO);
}

#[test]
fn reads_of_two_dies_go_side_by_side_and_of_one_die_in_turn() {
    let pair = |second| {
        let mut device = device(|spec| {
            spec.host.read_rate = Bytes(51_200_000_000);
            spec.host.read_command = Duration::ZERO;
        });
        device.submit(at(0), Tag(1), read(0, 8));
        device.submit(at(0), Tag(2), read(second, 8));
        next(&mut device);
        next(&mut device).at.since(at(0)).as_micros()
    };
    // Die 1 is on the other channel; die 2 on that of die 0; and the same die senses again when its
    // register is empty. The link takes next to no time.
    assert_eq!(pair(16), 50 + 8 + 10);
    assert_eq!(pair(32), 50 + 8 + 8 + 10);
    assert_eq!(pair(64), 50 + 8 + 50 + 8 + 10);
}

#[test]
fn a_write_is_answered_from_the_buffer_and_waits_when_that_is_full() {
    let mut device = device(|_| {});
    let done = run(&mut device, at(0), write(0, 8));
    assert_eq!(done.at, at(3 + 8 + 20));
    let mut device = self::device(|_| {});
    for tag in 0..9 {
        device.submit(at(0), Tag(tag), write(tag * 1_000, 8));
    }
    let all: Vec<_> = (0..9).map(|_| next(&mut device)).collect();
    assert!(all[..8].windows(2).all(|pair| pair[1].at == pair[0].at + us_of(11)));
    // Two writes fill a unit at 22 us; it crosses the channel and is programmed; then there is
    // room.
    assert_eq!(all[8].at, at(22 + 16 + 500 + 11 + 20));
    assert_eq!(all[8].parts.queue, us_of(22 + 16 + 500));
}

#[test]
fn what_is_in_the_write_buffer_is_read_from_there() {
    let mut device = device(|_| {});
    let now = run(&mut device, at(0), write(1_000, 8)).at;
    let hit = run(&mut device, now, read(1_000, 8)).at;
    assert_eq!(hit, now + us_of(2 + 8 + 10));
    let forced = run(&mut device, hit, read(1_000, 8).with_fua());
    assert_eq!(forced.at, hit + us_of(50 + 8 + 2 + 8 + 10));
}

#[test]
fn a_read_waits_for_a_program_unless_the_die_suspends_it() {
    let behind = |suspend| {
        let mut device = device(|spec| spec.nand.suspend = suspend);
        let now = run(&mut device, at(0), write(0, 16)).at;
        assert_eq!(now, at(3 + 16 + 20));
        // The program runs from 35 to 535 us on die 0.
        let done = run(&mut device, at(100), read(6_400, 8));
        (done.at, device)
    };
    assert_eq!(behind(None).0, at(535 + 50 + 8 + 10 + 10));
    let suspend = Suspend { enter: us_of(30), resume: us_of(40), count_max: 1 };
    let (done, mut device) = behind(Some(suspend));
    assert_eq!(done, at(100 + 30 + 50 + 8 + 10 + 10));
    // It goes on at 188 us, 40 us later than that; it is not suspended again.
    let again = run(&mut device, at(300), read(6_400, 8));
    assert_eq!(again.at, at(188 + 40 + (535 - 130) + 50 + 8 + 10 + 10));
}

#[test]
fn reads_do_not_keep_a_program_waiting_for_ever() {
    let mut device = device(|spec| spec.power_loss_protection = false);
    for tag in 0..20 {
        device.submit(at(0), Tag(tag), read(64 * tag, 8));
    }
    // All on die 0; the flush needs a program of it.
    device.submit(at(0), Tag(100), write(64, 8));
    device.submit(at(0), Tag(101), Operation::flush());
    let order: Vec<_> = (0..22).map(|_| next(&mut device).tag.0).collect();
    let flush = order.iter().position(|tag| *tag == 101).expect("it is answered");
    assert!((5..10).contains(&flush), "{order:?}");
}

#[test]
fn an_erase_is_paid_for_once_a_block() {
    let fifth = |units_per_block| {
        let mut device = device(|spec| {
            spec.nand.units_per_block = units_per_block;
            spec.power_loss_protection = false;
        });
        let mut now = at(0);
        for _ in 0..4 {
            now = run(&mut device, now, write(0, 16)).at;
        }
        now = run(&mut device, now, Operation::flush()).at;
        // The fifth unit is the second of die 0.
        now = run(&mut device, now, write(0, 16)).at;
        run(&mut device, now, Operation::flush()).at.since(now)
    };
    assert_eq!(fifth(1), fifth(2) + us_of(2_000));
}

#[test]
fn random_writes_pay_for_garbage_collection_and_runs_do_not() {
    let rate = |stride: u64| {
        let mut device = device(|spec| {
            spec.nand.write_amplification = Amplification(3_000);
            spec.memory.write_buffer = Sectors(512);
        });
        let mut now = at(0);
        for nth in 0..4_000 {
            now = run(&mut device, now, write(nth * stride % 90_000, 8)).at;
        }
        now.since(at(0)).as_nanos() / 4_000
    };
    // Four dies program 16 sectors in 516 us each, one time for a run and three for random writes.
    let (run, random) = (rate(8), rate(24));
    assert!(run.abs_diff(516_000 / 8) * 50 < run, "{run} ns a write");
    assert!(random.abs_diff(3 * 516_000 / 8) * 50 < random, "{random} ns a write");
}

#[test]
fn a_flush_is_nearly_free_with_protection_and_a_program_without() {
    let flush = |protected| {
        let mut device = device(|spec| spec.power_loss_protection = protected);
        let now = run(&mut device, at(0), write(0, 8)).at;
        assert_eq!(now, at(31));
        run(&mut device, now, Operation::flush()).at
    };
    assert_eq!(flush(true), at(31 + 5));
    assert_eq!(flush(false), at(31 + 16 + 500 + 5));
    let mut clean = device(|spec| spec.power_loss_protection = false);
    assert_eq!(run(&mut clean, at(0), Operation::flush()).at, at(5));
}

#[test]
fn a_flush_covers_what_was_submitted_before_it() {
    let mut device = device(|spec| spec.power_loss_protection = false);
    device.submit(at(0), Tag(1), write(0, 40));
    device.submit(at(0), Tag(2), Operation::flush());
    assert_eq!(next(&mut device).tag, Tag(1));
    let flushed = next(&mut device);
    // 40 sectors arrive at 43 us; the last 8 of them are padded, and go to the third die.
    assert_eq!(flushed.at, at(43 + 16 + 500 + 5));
    assert_eq!(device.buffered(), Sectors::ZERO);
}

#[test]
fn a_forced_write_is_answered_when_it_is_durable_and_before_what_comes_after_it() {
    let forced = |protected| {
        let mut device = device(|spec| spec.power_loss_protection = protected);
        run(&mut device, at(0), write(0, 8).with_fua()).at
    };
    assert_eq!(forced(true), at(31));
    assert_eq!(forced(false), at(11 + 16 + 500 + 20));
    let mut device = device(|spec| spec.power_loss_protection = false);
    device.submit(at(0), Tag(1), write(0, 8).with_fua());
    device.submit(at(0), Tag(2), write(4, 8));
    assert_eq!([next(&mut device).tag, next(&mut device).tag], [Tag(1), Tag(2)]);
}

#[test]
fn a_sequential_reader_finds_what_was_read_ahead() {
    let mut device = device(|_| {});
    let mut now = at(0);
    let mut waits = Vec::new();
    for nth in 0..40 {
        let done = run(&mut device, now, read(nth * 8, 8));
        waits.push(done.at.since(now));
        now = done.at;
    }
    assert!(waits[4..].iter().all(|wait| *wait == us_of(2 + 8 + 10)), "{waits:?}");
    // Written sectors are not served from what was read before the write.
    let place = 40 * 8;
    now = run(&mut device, now, write(place, 64)).at;
    now = run(&mut device, now, write(2_000, 64)).at;
    device.advance(now + us_of(10_000));
    let done = run(&mut device, now + us_of(10_000), read(place, 8));
    assert!(done.parts.transfer >= us_of(50), "{done:?}");
}

#[test]
fn streams_a_round_number_apart_do_not_disturb_each_other() {
    let mut device = device(|_| {});
    let (mut now, mut waits) = (at(0), Vec::new());
    for nth in 0..80 {
        let done = run(&mut device, now, read(nth % 2 * 65_536 + nth / 2 * 8, 8));
        waits.push(done.at.since(now));
        now = done.at;
    }
    assert!(waits[8..].iter().all(|wait| *wait == us_of(2 + 8 + 10)), "{waits:?}");
}

#[test]
fn a_trim_and_zeroes_take_a_record_however_long_they_are() {
    for op in [Op::Trim, Op::WriteZeroes] {
        let mut device = device(|spec| spec.power_loss_protection = false);
        let operation = Operation { op, extent: extent(0, 100_000), fua: false };
        let done = run(&mut device, at(0), operation);
        assert_eq!(done.at, at(3 + 20));
        assert_eq!(device.buffered(), Sectors(8));
        assert_eq!(run(&mut device, done.at, Operation::flush()).at, at(23 + 16 + 500 + 5));
    }
}

#[test]
fn one_way_at_a_time_reads_and_writes_share_the_link() {
    let last = |duplex| {
        let mut device = device(|spec| spec.host.duplex = duplex);
        device.submit(at(0), Tag(1), read(0, 8));
        // It occupies the link from 50 to 117 us when the data of the read are ready.
        device.submit(at(50), Tag(2), write(1_000, 64));
        let both = [next(&mut device), next(&mut device)];
        both.iter().find(|done| done.tag == Tag(1)).expect("it is read").at
    };
    assert_eq!(last(true), at(50 + 8 + 10 + 10));
    assert_eq!(last(false), at(50 + 3 + 64 + 10 + 10));
}

#[test]
fn more_outstanding_read_more_until_every_die_is_busy() {
    let rate = |depth: u64| {
        let mut device = device(|_| {});
        let mut rng = SeededRng::new(1, 0);
        let mut place = || read(rng.below(12_500) * 8, 8);
        (0..depth).for_each(|tag| device.submit(at(0), Tag(tag), place()));
        let mut now = at(0);
        for _ in 0..5_000 {
            now = next(&mut device).at;
            device.submit(now, Tag(0), place());
        }
        5_000_000_000 / now.since(at(0)).as_micros()
    };
    let rates: Vec<_> = [1, 2, 4, 8, 16, 32, 64].into_iter().map(rate).collect();
    assert!(rates.windows(2).all(|pair| pair[0] <= pair[1]), "{rates:?}");
    // One at a time takes 78 us; four dies read at most one in 58 us each.
    assert!(rates[0].abs_diff(1_000_000 / 78) < 10, "{rates:?}");
    assert!(rates[6] * 58 * 10 > 9 * 4_000_000, "{rates:?}");
}

#[test]
fn what_is_no_flash_drive_is_refused_by_the_name_of_its_field() {
    type Change = fn(&mut FlashSpec);
    let wrong: [(&str, Change); 12] = [
        ("capacity", |spec| spec.capacity = Sectors::ZERO),
        ("queue_depth_max", |spec| spec.queue_depth_max = 2_000),
        ("nand.channels", |spec| spec.nand.channels = 0),
        ("nand.dies_per_channel", |spec| spec.nand.dies_per_channel = 65),
        ("nand.page", |spec| spec.nand.page = Sectors(1_025)),
        ("nand.read", |spec| spec.nand.read = Duration::ZERO),
        ("nand.write_amplification", |spec| spec.nand.write_amplification = Amplification(999)),
        ("nand.channel_rate", |spec| spec.nand.channel_rate = Bytes(1)),
        ("memory.write_buffer", |spec| spec.memory.write_buffer = Sectors(31)),
        ("memory.read_ahead", |spec| spec.memory.read_ahead = Sectors(513)),
        ("host.flush", |spec| spec.host.flush = Duration::from_secs(2)),
        ("suspend.count_max", |spec| {
            let (enter, resume) = (us_of(1), us_of(1));
            spec.nand.suspend = Some(Suspend { enter, resume, count_max: 0 });
        }),
    ];
    for (field, change) in wrong {
        let mut spec = spec();
        change(&mut spec);
        let error: SpecError = spec.check().expect_err(field);
        assert_eq!(error.field().to_string(), field);
        assert!(error.reason().contains("expected"), "{}", error.reason());
    }
}
