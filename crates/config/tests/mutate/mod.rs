//! A seeded mutator of valid configs, and the invariants of its results.
//!
//! The RNG is implemented here (`SplitMix64`), so that a seed gives the same text permanently.

use std::path::Path;

use spindle_config::{LoadedVolume, Plan, PoolPlan, PoolVolumeIndex};
use units::Share;

/// The config to mutate.
pub(crate) const GOOD: &str = concat!(
    include_str!("../full.toml"),
    r#"
[[disk]]
name = "d2"
drive = "atlas-ii"
policy = "delta-l"
slack_range = "clockwise"
host_lateness = "2ms"
best_effort = { share = "20%", period = "1s" }

[[volume]]
name = "cam"
disk = "d2"
size = "64MiB"
stream = { bandwidth = "817KB/s", block = "1MB", range = "1MiB..33MiB", span = ["0s", "2h"] }

[[disk]]
name = "p0"
drive = "atlas-ii"

[[disk]]
name = "p1"
drive = "atlas-ii"
policy = "edf"

[pool]
disks = ["p0", "p1"]
metadata_share = "2%"
relocation_share = "10%"
rebuild = { reserve = "5%", limit = "50%" }
scrub = { reserve = "1%", limit = "20%" }
removing = ["old"]

[[pool.volume]]
name = "films"
size = "2GiB"
layout = "stripe"
thin = true
reserve = "30%"
weight = 2

[[pool.volume]]
name = "door"
size = "64MiB"
disks = ["p1"]
zone = "fast"
from = { zone = "slow", disks = ["p1"] }
stream = { bandwidth = "100KB/s", block = "3MiB", span = ["0s", "2h"] }

[[pool.volume]]
name = "film"
size = "64MiB"

[pool.volume.stream]
bandwidth = "100KB/s"
block = "1MiB"
order = "sequential"
span = ["0s", "2h"]
parts = ["24MiB", "40MiB"]

[[pool.volume]]
name = "clips"
size = "64MiB"
layout = "mirror"
stream = { bandwidth = "100KB/s", block = "1MiB", survive = 0 }

[[change]]
at = "10s"
volume = "films"
action = "snapshot"
name = "monday"

[[change]]
at = "20s"
volume = "door"
action = "relocate"

[[workload]]
volume = "cam"
op = "write"
access = "stream"
stop = "80s"

[[workload]]
volume = "films"
op = "write"
access = "random"
block = "1MiB"
outstanding = 2
stop = "80s"

[[workload]]
volume = "monday"
op = "read"
access = "sequential"
block = "64KiB"
outstanding = 1
stop = "80s"
"#
);

/// Tokens of configs, valid and invalid ones.
const TOKENS: &[&str] = &[
    "[[disk]]\n",
    "[[volume]]\n",
    "[[workload]]\n",
    "[listen]\n",
    "[disk]\n",
    "[volume.x]\n",
    "name = ",
    "size = ",
    "reserve = ",
    "rate = ",
    "outstanding = ",
    "drive = ",
    "path = ",
    "stop = ",
    "\"",
    "'",
    "\"\"\"",
    "[",
    "]",
    "{",
    "}",
    "=",
    ",",
    ".",
    "#",
    "\n",
    "\r",
    "\t",
    "\0",
    "\u{202e}",
    "\u{feff}",
    "é",
    "0",
    "-1",
    "1e9",
    "0x1F",
    "nan",
    "inf",
    "true",
    "1979-05-27T07:32:00Z",
    "99999999999999999999999",
    "\"100%\"",
    "\"0%\"",
    "\"101%\"",
    "\"0s\"",
    "\"584542y\"",
    "\"18446744073709551615\"",
    "\"99999999TiB\"",
    "\"0.000000001/s\"",
    "\"999999999999999/s\"",
    "\"ram\"",
    "\"mix\"",
    "\"random\"",
];

/// A source of numbers that one seed fixes.
pub(crate) struct Rng(u64);

impl Rng {
    /// The RNG of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number under `count`; zero if that is zero.
    fn below(&mut self, count: usize) -> usize {
        let count = u64::try_from(count).expect("a count").max(1);
        usize::try_from(self.next() % count).expect("under a count")
    }
}

