//! Pools that no daemon serves: created, shown and checked, on the files of their disks.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args as ClapArgs;
use config::{BackingCapabilities, Plan};
use console::{ExitStatus, bad_input, eprintln, print, println, table};
use serde::Serialize;
use units::{Bytes, Extent, SECTOR_BYTES, Sectors};
use volume::pool::format::{Geometry, disk_blocks, label_places};
use volume::pool::limits::DISKS_MAX;
use volume::pool::sums::blocks_with_area;
use volume::pool::{
    Action, Blocks, DiskUid, FoundPool, Media, OpenError, Pool, PoolOutput, PoolUid, Unreadable,
    check, find,
};
use volume::{DiskExtent, DiskId};

/// The length of one step of an erasure or a copy.
const STEP: Sectors = Sectors(2_048);

#[derive(Debug, ClapArgs)]
pub(crate) struct Disks {
    /// The files that are the pool's disks, in any order.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The config whose pool is meant. No daemon may serve it meanwhile.
    #[arg(long, value_name = "CONFIG", conflicts_with = "files")]
    config: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Create {
    #[command(flatten)]
    disks: Disks,
    /// Use disks that hold data, which is lost.
    #[arg(long)]
    overwrite: bool,
    /// Keep a checksum of each 4 KiB, in a thousandth of each disk: a read of what a disk has lost,
    /// changed or misplaced is answered from another copy, or fails.
    #[arg(long)]
    checksums: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Fsck {
    #[command(flatten)]
    disks: Disks,
    /// Repair metadata of which an intact copy exists.
    #[arg(long)]
    repair: bool,
}

impl Disks {
    /// Whether disks are given, so that a pool is meant that no daemon serves.
    pub(crate) fn are_given(&self) -> bool {
        !self.files.is_empty() || self.config.is_some()
    }
}

/// The files that are accepted as a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Plain files.
    File,
    /// Plain files and block devices: the device has passed the checks of the backend.
    Any,
}

/// A disk of a pool: a file or a block device.
pub(super) struct Device {
    pub(super) path: PathBuf,
    file: File,
    pub(super) size: Sectors,
}

impl Media for Device {
    fn size(&self) -> Sectors {
        self.size
    }

    fn read(&self, extent: Extent) -> Result<Vec<u8>, Unreadable> {
        let mut bytes = vec![0; extent.len.bytes_usize()];
        let read = self.file.read_exact_at(&mut bytes, extent.start.0 * SECTOR_BYTES);
        read.map(|()| bytes).map_err(|_| Unreadable)
    }
}

impl Device {
    fn open(path: &Path, kind: Kind, write: bool) -> anyhow::Result<Self> {
        let shown = path.display();
        let open = OpenOptions::new().read(true).write(write).open(path);
        let file = match open {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(bad_input(format_args!(
                    "{shown}: no such file; `truncate -s 1G {shown}` makes one"
                )));
            }
            open => open.with_context(|| shown.to_string())?,
        };
        let about = file.metadata().with_context(|| shown.to_string())?;
        if kind == Kind::File && !about.is_file() {
            return Err(bad_input(format_args!(
                "{shown}: no plain file; a pool of devices needs a config: --config"
            )));
        }
        let locked = if write { file.try_lock() } else { file.try_lock_shared() };
        locked.map_err(|_| {
            bad_input(format_args!("{shown}: another process has it open for writing"))
        })?;
        // The metadata of a block device has no length: its end has.
        let size = (&file).seek(SeekFrom::End(0)).with_context(|| shown.to_string())?;
        let size = Bytes(size).sectors_floor();
        Ok(Self { path: path.to_owned(), file, size })
    }

    fn write(&self, extent: Extent, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_all_at(bytes, extent.start.0 * SECTOR_BYTES)
    }
}

pub(super) fn open_all(disks: &Disks, write: bool) -> anyhow::Result<Vec<Device>> {
    if let Some(config) = &disks.config {
        return of_config(config, write);
    }
    if disks.files.is_empty() {
        return Err(bad_input("found no disks, expected files, or --config CONFIG"));
    }
    if disks.files.len() > DISKS_MAX {
        return Err(bad_input(format_args!(
            "{} files: a pool has at most {DISKS_MAX} disks",
            disks.files.len()
        )));
    }
    let mut seen = BTreeMap::new();
    for path in &disks.files {
        // A file is locked once: a second lock under another name would wait for the first.
        let Ok(about) = std::fs::metadata(path) else { continue };
        if let Some(other) = seen.insert((about.dev(), about.ino()), path) {
            let (one, two) = (path.display(), other.display());
            return Err(bad_input(format_args!("{one}: the same file as {two}: leave one out")));
        }
    }
    disks.files.iter().map(|path| Device::open(path, Kind::File, write)).collect()
}

