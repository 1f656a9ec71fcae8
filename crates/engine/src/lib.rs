//! One disk's brain: contracts, accounting, admission, policies. (Modules in progress.)

mod admission;
mod contract;

pub use admission::{Admission, Refusal};
pub use contract::{Contract, PolicyName, UnknownPolicy, VolumeId};
