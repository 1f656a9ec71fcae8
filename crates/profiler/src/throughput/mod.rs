pub(crate) mod chunks;
pub(crate) mod depth;
pub(crate) mod load;
pub(crate) mod rates;
pub(crate) mod service_times;
pub(crate) mod writes;
