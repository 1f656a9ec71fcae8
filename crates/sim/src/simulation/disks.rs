//! The disks and the volumes of a simulation, as they begin.

use config::Plan;
use drive::{AnyDevice, SharedBus};
use engine::stream::Span;
use engine::{Contract, ContractSchedule, Priority, WriteBufferSettings};
use stats::{Latency, Runs};
use units::{Bytes, Duration, Extent, Instant, Sectors, Share};
use volume::{DiskExtent, DiskId, VolumeMap};

use super::{Disk, Volume};
use crate::ahead::AheadOfDisk;
use crate::buffered::BufferOfDisk;
use crate::non_preemptible::NonPreemptible;
use crate::oracle::{DataOracle, ReserveOracle, burst};

/// What a volume is guaranteed on one disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) contract: Contract,
    pub(super) span: Span,
    pub(super) priority: Priority,
    pub(super) write_buffer: Sectors,
    /// Whether its flushes go to the disk.
    pub(super) passes_flushes: bool,
}

impl Terms {
    /// Without a span and a priority.
    pub(super) fn always(contract: Contract, write_buffer: Sectors) -> Self {
        let (span, priority) = (Span::ALWAYS, Priority::Normal);
        Self { contract, span, priority, write_buffer, passes_flushes: false }
    }
}

impl Disk {
    /// The disks of a plan without volumes, each with the longest time for which its volumes of
    /// high priority occupy it.
    pub(super) fn all(plan: &Plan) -> Vec<Disk> {
        let pooled = plan.pool.as_ref().map_or(&[][..], |pool| &pool.disks);
        let buses = plan.shared_buses();
        let all = (plan.seed..).zip(plan.disks.iter().enumerate());
        all.map(|(seed, (index, planned))| {
            let index = config::DiskIndex(index);
            let bus = buses.shared(planned.bus.as_ref());
            let mut disk = Disk::new((planned, bus), seed, pooled.contains(&index));
            let own = plan.volumes.iter().filter(|volume| volume.disk == index);
            let own = own.map(|volume| (volume.priority, volume.contract));
            let of_pool = plan.pool.iter().flat_map(|pool| &pool.volumes);
            let of_pool = of_pool.map(|volume| (volume.priority, volume.contract(index)));
            let high = own.chain(of_pool).filter(|(priority, _)| *priority == Priority::High);
            disk.burst = burst(high.map(|(_, contract)| contract), disk.settings.period);
            disk
        })
        .collect()
    }

    /// A disk of the plan without volumes.
    fn new((disk, bus): (&config::Disk, Option<SharedBus>), seed: u64, is_pooled: bool) -> Self {
        let device = AnyDevice::new(disk.served_model()).with_seed(seed).slowed(disk.slowed);
        let device = match bus {
            Some(bus) => device.on_bus(bus),
            None => device,
        };
        let settings = disk.settings();
        Self {
            name: disk.name.clone(),
            settings,
            engine: disk.engine(Instant::ZERO),
            engaged: Vec::new(),
            agenda: ContractSchedule::default(),
            ahead: AheadOfDisk::new(disk.read_ahead),
            buffer: disk.write_buffer.map(|settings| {
                // Only blocks of a pool are of one volume and then of another.
                let is_shared = settings.is_shared || is_pooled;
                BufferOfDisk::new(WriteBufferSettings { is_shared, ..settings })
            }),
            device,
            running: Vec::new(),
            data: DataOracle::new(disk.write_buffer.is_some()),
            limited: false,
            failures: None,
            burst: Duration::ZERO,
            longest: Duration::ZERO,
            service_longest: Duration::ZERO,
            completed: Instant::ZERO,
            bytes: Bytes::ZERO,
            non_preemptible: NonPreemptible::new(settings.execution),
            error: Latency::default(),
        }
    }
}

impl Volume {
    /// A volume of the plan, at this place among all volumes.
    pub(super) fn new(place: usize, volume: &config::Volume, disks: &mut [Disk]) -> Self {
        let terms = Terms {
            span: volume.span(),
            priority: volume.priority,
            ..Terms::always(volume.contract, volume.write_buffer)
        };
        let at = (volume.disk.0, volume.extent);
        let name = volume.name.clone();
        Self { declared: volume.declared, ..Self::attach((place, name), at, &terms, disks) }
    }

    /// A volume with these terms on a disk, at this place among all volumes.
    pub(super) fn attach(
        (place, name): (usize, String),
        (disk, extent): (usize, Extent),
        terms: &Terms,
        disks: &mut [Disk],
    ) -> Self {
        let id = disks[disk].add_volume(terms);
        assert_eq!(id.0 as usize, disks[disk].engaged.len(), "volumes are numbered in order");
        disks[disk].engaged.push((place, 0));
        disks[disk].engine.set_priority(id, terms.priority);
        let mut reserve_oracle = ReserveOracle::default();
        reserve_oracle.restart(&disks[disk].engine, id);
        disks[disk].limited |= terms.contract.limit < Share::ALL;
        let disk_id = DiskId(u32::try_from(disk).expect("disks are few"));
        let map = VolumeMap::new(DiskExtent { disk: disk_id, extent });
        Self {
            name,
            disk,
            id,
            map,
            extent,
            latency: Latency::default(),
            waiting: Latency::default(),
            error: Latency::default(),
            runs: Runs::default(),
            declared: None,
            bytes: Bytes::ZERO,
            reserve_oracle,
            dropped: 0,
            answered: 0,
        }
    }
}
