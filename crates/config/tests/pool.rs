//! A pool's tables give its plan, and each disk admits its part of each volume.

use std::fmt::Write as _;
use std::path::Path;

use engine::stream::{RequestedStream, Span};
use engine::{Contract, Priority, Weight};
use spindle_config::{
    DiskContract, DiskIndex, FloorContract, Labels, LoadedVolume, PlacementSpec, Plan, PoolAction,
    PoolPlan, PoolStream, PoolVolume, StreamOrder, Workload, zone_name, zone_of,
};
use units::{Bytes, DiskTime, Duration, Extent, Instant, Sectors, Share};
use volume::pool::format::Geometry;
use volume::pool::limits::{BLOCK_SECTORS, IMAGE_UNITS_MAX, LOG_UNITS_MAX};
use volume::pool::{Blocks, Layout, Percent, Zone};

const D0: DiskIndex = DiskIndex(0);
const D1: DiskIndex = DiskIndex(1);
const D2: DiskIndex = DiskIndex(2);

/// `count` disks with these lines.
fn disks(count: usize, lines: &str) -> String {
    let disk = |n| format!("[[disk]]\nname = \"d{n}\"\ndrive = \"atlas-ii\"\n{lines}\n");
    (0..count).map(disk).collect()
}

fn parse(text: &str) -> Plan {
    Plan::parse(text, "plan.toml", Path::new("")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn pool(text: &str) -> PoolPlan {
    parse(text).pool.expect("it has one")
}

/// The volume `v` of a pool of these disks with these lines.
fn volume(disks: &str, lines: &str) -> PoolVolume {
    let names: Vec<String> =
        (0..disks.matches("[[disk]]").count()).map(|n| format!("\"d{n}\"")).collect();
    let names = names.join(", ");
    let text =
        format!("{disks}[pool]\ndisks = [{names}]\n[[pool.volume]]\nname = \"v\"\n{lines}\n");
    pool(&text).volumes.remove(0)
}

fn part(disk: DiskIndex, contract: Contract) -> DiskContract {
    DiskContract { disk, contract, declared: None, span: Span::ALWAYS }
}

/// A pool on three disks, with a stripe and a stream.
fn full() -> String {
    format!(
        "{}{}\
         [pool]\ndisks = [\"d2\", \"d0\", \"d1\"]\nmetadata = \"2%\"\nreorganise = \"10%\"\n\
         rebuild = {{ reserve = \"3%\", limit = \"40%\" }}\nscrub = {{ limit = \"30%\" }}\n\
         spare_after = \"5s\"\nslow_after = \"9s\"\n\
         removing = [\"old\"]\n\
         [[pool.volume]]\nname = \"films\"\nsize = \"2GiB\"\ndisks = [\"d1\", \"d0\"]\nlayout = \
         \"stripe\"\n\
         zone = \"fast\"\nthin = true\nreserve = \"30%\"\nlimit = \"60%\"\nweight = 3\nclients = \
         [\"CN=vm7\"]\n\
         [[pool.volume]]\nname = \"cam\"\nsize = \"1GiB\"\ndisks = [\"d2\"]\nzone = \
         \"slow\"\nlayout = \"random\"\n\
         stream = {{ bandwidth = \"512KiB/s\", block = \"1MiB\", span = [\"0s\", \"2h\"] }}\n",
        disks(2, ""),
        disks(3, "policy = \"edf\"").split_off(2 * (disks(1, "policy = \"edf\"").len())),
    )
}

fn floor(reserve: u32, limit: u32) -> FloorContract {
    FloorContract { reserve: Share::from_percent(reserve), limit: Share::from_percent(limit) }
}

fn camera(span: Span) -> PoolStream {
    let requested = RequestedStream { bandwidth: Bytes(512 << 10), block: Bytes(1 << 20) };
    PoolStream { requested, span, order: StreamOrder::Any, survive: 0 }
}

#[test]
fn a_full_pool_gives_the_plan_that_it_describes() {
    let plan = parse(&full());
    let pool = plan.pool.as_ref().expect("it has one");
    let (limit, weight) = (Share::from_percent(60), Weight::new(3).expect("a weight"));
    let films = Contract { limit, weight, ..Contract::reserve(Share::from_percent(30)) };
    let cam = &pool.volumes[1];
    let promised = cam.parts[0].contract.stream.expect("it has one");
    let end = Instant::ZERO + Duration::from_secs(7_200);
    let (range, span) = (Some(plan.disks[2].zone(Zone::Slow)), Span { start: Instant::ZERO, end });
    assert_eq!((promised.task.period(), promised.range), (Duration::from_secs(2), range));
    assert_eq!(promised.block, BLOCK_SECTORS);
    let stream = camera(span);
    let expected = PoolPlan {
        disks: vec![D2, D0, D1],
        metadata_share: Share::from_percent(2),
        relocation_share: Share::from_percent(10),
        rebuild: Some(floor(3, 40)),
        scrub: Some(floor(5, 30)),
        spare_after: Duration::from_secs(5),
        slow_after: Duration::from_secs(9),
        removing: vec!["old".to_owned()],
        volumes: vec![
            PoolVolume {
                name: "films".to_owned(),
                clients: Some(vec!["CN=vm7".to_owned()]),
                size: Bytes(2 << 30),
                disks: vec![D1, D0],
                layout: Layout::Stripe,
                zone: Zone::Fast,
                thin: true,
                checksums: true,
                from: None,
                parts: [D1, D0].map(|disk| part(disk, films)).to_vec(),
                priority: Priority::Normal,
                rate: None,
                stream: None,
                stream_parts: Vec::new(),
                latency: None,
                write_buffer: engine::limits::WRITE_BUFFER,
                source: None,
                labels: Labels::new(),
                ublk: false,
                line: 22,
            },
            PoolVolume {
                name: "cam".to_owned(),
                clients: None,
                size: Bytes(1 << 30),
                disks: vec![D2],
                layout: Layout::Random,
                zone: Zone::Slow,
                thin: false,
                checksums: true,
                from: None,
                parts: vec![DiskContract { span, ..part(D2, Contract::stream(promised)) }],
                priority: Priority::Normal,
                rate: None,
                stream: Some(stream),
                stream_parts: Vec::new(),
                line: 33,
                latency: None,
                write_buffer: engine::limits::WRITE_BUFFER,
                source: None,
                labels: Labels::new(),
                ublk: false,
            },
        ],
        line: 13,
    };
    assert_eq!(pool, &expected);
    assert_eq!(cam.span().end, end);
}

#[test]
fn omitted_keys_have_their_defaults() {
    let text = format!("{}[pool]\ndisks = [\"d1\", \"d0\"]\n", disks(2, ""));
    let bare = pool(&text);
    assert_eq!(
        (bare.metadata_share, bare.relocation_share),
        (Share::from_percent(1), Share::from_percent(5))
    );
    let volume = pool(&format!("{text}[[pool.volume]]\nname = \"v\"\nsize = \"1MiB\"\n")).volumes;
    let [volume] = &volume[..] else { panic!("one") };
    assert_eq!(
        (volume.layout, volume.zone, volume.thin, volume.blocks().0),
        (Layout::Single, Zone::Any, false, 1)
    );
    assert_eq!(volume.disks, [D1, D0]);
    assert_eq!(volume.parts, PoolPlan::best_effort_contracts(&[D1, D0]));
}

#[test]
fn a_volume_that_the_config_lacks_is_best_effort() {
    let one = volume(&disks(3, ""), "size = \"1GiB\"\ndisks = [\"d1\"]\nreserve = \"10%\"");
    assert_eq!(one.contract(D1), Contract::reserve(Share::from_percent(10)));
    assert_eq!(one.contract(D0), Contract::BEST_EFFORT);
    let parts = PoolPlan::best_effort_contracts(&[D2, D0]);
    assert_eq!(parts, [D2, D0].map(|disk| part(disk, Contract::BEST_EFFORT)));
}

#[test]
fn relocation_is_limited_to_its_share_except_under_a_policy_without_limits() {
    let pooled = |lines: &str| {
        let text = format!("{}[pool]\ndisks = [\"d0\"]\nreorganise = \"7%\"\n", disks(1, lines));
        let plan = parse(&text);
        plan.pool.expect("it has one").relocation_contract(&plan.disks[0])
    };
    let reserve = Contract::reserve(Share::from_percent(7)).in_background();
    assert_eq!(pooled(""), Contract { limit: Share::from_percent(7), ..reserve });
    assert_eq!(pooled("policy = \"edf\""), reserve);
}

#[test]
fn a_rebuild_and_a_scrub_have_contracts_with_slack_or_that_of_relocation() {
    let pooled = |lines: &str, rebuild: &str| {
        let text = format!("{}[pool]\ndisks = [\"d0\"]\n{rebuild}", disks(1, lines));
        let plan = parse(&text);
        let contracts = plan.pool.as_ref().expect("it has one").own_contracts(&plan.disks[0]);
        let promised = plan.promised(D0).reserved();
        (contracts.map(|(_, contract)| contract).collect::<Vec<_>>(), promised)
    };
    let of = |percent| Contract::reserve(Share::from_percent(percent)).in_background();
    let (own, promised) = pooled("", "");
    assert_eq!((own.len(), promised), (2, Share::from_percent(6)));
    let (own, promised) = pooled("", "rebuild = { reserve = \"20%\", limit = \"60%\" }\n");
    assert_eq!(own[2], Contract { limit: Share::from_percent(60), ..of(20) });
    assert_eq!(promised, Share::from_percent(26));
    let (own, _) = pooled("", "rebuild = {}\n");
    assert_eq!(own[2], of(5), "with all of the slack");
    let (own, _) = pooled("policy = \"edf\"", "rebuild = { reserve = \"20%\", limit = \"60%\" }\n");
    assert_eq!(own[2], of(20));
    let both = "rebuild = { reserve = \"20%\" }\nscrub = { reserve = \"4%\", limit = \"9%\" }\n";
    let (own, promised) = pooled("", both);
    assert_eq!(own[3], Contract { limit: Share::from_percent(9), ..of(4) });
    assert_eq!(promised, Share::from_percent(30), "a scrub beside a rebuild has its own floor");
}

#[test]
fn under_rates_a_reserve_is_that_rate_on_each_disk() {
    let disks = disks(2, "policy = \"throughput\"\nnominal_rate = \"50/s\"");
    let volume = volume(&disks, "size = \"1GiB\"\nreserve = \"20/s\"");
    let contracts = volume.parts.iter().map(|part| part.contract.reserve);
    assert_eq!(contracts.collect::<Vec<_>>(), [Share::from_percent(40); 2]);
}

#[test]
fn a_volume_of_high_priority_has_its_limit_from_each_disk() {
    let high = "size = \"1GiB\"\nreserve = \"10%\"\nlimit = \"50%\"\npriority = \"high\"";
    assert_eq!(volume(&disks(2, ""), high).priority, Priority::High);
    let text = format!(
        "{}[pool]\ndisks = [\"d0\"]\n[[pool.volume]]\nname = \"v\"\n{high}\n",
        disks(2, "")
    );
    let plan = parse(&text);
    // 1 % for the metadata, 5 % for moving blocks, and all of the volume's limit.
    assert_eq!(plan.promised(D0).reserved(), Share::from_percent(56));
    assert_eq!(plan.promised(D1).reserved(), Share::NONE);
}

/// For every end of the metadata, with and without checksum areas, the zones of the disk lie within
/// the extents that admission assumes, and these extents are no larger than necessary.
#[test]
fn a_zone_holds_the_parts_of_every_pool() {
    let plan = parse(&disks(1, ""));
    let disk = &plan.disks[0];
    let blocks = disk.pool_blocks();
    let (fast, slow) = (disk.zone(Zone::Fast), disk.zone(Zone::Slow));
    let whole = Extent::new(units::Lba(0), Sectors(u64::from(blocks) * BLOCK_SECTORS.0));
    assert_eq!(disk.zone(Zone::Any), whole);
    let (mut ends, log) = (Vec::new(), LOG_UNITS_MAX);
    let all_blocks = [false, true].map(|has_sums| disk.blocks_in_pool(has_sums));
    for image in (4..=IMAGE_UNITS_MAX).step_by(101).chain([IMAGE_UNITS_MAX]) {
        for (log, blocks) in [8, 100, log].into_iter().flat_map(|log| all_blocks.map(|b| (log, b)))
        {
            let geometry = Geometry::new(image, log).expect("within the limits");
            let end = u64::from(geometry.fast_end(blocks)) * BLOCK_SECTORS.0;
            assert!(end <= fast.end().0, "{image}, {log}: {end} in {fast}");
            assert!(slow.start.0 <= end, "{image}, {log}: {end} in {slow}");
            ends.push(end);
        }
    }
    assert_eq!(ends.iter().max(), Some(&fast.end().0));
    assert_eq!(ends.iter().min(), Some(&slow.start.0));
    // The two overlap by no more than half of the largest metadata.
    assert!(fast.end().0 - slow.start.0 <= 100 * BLOCK_SECTORS.0);
}

/// The largest number of pieces on one disk of a block that begins anywhere, or at a multiple of
/// its size if the guarantee covers only such blocks.
fn pieces(block: u64, stripe: Option<u64>, copies: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    let aligned = block.is_multiple_of(MIB) || MIB.is_multiple_of(block);
    let (step, len) = (if aligned { block } else { 512 }, block.div_ceil(512) * 512);
    let counts = (0..4 * MIB).step_by(usize::try_from(step).expect("short")).map(|start| {
        let touched = start / MIB..=(start + len - 1) / MIB;
        let width = stripe.unwrap_or(1);
        let has = |block: &u64, disk| (width + disk - block % width) % width < copies;
        let of = |disk| touched.clone().filter(|block| has(block, disk)).count() as u64;
        (0..width).map(of).max().expect("a disk")
    });
    counts.max().expect("a start")
}

#[test]
fn all_pieces_that_a_block_can_have_on_a_disk_are_due_with_the_block() {
    let four = disks(4, "policy = \"delta-star\"");
    for block in
        [512_u64, 4_096, 65_536, 1_000_000, 1 << 20, 1_500_000, 2 << 20, 3 << 20, 4_000_000]
    {
        for (layout, names, width, copies) in [
            ("single", "\"d0\"", None, 1),
            ("random", "\"d0\", \"d1\"", None, 1),
            ("stripe", "\"d0\", \"d1\"", Some(2), 1),
            ("stripe", "\"d2\", \"d0\", \"d1\"", Some(3), 1),
            ("stripe", "\"d2\", \"d0\", \"d1\", \"d3\"", Some(4), 1),
            ("mirror\"\ncopies = 2 #", "\"d0\", \"d1\"", Some(2), 2),
            ("mirror\"\ncopies = 2 #", "\"d0\", \"d1\", \"d2\"", Some(3), 2),
            ("mirror\"\ncopies = 3 #", "\"d0\", \"d1\", \"d2\", \"d3\"", Some(4), 3),
        ] {
            let bandwidth = block.min(100_000) / 4;
            let volume = volume(
                &four,
                &format!(
                    "size = \"1GiB\"\nlayout = \"{layout}\"\ndisks = [{names}]\n\
                     stream = {{ bandwidth = \"{bandwidth}B/s\", block = \"{block}B\" }}"
                ),
            );
            let period = Duration::from_nanos(block * 1_000_000_000 / bandwidth);
            let count = pieces(block, width, copies);
            assert_eq!(volume.parts.len(), names.split(", ").count());
            for part in &volume.parts {
                let stream = part.contract.stream.expect("it has one");
                assert_eq!(stream.task.period(), period / count, "{block} B, {layout}, {names}");
                assert_eq!(stream.block, Sectors(block.div_ceil(512)).min(BLOCK_SECTORS));
            }
        }
    }
}

#[test]
fn a_stream_that_grows_in_its_zone_has_the_contract_that_it_had() {
    let parts = |size: &str, zone: &str| {
        let stream = "stream = { bandwidth = \"400KB/s\", block = \"1MiB\" }";
        let lines = format!("size = \"{size}\"\nzone = \"{zone}\"\n{stream}");
        volume(&disks(1, "policy = \"edf\""), &lines).parts
    };
    assert_eq!(parts("1GiB", "fast"), parts("3GiB", "fast"));
    let cost = |zone| parts("1GiB", zone)[0].contract.stream.expect("it has one").task.cost();
    assert!(cost("fast") < cost("slow"), "{} and {}", cost("fast"), cost("slow"));
    assert!(cost("slow") <= cost("any"));
}

/// The worst case of a stream is that of the part of the disks which its volume keeps to (RTAS 2000
/// §3.1: that of its layout).
#[test]
fn a_smaller_first_part_of_the_disk_costs_a_stream_no_more() {
    let stream = "stream = { bandwidth = \"400KB/s\", block = \"1MiB\" }";
    let part = |zone: &str| {
        let lines = format!("size = \"64MiB\"\nzone = \"{zone}\"\n{stream}");
        let parts = volume(&disks(1, "policy = \"edf\""), &lines).parts;
        parts[0].contract.stream.expect("it has one")
    };
    let costs = (1..=99).rev().map(|percent| part(&format!("fastest {percent}%")).task.cost());
    let costs: Vec<_> = costs.filter(|cost| *cost > DiskTime::ZERO).collect();
    assert!(costs.windows(2).all(|two| two[1] <= two[0]), "{costs:?}");
    assert!(costs[98] < part("fast").task.cost());
    assert!(part("fast").task.cost() < costs[0]);
    for (words, zone) in [("fastest 1%", 1), ("fastest 99%", 99)] {
        let zone = Zone::Fastest(Percent::new(zone).expect("a part"));
        assert_eq!((zone_of(words), zone_name(zone)), (Some(zone), words.to_owned()));
    }
    for words in ["fastest", "fastest 0%", "fastest 100%", "fastest 07%", "fastest +7%", "7%"] {
        assert_eq!(zone_of(words), None, "{words}");
    }
}

/// Whatever is made of volumes, each block is where the contract of its stream was admitted for.
#[test]
fn each_block_of_a_stream_lies_where_its_cost_was_taken_from() {
    const ZONES: [&str; 6] = ["fast", "slow", "any", "fastest 3%", "fastest 20%", "fastest 60%"];
    const LAYOUTS: [&str; 4] = ["single", "stripe", "random", "mirror"];
    for order in 0..24 {
        let mut text = disks(3, "policy = \"edf\"");
        text += "[pool]\ndisks = [\"d0\", \"d1\", \"d2\"]\n";
        for number in 0..6 {
            let (zone, layout) = (ZONES[(order + number) % 6], LAYOUTS[(order / 6 + number) % 4]);
            let size = 1 + (order * 7 + number * 5) % 20;
            write!(
                text,
                "[[pool.volume]]\nname = \"v{number}\"\nsize = \"{size}MiB\"\nlayout = \
                 \"{layout}\"\nzone = \"{zone}\"\nstream = {{ bandwidth = \"20KB/s\", block = \
                 \"256KiB\" }}\n"
            )
            .expect("a string takes all");
        }
        let plan = parse(&text);
        let pool = plan.pool.as_ref().expect("it has one");
        let made = pool.create(&plan.disks).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        for (volume, id) in pool.volumes.iter().zip(&made.volumes) {
            let there = made.flow.pool().state().volume(*id).expect("it was made");
            for place in there.places() {
                let disk = made.disks.iter().position(|disk| *disk == place.disk).expect("its own");
                let contract = volume.contract(pool.disks[disk]).stream.expect("it has one");
                let range = contract.range.expect("the part of the disk");
                let (first, end) =
                    (Blocks(place.block).sectors().0, Blocks(place.end()).sectors().0);
                assert!(
                    range.start.0 <= first && end <= range.end().0,
                    "{place:?}, {range}\n{text}"
                );
            }
        }
    }
}

#[test]
fn a_relocated_volume_has_its_contract_at_both_placements() {
    let moved = volume(
        &disks(3, "policy = \"edf\""),
        "size = \"1GiB\"\nlayout = \"stripe\"\nzone = \"slow\"\ndisks = [\"d1\", \"d2\"]\n\
         from = { zone = \"fast\", disks = [\"d0\", \"d1\"] }\n\
         stream = { bandwidth = \"400KB/s\", block = \"2MiB\" }",
    );
    assert_eq!(moved.from, Some(PlacementSpec { zone: Zone::Fast, disks: vec![D0, D1] }));
    let plan = parse(&disks(3, ""));
    let period = Duration::from_nanos((2 << 20) * 1_000_000_000 / 400_000);
    let (fast, slow, any) = (
        plan.disks[0].zone(Zone::Fast),
        plan.disks[0].zone(Zone::Slow),
        plan.disks[0].zone(Zone::Any),
    );
    // Both pieces of a block may lie on d1: one already relocated there, one not yet moved away.
    let expected = [(D1, any, 2), (D2, slow, 1), (D0, fast, 1)];
    let parts = moved.parts.iter().map(|part| {
        let stream = part.contract.stream.expect("it has one");
        (part.disk, stream.range.expect("it has one"), stream.task.period())
    });
    assert_eq!(
        parts.collect::<Vec<_>>(),
        expected.map(|(disk, range, count)| (disk, range, period / count))
    );
}

#[test]
fn in_order_each_disk_of_a_stripe_has_one_block_in_each_round() {
    let contract = |policy: &str, block: u64, disks_of: &str, more: &str| {
        let volume = volume(
            &disks(4, policy),
            &format!(
                "size = \"1GiB\"\nlayout = \"stripe\"\ndisks = [{disks_of}]\n{more}stream = {{ \
                 bandwidth = \"262144B/s\", block = \"{block}B\", order = \"sequential\" }}"
            ),
        );
        assert!(volume.is_sequential(), "{volume:?}");
        let stream = |part: &DiskContract| part.contract.stream.expect("it has one");
        volume.parts.iter().map(stream).map(|one| (one.task, one.block)).collect::<Vec<_>>()
    };
    let (two, four) = ("\"d0\", \"d1\"", "\"d2\", \"d0\", \"d1\", \"d3\"");
    for (names, width) in [(two, 2), (four, 4)] {
        // A disk gathers what the client asks for of a MiB, which arrives in four seconds.
        for block in [4_096, 300_000, 1_000_000, 1 << 20, 1 << 21, 8 << 20] {
            for (task, len) in contract("", block, names, "") {
                assert_eq!(task.period(), Duration::from_secs(4 * width), "{block} on {names}");
                assert_eq!(len, BLOCK_SECTORS, "{block} on {names}");
            }
        }
        // Where nothing is gathered, requests are blocks.
        for (block, pieces) in [(1 << 18, 4), (1 << 20, 1), (8 << 20, 1), (700_000, 3)] {
            for keys in ["policy = \"delta-star\"", "split = \"512KiB\""] {
                for (task, len) in contract(keys, block, names, "") {
                    let whole = Duration::from_nanos(block * 1_000_000_000 / 262_144);
                    let touched = if block == 700_000 { 2 } else { block.div_ceil(1 << 20) };
                    let in_any_order = whole / touched.div_ceil(width);
                    let in_order = Duration::from_secs(4 * width) / pieces;
                    let expected = in_order.max(in_any_order);
                    assert_eq!(task.period(), expected, "{block} on {names}, {keys}");
                    assert_eq!(len, Sectors(block.div_ceil(512)).min(BLOCK_SECTORS));
                }
            }
        }
    }
    // While it is moved, the second disk may have the blocks of both columns.
    let moved = contract(
        "",
        1 << 20,
        "\"d1\", \"d2\"",
        "from = { zone = \"any\", disks = [\"d0\", \"d1\"] }\n",
    );
    let periods: Vec<_> = moved.iter().map(|(task, _)| task.period()).collect();
    assert_eq!(periods, [4, 8, 8].map(Duration::from_secs));
}

#[test]
fn the_headroom_of_a_pools_disk_excludes_its_own_reserves_and_streams() {
    let text = format!(
        "{}[pool]\ndisks = [\"d0\", \"d1\"]\n[[pool.volume]]\nname = \"v\"\nsize = \
         \"1GiB\"\ndisks = [\"d1\"]\n\
         stream = {{ bandwidth = \"400KB/s\", block = \"1MiB\" }}\n",
        disks(2, "policy = \"edf\"")
    );
    let plan = parse(&text);
    let tasks = |disk| plan.admission_headroom(disk, Instant::ZERO).expect("deadlines").tasks;
    assert_eq!((tasks(D0), tasks(D1)), (2, 3));
    let used =
        |disk| plan.admission_headroom(disk, Instant::ZERO).expect("deadlines").utilization_ppb;
    assert_eq!(used(D0), 60_000_000);
    assert!(used(D1) > used(D0));
}

#[test]
fn the_example_is_served_and_simulated() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/serve/pool.toml"));
    let plan = Plan::read(path).expect("a good config").for_serve().expect("it is served");
    let pool = plan.pool.expect("it has one");
    let names: Vec<_> = pool.volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names, ["films", "cam01", "scratch"]);
    let plan = Plan::read(path).expect("a good config").for_sim().expect("it is simulated");
    let snapshot = PoolAction::Snapshot { name: "films-monday".to_owned() };
    assert!(plan.changes.iter().any(|change| change.action == snapshot), "{:?}", plan.changes);
    let is_snapshot = |load: &Workload| matches!(load.volume, LoadedVolume::Snapshot(_));
    assert!(plan.workloads.iter().any(is_snapshot), "its snapshot is read");
}

