pub(crate) mod firmware_policies;
pub(crate) mod hit_timing;
pub(crate) mod read_buffer;
pub(crate) mod write_buffer;
