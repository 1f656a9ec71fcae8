//! Streams of a pool whose clients ask in the volume's order: each disk of a stripe admits its part
//! of the blocks alone, no block is late, a client in order is answered within what is promised,
//! and a client that jumps takes nothing from the others.

use std::fmt::Write as _;
use std::path::Path;

use config::{LoadedVolume, Plan, PoolVolumeIndex, Requests, Workload};
use spindle_sim::{Report, SeededRng, Simulation};
use stats::{DeadlinesReport, VolumeReport};
use units::{Bytes, Duration, Extent, Instant, Lba, Operation};

const MIB: u64 = 1 << 20;
const LENGTH: Duration = Duration::from_secs(40);
/// The first volume of each pool: it has a part of each disk, and uses it, and all of the slack
/// that it gets besides.
const REST: &str = "[[pool.volume]]\nname = \"rest\"\nsize = \"1GiB\"\nlayout = \"stripe\"\n";
const RESERVE: &str = "reserve = \"30%\"";
const LOAD: &str = "[[workload]]\nvolume = \"rest\"\nop = \"mix\"\nread_share = \"70%\"\naccess = \
                    \"random\"\nblock = \"256KiB\"\noutstanding = 24\n";

/// What a client's stream and its volume are.
#[derive(Clone, Debug)]
struct Stream {
    bandwidth: u64,
    block: u64,
    /// The disks of its stripe.
    width: u64,
}

impl Stream {
    fn table(&self, name: &str) -> String {
        let Self { bandwidth, block, .. } = self;
        format!(
            "[[pool.volume]]\nname = \"{name}\"\nsize = \"128MiB\"\nzone = \"fast\"\n\
             layout = \"stripe\"\nstream = {{ bandwidth = \"{bandwidth}B/s\", block = \
             \"{block}B\", order = \"sequential\" }}\n"
        )
    }

    fn time_of(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bandwidth);
        Duration::from_nanos(u64::try_from(nanos).expect("a short time"))
    }

    /// A disk's period, and the time within which each byte of a client in order is answered that
    /// sends requests of `len` bytes at the bandwidth.
    fn promised(&self, len: u64) -> (Duration, Duration) {
        let period = self.time_of(MIB * self.width);
        (period, period * 3 + self.time_of(len))
    }
}

/// Disks of this drive with these keys, and a pool of them with a volume without a stream, of this
/// contract.
fn disks(count: usize, drive: &str, (keys, contract): (&str, &str)) -> String {
    let mut text = String::new();
    for disk in 0..count {
        write!(text, "[[disk]]\nname = \"d{disk}\"\ndrive = \"{drive}\"\n{keys}\n")
            .expect("a string takes all");
    }
    let names: Vec<String> = (0..count).map(|disk| format!("\"d{disk}\"")).collect();
    text + &format!("[pool]\ndisks = [{}]\n{REST}{contract}\n", names.join(", "))
}

fn parse(text: &str) -> Result<Plan, String> {
    Plan::parse(text, "plan.toml", Path::new("")).map_err(|error| error.to_string())
}

/// Runs `text` with these clients of its streams.
fn run(text: &str, clients: Vec<Vec<(Duration, Operation)>>) -> Report {
    let text = format!("{text}{LOAD}");
    let mut plan = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    for (index, requests) in clients.into_iter().enumerate() {
        let volume = LoadedVolume::Pool(PoolVolumeIndex(1 + index));
        let (requests, start) = (Requests::Timed(requests.into()), Duration::ZERO);
        plan.workloads.push(Workload { volume, requests, start, stop: None, line: 0 });
    }
    let mut simulation = Simulation::new(&plan);
    simulation.run_until(Instant::ZERO + LENGTH);
    assert_eq!(simulation.failed(), 0, "no disk fails");
    simulation.report()
}

fn volume(report: &Report, index: usize) -> &VolumeReport {
    report.volumes.iter().find(|one| one.name == format!("s{index}")).expect("it is reported")
}

fn deadlines(report: &Report, index: usize) -> &DeadlinesReport {
    volume(report, index).deadlines.as_ref().expect("it has a stream")
}

fn operation(writes: bool, first: u64, len: u64) -> Operation {
    let extent = Extent::new(Lba(first / 512), Bytes(len).sectors_floor());
    if writes { Operation::write(extent) } else { Operation::read(extent) }
}

/// The requests of a client of `stream`, `len` bytes each, at the bandwidth, from the place `first`
/// on. After each of them it jumps with a chance of 1 in `jumps`, if that is above zero.
fn client(
    rng: &mut SeededRng,
    stream: &Stream,
    (len, first, jumps): (u64, u64, u64),
) -> (Vec<(Duration, Operation)>, u64) {
    let (writes, phase) = (rng.below(2) == 0, rng.below(2_000));
    let (size, mut jumped) = (128 * MIB, 0);
    let (mut requests, mut place) = (Vec::new(), first);
    let start = Duration::from_millis(phase);
    for number in 0_u64.. {
        let at = start + stream.time_of(len * number);
        if at >= Duration::from_secs(28) {
            break;
        }
        let wraps = place + len > size;
        if wraps || jumps > 0 && number > 0 && rng.below(jumps) == 0 {
            let inside = rng.below(2) * (512 << rng.below(10));
            let other = if wraps { 0 } else { rng.below(size / MIB - 32) * MIB + inside };
            jumped += u64::from(other != place);
            place = other;
        }
        requests.push((at, operation(writes, place, len)));
        place += len;
    }
    (requests, jumped)
}

