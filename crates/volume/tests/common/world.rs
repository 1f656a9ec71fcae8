//! A pool on disks that lose power, beside a plain account of what its clients wrote. At every step
//! the power goes, on a copy of the disks: the surviving contents are a pool again, with the state
//! before the operation or after it, and with every client's data.

use std::collections::BTreeMap;

use rng::SplitMix64;
use spindle_volume::DiskId;
use spindle_volume::pool::format::{Geometry, VERSION};
use spindle_volume::pool::sums::blocks_with_area;
use spindle_volume::pool::{
    Action, Blocks, DiskUid, FoundPool, Layout, NewVolume, OpenError, Operation, OperationId,
    Percent, Pool, PoolOutput, PoolUid, PoolVolumeId, Refusal, State, StepId, VolumeBlock,
    Writability, Zone, check, find,
};
use units::{Extent, Sectors};

use super::disk::Disk;
use super::media;

pub(crate) const POOL: PoolUid = PoolUid([7; 16]);
pub(crate) const BLOCKS: u32 = 40;
const SPARE: usize = 1;

/// What a block may hold after a crash: what was flushed, or anything since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    durable: u64,
    since: Vec<u64>,
}

impl Cell {
    fn now(&self) -> u64 {
        self.since.last().copied().unwrap_or(self.durable)
    }

    fn allows(&self, stamp: u64) -> bool {
        stamp == self.durable || self.since.contains(&stamp)
    }
}

type Clients = BTreeMap<PoolVolumeId, Vec<Cell>>;

pub(crate) fn uid(device: usize) -> DiskUid {
    DiskUid([u8::try_from(device + 1).unwrap(); 16])
}

pub(crate) fn device(state: &State, disk: DiskId) -> usize {
    usize::from(state.disk(disk).unwrap().uid.0[0]) - 1
}

pub(crate) struct World {
    pub(crate) disks: Vec<Disk>,
    pub(crate) pool: Pool,
    pub(crate) clients: Clients,
    pub(crate) rng: SplitMix64,
    /// How many states are looked at after a crash, for each step.
    pub(crate) crashes: u32,
    pub(crate) crashed: u64,
    /// What crashes left that has the operation already, until it has ended.
    after: Vec<(Vec<Disk>, FoundPool)>,
    stamp: u64,
    names: u32,
    running: BTreeMap<OperationId, Operation>,
}

/// Does one step.
pub(crate) fn perform(disks: &mut [Disk], places: &dyn Fn(DiskId) -> usize, action: &Action) {
    match action {
        Action::Write { disk, extent, bytes, fua: false } => {
            disks[places(*disk)].write(*extent, bytes);
        }
        Action::Write { disk, extent, bytes, fua: true } => {
            disks[places(*disk)].force(*extent, bytes);
        }
        Action::Flush { disk, .. } => disks[places(*disk)].flush(),
        Action::Erase { placed } => disks[places(placed.disk)].erase(placed.extent),
        Action::Copy { from, to } => {
            let contents = disks[places(from.disk)].moved(from.extent, to.extent.start);
            disks[places(to.disk)].enter(to.extent, contents);
        }
    }
}

/// The disks that are a pool's: one that is half in it, or half out of it, is left out.
pub(crate) fn reopen(disks: &[Disk]) -> (Vec<usize>, FoundPool) {
    let mut given: Vec<usize> = (0..disks.len()).collect();
    loop {
        let all = media(disks);
        let some: Vec<_> = given.iter().map(|device| all[*device]).collect();
        match find(&some) {
            Ok(found) => return (given, found),
            Err(OpenError::NotOurs { device, .. } | OpenError::TwoLabels { device }) => {
                given.remove(device);
            }
            Err(error) => panic!("a crash leaves a pool, and not: {error} ({error:?})"),
        }
    }
}

impl World {
    pub(crate) fn new(seed: u64, members: usize, crashes: u32) -> Self {
        Self::of((seed, members, crashes), (VERSION, BLOCKS), Blocks(BLOCKS).sectors())
    }

