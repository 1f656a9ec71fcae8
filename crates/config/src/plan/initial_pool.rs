//! The pool with which a simulation begins: the plan's volumes on empty disks.
//!
//! Making it costs no time of a run: a daemon would find it on its disks.

use volume::pool::flow::{ChangeOutcome, Flow, Output};
use volume::pool::format::Geometry;
use volume::pool::{DiskUid, Domains, NewVolume, Operation, Pool, PoolUid, PoolVolumeId, Refusal};
use volume::{DiskId, pool};

use super::disk::{Disk, DiskIndex};
use super::pool::{PoolPlan, PoolVolume, domain_numbers};

/// A pool with the plan's volumes.
#[derive(Debug)]
pub struct InitialPool {
    /// The pool, with nothing in progress; relocation is paused.
    pub flow: Flow,
    /// The numbers of the plan's disks in it, in the order of [`PoolPlan::disks`].
    pub disks: Vec<DiskId>,
    /// The numbers of the plan's volumes in it, in the order of [`PoolPlan::volumes`].
    pub volumes: Vec<PoolVolumeId>,
}

/// Why a pool cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCreated {
    /// The line of the volume's table, or of the pool's.
    pub line: usize,
    /// The volume's name; `None`: the disks do not make a pool.
    pub volume: Option<String>,
    /// The reason, and its cure.
    pub reason: String,
}

impl PoolPlan {
    /// The pool on empty disks. A volume that is being relocated is where it comes from.
    ///
    /// # Errors
    /// The volumes do not fit it together, or one has a source that is not created before it.
    pub fn create(&self, disks: &[Disk]) -> Result<InitialPool, NotCreated> {
        let blocks: Vec<u32> = self.disks.iter().map(|disk| disks[disk.0].pool_blocks()).collect();
        let geometry = Geometry::suited(blocks.iter().copied().min().unwrap_or(0));
        let uid = |number: usize| {
            let mut uid = [0; 16];
            uid[..8].copy_from_slice(&(number as u64 + 1).to_be_bytes());
            DiskUid(uid)
        };
        let members: Vec<_> = blocks.iter().enumerate().map(|(n, all)| (uid(n), *all)).collect();
        let made = Pool::create(PoolUid([1; 16]), geometry, &members);
        let refused = |refusal: Refusal| NotCreated {
            line: self.line,
            volume: None,
            reason: refusal.to_string(),
        };
        let mut flow = Flow::new(made.map_err(refused)?);
        let numbers = domain_numbers(disks);
        let domains = self.disks.iter().enumerate();
        let domains = domains.filter_map(|(n, disk)| Some((uid(n), numbers[disk.0]?)));
        flow.set_domains(Domains::new(domains));
        flow.pause_relocation(true);
        let idle = settle(&mut flow);
        assert!(idle.is_none(), "nothing was asked for");
        let disks: Vec<DiskId> = flow.pool().state().disks().map(|(id, _)| id).collect();
        assert_eq!(disks.len(), self.disks.len(), "every disk has a number");
        let mut initial = InitialPool { flow, disks, volumes: Vec::new() };
        for (seed, volume) in (0..).zip(&self.volumes) {
            let made = self.add(&mut initial, volume, seed);
            made.map_err(|reason| NotCreated {
                line: volume.line,
                volume: Some(volume.name.clone()),
                reason,
            })?;
        }
        Ok(initial)
    }

    fn add(&self, to: &mut InitialPool, planned: &PoolVolume, seed: u64) -> Result<(), String> {
        let name = planned.name.clone();
        let operation = if let Some(source) = &planned.source {
            let found = to.flow.pool().state().named(source);
            let (source, _) = found.ok_or_else(|| {
                format!("its source \"{source}\" is not a volume of the file before it")
            })?;
            Operation::Clone { source, name, size: planned.blocks() }
        } else {
            let PoolVolume { layout, thin, checksums: has_sums, .. } = *planned;
            let (zone, disks) = match &planned.from {
                Some(from) => (from.zone, &from.disks),
                None => (planned.zone, &planned.disks),
            };
            let (size, disks) = (planned.blocks(), self.numbers(to, disks));
            let volume = NewVolume { name, size, layout, zone, thin, has_sums, seed, disks };
            match planned.stream_parts.as_slice() {
                [] => Operation::Create(volume),
                parts => Operation::CreateInParts { volume, parts: parts.to_vec() },
            }
        };
        let change = to.flow.change(operation);
        match settle(&mut to.flow) {
            Some((ended, ChangeOutcome::Done)) if ended == change => {}
            Some((_, ChangeOutcome::Refused(refusal))) => return Err(refusal.to_string()),
            other => unreachable!("no disk fails, and one change ends: {other:?}"),
        }
        let (id, _) = to.flow.pool().state().named(&planned.name).expect("it was just made");
        to.volumes.push(id);
        Ok(())
    }

    /// The numbers of these disks in the pool.
    ///
    /// # Panics
    /// If one is not the pool's.
    pub fn numbers(&self, of: &InitialPool, disks: &[DiskIndex]) -> Vec<DiskId> {
        let number = |disk: &DiskIndex| {
            let place = self.disks.iter().position(|there| there == disk);
            of.disks[place.expect("a volume's disks are the pool's")]
        };
        disks.iter().map(number).collect()
    }
}

/// Carries out everything at once; returns the change that ended, if one did.
fn settle(flow: &mut Flow) -> Option<(pool::flow::ChangeId, ChangeOutcome)> {
    let mut ended = None;
    while let Some(output) = flow.poll() {
        match output {
            Output::Issue(piece) => flow.done(piece.id, Ok(())),
            Output::Ended(change, outcome) => ended = Some((change, outcome)),
            Output::Answer(..) => unreachable!("there is no client"),
        }
    }
    ended
}
