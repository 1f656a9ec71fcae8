//! What a sector may hold: a register that several write at once.

/// Whether a write is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    /// It was carried out.
    Sure,
    /// A copy has lost it, and no flush was answered since: one that succeeds says it is there.
    Suspect,
    /// A failed write or a trim may not have been carried out.
    Unsure,
}

/// A write of a sector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    pub(crate) stamp: u64,
    pub(crate) submitted: u64,
    /// When it was answered, well or not.
    pub(crate) answered: Option<u64>,
    pub(crate) certainty: Certainty,
    /// Whether it survives a crash.
    pub(crate) durable: bool,
    /// Whether a part of its request can have been carried out before the rest was begun.
    pub(crate) in_parts: bool,
}

/// All that was written to a sector and may yet be seen.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    versions: Vec<Version>,
}

impl Version {
    fn is_sure(&self) -> bool {
        self.certainty == Certainty::Sure
    }

    fn is_suspect(&self) -> bool {
        self.certainty == Certainty::Suspect
    }
}

fn settled(stamp: u64, time: u64) -> Version {
    let answered = Some(time);
    let (certainty, durable, in_parts) = (Certainty::Sure, true, false);
    Version { stamp, submitted: time, answered, certainty, durable, in_parts }
}

impl Cell {
    pub(crate) fn of(stamps: &[u64], time: u64) -> Self {
        Self { versions: stamps.iter().map(|stamp| settled(*stamp, time)).collect() }
    }

    fn surely_before(one: &Version, other: &Version) -> bool {
        one.answered.is_some_and(|answered| answered < other.submitted)
    }

    /// Whether a read that was submitted at `since` may see `stamp`.
    pub(crate) fn may_read(&self, stamp: u64, since: u64) -> bool {
        self.seen(since).any(|version| version.stamp == stamp)
    }

    /// What was not surely overwritten at `since`.
    fn seen(&self, since: u64) -> impl Iterator<Item = &Version> {
        self.versions.iter().filter(move |one| {
            !self.versions.iter().any(|other| {
                other.is_sure()
                    && other.answered.is_some_and(|answered| answered < since)
                    && Self::surely_before(one, other)
            })
        })
    }

    /// What a crash may leave.
    fn kept(&self) -> impl Iterator<Item = &Version> {
        self.versions.iter().filter(move |one| {
            let over =
                |other: &&Version| other.is_sure() && other.durable && other.answered.is_some();
            !self.versions.iter().filter(over).any(|other| Self::surely_before(one, other))
        })
    }

    pub(crate) fn may_survive(&self, stamp: u64) -> bool {
        self.kept().any(|version| version.stamp == stamp)
    }

    pub(crate) fn submit(&mut self, version: Version) {
        self.versions.push(version);
    }

    pub(crate) fn answer(&mut self, stamp: u64, submitted: u64, time: u64, well: bool, fua: bool) {
        let own = |one: &&mut Version| one.stamp == stamp && one.submitted == submitted;
        for version in self.versions.iter_mut().filter(own) {
            version.answered = Some(time);
            if !well {
                version.certainty = Certainty::Unsure;
            }
            version.durable |= fua && well;
        }
    }

    /// A copy has lost what was to be written to the sector, and with it what that had replaced in
    /// memory.
    pub(crate) fn lose(&mut self) {
        for version in self.versions.iter_mut().filter(|one| one.is_sure() && !one.durable) {
            version.certainty = Certainty::Suspect;
        }
    }

    /// A flush that was submitted at `since` has failed: what copies have lost may be lost, and so
    /// may be all that was answered before it and was not durable, whether it is known that a copy
    /// has lost it or not.
    pub(crate) fn fail_flush(&mut self, since: u64) {
        for version in self.versions.iter_mut().filter(|one| !one.durable) {
            let is_told = version.answered.is_some_and(|answered| answered < since);
            if version.is_suspect() || is_told {
                version.certainty = Certainty::Unsure;
            }
        }
    }

    /// A flush that was submitted at `since` has ended; no read that began before `reading`
    /// is still at it.
    pub(crate) fn flush(&mut self, since: u64, reading: u64) {
        for version in &mut self.versions {
            let is_flushed = version.answered.is_some_and(|answered| answered < since);
            version.durable |= is_flushed;
            if is_flushed && version.is_suspect() {
                version.certainty = Certainty::Sure;
            }
        }
        let alive: Vec<Version> = self.versions.clone();
        let over = |one: &Version| {
            alive.iter().any(|other| {
                other.is_sure()
                    && other.durable
                    && other.answered.is_some_and(|answered| answered < reading)
                    && Self::surely_before(one, other)
            })
        };
        self.versions.retain(|one| !over(one));
    }

    /// What a snapshot that is taken now holds: no write is in flight, though of some requests a
    /// part may have been carried out.
    pub(crate) fn frozen(&self, time: u64) -> Self {
        let stamps: Vec<u64> = self
            .seen(time)
            .filter(|version| version.answered.is_some() || version.in_parts)
            .map(|version| version.stamp)
            .collect();
        Self::of(&stamps, time)
    }

    /// The same after a roll back to `snapshot`: unanswered requests come after it.
    pub(crate) fn rolled_back(&self, snapshot: &Self, time: u64) -> Self {
        let mut cell = snapshot.frozen(time);
        cell.versions.extend(self.versions.iter().filter(|one| one.answered.is_none()));
        cell
    }
}
