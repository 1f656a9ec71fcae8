//! The resources of the API, each with its JSON, its routes and its conversions from the daemon's
//! types. Quantities that a client sets are strings as in the config; measured quantities are
//! numbers in the unit of the field's name.

pub(crate) mod admission;
pub(crate) mod contract;
pub(crate) mod contract_text;
pub(crate) mod disk;
pub(crate) mod events;
pub(crate) mod latency;
pub(crate) mod pool;
pub(crate) mod pool_checksums;
pub(crate) mod pool_disk;
pub(crate) mod pool_scrub;
pub(crate) mod promises;
pub(crate) mod session;
pub(crate) mod stream;
pub(crate) mod trace;
pub(crate) mod volume;
pub(crate) mod volume_spec;
pub(crate) mod write_cache;
