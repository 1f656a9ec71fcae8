//! Failure domains: disks that may fail together, such as those of a shelf, of a controller or of
//! a power supply; and the search for an order of a mirror's disks that keeps copies apart.

use std::collections::BTreeMap;

use crate::pool::limits::DISKS_MAX;
use crate::pool::names::DiskUid;

/// Steps of the search for an order. It finds one at once unless hardly any exists.
const STEPS_MAX: u32 = 20_000;

/// The domains of disks; a disk without one may only fail alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domains(BTreeMap<DiskUid, u32>);

/// What fails together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Domain {
    /// The disks of this domain.
    Shared(u32),
    /// This disk alone.
    Alone(DiskUid),
}

impl Domains {
    /// Disks and the numbers of their domains.
    pub fn new(disks: impl IntoIterator<Item = (DiskUid, u32)>) -> Self {
        Self(disks.into_iter().collect())
    }

    pub(crate) fn of(&self, disk: DiskUid) -> Domain {
        self.0.get(&disk).map_or(Domain::Alone(disk), |number| Domain::Shared(*number))
    }
}

/// Whether any `copies` that follow one another differ, the first behind the last.
pub(crate) fn is_apart(order: &[Domain], copies: usize) -> bool {
    debug_assert!(copies <= order.len(), "a mirror has as many disks as copies");
    let all = order.len();
    (0..all).all(|at| (1..copies).all(|next| order[at] != order[(at + next) % all]))
}

/// An order in which `copies` that follow one another differ: places that are taken stay, `new`
/// ones fill the others. `None`: there is none, or none was found in [`STEPS_MAX`] steps.
pub(crate) fn ordered(
    places: Vec<Option<Domain>>,
    new: impl Iterator<Item = Domain>,
    copies: usize,
) -> Option<Vec<Domain>> {
    assert!(places.len() <= DISKS_MAX, "a volume has few disks");
    assert!(copies > 1, "a mirror");
    let mut left: BTreeMap<Domain, usize> = BTreeMap::new();
    for domain in new {
        *left.entry(domain).or_default() += 1;
    }
    let mut search = Search { order: places, left, copies, steps: 0 };
    if !search.fill(0) {
        return None;
    }
    assert!(search.left.values().all(|left| *left == 0), "as many come as there are places");
    let order: Vec<Domain> = search.order.into_iter().flatten().collect();
    // Disks that stay may share one.
    is_apart(&order, copies).then_some(order)
}

/// The search for an order.
struct Search {
    order: Vec<Option<Domain>>,
    /// How many disks of each domain are left.
    left: BTreeMap<Domain, usize>,
    copies: usize,
    steps: u32,
}

impl Search {
    /// Whether a domain keeps apart from what is around a place.
    fn fits(&self, at: usize, domain: Domain) -> bool {
        debug_assert!(self.order[at].is_none(), "a free place");
        let all = self.order.len();
        (1..self.copies).all(|by| {
            let around = [(at + by) % all, (at + all - by) % all];
            around.iter().all(|one| *one == at || self.order[*one] != Some(domain))
        })
    }

    /// Fills the places from `at` on, the domain with the most disks left first. Returns whether
    /// that was possible.
    fn fill(&mut self, at: usize) -> bool {
        let Some(at) = (at..self.order.len()).find(|place| self.order[*place].is_none()) else {
            return true;
        };
        let mut next: Vec<(usize, Domain)> = self
            .left
            .iter()
            .filter(|(_, left)| **left > 0)
            .map(|(one, left)| (*left, *one))
            .collect();
        next.sort_by_key(|(left, _)| std::cmp::Reverse(*left));
        for (_, domain) in next {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return false;
            }
            if !self.fits(at, domain) {
                continue;
            }
            self.order[at] = Some(domain);
            *self.left.get_mut(&domain).expect("some are left") -= 1;
            if self.fill(at + 1) {
                return true;
            }
            self.order[at] = None;
            *self.left.get_mut(&domain).expect("it was there") += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use rng::SplitMix64;

    use super::*;

    /// Whether any order of these domains keeps `copies` apart, by trying all.
    fn exists(left: &mut Vec<Domain>, order: &mut Vec<Domain>, copies: usize) -> bool {
        if left.is_empty() {
            return is_apart(order, copies);
        }
        for at in 0..left.len() {
            let one = left.remove(at);
            order.push(one);
            let found = exists(left, order, copies);
            order.pop();
            left.insert(at, one);
            if found {
                return true;
            }
        }
        false
    }

    #[test]
    fn an_order_that_keeps_copies_apart_is_found_if_there_is_one() {
        let mut rng = SplitMix64::new(7);
        let mut found = [0, 0];
        for _ in 0..400 {
            let copies = 2 + rng.below(2) as usize;
            let disks = copies + rng.below(7 - u32::try_from(copies).expect("few")) as usize;
            let kinds = 1 + rng.below(4);
            let mut domains: Vec<Domain> =
                (0..disks).map(|_| Domain::Shared(rng.below(kinds))).collect();
            let order = ordered(vec![None; disks], domains.iter().copied(), copies);
            let is_found = order.is_some();
            assert!(order.is_none_or(|order| is_apart(&order, copies)), "{domains:?}");
            assert_eq!(is_found, exists(&mut domains, &mut Vec::new(), copies), "{domains:?}");
            found[usize::from(is_found)] += 1;
        }
        assert!(found.iter().all(|count| *count > 50), "both occur: {found:?}");
    }

    #[test]
    fn many_disks_of_two_shelves_take_turns() {
        let left = BTreeMap::from([(Domain::Shared(0), 32), (Domain::Shared(1), 32)]);
        let mut search = Search { order: vec![None; 64], left, copies: 2, steps: 0 };
        assert!(search.fill(0));
        assert!(search.steps < 200, "at once: {}", search.steps);
    }
}