    /// The same in a version of the format, with this number of blocks of each device.
    pub(crate) fn of(
        (seed, members, crashes): (u64, usize, u32),
        (version, blocks): (u32, u32),
        size: Sectors,
    ) -> Self {
        let geometry = Geometry::new(8, 16).unwrap();
        let disks = vec![Disk::new(size); members + SPARE];
        let uids: Vec<_> = (0..members).map(|device| (uid(device), blocks)).collect();
        let pool = Pool::create_in(POOL, geometry, &uids, version).unwrap();
        let (clients, running) = (Clients::new(), BTreeMap::new());
        let rng = SplitMix64::new(seed);
        let (after, crashed, stamp, names) = (Vec::new(), 0, 0, 0);
        let mut world =
            Self { disks, pool, clients, rng, crashes: 0, crashed, after, stamp, names, running };
        world.settle();
        world.crashes = crashes;
        world
    }

    /// Begins an operation; a refusal changes nothing.
    pub(crate) fn begin(&mut self, operation: Operation) -> Result<OperationId, Refusal> {
        let before = self.pool.state().clone();
        let begun = self.pool.begin(&operation);
        self.pool.invariants();
        assert_eq!(*self.pool.state(), before, "what is begun is not done");
        if let Ok(ticket) = begun {
            self.running.insert(ticket, operation);
        }
        begun
    }

    /// Does all that is to be done, in any order that the pool allows, with a crash before every
    /// step.
    pub(crate) fn settle(&mut self) {
        let mut steps: Vec<(StepId, Action)> = Vec::new();
        loop {
            while let Some(output) = self.pool.poll() {
                match output {
                    PoolOutput::Do(id, action) => steps.push((id, action)),
                    PoolOutput::Finished(ticket, end) => {
                        assert_eq!(end, Ok(()), "nothing fails here");
                        let operation = self.running.remove(&ticket).unwrap();
                        self.account(&operation);
                        self.pool.release(ticket);
                        self.pool.invariants();
                    }
                }
            }
            self.look_back();
            if steps.is_empty() {
                assert!(self.pool.is_idle(), "a pool with nothing to do rests");
                return;
            }
            for _ in 0..self.crashes {
                self.crash();
            }
            let at = self.rng.below(u32::try_from(steps.len()).unwrap()) as usize;
            let (id, action) = steps.swap_remove(at);
            let state = self.pool.state().clone();
            let spare = self.disks.len() - SPARE;
            let joining = self.running.values().find_map(|operation| match operation {
                Operation::AddDisk { uid, .. } => Some(usize::from(uid.0[0]) - 1),
                _ => None,
            });
            let place = |disk| match state.disk(disk) {
                Some(_) => device(&state, disk),
                None => joining.unwrap_or(spare),
            };
            perform(&mut self.disks, &place, &action);
            self.pool.done(id, true);
        }
    }

    /// The power goes, on a copy of everything.
    fn crash(&mut self) {
        self.crashed += 1;
        let rng = &mut self.rng;
        let disks: Vec<Disk> = self.disks.iter().map(|disk| disk.crashed(rng)).collect();
        let (given, found) = reopen(&disks);
        assert!(found.missing.is_empty(), "no disk of the pool is lost: {:?}", found.missing);
        let disks: Vec<Disk> = given.iter().map(|device| disks[*device].clone()).collect();
        let before = self.pool.state();
        if found.state.sequence == before.sequence {
            assert_eq!(found.state, *before, "the state before the operation");
            verify(&disks, &found, &self.clients);
        } else {
            assert_eq!(found.state.sequence, before.sequence + 1, "one operation further at most");
            self.after.push((disks.clone(), clone(&disks)));
        }
        if self.rng.below(8) == 0 {
            self.repair(disks, found);
        }
    }

    /// What a crash left is repaired, with another crash on the way.
    fn repair(&mut self, mut disks: Vec<Disk>, found: FoundPool) {
        let state = found.state.clone();
        let again = self.rng.below(12);
        let devices = found.devices.clone();
        let mut pool = Pool::open(found);
        let mut steps = Vec::new();
        let mut count = 0;
        loop {
            while let Some(PoolOutput::Do(id, action)) = pool.poll() {
                steps.push((id, action));
            }
            if steps.is_empty() {
                break;
            }
            if count == again {
                let left: Vec<Disk> =
                    disks.iter().map(|disk| disk.crashed(&mut self.rng)).collect();
                let (_, found) = reopen(&left);
                assert_eq!(found.state, state, "a repair that is cut short loses nothing");
            }
            count += 1;
            let (id, action) =
                steps.swap_remove(self.rng.below(u32::try_from(steps.len()).unwrap()) as usize);
            perform(&mut disks, &|disk| devices[&disk], &action);
            pool.done(id, true);
        }
        pool.invariants();
        assert!(disks.iter().all(Disk::is_flushed), "a repair ends with a flush");
        let report = check(&media(&disks)).unwrap();
        assert!(report.is_whole(), "a repaired pool is whole: {:?}", report.findings);
        assert_eq!(report.found.state, state);
    }

