//! The header: the initial state of an engine, in the first block of a record.

use std::sync::Arc;

use drive_profile::{
    Band, BufferSegments, BusShare, CommandOverheads, Extremes, HeadOrder, Profile, SeekTable, Skew,
};
use engine::stream::SlackRange;
use engine::{
    Approach, BestEffortServer, Charging, ChooserName, CommandBound, Deadlines, DeferredWrites,
    DriveTable, Engine, Estimates, EstimatorName, Execution, ForcedWrites, FreePrefetch, Jit,
    Preemptible, SeekSplit, Settings, StoreRate,
};
use units::Instant;

use crate::code::{Coded, FormatError, Source, choices, fields};

/// The first bytes of a record.
pub const MAGIC: [u8; 8] = *b"SPFLIGHT";
/// The version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 11;

/// The initial state of one disk's engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version of the program. Another version may decide differently.
    pub program: String,
    /// The disk's name.
    pub disk: String,
    /// The text of the daemon's config, for people. The engine is made of the fields below.
    pub config: String,
    /// The settings of the disk's scheduler.
    pub settings: Settings,
    /// The drive profile that the engine was given, if any.
    pub profile: Option<Arc<Profile>>,
    /// The time at which the engine was made.
    pub started_at: Instant,
}

fields! {
    Header { program, disk, config, settings, profile, started_at }
    Settings {
        policy, depth, charging, period, batch, linger, deferred_writes, estimates, headroom,
        nominal_cost, command_max, chooser, freeblock, forced_writes, execution,
        deadlines,
    }
    DeferredWrites { sequential, random }
    StoreRate { time, sectors }
    Deadlines { worst, preemption, slack_range, best_effort }
    BestEffortServer { share, period }
    CommandBound { positioning, sector }
    Estimates { sequential, random, estimator, table }
    DriveTable { positioning, zones, hit, bus_sector }
    Preemptible { chunk, jit, seek_split, free_prefetch, preempt_writes }
    Jit { offset, approach }
    Profile {
        rotation_period, rotation_error_ppb, surfaces, cylinders, bands, seek, seek_write,
        seek_variation, head_switch, write_settle,
        overheads, bus_sector, completion, seek_command, write_cache, read_buffer, extremes,
    }
    CommandOverheads { hit, read, cached, write, seek }
    BufferSegments { segments, segment, read_ahead, read_ahead_max }
    Band {
        lbas, first_sector, first_cylinder, sectors_per_track, track_skew, cylinder_skew,
        first_angle, heads, chunk_read,
        chunk_write,
    }
    SeekTable { points }
    Extremes { command, bus_sector_write, read_share, write_ahead, detours, bus }
    BusShare { disks, sector, burst }
}

choices! {
    FreePrefetch as "a prefetch" {
        FreePrefetch::Off, FreePrefetch::ToDrive, FreePrefetch::ToHost,
    }
    EstimatorName as "an estimator" {
        EstimatorName::Constants, EstimatorName::Profile, EstimatorName::Learned,
    }
    ForcedWrites as "a way of forced writes" {
        ForcedWrites::Fua, ForcedWrites::FlushedInPairs, ForcedWrites::FlushedTogether,
    }
    Charging as "a division of busy time" {
        Charging::EqualParts, Charging::Completions, Charging::ByLength,
    }
    ChooserName as "a chooser" {
        ChooserName::Arrival, ChooserName::Sweep, ChooserName::Predicted,
    }
    SlackRange as "a range of intervals" { SlackRange::All, SlackRange::Published }
    Approach as "an approach" {
        Approach::InTime, Approach::Ahead, Approach::ShortRead, Approach::Transfer,
        Approach::Published,
    }
    HeadOrder as "an order of heads" { HeadOrder::Up, HeadOrder::UpOnEven, HeadOrder::DownOnEven }
}

impl Coded for Skew {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        u64::take(from).map(Self)
    }
}

impl Coded for SeekSplit {
    fn put(&self, to: &mut Vec<u8>) {
        let always = match self {
            Self::Hidden => None,
            Self::Always(cylinders) => Some(*cylinders),
        };
        always.put(to);
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        let always: Option<u32> = Coded::take(from)?;
        Ok(always.map_or(Self::Hidden, Self::Always))
    }
}

impl Coded for Execution {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Self::Whole { split } => {
                false.put(to);
                split.put(to);
            }
            Self::Preemptible(how) => {
                true.put(to);
                how.put(to);
            }
        }
    }
    fn take(from: &mut Source<'_>) -> Result<Self, FormatError> {
        if bool::take(from)? {
            return Preemptible::take(from).map(Self::Preemptible);
        }
        Ok(Self::Whole { split: Coded::take(from)? })
    }
}

impl Header {
    /// The engine in its initial state.
    ///
    /// # Errors
    /// The settings or the profile are invalid.
    pub fn engine(&self) -> Result<Engine, FormatError> {
        self.settings.check().map_err(FormatError)?;
        let engine = Engine::new(self.settings, self.started_at);
        let Some(profile) = &self.profile else { return Ok(engine) };
        profile.check().map_err(FormatError)?;
        Ok(engine.with_profile(Arc::clone(profile)))
    }
}