/// The valid config after one to four mutations.
pub(crate) fn mutated(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let mut text = GOOD.as_bytes().to_vec();
    for _ in 0..=rng.below(4) {
        mutate(&mut text, &mut rng);
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn mutate(text: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.below(text.len());
    let to = (at + 1 + rng.below(16)).min(text.len());
    let token = TOKENS[rng.below(TOKENS.len())].bytes();
    match rng.below(10) {
        0 => text.truncate(at),
        1 => drop(text.drain(at.min(to)..to)),
        2 => drop(text.splice(at.min(to)..to, token)),
        3 => drop(text.splice(at..at, token)),
        4 => text.extend_from_within(at.min(to)..to),
        5 if !text.is_empty() => text[at] = rng.next().to_le_bytes()[0],
        6 if !text.is_empty() => text[at] ^= 1 << rng.below(8),
        _ => mutate_lines(text, rng),
    }
}

/// Mutations of whole lines, such as exchanged values, which are typical mistakes.
fn mutate_lines(text: &mut Vec<u8>, rng: &mut Rng) {
    let mut lines: Vec<Vec<u8>> = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let (one, other) = (rng.below(lines.len()), rng.below(lines.len()));
    match rng.below(5) {
        0 => drop(lines.remove(one)),
        1 => lines.insert(other, lines[one].clone()),
        2 => lines.swap(one, other),
        3 => {
            let key = lines[one].split(|byte| *byte == b'=').next().unwrap_or_default().to_vec();
            let token = TOKENS[rng.below(TOKENS.len())].as_bytes();
            lines[one] = [&key, b"= ".as_slice(), token].concat();
        }
        _ => {
            let value =
                lines[other].split(|byte| *byte == b'=').nth(1).unwrap_or_default().to_vec();
            let key = lines[one].split(|byte| *byte == b'=').next().unwrap_or_default().to_vec();
            lines[one] = [&key, b"=".as_slice(), &value].concat();
        }
    }
    *text = lines.join(&b'\n');
}

/// Reads `text` as a config and checks the invariants of every text. Returns whether it was
/// refused.
///
/// # Panics
/// If an invariant does not hold.
pub(crate) fn check(text: &str) -> bool {
    let read = Plan::parse(text, "plan.toml", Path::new("plans"));
    let error = match read {
        Ok(plan) => {
            check_plan(&plan);
            return false;
        }
        Err(error) => error,
    };
    let lines = text.lines().count().max(1);
    let line = error.line().expect("an error in a text has a line");
    assert!((1..=lines).contains(&line), "line {line} of {lines}: {error}");
    assert_eq!(error.file(), "plan.toml");
    let message = error.to_string();
    assert!(message.starts_with(&format!("plan.toml:{line}: ")), "{message}");
    assert!(!error.expected().is_empty(), "{message}");
    assert!(!message.chars().any(char::is_control), "{message:?}");
    true
}

/// The invariants of a [`Plan`].
fn check_plan(plan: &Plan) {
    for (index, disk) in plan.disks.iter().enumerate() {
        assert!(plan.disks[..index].iter().all(|other| other.name != disk.name));
        assert!(plan.promised(spindle_config::DiskIndex(index)).reserved() <= Share::ALL);
        let own = || plan.volumes.iter().filter(|volume| volume.disk.0 == index);
        let bytes: u128 = own().map(|volume| u128::from(volume.size.0)).sum();
        assert!(bytes <= u128::from(disk.drive.model.capacity().bytes().0));
        assert!(
            own().map(|volume| u64::from(volume.contract.reserve.ppb())).sum::<u64>()
                <= 1_000_000_000
        );
        assert!(disk.batch <= disk.period && disk.depth >= 1);
    }
    for (index, volume) in plan.volumes.iter().enumerate() {
        assert!(plan.volumes[..index].iter().all(|other| other.name != volume.name));
        assert!(volume.disk.0 < plan.disks.len() && volume.size.0 > 0);
        assert!(volume.contract.reserve <= volume.contract.limit);
    }
    if let Some(pool) = &plan.pool {
        check_pool(plan, pool);
    }
    let of_pool = |PoolVolumeIndex(index)| {
        let pool = plan.pool.as_ref().expect("a workload or a change is of its volume");
        &pool.volumes[index]
    };
    for workload in &plan.workloads {
        if let spindle_config::Requests::Synthetic(drawn) = &workload.requests {
            let size = match workload.volume {
                LoadedVolume::Single(volume) => plan.volumes[volume.0].size,
                LoadedVolume::Pool(volume) => of_pool(volume).size,
                LoadedVolume::Snapshot(change) => of_pool(plan.changes[change.0].volume).size,
            };
            assert!(drawn.block <= size && drawn.block.0 > 0);
        }
        assert!(workload.stop.is_none_or(|stop| workload.start < stop));
    }
    let _either = (plan.clone().for_sim(), plan.clone().for_serve());
}

fn check_pool(plan: &Plan, pool: &PoolPlan) {
    assert!(
        !pool.disks.is_empty()
            && !pool.metadata_share.is_none()
            && !pool.relocation_share.is_none()
    );
    for (number, disk) in pool.disks.iter().enumerate() {
        assert!(disk.0 < plan.disks.len() && !pool.disks[..number].contains(disk));
        assert!(plan.volumes.iter().all(|volume| volume.disk != *disk));
        let floors = pool.rebuild.into_iter().chain(pool.scrub).map(|floor| floor.reserve);
        let own = [pool.metadata_share, pool.relocation_share].into_iter().chain(floors);
        let promised = pool.volumes.iter().map(|volume| volume.contract(*disk).reserve);
        let promised: u64 = own.chain(promised).map(|share| u64::from(share.ppb())).sum();
        assert!(promised <= 1_000_000_000);
    }
    let removing = |name: &String| pool.removing.contains(name);
    assert!(!pool.volumes.iter().any(|volume| removing(&volume.name)));
    for (index, volume) in pool.volumes.iter().enumerate() {
        assert!(pool.volumes[..index].iter().all(|other| other.name != volume.name));
        assert!(plan.volumes.iter().all(|other| other.name != volume.name));
        assert!(volume.blocks().0 > 0 && volume.disks.iter().all(|disk| pool.disks.contains(disk)));
        let from = volume.from.iter().flat_map(|from| &from.disks);
        for disk in volume.disks.iter().chain(from) {
            let parts = volume.parts.iter().filter(|part| part.disk == *disk);
            assert_eq!(parts.count(), 1, "{volume:?}");
            let stream = volume.contract(*disk).stream;
            assert_eq!(stream.is_some(), volume.stream_disks().contains(disk));
        }
        assert!(!volume.thin || volume.stream.is_none());
    }
}
