//! Finds a pool by the labels on the daemon's disks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

use backend::Disk;
use config::{DiskIndex, Plan};
use units::{Extent, Sectors};
use volume::DiskId;
use volume::pool::format::{Geometry, disk_blocks};
use volume::pool::sums::{Ledger, find_sums};
use volume::pool::{
    DiskUid, FoundPool, Identity, Media, OpenError, Pool, PoolUid, Refusal, Unreadable, find,
};

/// The config's pool cannot be opened on its disks.
#[derive(Debug)]
pub struct PoolError {
    /// The config's file, and the line of `[pool]`.
    place: String,
    /// The disk that the reason is about, if it is about one.
    disk: Option<String>,
    reason: OpenError,
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: [pool]: ", self.place)?;
        if let Some(disk) = &self.disk {
            write!(f, "disk \"{disk}\": ")?;
        }
        write!(f, "{}", self.reason)?;
        if matches!(self.reason, OpenError::NotOurs { .. } | OpenError::NoDisks) {
            write!(
                f,
                "; `spindle pool create --config` makes a pool of the config's disks, and erases \
                 them"
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for PoolError {}

/// A disk that is not served yet, for reading its metadata.
struct Labels<'a>(RefCell<&'a mut (dyn Disk + 'a)>);

impl Media for Labels<'_> {
    fn size(&self) -> Sectors {
        self.0.borrow().capacity()
    }

    fn read(&self, extent: Extent) -> Result<Vec<u8>, Unreadable> {
        self.0.borrow_mut().read_blocking(extent).map_err(|_| Unreadable)
    }
}

/// What the label of a disk says that is not served yet.
pub(crate) fn identity(disk: &mut dyn Disk) -> Result<Identity, OpenError> {
    volume::pool::identify(&Labels(RefCell::new(disk)))
}

/// A pool that was found on its disks.
#[derive(Debug)]
pub(crate) struct OpenedPool {
    pub(crate) pool: Pool,
    /// The daemon's number of each of the pool's disks.
    pub(crate) disks: BTreeMap<DiskId, DiskIndex>,
    /// The ledgers of their checksums.
    pub(crate) sums: BTreeMap<DiskId, Ledger>,
    /// Findings to report.
    pub(crate) findings: Vec<String>,
}

/// Finds the plan's pool on these of the daemon's disks.
pub(crate) fn open(
    plan: &Plan,
    line: usize,
    disks: Vec<(DiskIndex, &mut dyn Disk)>,
) -> Result<OpenedPool, PoolError> {
    let numbers: Vec<DiskIndex> = disks.iter().map(|(number, _)| *number).collect();
    let name = |device: usize| plan.disks[numbers[device].0].name.clone();
    let labels: Vec<Labels<'_>> =
        disks.into_iter().map(|(_, disk)| Labels(RefCell::new(disk))).collect();
    let media: Vec<&dyn Media> = labels.iter().map(|one| one as &dyn Media).collect();
    let mut findings: Vec<String> = Vec::new();
    let (given, found) = find_among(&media, &mut |device, reason| {
        findings.push(format!("pool: disk {}: {reason}: it is left alone", name(device)));
    })
    .map_err(|reason| PoolError {
        place: format!("{}:{line}", plan.file),
        disk: reason.device().map(name),
        reason,
    })?;
    let name = |device: usize| name(given[device]);
    let of =
        |device: usize, what: &dyn fmt::Display| format!("pool: disk {}: {what}", name(device));
    findings.extend(found.findings.iter().map(|one| of(one.device, &one.what)));
    let stray = &"was taken out of the pool, or is not in it yet: it is left alone";
    findings.extend(found.strays.iter().map(|device| of(*device, stray)));
    let missing = found.missing.clone();
    let disks = found.devices.iter().map(|(id, device)| (*id, numbers[given[*device]])).collect();
    let mut sums = BTreeMap::new();
    for (id, device) in &found.devices {
        let has_ledger = !found.unlabelled.contains(id);
        let disk = found.state.disk(*id).filter(|disk| disk.has_sums && has_ledger);
        let Some(disk) = disk else { continue };
        let area = random_uid().expect("the system has random numbers");
        let own = find_sums(media[given[*device]], (found.state.pool, disk), area);
        findings.extend(own.damage.iter().map(|what| of(*device, what)));
        sums.insert(*id, own.ledger);
    }
    let pool = Pool::open(found);
    for (id, uid) in &missing {
        let means = if !pool.missing().is_empty() {
            "what is whole can be read, and nothing is written"
        } else if pool.state().is_in(*id) {
            "the pool goes on without it"
        } else {
            "the pool had taken it out, and goes on without it"
        };
        findings.push(format!("pool: disk {uid} of it is missing: {means}"));
    }
    Ok(OpenedPool { pool, disks, sums, findings })
}

/// The pool that is on some of these disks, and the disks that it is on. A disk without a whole
/// label is reported and left out as long as another disk has one: a disk that is about to be added
/// has no label, and one with damaged labels counts as missing.
fn find_among(
    media: &[&dyn Media],
    leave_out: &mut dyn FnMut(usize, &OpenError),
) -> Result<(Vec<usize>, FoundPool), OpenError> {
    let mut given: Vec<usize> = (0..media.len()).collect();
    loop {
        let some: Vec<&dyn Media> = given.iter().map(|device| media[*device]).collect();
        let reason = match find(&some) {
            Ok(found) => return Ok((given, found)),
            Err(reason) => reason,
        };
        match reason {
            OpenError::NotOurs { device, .. } | OpenError::TwoLabels { device }
                if given.len() > 1 =>
            {
                leave_out(given[device], &reason);
                given.remove(device);
            }
            _ => return Err(reason),
        }
    }
}

/// 128 random bits, for the unique identifier of a pool or a disk.
///
/// # Errors
/// The system provides none.
pub fn random_uid() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A new pool on empty disks in memory, which hold no data and no label.
pub(crate) fn in_memory(
    disks: &[(DiskIndex, Sectors)],
) -> std::io::Result<Result<OpenedPool, Refusal>> {
    let blocks: Vec<u32> = disks.iter().map(|(_, size)| disk_blocks(*size)).collect();
    let geometry = Geometry::suited(blocks.iter().copied().min().unwrap_or(0));
    let members: Vec<(DiskUid, u32)> = blocks
        .iter()
        .map(|blocks| random_uid().map(|uid| (DiskUid(uid), *blocks)))
        .collect::<Result<_, _>>()?;
    let made = Pool::create(PoolUid(random_uid()?), geometry, &members).map(|pool| {
        let disks = pool.state().disks().map(|(id, _)| id).zip(disks.iter().map(|(at, _)| *at));
        let sums = BTreeMap::new();
        OpenedPool { disks: disks.collect(), pool, sums, findings: Vec::new() }
    });
    Ok(made)
}
