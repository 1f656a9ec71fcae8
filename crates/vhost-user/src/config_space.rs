//! The device's configuration space: what a driver learns of the disk (virtio 1.2, section 5.2.4).

use nbd::Export;
use units::SECTOR_BYTES;

use crate::limits::{DISCARD_SECTORS_MAX, QUEUES_MAX, SEGMENT_BYTES_MAX, SEGMENTS_MAX};

/// Its bytes, up to and including the limits of writes of zeroes.
pub(crate) const CONFIG_BYTES: usize = 60;

/// Feature bits of a block device (section 5.2.3) and of any device (section 6).
pub(crate) mod feature {
    pub(crate) const SIZE_MAX: u64 = 1 << 1;
    pub(crate) const SEG_MAX: u64 = 1 << 2;
    pub(crate) const READ_ONLY: u64 = 1 << 5;
    pub(crate) const BLOCK_SIZE: u64 = 1 << 6;
    pub(crate) const FLUSH: u64 = 1 << 9;
    pub(crate) const TOPOLOGY: u64 = 1 << 10;
    pub(crate) const MULTI_QUEUE: u64 = 1 << 12;
    pub(crate) const DISCARD: u64 = 1 << 13;
    pub(crate) const WRITE_ZEROES: u64 = 1 << 14;
    pub(crate) const INDIRECT_DESCRIPTORS: u64 = 1 << 28;
    pub(crate) const EVENT_INDEX: u64 = 1 << 29;
    pub(crate) const VHOST_USER_PROTOCOL: u64 = 1 << 30;
    pub(crate) const VERSION_1: u64 = 1 << 32;
}

/// The features that a driver may choose for this export.
pub(crate) const fn features(export: &Export) -> u64 {
    let all = feature::SIZE_MAX
        | feature::SEG_MAX
        | feature::BLOCK_SIZE
        | feature::FLUSH
        | feature::TOPOLOGY
        | feature::MULTI_QUEUE
        | feature::INDIRECT_DESCRIPTORS
        | feature::EVENT_INDEX
        | feature::VHOST_USER_PROTOCOL
        | feature::VERSION_1;
    if export.read_only {
        all | feature::READ_ONLY
    } else {
        all | feature::DISCARD | feature::WRITE_ZEROES
    }
}

/// The configuration space for this export.
pub(crate) fn config_space(export: &Export) -> [u8; CONFIG_BYTES] {
    let mut space = [0; CONFIG_BYTES];
    let mut put = |offset: usize, field: &[u8]| {
        space[offset..offset + field.len()].copy_from_slice(field);
    };
    let preferred = export.block_preferred.0.max(SECTOR_BYTES);
    let preferred_sectors = preferred / SECTOR_BYTES;
    let exponent = u8::try_from(preferred_sectors.ilog2()).unwrap_or(0);
    let alignment = u32::try_from(preferred_sectors).unwrap_or(1);
    let queues = u16::try_from(QUEUES_MAX).unwrap_or(1);
    let segment_bytes = u32::try_from(SEGMENT_BYTES_MAX.0).unwrap_or(u32::MAX);
    let sector = u32::try_from(SECTOR_BYTES).unwrap_or(512);
    put(0, &export.size.sectors_floor().0.to_le_bytes());
    put(8, &segment_bytes.to_le_bytes());
    put(12, &SEGMENTS_MAX.to_le_bytes());
    // No geometry at 16. The block size, and the topology: physical blocks of the preferred size.
    put(20, &sector.to_le_bytes());
    put(24, &[exponent]);
    put(26, &u16::try_from(preferred_sectors).unwrap_or(1).to_le_bytes());
    // The write cache is on: a flush makes durable.
    put(32, &[1]);
    put(34, &queues.to_le_bytes());
    if !export.read_only {
        put(36, &DISCARD_SECTORS_MAX.to_le_bytes());
        put(40, &1_u32.to_le_bytes());
        put(44, &alignment.to_le_bytes());
        put(48, &DISCARD_SECTORS_MAX.to_le_bytes());
        put(52, &1_u32.to_le_bytes());
        put(56, &[1]);
    }
    space
}

/// `size` bytes of the configuration space from `offset` on; zeroes where it has none.
pub(crate) fn read_config(export: &Export, offset: usize, size: usize) -> Vec<u8> {
    let space = config_space(export);
    let byte = |at: usize| space.get(at).copied().unwrap_or(0);
    (offset..offset.saturating_add(size)).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use nbd::ExportId;
    use units::Bytes;

    use super::*;

    fn field<const N: usize>(space: &[u8], offset: usize) -> [u8; N] {
        space[offset..offset + N].try_into().expect("within")
    }

    #[test]
    fn a_driver_reads_the_size_in_sectors_and_a_physical_block_of_4096_bytes() {
        let export = Export::new(ExportId(1), "vm", Bytes((3 << 30) + 700));
        let space = config_space(&export);
        assert_eq!(u64::from_le_bytes(field(&space, 0)), (3 << 21) + 1, "whole sectors");
        assert_eq!(u32::from_le_bytes(field(&space, 20)) << space[24], 4_096);
        assert_eq!(u32::from_le_bytes(field(&space, 44)), 8, "discards in blocks of 4096 bytes");
        assert_eq!(u16::from_le_bytes(field(&space, 34)), 16);
    }

    #[test]
    fn a_snapshot_offers_neither_discard_nor_zeroes_and_says_that_it_is_read_only() {
        let export = Export { read_only: true, ..Export::new(ExportId(1), "s", Bytes(1 << 20)) };
        let offered = features(&export);
        assert_eq!(offered & (feature::DISCARD | feature::WRITE_ZEROES), 0);
        assert_ne!(offered & feature::READ_ONLY, 0);
        assert_eq!(config_space(&export)[36..60], [0; 24]);
    }

    #[test]
    fn what_lies_behind_the_configuration_space_reads_as_zeroes() {
        let export = Export::new(ExportId(1), "vm", Bytes(1 << 20));
        let read = read_config(&export, 56, 16);
        assert_eq!(read, [&[1][..], &[0; 15][..]].concat());
        assert_eq!(read_config(&export, usize::MAX, 4), [] as [u8; 0]);
    }
}