#[test]
fn volumes_that_do_not_fit_the_pool_together_are_served_and_not_simulated() {
    // A daemon finds the volumes in the pool, with other sizes.
    let text = "duration = \"1s\"\n\
                [[disk]]\nname = \"d0\"\ndrive = \"atlas-ii\"\n\
                [pool]\ndisks = [\"d0\"]\n\
                [[pool.volume]]\nname = \"a\"\nsize = \"6GiB\"\n\
                [[pool.volume]]\nname = \"b\"\nsize = \"6GiB\"\n\
                [[workload]]\nvolume = \"b\"\nop = \"read\"\naccess = \"random\"\n\
                block = \"4KiB\"\noutstanding = 1\n";
    let refused = parse(text).for_sim().expect_err("12 GiB are more than 9 GB");
    assert_eq!((refused.line(), refused.field()), (Some(10), Some("size")));
    assert!(refused.expected().contains("volumes that fit the pool together"), "{refused}");
}

#[test]
fn changes_and_workloads_name_volumes_of_the_pool() {
    let text = "duration = \"1s\"\n\
                [[disk]]\nname = \"d0\"\ndrive = \"atlas-ii\"\n\
                [pool]\ndisks = [\"d0\"]\n\
                [[pool.volume]]\nname = \"a\"\nsize = \"1GiB\"\n";
    for (more, field) in [
        ("[[change]]\nat = \"1s\"\nvolume = \"b\"\naction = \"relocate\"\n", "volume"),
        ("[[change]]\nat = \"1s\"\nvolume = \"a\"\naction = \"relocate\"\n", "volume"),
        ("[[change]]\nat = \"1s\"\nvolume = \"a\"\naction = \"move\"\n", "action"),
        ("[[change]]\nat = \"1s\"\nvolume = \"a\"\naction = \"snapshot\"\n", "name"),
        ("[[change]]\nat = \"1s\"\nvolume = \"a\"\naction = \"snapshot\"\nname = \"a\"\n", "name"),
        (
            "[[change]]\nat = \"0s\"\nvolume = \"a\"\naction = \"snapshot\"\nname = \"s\"\n\
             [[workload]]\nvolume = \"s\"\nop = \"write\"\naccess = \"random\"\n\
             block = \"4KiB\"\noutstanding = 1\n",
            "op",
        ),
        ("[[workload]]\nvolume = \"a\"\nop = \"write\"\naccess = \"stream\"\n", "access"),
    ] {
        let refused = Plan::parse(&format!("{text}{more}"), "t", Path::new("")).expect_err(more);
        assert_eq!(refused.field(), Some(field), "{refused}");
    }
}
