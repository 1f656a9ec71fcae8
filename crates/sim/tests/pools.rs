//! What a pool does for itself on one of its disks, beside streams: metadata and relocation have
//! the contracts that the pool gives them, and no block is late.

use std::fmt::Write as _;
use std::path::Path;

use config::{DiskIndex, Plan};
use engine::Contract;
use spindle_sim::Simulation;
use stats::VolumeReport;
use units::Instant;

const CAMERAS: usize = 12;
const POOL: &str = "[[disk]]\nname = \"d\"\ndrive = \"hgst-7k8\"\n\
                    [[disk]]\nname = \"e\"\ndrive = \"hgst-7k8\"\n\
                    [pool]\ndisks = [\"d\", \"e\"]\nmetadata_share = \"2%\"\n\
                    relocation_share = \"10%\"\n";
/// A block of the pool after the other.
const RELOCATION: &str = "access = \"sequential\"\nblock = \"1MiB\"\noutstanding = 2";
/// Records of 4 KiB, each after the answer of the one before.
const METADATA: &str =
    "op = \"write\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 1\nthink = \"100ms\"";
const BACKLOG: &str = "op = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\noutstanding = 16";

/// The contracts of metadata and of relocation on the first disk of the pool.
fn own() -> [Contract; 2] {
    let plan = Plan::parse(POOL, "pool.toml", Path::new("")).expect("a pool");
    let pool = plan.pool.as_ref().expect("it has one");
    assert!(pool.disks.contains(&DiskIndex(0)), "the disk is the pool's");
    [pool.metadata_contract(), pool.relocation_contract(&plan.disks[0])]
}

/// Cameras, metadata, relocation that reads or writes, a reserve and best effort on a disk with
/// these keys.
fn run(disk: &str, relocation: &str) -> Vec<VolumeReport> {
    let mut text =
        format!("duration = \"60s\"\n[[disk]]\nname = \"d\"\ndrive = \"hgst-7k8\"\n{disk}");
    let mut add = |contract: &str, workload: &str| {
        let name = format!("v{}", text.matches("[[volume]]").count());
        write!(
            text,
            "[[volume]]\nname = \"{name}\"\ndisk = \"d\"\nsize = \"100GiB\"\n{contract}\n\
             [[workload]]\nvolume = \"{name}\"\n{workload}\n"
        )
        .expect("a string takes all");
    };
    let relocation = format!("op = \"{relocation}\"\n{RELOCATION}");
    for _ in 0..CAMERAS {
        let camera = "stream = { bandwidth = \"1.45MB/s\", block = \"1MB\" }";
        add(camera, "op = \"write\"\naccess = \"stream\"");
    }
    add("reserve = \"2%\"", METADATA);
    add("reserve = \"10%\"", &relocation);
    add("reserve = \"15%\"", BACKLOG);
    add("", BACKLOG);
    let mut plan = Plan::parse(&text, "plan.toml", Path::new("")).expect("the contracts fit");
    for (volume, contract) in plan.volumes[CAMERAS..].iter_mut().zip(own()) {
        assert_eq!(volume.contract.reserve, contract.reserve, "it was admitted with that reserve");
        volume.contract = contract;
    }
    let mut simulation = Simulation::new(&plan);
    simulation.run_until(Instant::ZERO + plan.duration.expect("a length"));
    simulation.report().volumes
}

#[test]
fn relocation_and_metadata_keep_their_shares_beside_cameras_and_make_no_block_late() {
    for disk in ["", "depth = 8\n"] {
        for operation in ["read", "write"] {
            let volumes = run(disk, operation);
            for camera in &volumes[..CAMERAS] {
                let kept = camera.deadlines.as_ref().expect("a stream has deadlines");
                assert!(kept.met > 80 && kept.missed == 0, "{disk}{operation}: {kept:?}");
            }
            let [metadata, relocation, reserve, rest] = &volumes[CAMERAS..] else {
                panic!("four more volumes")
            };
            println!(
                "{disk}{operation}: relocation {:.3}, reserve {:.3}, best effort {:.3}; metadata \
                 {:.2}/s, p99 {:.0} ms, max {:.0} ms",
                relocation.disk_time_share,
                reserve.disk_time_share,
                rest.disk_time_share,
                metadata.iops,
                metadata.latency_ms.p99,
                metadata.latency_ms.max
            );
            let share = relocation.disk_time_share;
            assert!((0.095..=0.105).contains(&share), "{disk}{operation}: {share}");
            assert!(reserve.disk_time_share >= 0.145, "{disk}{operation}: {reserve:?}");
            assert!(rest.disk_time_share > 0.0, "{disk}{operation}: {rest:?}");
            // A record takes 20 ms of the 2 %, and is answered within a second.
            assert!(metadata.iops >= 1.0, "{disk}{operation}: {metadata:?}");
            assert!(metadata.latency_ms.max <= 1_000.0, "{disk}{operation}: {metadata:?}");
        }
    }
}
