//! RTAS 2000's streams as volumes of a pool: the pool places their blocks, and the
//! config admits the streams on each disk.
//!
//! "The continuous-media data itself was stored on the fastest disk zones" (§4.1): the volumes of
//! streams on the fast tracks have the smallest first part of the disks, in per cent, that holds
//! them, and the cost of a block is that of the slowest track of this part (§3.1).
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
use sim::loads::Cello;
use units::{Bytes, DiskTime, Instant, Sectors};
use volume::pool::format::Geometry;
use volume::pool::limits::BLOCK_SECTORS;

use super::layout::{DISKS, Kind};
use super::settings::{DRIVE, SEED, profile};

fn parse(text: &str) -> Result<Plan, config::ConfigError> {
    Plan::parse(text, "clockwise-pool.toml", Path::new("."))
}

/// Blocks of a stream on each of its disks.
const BLOCKS_ON_A_DISK: u64 = 32;

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
    /// The size of a stream's volume.
    pub(super) fn size_of_stream(self) -> Sectors {
        let disks = if matches!(self, Self::Stripe | Self::Random) { DISKS as u64 } else { 1 };
        Sectors(BLOCK_SECTORS.0 * BLOCKS_ON_A_DISK * disks)
    }

    /// The size of a client's blocks.
    fn block(self, kind: Kind) -> Bytes {
        Bytes(kind.block().0 * if self == Self::SingleLarge { 2 } else { 1 })
    }

    /// The keys of the volume of the stream `nth` but its zone, and the order of its client.
    fn keys(self, nth: usize) -> (String, &'static str) {
        let wide = |layout: &str| format!("size = \"96MiB\"\nlayout = \"{layout}\"\n");
        match self {
            Self::Stripe => (wide("stripe"), "sequential"),
            Self::Random => (wide("random"), "any"),
            Self::Single | Self::SingleLarge => {
                // A video and its sound are on one disk, as in RTAS 2000.
                let disk = nth / 2 % DISKS;
                (format!("size = \"32MiB\"\ndisks = [\"d{disk}\"]\n"), "any")
            }
        }
    }

    /// The zone of `count` volumes: the smallest first part of the disks that holds them.
    fn zone(self, count: usize) -> String {
        let on_a_disk = match self {
            Self::Random => return "any".to_owned(),
            Self::Stripe => count,
            Self::Single | Self::SingleLarge => 2 * (count / 2).div_ceil(DISKS),
        };
        let blocks = profile().capacity().0 / BLOCK_SECTORS.0;
        let metadata = Geometry::suited(u32::try_from(blocks).expect("a small disk")).first_block();
        let end = u64::from(metadata) + on_a_disk as u64 * BLOCKS_ON_A_DISK;
        format!("fastest {}%", (end * 100).div_ceil(blocks))
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
    pub(super) fn plan(&self, policy: PolicyName) -> Result<Plan, config::ConfigError> {
        parse(&self.text(policy))
    }

    /// The same with CELLO's disks as volumes behind those of the streams, striped over the slow
    /// part.
    pub(super) fn plan_beside_best_effort(&self, policy: PolicyName) -> Plan {
        let mut text = self.text(policy);
        for unit in 0..Cello::DISKS {
            let size = Cello::UNIT.bytes().0;
            write!(
                text,
                "[[pool.volume]]\nname = \"cello{unit}\"\nsize = \"{size}B\"\n\
                 layout = \"stripe\"\nzone = \"slow\"\n"
            )
            .expect("a string takes all");
        }
        parse(&text).expect("best effort is not admitted")
    }

    fn text(&self, policy: PolicyName) -> String {
        // What the pool reserves for its own work on each disk is a task too, of the disk's period,
        // and slack is shorter than any period: as long a one as RTAS 2000's tasks do not have. It
        // has next to no time, since RTAS 2000 keeps none for such work.
        let mut text = format!("seed = {SEED}\n");
        for disk in 0..DISKS {
            write!(
                text,
                "[[disk]]\nname = \"d{disk}\"\ndrive = \"{DRIVE}\"\npolicy = \"{policy}\"\n\
                 depth = 1\nexecution = \"whole\"\nperiod = \"10s\"\n"
            )
            .expect("a string takes all");
        }
        text += "[pool]\ndisks = [\"d0\", \"d1\", \"d2\"]\nmetadata_share = \"0.1%\"\n\
                 relocation_share = \"0.1%\"\n";
        let zone = self.placement.zone(self.kinds.len());
        for (nth, kind) in self.kinds.iter().enumerate() {
            let (keys, order) = self.placement.keys(nth);
            let (rate, block) = (kind.rate().0, self.placement.block(*kind).0);
            write!(
                text,
                "[[pool.volume]]\nname = \"s{nth}\"\n{keys}zone = \"{zone}\"\n\
                 stream = {{ bandwidth = \"{rate}B/s\", block = \"{block}B\", \
                 order = \"{order}\" }}\n"
            )
            .expect("a string takes all");
        }
        text
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