    /// What crashes left that had the operation already: it is what the operation ended with.
    fn look_back(&mut self) {
        for (disks, found) in std::mem::take(&mut self.after) {
            if found.state.sequence > self.pool.state().sequence {
                self.after.push((disks, found));
                continue;
            }
            assert_eq!(found.state, *self.pool.state(), "the state after the operation");
            verify(&disks, &found, &self.clients);
        }
    }

    /// What an operation means to the clients.
    fn account(&mut self, operation: &Operation) {
        let state = self.pool.state();
        match operation {
            Operation::Create(volume) => {
                let (id, _) = state.named(&volume.name).unwrap();
                self.clients.insert(id, vec![Cell::default(); volume.size.0 as usize]);
            }
            Operation::Resize { volume, size } => {
                self.clients.get_mut(volume).unwrap().resize(size.0 as usize, Cell::default());
            }
            Operation::Remove { volume } => drop(self.clients.remove(volume)),
            Operation::Trim { volume, first, count } => {
                let cells = self.clients.get_mut(volume).unwrap();
                let range = first.0 as usize..(first.0 + count.0) as usize;
                cells[range].fill(Cell::default());
            }
            Operation::Snapshot { volume, name } => {
                let (id, _) = state.named(name).unwrap();
                self.clients.insert(id, self.clients[volume].clone());
            }
            Operation::Clone { source, name, size } => {
                let (id, _) = state.named(name).unwrap();
                let mut cells = self.clients[source].clone();
                cells.resize(size.0 as usize, Cell::default());
                self.clients.insert(id, cells);
            }
            Operation::RollBack { snapshot } => {
                let origin = state.volume(*snapshot).unwrap().origin.unwrap();
                self.clients.insert(origin, self.clients[snapshot].clone());
            }
            _ => {}
        }
    }

    /// A client writes a block, which gets a place first if it needs one.
    pub(crate) fn write(&mut self, volume: PoolVolumeId, block: u32) -> Result<(), Refusal> {
        let extent = Extent::new(units::Lba(u64::from(block) * 2_048), Sectors(1));
        match self.pool.writable(volume, extent) {
            Writability::Now => {}
            Writability::Wait => panic!("nothing is under way"),
            Writability::Allocate { first, count } => {
                self.begin(Operation::Allocate { volume, first, count })?;
                self.settle();
                assert_eq!(
                    self.pool.writable(volume, extent),
                    Writability::Now,
                    "it has its place"
                );
            }
        }
        self.stamp += 1;
        let state = self.pool.state();
        for place in state.volume(volume).unwrap().copies(VolumeBlock(block)) {
            let sector = Extent::new(place.extent().start, Sectors(1));
            let bytes = self.stamp.to_le_bytes().repeat(64);
            self.disks[device(state, place.disk)].write(sector, &bytes);
        }
        self.clients.get_mut(&volume).unwrap()[block as usize].since.push(self.stamp);
        Ok(())
    }

    /// A client flushes: what it wrote is to be there for good.
    pub(crate) fn flush(&mut self) {
        self.disks.iter_mut().for_each(Disk::flush);
        for cell in self.clients.values_mut().flatten() {
            *cell = Cell { durable: cell.now(), since: Vec::new() };
        }
    }

