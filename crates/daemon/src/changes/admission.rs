//! Whether a volume could be created now, and what its place has free. Nothing is changed.

use config::{DiskIndex, Document, PoolVolumeEdit};
use units::Bytes;
use volume::pool::{Blocks, Zone};

use super::error::ChangeError;
use super::operator::Operator;
use super::volumes::NewVolume;

/// The smallest volume of a pool: what refuses it is not its size.
const SIZE_MIN: &str = "1MiB";

/// What a placement in the pool has free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpace {
    /// Its disks, as far as they are present.
    pub disks: Vec<PoolDiskSpace>,
    /// The size of the largest volume that could be created; of a thin one, that could be written
    /// whole with what other thin volumes may still allocate.
    pub size_max: Bytes,
    /// The size that was asked for, if there is not enough space for it.
    pub missing: Option<Bytes>,
}

/// The free space of a disk of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolDiskSpace {
    /// The disk.
    pub disk: DiskIndex,
    /// Of its fast part.
    pub fast: Bytes,
    /// Of its slow part.
    pub slow: Bytes,
}

fn bytes(blocks: Blocks) -> Bytes {
    blocks.sectors().bytes()
}

impl Operator {
    /// The config with a volume that could be created now.
    ///
    /// # Errors
    /// See [`ChangeError`]: the reason why it could not.
    pub fn admit(&self, name: &str, volume: &NewVolume) -> Result<Document, ChangeError> {
        self.new_backend(name, volume).add_to(&self.document())
    }

    /// Whether a volume with this contract, and of the smallest size, could be created now.
    pub fn admits_contract(&self, name: &str, volume: &NewVolume) -> bool {
        let NewVolume::InPool(edit) = volume else { return false };
        let mut edit = edit.clone();
        (edit.volume.size, edit.source) = (Some(SIZE_MIN.to_owned()), None);
        self.admit(name, &NewVolume::InPool(edit)).is_ok()
    }

    /// What the placement of a volume of the pool has free.
    ///
    /// # Errors
    /// There is no pool, or it has not these disks, or a word is none of the config's.
    pub fn pool_space(&self, edit: &PoolVolumeEdit) -> Result<PoolSpace, ChangeError> {
        // Of the smallest size and without a contract, only its placement can be refused.
        let probe = config::VolumeEdit { size: Some(SIZE_MIN.to_owned()), ..Default::default() };
        let probe = PoolVolumeEdit { volume: probe, source: None, ..edit.clone() };
        let name = "(a placement)";
        let document = self.document().create_pool_volume(name, &probe)?;
        let (_, planned) = document.pool_volume(name)?;
        let numbers = self.state.pool_disks(document.plan(), &planned.disks)?;
        let size = edit.volume.size.as_ref().and_then(|size| size.parse::<Bytes>().ok());
        Ok(self.state.pool()?.inspect(|flow| {
            let pool = flow.pool();
            let disks = numbers.iter().zip(&planned.disks).map(|(number, disk)| PoolDiskSpace {
                disk: *disk,
                fast: bytes(pool.free_in(*number, Zone::Fast)),
                slow: bytes(pool.free_in(*number, Zone::Slow)),
            });
            let mut size_max = bytes(pool.size_max(planned.layout, planned.zone, &numbers));
            if planned.thin {
                let status = pool.status();
                let left = status.free.saturating_sub(status.promised);
                size_max = size_max.min(Bytes(left * bytes(Blocks(1)).0));
            }
            let allocates = !planned.thin && edit.source.is_none();
            let missing = size.filter(|size| allocates && *size > size_max);
            PoolSpace { disks: disks.collect(), size_max, missing }
        }))
    }
}
