pub(crate) mod overheads;
pub(crate) mod prediction;
pub(crate) mod prober;
pub(crate) mod residual_map;
pub(crate) mod seeks;
pub(crate) mod write_seeks;
