//! Addresses and lengths on a disk.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// Bytes in a sector: the unit of every [`Lba`] and [`Sectors`], whatever the disk's physical
/// sector is.
pub const SECTOR_BYTES: u64 = 512;

/// A logical block address: the number of a 512-byte sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

/// A count of 512-byte sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sectors(pub u64);

/// A count of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A run of sectors: `len` of them from `start` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// The first sector.
    pub start: Lba,
    /// How many there are.
    pub len: Sectors,
}

impl Extent {
    /// The run of `len` sectors from `start` on.
    pub const fn new(start: Lba, len: Sectors) -> Self {
        Self { start, len }
    }

    /// The first sector after the run.
    ///
    /// # Panics
    /// If the run exceeds the address space: the caller checks runs from outside.
    pub fn end(self) -> Lba {
        self.start + self.len
    }

    /// Whether the run is empty.
    pub const fn is_empty(self) -> bool {
        self.len.0 == 0
    }

    /// Whether `other` lies wholly inside; never for a run that passes the end of the address
    /// space.
    pub fn contains(self, other: Self) -> bool {
        let Some(end) = other.start.0.checked_add(other.len.0) else { return false };
        self.start <= other.start && end <= self.start.0 + self.len.0
    }

    /// The first `len` sectors and the rest, either of them perhaps empty.
    #[must_use]
    pub fn split_at(self, len: Sectors) -> (Self, Self) {
        let head = Sectors(self.len.0.min(len.0));
        (Self::new(self.start, head), Self::new(self.start + head, self.len - head))
    }
}

impl Lba {
    /// How far apart two sectors lie, in either direction.
    pub const fn distance(self, other: Self) -> Sectors {
        Sectors(self.0.abs_diff(other.0))
    }
}

impl Sectors {
    /// None at all.
    pub const ZERO: Self = Self(0);

    /// Their size in bytes.
    ///
    /// # Panics
    /// Past 16 EiB.
    pub fn bytes(self) -> Bytes {
        Bytes(self.0.checked_mul(SECTOR_BYTES).expect("a length is under 16 EiB"))
    }

    /// As an index into memory.
    ///
    /// # Panics
    /// If the number of bytes exceeds the address space.
    pub fn bytes_usize(self) -> usize {
        usize::try_from(self.bytes().0).expect("a buffer fits the address space")
    }
}

impl Bytes {
    /// None at all.
    pub const ZERO: Self = Self(0);

    /// The whole sectors in it, rounded down.
    pub const fn sectors_floor(self) -> Sectors {
        Sectors(self.0 / SECTOR_BYTES)
    }

    /// The sectors that hold it, or `None` if it is no whole number of sectors.
    pub const fn sectors_exact(self) -> Option<Sectors> {
        if self.0.is_multiple_of(SECTOR_BYTES) {
            Some(Sectors(self.0 / SECTOR_BYTES))
        } else {
            None
        }
    }
}

impl Add<Sectors> for Lba {
    type Output = Self;
    fn add(self, by: Sectors) -> Self {
        Self(self.0.checked_add(by.0).expect("an address is under 2^64"))
    }
}

impl Add for Sectors {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.checked_add(other.0).expect("a length is under 2^64"))
    }
}

impl AddAssign for Sectors {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Sectors {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).expect("a length is not negative"))
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.checked_add(other.0).expect("a size is under 16 EiB"))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lba {}", self.0)
    }
}

impl fmt::Display for Sectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sectors", self.0)
    }
}

/// The largest binary unit that divides the size, or the largest with two digits behind the point.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] =
            [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match UNITS.iter().find(|(unit, _)| self.0 >= *unit) {
            None => write!(f, "{}B", self.0),
            Some((unit, name)) if self.0.is_multiple_of(*unit) => {
                write!(f, "{}{name}", self.0 / unit)
            }
            Some((unit, name)) => {
                let hundredths = u128::from(self.0) * 100 / u128::from(*unit);
                write!(f, "{}.{:02}{name}", hundredths / 100, hundredths % 100)
            }
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.start.0, self.len.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_that_passes_the_end_of_the_address_space_is_in_nothing() {
        let disk = Extent::new(Lba(0), Sectors(1_000));
        assert!(disk.contains(Extent::new(Lba(999), Sectors(1))));
        assert!(!disk.contains(Extent::new(Lba(999), Sectors(2))));
        assert!(!disk.contains(Extent::new(Lba(u64::MAX), Sectors(2))));
    }

    #[test]
    fn splitting_keeps_every_sector() {
        let whole = Extent::new(Lba(8), Sectors(10));
        let (head, rest) = whole.split_at(Sectors(4));
        assert_eq!((head.start, head.end(), rest.end()), (Lba(8), rest.start, whole.end()));
        assert!(whole.split_at(Sectors(99)).1.is_empty());
    }

    #[test]
    fn sizes_show_as_people_write_them() {
        assert_eq!(Bytes(4096).to_string(), "4KiB");
        assert_eq!(Bytes(20_500_000_000).to_string(), "19.09GiB");
        assert_eq!(Bytes(512).to_string(), "512B");
    }
}
