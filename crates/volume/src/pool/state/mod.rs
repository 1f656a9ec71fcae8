//! A pool's metadata as values, and the changes that they go through.

pub(super) mod apply;
pub(super) mod block_set;
pub(super) mod change;
pub(super) mod extent_map;
pub(super) mod metadata;
pub(super) mod scrub;
pub(super) mod volume;
