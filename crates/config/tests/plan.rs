//! A valid config gives exactly the plan that it describes.

use core::num::NonZeroU64;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{Contract, EstimatorName, Execution, PolicyName, Priority, ReadAheadSettings};
use spindle_config::{
    Access, Arrival, Backing, Disk, DiskIndex, DriveRef, LoadedVolume, Mix, Plan, Requests,
    Synthetic, ThinkTime, Volume, VolumeIndex, Workload,
};
use units::{Bytes, Duration, Extent, Lba, Rate, Sectors, Share};

const FULL: &str = include_str!("full.toml");
const DISK: &str = "[[disk]]\nname = \"d\"\ndrive = \"deskstar-34gxp\"\n";

fn parse(text: &str) -> Plan {
    Plan::parse(text, "full.toml", Path::new("plans")).expect("a good config")
}

fn drive() -> DriveRef {
    let name = "deskstar-34gxp";
    let spec = drive_library::find_mechanical(name).expect("in the library");
    DriveRef { name: name.to_owned(), model: Arc::new(spec.check().expect("a drive")).into() }
}

fn disks() -> Vec<Disk> {
    // The default of the nominal rate is the drive's worst case.
    let worst = drive().model.mechanical().expect("an arm").worst_case(Sectors(8));
    let defaults = Disk {
        name: "d0".to_owned(),
        drive: drive(),
        slowed: Share::ALL,
        bus: None,
        profile: None,
        backing: Backing::Ram,
        spare: false,
        domain: None,
        policy: PolicyName::Spindle,
        unkept_contracts: false,
        depth: 1,
        depth_source: spindle_config::DepthSource::Queue,
        chooser: engine::ChooserName::Predicted,
        freeblock: false,
        period: Duration::from_secs(1),
        batch: Duration::from_millis(250),
        linger: Duration::from_millis(8),
        estimate_sequential: Duration::from_micros(300),
        estimate_random: Duration::from_millis(20),
        execution: Execution::Whole { split: None },
        estimate: EstimatorName::Constants,
        reserve_headroom: Share::NONE,
        nominal: Rate { interval: worst },
        worst_case: None,
        host_lateness: Duration::from_millis(1),
        best_effort: None,
        slack_range: engine::stream::SlackRange::All,
        read_ahead: ReadAheadSettings {
            memory: engine::limits::READ_AHEAD_MEMORY,
            requests: true,
            prefetches: false,
        },
        write_buffer: Some(engine::WriteBufferSettings::default()),
        write_cache: spindle_config::WriteCache::Auto,
        write_buffer_log: spindle_config::WriteBufferLog::Auto,
        faults: None,
        line: 7,
    };
    let written = Disk {
        name: "d1".to_owned(),
        depth_source: spindle_config::DepthSource::Config,
        chooser: engine::ChooserName::Arrival,
        backing: Backing::File(PathBuf::from("plans/d1.img")),
        policy: PolicyName::Utilization,
        period: Duration::from_millis(500),
        batch: Duration::from_millis(100),
        linger: Duration::ZERO,
        read_ahead: ReadAheadSettings::OFF,
        write_buffer: None,
        estimate_sequential: Duration::from_micros(250),
        estimate_random: Duration::from_millis(15),
        line: 11,
        ..defaults.clone()
    };
    vec![defaults, written]
}

fn volumes() -> Vec<Volume> {
    let volume = |name: &str, disk, (at, size): (u64, u64), contract, line| Volume {
        name: name.to_owned(),
        disk: DiskIndex(disk),
        size: Bytes(size),
        extent: Extent::new(Lba(at / 512), Sectors(size / 512)),
        contract,
        declared: None,
        priority: Priority::Normal,
        stream: None,
        write_buffer: engine::limits::WRITE_BUFFER,
        labels: BTreeMap::new(),
        ublk: false,
        same_as: None,
        clients: None,
        line,
    };
    let (reserve, limit) = (Share::from_percent(70), Share::from_percent(80));
    vec![
        volume("seq", 0, (0, 4 << 30), Contract { limit, ..Contract::reserve(reserve) }, 23),
        volume("rest", 0, (4 << 30, 1 << 30), Contract::BEST_EFFORT, 30),
        volume("disk d1s volume", 1, (0, 1_024_000), Contract::reserve(Share::ALL), 35),
    ]
}