/// The disks of a config's pool, with the sizes of their drives.
fn of_config(config: &Path, write: bool) -> anyhow::Result<Vec<Device>> {
    let plan = Plan::read(config).and_then(Plan::for_serve).map_err(bad_input)?;
    let Some(pool) = &plan.pool else {
        return Err(bad_input(format_args!("{}: found no table `[pool]`", plan.file)));
    };
    let open = |index: &config::DiskIndex| {
        let disk = &plan.disks[index.0];
        let size = disk.drive.model.capacity();
        let name = &disk.name;
        let BackingCapabilities { path, is_real, .. } = disk.backing.capabilities();
        let Some(path) = path else {
            return Err(bad_input(format_args!(
                "{}:{}: [[disk]] \"{name}\": found a disk in memory, expected a file: a pool in \
                 memory is created when it is served",
                plan.file, disk.line
            )));
        };
        // A real disk passes the same checks as when it is served. A file that is to be written is
        // created, or extended to the drive's size.
        if write || is_real {
            daemon::open_backend(&plan, disk).map_err(bad_input)?;
        }
        let kind = if is_real { Kind::Any } else { Kind::File };
        let device = Device::open(path, kind, write)?;
        if device.size < size {
            let shown = path.display();
            return Err(bad_input(format_args!(
                "{shown}: has {}; disk \"{name}\" of the config has {}",
                device.size.bytes(),
                size.bytes()
            )));
        }
        Ok(Device { size, ..device })
    };
    pool.disks.iter().map(open).collect()
}

/// 128 random bits.
fn random_bits() -> anyhow::Result<[u8; 16]> {
    daemon::random_uid().context("no random numbers")
}

/// Performs all actions of a pool.
pub(super) fn perform_all(
    pool: &mut Pool,
    perform: &mut dyn FnMut(&Action) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    while let Some(output) = pool.poll() {
        match output {
            PoolOutput::Finished(ticket, _) => pool.release(ticket),
            PoolOutput::Do(id, action) => {
                perform(&action)?;
                pool.done(id, true);
            }
        }
    }
    Ok(())
}

pub(super) fn perform(of: &BTreeMap<DiskId, &Device>, action: &Action) -> anyhow::Result<()> {
    let stepwise = |to: &DiskExtent, source: &dyn Fn(Extent) -> anyhow::Result<Vec<u8>>| {
        let mut rest = to.extent;
        while !rest.is_empty() {
            let (step, tail) = rest.split_at(STEP);
            let device = of[&to.disk];
            device
                .write(step, &source(step)?)
                .with_context(|| device.path.display().to_string())?;
            rest = tail;
        }
        Ok(())
    };
    match action {
        Action::Write { disk, extent, bytes, fua } => {
            let device = of[disk];
            let path = || device.path.display().to_string();
            device.write(*extent, bytes).with_context(path)?;
            if *fua { device.file.sync_data().with_context(path) } else { Ok(()) }
        }
        Action::Flush { disk, .. } => {
            let device = of[disk];
            device.file.sync_data().with_context(|| device.path.display().to_string())
        }
        Action::Erase { placed } => stepwise(placed, &|step| Ok(vec![0; step.len.bytes_usize()])),
        Action::Copy { from, to } => stepwise(to, &|step| {
            let skipped = step.start.distance(to.extent.start);
            let source = Extent::new(from.extent.start + skipped, step.len);
            let device = of[&from.disk];
            device
                .read(source)
                .map_err(|_| anyhow::anyhow!("{}: cannot be read", device.path.display()))
        }),
    }
}

