//! The bound of a command on a shared bus, held beside drive models that share one: never less,
//! whatever the other drives transfer, and not much more.

use std::sync::Arc;

use drive::{AnyDevice, AnyModel, BusSpec, Model, SharedBus, Tag};
use drive_profile::{BusShare, Profile, TransferKind};
use rng::SeededRng;
use spindle_drive_library::profile;
use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

const DRIVES: [&str; 4] = ["atlas-ii", "hgst-7k8", "st318437lw", "cheetah9LP"];
/// Commands of each drive in each case.
const COMMANDS: u64 = 300;

/// A case: drives of one model on a bus.
struct Case {
    model: Arc<Model>,
    profile: Profile,
    share: BusShare,
    len: Sectors,
    transfer: TransferKind,
}

impl Case {
    fn bound(&self) -> Duration {
        let all = Extent::new(Lba(0), self.profile.capacity());
        self.profile.worst_case(all, self.len, self.transfer)
    }

    fn command(&self, rng: &mut SeededRng) -> Operation {
        let room = self.profile.capacity().0 - self.len.0;
        let extent = Extent::new(Lba(rng.below(room + 1)), self.len);
        match self.transfer {
            TransferKind::Read => Operation::read(extent),
            TransferKind::Write => Operation { fua: true, ..Operation::write(extent) },
        }
    }

    /// The longest service time of commands one after the other on the first drive, while the
    /// others transfer all the time.
    fn worst_seen(&self, seed: u64) -> Duration {
        let mut rng = SeededRng::new(seed, 0);
        let BusShare { disks, sector, burst } = self.share;
        let bus = SharedBus::new(BusSpec { sector, burst });
        let drive = |nth: u64| {
            let model = AnyModel::Mechanical(Arc::clone(&self.model));
            AnyDevice::new(model).with_seed(seed + nth).on_bus(bus.clone())
        };
        let mut drives: Vec<AnyDevice> = (0..u64::from(disks)).map(drive).collect();
        let mut sent = vec![Instant::ZERO; drives.len()];
        let (mut left, mut worst) = (COMMANDS, Duration::ZERO);
        for drive in &mut drives {
            drive.submit(Instant::ZERO, Tag(0), self.command(&mut rng));
        }
        while left > 0 {
            let ends = drives.iter().filter_map(AnyDevice::next_completion);
            let now = ends.min().expect("all are busy");
            for (index, drive) in drives.iter_mut().enumerate() {
                if drive.complete(now).is_none() {
                    continue;
                }
                if index == 0 {
                    worst = worst.max(now.since(sent[0]));
                    left -= 1;
                }
                let own = self.command(&mut rng);
                // The others follow their last command: they take the most of the bus.
                let next = if index == 0 || rng.below(4) == 0 { own } else { self.near(own) };
                drive.submit(now, Tag(0), next);
                sent[index] = now;
            }
        }
        worst
    }

    /// The same command at the beginning of the disk, where the media are fastest.
    fn near(&self, operation: Operation) -> Operation {
        let start = Lba(operation.extent.start.0 % (4 * self.len.0));
        Operation { extent: Extent::new(start, self.len), ..operation }
    }
}

#[test]
fn no_command_on_a_shared_bus_takes_longer_than_its_bound_nor_much_less() {
    let mut most = 0.0_f64;
    for (number, name) in (0..).zip(DRIVES) {
        let spec = spindle_drive_library::find_mechanical(name).expect("a drive of the library");
        let model = Arc::new(spec.check().expect("a drive"));
        for (nth, sector) in (0_u64..).zip([4_000, 25_600, 51_200, 200_000]) {
            for len in [8, 100, 512, 2_048] {
                for transfer in [TransferKind::Read, TransferKind::Write] {
                    let disks = 1 + u32::try_from((nth + len) % 4).expect("a few");
                    let burst = Sectors([16, 64, 128, 500][usize::try_from(nth).expect("four")]);
                    let share = BusShare { disks, sector: Duration::from_nanos(sector), burst };
                    let mut profile = profile::assumed(&model);
                    profile.extremes.bus = Some(share);
                    let model = Arc::clone(&model);
                    let case = Case { model, profile, share, len: Sectors(len), transfer };
                    let (bound, seen) = (case.bound(), case.worst_seen(number * 100 + nth));
                    assert!(seen <= bound, "{name}: {seen} is above {bound}, {share:?}, {len}");
                    if len == 2_048 {
                        most = most.max(bound.as_secs_f64() / seen.as_secs_f64());
                    }
                }
            }
        }
    }
    assert!(most < 1.6, "a block of 1 MiB is bounded by {most} times the longest that was seen");
}
