//! What a device does, one fact a test.

use std::sync::Arc;

use rng::SeededRng;
use units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors};

use crate::samples::small;
use crate::{Device, Done, Model, Parts, Spec, Tag};

pub(crate) const fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

pub(crate) const fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1_000)
}

pub(crate) fn extent(start: u64, len: u64) -> Extent {
    Extent::new(Lba(start), Sectors(len))
}

pub(crate) fn read(start: u64, len: u64) -> Operation {
    Operation::read(extent(start, len))
}

pub(crate) fn write(start: u64, len: u64) -> Operation {
    Operation::write(extent(start, len))
}

pub(crate) fn model(change: impl FnOnce(&mut Spec)) -> Arc<Model> {
    let mut spec = small();
    change(&mut spec);
    Arc::new(spec.check().expect("a drive"))
}

pub(crate) fn device(change: impl FnOnce(&mut Spec)) -> Device {
    Device::new(model(change))
}

/// One command, alone, from `now` until it is done.
pub(crate) fn run(device: &mut Device, now: Instant, operation: Operation) -> Done {
    device.submit(now, Tag(7), operation);
    let end = device.next_completion().expect("it is in service");
    if end > now {
        assert_eq!(device.complete(Instant::from_nanos(end.as_nanos() - 1)), None);
    }
    let done = device.complete(end).expect("it is done");
    assert_eq!((done.tag, done.at, done.parts.sum()), (Tag(7), end, end.since(now)));
    done
}

/// The generator of the commands whose completions are recorded as `GOLDEN`. Its sequence never
/// changes: a recorded value changes with the model alone.
pub(crate) struct RecordedRng(pub(crate) u64);

