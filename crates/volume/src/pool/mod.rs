//! Pools: disks that hold volumes, and the metadata that say which block is whose.
//!
//! A [`Pool`] is a state machine: [`Operation`]s come in, [`PoolOutput`]s say what to do to which disk, and nothing of it reads
//! a disk or a clock. [`find`] puts a pool together from its disks again. What lies where on them: [`mod@format`].
//!
//! Clockwise's dynamic partitions (RTAS 2000, §2) are the volumes here: ordered lists of 1 MiB blocks over one or more
//! disks, which grow, shrink and are laid elsewhere while they are used.

mod change;
mod codec;
mod commit;
mod error;
pub mod flow;
pub mod format;
mod fsck;
mod image;
pub mod limits;
mod machine;
mod names;
mod operation;
mod placement;
mod recover;
mod runs;
mod script;
mod space;
mod state;
mod status;

pub use change::Change;
pub use codec::Malformed;
pub use error::{Damage, Finding, OpenError, Refusal};
pub use flow::Flow;
pub use fsck::{Report, check};
pub use machine::{Failure, OperationId, Pool, PoolOutput};
pub use names::{BlockExtent, Blocks, DiskUid, Layout, PoolUid, PoolVolumeId, VolumeBlock, Zone};
pub use operation::{NewVolume, Operation};
pub use recover::{FoundPool, Media, Unreadable, find};
pub use runs::{ExtentMap, Mapping};
pub use script::{Action, StepId};
pub use state::{Disk, MappedExtent, Overlap, State, Volume};
pub use status::{Status, Writability};
