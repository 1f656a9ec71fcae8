//! A drive of any kind, for callers that need not distinguish them: mechanical, flash, or
//! unmeasured; slowed, and behind a shared bus.

use std::sync::Arc;

use units::{Duration, Instant, Operation, Sectors, Share};

use crate::completion::{Done, Tag};
use crate::flash::{FlashDevice, FlashModel, FlashSpec};
use crate::shared_bus::{BusPort, SharedBus};
use crate::slowed::SlowedClock;
use crate::{Device, Model, Spec, SpecError};

/// A description of a drive of either kind. Unchecked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnySpec {
    /// Disks and an arm.
    Mechanical(Box<Spec>),
    /// Dies and channels.
    Flash(Box<FlashSpec>),
}

impl AnySpec {
    /// Checks the description and builds the model.
    ///
    /// # Errors
    /// Says which field is wrong and what would be accepted.
    pub fn check(self) -> Result<AnyModel, SpecError> {
        Ok(match self {
            Self::Mechanical(spec) => AnyModel::Mechanical(Arc::new(spec.check()?)),
            Self::Flash(spec) => AnyModel::Flash(Arc::new(spec.check()?)),
        })
    }
}

/// A checked drive of either kind, shared between devices.
#[derive(Clone, Debug)]
pub enum AnyModel {
    /// Disks and an arm.
    Mechanical(Arc<Model>),
    /// Dies and channels.
    Flash(Arc<FlashModel>),
    /// A real drive without a profile.
    Unknown(Unmeasured),
}

/// The known properties of a real drive without a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmeasured {
    /// Addresses on it.
    pub capacity: Sectors,
    /// Whether it reports that it is rotational: then sectors close to each other are read faster.
    pub rotational: bool,
    /// Commands that it holds at once, at least one.
    pub queue_depth_max: u32,
}

impl AnyModel {
    /// Whether sectors close to each other are read faster.
    pub const fn rotational(&self) -> bool {
        match self {
            Self::Mechanical(_) => true,
            Self::Flash(_) => false,
            Self::Unknown(drive) => drive.rotational,
        }
    }

    /// Addresses on the drive.
    pub fn capacity(&self) -> Sectors {
        match self {
            Self::Mechanical(model) => model.capacity(),
            Self::Flash(model) => model.capacity(),
            Self::Unknown(drive) => drive.capacity,
        }
    }

    /// Commands that it holds at once.
    pub fn queue_depth_max(&self) -> u32 {
        match self {
            Self::Mechanical(model) => model.queue_depth_max(),
            Self::Flash(model) => model.queue_depth_max(),
            Self::Unknown(drive) => drive.queue_depth_max,
        }
    }

    /// The model, if it is a mechanical drive.
    pub const fn mechanical(&self) -> Option<&Arc<Model>> {
        match self {
            Self::Mechanical(model) => Some(model),
            Self::Flash(_) | Self::Unknown(_) => None,
        }
    }

    /// The model, if it is a flash drive.
    pub const fn flash(&self) -> Option<&Arc<FlashModel>> {
        match self {
            Self::Mechanical(_) | Self::Unknown(_) => None,
            Self::Flash(model) => Some(model),
        }
    }
}

impl From<Arc<Model>> for AnyModel {
    fn from(model: Arc<Model>) -> Self {
        Self::Mechanical(model)
    }
}

impl From<Arc<FlashModel>> for AnyModel {
    fn from(model: Arc<FlashModel>) -> Self {
        Self::Flash(model)
    }
}

/// One drive of either kind, with all its state.
#[derive(Clone, Debug)]
pub enum AnyDevice {
    /// Disks and an arm.
    Mechanical(Device),
    /// Dies and channels.
    Flash(FlashDevice),
    /// A drive of either kind whose time runs at a share of wall time.
    Slowed(Box<AnyDevice>, SlowedClock),
    /// A drive of either kind behind a bus that it shares with others.
    OnBus(Box<AnyDevice>, Box<BusPort>),
}

impl AnyDevice {
    /// The drive at rest, its buffers empty, at time zero.
    ///
    /// # Panics
    /// If the drive has no model.
    pub fn new(model: AnyModel) -> Self {
        match model {
            AnyModel::Mechanical(model) => Self::Mechanical(Device::new(model)),
            AnyModel::Flash(model) => Self::Flash(FlashDevice::new(model)),
            AnyModel::Unknown(_) => panic!("a drive without a model is not emulated"),
        }
    }

