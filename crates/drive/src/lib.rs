//! A disk drive as a function from its state, a command and the time to the completion and its
//! parts.
//!
//! Time is integer nanoseconds and angles are integer fractions of a revolution, without any other
//! input: the same commands at the same instants give the same nanoseconds on every machine, in
//! debug and in release.
//!
//! - [`Spec`] describes a drive. [`Spec::check`] rejects impossible ones.
//! - [`Model`] is a checked drive: tables, no state, shared between devices.
//! - [`Device`] is a drive with its state: queue, read segments, write buffer, arm and spindle.
//! - [`FlashSpec`], [`FlashModel`] and [`FlashDevice`] are the same for a flash drive: dies,
//!   channels, write buffer, link.
//! - [`AnySpec`], [`AnyModel`] and [`AnyDevice`] are a drive of either kind, perhaps slowed to a
//!   share of its speed, perhaps with a [`SharedBus`] between it and the host.
//!
//! ```
//! use std::sync::Arc;
//! use spindle_drive::{
//!     Arm,
//!     Device, Discipline, Firmware, Mapping, Overheads, ReadBuffer, SeekCurve, Spec, Tag, Zone,
//! };
//! use units::{Duration, Extent, Instant, Lba, Operation, Sectors};
//!
//! let spec = Spec {
//!     period: Spec::period_of_rpm(7_200),
//!     surfaces: 2,
//!     mapping: Mapping::Cylinder,
//!     zones: vec![Zone { last_cylinder: 9_999, sectors_per_track: 500, ..Zone::default() }],
//!     seek: SeekCurve {
//!         points: vec![(1, Duration::from_millis(1)), (9_999, Duration::from_millis(15))],
//!         fall_max: Duration::ZERO,
//!     },
//!     seek_write: None,
//!     head_switch: Duration::from_micros(800),
//!     write_settle: Duration::from_micros(300),
//!     overheads: Overheads::default(),
//!     overheads_after_write: Overheads::default(),
//!     bus_sector: Duration::from_micros(4),
//!     read_buffer: ReadBuffer::default(),
//!     write_buffer: Sectors::ZERO,
//!     write_cache: false,
//!     queue_depth_max: 1,
//!     discipline: Discipline::Fifo,
//!     firmware: Firmware::default(),
//!     arm: Arm::default(),
//! };
//! let mut device = Device::new(Arc::new(spec.check()?));
//! device.submit(Instant::ZERO, Tag(1), Operation::read(Extent::new(Lba(5_000), Sectors(8))));
//! let at = device.next_completion().expect("one command is in service");
//! let done = device.complete(at).expect("it is done");
//! assert_eq!(done.parts.sum(), at.since(Instant::ZERO));
//! # Ok::<(), spindle_drive::SpecError>(())
//! ```
//!
//! Invariant: no clock, no files, no floating point, and no randomness except a seeded sequence in
//! the drive's state.

mod any;
mod check;
mod completion;
mod device;
#[cfg(test)]
mod device_firmware_tests;
#[cfg(test)]
mod device_properties;
#[cfg(test)]
mod device_tests;
mod durable;
mod durable_costs;
mod firmware;
mod flash;
mod in_progress;
mod layout;
mod mechanism;
mod media_cache;
mod model;
mod queue;
#[cfg(test)]
mod queue_tests;
mod read_buffer;
mod rotation;
#[cfg(test)]
mod samples;
mod seek;
mod seek_jitter;
mod shared_bus;
#[cfg(test)]
mod shared_bus_tests;
mod slowed;
mod spec;
mod write_buffer;

pub use any::{AnyDevice, AnyModel, AnySpec, Unmeasured};
pub use check::{Field, SpecError};
pub use completion::{Done, Parts, Tag};
pub use device::Device;
pub use durable_costs::{CHEAPER_BY, CacheBypass, DurableCost, DurableCosts};
pub use firmware::{
    Bus, DestageBeforeRead, ExtraDisconnect, Firmware, LOG_RECORDS_MAX, MediaCache, ReadAhead,
    WriteAhead,
};
pub use flash::{
    AMPLIFICATION_MAX, Amplification, CHANNELS_MAX, DIES_PER_CHANNEL_MAX, FLASH_BUFFER_MAX,
    FLASH_CAPACITY_MAX, FLASH_QUEUE_DEPTH_MAX, FlashDevice, FlashModel, FlashSpec, Host,
    LATENCY_MAX, Memory, Nand, PASSED_MAX, PLANES_MAX, RATE_MAX, RATE_MIN, STRIPE_MAX, Suspend,
    UNITS_PER_BLOCK_MAX,
};
pub use layout::Position;
pub use model::{Model, ZoneFacts};
pub use queue::Order;
pub use shared_bus::{BusPort, BusSpec, SharedBus};
pub use slowed::SlowedClock;
pub use spec::{
    AGE_LIMIT_MAX, Arm, CYLINDERS_MAX, Choosing, Discipline, MOVE_MAX, Mapping, Overheads,
    PERIOD_MAX, PERIOD_MIN, QUEUE_DEPTH_MAX, ReadBuffer, Remap, SECTORS_PER_TRACK_MAX,
    SEGMENTS_MAX, SURFACES_MAX, SeekCurve, Skip, Spec, ZONES_MAX, Zone,
};
pub use write_buffer::{DESTAGE_OLDEST_EVERY, DESTAGE_SECTORS_MAX, DIRTY_EXTENTS_MAX};
