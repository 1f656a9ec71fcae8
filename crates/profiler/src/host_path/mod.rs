pub(crate) mod idle_latency;
pub(crate) mod latency;
