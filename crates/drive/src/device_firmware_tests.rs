//! What firmware makes of a device, one trait a test; and what holds whatever its traits are.

use proptest::prelude::*;
use units::{Duration, Operation, Sectors, Share};

use crate::device_properties::{play_with, step};
use crate::device_tests::{at, device, extent, model, read, run, us, write};
use crate::samples::LOG;
use crate::{
    Bus, DestageBeforeRead, ExtraDisconnect, Firmware, Parts, ReadAhead, Spec, WriteAhead,
};

/// Time enough for anything that the drive does by itself.
const LATER: Duration = us(200_000);

fn with(change: impl FnOnce(&mut Firmware)) -> impl FnOnce(&mut Spec) {
    |spec| change(&mut spec.firmware)
}

/// Whether a read comes out of the buffer, after these reads with time between them.
fn hits(change: impl FnOnce(&mut Firmware), before: &[(u64, u64)], last: (u64, u64)) -> bool {
    let mut device = device(with(change));
    let mut now = at(0);
    for (start, len) in before {
        now = run(&mut device, now, read(*start, *len)).at + LATER;
    }
    run(&mut device, now, read(last.0, last.1)).parts.overhead == us(100)
}

#[test]
fn reading_ahead_stops_where_the_firmware_says() {
    let reaches = |read_ahead, before: &[(u64, u64)], lba| {
        let strict = |firmware: &mut Firmware| {
            (firmware.read_ahead, firmware.strict_hits) = (read_ahead, true);
        };
        hits(strict, before, (lba, 1)) && !hits(strict, before, (lba + 1, 1))
    };
    // A track holds 200 sectors, a cylinder 800, a segment 512.
    let never = |f: &mut Firmware| (f.read_ahead, f.strict_hits) = (ReadAhead::Never, true);
    assert!(!hits(never, &[(0, 8)], (8, 1)));
    assert!(reaches(ReadAhead::Track, &[(150, 8)], 199));
    assert!(reaches(ReadAhead::Cylinder, &[(700, 8)], 799));
    assert!(reaches(ReadAhead::Fixed, &[(100, 8)], 100 + 8 + 511));
    assert!(reaches(ReadAhead::TrackAndNext, &[(150, 8)], 199));
    // What precedes the track is in the segment: the whole of it was read, and the next is.
    assert!(reaches(ReadAhead::TrackAndNext, &[(190, 20)], 599));
}

#[test]
fn what_was_read_once_is_not_there_to_be_read_again_where_room_is_made_for_more() {
    let before = [(0, 8), (8, 8)];
    assert!(hits(|_| {}, &before, (8, 8)));
    let once = |firmware: &mut Firmware| firmware.discard_after_read = true;
    assert!(!hits(once, &before, (8, 8)));
    assert!(hits(once, &before, (16, 8)));
}

#[test]
fn a_track_that_passes_is_kept_from_where_the_heads_came_down() {
    // The arm is on cylinder 10 already; nothing of its track before the sector is there otherwise.
    let before = [(8_000, 8), (8_190, 8)];
    let keeps = |whole: bool| {
        move |f: &mut Firmware| {
            (f.read_ahead, f.strict_hits, f.whole_track) = (ReadAhead::Never, true, whole);
        }
    };
    assert!(!hits(keeps(false), &before, (8_180, 8)));
    assert!(hits(keeps(true), &before, (8_180, 8)));
}

#[test]
fn a_read_that_begins_anywhere_takes_one_turn_at_most() {
    let turn = |zero_latency: bool| {
        let mut device = device(|spec| {
            spec.read_buffer.segments = 0;
            spec.firmware.zero_latency_read = zero_latency;
        });
        // The heads are ready in the middle of the track, 300 us after the overhead has
        // in_progress.
        let done = run(&mut device, at(5_000), read(0, 200));
        done.parts.rotation + done.parts.transfer
    };
    assert!(turn(false) > us(14_600) && turn(false) < us(14_800), "{}", turn(false));
    assert!(turn(true) < us(10_060), "{}", turn(true));
}

