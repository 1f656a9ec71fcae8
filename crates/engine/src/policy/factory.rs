//! The one place that makes policies.

use units::Instant;

use super::deadline::Deadline;
use super::fcfs::Fcfs;
use super::interface::Policy;
use super::spindle::Spindle;
use super::throughput::Throughput;
use super::utilization::Utilization;
use crate::{PolicyName, Settings};

/// The policy that `settings` name.
pub(crate) fn make(settings: &Settings, now: Instant) -> Box<dyn Policy> {
    match settings.policy {
        PolicyName::Fcfs => Box::new(Fcfs::default()),
        PolicyName::Throughput => Box::new(Throughput::new(settings, now)),
        PolicyName::Utilization => Box::new(Utilization::new(settings, now)),
        PolicyName::Spindle => Box::new(Spindle::new(settings, now)),
        PolicyName::Edf | PolicyName::Lst | PolicyName::DeltaL | PolicyName::DeltaStar => {
            Box::new(Deadline::new(settings, now))
        }
    }
}
