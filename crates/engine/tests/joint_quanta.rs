//! Requests of several volumes that lie among each other are chosen from together, and no volume is
//! ahead of its share by more than a bound.

mod common;

use std::sync::Arc;

use common::spinning::{Spinning, profile};
use common::{Timeline, block, reserve};
use proptest::prelude::*;
use spindle_engine::{ChooserName, Contract, Engine, Outcome, PolicyName, Settings, VolumeId};
use units::{DiskTime, Instant, Share};

/// The bound, and the longest command beside it: a seek, a missed revolution and the one waited.
const LAG_MAX: DiskTime = DiskTime::from_millis(15);
const COMMAND_MAX: DiskTime = DiskTime::from_millis(36);
/// The blocks of the disk.
const BLOCKS: u64 = 25_000;
/// The commands of each volume from which on it is known where it lies.
const KNOWN_AFTER: u32 = 256;
/// The commands that are looked at.
const COMMANDS: u64 = 1_200;

/// Volumes with these reserves, and the first and the number of their blocks.
struct Disk {
    timeline: Timeline,
    drive: Spinning,
    reserves: Vec<u32>,
    blocks: Vec<(u64, u64)>,
    served: Vec<u32>,
    sent: u64,
    seed: u64,
}

impl Disk {
    fn new(reserves: &[u32], blocks: &[(u64, u64)], seed: u64) -> Self {
        let chooser = ChooserName::Predicted;
        let settings = Settings { policy: PolicyName::Spindle, chooser, ..Settings::default() };
        let mut timeline = Timeline::new(settings, &[]);
        timeline.engine = Engine::new(settings, Instant::ZERO).with_profile(Arc::new(profile()));
        for percent in reserves {
            let contract = if *percent == 0 { Contract::BEST_EFFORT } else { reserve(*percent) };
            timeline.engine.add_volume(contract, Instant::ZERO).expect("it fits");
        }
        let drive = Spinning::new(vec![0, 40, 90, 10]);
        let (reserves, blocks) = (reserves.to_vec(), blocks.to_vec());
        let served = vec![0; reserves.len()];
        Self { timeline, drive, reserves, blocks, served, sent: 0, seed }
    }

    fn volumes(&self) -> u32 {
        u32::try_from(self.reserves.len()).expect("a few")
    }

    fn submit(&mut self, volume: u32) {
        let (first, count) = self.blocks[volume as usize];
        let drawn = (self.sent + self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        self.timeline.submit(volume, block(first + drawn % count));
        self.sent += 1;
    }

    /// Serves one command, and sends the next request of its volume.
    fn serve(&mut self) -> u32 {
        let command = self.timeline.issued();
        let done = self.drive.serve(&command, self.timeline.now);
        let took = done.since(self.timeline.now);
        assert!(DiskTime::from(took) <= COMMAND_MAX, "the drive took {took}");
        self.timeline.after(took).complete(&command, Outcome::Done);
        let volume = self.timeline.replied().volume.0;
        self.served[volume as usize] += 1;
        self.submit(volume);
        self.timeline.engine.invariants();
        volume
    }

    /// By how much the bucket of the volume that is ahead of the others the most is behind its part
    /// of what all hold.
    fn most_ahead(&mut self) -> DiskTime {
        let now = self.timeline.now;
        let levels: Vec<DiskTime> = (0..self.volumes())
            .map(|volume| self.timeline.engine.balance(VolumeId(volume), now).expect("a bucket"))
            .collect();
        let all: DiskTime = levels.iter().copied().sum();
        let reserved: u32 = self.reserves.iter().sum();
        let ahead = |(level, reserve): (&DiskTime, &u32)| {
            let part = all.as_nanos() * i64::from(*reserve) / i64::from(reserved);
            DiskTime::from_nanos(part) - *level
        };
        levels.iter().zip(&self.reserves).map(ahead).max().expect("there are volumes")
    }

    /// Sends `outstanding` requests for each volume and serves until all places are known.
    fn warm_up(&mut self, outstanding: u32) {
        for volume in 0..self.volumes() {
            (0..outstanding).for_each(|_| self.submit(volume));
        }
        while self.served.iter().any(|served| *served < KNOWN_AFTER) {
            self.serve();
        }
    }
}

/// The number of times that the volume of a command was another than that of the one before, and
/// the rate in commands a second.
fn changes(reserves: &[u32], blocks: &[(u64, u64)], seed: u64) -> (u64, f64) {
    let mut disk = Disk::new(reserves, blocks, seed);
    disk.warm_up(24);
    let (from, begun) = (disk.sent, disk.timeline.now);
    let (mut last, mut changes) = (0, 0);
    while disk.sent < from + COMMANDS {
        let volume = disk.serve();
        changes += u64::from(volume != last);
        last = volume;
    }
    let elapsed = disk.timeline.now.since(begun).as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "shown")]
    let rate = (disk.sent - from) as f64 / elapsed;
    (changes, rate)
}

