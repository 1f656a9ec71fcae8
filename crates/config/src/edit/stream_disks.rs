//! Which disks of a mirror do without its stream, where the stream survives fewer losses than the
//! data: those that admit least.

use units::Instant;

use super::document::Document;
use super::values::{PoolVolumeEdit, StreamEdit, VolumeEdit};
use crate::demand::without;
use crate::error::ConfigError;
use crate::plan::{DiskIndex, LAYOUTS, layout_copies};

impl VolumeEdit {
    /// The number of disks that do without its stream, of a volume with these copies.
    pub(super) fn disks_without_stream(&self, copies: usize) -> usize {
        let Some(StreamEdit::Put { survive: Some(survive), .. }) = self.stream else { return 0 };
        u8::try_from(survive).map_or(0, |survive| without(copies, survive))
    }
}

impl PoolVolumeEdit {
    /// The number of disks that do without its stream.
    pub(super) fn disks_without_stream(&self) -> usize {
        let layout = self.layout.as_deref();
        let layout = LAYOUTS.into_iter().find(|(word, _)| Some(*word) == layout);
        let Some(copies) = layout.and_then(|(_, layout)| layout_copies(layout)) else { return 0 };
        let given = self.copies.and_then(|copies| usize::try_from(copies).ok());
        self.volume.disks_without_stream(given.unwrap_or(usize::from(copies)))
    }

    /// Whether the order of its disks is not asked for: they are all of the pool's, or those of its
    /// source.
    pub(super) fn is_on_any_disks(&self) -> bool {
        self.disks.is_none() || self.source.is_some()
    }
}

impl Document {
    /// The first of the documents that `edited` makes for orders of `disks` that is admitted: the
    /// last `without` of them do without the stream. Those with the least time that is not reserved
    /// come first.
    ///
    /// # Errors
    /// None is admitted: that of the first one. Or the first error that another order does not
    /// change.
    pub(super) fn with_cheapest_disks(
        &self,
        disks: &[String],
        without: usize,
        edited: impl Fn(Vec<String>) -> Result<Self, ConfigError>,
    ) -> Result<Self, ConfigError> {
        let mut sorted = disks.to_vec();
        let plan = self.plan();
        let unreserved = |name: &String| {
            let index = plan.disks.iter().position(|disk| disk.name == *name);
            index.map(|index| plan.unreserved(DiskIndex(index), Instant::ZERO))
        };
        sorted.sort_by_key(|name| core::cmp::Reverse(unreserved(name)));
        let mut first = None;
        for left_out in left_out(sorted.len(), without) {
            let (last, mut order): (Vec<_>, Vec<_>) =
                (0..sorted.len()).partition(|index| left_out.contains(index));
            order.extend(last);
            match edited(order.into_iter().map(|index| sorted[index].clone()).collect()) {
                Err(error) if error.is_refusal() => first = first.or(Some(error)),
                end => return end,
            }
        }
        first.map_or_else(|| edited(sorted), Err)
    }
}

/// All sets of `without` of `count` indices, those with large indices first; of 1 or 2, which are
/// all that a mirror's stream can do without.
fn left_out(count: usize, without: usize) -> Vec<Vec<usize>> {
    let ones = (0..count).rev();
    match without {
        1 => ones.map(|one| vec![one]).collect(),
        2 => ones.flat_map(|one| (0..one).rev().map(move |other| vec![other, one])).collect(),
        _ => Vec::new(),
    }
}
