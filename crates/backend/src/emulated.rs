//! A drive model with data behind it: the medium's delays, in the caller's time.

use units::{Extent, Instant, Op, Operation, Sectors};

use crate::{Disk, Failure, Finished, Job, Space, Store, Tag, Times};

/// An emulated disk. Its data moves at the moment in which the drive is done.
pub struct Emulated {
    device: drive::AnyDevice,
    store: Box<dyn Store>,
    running: Vec<Job>,
    /// Of a drive with an arm. Elsewhere commands overlap, and their times add up to no time of the drive's.
    times: Option<Times>,
}

impl Emulated {
    /// An idle disk of this model, with its data in `store`.
    pub fn new(model: drive::AnyModel, store: Box<dyn Store>) -> Self {
        let times = model.mechanical().map(|_| Times::default());
        Self { device: drive::AnyDevice::new(model), store, running: Vec::new(), times }
    }

    fn transfer(&mut self, job: &Job) -> Result<Vec<u8>, Failure> {
        let Operation { op, extent, fua } = job.operation;
        let moved = match op {
            Op::Read => self.read_now(extent)?,
            Op::Write => {
                self.store.write(extent, &job.data)?;
                Vec::new()
            }
            Op::Trim | Op::WriteZeroes => {
                let keep = op == Op::WriteZeroes && job.no_hole;
                if keep {
                    self.store.fill(extent)?;
                } else {
                    self.store.zero(extent)?;
                }
                Vec::new()
            }
            Op::Flush => {
                self.store.sync()?;
                Vec::new()
            }
            Op::Seek => Vec::new(),
        };
        if fua && op.writes() {
            self.store.sync()?;
        }
        Ok(moved)
    }
}

impl Disk for Emulated {
    fn capacity(&self) -> Sectors {
        self.device.capacity()
    }

    fn submit(&mut self, job: Job, now: Instant) {
        let writes = job.operation.op == Op::Write;
        let expected = if writes { job.operation.extent.len.bytes_usize() } else { 0 };
        assert_eq!(job.data.len(), expected, "a write brings its data, nothing else brings any");
        self.device.submit(now, drive::Tag(job.tag.0), job.operation);
        self.running.push(job);
    }

    fn next_event(&self) -> Option<Instant> {
        self.device.next_completion()
    }

    fn reap(&mut self, now: Instant) -> Option<Finished> {
        let done = self.device.complete(now)?;
        if let Some(times) = &mut self.times {
            times.overhead += done.parts.overhead;
            times.seek += done.parts.seek;
            times.rotation += done.parts.rotation;
            times.transfer += done.parts.transfer;
        }
        let tag = Tag(done.tag.0);
        let place = self.running.iter().position(|job| job.tag == tag);
        let job = self.running.swap_remove(place.expect("a job that is done was submitted"));
        Some(Finished { tag, result: self.transfer(&job), late: Some(now.since(done.at)) })
    }

    fn space(&mut self, extent: Extent) -> Option<(Space, Sectors)> {
        Some(self.store.space(extent))
    }

    fn read_now(&mut self, extent: Extent) -> Result<Vec<u8>, Failure> {
        assert!(extent.end().0 <= self.capacity().0, "the extent lies inside the disk");
        let mut data = vec![0; extent.len.bytes_usize()];
        self.store.read(extent, &mut data)?;
        Ok(data)
    }

    fn times(&self) -> Option<Times> {
        self.times
    }
}

#[cfg(test)]
mod tests {
    use units::{Lba, Sectors};

    use super::*;
    use crate::RamStore;

    #[test]
    fn what_a_disk_holds_can_be_looked_at_before_it_is_served() {
        let mut store = RamStore::default();
        let label = Extent::new(Lba(8), Sectors(2));
        store.write(label, &[7; 1024]).expect("there is space");
        let spec = config::drives::library_any("barracuda-2t").expect("it is in the library");
        let mut disk = Emulated::new(spec.check().expect("it is sound"), Box::new(store));
        assert_eq!(disk.read_now(label), Ok(vec![7; 1024]));
        assert_eq!(disk.next_event(), None, "it was no command");
        let end = Extent::new(Lba(disk.capacity().0 - 1), Sectors(1));
        assert_eq!(disk.read_now(end), Ok(vec![0; 512]));
    }
}
