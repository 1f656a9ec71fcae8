//! The library's flash drives compared with every figure of their data sheets.

use std::sync::Arc;

use drive::{FlashDevice, FlashModel, Tag};
use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

fn model(name: &str) -> Arc<FlashModel> {
    let spec = drive_library::find(name).expect("in the library");
    Arc::clone(spec.check().expect("a drive").flash().expect("a flash drive"))
}

/// A load on a drive.
#[derive(Clone, Copy)]
struct Load {
    write: bool,
    random: bool,
    len: Sectors,
    depth: u64,
}

const READS: Load = Load { write: false, random: true, len: Sectors(8), depth: 1 };
const WRITES: Load = Load { write: true, ..READS };
/// The sequential load of data sheets: 128 KiB with 32 requests outstanding.
const STREAM: Load = Load { write: false, random: false, len: Sectors(256), depth: 32 };

/// Commands per second, over 2 s, after 1 s in which the write buffer fills.
fn rate(model: &Arc<FlashModel>, load: Load) -> u64 {
    run(model, load, Duration::from_secs(1), Duration::from_secs(2)).0 / 2
}

/// The mean latency in ns over the first 20 ms, in which no write waits for buffer space.
fn latency(model: &Arc<FlashModel>, load: Load) -> u64 {
    run(model, load, Duration::ZERO, Duration::from_millis(20)).1
}

/// Keeps a load on a drive for `warm` and then `time`. Returns the number of commands completed in
/// `time` and their mean latency in ns.
fn run(model: &Arc<FlashModel>, load: Load, warm: Duration, time: Duration) -> (u64, u64) {
    let mut device = FlashDevice::new(Arc::clone(model));
    let mut rng = 1_u64;
    let blocks = model.capacity().0 / load.len.0;
    let mut next = |nth: u64| {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let block = if load.random { (rng >> 20) % blocks } else { nth % blocks };
        let extent = Extent::new(Lba(block * load.len.0), load.len);
        if load.write { Operation::write(extent) } else { Operation::read(extent) }
    };
    let warm = Instant::ZERO + warm;
    let end = warm + time;
    for nth in 0..load.depth {
        device.submit(Instant::ZERO, Tag(nth), next(nth));
    }
    let (mut nth, mut counted, mut waited) = (load.depth, 0, Duration::ZERO);
    while let Some(now) = device.next_completion().filter(|at| *at <= end) {
        while let Some(done) = device.complete(now) {
            if done.at >= warm {
                counted += 1;
                waited += done.parts.sum();
            }
            device.submit(now, Tag(nth), next(nth));
            nth += 1;
        }
    }
    device.invariants();
    (counted, waited.as_nanos() / counted)
}

fn near(what: &str, found: u64, sheet: u64, percent: u64) {
    println!("{what}: {found}, the sheet says {sheet}");
    assert!(found.abs_diff(sheet) * 100 <= sheet * percent, "{what}: {found} for {sheet}");
}

#[test]
fn the_sata_drive_does_what_its_data_sheet_says() {
    let model = model("samsung-870evo-1t");
    near("read, depth 1", rate(&model, READS), 13_000, 1);
    near("read, depth 32", rate(&model, Load { depth: 32, ..READS }), 98_000, 3);
    near("write, depth 1", rate(&model, WRITES), 36_000, 1);
    near("write, depth 32", rate(&model, Load { depth: 32, ..WRITES }), 88_000, 1);
    let kilobytes = |load: Load| rate(&model, load) * load.len.bytes().0 / 1_000;
    near("stream read, kB/s", kilobytes(STREAM), 560_000, 5);
    near("stream write, kB/s", kilobytes(Load { write: true, ..STREAM }), 530_000, 5);
}