#[test]
fn the_bus_costs_what_it_is_said_to_cost() {
    let bus = Bus {
        read_disconnect: us(1_000),
        reselect: us(20),
        prepare: us(7),
        read_done: us(3),
        write_done: us(4),
        ..Bus::default()
    };
    let mut device = device(with(|firmware| firmware.bus = bus));
    let plain = run(&mut crate::device_tests::device(|_| {}), at(0), read(8_000, 8));
    let miss = run(&mut device, at(0), read(8_000, 8));
    // The first sector is there at 5.05 ms: the bus, given up at 1.3 ms, is asked for then.
    let first = plain.parts.overhead + plain.parts.seek + plain.parts.rotation + us(50);
    let expected = (first + us(20 + 8 * 5)).max(plain.parts.sum()) + us(3);
    assert!(miss.parts.sum().as_nanos().abs_diff(expected.as_nanos()) < 5, "{:?}", miss.parts);
    let hit = run(&mut device, miss.at + LATER, read(8_008, 8));
    assert_eq!(hit.parts.sum(), us(100 + 7 + 8 * 5 + 3));
    let write = run(&mut device, hit.at + LATER, write(0, 8));
    assert_eq!(write.parts.sum(), us(150 + 7 + 8 * 5 + 4));
}

#[test]
fn the_bus_waits_until_its_share_of_a_read_is_there() {
    let sum = |percent| {
        let mut device = device(|spec| {
            spec.bus_sector = us(60);
            spec.firmware.bus.read_share = Share::from_percent(percent);
        });
        run(&mut device, at(0), read(8_000, 100)).parts.sum()
    };
    // The bus is slower than the media: each sector that it waits for comes on top.
    assert_eq!(sum(75) - sum(0), us(74 * 50));
}

#[test]
fn the_media_does_not_overtake_the_bus() {
    let done = |bus: u64, ahead| {
        let mut device = device(|spec| {
            spec.write_cache = false;
            spec.bus_sector = us(bus);
            spec.firmware.bus.write_ahead = ahead;
        });
        run(&mut device, at(0), write(8_000, 120)).parts
    };
    let few = WriteAhead::Sectors { short: Sectors(5), long: Sectors(200), of_long: Sectors(9) };
    assert_eq!(done(5, WriteAhead::One), done(5, few));
    // At 60 us a sector the first hundred have an arm's movement of lead, which 10 us each use up.
    let (fast, slow) = (done(49, WriteAhead::One), done(90, WriteAhead::One));
    assert!(slow.transfer >= fast.transfer + us(9_900), "{slow:?}");
}

#[test]
fn a_write_after_a_write_elsewhere_releases_the_bus_once_more() {
    let extra = ExtraDisconnect {
        command: us(100),
        disconnect: us(10),
        pause: us(30_000),
        second_disconnect: us(20),
        second_reselect: us(40),
        seek_delay: us(60),
    };
    let mut device = device(|spec| {
        spec.write_cache = false;
        spec.firmware.bus.extra_disconnect = Some(extra);
    });
    let first = run(&mut device, at(0), write(0, 8));
    let next = run(&mut device, first.at, write(8, 8));
    assert!(next.parts.sum() < us(11_000), "{:?}", next.parts);
    let elsewhere = run(&mut device, next.at, write(4_000, 8));
    assert_eq!(elsewhere.parts.overhead, us(100));
    assert!(elsewhere.parts.sum() > us(30_000), "{:?}", elsewhere.parts);
}

#[test]
fn a_least_movement_settles_as_any_other() {
    let seek = |least| {
        let mut device = device(|spec| {
            spec.write_cache = false;
            spec.firmware.write_seek_min = least;
        });
        run(&mut device, at(0), write(0, 8)).parts.seek
    };
    assert_eq!([seek(Duration::ZERO), seek(us(600))], [Duration::ZERO, us(1_000)]);
}

#[test]
fn few_write_segments_hold_few_writes_and_empty_in_order() {
    let mut device = device(with(|firmware| firmware.write_segments = 1));
    let first = run(&mut device, at(0), write(40_000, 8));
    assert_eq!(first.parts.queue, Duration::ZERO);
    let second = run(&mut device, first.at, write(0, 8));
    assert!(second.parts.queue > us(5_000), "{:?}", second.parts);
    // What goes on where the last write ended shares its segment.
    let third = run(&mut device, second.at, write(8, 8));
    assert_eq!(third.parts.queue, Duration::ZERO);
}

/// Read-ahead of 512 sectors into a segment of as many.
fn fixed(rest_on_hit: bool) -> impl FnOnce(&mut Firmware) {
    move |firmware| {
        (firmware.read_ahead, firmware.strict_hits) = (ReadAhead::Fixed, true);
        firmware.rest_on_hit = rest_on_hit;
    }
}

#[test]
fn a_hit_restarts_a_read_ahead_that_has_ended_unless_the_firmware_lets_it_rest() {
    let reaches = |rest, lba| hits(fixed(rest), &[(0, 8), (8, 8)], (lba, 8));
    // The first read is followed by read-ahead up to 520, the hit by 8 sectors more.
    assert_eq!([reaches(false, 512), reaches(true, 512)], [true, true]);
    assert_eq!([reaches(false, 520), reaches(true, 520)], [true, false]);
}

