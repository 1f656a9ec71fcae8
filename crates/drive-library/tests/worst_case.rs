//! The bound that streams are admitted with, held beside what the drive models do: never less, and
//! not much more.

use std::sync::Arc;

use drive::{Device, Model, Tag};
use drive_profile::{Profile, TransferKind};
use spindle_drive_library::profile;
use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

/// Blocks, and how many tenths of the worst that was seen a bound may be. The smallest are nearly
/// all positioning, and no command meets all of its worst cases at once.
const BLOCKS: [(Sectors, u64); 3] = [(Sectors(8), 18), (Sectors(512), 16), (Sectors(2_048), 16)];
const TRIES: u64 = 3_000;

struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ (word >> 31)) % end
    }

    /// Somewhere in `range`: at one of its ends, from where the arm has the farthest to go, over
    /// one of the `breaks`, or anywhere.
    fn within(&mut self, range: Extent, len: Sectors, breaks: &[Lba]) -> Extent {
        let room = range.len.0 - len.0;
        let near = room.min(4_000);
        let breaks: Vec<_> =
            breaks.iter().filter(|lba| range.contains(Extent::new(**lba, Sectors(1)))).collect();
        let into = match self.below(4) {
            0 => self.below(near + 1),
            1 => room - self.below(near + 1),
            2 if !breaks.is_empty() => {
                let at =
                    breaks[usize::try_from(self.below(breaks.len() as u64)).expect("an index")];
                (at.0 - range.start.0).saturating_sub(1 + self.below(len.0)).min(room)
            }
            _ => self.below(room + 1),
        };
        Extent::new(range.start + Sectors(into), len)
    }
}

fn run(device: &mut Device, now: &mut Instant, operation: Operation) -> Duration {
    let submitted = *now;
    device.submit(submitted, Tag(0), operation);
    loop {
        *now = device.next_completion().expect("a command is in it");
        if let Some(done) = device.complete(*now) {
            return done.at.since(submitted);
        }
    }
}

/// The longest of many forced commands of `len` sectors inside `range`, each after a command
/// elsewhere. Panics on one above the bound.
fn worst_seen(
    (model, profile): (&Arc<Model>, &Profile),
    (range, len, transfer): (Extent, Sectors, TransferKind),
    bound: Duration,
    seed: u64,
) -> Duration {
    let mut rng = Rng(seed);
    let mut device = Device::new(Arc::clone(model)).with_seed(seed);
    let breaks: Vec<Lba> = profile.bands.iter().map(|band| band.lbas.start).collect();
    let (mut now, mut worst) = (Instant::ZERO, Duration::ZERO);
    let disk = Extent::new(Lba(0), model.capacity());
    for _ in 0..TRIES {
        let few = Sectors(1 + rng.below(64));
        let before = rng.within(disk, few, &[]);
        let before = match rng.below(3) {
            0 => Operation { fua: true, ..Operation::write(before) },
            _ => Operation::read(before),
        };
        run(&mut device, &mut now, before);
        now += Duration::from_micros(rng.below(30_000));
        let extent = rng.within(range, len, &breaks);
        let operation = match transfer {
            TransferKind::Read => Operation::read(extent),
            TransferKind::Write => Operation { fua: true, ..Operation::write(extent) },
        };
        let took = run(&mut device, &mut now, operation);
        assert!(took <= bound, "{took} is above the bound of {bound}: {operation:?}, seed {seed}");
        worst = worst.max(took);
        now += Duration::from_micros(rng.below(30_000));
    }
    worst
}

/// The outermost tenth, the innermost tenth, and all of it.
fn ranges(profile: &Profile) -> [Extent; 3] {
    let all = profile.capacity();
    let tenth = Sectors(all.0 / 10);
    let inner = Lba(all.0 - tenth.0);
    [Extent::new(Lba(0), tenth), Extent::new(inner, tenth), Extent::new(Lba(0), all)]
}

#[test]
fn no_drive_of_the_library_takes_longer_than_its_bound_nor_much_less() {
    for (number, name) in (0..).zip(spindle_drive_library::names()) {
        let Some(spec) = spindle_drive_library::find_mechanical(name) else { continue };
        let model = Arc::new(spec.check().expect("a drive"));
        let profile = profile::assumed(&model);
        for (len, tenths) in BLOCKS {
            for transfer in [TransferKind::Read, TransferKind::Write] {
                for range in ranges(&profile) {
                    let bound = profile.worst_case(range, len, transfer);
                    let seen =
                        worst_seen((&model, &profile), (range, len, transfer), bound, number);
                    assert!(
                        bound.as_nanos() * 10 <= seen.as_nanos() * tenths,
                        "{name}: a bound of {bound} for {len:?} in {range}, {transfer:?}, and no \
                         more than {seen} seen"
                    );
                }
            }
        }
    }
}
