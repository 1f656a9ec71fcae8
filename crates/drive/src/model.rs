//! A checked drive: its tables, and what can be looked up.
//!
//! A [`Model`] never changes and holds no state, so that one serves any number of devices behind an
//! `Arc`.

use std::sync::OnceLock;

use units::{Angle, Bytes, Duration, Extent, FULL_REVOLUTION, Lba, SECTOR_BYTES, Sectors};

use crate::durable_costs::DurableCosts;
use crate::firmware::Firmware;
use crate::layout::{Layout, Place, Position, ZoneTable};
use crate::rotation::{Rotation, Sweep};
use crate::seek::SeekTable;
use crate::seek_jitter::JITTER_DEVIATIONS_MAX;
use crate::spec::{Discipline, Overheads, ReadBuffer, Spec};

/// A checked drive. Made by [`Spec::check`].
#[derive(Clone, Debug)]
pub struct Model {
    spec: Spec,
    layout: Layout,
    rotation: Rotation,
    seek: SeekTable,
    /// None where reads and writes share a curve.
    seek_write: Option<SeekTable>,
    /// Worked out when it is asked for.
    durable: OnceLock<Option<DurableCosts>>,
}

/// The properties of one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneFacts {
    /// Its addresses.
    pub lbas: Extent,
    /// Its outermost cylinder.
    pub first_cylinder: u32,
    /// Its innermost cylinder.
    pub last_cylinder: u32,
    /// Physical sectors on each track.
    pub sectors_per_track: u32,
    /// The bytes that pass under a head per second, rounded down: the rate inside one track.
    pub media_rate: Bytes,
}

/// A movement of the heads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub(crate) distance: u32,
    pub(crate) head_differs: bool,
    pub(crate) write: bool,
}

impl Model {
    pub(crate) fn of_checked(spec: Spec) -> Self {
        let layout = Layout::of_checked(&spec);
        let cylinders = layout.cylinders();
        Self {
            rotation: Rotation::new(spec.period),
            seek: SeekTable::of(&spec.seek, cylinders),
            seek_write: spec.seek_write.as_ref().map(|curve| SeekTable::of(curve, cylinders)),
            layout,
            spec,
            durable: OnceLock::new(),
        }
    }

    /// Where [`Self::durable_costs`] keeps its answer.
    pub(crate) const fn durable_memo(&self) -> &OnceLock<Option<DurableCosts>> {
        &self.durable
    }

    /// The description that it was made of.
    pub const fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Addresses on the disk.
    pub fn capacity(&self) -> Sectors {
        self.layout.capacity()
    }

    /// One revolution.
    pub fn period(&self) -> Duration {
        self.rotation.period()
    }

    /// Cylinders on the disk.
    pub fn cylinders(&self) -> u32 {
        self.layout.cylinders()
    }

    /// Most commands the drive holds at once.
    pub fn queue_depth_max(&self) -> u32 {
        self.spec.queue_depth_max
    }

    /// The discipline of its queue.
    pub fn discipline(&self) -> Discipline {
        self.spec.discipline
    }