/// A generated pool, and as many streams as fit of some that are generated.
fn generate(rng: &mut SeededRng, terms: (&str, &str)) -> (String, Vec<Stream>) {
    let drive = ["atlas-ii", "hgst-7k8"][usize::try_from(rng.below(2)).expect("few")];
    let count = 2 + usize::try_from(rng.below(3)).expect("few");
    let width = count as u64;
    let mut text = format!("duration = \"40s\"\n{}", disks(count, drive, terms));
    let (mut streams, mut refused) = (Vec::new(), 0);
    while refused < 3 && streams.len() < 40 {
        let blocks = [MIB, MIB / 4, MIB / 2, 2 * MIB, 4 * MIB, 1_000_448];
        let block = blocks[usize::try_from(rng.below(6)).expect("few")];
        let bandwidth = 200_000 + rng.below(1_800_000);
        let stream = Stream { bandwidth, block, width };
        let more = stream.table(&format!("s{}", streams.len()));
        if parse(&format!("{text}{more}")).is_ok() {
            text += &more;
            streams.push(stream);
        } else {
            refused += 1;
        }
    }
    assert!(streams.len() > 2, "some fit: {streams:?}");
    (text, streams)
}

#[test]
fn what_is_admitted_in_order_is_never_late_and_each_request_is_answered_as_promised() {
    let (mut blocks, mut closest) = (0, f64::INFINITY);
    for seed in 0..8 {
        let mut rng = SeededRng::new(seed, 1);
        let (text, streams) = generate(&mut rng, ("", RESERVE));
        let mut lens = Vec::new();
        let clients = streams.iter().map(|stream| {
            // Of any length, and not aligned.
            let len = [stream.block, MIB, 64 << 10, 3 * MIB / 2, 192 << 10];
            let len = len[usize::try_from(rng.below(5)).expect("few")] / 512 * 512;
            lens.push(len);
            let first = rng.below(64) * MIB + rng.below(2) * 512;
            client(&mut rng, stream, (len, first, 0)).0
        });
        let clients = clients.collect();
        let report = run(&text, clients);
        for (index, (stream, len)) in streams.iter().zip(&lens).enumerate() {
            let kept = deadlines(&report, index);
            let bytes = kept.bytes.expect("bytes are promised");
            let told = format!("seed {seed}, {stream:?} in requests of {len}: {kept:?}");
            assert!(kept.met > 0 && kept.missed == 0 && bytes.missed == 0, "{told}");
            assert_eq!((bytes.out_of_order, bytes.outside, bytes.beyond_rate), (0, 0, 0), "{told}");
            let (_, bound) = stream.promised(*len);
            let max = volume(&report, index).latency_ms.max;
            assert!(max <= bound.as_millis_f64() + 1.0, "{max} ms of {bound}: {told}");
            closest = closest.min(bound.as_millis_f64() - max);
            blocks += kept.met;
        }
    }
    println!("{blocks} blocks; the closest request was {closest:.0} ms before what is promised");
}

#[test]
fn blocks_of_a_mib_at_the_bandwidth_are_answered_within_a_round() {
    let mut rng = SeededRng::new(5, 1);
    let mut text = format!("duration = \"40s\"\n{}", disks(3, "atlas-ii", ("", RESERVE)));
    let mut streams = Vec::new();
    loop {
        let bandwidth = 400_000 + rng.below(1_000_000);
        let stream = Stream { bandwidth, block: MIB, width: 3 };
        let more = stream.table(&format!("s{}", streams.len()));
        if parse(&format!("{text}{more}")).is_err() {
            break;
        }
        text += &more;
        streams.push(stream);
    }
    // Some begin on one disk at one time, the others on others.
    let clients = streams.iter().map(|stream| {
        let first = rng.below(2) * rng.below(64);
        client(&mut rng, stream, (MIB, first * MIB, 0)).0
    });
    let clients = clients.collect();
    let report = run(&text, clients);
    for (index, stream) in streams.iter().enumerate() {
        let (period, max) = (stream.promised(MIB).0, volume(&report, index).latency_ms.max);
        assert!(max <= period.as_millis_f64() + 1.0, "{max} ms, a round is {period}: {stream:?}");
        assert_eq!(deadlines(&report, index).missed, 0, "{stream:?}");
    }
}