    /// One thing, drawn.
    pub(crate) fn draw(&mut self) -> Operation {
        let state = self.pool.state();
        let volumes: Vec<PoolVolumeId> = state.volumes().map(|(id, _)| id).collect();
        let disks: Vec<DiskId> = state.disks().map(|(id, _)| id).collect();
        let rng = &mut self.rng;
        let volume = match volumes.len() {
            0 => PoolVolumeId(1),
            len => volumes[rng.below(u32::try_from(len).unwrap()) as usize],
        };
        let size = state.volume(volume).map_or(1, |volume| volume.size.0);
        let first = rng.below(size);
        let (first, count) = (VolumeBlock(first), Blocks(1 + rng.below(size - first)));
        self.names += 1;
        let name = format!("v{}", self.names);
        let some: Vec<DiskId> = disks.iter().copied().filter(|_| rng.below(3) > 0).collect();
        let part = Percent::new(40 + 5 * u8::try_from(rng.below(11)).unwrap()).unwrap();
        let zones = [Zone::Fast, Zone::Slow, Zone::Any, Zone::Fastest(part)];
        let zone = zones[rng.below(4) as usize];
        let disk = disks[rng.below(u32::try_from(disks.len()).unwrap()) as usize];
        match rng.below(23) {
            0..4 => {
                let layout =
                    [Layout::Single, Layout::Stripe, Layout::Random][rng.below(3) as usize];
                let (thin, seed, size) = (rng.below(2) == 0, rng.draw(), Blocks(1 + rng.below(12)));
                Operation::Create(NewVolume {
                    name,
                    size,
                    layout,
                    zone,
                    thin,
                    has_sums: true,
                    seed,
                    disks: some,
                })
            }
            4..6 => Operation::Resize { volume, size: Blocks(1 + rng.below(16)) },
            6 => Operation::Remove { volume },
            7..9 => Operation::Allocate { volume, first, count },
            9..11 => Operation::Trim { volume, first, count },
            11..13 => Operation::Snapshot { volume, name },
            13 => Operation::RollBack { snapshot: volume },
            14 => Operation::Relocate { volume, zone, disks: some },
            15..17 => {
                let block = self.pool.misplaced(volume, VolumeBlock(0)).unwrap_or(first);
                Operation::Move { volume, block }
            }
            17 => {
                let whole =
                    if state.has_sums() { blocks_with_area(self.disks[0].size) } else { BLOCKS };
                Operation::AddDisk { uid: uid(self.absent()), blocks: whole.min(BLOCKS) }
            }
            18 => Operation::DrainDisk { disk },
            19..22 => {
                let size = Blocks(size + rng.below(3));
                Operation::Clone { source: volume, name, size }
            }
            _ => Operation::RemoveDisk { disk },
        }
    }

    /// A device that is not of the pool, or the last.
    fn absent(&self) -> usize {
        let state = self.pool.state();
        let member = |device: &usize| state.disks().any(|(_, disk)| disk.uid == uid(*device));
        (0..self.disks.len()).find(|device| !member(device)).unwrap_or(self.disks.len() - 1)
    }

    /// Empties a disk, block by block.
    pub(crate) fn empty(&mut self) {
        let volumes: Vec<PoolVolumeId> = self.pool.state().volumes().map(|(id, _)| id).collect();
        for volume in volumes {
            let mut from = VolumeBlock(0);
            while let Some(block) = self.pool.misplaced(volume, from) {
                if self.begin(Operation::Move { volume, block }).is_err() {
                    break;
                }
                self.settle();
                from = block;
            }
        }
    }

    pub(crate) fn verify(&self) {
        let (given, found) = reopen(&self.disks);
        let disks: Vec<Disk> = given.iter().map(|device| self.disks[*device].clone()).collect();
        verify(&disks, &found, &self.clients);
    }
}

fn clone(disks: &[Disk]) -> FoundPool {
    find(&media(disks)).unwrap()
}

/// Every volume is there, and every block holds what a client wrote to it.
pub(crate) fn verify(disks: &[Disk], found: &FoundPool, clients: &Clients) {
    let there: Vec<PoolVolumeId> = found.state.volumes().map(|(id, _)| id).collect();
    let known: Vec<PoolVolumeId> = clients.keys().copied().collect();
    assert_eq!(there, known, "the volumes that there are");
    for (id, volume) in found.state.volumes() {
        let cells = &clients[&id];
        assert_eq!(volume.size.0 as usize, cells.len(), "the size of volume {}", id.0);
        for (block, cell) in (0..).zip(cells) {
            let stamp = volume.locate(VolumeBlock(block)).map_or(0, |place| {
                let sector = Extent::new(place.extent().start, Sectors(1));
                let bytes = disks[found.devices[&place.disk]].read_now(sector);
                u64::from_le_bytes(bytes[..8].try_into().unwrap())
            });
            assert!(
                cell.allows(stamp),
                "block {block} of volume {} holds {stamp}, not {cell:?}",
                id.0
            );
        }
    }
}
