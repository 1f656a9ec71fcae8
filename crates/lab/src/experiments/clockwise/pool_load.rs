//! RTAS 2000's streams striped over a pool, and CELLO's disks beside them, with the requests of
//! every client.

use config::{LoadedVolume, Plan, PoolVolumeIndex, Requests, Workload};
use engine::PolicyName;
use sim::SeededRng;
use sim::loads::{Cello, Media};
use units::{Duration, Extent, Lba, Operation, Sectors};

use super::layout::{DISKS, Kind, SLOT};
use super::point::{BestEffort, MEDIA_RNG};
use super::pool::{Admitted, Placement};
use super::settings::SEED;

/// The order in which a stream's client asks for its blocks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// RTAS 2000's: consecutive blocks are on consecutive disks, whatever their size.
    Rotation,
    /// That of the volume: four blocks of 256 KiB come to a disk, and then none for two rounds.
    Volume,
}

impl Admitted {
    /// The striped loads that the disks admit under each of `policies`, in ascending order.
    pub(super) fn striped(policies: &[PolicyName]) -> Vec<Self> {
        let fits = |load: &Self| policies.iter().all(|policy| load.plan(*policy).is_ok());
        let mut loads = Placement::Stripe.loads(PolicyName::DeltaL);
        loads.retain(fits);
        loads
    }

    /// The plan with a client of each stream, and of each of CELLO's disks behind them.
    pub(super) fn plan_of_clients(
        &self,
        best_effort: &BestEffort,
        (policy, order): (PolicyName, Order),
    ) -> Plan {
        let mut plan = self.plan_beside_best_effort(policy);
        let streams = self.kinds.len();
        for (nth, kind) in self.kinds.iter().enumerate() {
            let timed = stream((*kind, order), nth, best_effort.length);
            plan.workloads.push(workload(nth, timed));
        }
        for unit in 0..Cello::DISKS {
            let own = best_effort.requests.iter().filter(|request| request.unit == unit);
            let timed = own.map(|request| {
                let extent = Extent::new(request.start, request.len);
                (request.at, Operation { op: request.op, extent, fua: false })
            });
            plan.workloads.push(workload(streams + unit as usize, timed.collect()));
        }
        plan
    }
}

/// The requests of the stream `nth`, which reads its volume over and over. All begin at once.
fn stream(
    (kind, order): (Kind, Order),
    nth: usize,
    length: Duration,
) -> Vec<(Duration, Operation)> {
    let block = kind.block().sectors_exact().expect("blocks are whole sectors");
    let rng = SeededRng::new(SEED, MEDIA_RNG + nth as u64);
    let mut media = Media::new(kind.pace(), kind.rate(), kind.block(), rng);
    let size = Sectors(Placement::Stripe.size_of_stream().0 / block.0 * block.0);
    let mut timed = Vec::new();
    for number in 0.. {
        let at = media.next_block();
        if at >= length {
            break;
        }
        let first = match order {
            Order::Volume => number * block.0,
            Order::Rotation => rotated(number, block),
        };
        let extent = Extent::new(Lba(first % size.0), block);
        timed.push((at, Operation::read(extent)));
    }
    timed
}

/// The place of the block `number` if consecutive blocks are on consecutive disks: all first blocks
/// of a round of the stripe, then all second ones.
fn rotated(number: u64, block: Sectors) -> u64 {
    let (in_slot, disks) = (SLOT.0 / block.0, DISKS as u64);
    let (round, within) = (number / (in_slot * disks), number % (in_slot * disks));
    (round * disks + within % disks) * SLOT.0 + within / disks * block.0
}

fn workload(volume: usize, timed: Vec<(Duration, Operation)>) -> Workload {
    Workload {
        volume: LoadedVolume::Pool(PoolVolumeIndex(volume)),
        requests: Requests::Timed(timed.into()),
        start: Duration::ZERO,
        stop: None,
        line: 0,
    }
}