fn workloads() -> Vec<Workload> {
    vec![
        Workload {
            volume: LoadedVolume::Single(VolumeIndex(0)),
            requests: Requests::Synthetic(Synthetic {
                mix: Mix::Read,
                access: Access::Sequential { run: NonZeroU64::new(1_024) },
                block: Bytes(4_096),
                arrival: Arrival::Closed {
                    outstanding: 16,
                    think: ThinkTime::Fixed(Duration::from_millis(1)),
                },
                flush_every: None,
            }),
            start: Duration::from_secs(5),
            stop: Some(Duration::from_secs(85)),
            line: 41,
        },
        Workload {
            volume: LoadedVolume::Single(VolumeIndex(2)),
            requests: Requests::Synthetic(Synthetic {
                mix: Mix::Mix { read_share: Share::from_percent(70) },
                access: Access::Random,
                block: Bytes(512),
                arrival: Arrival::Open { interval: Duration::from_millis(20) },
                flush_every: None,
            }),
            start: Duration::ZERO,
            stop: Some(Duration::from_secs(60)),
            line: 52,
        },
        Workload {
            volume: LoadedVolume::Single(VolumeIndex(1)),
            requests: Requests::Synthetic(Synthetic {
                mix: Mix::Write,
                access: Access::Sequential { run: None },
                block: Bytes(1 << 20),
                arrival: Arrival::closed(1),
                flush_every: core::num::NonZeroU32::new(64),
            }),
            start: Duration::ZERO,
            stop: Some(Duration::from_secs(90)),
            line: 61,
        },
    ]
}

#[test]
fn a_full_config_gives_the_plan_that_it_describes() {
    let expected = Plan {
        file: "full.toml".to_owned(),
        seed: u64::MAX,
        duration: Some(Duration::from_secs(90)),
        nbd: spindle_config::Nbd::default(),
        listen: vec!["unix:/run/spindle/nbd.sock".to_owned(), "127.0.0.1:10809".to_owned()],
        vhost_user: None,
        disks: disks(),
        volumes: volumes(),
        log: spindle_config::Log::default(),
        pool: None,
        changes: Vec::new(),
        workloads: workloads(),
    };
    assert_eq!(parse(FULL), expected);
}

#[test]
fn the_directory_of_vhost_user_sockets_is_relative_to_the_config_and_only_for_a_daemon() {
    let plan = parse(&FULL.replace("[listen]\n", "[listen]\nvhost_user = \"sockets\"\n"));
    assert_eq!(plan.vhost_user, Some("plans/sockets".into()));
    assert_eq!(plan.clone().for_sim().expect("can be simulated").vhost_user, None);
    let served = plan.for_serve().expect("can be served");
    assert_eq!(served.vhost_user, Some("plans/sockets".into()));
}

#[test]
fn one_config_is_simulated_and_served() {
    let (sim, serve) = (parse(FULL).for_sim(), parse(FULL).for_serve());
    let (sim, serve) = (sim.expect("can be simulated"), serve.expect("can be served"));
    assert_eq!((sim.disks, sim.volumes), (serve.disks, serve.volumes));
    assert_eq!((sim.workloads, serve.workloads), (workloads(), vec![]));
    assert_eq!((sim.listen.len(), serve.listen.len()), (0, 2));
    assert_eq!((sim.duration, serve.duration), (Some(Duration::from_secs(90)), None));
    assert_eq!((sim.seed, serve.seed), (u64::MAX, 1));
}

#[test]
fn an_empty_config_is_a_plan_of_nothing() {
    let plan = parse("");
    assert_eq!((plan.seed, plan.duration, plan.listen.len()), (1, None, 0));
    assert!(plan.disks.is_empty() && plan.volumes.is_empty() && plan.workloads.is_empty());
}

#[test]
fn a_written_duration_goes_before_the_latest_stop() {
    assert_eq!(parse(&format!("duration = \"1s\"\n{FULL}")).duration, Some(Duration::from_secs(1)));
}

#[test]
fn one_workload_without_a_stop_leaves_the_duration_open() {
    assert_eq!(parse(&FULL.replace("stop = \"85s\"\n", "")).duration, None);
}

#[test]
fn a_short_period_shortens_the_default_batch() {
    let plan = parse(&format!("{DISK}period = \"100ms\"\n"));
    assert_eq!(plan.disks[0].batch, Duration::from_millis(100));
}

#[test]
fn disks_of_one_drive_share_its_model() {
    let disks = parse(FULL).disks;
    let model = |disk: usize| disks[disk].drive.model.mechanical().expect("a drive with an arm");
    assert!(Arc::ptr_eq(model(0), model(1)));
}