#[test]
fn the_nvme_drive_does_what_its_data_sheet_says() {
    let model = model("intel-p4500-2t");
    let deep = |load| Load { depth: 128, ..load };
    near("random read, ns", latency(&model, READS), 85_000, 1);
    near("random write, ns", latency(&model, WRITES), 20_000, 1);
    let run_of = |load| Load { random: false, ..load };
    near("sequential read, ns", latency(&model, run_of(READS)), 10_000, 5);
    near("sequential write, ns", latency(&model, run_of(WRITES)), 13_000, 5);
    near("reads a second", rate(&model, deep(READS)), 490_000, 10);
    near("writes a second", rate(&model, deep(WRITES)), 38_000, 5);
    let kilobytes = |load: Load| rate(&model, load) * load.len.bytes().0 / 1_000;
    near("stream read, kB/s", kilobytes(STREAM), 3_200_000, 5);
    near("stream write, kB/s", kilobytes(Load { write: true, ..STREAM }), 1_050_000, 5);
}

/// The message about the SATA drive's file with `from` replaced by `to`.
fn refused(from: &str, to: &str) -> String {
    let good = include_str!("../../drive-library/drives/samsung-870evo-1t.toml");
    assert!(good.contains(from), "{from}");
    let line = good[..good.find(from).expect("it is there")].matches('\n').count() + 1;
    let error = drive_library::parse(&good.replacen(from, to, 1), "x.toml").expect_err(to);
    error.to_string().replace(&format!("x.toml:{line}: "), "HERE ")
}

#[test]
fn a_wrong_file_is_refused_with_line_field_and_what_is_expected() {
    let says = |from: &str, to: &str, said: &str| {
        let text = refused(from, to);
        assert!(text.starts_with("HERE ") && text.contains(said), "{text}");
        assert!(text.contains("expected"), "{text}");
    };
    says(
        "channels = 8 ",
        "channels = 65 ",
        "field `nand.channels`: is 65 channels, expected 1 to 64",
    );
    says(
        "read = \"45us\"",
        "read = \"0us\"",
        "field `nand.read`: is 0 ns, expected 1 to 1000000000",
    );
    says("read_rate = \"560MB/s\"", "read_rate = \"560MB\"", "expected a rate such as 560MB/s");
    says("plification = \"1\"", "plification = \"1.2345\"", "expected a factor such as 1 or 6.75");
    let factor = "field `nand.write_amplification`: is 500 thousandths, expected 1000 to 100000";
    says("write_amplification = \"1\"", "write_amplification = \"0.5\"", factor);
    says(
        "write_buffer = \"16MiB\"",
        "write_buffer = \"16KiB\"",
        "field `memory.write_buffer`: is 32 sectors",
    );
    says("count_max = 8", "count_max = 0", "field `suspend.count_max`: is 0 suspensions");
    says(
        "page = \"16KiB\"",
        "page = \"1000B\"",
        "field `page`: is 1000B, expected a multiple of 512B",
    );
    says("kind = \"flash\"", "kind = \"tape\"", "expected `mechanical` or `flash`");
    says("duplex = false ", "duplexed = false ", "field `duplexed`: unknown field");
    // Read as a mechanical drive, the file lacks the required keys.
    assert!(refused("kind = \"flash\"\n", "\n").contains("unknown field `capacity`"));
}

#[test]
fn a_flash_drive_is_not_a_mechanical_one() {
    assert_eq!(drive_library::find_mechanical("samsung-870evo-1t"), None);
    let text = include_str!("../../drive-library/drives/samsung-870evo-1t.toml");
    let error =
        drive_library::parse_mechanical(text, "x.toml").expect_err("it has no arm").to_string();
    assert!(error.contains("field `kind`: is `flash`, expected `mechanical`"), "{error}");
}

#[test]
fn a_flash_disk_has_neither_batch_nor_linger() {
    let disk = "[[disk]]\nname = \"d0\"\ndrive = \"intel-p4500-2t\"\ndepth = 32\n";
    let volume = "[[volume]]\nname = \"v\"\ndisk = \"d0\"\nsize = \"1GiB\"\n";
    let text = format!("{disk}{volume}");
    let plan = spindle_config::Plan::parse(&text, "p.toml", std::path::Path::new("."));
    let disk = plan.expect("a plan").disks.remove(0);
    assert_eq!((disk.batch, disk.linger), (Duration::ZERO, Duration::ZERO));
    assert_eq!(disk.estimate_random, Duration::from_micros(100));
}
