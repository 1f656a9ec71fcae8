//! Where the time of single requests goes, as a disk's thread sees it, while somebody wants to know.
//!
//! ```text
//!  asked ── inbox ── entered ── others, withheld, turning ── issued ── at the disk ── completed ── … ── answered ── told
//!                                     ▲                                                   │
//!                                     └───────────────────────────────────────────────────┘
//! ```
//!
//! Between two events of a disk it serves somebody, or idles for a reason; the observer closes that stretch at each event. A
//! request's own account is moved on only when something happens to it, so what it costs does not grow with how many wait.
//!
//! Invariants: when nobody wants to know, nothing is kept; a request's parts add up to its time; what a disk tells of its
//! commands is taken for no more than the time that passed.

mod breakdown;
mod history;
mod told;
mod traced;
mod watchers;

use std::sync::Arc;

use backend::Parts;
use engine::{Command, CommandId, Engine, IdleReason, VolumeId};
use nbd::ExportId;
use units::{Duration, Instant, Operation};

pub use breakdown::{Breakdown, Part};
use history::History;
pub use traced::{NAMED_MAX, Traced, TracedId, Withholder};
pub(crate) use watchers::Watchers;
pub use watchers::{Filter, Told, WAITING_MAX, WATCHERS_MAX, Watcher};

/// So many waits of a request are remembered by their times: who was served in others is not told.
const WAITS_MAX: usize = 8;

/// A request that comes in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered {
    pub(crate) slot: u64,
    pub(crate) id: TracedId,
    pub(crate) export: ExportId,
    pub(crate) operation: Operation,
    /// When it was put into the inbox, if that is known.
    pub(crate) asked: Option<Instant>,
}

/// A request that is not answered.
#[derive(Clone, Copy, Debug)]
struct Open {
    traced: Traced,
    /// Up to when its time is accounted for.
    until: Instant,
    /// Its commands at the disk.
    running: u32,
    /// What the disk had idled for nobody when its present wait began.
    withheld: Duration,
    waits: [(Instant, Instant); WAITS_MAX],
    waited: usize,
}

impl Open {
    /// Accounts for a wait that ends now.
    fn waited(&mut self, withheld: Duration, now: Instant) {
        let wait = now.since(self.until);
        let idle = withheld.saturating_sub(self.withheld).min(wait);
        let others = wait.saturating_sub(idle);
        self.traced.breakdown.withheld += idle;
        self.traced.breakdown.others += others;
        if others > Duration::ZERO && self.waited < WAITS_MAX {
            self.waits[self.waited] = (self.until, now);
            self.waited += 1;
        }
        (self.until, self.withheld) = (now, withheld);
    }
}

#[derive(Clone, Copy, Debug)]
struct Running {
    id: CommandId,
    volume: VolumeId,
}

/// One disk's observer.
#[derive(Debug)]
pub(crate) struct Observer {
    disk: usize,
    watchers: Arc<Watchers>,
    on: bool,
    open: Vec<Option<Open>>,
    running: Vec<Running>,
    /// Why nothing is running.
    rest: Option<IdleReason>,
    /// Since when that is so, or the commands are running that are.
    since: Instant,
    /// Time in which the disk idled for nobody though there was work.
    withheld: Duration,
    history: History,
    finished: Vec<Traced>,
    /// Whose they were.
    whose: Vec<VolumeId>,
    sums: Vec<(VolumeId, Duration)>,
}

impl Observer {
    pub(crate) fn new(disk: usize, watchers: Arc<Watchers>) -> Self {
        Self {
            disk,
            watchers,
            on: false,
            open: Vec::new(),
            running: Vec::new(),
            rest: None,
            since: Instant::ZERO,
            withheld: Duration::ZERO,
            history: History::default(),
            finished: Vec::new(),
            whose: Vec::new(),
            sums: Vec::new(),
        }
    }

    /// Begins or ends looking, where somebody has come or all have gone. What came before is never told of.
    pub(crate) fn look(&mut self, commands: &[Command], now: Instant) {
        let wanted = self.watchers.wanted();
        if wanted == core::mem::replace(&mut self.on, wanted) {
            return;
        }
        self.open.clear();
        self.running.clear();
        self.history.clear();
        let running = commands.iter().map(|&Command { id, volume, .. }| Running { id, volume });
        self.running.extend(running.filter(|_| wanted));
        (self.rest, self.since) = (None, now);
    }

    pub(crate) fn entered(&mut self, entered: Entered, now: Instant) {
        if !self.on {
            return;
        }
        self.close(now);
        let Entered { slot, id, export, operation, asked } = entered;
        let inbox = asked.map_or(Duration::ZERO, |asked| now.saturating_since(asked));
        let breakdown = Breakdown { inbox, ..Breakdown::default() };
        let traced = Traced {
            id,
            disk: self.disk,
            export,
            operation,
            at: now,
            failed: false,
            commands: 0,
            breakdown,
            withheld_by: Withholder::Policy,
            served: [None; NAMED_MAX],
        };
        let slot = place(slot);
        if self.open.len() <= slot {
            self.open.resize(slot + 1, None);
        }
        let (withheld, waits) = (self.withheld, [(now, now); WAITS_MAX]);
        self.open[slot] = Some(Open { traced, until: now, running: 0, withheld, waits, waited: 0 });
    }