#[test]
fn the_rest_of_a_disk_can_be_used_to_the_last_sector_and_share() {
    let all = drive().model.capacity().bytes().0;
    let volume = |name: &str, size, share| {
        format!(
            "[[volume]]\nname = \"{name}\"\ndisk = \"d\"\nsize = \"{size}\"\nreserve = \
             \"{share}%\"\n"
        )
    };
    let text = format!("{DISK}{}{}", volume("a", all - 512, 99), volume("b", 512, 1));
    assert_eq!(parse(&text).volumes.len(), 2);
}

#[test]
fn a_path_that_is_absolute_stays_so() {
    let plan = parse(&format!("{DISK}backing = \"/srv/d.img\"\n"));
    assert_eq!(plan.disks[0].backing, Backing::File(PathBuf::from("/srv/d.img")));
}

#[test]
fn crlf_line_ends_are_accepted() {
    let unix = parse(FULL);
    assert_eq!(parse(&FULL.replace('\n', "\r\n")), unix);
    assert_eq!(parse(&format!("\u{feff}{FULL}")), unix);
}

#[test]
fn a_plan_as_large_as_the_limits_allow_is_read() {
    use std::fmt::Write as _;

    let mut text = DISK.to_owned();
    for name in 0..spindle_config::limits::VOLUMES_MAX {
        let name = format!("{name}\"\n");
        write!(
            text,
            "[[volume]]\nname = \"{name}disk = \"d\"\nsize = \"4KiB\"\nreserve = \"0.01%\"\n"
        )
        .expect("memory");
        write!(text, "[[workload]]\nvolume = \"{name}op = \"read\"\naccess = \"random\"\n")
            .expect("memory");
        text.push_str("block = \"4KiB\"\nrate = \"1/s\"\nstop = \"9s\"\n");
    }
    let plan = parse(&text);
    assert_eq!((plan.volumes.len(), plan.workloads.len()), (10_000, 10_000));
    assert_eq!(plan.workloads[9_999].volume, LoadedVolume::Single(VolumeIndex(9_999)));
}

#[test]
fn every_limit_may_be_reached() {
    let name = "n".repeat(255);
    let socket = format!("unix:/{}", "s".repeat(106));
    let addresses: Vec<_> = (1..16).map(|port| format!("\"[::1]:{port}\"")).collect();
    let text = format!(
        "duration = \"10000000s\"\n[listen]\nnbd = [\"{socket}\", {}]\n\
         [[disk]]\nname = \"{name}\"\ndrive = \"deskstar-34gxp\"\nperiod = \"10s\"\nbatch = \
         \"10s\"\n\
         linger = \"20ms\"\nestimate_sequential = \"1us\"\nestimate_random = \"10s\"\n\
         [[volume]]\nname = \"{name}\"\ndisk = \"{name}\"\nsize = \"32MiB\"\n\
         reserve = \"100%\"\nlimit = \"100%\"\n\
         [[workload]]\nvolume = \"{name}\"\nop = \"mix\"\nread_share = \"100%\"\n\
         access = \"sequential\"\nrun = 1_000_000_000\nblock = \"32MiB\"\noutstanding = 4096\n\
         think = \"10000000s\"\nstart = \"9999999s\"\nstop = \"10000000s\"\n\
         [[workload]]\nvolume = \"{name}\"\nop = \"read\"\naccess = \"random\"\nblock = \"512B\"\n\
         rate = \"1000000/s\"\n",
        addresses.join(", "),
    );
    let plan = parse(&text);
    assert_eq!((plan.listen.len(), plan.workloads.len()), (16, 2));
}

#[test]
fn a_drive_file_is_found_beside_the_config() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = include_str!("../../drive-library/drives/deskstar-34gxp.toml");
    std::fs::write(directory.join("mine.toml"), file).expect("a scratch file");
    let config = DISK.replace("deskstar-34gxp", "mine.toml");
    let plan = Plan::parse(&config, "plan.toml", directory).expect("a good config");
    assert_eq!(plan.disks[0].drive.name, "mine.toml");
    assert_eq!(plan.disks[0].drive.model.capacity(), drive().model.capacity());
}

