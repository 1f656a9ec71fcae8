//! Finding a pool on its disks, and checking every copy of its metadata.

pub(super) mod check;
pub(super) mod error;
pub(super) mod search;