    /// The same drive, idle, with every service time divided by `share`: it runs at this share of
    /// its speed. At the whole it is the drive itself.
    ///
    /// # Panics
    /// If the share is zero.
    #[must_use]
    pub fn slowed(self, share: Share) -> Self {
        if share == Share::ALL {
            return self;
        }
        Self::Slowed(Box::new(self), SlowedClock::new(share))
    }

    /// The same drive, idle, behind `bus`.
    #[must_use]
    pub fn on_bus(self, bus: SharedBus) -> Self {
        let port = BusPort::new(bus, self.revolution());
        Self::OnBus(Box::new(self), Box::new(port))
    }

    /// The time of a revolution; `None` if nothing turns.
    fn revolution(&self) -> Option<Duration> {
        match self {
            Self::Mechanical(device) => Some(device.model().period()),
            Self::Flash(_) => None,
            Self::Slowed(device, clock) => device.revolution().map(|time| clock.stretched(time)),
            Self::OnBus(device, _) => device.revolution(),
        }
    }

    /// The completion of the command in service, where that is known from its beginning on.
    fn in_service(&self) -> Option<Done> {
        match self {
            Self::Mechanical(device) => device.in_service(),
            Self::Flash(_) | Self::OnBus(..) => None,
            Self::Slowed(device, clock) => device.in_service().map(|done| clock.expected(done)),
        }
    }

    /// The same drive with its random variation (of arm movements) seeded with `seed` instead of
    /// zero.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        match self {
            Self::Mechanical(device) => Self::Mechanical(device.with_seed(seed)),
            Self::Flash(_) => self,
            Self::Slowed(device, clock) => Self::Slowed(Box::new(device.with_seed(seed)), clock),
            Self::OnBus(device, port) => Self::OnBus(Box::new(device.with_seed(seed)), port),
        }
    }

    /// Addresses on the drive.
    pub fn capacity(&self) -> Sectors {
        match self {
            Self::Mechanical(device) => device.capacity(),
            Self::Flash(device) => device.capacity(),
            Self::Slowed(device, _) | Self::OnBus(device, _) => device.capacity(),
        }
    }

    /// Takes in a command.
    ///
    /// # Panics
    /// As [`Device::submit`] and [`FlashDevice::submit`].
    pub fn submit(&mut self, now: Instant, tag: Tag, operation: Operation) {
        match self {
            Self::Mechanical(device) => device.submit(now, tag, operation),
            Self::Flash(device) => device.submit(now, tag, operation),
            Self::Slowed(device, clock) => {
                device.submit(clock.submitted(now, tag), tag, operation);
            }
            Self::OnBus(device, port) => {
                device.submit(now, tag, operation);
                port.submitted(now, tag, &operation);
                port.follow(device, now);
            }
        }
    }

    /// The next instant at which [`AnyDevice::complete`] may return a command; `None` without
    /// commands.
    pub fn next_completion(&self) -> Option<Instant> {
        match self {
            Self::Mechanical(device) => device.next_completion(),
            Self::Flash(device) => device.next_completion(),
            Self::Slowed(device, clock) => device.next_completion().map(|at| clock.wall_time(at)),
            Self::OnBus(device, port) => {
                device.next_completion().into_iter().chain(port.next_event()).min()
            }
        }
    }

    /// Takes out a command that is done at `now`, if there is one.
    ///
    /// # Panics
    /// If time runs backwards.
    pub fn complete(&mut self, now: Instant) -> Option<Done> {
        match self {
            Self::Mechanical(device) => device.complete(now),
            Self::Flash(device) => device.complete(now),
            Self::Slowed(device, clock) => {
                device.complete(clock.model_time(now)).map(|done| clock.completed(done))
            }
            Self::OnBus(device, port) => {
                port.follow(device, now);
                port.complete(now)
            }
        }
    }
}

impl BusPort {
    /// Takes over what the drive has done until `now`, and grants what it asked for until then.
    fn follow(&mut self, device: &mut AnyDevice, now: Instant) {
        loop {
            if let Some(done) = device.in_service() {
                self.in_service(&done);
            }
            let Some(done) = device.complete(now) else { break };
            self.device_done(done);
        }
        self.advance(now);
    }
}