impl RecordedRng {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The operation of this number below 4: any but a flush.
pub(crate) fn transfer(number: u64) -> Op {
    match number {
        0 => Op::Read,
        1 => Op::Write,
        2 => Op::WriteZeroes,
        _ => Op::Trim,
    }
}

/// No buffers and nothing but the mechanism.
fn bare(spec: &mut Spec) {
    spec.overheads = crate::Overheads::default();
    spec.overheads_after_write = spec.overheads;
    spec.bus_sector = Duration::ZERO;
    spec.read_buffer.segments = 0;
    spec.write_cache = false;
}

#[test]
fn a_read_off_the_media_takes_overhead_seek_rotation_transfer_and_the_last_sectors_bus_time() {
    let mut device = device(|_| {});
    // Cylinder 10, surface 0: skewed by 10 × (3 × 30 + 40) = 1300 sectors, which is 100 on the
    // track.
    let done = run(&mut device, at(0), read(8_000, 8));
    let seek = us(1_900);
    // Overhead and seek end at 2.2 ms; sector 100 is at 5 ms.
    let parts = Parts {
        queue: Duration::ZERO,
        overhead: us(300),
        seek,
        rotation: us(2_800),
        transfer: us(8 * 50 + 5),
    };
    assert!(close(done.parts, parts), "{:?}", done.parts);
}

/// Equal but for a nanosecond of rounding in each of the parts that the angle decides.
fn close(found: Parts, expected: Parts) -> bool {
    let near = |a: Duration, b: Duration| a.as_nanos().abs_diff(b.as_nanos()) <= 2;
    found.queue == expected.queue
        && found.overhead == expected.overhead
        && found.seek == expected.seek
        && near(found.rotation, expected.rotation)
        && near(found.transfer, expected.transfer)
}

#[test]
fn a_change_of_head_runs_beside_the_seek() {
    let mut spec = small();
    bare(&mut spec);
    let model = Arc::new(spec.check().expect("a drive"));
    let seek = |lba| run(&mut Device::new(Arc::clone(&model)), at(0), read(lba, 1)).parts.seek;
    assert_eq!(seek(0), Duration::ZERO);
    assert_eq!(seek(200), us(800));
    assert_eq!(seek(800), us(1_000));
    assert_eq!(seek(1_000), us(1_000));
}

#[test]
fn a_write_settles_after_every_movement_and_after_no_other() {
    let model = model(bare);
    let seek = |lba| run(&mut Device::new(Arc::clone(&model)), at(0), write(lba, 1)).parts.seek;
    assert_eq!(seek(0), Duration::ZERO);
    assert_eq!(seek(200), us(1_200));
    assert_eq!(seek(800), us(1_400));
}

#[test]
fn a_long_read_takes_its_sectors_and_the_skews_exactly() {
    let mut device = device(bare);
    // Two cylinders: 8 tracks of 10 ms, 6 track skews of 30 and one cylinder skew of 40 sectors of
    // 50 µs.
    let done = run(&mut device, at(0), read(0, 1_600));
    assert_eq!(done.parts.rotation, Duration::ZERO);
    // What 200 does not divide of 2^32 is lost once a track: under 1 ns.
    let expected = 8 * 10_000_000 + (6 * 30 + 40) * 50_000;
    let lost = expected - done.parts.transfer.as_nanos();
    assert!(lost <= 8, "{lost}");
}

#[test]
fn without_skews_and_with_heads_that_switch_in_no_time_no_turn_is_lost() {
    let mut device = device(|spec| {
        bare(spec);
        spec.period = Spec::period_of_rpm(7_200);
        spec.head_switch = Duration::ZERO;
        spec.zones[0].track_skew = 0;
    });
    let mut now = Instant::ZERO;
    let mut waited = Duration::ZERO;
    for lba in (0..800).step_by(8) {
        let done = run(&mut device, now, read(lba, 8));
        waited += done.parts.rotation;
        now = done.at;
    }
    assert!(waited < us(1), "{waited}");
    assert!(now.since(Instant::ZERO) <= Spec::period_of_rpm(7_200) * 4 + us(1));
}

#[test]
fn a_skew_shorter_than_the_head_switch_loses_a_turn() {
    let mut device = device(|spec| {
        bare(spec);
        spec.zones[0].track_skew = 15;
    });
    let done = run(&mut device, at(0), read(0, 400));
    let turns = done.parts.transfer.as_nanos() / 1_000;
    assert_eq!(turns, 10_000 + 750 + 10_000 + 10_000);
}

#[test]
fn random_reads_take_overhead_mean_seek_half_a_turn_and_transfer() {
    let mut device = device(|spec| {
        spec.zones.truncate(1);
        spec.surfaces = 1;
        spec.zones[0].last_cylinder = 99;
    });
    let mut rng = SeededRng::new(1, 0);
    let (mut now, mut sum, count) = (at(0), Duration::ZERO, 50_000);
    for _ in 0..count {
        let lba = rng.below(device.capacity().0 / 8) * 8;
        now += Duration::from_nanos(rng.below(10_000_000));
        let done = run(&mut device, now, read(lba, 8));
        sum += done.at.since(now);
        now = done.at;
        device.complete(now);
    }
    let seek = device.model().seek_mean();
    let expected = us(300) + seek + us(5_000) + us(8 * 50 + 5);
    // Eight sectors cross a cylinder's end in 4 % of places at 2 ms; the buffer holds 3 % of the
    // disk.
    let mean = sum / count;
    let off = mean.as_nanos().abs_diff(expected.as_nanos());
    assert!(off * 100 <= expected.as_nanos() * 4, "{mean} for {expected}");
}

#[test]
fn random_reads_without_a_buffer_are_as_long_as_the_sum_of_their_means_within_a_hundredth() {
    let mut device = device(|spec| {
        spec.zones.truncate(1);
        spec.surfaces = 1;
        spec.zones[0].last_cylinder = 999;
        spec.seek.points = vec![(1, us(1_000)), (999, us(10_000))];
        spec.read_buffer.segments = 0;
    });
    let mut rng = SeededRng::new(2, 0);
    let (mut now, mut sum, count) = (at(0), Duration::ZERO, 100_000);
    for _ in 0..count {
        let lba = rng.below(device.capacity().0 / 8) * 8;
        now += Duration::from_nanos(rng.below(10_000_000));
        let done = run(&mut device, now, read(lba, 8));
        sum += done.at.since(now);
        now = done.at;
    }
    let expected = us(300) + device.model().seek_mean() + us(5_000) + us(8 * 50 + 5);
    let mean = sum / count;
    let off = mean.as_nanos().abs_diff(expected.as_nanos());
    assert!(off * 100 <= expected.as_nanos(), "{mean} for {expected}");
}

/// Sectors a second of a sequential read with `think` between its commands of 8 sectors.
fn sequential(device: &mut Device, think: Duration, write: bool) -> u64 {
    let mut now = at(0);
    let total = 60 * 800;
    for lba in (0..total).step_by(8) {
        let operation = if write { self::write(lba, 8) } else { read(lba, 8) };
        now = run(device, now, operation).at + think;
    }
    total * 1_000_000_000 / now.as_nanos()
}

/// What the outer zone yields with its skews: 800 sectors in 4 revolutions, 3 track skews and a
/// cylinder skew.
const STREAM: u64 = 800 * 1_000_000 / (40_000 + (3 * 30 + 40) * 50);

#[test]
fn sequential_reads_stream_at_the_media_rate_through_think_times() {
    // Eight sectors take 400 µs of media and 140 µs of hit: the rest may be thought away.
    for think in [0, 100, 250] {
        let rate = sequential(&mut device(|_| {}), us(think), false);
        assert!((STREAM * 98 / 100..=STREAM).contains(&rate), "{think}: {rate} of {STREAM}");
    }
}

#[test]
fn long_reads_stream_as_short_ones_do() {
    let mut device = device(|_| {});
    let mut now = at(0);
    for lba in (0..40_000).step_by(1_000) {
        now = run(&mut device, now, read(lba, 1_000)).at;
    }
    let rate = 40_000 * 1_000_000_000 / now.as_nanos();
    assert!((STREAM * 98 / 100..=STREAM).contains(&rate), "{rate} of {STREAM}");
}

#[test]
fn without_read_ahead_every_sequential_read_loses_a_turn() {
    let rate = sequential(&mut device(|spec| spec.read_buffer.segments = 0), us(100), false);
    assert!(rate < 850, "{rate}");
}

#[test]
fn sequential_cached_writes_go_at_the_media_rate() {
    let rate = sequential(&mut device(|_| {}), us(0), true);
    assert!((STREAM * 95 / 100..=STREAM * 103 / 100).contains(&rate), "{rate} of {STREAM}");
}

#[test]
fn a_hit_takes_overhead_and_bus() {
    let mut device = device(|_| {});
    let first = run(&mut device, at(0), read(0, 8));
    let second = run(&mut device, first.at + us(5_000), read(8, 8));
    assert_eq!(second.parts, Parts { overhead: us(100), transfer: us(40), ..Parts::default() });
    let again = run(&mut device, second.at, read(0, 16));
    assert_eq!(again.parts, Parts { overhead: us(100), transfer: us(80), ..Parts::default() });
}

#[test]
fn the_drive_reads_on_until_its_segment_is_full_and_no_farther() {
    let mut device = device(|_| {});
    let first = run(&mut device, at(0), read(0, 8));
    device.advance(at(1_000_000));
    assert!(device.is_quiescent());
    let last = run(&mut device, at(1_000_000), read(504, 8));
    assert_eq!(last.parts.transfer, us(40));
    assert!(first.at < last.at);
    let mut other = self::device(|_| {});
    run(&mut other, at(0), read(0, 8));
    other.advance(at(1_000_000));
    let behind = run(&mut other, at(1_000_000), read(520, 8));
    assert!(behind.parts.sum() > us(500), "{:?}", behind.parts);
}

#[test]
fn a_stream_that_stood_still_goes_on_when_its_sector_comes_round() {
    let mut device = device(|_| {});
    run(&mut device, at(0), read(0, 8));
    let hit = run(&mut device, at(1_003_000), read(8, 8));
    let done = run(&mut device, hit.at, read(512, 8));
    // Sectors 512 to 519 are 112 to 119 of track 2, which is skewed by 60.
    let behind = us((120 + 60) * 50);
    let turned = (done.at.as_nanos() - us(5).as_nanos()) % us(10_000).as_nanos();
    assert!(turned.abs_diff(behind.as_nanos()) <= 2, "{turned}");
}

#[test]
fn two_streams_keep_a_segment_each() {
    let mut device = device(|_| {});
    let mut now = at(0);
    let mut misses = 0;
    for step in 0..100 {
        for base in [0, 20_000] {
            let done = run(&mut device, now, read(base + step * 8, 8));
            misses += u32::from(done.parts.seek > Duration::ZERO);
            now = done.at + us(2_000);
        }
    }
    // While one stream is served from its segment, the arm reads ahead for the other.
    assert!((2..=10).contains(&misses), "{misses} of 200");
}

#[test]
fn the_least_recently_used_segment_goes_first() {
    let mut device = device(|spec| spec.read_buffer.segments = 2);
    let mut now = at(0);
    for lba in [0, 10_000, 0, 20_000] {
        now = run(&mut device, now, read(lba, 8)).at;
    }
    assert_eq!(run(&mut device, now, read(0, 8)).parts.overhead, us(100));
    assert_eq!(run(&mut device, now + us(500), read(10_000, 8)).parts.overhead, us(300));
}

#[test]
fn a_write_makes_what_was_read_out_of_date() {
    let mut device = device(|spec| spec.write_cache = false);
    let first = run(&mut device, at(0), read(0, 64));
    let second = run(&mut device, first.at, write(32, 8));
    let front = run(&mut device, second.at, read(0, 32));
    assert_eq!(front.parts.overhead, us(100));
    assert_eq!(run(&mut device, front.at, read(32, 8)).parts.overhead, us(300));
}

#[test]
fn a_cached_write_is_answered_at_once_and_a_forced_one_when_it_is_durable() {
    let mut device = device(|_| {});
    let cached = run(&mut device, at(0), write(8_000, 8));
    assert_eq!(cached.parts, Parts { overhead: us(150), transfer: us(40), ..Parts::default() });
    assert_eq!(device.dirty(), Sectors(8));
    let forced = run(&mut device, at(100_000), write(20_000, 8).with_fua());
    assert!(forced.parts.seek >= us(1_000));
    assert_eq!(device.dirty(), Sectors::ZERO);
}

#[test]
fn without_a_cache_every_write_waits_for_the_media() {
    let mut device = device(|spec| spec.write_cache = false);
    let done = run(&mut device, at(0), write(8_000, 8));
    assert_eq!((done.parts.overhead, done.parts.seek), (us(250), us(2_300)));
    assert_eq!(device.dirty(), Sectors::ZERO);
}

#[test]
fn a_forced_write_takes_the_cached_run_in_front_of_it_along() {
    let mut device = device(|_| {});
    let first = run(&mut device, at(0), write(20_000, 8));
    let second = run(&mut device, first.at, write(8_000, 64));
    // The first is on its way; the second waits in memory when the third comes.
    let third = run(&mut device, second.at, write(8_064, 8).with_fua());
    assert!(third.parts.transfer >= us(72 * 50 - 1), "{:?}", third.parts);
    assert_eq!(device.dirty(), Sectors::ZERO);
}

#[test]
fn the_buffer_is_written_out_in_the_background() {
    let mut device = device(|_| {});
    let mut now = at(0);
    for lba in [0, 4_000, 8_000, 30_000] {
        now = run(&mut device, now, write(lba, 8)).at;
    }
    assert!(device.dirty() > Sectors::ZERO);
    device.advance(now + us(200_000));
    assert_eq!(device.dirty(), Sectors::ZERO);
    assert!(device.is_quiescent());
}

#[test]
fn a_flush_ends_when_everything_is_durable() {
    let mut device = device(|_| {});
    let mut now = at(0);
    for lba in [0, 4_000, 8_000, 30_000] {
        now = run(&mut device, now, write(lba, 8)).at;
    }
    let flush = run(&mut device, now, Operation::flush());
    assert!(flush.parts.sum() > us(20_000), "{:?}", flush.parts);
    assert_eq!(device.dirty(), Sectors::ZERO);
    let idle = run(&mut device, flush.at, Operation::flush());
    assert_eq!(idle.parts, Parts { overhead: us(50), ..Parts::default() });
}

#[test]
fn a_read_of_what_was_just_written_comes_from_the_buffer() {
    let mut device = device(|_| {});
    let first = run(&mut device, at(0), write(20_000, 8));
    let second = run(&mut device, first.at, write(8_000, 8));
    let hit = run(&mut device, second.at, read(8_000, 8));
    assert_eq!(hit.parts, Parts { overhead: us(100), transfer: us(40), ..Parts::default() });
    assert_eq!(device.dirty(), Sectors(16));
}

#[test]
fn a_read_waits_for_the_operation_under_way_and_goes_before_the_next() {
    let mut device = device(|_| {});
    let mut now = at(0);
    for lba in [20_000, 24_000, 28_000, 32_000] {
        now = run(&mut device, now, write(lba, 8)).at;
    }
    let done = run(&mut device, now, read(0, 8));
    assert!(done.parts.queue > Duration::ZERO && done.parts.queue < us(20_000));
    assert_eq!(device.dirty(), Sectors(24));
}

#[test]
fn a_stream_of_reads_keeps_the_arm_for_a_turn_while_writes_wait() {
    let mut device = device(|_| {});
    let first = run(&mut device, at(0), read(0, 8));
    let mut now = run(&mut device, first.at, write(20_000, 8)).at;
    for lba in (8..400).step_by(8) {
        let done = run(&mut device, now, read(lba, 8));
        assert_eq!((done.parts.queue, done.parts.seek), (Duration::ZERO, Duration::ZERO));
        now = done.at;
    }
    assert_eq!(device.dirty(), Sectors(8));
    device.advance(now + us(10_000 + 3_000 + 10_000));
    assert_eq!(device.dirty(), Sectors::ZERO);
}

#[test]
fn the_overheads_of_two_commands_do_not_overlap() {
    let mut device = device(|_| {});
    run(&mut device, at(0), read(0, 8));
    device.submit(at(20_000), Tag(1), read(8, 8));
    device.submit(at(20_000), Tag(2), read(16, 8));
    let ends = [20_140, 20_240].map(|end| device.complete(at(end)).map(|done| done.at));
    assert_eq!(ends, [Some(at(20_140)), Some(at(20_240))]);
}

#[test]
fn a_write_into_a_full_buffer_waits_for_room() {
    let mut device = device(|_| {});
    let mut now = at(0);
    for lba in (0..40_000).step_by(1_000).take(32) {
        now = run(&mut device, now, write(lba, 8)).at;
    }
    let done = run(&mut device, now, write(40_000, 64));
    assert!(done.parts.queue > us(1_000), "{:?}", done.parts);
    assert!(device.dirty() <= Sectors(256));
}

#[test]
fn a_write_longer_than_the_buffer_goes_to_the_media() {
    let mut device = device(|_| {});
    let done = run(&mut device, at(0), write(0, 1_000));
    assert!(done.parts.transfer > us(50_000));
    assert_eq!(device.dirty(), Sectors::ZERO);
}

#[test]
fn zeroes_do_not_cross_the_bus_and_a_trim_moves_nothing() {
    let mut device = device(|_| {});
    let zeroes = Operation { op: Op::WriteZeroes, extent: extent(0, 8), fua: false };
    assert_eq!(run(&mut device, at(0), zeroes).parts.sum(), us(150));
    let trim = Operation { op: Op::Trim, extent: extent(0, 4_000), fua: false };
    assert_eq!(run(&mut device, at(50_000), trim).parts.sum(), us(50));
}

#[test]
fn a_queue_is_served_in_order_and_hides_overhead_behind_the_media() {
    let mut device = device(|_| {});
    for tag in 0..32 {
        assert!(device.can_accept());
        device.submit(at(0), Tag(tag), read((tag * 1_207) % 60_000, 8));
    }
    assert!(!device.can_accept());
    let mut before = at(0);
    for tag in 0..32 {
        let end = device.next_completion().expect("one is in service");
        let done = device.complete(end).expect("it is done");
        assert_eq!((done.tag, done.parts.sum()), (Tag(tag), end.since(at(0))));
        assert!(end >= before);
        if tag > 0 {
            assert_eq!(done.parts.overhead, Duration::ZERO);
        }
        before = end;
    }
    assert_eq!(device.next_completion(), None);
}

#[test]
#[should_panic(expected = "the drive's queue has room")]
fn a_command_too_many_is_a_defect() {
    let mut device = device(|spec| spec.queue_depth_max = 1);
    device.submit(at(0), Tag(0), read(0, 8));
    device.submit(at(0), Tag(1), read(0, 8));
}

#[test]
#[should_panic(expected = "is on the disk")]
fn a_command_that_leaves_the_disk_is_a_defect() {
    let mut device = device(|_| {});
    let end = device.capacity().0;
    device.submit(at(0), Tag(0), read(end - 7, 8));
}
