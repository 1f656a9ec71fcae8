//! The guest's memory, as the virtual machine monitor shares it.
//!
//! Invariant: every region is mapped from a file that was as long as the region when it was mapped.

use std::fs::File;
use std::sync::Arc;

use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap};

use crate::limits::MEMORY_REGIONS_MAX;

/// A region that cannot be mapped, or too many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unmappable;

/// A region in the addresses of the virtual machine monitor.
#[derive(Clone, Copy, Debug)]
struct Window {
    user: u64,
    guest: u64,
    len: u64,
}

/// The guest's memory. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct SharedMemory {
    memory: Arc<GuestMemoryMmap>,
    /// By guest address.
    windows: Vec<Window>,
}

impl SharedMemory {
    /// Maps all regions.
    pub(crate) fn map(
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
    ) -> Result<Self, Unmappable> {
        if regions.len() != files.len() || regions.len() > MEMORY_REGIONS_MAX {
            return Err(Unmappable);
        }
        let mut all: Vec<_> = regions.iter().zip(files).collect();
        all.sort_by_key(|(region, _)| region.guest_phys_addr);
        let windows = all.iter().map(|(region, _)| window(region)).collect();
        let mapped = all.into_iter().map(|(region, file)| map(region, file));
        let mapped = mapped.collect::<Result<Vec<_>, _>>()?;
        let memory = GuestMemoryMmap::from_regions(mapped).map_err(|_| Unmappable)?;
        Ok(Self { memory: Arc::new(memory), windows })
    }

    /// The same with one more region.
    pub(crate) fn with(
        before: Option<&Self>,
        region: &VhostUserMemoryRegion,
        file: File,
    ) -> Result<Self, Unmappable> {
        let Some(before) = before else {
            return Self::map(std::slice::from_ref(region), vec![file]);
        };
        if before.windows.len() >= MEMORY_REGIONS_MAX {
            return Err(Unmappable);
        }
        let mapped = Arc::new(map(region, file)?);
        let memory = before.memory.insert_region(mapped).map_err(|_| Unmappable)?;
        let windows = before.windows.iter().copied().chain([window(region)]).collect();
        Ok(Self { memory: Arc::new(memory), windows })
    }

    /// The same without a region.
    pub(crate) fn without(&self, region: &VhostUserMemoryRegion) -> Result<Self, Unmappable> {
        let base = GuestAddress(region.guest_phys_addr);
        let left = self.memory.remove_region(base, region.memory_size);
        let (memory, _) = left.map_err(|_| Unmappable)?;
        let mut windows = self.windows.clone();
        windows.retain(|window| window.guest != region.guest_phys_addr);
        Ok(Self { memory: Arc::new(memory), windows })
    }

    /// The memory.
    pub(crate) const fn memory(&self) -> &Arc<GuestMemoryMmap> {
        &self.memory
    }

    /// The guest's address of an address of the virtual machine monitor.
    pub(crate) fn guest_address(&self, user: u64) -> Option<GuestAddress> {
        let mut windows = self.windows.iter();
        let window = windows.find(|window| user.wrapping_sub(window.user) < window.len)?;
        Some(GuestAddress(window.guest + (user - window.user)))
    }
}

const fn window(region: &VhostUserMemoryRegion) -> Window {
    Window { user: region.user_addr, guest: region.guest_phys_addr, len: region.memory_size }
}

/// Whether a file has `len` bytes from `offset` on. Memory that is mapped behind the end of its
/// file cannot be touched.
pub(crate) fn has_bytes(file: &File, offset: u64, len: u64) -> bool {
    let end = offset.checked_add(len);
    file.metadata().is_ok_and(|found| end.is_some_and(|end| end <= found.len()))
}

fn map(region: &VhostUserMemoryRegion, file: File) -> Result<GuestRegionMmap, Unmappable> {
    let len = usize::try_from(region.memory_size).map_err(|_| Unmappable)?;
    if !has_bytes(&file, region.mmap_offset, region.memory_size) {
        return Err(Unmappable);
    }
    let file = FileOffset::new(file, region.mmap_offset);
    let base = GuestAddress(region.guest_phys_addr);
    GuestRegionMmap::from_range(base, len, Some(file)).map_err(|_| Unmappable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(len: u64) -> File {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(len).expect("room");
        file
    }

    const fn region(guest: u64, len: u64, user: u64) -> VhostUserMemoryRegion {
        VhostUserMemoryRegion {
            guest_phys_addr: guest,
            memory_size: len,
            user_addr: user,
            mmap_offset: 0,
        }
    }

    #[test]
    fn addresses_of_the_monitor_are_found_in_whatever_order_the_regions_come() {
        let high = region(0x10_0000, 0x2000, 0x7000_0000);
        let low = region(0, 0x1000, 0x9000_0000);
        let mapped = SharedMemory::map(&[high, low], vec![file(0x2000), file(0x1000)]);
        let mapped = mapped.expect("both can be mapped");
        let found = |user| mapped.guest_address(user).map(|address| address.0);
        assert_eq!(found(0x7000_1fff), Some(0x10_1fff));
        assert_eq!(found(0x9000_0000), Some(0));
        assert_eq!((found(0x7000_2000), found(0x6fff_ffff)), (None, None));
        let less = mapped.without(&low).expect("it is there");
        assert_eq!(less.guest_address(0x9000_0000), None);
        let more = SharedMemory::with(Some(&less), &low, file(0x1000)).expect("it fits again");
        assert_eq!(more.guest_address(0x9000_0010), Some(GuestAddress(0x10)));
    }

    #[test]
    fn a_file_shorter_than_its_region_and_overlapping_regions_are_refused() {
        let one = region(0, 0x2000, 0x7000_0000);
        assert!(SharedMemory::map(&[one], vec![file(0x1000)]).is_err());
        assert!(SharedMemory::map(&[one], Vec::new()).is_err());
        assert!(SharedMemory::map(&[one, one], vec![file(0x2000), file(0x2000)]).is_err());
        let all = vec![one; MEMORY_REGIONS_MAX + 1];
        let files = all.iter().map(|_| file(1)).collect();
        assert!(SharedMemory::map(&all, files).is_err());
    }
}