    /// The zones, from the outside in.
    pub fn zones(&self) -> impl ExactSizeIterator<Item = ZoneFacts> + '_ {
        self.layout.zones().iter().map(|zone| ZoneFacts {
            lbas: zone.lbas,
            first_cylinder: zone.first_cylinder,
            last_cylinder: zone.last_cylinder,
            sectors_per_track: zone.sectors_per_track,
            media_rate: Bytes(
                u64::from(zone.sectors_per_track) * SECTOR_BYTES * 1_000_000_000
                    / self.period().as_nanos(),
            ),
        })
    }

    /// Where an address lies.
    ///
    /// # Panics
    /// If the address is not on the disk.
    pub fn position(&self, lba: Lba) -> Position {
        assert!(lba.0 < self.capacity().0, "{lba} is on the disk");
        self.layout.place(lba).position
    }

    /// The address that lies at this cylinder, surface and sector, if one does; the angle is not
    /// looked at.
    pub fn lba(&self, position: Position) -> Option<Lba> {
        self.layout.lba(position)
    }

    /// The time to move the arm by `distance` cylinders for a read.
    ///
    /// # Panics
    /// If `distance` is not below the number of cylinders.
    pub fn seek(&self, distance: u32) -> Duration {
        assert!(distance < self.cylinders(), "a seek stays on the disk");
        self.seek.time(distance)
    }

    /// The time to move the arm from the outermost to the innermost cylinder for a read.
    pub fn full_stroke(&self) -> Duration {
        self.seek.time(self.cylinders() - 1)
    }

    /// The mean seek for a read over pairs of cylinders drawn evenly: a data sheet's average seek.
    pub fn seek_mean(&self) -> Duration {
        self.seek.mean()
    }

    /// The longest that a command of `len` sectors anywhere can take in a drive that is otherwise
    /// idle and has nothing left to destage.
    pub fn worst_case(&self, len: Sectors) -> Duration {
        self.worst_case_within(Extent::new(Lba(0), self.capacity()), len)
    }

    /// The longest that a command of `len` sectors inside `range` can take from any place of the
    /// arm, in a drive that is otherwise idle and has nothing left to destage.
    ///
    /// # Panics
    /// If the range is empty or leaves the disk.
    pub fn worst_case_within(&self, range: Extent, len: Sectors) -> Duration {
        let disk = Extent::new(Lba(0), self.capacity());
        assert!(!range.is_empty() && disk.contains(range), "{range} is on the disk");
        let first = self.layout.zone_index(range.start);
        let last = self.layout.zone_index(Lba(range.end().0 - 1));
        let zones = &self.layout.zones()[first..=last];
        let bus = self.bus(len).max(self.bus_write(len))
            + self.bus(Sectors(1))
            + self.spec.firmware.bus.longest();
        let positioning = self.overhead_longest() + self.longest_move() + self.period();
        positioning + self.worst_transfer(zones, len) + bus
    }

    /// The longest from the first of `len` sectors to the last within these zones: as if all of it
    /// lay where tracks are shortest, and every change of track were where it costs most.
    fn worst_transfer(&self, zones: &[ZoneTable], len: Sectors) -> Duration {
        let (mut rotation, mut changes, mut track, mut cylinder) = (0, 0, 0, 0);
        let mut irregular = 0;
        for zone in zones {
            let (span, per_track) = (zone.span_max(len), u64::from(zone.sectors_per_track));
            rotation = rotation
                .max((u128::from(span) * u128::from(FULL_REVOLUTION)).div_ceil(per_track.into()));
            changes = changes.max(span.div_ceil(per_track));
            let (across_tracks, across_cylinders) = zone.skew_gaps();
            let most = |gap, distance| {
                let change = |write| self.change_sweep(gap, self.change(distance, write));
                change(false).max(change(true))
            };
            track = track.max(most(across_tracks, 0));
            cylinder = cylinder.max(most(across_cylinders, 1));
            irregular += self.irregular_sweep(zone, len);
        }
        let cylinder = cylinder.max(track);
        let of_cylinders = changes.div_ceil(u64::from(self.spec.surfaces));
        // Some of those changes lead into the next zone, where another skew holds.
        let shortest = zones.iter().map(|zone| zone.lbas.len.0).min().unwrap_or(1);
        let crossed = len.0.saturating_sub(2) / shortest + u64::from(len.0 > 1);
        let crossed = crossed.min(zones.len() as u64 - 1);
        let boundary =
            zones.windows(2).map(|pair| self.boundary_sweep(&pair[1])).max().unwrap_or(0);
        let sweep = rotation
            + u128::from(of_cylinders) * u128::from(cylinder)
            + u128::from(changes - of_cylinders) * u128::from(track)
            + u128::from(crossed) * u128::from(boundary.saturating_sub(track))
            + irregular;
        self.rotation.time(Sweep(u64::try_from(sweep).unwrap_or(u64::MAX)))
    }

    /// The most additional rotation, beyond the skews, in a transfer of `len` sectors: for tracks
    /// that begin later than the skew, and for movements to remapped sectors and back.
    fn irregular_sweep(&self, zone: &ZoneTable, len: Sectors) -> u128 {
        let (turns, remaps) = zone.irregular();
        let most = |count: usize| u128::from(len.0).min(count as u128);
        let change = self.change(1, false).max(self.change(1, true));
        let change = u128::from(self.rotation.sweep(change).0 + FULL_REVOLUTION + 1);
        let way = u128::from(self.rotation.sweep(self.longest_move()).0 + FULL_REVOLUTION + 1);
        most(turns) * change + most(remaps) * 2 * way
    }

    /// How far the disk rotates between the last sector before this zone and its first.
    fn boundary_sweep(&self, zone: &ZoneTable) -> u64 {
        let last = self.layout.place(Lba(zone.lbas.start.0 - 1));
        let first = self.layout.place(zone.lbas.start).position;
        let behind = last.position.angle + Angle(u32::try_from(last.sector.0).unwrap_or(0));
        let gap = u64::from((first.angle - behind).0);
        let distance = first.cylinder - last.position.cylinder;
        let head_differs = first.surface != last.position.surface;
        let change =
            |write| self.change_sweep(gap, self.movement(Move { distance, head_differs, write }));
        change(false).max(change(true))
    }

    /// How far the disk rotates from the end of one track to the start of the next that begins
    /// `gap` later, when the heads take `change` to get there.
    fn change_sweep(&self, gap: u64, change: Duration) -> u64 {
        let needed = self.rotation.sweep(change).0 + 1;
        if change == Duration::ZERO || gap >= needed {
            return gap;
        }
        gap + (needed - gap).div_ceil(FULL_REVOLUTION) * FULL_REVOLUTION
    }

    /// The time of a change to another track, `distance` cylinders on.
    fn change(&self, distance: u32, write: bool) -> Duration {
        let distance = distance.min(self.cylinders() - 1);
        self.movement(Move { distance, head_differs: self.spec.surfaces > 1, write })
    }

    /// The longest movement that ends in a transfer, of either kind.
    fn longest_move(&self) -> Duration {
        let write = self.seek_write.as_ref().unwrap_or(&self.seek).longest();
        let read = self.seek.longest().max(self.spec.head_switch);
        let write = write.max(self.spec.head_switch) + self.spec.write_settle;
        read.max(write).max(self.write_move_min()) + self.spec.arm.variation * JITTER_DEVIATIONS_MAX
    }

    /// The most that electronics and the messages of the bus take of one command, beside its data.
    pub fn command_longest(&self) -> Duration {
        self.overhead_longest() + self.spec.firmware.bus.longest()
    }

    fn overhead_longest(&self) -> Duration {
        let longest = |o: &Overheads| {
            let reads = o.read_hit.max(o.read_miss);
            reads.max(o.write_cached).max(o.write_media).max(o.control)
        };
        longest(&self.spec.overheads).max(longest(&self.spec.overheads_after_write))
    }

    /// The time of a movement: the longer of seek and head switch, and a write settles after
    /// either.
    pub(crate) fn movement(&self, to: Move) -> Duration {
        let table = match &self.seek_write {
            Some(table) if to.write => table,
            _ => &self.seek,
        };
        let mut time = table.time(to.distance);
        if to.head_differs {
            time = time.max(self.spec.head_switch);
        }
        if to.write && time > Duration::ZERO {
            time += self.spec.write_settle;
        }
        time
    }

    /// The least time of the movement before a write, where the firmware has one: it is a movement
    /// like any other, so that the heads settle after it.
    pub(crate) fn write_move_min(&self) -> Duration {
        match self.spec.firmware.write_seek_min {
            Duration::ZERO => Duration::ZERO,
            least => least + self.spec.write_settle,
        }
    }

    pub(crate) fn place(&self, lba: Lba) -> Place {
        self.layout.place(lba)
    }

    pub(crate) const fn rotation(&self) -> Rotation {
        self.rotation
    }

    /// The bus time of `len` sectors of a read.
    pub(crate) fn bus(&self, len: Sectors) -> Duration {
        self.spec.bus_sector * len.0
    }

    /// The bus time of `len` sectors of a write.
    pub(crate) fn bus_write(&self, len: Sectors) -> Duration {
        self.spec.firmware.bus.write_sector.unwrap_or(self.spec.bus_sector) * len.0
    }

    pub(crate) const fn firmware(&self) -> &Firmware {
        &self.spec.firmware
    }

    /// The addresses of the track on which this one lies.
    pub(crate) fn track(&self, lba: Lba) -> Extent {
        self.layout.track(lba)
    }

    /// The addresses of the cylinder on which this one lies.
    pub(crate) fn cylinder(&self, lba: Lba) -> Extent {
        self.layout.cylinder(lba)
    }

    pub(crate) fn overheads(&self, after_write: bool) -> &Overheads {
        if after_write { &self.spec.overheads_after_write } else { &self.spec.overheads }
    }

    pub(crate) const fn read_buffer(&self) -> ReadBuffer {
        self.spec.read_buffer
    }

    /// The memory for writes that are answered before they are durable; none if none are.
    pub(crate) fn write_buffer(&self) -> Sectors {
        if self.spec.write_cache { self.spec.write_buffer } else { Sectors::ZERO }
    }
}