#[test]
fn a_rate_with_its_runs_becomes_the_share_that_gives_it() {
    let text = "[[disk]]\nname = \"d\"\ndrive = \"deskstar-34gxp\"\n\
                [[volume]]\nname = \"v\"\ndisk = \"d\"\nsize = \"1GiB\"\niops = \"900/s\"\nrun = \
                64\n\
                [[volume]]\nname = \"w\"\ndisk = \"d\"\nsize = \"1GiB\"\nbandwidth = \
                \"1MiB/s\"\nrun = 256\n";
    let plan = Plan::parse(text, "plan.toml", Path::new("")).expect("it fits");
    let [runs, bytes] = [0, 1].map(|volume| plan.volumes[volume].declared.expect("it was"));
    assert_eq!(plan.volumes[0].contract, Contract::reserve(runs.share));
    assert_eq!(
        (runs.requirement.block, bytes.requirement.interval),
        (Sectors(8), Duration::from_nanos(3_906_250))
    );
    // 900 requests per second in runs of 64 are 14 runs. Each takes half a full stroke, half a
    // revolution and 64 transfers, about 30 ms.
    assert!((35..50).contains(&(runs.share.ppb() / 10_000_000)), "{}", runs.share);
}

#[test]
fn think_times_are_fixed_or_exponential_and_requests_single_or_in_bursts() {
    let arrival = |lines: &str| {
        let text = format!(
            "duration = \"1s\"\n[[disk]]\nname = \"d\"\ndrive = \"hgst-7k8\"\n\
             [[volume]]\nname = \"v\"\ndisk = \"d\"\nsize = \"1GiB\"\n\
             [[workload]]\nvolume = \"v\"\nop = \"read\"\naccess = \"random\"\n\
             block = \"4KiB\"\n{lines}"
        );
        let plan = Plan::parse(&text, "plan.toml", Path::new("")).expect("a good config");
        match &plan.workloads[0].requests {
            Requests::Synthetic(drawn) => drawn.arrival,
            other => panic!("{other:?}"),
        }
    };
    let think = ThinkTime::Exponential { mean: Duration::from_millis(1) };
    assert_eq!(
        arrival("outstanding = 2\nthink = { exponential = \"1ms\" }\n"),
        Arrival::Closed { outstanding: 2, think }
    );
    let think = ThinkTime::Fixed(Duration::from_millis(100));
    assert_eq!(arrival("burst = 8\nthink = \"100ms\"\n"), Arrival::Bursts { size: 8, think });
    assert_eq!(arrival("burst = 8\n"), Arrival::Bursts { size: 8, think: ThinkTime::NONE });
}

#[test]
fn what_is_told_of_a_slowed_drive_is_slowed_as_the_drive_is() {
    let disk = |lines: &str| {
        let text = format!(
            "[[disk]]\nname = \"d\"\ndrive = \"hgst-7k8\"\npolicy = \"edf\"\n{lines}\n\
             [[volume]]\nname = \"v\"\ndisk = \"d\"\nsize = \"1GiB\"\n"
        );
        Plan::parse(&text, "plan.toml", Path::new("")).expect("a good config").disks.remove(0)
    };
    let (full, half) =
        (disk("host_lateness = \"0s\""), disk("host_lateness = \"0s\"\nslowed = 0.5"));
    assert_eq!((full.slowed, half.slowed), (Share::ALL, Share::from_percent(50)));
    assert_eq!(disk("slowed = \"50%\"").slowed, disk("slowed = \"0.5\"").slowed);
    assert_eq!(disk("slowed = 1"), disk(""));
    assert_eq!(half.estimate_random, full.estimate_random * 2);
    assert_eq!(half.estimate_sequential, full.estimate_sequential * 2);
    let (whole, range) = (full.profile().expect("an arm"), Extent::new(Lba(0), Sectors(1 << 30)));
    let slow = half.profile().expect("an arm");
    assert_eq!(slow.rotation_period, whole.rotation_period * 2);
    assert_eq!(slow.bands, whole.bands);
    for len in [8, 2_048] {
        let worst = |profile: &drive_profile::Profile| {
            profile.worst_case(range, Sectors(len), drive_profile::TransferKind::Write).as_nanos()
        };
        // Each of some hundred sectors' times is rounded.
        assert!(worst(&slow).abs_diff(2 * worst(&whole)) < 10_000, "{len} sectors");
    }
    let (full, half) = (full.mechanics().expect("an arm"), half.mechanics().expect("an arm"));
    assert_eq!(half.seek_max, full.seek_max * 2);
}