pub(super) fn create(create: &Create, json: bool) -> anyhow::Result<ExitStatus> {
    let devices = open_all(&create.disks, true)?;
    let usable = |device: &Device| {
        if create.checksums { blocks_with_area(device.size) } else { disk_blocks(device.size) }
    };
    let mut disks = Vec::new();
    for device in &devices {
        let blocks = usable(device);
        let shown = device.path.display();
        let holds =
            |place| device.read(place).is_ok_and(|bytes| bytes.iter().any(|byte| *byte != 0));
        if !create.overwrite && blocks > 0 && label_places(blocks).into_iter().any(holds) {
            return Err(bad_input(format_args!(
                "{shown}: holds data; expected an empty file, or --overwrite, which loses it"
            )));
        }
        disks.push((DiskUid(random_bits()?), blocks));
    }
    let least = disks.iter().map(|(_, blocks)| *blocks).min().unwrap_or(0);
    let geometry = Geometry::suited(least);
    let needed = geometry.first_block() + 2;
    if let Some(device) = devices.iter().find(|device| usable(device) < needed) {
        let (shown, size) = (device.path.display(), device.size.bytes());
        return Err(bad_input(format_args!(
            "{shown}: has {size}; a disk of a pool has at least {needed}MiB"
        )));
    }
    let uid = PoolUid(random_bits()?);
    let create_pool = if create.checksums { Pool::create_with_sums } else { Pool::create };
    let mut pool = create_pool(uid, geometry, &disks).map_err(bad_input)?;
    let numbers: Vec<DiskId> = pool.state().disks().map(|(id, _)| id).collect();
    let of = numbers.into_iter().zip(&devices).collect();
    perform_all(&mut pool, &mut |action| perform(&of, action))?;
    show(
        &devices,
        find(&media(&devices)).map_err(|error| refused(&devices, &error))?,
        Vec::new(),
        json,
    )
}

pub(super) fn media(devices: &[Device]) -> Vec<&dyn Media> {
    devices.iter().map(|device| device as &dyn Media).collect()
}

/// Damage is a failed check; disks that do not belong together are bad input.
pub(super) fn refused(devices: &[Device], error: &OpenError) -> anyhow::Error {
    let place = error
        .device()
        .map_or(String::new(), |device| format!("{}: ", devices[device].path.display()));
    let message = format!("{place}{error}");
    match error {
        OpenError::NoImage
        | OpenError::ImageLost { .. }
        | OpenError::RecordLost { .. }
        | OpenError::Image { .. }
        | OpenError::Record { .. }
        | OpenError::Overlap(_) => anyhow::anyhow!(message),
        _ => bad_input(message),
    }
}

pub(super) fn status(disks: &Disks, json: bool) -> anyhow::Result<ExitStatus> {
    let devices = open_all(disks, false)?;
    let found = find(&media(&devices)).map_err(|error| refused(&devices, &error))?;
    let findings = lines(&devices, &found);
    show(&devices, found, findings, json)
}

fn lines(devices: &[Device], found: &FoundPool) -> Vec<String> {
    let line = |device: usize, what: String| format!("{}: {what}", devices[device].path.display());
    found.findings.iter().map(|one| line(one.device, one.what.to_string())).collect()
}

pub(super) fn fsck(fsck: &Fsck, json: bool) -> anyhow::Result<ExitStatus> {
    let devices = open_all(&fsck.disks, fsck.repair)?;
    let report = check(&media(&devices)).map_err(|error| refused(&devices, &error))?;
    let findings = lines(&devices, &report.found);
    let whole = report.is_whole();
    if whole || !fsck.repair {
        show(&devices, report.found, findings, json)?;
        return Ok(whole.into());
    }
    if !report.found.missing.is_empty() {
        show(&devices, report.found, findings, json)?;
        eprintln!("spindle: a pool with a disk missing is not repaired: nothing was written");
        return Ok(ExitStatus::CheckFailed);
    }
    for line in &findings {
        eprintln!("spindle: {line}");
    }
    let of = report.found.devices.iter().map(|(id, device)| (*id, &devices[*device])).collect();
    perform_all(&mut Pool::open(report.found), &mut |action| perform(&of, action))?;
    let again = check(&media(&devices)).map_err(|error| refused(&devices, &error))?;
    let (whole, left) = (again.is_whole(), lines(&devices, &again.found));
    show(&devices, again.found, left, json)?;
    Ok(whole.into())
}

#[derive(Serialize)]
struct Report {
    schema: u32,
    pool: String,
    sequence: u64,
    writable: bool,
    bytes: u64,
    free_bytes: u64,
    promised_bytes: u64,
    alarm: bool,
    disks: Vec<DiskReport>,
    volumes: Vec<VolumeReport>,
    /// Metadata that is damaged, and intact in another copy.
    findings: Vec<String>,
}

