//! Recovery: finds the newest intact copy of a pool's metadata on its disks.
//!
//! Every commit was on every disk before it was answered, in two copies, and before the next was
//! written. So the newest state that can be assembled is the last answered commit, or one further
//! if a crash came before the answer. What cannot result from a crash is refused: a missing commit
//! with a later one present.
//!
//! An image that is lost on every disk is reconstructed from the one before it and that one's log:
//! together they have the same state, to the sequence number.

use std::collections::{BTreeMap, BTreeSet};

use units::{Extent, Sectors};

use crate::location::DiskId;
use crate::pool::format::fields::VERSION_FIRST;
use crate::pool::format::geometry::{Geometry, Slot, disk_blocks, label_places};
use crate::pool::format::structures::{DecodeError, Header, Label, Record};
use crate::pool::format::{changes, image};
use crate::pool::limits::UNIT_BYTES;
use crate::pool::names::{BlockExtent, DiskUid, PoolUid};
use crate::pool::recovery::error::{Damage, Finding, OpenError};
use crate::pool::state::metadata::State;
use crate::pool::sums::blocks_with_area;
use checksum::crc64;

/// A disk, or a file in its place, from which a pool's metadata are read.
pub trait Media {
    /// Its size.
    fn size(&self) -> Sectors;

    /// The bytes of `extent`, which lies within it.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&self, extent: Extent) -> Result<Vec<u8>, Unreadable>;
}

/// A disk did not return its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// A pool as found on its disks.
#[derive(Debug)]
pub struct FoundPool {
    /// The pool's metadata.
    pub state: State,
    /// The index of each disk among those given.
    pub devices: BTreeMap<DiskId, usize>,
    /// Disks of the pool that were not given.
    pub missing: Vec<(DiskId, DiskUid)>,
    /// Disks given that have the pool's label and do not belong to it: removed, or half added.
    pub strays: Vec<usize>,
    /// Damage that can be repaired from intact copies.
    pub findings: Vec<Finding>,
    /// Disks whose labels are those from before they got a checksum area: nothing in the area
    /// counts. An open pool writes their labels again.
    pub unlabelled: BTreeSet<DiskId>,
    /// The mapped blocks of each disk.
    pub(crate) held: BTreeMap<DiskId, Vec<BlockExtent>>,
    /// Disks of the pool that failed while they came: what they have is older.
    pub(crate) half_joined: BTreeSet<DiskId>,
    /// The newest generation of which any part was found.
    pub(crate) generation: u64,
    /// The slot of each disk that is kept until the other is intact.
    pub(crate) best: BTreeMap<DiskId, Slot>,
}

/// One image and the changes since, as far as found.
#[derive(Default)]
struct Generation {
    /// The sequence number of the image, by its headers.
    base: Option<u64>,
    images: Vec<(usize, Slot, Header)>,
    records: BTreeMap<u64, Record>,
}

struct Search<'a> {
    media: &'a [&'a dyn Media],
    labels: Vec<Label>,
    geometry: Geometry,
    pool: PoolUid,
    generations: BTreeMap<u64, Generation>,
    /// The intact copies of records: device, generation, sequence, copy.
    copies: BTreeSet<(usize, u64, u64, u32)>,
    findings: Vec<Finding>,
}

/// Finds the pool on these disks. Nothing is written.
///
/// # Errors
/// See [`OpenError`].
pub fn find(media: &[&dyn Media]) -> Result<FoundPool, OpenError> {
    search(media, false)
}

/// The same; with `thorough`, every copy is read and checked.
pub(crate) fn search(media: &[&dyn Media], thorough: bool) -> Result<FoundPool, OpenError> {
    match search_all(media, &[], thorough) {
        Err(conflict @ OpenError::Conflict { .. }) => {
            search_without_out(media, thorough).unwrap_or(Err(conflict))
        }
        Err(unknown @ OpenError::NotOurs { .. }) => {
            search_with_missing(media, thorough).unwrap_or(Err(unknown))
        }
        found => found,
    }
}

/// A disk that the pool misses, as its other disks have it.
#[derive(Clone, Copy, Debug)]
struct MissingDisk {
    pool: PoolUid,
    disk: DiskUid,
    blocks: u32,
}