    pub(crate) fn issued(&mut self, command: &Command, now: Instant) {
        if !self.on {
            return;
        }
        self.close(now);
        self.running.push(Running { id: command.id, volume: command.volume });
        let withheld = self.withheld;
        if let Some(open) = self.opened(command.request.0) {
            if open.running == 0 {
                open.waited(withheld, now);
            }
            open.running += 1;
            open.traced.commands += 1;
        }
    }

    /// A command has ended. `parts` is what the disk tells of it.
    pub(crate) fn completed(
        &mut self,
        command: &Command,
        (parts, late): (Option<Parts>, Duration),
        now: Instant,
    ) {
        if !self.on {
            return;
        }
        self.close(now);
        self.running.retain(|running| running.id != command.id);
        let withheld = self.withheld;
        if let Some(open) = self.opened(command.request.0) {
            open.running -= 1;
            open.traced.breakdown.command(parts, late, now.since(open.until));
            (open.until, open.withheld) = (now, withheld);
        }
    }

    /// The engine has decided all that it decides now.
    pub(crate) fn rests(&mut self, engine: &Engine, now: Instant) {
        if !self.on {
            return;
        }
        self.close(now);
        self.rest = engine.idle_reason();
        if let Some(IdleReason::RotationalWait { request, .. }) = self.rest {
            let withheld = self.withheld;
            if let Some(open) = self.opened(request.0) {
                open.waited(withheld, now);
            }
        }
    }

    /// A request is answered. `export` tells whose a volume is.
    pub(crate) fn answered(
        &mut self,
        (slot, failed): (u64, bool),
        (engine, export): (&Engine, impl Fn(VolumeId) -> Option<ExportId>),
        volume: VolumeId,
        now: Instant,
    ) {
        if !self.on {
            return;
        }
        self.close(now);
        let withheld = self.withheld;
        let Some(mut open) = self.open.get_mut(place(slot)).and_then(Option::take) else { return };
        open.waited(withheld, now);
        let traced = &mut open.traced;
        (traced.at, traced.failed) = (now, failed);
        traced.withheld_by = if engine.contract(volume).limit < units::Share::ALL {
            Withholder::Limit
        } else if engine.tasks().is_some() {
            Withholder::Deadlines
        } else {
            Withholder::Policy
        };
        self.sums.clear();
        for wait in &open.waits[..open.waited] {
            self.history.add_up(*wait, &mut self.sums);
        }
        self.sums.sort_by_key(|(volume, time)| (core::cmp::Reverse(*time), *volume));
        let named = self.sums.iter().filter_map(|(volume, time)| Some((export(*volume)?, *time)));
        for (told, named) in traced.served.iter_mut().zip(named) {
            *told = Some(named);
        }
        self.finished.push(open.traced);
        self.whose.push(volume);
    }

    /// The answers were handed to the sockets' thread, just `now`. Counts those that were slow.
    pub(crate) fn handed_over(
        &mut self,
        now: impl FnOnce() -> Instant,
        mut slow: impl FnMut(VolumeId),
    ) {
        if self.finished.is_empty() {
            return;
        }
        let now = now();
        for (traced, volume) in self.finished.iter_mut().zip(self.whose.drain(..)) {
            traced.breakdown.reply = now.since(traced.at);
            if self.watchers.slow().is_some_and(|slow| traced.breakdown.total() >= slow) {
                slow(volume);
            }
        }
        self.watchers.tell(&mut self.finished);
    }

    fn opened(&mut self, slot: u64) -> Option<&mut Open> {
        self.open.get_mut(place(slot))?.as_mut()
    }

    /// What was so since the last event ends now.
    fn close(&mut self, now: Instant) {
        let from = core::mem::replace(&mut self.since, now);
        let time = now.since(from);
        if time == Duration::ZERO {
            return;
        }
        if !self.running.is_empty() {
            let volumes = self.running.iter().map(|running| running.volume);
            return self.history.served((from, now), volumes);
        }
        match self.rest {
            Some(IdleReason::Ineligible) => self.withheld += time,
            Some(IdleReason::Anticipation(volume)) => {
                self.history.served((from, now), [volume].into_iter())
            }
            Some(IdleReason::RotationalWait { request, volume }) => {
                self.history.served((from, now), [volume].into_iter());
                let withheld = self.withheld;
                if let Some(open) = self.opened(request.0) {
                    open.traced.breakdown.turning += time;
                    (open.until, open.withheld) = (now, withheld);
                }
            }
            None => {}
        }
    }
}

fn place(slot: u64) -> usize {
    usize::try_from(slot).expect("it indexed before")
}

#[cfg(test)]
mod tests;