#[test]
fn the_host_reads_ahead_where_switches_cost_positioning_and_clients_are_known_to_think() {
    let memory = |lines: &str| {
        let text = format!("[[disk]]\nname = \"d\"\n{lines}\n");
        let plan = Plan::parse(&text, "plan.toml", Path::new("")).expect("a good config");
        plan.disks[0].read_ahead.memory
    };
    let auto = engine::limits::READ_AHEAD_MEMORY;
    let drive = "drive = \"hgst-7k8\"\n";
    assert_eq!(memory(drive), auto);
    assert_eq!(memory(&format!("{drive}read_ahead = \"off\"")), Sectors::ZERO);
    assert_eq!(memory(&format!("{drive}read_ahead = \"16MiB\"")), Sectors(16 << 11));
    for policy in ["utilization", "fcfs", "edf"] {
        assert_eq!(memory(&format!("{drive}policy = \"{policy}\"")), Sectors::ZERO, "{policy}");
    }
    assert_eq!(memory(&format!("{drive}policy = \"fcfs\"\nread_ahead = \"auto\"")), auto);
    // What is prefetched has memory of its own where clients that pause are not read ahead.
    let prefetching = "policy = \"fcfs\"\nexecution = \"preemptible\"\nfree_prefetch = true\n";
    assert_eq!(memory(&format!("{drive}{prefetching}")), auto);
    assert_eq!(memory(&format!("{drive}{prefetching}read_ahead = \"off\"")), Sectors::ZERO);
    assert_eq!(memory("drive = \"null\"\nsize = \"1GiB\""), Sectors::ZERO);
}

#[test]
fn writes_are_buffered_where_a_drives_own_buffer_undoes_contracts_that_are_kept() {
    let memory = |lines: &str| {
        let text = format!("[[disk]]\nname = \"d\"\n{lines}\n");
        let plan = Plan::parse(&text, "plan.toml", Path::new("")).expect("a good config");
        plan.disks[0].write_buffer.map(|buffer| buffer.memory)
    };
    let auto = Some(engine::limits::WRITE_BUFFER_MEMORY);
    let drive = "drive = \"hgst-7k8\"\n";
    assert_eq!(memory(drive), auto);
    assert_eq!(memory(&format!("{drive}write_buffer = \"auto\"")), auto);
    assert_eq!(memory(&format!("{drive}write_buffer = \"off\"")), None);
    assert_eq!(memory(&format!("{drive}write_buffer = \"0\"")), Some(Sectors::ZERO));
    for policy in ["utilization", "fcfs", "edf"] {
        assert_eq!(memory(&format!("{drive}policy = \"{policy}\"")), None, "{policy}");
    }
    assert_eq!(memory("drive = \"null\"\nsize = \"1GiB\""), None);
}

/// The memory of each disk's write buffers, in MiB, where the process has `all`.
fn divided(all: &str, disks: &[&str]) -> Result<Vec<u64>, String> {
    let disk =
        |(index, line)| format!("[[disk]]\nname = \"d{index}\"\ndrive = \"hgst-7k8\"\n{line}\n");
    let disks: String = disks.iter().enumerate().map(disk).collect();
    let text = format!("{all}\n{disks}");
    let plan = Plan::parse(&text, "plan.toml", Path::new("")).map_err(|error| error.to_string())?;
    let memory = |disk: &Disk| disk.write_buffer.map_or(0, |buffer| buffer.memory.0 >> 11);
    Ok(plan.disks.iter().map(memory).collect())
}

#[test]
fn the_write_buffers_of_all_disks_have_a_bound_together() {
    assert_eq!(divided("", &[""; 2]), Ok(vec![256; 2]));
    assert_eq!(divided("", &[""; 8]), Ok(vec![128; 8]));
    let mixed = ["write_buffer = \"640MiB\"", "", "write_buffer = \"off\"", ""];
    assert_eq!(divided("", &mixed), Ok(vec![640, 192, 0, 192]));
    assert_eq!(divided("write_buffer_memory = \"0\"", &[""; 2]), Ok(vec![0; 2]));
    let large = "write_buffer = \"768MiB\"";
    assert_eq!(
        divided("", &[large, large]),
        Err("plan.toml:9: [[disk]] \"d1\": field `write_buffer`: found `768MiB`, expected at \
             most 256MiB: all disks together have `write_buffer_memory`, 1GiB"
            .to_owned())
    );
    assert_eq!(divided("write_buffer_memory = \"2GiB\"", &[large, large]), Ok(vec![768; 2]));
}
