//! What this node can still promise to a class.

use std::collections::BTreeMap;

use api::VolumeSpec;
use tonic::Status;
use units::Bytes;

use super::Driver;
use crate::limits::SIZE_UNIT;
use crate::proto::{GetCapacityRequest, GetCapacityResponse};
use crate::size::signed;
use crate::{capabilities, class};

/// The name of a volume that exists only in a question.
const NAMELESS: &str = "(a volume of a class)";

impl Driver {
    /// The largest volume of a class that would be admitted now: none if the disks cannot keep its
    /// contract, however much of them is free.
    pub(super) fn capacity(
        &self,
        asked: &GetCapacityRequest,
    ) -> Result<GetCapacityResponse, Status> {
        let none = GetCapacityResponse {
            available_capacity: 0,
            maximum_volume_size: Some(0),
            ..Default::default()
        };
        let capabilities = &asked.volume_capabilities;
        if !capabilities.is_empty() && capabilities::check(capabilities).is_err() {
            return Ok(none);
        }
        if asked.accessible_topology.as_ref().is_some_and(|topology| !self.is_here(topology)) {
            return Ok(none);
        }
        let spec = class::volume(&asked.parameters, &BTreeMap::new())?;
        let spec = VolumeSpec {
            name: NAMELESS.to_owned(),
            size: format!("{}B", SIZE_UNIT.0),
            labels: None,
            ..spec
        };
        let said = self.daemon.admission(&spec)?;
        if !said.contract_fits.unwrap_or(said.fits) {
            return Ok(none);
        }
        let size = signed(Bytes(said.size_max_bytes));
        Ok(GetCapacityResponse {
            available_capacity: size,
            maximum_volume_size: Some(size),
            ..Default::default()
        })
    }
}