#[test]
fn a_client_that_jumps_is_counted_and_takes_nothing_from_the_others() {
    for seed in 0..8 {
        let mut rng = SeededRng::new(seed, 2);
        let (text, streams) = generate(&mut rng, ("", RESERVE));
        let mut jumps = Vec::new();
        let clients = streams.iter().enumerate().map(|(index, stream)| {
            // Each third jumps: seldom, or with every request.
            let chance = if index % 3 == 0 { 1 + rng.below(2) * 9 } else { 0 };
            let first = rng.below(64) * MIB;
            let (requests, jumped) = client(&mut rng, stream, (MIB, first, chance));
            jumps.push(jumped);
            requests
        });
        let clients = clients.collect();
        let report = run(&text, clients);
        for (index, (stream, jumps)) in streams.iter().zip(&jumps).enumerate() {
            let kept = deadlines(&report, index);
            let bytes = kept.bytes.expect("bytes are promised");
            let told = format!("seed {seed}, {jumps} jumps of {stream:?}: {kept:?}");
            assert!(kept.missed == 0 && bytes.missed == 0, "{told}");
            // A jump is a request of a MiB; a disk counts what ends within a block of its own, too.
            let counted = jumps * MIB..=2 * jumps * MIB;
            assert!(counted.contains(&bytes.out_of_order), "{told}");
            let (period, bound) = stream.promised(MIB);
            let bound = bound + period * 2 * *jumps;
            let max = volume(&report, index).latency_ms.max;
            assert!(max <= bound.as_millis_f64() + 1.0, "{max} ms of {bound}: {told}");
        }
    }
}

#[test]
fn a_client_that_asks_one_disk_alone_is_served_by_its_contract_and_harms_no_other() {
    let stream = Stream { bandwidth: 700_000, block: MIB, width: 3 };
    let mut text = format!("duration = \"40s\"\n{}", disks(3, "atlas-ii", ("", RESERVE)));
    let mut count = 0;
    while parse(&format!("{text}{}", stream.table(&format!("s{count}")))).is_ok() {
        text += &stream.table(&format!("s{count}"));
        count += 1;
    }
    let mut rng = SeededRng::new(3, 3);
    let mut clients: Vec<_> =
        (1..count).map(|_| client(&mut rng, &stream, (MIB, 0, 0)).0).collect();
    // Every block is one of the first disk: three times what that has for this stream.
    let other = (0..24).map(|n| (stream.time_of(MIB * n), operation(false, 3 * MIB * n, MIB)));
    clients.insert(0, other.collect());
    let report = run(&text, clients);
    for index in 0..count {
        let bytes = deadlines(&report, index).bytes.expect("bytes are promised");
        assert_eq!((deadlines(&report, index).missed, bytes.missed), (0, 0), "stream {index}");
        let told = if index == 0 { 23 * MIB } else { 0 };
        assert_eq!(bytes.out_of_order, told, "stream {index}: {bytes:?}");
    }
}

#[test]
fn under_a_deadline_policy_no_block_is_late_either() {
    for policy in ["policy = \"delta-star\"", "policy = \"delta-l\""] {
        for seed in 0..4 {
            let mut rng = SeededRng::new(seed, 4);
            let (text, streams) = generate(&mut rng, (policy, ""));
            let clients = streams.iter().map(|stream| {
                let first = rng.below(16) * stream.block;
                client(&mut rng, stream, (stream.block / 512 * 512, first, 0)).0
            });
            let clients = clients.collect();
            let report = run(&text, clients);
            for (index, stream) in streams.iter().enumerate() {
                let kept = deadlines(&report, index);
                assert!(kept.met > 0 && kept.missed == 0, "{policy}, {seed}, {stream:?}: {kept:?}");
            }
        }
    }
}

/// As many pairs of RTAS 2000's streams as fit, in this order: a video of 817 KB/s and a sound of
/// 172 KB/s each, with KB and MB of powers of two. Returns their number.
fn pairs(order: &str) -> u32 {
    let mut text = disks(3, "atlas-ii", ("", ""));
    for pair in 0.. {
        for (kind, bandwidth, block) in
            [("video", 817 * 1_024, MIB), ("sound", 172 * 1_024, MIB / 4)]
        {
            write!(
                text,
                "[[pool.volume]]\nname = \"{kind}{pair}\"\nsize = \"30MiB\"\nzone = \"fast\"\n\
                 layout = \"stripe\"\nstream = {{ bandwidth = \"{bandwidth}B/s\", block = \
                 \"{block}B\", order = \"{order}\" }}\n"
            )
            .expect("a string takes all");
        }
        if parse(&text).is_err() {
            return pair;
        }
    }
    unreachable!("a disk is full at some time")
}

#[test]
fn three_disks_admit_several_times_as_much_of_clients_in_order() {
    let [any, sequential] = ["any", "sequential"].map(pairs);
    for (order, pairs) in [("any", any), ("sequential", sequential)] {
        let load = f64::from(pairs * (817 + 172)) / 1_024.0;
        println!("{order}: {pairs} pairs, {load:.2} MB/s");
    }
    assert!(sequential >= 3 * any, "{any} pairs in any order, {sequential} in order");
}