/// The disks with labels say how large the missing ones are: where the second label of a disk lies
/// whose first one cannot be read, on a device that is larger. `None` if that leads to no disk.
fn search_with_missing(
    media: &[&dyn Media],
    thorough: bool,
) -> Option<Result<FoundPool, OpenError>> {
    let (known, unknown): (Vec<&dyn Media>, Vec<&dyn Media>) =
        media.iter().partition(|one| label(0, **one, &[]).is_ok());
    debug_assert_eq!(known.len() + unknown.len(), media.len(), "a disk has a label or has none");
    let found = search_all(&known, &[], false).ok()?;
    let missing = found.missing.iter().filter_map(|(id, disk)| {
        let blocks = found.state.disk(*id)?.blocks;
        Some(MissingDisk { pool: found.state.pool, disk: *disk, blocks })
    });
    let missing: Vec<MissingDisk> = missing.collect();
    let is_found = unknown.iter().any(|one| label(0, *one, &missing).is_ok());
    is_found.then(|| search_all(media, &missing, thorough))
}

/// A disk that was taken out may have been written to alone before: what it has counts for nothing.
/// The newest state of all disks names it, because taking a disk out advances the sequence by more
/// than a commit that the disk may have had. `None` if that explains no conflict.
fn search_without_out(
    media: &[&dyn Media],
    thorough: bool,
) -> Option<Result<FoundPool, OpenError>> {
    let alone = media.iter().filter_map(|one| search_all(&[*one], &[], false).ok());
    let newest = alone.max_by_key(|found| found.state.sequence)?.state;
    // The number of a disk that is out; none of one that is no member.
    let is_out = |media: &dyn Media| {
        let label = label(0, media, &[]).ok()?.0;
        match newest.disks().find(|(_, disk)| disk.uid == label.disk) {
            Some((_, disk)) if !disk.out => None,
            member => Some(member.map(|(id, _)| id)),
        }
    };
    let out: BTreeMap<usize, Option<DiskId>> =
        media.iter().enumerate().filter_map(|(at, one)| Some((at, is_out(*one)?))).collect();
    if out.is_empty() {
        return None;
    }
    let given: Vec<usize> = (0..media.len()).filter(|at| !out.contains_key(at)).collect();
    assert_eq!(given.len() + out.len(), media.len(), "a disk counts or does not");
    assert!(!given.is_empty(), "a disk is in, and it was found");
    let rest: Vec<&dyn Media> = given.iter().map(|at| media[*at]).collect();
    Some(search_all(&rest, &[], thorough).map(|mut found| {
        found.devices.values_mut().for_each(|at| *at = given[*at]);
        found.strays.iter_mut().for_each(|at| *at = given[*at]);
        found.findings.iter_mut().for_each(|one| one.device = given[one.device]);
        for (at, id) in &out {
            match id {
                Some(id) => {
                    found.missing.retain(|(missing, _)| missing != id);
                    found.devices.insert(*id, *at);
                }
                None => found.strays.push(*at),
            }
        }
        found
    }))
}

/// Finds the pool. `missing`: disks of it that may be among those without a first label.
fn search_all(
    media: &[&dyn Media],
    missing: &[MissingDisk],
    thorough: bool,
) -> Result<FoundPool, OpenError> {
    let mut search = Search::begin(media, missing)?;
    for device in 0..media.len() {
        for slot in Slot::BOTH {
            search.slot(device, slot)?;
        }
    }
    if thorough {
        search.check_images();
    }
    let (generation, state) = search.newest()?;
    assert!(search.generations.contains_key(&generation), "the newest was found");
    search.check_records(generation);
    if thorough && search.generations.contains_key(&(generation - 1)) {
        search.check_records(generation - 1);
    }
    search.finish(generation, state)
}

/// What the label of a disk says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The pool that it belongs to, or belonged to.
    pub pool: PoolUid,
    /// The disk.
    pub disk: DiskUid,
}

/// Reads the label of one disk.
///
/// # Errors
/// It has none, or two that differ.
pub fn identify(media: &dyn Media) -> Result<Identity, OpenError> {
    let (Label { pool, disk, .. }, _) = label(0, media, &[])?;
    Ok(Identity { pool, disk })
}

/// One copy of a label, at its place.
fn read_label(media: &dyn Media, copy: u32, place: Extent) -> Result<Label, DecodeError> {
    match media.read(place) {
        Ok(unit) => Label::decode(&unit, copy),
        Err(Unreadable) => Err(DecodeError::Damaged),
    }
}

