//! A pool found by its labels on the daemon's disks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

use backend::Disk;
use config::Plan;
use units::{Extent, Sectors};
use volume::DiskId;
use volume::pool::format::{Geometry, disk_blocks};
use volume::pool::{
    DiskUid, FoundPool, Media, OpenError, Pool, PoolUid, Refusal, Unreadable, find,
};

/// The disks that a config gives to its pool are none.
#[derive(Debug)]
pub struct PoolError {
    /// The config's file, and the line of `[pool]`.
    place: String,
    /// The disk that it is about, if it is about one.
    disk: Option<String>,
    why: OpenError,
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: [pool]: ", self.place)?;
        if let Some(disk) = &self.disk {
            write!(f, "disk \"{disk}\": ")?;
        }
        write!(f, "{}", self.why)?;
        if matches!(self.why, OpenError::NotOurs { .. } | OpenError::NoDisks) {
            write!(
                f,
                "; `spindle pool create --config` makes a pool of the config's disks, and loses what they hold"
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for PoolError {}

/// A disk before it is served, to read its metadata from.
struct Labels<'a>(RefCell<&'a mut (dyn Disk + 'a)>);

impl Media for Labels<'_> {
    fn size(&self) -> Sectors {
        self.0.borrow().capacity()
    }

    fn read(&self, extent: Extent) -> Result<Vec<u8>, Unreadable> {
        self.0.borrow_mut().read_blocking(extent).map_err(|_| Unreadable)
    }
}

/// A pool that was found.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) pool: Pool,
    /// Which of the pool's disks is which of the daemon's.
    pub(crate) places: BTreeMap<DiskId, usize>,
    /// What is to be told of it.
    pub(crate) words: Vec<String>,
}

/// Finds the plan's pool on these disks, each with its place among the daemon's.
pub(crate) fn open(
    plan: &Plan,
    line: usize,
    disks: Vec<(usize, &mut dyn Disk)>,
) -> Result<Opened, PoolError> {
    let numbers: Vec<usize> = disks.iter().map(|(number, _)| *number).collect();
    let name = |device: usize| plan.disks[numbers[device]].name.clone();
    let labels: Vec<Labels<'_>> =
        disks.into_iter().map(|(_, disk)| Labels(RefCell::new(disk))).collect();
    let media: Vec<&dyn Media> = labels.iter().map(|one| one as &dyn Media).collect();
    let mut words: Vec<String> = Vec::new();
    let (given, found) = find_among(&media, &mut |device, why| {
        words.push(format!("pool: disk {}: {why}: it is left alone", name(device)));
    })
    .map_err(|why| PoolError {
        place: format!("{}:{line}", plan.file),
        disk: why.device().map(name),
        why,
    })?;
    let name = |device: usize| name(given[device]);
    let of =
        |device: usize, what: &dyn fmt::Display| format!("pool: disk {}: {what}", name(device));
    words.extend(found.findings.iter().map(|one| of(one.device, &one.what)));
    let stray = &"was taken out of the pool, or is not in it yet: it is left alone";
    words.extend(found.strays.iter().map(|device| of(*device, stray)));
    for (_, uid) in &found.missing {
        words.push(format!(
            "pool: disk {uid} of it is missing: what is whole can be read, and nothing is written"
        ));
    }
    let places = found.devices.iter().map(|(id, device)| (*id, numbers[given[*device]])).collect();
    Ok(Opened { pool: Pool::open(found), places, words })
}

/// The pool that is on some of these disks, and on which. Those without a whole label are left out, and told of, as long as
/// there is another: one that is about to join has none, and one whose labels are lost is missing.
fn find_among(
    media: &[&dyn Media],
    leave_out: &mut dyn FnMut(usize, &OpenError),
) -> Result<(Vec<usize>, FoundPool), OpenError> {
    let mut given: Vec<usize> = (0..media.len()).collect();
    loop {
        let some: Vec<&dyn Media> = given.iter().map(|device| media[*device]).collect();
        let why = match find(&some) {
            Ok(found) => return Ok((given, found)),
            Err(why) => why,
        };
        match why {
            OpenError::NotOurs { device, .. } | OpenError::TwoLabels { device }
                if given.len() > 1 =>
            {
                leave_out(given[device], &why);
                given.remove(device);
            }
            _ => return Err(why),
        }
    }
}

/// 128 bits of chance, for the name of a pool or of a disk.
///
/// # Errors
/// The system gives none.
pub fn chance() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A new pool of empty disks in memory: there is nothing that could be lost, and nothing that could be found.
pub(crate) fn in_memory(disks: &[(usize, Sectors)]) -> std::io::Result<Result<Opened, Refusal>> {
    let blocks: Vec<u32> = disks.iter().map(|(_, size)| disk_blocks(*size)).collect();
    let geometry = Geometry::suited(blocks.iter().copied().min().unwrap_or(0));
    let members: Vec<(DiskUid, u32)> = blocks
        .iter()
        .map(|blocks| chance().map(|uid| (DiskUid(uid), *blocks)))
        .collect::<Result<_, _>>()?;
    let made = Pool::create(PoolUid(chance()?), geometry, &members).map(|pool| {
        let places = pool.state().disks().map(|(id, _)| id).zip(disks.iter().map(|(at, _)| *at));
        Opened { places: places.collect(), pool, words: Vec::new() }
    });
    Ok(made)
}
