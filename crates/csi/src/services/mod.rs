//! The three services of the driver.

pub(crate) mod capacity;
pub(crate) mod central;
pub(crate) mod controller;
pub(crate) mod health;
pub(crate) mod identity;
pub(crate) mod node;
pub(crate) mod pages;
pub(crate) mod snapshots;
pub(crate) mod volumes;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::blocking::InProgress;
use crate::daemon::Daemon;
use crate::node::NodeVolumes;
use crate::proto::{Topology, TopologyRequirement};

/// The key of the topology: a volume is of one node.
pub(crate) const NODE_KEY: &str = "topology.csi.spindle.io/node";

/// What the services work on.
#[derive(Clone, Debug)]
pub(crate) struct Driver {
    /// The name of this node.
    pub(crate) node: String,
    pub(crate) daemon: Daemon,
    pub(crate) volumes: Arc<NodeVolumes>,
    pub(crate) in_progress: InProgress,
}

impl Driver {
    /// The topology of this node.
    pub(crate) fn topology(&self) -> Topology {
        Topology { segments: BTreeMap::from([(NODE_KEY.to_owned(), self.node.clone())]) }
    }

    /// Whether this is the topology of this node.
    pub(crate) fn is_here(&self, topology: &Topology) -> bool {
        topology.segments.get(NODE_KEY).is_none_or(|node| *node == self.node)
    }

    /// Whether a requirement can be met on this node.
    pub(crate) fn meets(&self, requirement: Option<&TopologyRequirement>) -> bool {
        requirement.is_none_or(|one| {
            one.requisite.is_empty() || one.requisite.iter().any(|topology| self.is_here(topology))
        })
    }
}