#[test]
fn reads_in_a_row_keep_a_read_ahead_going_that_would_rest() {
    // The bus is slower than the media, so that the segment is full while the host takes from it.
    let mut device = device(|spec| {
        spec.bus_sector = us(100);
        fixed(true)(&mut spec.firmware);
    });
    let (mut now, mut misses) = (at(0), 0);
    for nth in 0..400 {
        let done = run(&mut device, now, read(nth * 8, 8));
        now = done.at;
        misses += u32::from(done.parts.overhead == us(300));
    }
    assert_eq!(misses, 1);
}

fn destaging(runs: u32, run_max: u64) -> impl FnOnce(&mut Firmware) {
    let rule = DestageBeforeRead { runs, run_max: Sectors(run_max) };
    move |firmware| firmware.destage_before_read = Some(rule)
}

#[test]
fn a_command_that_needs_the_media_waits_until_all_cached_runs_are_there() {
    let after_writes = |rule: bool, last: Operation| {
        let mut device = device(with(|firmware| {
            if rule {
                destaging(8, 32)(firmware);
            }
        }));
        let mut now = at(0);
        for start in [60_000, 10_000, 50_000, 20_000, 40_000] {
            now = run(&mut device, now, write(start, 8)).at;
        }
        let done = run(&mut device, now, last);
        device.advance(done.at);
        (done.parts.queue, device.dirty())
    };
    for last in [read(30_000, 8), write(30_000, 8).with_fua()] {
        let (waited, dirty) = after_writes(true, last);
        assert_eq!(dirty, Sectors::ZERO, "{last:?}");
        let (sooner, dirty) = after_writes(false, last);
        assert!(dirty > Sectors::ZERO && waited > sooner + us(20_000), "{waited} {sooner}");
    }
    // What is in the buffer is read there.
    let (waited, dirty) = after_writes(true, read(40_000, 8));
    assert!(waited == Duration::ZERO && dirty > Sectors::ZERO, "{waited} {dirty}");
}

#[test]
fn a_run_that_is_longer_than_its_segment_is_accepted_at_the_pace_of_the_media() {
    let mut device = device(with(destaging(2, 64)));
    let mut now = at(0);
    for nth in 0..32 {
        now = run(&mut device, now, write(nth * 32, 32)).at;
    }
    // 1,024 sectors are five tracks and a little: a revolution each, and no more than the changes
    // of track beside them.
    let media = us(10_000 * 1_024 / 200);
    let took = now.since(at(0));
    assert!(took > media - us(10_000) && took < media + us(20_000), "{took} for {media}");
    device.advance(now);
    assert!(device.dirty() <= Sectors(64 + 32), "{}", device.dirty());
}

#[test]
fn a_write_through_a_segment_can_be_read_there() {
    let found = |shared| {
        let mut device = device(with(|firmware| firmware.writes_in_segments = shared));
        let done = run(&mut device, at(0), write(20_000, 8));
        run(&mut device, done.at + LATER, read(20_000, 8)).parts
    };
    let hit = Parts { overhead: us(100), transfer: us(40), ..Parts::default() };
    assert_eq!(found(true), hit);
    assert_ne!(found(false), hit);
}

#[test]
fn a_forced_write_through_the_only_segment_takes_it_from_what_was_read() {
    let again = |shared| {
        let mut device = device(|spec| {
            spec.read_buffer.segments = 1;
            spec.firmware.writes_in_segments = shared;
        });
        let first = run(&mut device, at(0), read(0, 8));
        let second = run(&mut device, first.at + LATER, write(20_000, 8).with_fua());
        run(&mut device, second.at + LATER, read(0, 8)).parts.overhead
    };
    assert_eq!([again(false), again(true)], [us(100), us(300)]);
}

#[test]
fn a_write_into_a_segment_drops_all_of_it_where_hits_are_strict() {
    let found = |strict| {
        let mut device = device(with(|firmware| firmware.strict_hits = strict));
        let first = run(&mut device, at(0), read(0, 8));
        let second = run(&mut device, first.at + LATER, write(100, 8));
        run(&mut device, second.at + LATER, read(8, 8)).parts.overhead == us(100)
    };
    assert!(found(false) && !found(true));
}

#[test]
fn a_flush_takes_as_long_a_record_wherever_the_writes_belong_and_then_closes_the_log() {
    let flush = |places: &[u64]| {
        let mut device = device(with(|firmware| firmware.media_cache = Some(LOG)));
        let mut now = at(0);
        let began = now;
        for lba in places {
            now = run(&mut device, now, write(*lba, 8)).at;
        }
        run(&mut device, now, Operation::flush()).at.since(began)
    };
    // The first record begins when the first write is in the buffer.
    let first = us(150 + 8 * 5);
    assert_eq!(flush(&[1_000]), first + LOG.append + LOG.close);
    assert_eq!(flush(&[60_000, 1_000, 30_000]), first + LOG.append * 3 + LOG.close);
    assert_eq!(flush(&[]), us(50), "an empty log needs no closing");
}