#[derive(Serialize)]
struct DiskReport {
    number: u32,
    disk: String,
    /// The file of the disk; `None` if the disk was not given.
    file: Option<String>,
    bytes: u64,
    free_bytes: u64,
    leaving: bool,
}

#[derive(Serialize)]
struct VolumeReport {
    name: String,
    bytes: u64,
    mapped_bytes: u64,
    extents: usize,
    layout: &'static str,
    zone: String,
    thin: bool,
    checksums: bool,
    snapshot_of: Option<String>,
    /// Whether every disk of the volume was given.
    whole: bool,
}

fn bytes(blocks: u64) -> u64 {
    blocks * Blocks(1).sectors().bytes().0
}

fn report(devices: &[Device], found: FoundPool, findings: Vec<String>) -> Report {
    let given = found.devices.clone();
    let pool = Pool::open(found);
    let writable = pool.missing().is_empty();
    let state = pool.state();
    let disks = state.disks().map(|(id, disk)| {
        let (all, free) = pool.free(id);
        let file = given.get(&id).map(|device| devices[*device].path.display().to_string());
        let (bytes, free_bytes) = (bytes(all.0.into()), bytes(free.0.into()));
        let (number, leaving) = (id.0, disk.draining);
        DiskReport { number, disk: disk.uid.to_string(), file, bytes, free_bytes, leaving }
    });
    let volumes = state.volumes().map(|(_, volume)| VolumeReport {
        name: volume.name.clone(),
        bytes: bytes(volume.size.0.into()),
        mapped_bytes: bytes(volume.mapped().0.into()),
        extents: volume.extents(),
        layout: config::layout_name(volume.layout),
        zone: config::zone_name(volume.zone),
        thin: volume.thin,
        checksums: volume.sums && state.has_sums(),
        snapshot_of: volume
            .origin
            .and_then(|id| state.volume(id))
            .map(|origin| origin.name.clone()),
        whole: if volume.layout.is_mirror() {
            writable && pool.shortfall(volume).lost == 0
        } else {
            volume.places().all(|place| given.contains_key(&place.disk))
        },
    });
    let status = pool.status();
    Report {
        schema: 1,
        pool: state.pool.to_string(),
        sequence: state.sequence,
        writable,
        bytes: bytes(status.blocks),
        free_bytes: bytes(status.free),
        promised_bytes: bytes(status.promised),
        alarm: status.alarm,
        disks: disks.collect(),
        volumes: volumes.collect(),
        findings,
    }
}

/// Prints a pool. One with a missing disk is a failed check.
pub(super) fn show(
    devices: &[Device],
    found: FoundPool,
    findings: Vec<String>,
    json: bool,
) -> anyhow::Result<ExitStatus> {
    for stray in &found.strays {
        eprintln!(
            "spindle: {}: has been removed from the pool, or is not in it yet",
            devices[*stray].path.display()
        );
    }
    let report = report(devices, found, findings);
    if json {
        println!("{}", serde_json::to_string(&report)?);
        return Ok(report.writable.into());
    }
    println!("pool {}, {} free of {}", report.pool, Bytes(report.free_bytes), Bytes(report.bytes));
    if report.alarm {
        println!("alarm: the pool is nearly full");
    }
    let disk = |disk: &DiskReport| {
        let file = disk.file.clone().unwrap_or_else(|| format!("missing: {}", disk.disk));
        vec![
            file,
            disk.number.to_string(),
            Bytes(disk.bytes).to_string(),
            Bytes(disk.free_bytes).to_string(),
        ]
    };
    print!(
        "{}",
        table::text(
            &["disk", "number", "size", "free"],
            &report.disks.iter().map(disk).collect::<Vec<_>>()
        )
    );
    let volume = |volume: &VolumeReport| {
        let sizes =
            [Bytes(volume.bytes), Bytes(volume.mapped_bytes)].map(|bytes| bytes.to_string());
        let whole = if volume.whole { "complete" } else { "incomplete" };
        let [size, mapped] = sizes;
        vec![
            volume.name.clone(),
            size,
            mapped,
            volume.layout.to_owned(),
            volume.zone.clone(),
            whole.to_owned(),
        ]
    };
    if !report.volumes.is_empty() {
        let rows: Vec<_> = report.volumes.iter().map(volume).collect();
        print!("{}", table::text(&["volume", "size", "mapped", "layout", "zone", "state"], &rows));
    }
    for line in &report.findings {
        println!("damaged: {line}");
    }
    Ok(report.writable.into())
}
