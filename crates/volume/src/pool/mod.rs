//! Pools: disks that hold volumes, and the metadata that say which block is whose.
//!
//! A [`Pool`] is a state machine: [`Operation`]s come in, [`PoolOutput`]s say what to do to which
//! disk, and nothing of it reads a disk or a clock. [`find`] puts a pool together from its disks
//! again. What lies where on them: [`mod@format`].
//!
//! Clockwise's dynamic partitions (RTAS 2000, §2) are the volumes here: ordered lists of 1 MiB
//! blocks over one or more disks, which grow, shrink and are laid elsewhere while they are used.

pub mod flow;
pub mod format;
pub mod limits;
mod names;
mod operation;
mod recovery;
mod state;
pub mod sums;

pub use flow::Flow;
pub use format::codec::Malformed;
pub use names::{
    BlockExtent, Blocks, Copies, DiskUid, Layout, Percent, PoolUid, PoolVolumeId, VolumeBlock, Zone,
};
pub use operation::copies::Shortfall;
pub use operation::domains::Domains;
pub use operation::kinds::{NewVolume, Operation};
pub use operation::machine::{Failure, OperationId, Pool, PoolOutput};
pub use operation::refusal::Refusal;
pub use operation::script::{Action, StepId};
pub use operation::status::{Status, Writability};
pub use recovery::check::{Report, check};
pub use recovery::error::{Damage, Finding, OpenError};
pub use recovery::search::{FoundPool, Identity, Media, Unreadable, find, identify};
pub use state::block_set::BlockSet;
pub use state::change::Change;
pub use state::extent_map::{ExtentMap, Mapping};
pub use state::metadata::{Overlap, State};
pub use state::scrub::{ScrubPhase, ScrubRecord, UnixTime};
pub use state::volume::{Disk, MappedExtent, Volume};