/// The blocks of a disk whose first label cannot be read, by its second one: this is where a pool
/// would have it on a disk of that size, or where one of the missing disks has it.
fn blocks_by_second(media: &dyn Media, missing: &[MissingDisk]) -> u32 {
    let blocks = disk_blocks(media.size());
    let at = |blocks: u32| {
        let label = read_label(media, 1, label_places(blocks)[1]).ok()?;
        (blocks > 0 && label.blocks == blocks).then_some(label)
    };
    let usual = [blocks_with_area(media.size()), blocks].into_iter().find(|one| at(*one).is_some());
    let is_missing = |one: &&MissingDisk| {
        let fits = one.blocks <= blocks;
        let label = if fits { at(one.blocks) } else { None };
        label.is_some_and(|label| (label.pool, label.disk) == (one.pool, one.disk))
    };
    let found = usual.or_else(|| Some(missing.iter().find(is_missing)?.blocks)).unwrap_or(blocks);
    debug_assert!(found <= blocks, "the second label lies on the disk");
    found
}

/// The label of one disk, and the damage to its copies. `missing`: disks that it may be.
fn label(
    device: usize,
    media: &dyn Media,
    missing: &[MissingDisk],
) -> Result<(Label, Vec<Finding>), OpenError> {
    let blocks = disk_blocks(media.size());
    if blocks == 0 {
        return Err(OpenError::NotOurs { device, why: DecodeError::Foreign });
    }
    let first = read_label(media, 0, label_places(blocks)[0]);
    if let Err(why @ DecodeError::Newer { .. }) = first {
        return Err(OpenError::NotOurs { device, why });
    }
    let by_second = |_: &DecodeError| blocks_by_second(media, missing);
    let known = first.as_ref().map_or_else(by_second, |label| label.blocks);
    if known > blocks {
        return Err(OpenError::Shrunk { device, blocks, needed: known });
    }
    assert!(known <= blocks, "the second label lies on the disk");
    let second = read_label(media, 1, label_places(known)[1]);
    let damaged = |copy, why| vec![Finding { device, what: Damage::Label { copy, why } }];
    match (first, second) {
        (Ok(first), Ok(second)) if first == second => Ok((first, Vec::new())),
        (Ok(_), Ok(_)) => Err(OpenError::TwoLabels { device }),
        (Ok(label), Err(why)) => Ok((label, damaged(1, why))),
        (Err(why), Ok(label)) if label.blocks == known => Ok((label, damaged(0, why))),
        (Err(why), _) => Err(OpenError::NotOurs { device, why }),
    }
}