#[test]
fn a_long_run_and_one_under_the_heads_go_where_they_belong() {
    let took = |lba, len| {
        let mut device = device(with(|firmware| firmware.media_cache = Some(LOG)));
        let done = run(&mut device, at(0), write(lba, len));
        run(&mut device, done.at, Operation::flush()).parts.transfer
    };
    // What is not in the log leaves nothing to close.
    assert_eq!([took(40_000, 16), took(40_000, 17)], [LOG.close, Duration::ZERO]);
    // The heads are over address 0 at time zero.
    assert_eq!([took(1, 8), took(0, 8)], [LOG.close, Duration::ZERO]);
}

#[test]
fn a_full_log_leaves_writes_to_the_seek() {
    let last = |rest| {
        let mut device = device(with(|firmware| firmware.media_cache = Some(LOG)));
        let mut now = at(0);
        for nth in 0..u64::from(LOG.records_max) {
            let done = run(&mut device, now, write(1_000 + nth * 1_000, 8));
            now = run(&mut device, done.at, Operation::flush()).at + rest;
        }
        let done = run(&mut device, now, write(500, 8));
        run(&mut device, done.at, Operation::flush()).parts.transfer
    };
    assert_eq!(last(Duration::ZERO), Duration::ZERO);
    assert_eq!(last(LOG.write_back), LOG.close, "rests between them take records home");
}

/// Firmware drawn at random.
fn firmware() -> impl Strategy<Value = Firmware> {
    let policies = [
        ReadAhead::Segment,
        ReadAhead::Never,
        ReadAhead::Fixed,
        ReadAhead::Track,
        ReadAhead::Cylinder,
        ReadAhead::TrackAndNext,
    ];
    (0..policies.len(), any::<u8>(), 0_u32..4, 0_u64..400, 0_u32..101, any::<[bool; 2]>()).prop_map(
        move |(policy, bits, segments, time, percent, [extras, logs])| {
            let bit = |nth: u8| bits >> nth & 1 == 1;
            let bus = Bus {
                write_sector: bit(7).then_some(us(time / 3)),
                read_disconnect: us(time),
                write_disconnect: us(time / 2),
                reselect: us(time / 3),
                prepare: us(time / 5),
                read_done: us(time / 7),
                write_done: us(time / 11),
                read_share: Share::from_percent(percent),
                extra_disconnect: extras.then(|| ExtraDisconnect {
                    command: us(time),
                    pause: us(7),
                    ..ExtraDisconnect::default()
                }),
                ..Bus::default()
            };
            Firmware {
                read_ahead: policies[policy],
                strict_hits: bit(0),
                rest_on_hit: bit(1),
                discard_after_read: bit(2),
                whole_track: bit(3),
                zero_latency_read: bit(4),
                zero_latency_write: bit(5),
                writes_in_segments: bit(6),
                write_segments: segments,
                write_seek_min: us(time),
                destage_before_read: bit(7)
                    .then_some(DestageBeforeRead { runs: segments + 1, run_max: Sectors(64) }),
                media_cache: logs.then_some(LOG),
                bus,
            }
        },
    )
}

proptest! {
    #[test]
    fn how_often_any_device_is_asked_changes_nothing(
        steps in proptest::collection::vec(step(), 1..60),
        firmware in firmware(),
    ) {
        let change = |spec: &mut Spec| spec.firmware = firmware;
        prop_assert_eq!(play_with(&steps, false, change), play_with(&steps, true, change));
    }

    #[test]
    fn any_command_alone_takes_no_longer_than_the_worst_case(
        from in 0_u64..68_000,
        start in 0_u64..66_000,
        len in 1_u64..2_000,
        think in 0_u64..20_000,
        writes in any::<bool>(),
        firmware in firmware(),
    ) {
        let mut device = device(|spec| {
            spec.write_cache = false;
            spec.firmware = firmware;
        });
        let first = run(&mut device, at(0), read(from, 1));
        let operation = if writes { write(start, len) } else { read(start, len) };
        let done = run(&mut device, first.at + us(think), operation);
        let worst = model(|spec| spec.firmware = firmware)
            .worst_case_within(extent(start, len), Sectors(len));
        prop_assert!(done.parts.sum() <= worst, "{:?} > {}", done.parts, worst);
    }
}