#[test]
fn volumes_that_lie_among_each_other_do_more_together_and_those_apart_keep_their_quanta() {
    let whole = (0, BLOCKS);
    for reserves in [[50, 50], [0, 0], [30, 30]] {
        let (mut rates, mut alone) = (0.0, 0.0);
        // One run of 1,200 commands varies by 1.5 %.
        for seed in [1, 1_000, 2_000, 3_000] {
            let (joint, rate) = changes(&reserves, &[whole, whole], seed);
            assert!(joint > 300, "{reserves:?}: {joint} changes in 1,200 commands");
            let (one, rate_of_one) = changes(&[100], &[whole], seed);
            assert_eq!(one, 0);
            (rates, alone) = (rates + rate, alone + rate_of_one);
            let (apart, _) = changes(&reserves, &[(0, BLOCKS / 2), (BLOCKS / 2, BLOCKS / 2)], seed);
            assert!(apart < 120, "{reserves:?}: {apart} changes");
        }
        assert!(rates > 1.08 * alone, "{reserves:?}: {rates} a second, one alone {alone}");
    }
}

/// A sample in CI; `make soak` asks for more.
fn cases() -> u32 {
    let cases = std::env::var("SPINDLE_CASES").ok();
    cases.map_or(24, |cases| cases.parse().expect("SPINDLE_CASES is a number"))
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, ..ProptestConfig::with_cases(cases())
    })]

    #[test]
    fn no_volume_is_ahead_by_more_than_the_bound_and_a_command(
        parts in prop::collection::vec(1_u32..6, 2..5),
        outstanding in 10_u32..40,
        seed in 0_u64..1_000_000,
    ) {
        let all: u32 = parts.iter().sum();
        let mut reserves: Vec<u32> = parts.iter().map(|part| part * 100 / all).collect();
        // The whole disk is reserved: what is slack goes by recent usage.
        reserves[0] += 100 - reserves.iter().sum::<u32>();
        let blocks = vec![(0, BLOCKS); reserves.len()];
        let mut disk = Disk::new(&reserves, &blocks, seed);
        disk.warm_up(outstanding);
        // What arose before is made up for in a round of quanta.
        let made_up = disk.sent + 400;
        let (mut begun, mut had) = (Instant::ZERO, Vec::new());
        let last = made_up + COMMANDS;
        while disk.sent < last {
            disk.serve();
            if disk.sent < made_up {
                continue;
            }
            if had.is_empty() {
                begun = disk.timeline.now;
                had = (0..disk.volumes()).map(|volume| disk.timeline.had(volume)).collect();
            }
            let ahead = disk.most_ahead();
            prop_assert!(ahead <= LAG_MAX + COMMAND_MAX, "{reserves:?}: ahead by {ahead}");
        }
        // Each has its share, but for twice the bound and two commands.
        let elapsed = disk.timeline.now.since(begun);
        for (volume, (reserve, before)) in (0_u32..).zip(reserves.iter().zip(had)) {
            let got = disk.timeline.had(volume) - before;
            let due = Share::from_percent(*reserve).of(elapsed);
            let least = due - LAG_MAX - LAG_MAX - COMMAND_MAX - COMMAND_MAX;
            prop_assert!(got >= least, "{reserves:?}, volume {volume}: {got} of {due}");
        }
    }
}
