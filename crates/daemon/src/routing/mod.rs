//! From exports to disks: the place of each volume's sectors, and the path of each request.

pub(crate) mod placement;
pub(crate) mod router;
pub(crate) mod routes;
