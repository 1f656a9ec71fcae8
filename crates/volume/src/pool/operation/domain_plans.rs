//! Placements that keep the copies of a block on disks of different failure domains.
//!
//! Copy c of column n of a mirror is on disk (n + c) modulo k of its k ([`Volume::disk_of`]). So
//! the order keeps the copies apart if any `copies` disks that follow one another, the first behind
//! the last, are of different domains. The pool chooses such an order; the disks that a volume
//! keeps when it moves keep their places in it, so that no two copies of a block meet on a disk.
//!
//! Domains are the config's and not part of the metadata: the pool is told ([`Pool::set_domains`]).
//! A mirror that was placed when they were others stays as it is, and [`Pool::shares_domain`] says
//! so.

use crate::location::DiskId;
use crate::pool::names::{DiskUid, PoolVolumeId};
use crate::pool::operation::domains::{Domain, Domains, is_apart, ordered};
use crate::pool::operation::machine::Pool;
use crate::pool::operation::refusal::Refusal;
use crate::pool::state::volume::Volume;

impl Pool {
    /// Sets the domains of its disks, and of those that are about to join.
    pub fn set_domains(&mut self, domains: Domains) {
        self.domains = domains;
    }

    fn domain_of(&self, disk: DiskId) -> Domain {
        self.domains.of(self.state.disks[&disk].uid)
    }

    /// Whether two copies of a block of a mirror are placed in one domain.
    pub fn shares_domain(&self, id: PoolVolumeId) -> bool {
        let volume = self.state.volume(id).filter(|volume| volume.layout.is_mirror());
        volume.is_some_and(|volume| !self.keeps_apart(volume, &volume.disks))
    }

    fn keeps_apart(&self, volume: &Volume, order: &[DiskId]) -> bool {
        let domains: Vec<Domain> = order.iter().map(|disk| self.domain_of(*disk)).collect();
        is_apart(&domains, volume.layout.copies())
    }

    /// The disks of a new mirror, in an order that keeps copies apart: the given one if it does.
    pub(crate) fn order_of_new(
        &self,
        copies: usize,
        disks: Vec<DiskId>,
    ) -> Result<Vec<DiskId>, Refusal> {
        let domains: Vec<Domain> = disks.iter().map(|disk| self.domain_of(*disk)).collect();
        if copies < 2 || is_apart(&domains, copies) {
            return Ok(disks);
        }
        self.filled(copies, vec![None; disks.len()], disks)
    }

    /// The disks of a new placement of a volume: a mirror's that stay keep their places, and the
    /// others are ordered so that copies are kept apart.
    pub(crate) fn order_of_moved(
        &self,
        volume: &Volume,
        disks: &[DiskId],
    ) -> Result<Vec<DiskId>, Refusal> {
        if !volume.layout.is_mirror() || disks.len() != volume.disks.len() {
            return Ok(disks.to_vec());
        }
        let stays = |disk: &DiskId| disks.contains(disk).then_some(*disk);
        let places: Vec<Option<DiskId>> = volume.disks.iter().map(stays).collect();
        let new: Vec<DiskId> =
            disks.iter().copied().filter(|disk| !volume.disks.contains(disk)).collect();
        let mut next = new.iter().copied();
        let mut fill = |place: &Option<DiskId>| place.or_else(|| next.next());
        let plain: Vec<DiskId> = places.iter().map_while(&mut fill).collect();
        assert_eq!(plain.len(), disks.len(), "as many come as go");
        if self.keeps_apart(volume, &plain) {
            return Ok(plain);
        }
        self.filled(volume.layout.copies(), places, new)
    }

    /// The places of a mirror with disks in those that are free, by the domains that a search finds
    /// for them.
    fn filled(
        &self,
        copies: usize,
        places: Vec<Option<DiskId>>,
        mut new: Vec<DiskId>,
    ) -> Result<Vec<DiskId>, Refusal> {
        let domain = |place: &Option<DiskId>| place.map(|disk| self.domain_of(disk));
        let there = places.iter().map(domain).collect();
        let coming: Vec<Domain> = new.iter().map(|disk| self.domain_of(*disk)).collect();
        let found = ordered(there, coming.into_iter(), copies).ok_or(Refusal::SharedDomain)?;
        assert_eq!(found.len(), places.len(), "a domain for each place");
        let disk = |(place, domain): (Option<DiskId>, Domain)| {
            place.unwrap_or_else(|| {
                let at = new.iter().position(|disk| self.domain_of(*disk) == domain);
                new.remove(at.expect("as many as were counted"))
            })
        };
        Ok(places.into_iter().zip(found).map(disk).collect())
    }

    /// The first of `others` that a volume does not have, for the place of `gone`; of a mirror the
    /// first that keeps copies apart, if they are.
    pub(crate) fn instead_of(
        &self,
        gone: DiskId,
        volume: &Volume,
        others: &[DiskId],
    ) -> Result<Option<DiskId>, Refusal> {
        let mut unused = others.iter().copied().filter(|disk| !volume.disks.contains(disk));
        if !volume.layout.is_mirror() {
            return Ok(unused.next());
        }
        debug_assert!(volume.disks.contains(&gone), "it has the disk that is to go");
        let is_apart_now = self.keeps_apart(volume, &volume.disks);
        let mut refusal = Refusal::FewerThanCopies;
        for disk in unused {
            let instead = |one: &DiskId| if *one == gone { disk } else { *one };
            let order: Vec<DiskId> = volume.disks.iter().map(instead).collect();
            if !is_apart_now || self.keeps_apart(volume, &order) {
                return Ok(Some(disk));
            }
            refusal = Refusal::SharedDomain;
        }
        Err(refusal)
    }

    /// Refuses a device in the place of a disk that would bring two copies of a block into one
    /// domain which are apart now.
    pub(crate) fn check_domain_of_new(&self, disk: DiskId, uid: DiskUid) -> Result<(), Refusal> {
        let new = self.domains.of(uid);
        for (_, volume) in self.state.volumes() {
            if !volume.layout.is_mirror() || !volume.disks.contains(&disk) {
                continue;
            }
            let of = |one: &DiskId| if *one == disk { new } else { self.domain_of(*one) };
            let order: Vec<Domain> = volume.disks.iter().map(of).collect();
            let copies = volume.layout.copies();
            if self.keeps_apart(volume, &volume.disks) && !is_apart(&order, copies) {
                return Err(Refusal::SharedDomain);
            }
        }
        Ok(())
    }
}