impl<'a> Search<'a> {
    /// Reads the labels, and rejects disks that do not belong together.
    fn begin(media: &'a [&'a dyn Media], missing: &[MissingDisk]) -> Result<Self, OpenError> {
        let mut labels: Vec<Label> = Vec::new();
        let mut findings = Vec::new();
        for (device, one) in media.iter().enumerate() {
            let (label, damage) = label(device, *one, missing)?;
            if let Some(other) = labels.iter().position(|other| other.disk == label.disk) {
                return Err(OpenError::Twice { device, other, disk: label.disk });
            }
            if let Some(first) = labels.first() {
                if first.pool != label.pool {
                    let pools = [first.pool, label.pool];
                    return Err(OpenError::Mixed { device, pools });
                }
                if first.geometry != label.geometry {
                    return Err(OpenError::Geometry { device });
                }
            }
            labels.push(label);
            findings.extend(damage);
        }
        let first = labels.first().ok_or(OpenError::NoDisks)?;
        let (geometry, pool) = (first.geometry, first.pool);
        assert_eq!(labels.len(), media.len(), "every disk has a label");
        assert!(labels.iter().all(|label| label.pool == pool), "the disks are of one pool");
        assert!(labels.iter().all(|label| label.geometry == geometry), "with one geometry");
        let (generations, copies) = (BTreeMap::new(), BTreeSet::new());
        Ok(Self { media, labels, geometry, pool, generations, copies, findings })
    }

    /// Reads a slot's header and log.
    fn slot(&mut self, device: usize, slot: Slot) -> Result<(), OpenError> {
        let label = self.labels[device];
        let read = |extent| self.media[device].read(extent);
        let header = read(self.geometry.header(slot)).map_err(|Unreadable| DecodeError::Damaged);
        match header.and_then(|unit| Header::decode(&unit, &label, slot)) {
            Ok(header) => self.header(device, header)?,
            Err(why @ DecodeError::Newer { .. }) => return Err(OpenError::NotOurs { device, why }),
            Err(why) => self.findings.push(Finding { device, what: Damage::Header { slot, why } }),
        }
        let Ok(log) = self.media[device].read(self.geometry.log(slot)) else {
            self.findings.push(Finding { device, what: Damage::Log { slot } });
            return Ok(());
        };
        let mut position = 0;
        while position < self.geometry.log_units() {
            match Record::decode(&log, position, self.pool) {
                Ok((record, copy)) => {
                    assert!(copy < 2, "a record has two copies");
                    assert!(record.pool == self.pool, "a record of the pool");
                    position += Record::units(record.body.len());
                    self.record(device, copy, record)?;
                }
                Err(why @ DecodeError::Newer { .. }) => {
                    return Err(OpenError::NotOurs { device, why });
                }
                // Never written, of another generation, or torn: a missing record is detected
                // later.
                Err(_) => position += 1,
            }
        }
        Ok(())
    }

    fn header(&mut self, device: usize, header: Header) -> Result<(), OpenError> {
        let generation = self.generations.entry(header.generation).or_default();
        if generation.base.is_some_and(|base| base != header.sequence) {
            return Err(OpenError::Conflict { generation: header.generation, device });
        }
        // Images of one generation are equal.
        if generation.images.iter().any(|(_, _, other)| other.checksum != header.checksum) {
            return Err(OpenError::Conflict { generation: header.generation, device });
        }
        generation.base = Some(header.sequence);
        assert_eq!(generation.base, Some(header.sequence), "all headers agree");
        generation.images.push((device, header.slot, header));
        Ok(())
    }

    fn record(&mut self, device: usize, copy: u32, record: Record) -> Result<(), OpenError> {
        let (number, sequence) = (record.generation, record.sequence);
        self.copies.insert((device, number, sequence, copy));
        let generation = self.generations.entry(number).or_default();
        match generation.records.get(&sequence) {
            Some(other) if *other != record => {
                Err(OpenError::Conflict { generation: number, device })
            }
            Some(_) => Ok(()),
            None => {
                generation.records.insert(sequence, record);
                Ok(())
            }
        }
    }

    /// The body of an image, if it is intact.
    fn body(&self, device: usize, header: &Header) -> Option<Vec<u8>> {
        let len = usize::try_from(header.body.0).expect("its header was checked");
        let padded = len.next_multiple_of(UNIT_BYTES);
        assert!(padded <= self.geometry.image_bytes(), "the header was validated");
        let sectors = units::Bytes(padded as u64).sectors_floor();
        let (extent, _) = self.geometry.image(header.slot).split_at(sectors);
        let mut bytes = self.media[device].read(extent).ok()?;
        let whole = bytes.len() == padded && crc64(&bytes) == header.checksum;
        bytes.truncate(len);
        whole.then_some(bytes)
    }

    fn check_images(&mut self) {
        let images = self.generations.values().flat_map(|generation| &generation.images);
        let damaged: Vec<_> = images
            .filter(|(device, _, header)| self.body(*device, header).is_none())
            .map(|(device, slot, _)| Finding {
                device: *device,
                what: Damage::Image { slot: *slot },
            })
            .collect();
        self.findings.extend(damaged);
    }

    /// The newest generation that can be assembled, and its state.
    fn newest(&mut self) -> Result<(u64, State), OpenError> {
        let numbers: Vec<u64> = self.generations.keys().rev().copied().collect();
        for number in numbers {
            if let Some(state) = self.last(number)? {
                return Ok((number, state));
            }
            // A log begins when its image is on every disk: with a record present, no crash removed
            // the image. An image that commits nothing has the same state as the log before it.
            let generation = &self.generations[&number];
            let committed = generation.images.iter().any(|(_, _, header)| !header.commits);
            if committed || !generation.records.is_empty() {
                return Err(OpenError::ImageLost { generation: number });
            }
        }
        Err(OpenError::NoImage)
    }

    /// The state at the end of a generation, if its image or the one before it is there.
    fn last(&mut self, number: u64) -> Result<Option<State>, OpenError> {
        let Some(mut state) = self.image(number)? else { return Ok(None) };
        let records = &self.generations[&number].records;
        for (sequence, record) in records.range(state.sequence + 1..) {
            if *sequence != state.sequence + 1 {
                let sequence = state.sequence + 1;
                return Err(OpenError::RecordLost { generation: number, sequence });
            }
            let changes = changes::decode(&record.body)
                .map_err(|why| OpenError::Record { sequence: *sequence, what: why.what })?;
            state
                .advance(&changes)
                .map_err(|what| OpenError::Record { sequence: *sequence, what })?;
        }
        Ok(Some(state))
    }

    /// The state at the beginning of a generation.
    fn image(&mut self, number: u64) -> Result<Option<State>, OpenError> {
        let images = self.generations[&number].images.clone();
        for (device, slot, header) in images {
            let Some(body) = self.body(device, &header) else {
                self.note(Finding { device, what: Damage::Image { slot } });
                continue;
            };
            let state =
                image::decode(&body, header.version, self.pool, self.geometry, header.sequence);
            return match state {
                Ok(state) => Ok(Some(state)),
                Err(why) => Err(OpenError::Image { device, slot, why }),
            };
        }
        let generation = &self.generations[&number];
        let first = generation.records.keys().next().map(|first| first - 1);
        let Some(base) = generation.base.or(first) else { return Ok(None) };
        let before: Vec<u64> =
            self.generations.range(..number).rev().map(|(before, _)| *before).collect();
        for before in before {
            // The rest of a log whose image was overwritten is useless.
            if !self.generations[&before].images.is_empty()
                && let Some(state) = self.last(before)?
            {
                return Ok(Some(state).filter(|state| state.sequence == base));
            }
        }
        Ok(None)
    }

    fn note(&mut self, finding: Finding) {
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// Every disk with a generation's image must have both copies of every record of it, and all
    /// disks must have the newest.
    fn check_records(&mut self, number: u64) {
        let generation = &self.generations[&number];
        let newest = self.generations.keys().next_back() == Some(&number);
        let has =
            |device: &usize| newest || generation.images.iter().any(|(on, _, _)| on == device);
        let devices: Vec<usize> = (0..self.media.len()).filter(has).collect();
        for sequence in generation.records.keys() {
            for (device, copy) in devices.iter().flat_map(|device| [(*device, 0), (*device, 1)]) {
                if !self.copies.contains(&(device, number, *sequence, copy)) {
                    let what = Damage::Record { sequence: *sequence, copy };
                    self.findings.push(Finding { device, what });
                }
            }
        }
    }

    /// Identifies the members, and validates the state.
    fn finish(self, number: u64, state: State) -> Result<FoundPool, OpenError> {
        let held = state.held().map_err(OpenError::Overlap)?;
        let mut devices = BTreeMap::new();
        let mut strays = Vec::new();
        let (mut half_joined, mut unlabelled) = (BTreeSet::new(), BTreeSet::new());
        let mut outdated = Vec::new();
        for (device, label) in self.labels.iter().enumerate() {
            let member = state.disks().find(|(_, disk)| disk.uid == label.disk);
            match member {
                None => strays.push(device),
                // A disk that failed when it was to come has no label of its number.
                Some((id, disk))
                    if (id == label.number || disk.out) && disk.blocks == label.blocks =>
                {
                    devices.insert(id, device);
                }
                // Its area was committed, and its labels were not written yet.
                Some((id, disk))
                    if (id == label.number || disk.out)
                        && disk.has_sums
                        && disk.blocks < label.blocks =>
                {
                    devices.insert(id, device);
                    unlabelled.insert(id);
                    outdated.push(Finding { device, what: Damage::LabelOutdated });
                }
                // It failed while it came, before its labels were written. The mirrors may be gone
                // since it was taken out.
                Some((id, disk))
                    if disk.out || (state.version > VERSION_FIRST && state.has_mirrors()) =>
                {
                    half_joined.insert(id);
                    strays.push(device);
                }
                Some(_) => return Err(OpenError::Label { device }),
            }
        }
        assert_eq!(
            devices.len() + strays.len(),
            self.labels.len(),
            "a disk is a member or a stray"
        );
        let absent = state.disks().filter(|(id, _)| !devices.contains_key(id));
        let missing = absent.map(|(id, disk)| (id, disk.uid)).collect();
        // The slot that is kept must be intact itself: a header alone proves little after a crash.
        let best = |device: usize| {
            let images = self.generations.range(..=number).rev().flat_map(|(_, one)| &one.images);
            let mut own = images.filter(|(on, _, _)| *on == device);
            let whole = own.find(|(_, _, header)| self.body(device, header).is_some());
            whole.map_or(Slot::A, |(_, slot, _)| *slot)
        };
        let best: BTreeMap<_, _> =
            devices.iter().map(|(id, device)| (*id, best(*device))).collect();
        let generation = *self.generations.keys().next_back().expect("one was found");
        // What a disk has that is out is old, and replaced when it is taken back.
        let out = |device: usize| devices.iter().any(|(id, at)| *at == device && !state.is_in(*id));
        let counts = |one: &Finding| !strays.contains(&one.device) && !out(one.device);
        let findings = self.findings.into_iter().chain(outdated).filter(counts).collect();
        Ok(FoundPool {
            state,
            devices,
            missing,
            strays,
            findings,
            unlabelled,
            held,
            half_joined,
            generation,
            best,
        })
    }
}
