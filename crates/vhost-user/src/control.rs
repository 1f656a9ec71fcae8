//! The control messages of a virtual machine monitor.

use std::fs::File;
use std::sync::Arc;

use nbd::Export;
use rustix::fs::OFlags;
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};

use crate::config_space::{features, read_config};
use crate::device::{Device, State};
use crate::in_flight::{self, InFlightMemory};
use crate::limits::{MEMORY_REGIONS_MAX, QUEUE_SIZE_MAX, QUEUES_MAX};
use crate::memory::{SharedMemory, Unmappable};
use crate::ring::{Addresses, Ring, Unusable};

/// Answers the messages of one control socket.
#[derive(Debug)]
pub(crate) struct Control {
    device: Arc<Device>,
}

impl From<Unusable> for Error {
    fn from(_: Unusable) -> Self {
        Self::InvalidParam
    }
}

impl From<Unmappable> for Error {
    fn from(_: Unmappable) -> Self {
        Self::InvalidParam
    }
}

/// What this device does not do: nothing of it is offered.
const fn not_offered<T>() -> Result<T> {
    Err(Error::InvalidOperation("the feature was not offered"))
}

/// A descriptor to be written to by an event loop, which must not wait for it.
fn non_blocking(file: Option<File>) -> Result<Option<File>> {
    if let Some(file) = &file {
        let flags = rustix::fs::fcntl_getfl(file).map_err(std::io::Error::from);
        let flags = flags.map_err(Error::ReqHandlerError)? | OFlags::NONBLOCK;
        let set = rustix::fs::fcntl_setfl(file, flags).map_err(std::io::Error::from);
        set.map_err(Error::ReqHandlerError)?;
    }
    Ok(file)
}

fn index(index: impl Into<u64>) -> Result<usize> {
    let index = usize::try_from(index.into()).ok().filter(|index| *index < QUEUES_MAX);
    index.ok_or(Error::InvalidParam)
}

impl Control {
    pub(crate) const fn new(device: Arc<Device>) -> Self {
        Self { device }
    }

    /// Changes a queue that is not started.
    fn set_up(
        &self,
        at: impl Into<u64>,
        change: impl FnOnce(&mut Ring) -> core::result::Result<(), Unusable>,
    ) -> Result<()> {
        let ring = &mut self.device.state().rings[index(at)?];
        if ring.is_started() {
            return Err(Error::InvalidOperation("the queue is started"));
        }
        Ok(change(ring)?)
    }

    fn set_memory(
        &self,
        change: impl FnOnce(&State) -> core::result::Result<SharedMemory, Unmappable>,
    ) -> Result<()> {
        let mut state = self.device.state();
        let shared = change(&state)?;
        state.rings.iter_mut().for_each(|ring| ring.set_memory(&shared));
        state.memory = Some(shared);
        Ok(())
    }

    fn export(&self) -> Export {
        self.device.state().export.clone()
    }
}

impl VhostUserBackendReqHandlerMut for Control {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.device.stop_rings();
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(features(&self.export()))
    }

    fn set_features(&mut self, chosen: u64) -> Result<()> {
        if chosen & !features(&self.export()) != 0 {
            return Err(Error::InvalidParam);
        }
        self.device.state().features = chosen;
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::BACKEND_REQ
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(QUEUES_MAX as u64)
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        self.set_memory(|_| SharedMemory::map(regions, files))?;
        Ok(None)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(MEMORY_REGIONS_MAX as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        self.set_memory(|state| SharedMemory::with(state.memory.as_ref(), region, file))?;
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        self.set_memory(|state| state.memory.as_ref().ok_or(Unmappable)?.without(region))
    }

    fn set_vring_num(&mut self, index: u32, size: u32) -> Result<()> {
        self.set_up(index, |ring| ring.set_size(size))
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        self.set_up(index, |ring| {
            ring.set_addresses(Addresses { descriptors, available, used });
            Ok(())
        })
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.set_up(index, |ring| ring.set_base(base))
    }

    fn get_vring_base(&mut self, at: u32) -> Result<VhostUserVringState> {
        let ring = index(at)?;
        self.device.stop_ring(ring);
        let base = self.device.state().rings[ring].base();
        Ok(VhostUserVringState::new(at, base.into()))
    }

    fn set_vring_kick(&mut self, at: u8, file: Option<File>) -> Result<()> {
        let ring = index(at)?;
        let mut state = self.device.state();
        if state.rings[ring].is_started() {
            return Err(Error::InvalidOperation("the queue is started"));
        }
        state.rings[ring].kick = non_blocking(file)?;
        Ok(state.start_ring(ring)?)
    }

    fn set_vring_call(&mut self, at: u8, file: Option<File>) -> Result<()> {
        self.device.state().rings[index(at)?].call = non_blocking(file)?;
        Ok(())
    }

    fn set_vring_err(&mut self, at: u8, _file: Option<File>) -> Result<()> {
        index(at).map(drop)
    }

    fn set_vring_enable(&mut self, at: u32, enable: bool) -> Result<()> {
        let ring = &mut self.device.state().rings[index(at)?];
        ring.enabled = enable;
        ring.wake();
        Ok(())
    }

    fn get_config(
        &mut self,
        offset: u32,
        size: u32,
        _flags: VhostUserConfigFlags,
    ) -> Result<Vec<u8>> {
        let offset = usize::try_from(offset).map_err(|_| Error::InvalidParam)?;
        let size = usize::try_from(size).map_err(|_| Error::InvalidParam)?;
        Ok(read_config(&self.export(), offset, size))
    }

    fn set_config(&mut self, _at: u32, _bytes: &[u8], _flags: VhostUserConfigFlags) -> Result<()> {
        not_offered()
    }

    fn get_inflight_fd(&mut self, wanted: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let (queues, size) = sizes(wanted)?;
        let created = in_flight::create(queues, size).map_err(Error::ReqHandlerError);
        let (file, bytes) = created?;
        let made = VhostUserInflight::new(bytes as u64, 0, wanted.num_queues, size);
        Ok((made, file))
    }

    fn set_inflight_fd(&mut self, given: &VhostUserInflight, file: File) -> Result<()> {
        let bytes = usize::try_from(given.mmap_size).map_err(|_| Error::InvalidParam)?;
        let mapped = InFlightMemory::map(file, (given.mmap_offset, bytes), sizes(given)?);
        self.device.state().in_flight = Some(mapped.map_err(Error::ReqHandlerError)?);
        Ok(())
    }

    fn set_gpu_socket(&mut self, _socket: GpuBackend) -> Result<()> {
        not_offered()
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        not_offered()
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _file: File,
    ) -> Result<Option<File>> {
        not_offered()
    }

    fn check_device_state(&mut self) -> Result<()> {
        not_offered()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        not_offered()
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        not_offered()
    }
}

/// The queues and their size, within the limits.
fn sizes(given: &VhostUserInflight) -> Result<(usize, u16)> {
    let (queues, size) = (usize::from(given.num_queues), given.queue_size);
    let allowed = (1..=QUEUES_MAX).contains(&queues) && (1..=QUEUE_SIZE_MAX).contains(&size);
    allowed.then_some((queues, size)).ok_or(Error::InvalidParam)
}
