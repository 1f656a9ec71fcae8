//! A disk with a volatile cache: what was not flushed may be lost, torn at any sector, and written
//! in any order.

use std::collections::BTreeMap;
use std::sync::Arc;

use rng::SplitMix64;
use units::{Extent, Lba, Sectors};

type Sector = Arc<[u8; 512]>;
type Contents = BTreeMap<u64, Sector>;

#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) size: Sectors,
    /// What a reader sees; what is not there is zero.
    seen: Contents,
    /// What a crash leaves.
    durable: Contents,
    /// What was written since the last flush, in order.
    cache: Vec<(Extent, Contents)>,
}

fn put(into: &mut Contents, sector: u64, from: &Contents) {
    match from.get(&sector) {
        Some(bytes) => into.insert(sector, Arc::clone(bytes)),
        None => into.remove(&sector),
    };
}

/// Puts what `from` has of `extent` into `into`, of what `keep` says.
fn apply(into: &mut Contents, extent: Extent, from: &Contents, keep: impl Fn(u64) -> bool) {
    let range = extent.start.0..extent.end().0;
    let gone: Vec<u64> = into.range(range.clone()).map(|(at, _)| *at).collect();
    for at in gone.into_iter().filter(|at| keep(*at)) {
        put(into, at, from);
    }
    for (at, bytes) in from.range(range).filter(|(at, _)| keep(**at)) {
        into.insert(*at, Arc::clone(bytes));
    }
}

impl Disk {
    pub(crate) fn new(size: Sectors) -> Self {
        Self { size, seen: Contents::new(), durable: Contents::new(), cache: Vec::new() }
    }

    pub(crate) fn read_now(&self, extent: Extent) -> Vec<u8> {
        assert!(extent.end().0 <= self.size.0, "a read of {extent} passes the disk's end");
        let mut bytes = vec![0; extent.len.bytes_usize()];
        for (at, sector) in self.seen.range(extent.start.0..extent.end().0) {
            let from = usize::try_from(at - extent.start.0).unwrap() * 512;
            bytes[from..from + 512].copy_from_slice(&sector[..]);
        }
        bytes
    }

    pub(crate) fn write(&mut self, extent: Extent, bytes: &[u8]) {
        self.enter(extent, self.sectors(extent, bytes));
    }

    /// The same, and on the medium at once.
    pub(crate) fn force(&mut self, extent: Extent, bytes: &[u8]) {
        self.enter_forced(extent, &self.sectors(extent, bytes));
    }

    fn sectors(&self, extent: Extent, bytes: &[u8]) -> Contents {
        assert!(extent.end().0 <= self.size.0, "a write of {extent} passes the disk's end");
        assert_eq!(bytes.len(), extent.len.bytes_usize(), "as many bytes as sectors");
        let sectors = bytes.chunks(512).zip(extent.start.0..);
        let sectors = sectors.filter(|(bytes, _)| bytes.iter().any(|byte| *byte != 0));
        sectors.map(|(bytes, at)| (at, Arc::new(bytes.try_into().unwrap()))).collect()
    }

    pub(crate) fn erase(&mut self, extent: Extent) {
        assert!(extent.end().0 <= self.size.0, "an erase of {extent} passes the disk's end");
        self.enter(extent, Contents::new());
    }

    /// What it holds, as if it lay at `to`.
    pub(crate) fn moved(&self, from: Extent, to: Lba) -> BTreeMap<u64, Sector> {
        let range = self.seen.range(from.start.0..from.end().0);
        range.map(|(at, bytes)| (at - from.start.0 + to.0, Arc::clone(bytes))).collect()
    }

    pub(crate) fn enter(&mut self, extent: Extent, contents: BTreeMap<u64, Sector>) {
        apply(&mut self.seen, extent, &contents, |_| true);
        self.cache.push((extent, contents));
    }

    /// As [`Self::enter`], and on the medium at once: what is in the cache of these sectors is
    /// older.
    pub(crate) fn enter_forced(&mut self, extent: Extent, contents: &BTreeMap<u64, Sector>) {
        apply(&mut self.seen, extent, contents, |_| true);
        apply(&mut self.durable, extent, contents, |_| true);
        for (cached, contents) in std::mem::take(&mut self.cache) {
            let before = cached.split_at(Sectors(extent.start.0.saturating_sub(cached.start.0))).0;
            let after = cached.split_at(Sectors(extent.end().0.saturating_sub(cached.start.0))).1;
            let rest = [before, after].into_iter().filter(|part| !part.is_empty());
            self.cache.extend(rest.map(|part| (part, contents.clone())));
        }
    }

    pub(crate) fn flush(&mut self) {
        for (extent, contents) in std::mem::take(&mut self.cache) {
            apply(&mut self.durable, extent, &contents, |_| true);
        }
    }

    /// The contents that survive a power failure now.
    pub(crate) fn crashed(&self, rng: &mut SplitMix64) -> Self {
        let mut durable = self.durable.clone();
        let mut cache: Vec<_> = self.cache.iter().collect();
        if rng.below(2) == 0 {
            for at in (1..cache.len()).rev() {
                let other = rng.below(u32::try_from(at + 1).unwrap()) as usize;
                cache.swap(at, other);
            }
        }
        for (extent, contents) in cache {
            let (start, len) = (extent.start.0, extent.len.0);
            let cut = start + rng.draw() % (len + 1);
            let salt = rng.draw();
            let some = move |at: u64| SplitMix64::new(salt ^ at).draw().is_multiple_of(2);
            match rng.below(5) {
                0 => {}
                1 => apply(&mut durable, *extent, contents, |_| true),
                2 => apply(&mut durable, *extent, contents, |at| at < cut),
                3 => apply(&mut durable, *extent, contents, |at| at >= cut),
                _ => apply(&mut durable, *extent, contents, some),
            }
        }
        Self { size: self.size, seen: durable.clone(), durable, cache: Vec::new() }
    }

    /// Turns bits of a byte, for good.
    pub(crate) fn damage(&mut self, at: usize, bits: u8) {
        let sector = at as u64 / 512;
        let mut bytes = self.seen.get(&sector).map_or([0; 512], |bytes| **bytes);
        bytes[at % 512] ^= bits;
        let whole = (bytes != [0; 512]).then(|| (sector, Arc::new(bytes)));
        let contents = whole.into_iter().collect();
        put(&mut self.seen, sector, &contents);
        put(&mut self.durable, sector, &contents);
    }

    /// The sectors that hold something, and lie in `extent`.
    pub(crate) fn written(&self, extent: Extent) -> Vec<u64> {
        self.seen.range(extent.start.0..extent.end().0).map(|(at, _)| *at).collect()
    }

    /// Whether nothing was written since the last flush.
    pub(crate) fn is_flushed(&self) -> bool {
        self.cache.is_empty()
    }

    /// All that it holds.
    pub(crate) fn contents(&self) -> &BTreeMap<u64, Sector> {
        &self.seen
    }
}
