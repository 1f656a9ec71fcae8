pub(crate) mod detection;
pub(crate) mod measure;
pub(crate) mod period;
pub(crate) mod tracker;
