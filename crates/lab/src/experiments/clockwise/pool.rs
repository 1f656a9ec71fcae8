//! RTAS 2000's streams as volumes of a pool: the pool places their blocks, and the
//! config admits the streams on each disk.
//!
//! A block of the pool is a dynamic partition's, 1 MiB. A stripe is RTAS 2000's `rotation`: the
//! client asks in order, and each disk has its own period (§3.1). A client of 256 KB comes to a
//! disk with four blocks of a pool's block, then with none for two rounds. A volume on one disk is
//! `memory-optimised`. Blocks on random disks come in no order that a disk could count on, so that
//! each disk keeps time for every block.

use std::fmt::Write as _;
use std::path::Path;

use config::{DiskIndex, Plan};
use engine::PolicyName;
use units::{Bytes, DiskTime, Instant};

use super::layout::{DISKS, Kind};
use super::settings::{DRIVE, SEED};

/// The placement of streams on the disks of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// Consecutive blocks on consecutive disks, in the fast zones.
    Stripe,
    /// Each block on a random disk, anywhere on it.
    Random,
    /// All blocks of a stream on one disk, in its fast zones.
    Single,
    /// As `Single`, with blocks of twice the size.
    SingleLarge,
}

/// Streams that the disks of a pool admit.
#[derive(Clone, Debug)]
pub(super) struct Admitted {
    placement: Placement,
    /// A video and a sound of each pair, in this order.
    pub(super) kinds: Vec<Kind>,
}

impl Placement {
    /// The size of a client's blocks.
    fn block(self, kind: Kind) -> Bytes {
        Bytes(kind.block().0 * if self == Self::SingleLarge { 2 } else { 1 })
    }

    /// The keys of the volume of the stream `nth`, and the order of its client.
    fn keys(self, nth: usize) -> (String, &'static str) {
        let wide = |layout: &str, zone: &str| {
            format!("size = \"96MiB\"\nlayout = \"{layout}\"\nzone = \"{zone}\"\n")
        };
        match self {
            Self::Stripe => (wide("stripe", "fast"), "sequential"),
            Self::Random => (wide("random", "any"), "any"),
            Self::Single | Self::SingleLarge => {
                // A video and its sound are on one disk, as in RTAS 2000.
                let disk = nth / 2 % DISKS;
                let keys = format!("size = \"32MiB\"\ndisks = [\"d{disk}\"]\nzone = \"fast\"\n");
                (keys, "any")
            }
        }
    }

    /// All loads that the disks admit under `policy`, in ascending order: n large videos, without
    /// and with one small one, each with its sound.
    pub(super) fn loads(self, policy: PolicyName) -> Vec<Admitted> {
        let (mut loads, mut kinds) = (Vec::new(), Vec::new());
        let with = |kinds: &[Kind], video| {
            let kinds = [kinds, &[video, Kind::Audio]].concat();
            let load = Admitted { placement: self, kinds };
            load.plan(policy).is_ok().then_some(load)
        };
        loop {
            loads.extend(with(&kinds, Kind::Small));
            let Some(larger) = with(&kinds, Kind::Large) else { return loads };
            kinds.clone_from(&larger.kinds);
            loads.push(larger);
        }
    }
}

impl Admitted {
    /// The total rate of the streams, in MB/s.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub(super) fn mb_per_s(&self) -> f64 {
        let bytes: u64 = self.kinds.iter().map(|kind| kind.rate().0).sum();
        bytes as f64 / f64::from(1 << 20)
    }

    /// The pool of three disks with these streams.
    fn plan(&self, policy: PolicyName) -> Result<Plan, config::ConfigError> {
        // What the pool reserves for its own work on each disk is a task too, of the disk's period,
        // and slack is shorter than any period: as long a one as RTAS 2000's tasks do not have.
        let mut text = format!("seed = {SEED}\n");
        for disk in 0..DISKS {
            write!(
                text,
                "[[disk]]\nname = \"d{disk}\"\ndrive = \"{DRIVE}\"\npolicy = \"{policy}\"\n\
                 depth = 1\nexecution = \"whole\"\nperiod = \"10s\"\n"
            )
            .expect("a string takes all");
        }
        text += "[pool]\ndisks = [\"d0\", \"d1\", \"d2\"]\nmetadata_share = \"1%\"\n\
                 relocation_share = \"1%\"\n";
        for (nth, kind) in self.kinds.iter().enumerate() {
            let (keys, order) = self.placement.keys(nth);
            let (rate, block) = (kind.rate().0, self.placement.block(*kind).0);
            write!(
                text,
                "[[pool.volume]]\nname = \"s{nth}\"\n{keys}stream = {{ bandwidth = \"{rate}B/s\", \
                 block = \"{block}B\", order = \"{order}\" }}\n"
            )
            .expect("a string takes all");
        }
        Plan::parse(&text, "clockwise-pool.toml", Path::new("."))
    }

    /// The least slack ΔL of the disks.
    pub(super) fn slack(&self, policy: PolicyName) -> DiskTime {
        let plan = self.plan(policy).expect("it is admitted");
        let slack = |disk| {
            let left = plan.admission_headroom(DiskIndex(disk), Instant::ZERO);
            left.expect("the policy has deadlines").slack
        };
        // The streams of a load with few pairs are not on all disks.
        (0..DISKS).map(slack).min().expect("three")
    }
}
