//! A drive model with data behind it: the model determines the completion times.

pub(crate) mod store;

use units::{Extent, Instant, Op, Operation, Sectors, Share};

use crate::disk::{Allocation, Completion, Disk, Failure, Job, ServiceTimes, Tag};
use crate::emulated::store::Store;
use drive::Parts;

/// An emulated disk. Its data is transferred when the completion is reaped.
pub struct EmulatedDisk {
    device: drive::AnyDevice,
    store: Box<dyn Store>,
    running: Vec<Job>,
    /// Of a mechanical drive. A flash drive's commands overlap, and their times add up to no time
    /// of the drive.
    times: Option<ServiceTimes>,
    /// Of the command that was reaped last.
    parts: Option<Parts>,
}

impl EmulatedDisk {
    /// An idle disk of this model, with its data in `store`.
    pub fn new(model: drive::AnyModel, store: Box<dyn Store>) -> Self {
        let times = model.mechanical().map(|_| ServiceTimes::default());
        Self {
            device: drive::AnyDevice::new(model),
            store,
            running: Vec::new(),
            times,
            parts: None,
        }
    }

    /// The same disk, idle, with every service time of its drive divided by `share`.
    ///
    /// # Panics
    /// If the share is zero.
    #[must_use]
    pub fn slowed(self, share: Share) -> Self {
        Self { device: self.device.slowed(share), ..self }
    }

    /// The same disk, idle, behind `bus`: what it transfers waits for what the other disks on the
    /// bus transfer, in the order in which the disks are called.
    #[must_use]
    pub fn on_bus(self, bus: drive::SharedBus) -> Self {
        Self { device: self.device.on_bus(bus), ..self }
    }

    fn transfer(&mut self, job: &mut Job) -> Result<(), Failure> {
        let Operation { op, extent, fua } = job.operation;
        match op {
            Op::Read => self.store.read_parts(extent, &mut job.data)?,
            Op::Write => self.store.write_parts(extent, &job.data)?,
            Op::WriteZeroes if job.no_hole => self.store.write_zeroes(extent)?,
            Op::WriteZeroes | Op::Trim => self.store.deallocate(extent)?,
            Op::Flush => self.store.sync()?,
            Op::Seek => {}
        }
        if fua && op.writes() {
            self.store.sync()?;
        }
        Ok(())
    }
}

impl Disk for EmulatedDisk {
    fn capacity(&self) -> Sectors {
        self.device.capacity()
    }

    fn submit(&mut self, job: Job, now: Instant) {
        assert!(job.data.fit(job.operation), "a write brings its data, nothing else brings any");
        self.device.submit(now, drive::Tag(job.tag.0), job.operation);
        self.running.push(job);
    }

    fn next_event(&self) -> Option<Instant> {
        self.device.next_completion()
    }

    fn reap(&mut self, now: Instant) -> Option<Completion> {
        let done = self.device.complete(now)?;
        if let Some(times) = &mut self.times {
            times.overhead += done.parts.overhead;
            times.seek += done.parts.seek;
            times.rotation += done.parts.rotation;
            times.transfer += done.parts.transfer;
        }
        self.parts = Some(done.parts);
        let tag = Tag(done.tag.0);
        let place = self.running.iter().position(|job| job.tag == tag);
        let mut job = self.running.swap_remove(place.expect("a job that is done was submitted"));
        let result = self.transfer(&mut job);
        Some(Completion { tag, result, data: job.data, delay: Some(now.since(done.at)) })
    }

    fn allocation(&mut self, extent: Extent) -> Option<(Allocation, Sectors)> {
        Some(self.store.allocation(extent))
    }

    fn read_blocking(&mut self, extent: Extent) -> Result<Vec<u8>, Failure> {
        assert!(extent.end().0 <= self.capacity().0, "the extent lies inside the disk");
        let mut data = vec![0; extent.len.bytes_usize()];
        self.store.read(extent, &mut data)?;
        Ok(data)
    }

    fn parts(&self) -> Option<Parts> {
        self.parts
    }

    fn times(&self) -> Option<ServiceTimes> {
        self.times
    }
}

#[cfg(test)]
mod tests {
    use units::{Lba, Sectors};

    use super::*;
    use crate::buffers::Buffers;
    use crate::emulated::store::RamStore;

    #[test]
    fn a_slowed_disk_takes_twice_as_long() {
        let read = |share| {
            let spec = drive_library::find("hgst-7k8").expect("it is in the library");
            let model = spec.check().expect("it is sound");
            let disk = EmulatedDisk::new(model, Box::new(RamStore::default()));
            let mut disk = disk.slowed(share);
            let operation = Operation::read(Extent::new(Lba(1 << 30), Sectors(8)));
            let (tag, data, no_hole) = (Tag(1), Buffers::default(), false);
            disk.submit(Job { tag, operation, data, no_hole }, Instant::ZERO);
            let end = disk.next_event().expect("a command is in the drive");
            assert!(disk.reap(end).is_some_and(|done| done.result.is_ok()));
            let parts = disk.parts().expect("it is a mechanical drive").sum();
            assert_eq!(parts, end.since(Instant::ZERO));
            parts
        };
        assert_eq!(read(Share::from_percent(50)), read(Share::ALL) * 2);
    }

    #[test]
    fn what_a_disk_holds_can_be_looked_at_before_it_is_served() {
        let mut store = RamStore::default();
        let label = Extent::new(Lba(8), Sectors(2));
        store.write(label, &[7; 1024]).expect("there is space");
        let spec = drive_library::find("barracuda-2t").expect("it is in the library");
        let mut disk = EmulatedDisk::new(spec.check().expect("it is sound"), Box::new(store));
        assert_eq!(disk.read_blocking(label), Ok(vec![7; 1024]));
        assert_eq!(disk.next_event(), None, "it was no command");
        let end = Extent::new(Lba(disk.capacity().0 - 1), Sectors(1));
        assert_eq!(disk.read_blocking(end), Ok(vec![0; 512]));
    }
}
