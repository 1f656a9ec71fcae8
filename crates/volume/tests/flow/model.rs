//! What a sector may hold: a register that several write at once.

/// A write of a sector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    pub(crate) stamp: u64,
    pub(crate) submitted: u64,
    /// When it was answered, well or not.
    pub(crate) answered: Option<u64>,
    /// Whether it was surely carried out: a failed write or a trim may not have been.
    pub(crate) sure: bool,
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

fn settled(stamp: u64, time: u64) -> Version {
    let answered = Some(time);
    Version { stamp, submitted: time, answered, sure: true, durable: true, in_parts: false }
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
                other.sure
                    && other.answered.is_some_and(|answered| answered < since)
                    && Self::surely_before(one, other)
            })
        })
    }

    /// What a crash may leave.
    fn kept(&self) -> impl Iterator<Item = &Version> {
        self.versions.iter().filter(move |one| {
            let over = |other: &&Version| other.sure && other.durable && other.answered.is_some();
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
            version.sure &= well;
            version.durable |= fua && well;
        }
    }

    /// A flush that was submitted at `since` has ended; no read that began before `reading`
    /// is still at it.
    pub(crate) fn flush(&mut self, since: u64, reading: u64) {
        for version in &mut self.versions {
            version.durable |= version.answered.is_some_and(|answered| answered < since);
        }
        let alive: Vec<Version> = self.versions.clone();
        let over = |one: &Version| {
            alive.iter().any(|other| {
                other.sure
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
