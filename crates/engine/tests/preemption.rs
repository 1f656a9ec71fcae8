//! Facts about preemptible execution, over generated requests, arrivals and settings: whatever
//! preempts a request, each of its sectors is transferred once and in order, durably where that was
//! requested, and the request is answered.

#![allow(clippy::large_types_passed_by_value, reason = "an engine is made once a test")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::spinning::{Spinning, profile};
use common::{limit, ms, percent, reserve};
use proptest::prelude::*;
use spindle_engine::limits::PREEMPTIONS_MAX;
use spindle_engine::{
    Action, Approach, BestEffortServer, Command, Deadlines, Engine, Event, Execution, FreePrefetch,
    Jit, Outcome, PolicyName, Preemptible, Priority, Purpose, Request, RequestId, SeekSplit,
    Settings, VolumeId, expected_wait,
};
use units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors};

/// A request, and the time since the arrival of the previous one.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    after: Duration,
    volume: u32,
    operation: Operation,
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let operation = (0_u64..199_000, 1_u64..400, 0_u32..4).prop_map(|(start, len, kind)| {
        let extent = Extent::new(Lba(start), Sectors(len));
        match kind {
            0 | 1 => Operation::read(extent),
            2 => Operation::write(extent),
            _ => Operation::write(extent).with_fua(),
        }
    });
    let one = (0_u64..40_000, 0_u32..3, operation).prop_map(|(after, volume, operation)| Arrival {
        after: Duration::from_micros(after),
        volume,
        operation,
    });
    prop::collection::vec(one, 1..60)
}

fn settings() -> impl Strategy<Value = Settings> {
    let approach = prop_oneof![
        Just(Approach::InTime),
        Just(Approach::Published),
        Just(Approach::Ahead),
        Just(Approach::ShortRead),
        Just(Approach::Transfer),
    ];
    let jit = prop::option::weighted(0.9, (0_u64..3_000, approach)).prop_map(|jit| {
        jit.map(|(offset, approach)| Jit { offset: Duration::from_micros(offset), approach })
    });
    let split = prop_oneof![
        Just(None),
        Just(Some(SeekSplit::Hidden)),
        (1_u32..1_000).prop_map(|longest| Some(SeekSplit::Always(longest)))
    ];
    let chunk = prop::option::of((1_u64..200).prop_map(Sectors));
    let prefetch =
        prop::sample::select(vec![FreePrefetch::Off, FreePrefetch::ToDrive, FreePrefetch::ToHost]);
    let policy = prop::sample::select(PolicyName::ALL.to_vec());
    let whole = prop::option::of(Just(Sectors(64))).prop_map(|split| Execution::Whole { split });
    let preemptible = (chunk, jit, split, prefetch, any::<bool>()).prop_map(
        |(chunk, jit, seek_split, free_prefetch, preempt_writes)| {
            Execution::Preemptible(Preemptible {
                chunk,
                jit,
                seek_split,
                free_prefetch,
                preempt_writes,
            })
        },
    );
    let execution = prop_oneof![1 => whole, 6 => preemptible];
    (policy, execution).prop_map(|(policy, execution)| {
        let cut = execution.preemptible().is_some() || !policy.has_deadlines();
        // Under deadlines a server keeps best effort from starving.
        let best_effort = Some(BestEffortServer { share: percent(30), period: ms(1_000) });
        Settings {
            policy,
            execution: if cut { execution } else { Execution::Whole { split: None } },
            deadlines: Deadlines { best_effort, ..Deadlines::default() },
            ..Settings::default()
        }
    })
}

fn engine(settings: Settings) -> Engine {
    let mut profile = profile();
    // Short reads move the arm where there is no seek command.
    let jit = settings.execution.preemptible().and_then(|how| how.jit);
    profile.seek_command = jit.is_none_or(|jit| jit.approach != Approach::ShortRead);
    let mut engine = Engine::new(settings, Instant::ZERO).with_profile(Arc::new(profile));
    for contract in [reserve(40), reserve(20), limit(30)] {
        engine.add_volume(contract, Instant::ZERO).expect("it fits");
    }
    engine.set_priority(VolumeId(2), Priority::High);
    engine
}

/// The progress of a request.
#[derive(Debug, Default)]
struct Progress {
    /// The sectors that have been transferred.
    done: Sectors,
    /// Seek commands since the last transfer.
    seeks: u32,
    seeks_max: u32,
}

/// Drives an engine over a rotating disk, and checks each action.
struct Run {
    engine: Engine,
    disk: Spinning,
    now: Instant,
    serving: Option<(Command, Instant)>,
    requests: BTreeMap<RequestId, (Arrival, Progress)>,
    answered: usize,
    writes_forced: usize,
}

impl Run {
    fn new(settings: Settings, seek_errors: Vec<u64>) -> Self {
        Self {
            engine: engine(settings),
            disk: Spinning::new(seek_errors),
            now: Instant::ZERO,
            serving: None,
            requests: BTreeMap::new(),
            answered: 0,
            writes_forced: 0,
        }
    }

    fn submit(&mut self, arrival: Arrival) {
        let id = RequestId(self.requests.len() as u64);
        let request =
            Request { id, volume: VolumeId(arrival.volume), operation: arrival.operation };
        self.requests.insert(id, (arrival, Progress::default()));
        self.engine.handle(Event::Submit(request), self.now);
        let (op, extent) = (arrival.operation.op, arrival.operation.extent);
        if op == Op::Read && extent.start.0.is_multiple_of(2) {
            let behind = Extent::new(extent.end(), Sectors(300));
            let offered = Event::PrefetchOffered { volume: request.volume, extent: Some(behind) };
            self.engine.handle(offered, self.now);
        }
    }

    /// Advances time to `until`, with all events and wake-ups on the way.
    fn run_until(&mut self, until: Instant) {
        loop {
            self.drain();
            self.engine.invariants();
            let done = self.serving.as_ref().map(|(_, done)| *done);
            let next = [done, self.engine.next_wakeup()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= until) else {
                self.now = self.now.max(until);
                return;
            };
            self.now = next.max(self.now);
            if let Some((command, _)) = self.serving.take_if(|(_, done)| *done <= self.now) {
                let completed = Event::Completed { command: command.id, outcome: Outcome::Done };
                self.engine.handle(completed, self.now);
            }
        }
    }

    fn drain(&mut self) {
        while let Some(action) = self.engine.poll(self.now) {
            match action {
                Action::Issue(command) => self.issue(command),
                Action::Reply(reply) => {
                    let (arrival, progress) = &self.requests[&reply.request];
                    let extent = arrival.operation.extent;
                    assert_eq!(progress.done, extent.len, "answered after its last sector");
                    if arrival.operation.op == Op::Write && arrival.operation.fua {
                        let durable = |lba| self.disk.durable.contains(&lba);
                        assert!(
                            (extent.start.0..extent.end().0).all(durable),
                            "durable when answered"
                        );
                        self.writes_forced += 1;
                    }
                    self.answered += 1;
                }
            }
        }
    }

    fn issue(&mut self, command: Command) {
        assert!(self.serving.is_none(), "one command at a time");
        let (arrival, progress) =
            self.requests.get_mut(&command.request).expect("it was submitted");
        match command.purpose {
            Purpose::Transfer if command.operation.op == Op::Flush => {
                assert_eq!(progress.done, arrival.operation.extent.len, "a flush ends a write");
            }
            Purpose::Transfer => {
                assert_eq!(command.offset, progress.done, "in order and once");
                let extent = command.operation.extent;
                assert_eq!(extent.start, arrival.operation.extent.start + progress.done);
                assert_eq!(command.operation.op, arrival.operation.op);
                progress.done += extent.len;
                assert!(
                    progress.done <= arrival.operation.extent.len,
                    "no sector outside the request"
                );
                progress.seeks = 0;
            }
            Purpose::Seek | Purpose::Prefetch => {
                progress.seeks += u32::from(command.purpose == Purpose::Seek);
                progress.seeks_max = progress.seeks_max.max(progress.seeks);
            }
        }
        let done = self.disk.serve(&command, self.now);
        self.serving = Some((command, done));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("SPINDLE_CASES").map_or(128, |cases| cases.parse().expect("a number"))
    ))]

    /// Every request is transferred once, in order and whole; a write with FUA is durable when it
    /// is answered; and the number of seeks per transfer is bounded.
    #[test]
    fn whatever_preempts_it_a_request_is_transferred_once_and_in_order(
        settings in settings(),
        arrivals in arrivals(),
        seek_errors in prop::collection::vec(0_u64..1_500, 1..20),
    ) {
        let mut run = Run::new(settings, seek_errors);
        for arrival in &arrivals {
            let at = run.now + arrival.after;
            run.run_until(at);
            run.submit(*arrival);
        }
        run.run_until(run.now + Duration::from_secs(600));
        prop_assert_eq!(run.answered, arrivals.len());
        // A movement has at most four parts, and begins once, and once more after each preemption.
        let most = 4 * (u32::from(PREEMPTIONS_MAX) + 1);
        for (_, progress) in run.requests.values() {
            prop_assert!(progress.seeks_max <= most, "{} seeks for one chunk", progress.seeks_max);
        }
    }

    /// Splitting a command into two equal parts never lengthens the expected wait, whatever the
    /// other commands are.
    #[test]
    fn shorter_commands_never_lengthen_the_expected_wait(
        commands in prop::collection::vec(1_u64..50_000_000, 1..40),
        which in any::<prop::sample::Index>(),
        idle in 0_u64..20_000_000,
    ) {
        let times = |nanos: &[u64]| {
            nanos.iter().map(|n| Duration::from_nanos(*n)).collect::<Vec<_>>()
        };
        let idle = Duration::from_nanos(idle);
        let mut finer = commands.clone();
        let index = which.index(finer.len());
        let half = finer[index] / 2;
        finer[index] -= half;
        finer.push(half);
        prop_assert!(expected_wait(times(&finer), idle) <= expected_wait(times(&commands), idle));
    }
}

fn preemptible() -> Settings {
    let execution = Execution::Preemptible(Preemptible::default());
    Settings { policy: PolicyName::Fcfs, execution, ..Settings::default() }
}

fn read(start: u64, len: u64) -> Operation {
    Operation::read(Extent::new(Lba(start), Sectors(len)))
}

fn arrival(volume: u32, operation: Operation) -> Arrival {
    Arrival { after: Duration::ZERO, volume, operation }
}

/// A run whose first reads have shown the engine the angle of the disk.
fn calibrated(settings: Settings) -> Run {
    let mut run = Run::new(settings, vec![0]);
    for start in [100_000, 3_000, 150_000] {
        run.submit(arrival(0, read(start, 8)));
        run.run_until(run.now + ms(500));
    }
    run
}

#[test]
fn high_priority_is_served_before_the_rest_of_a_request_which_resumes_where_it_stopped() {
    let mut run = calibrated(preemptible());
    run.submit(arrival(0, read(20_000, 400)));
    // Half of it takes about 20 ms of transfer after a seek.
    run.run_until(run.now + ms(30));
    let long = RequestId(3);
    let before = run.requests[&long].1.done;
    assert!(before > Sectors::ZERO && before < Sectors(400), "{before:?}");
    run.submit(arrival(2, read(180_000, 8)));
    let answered = run.answered;
    run.run_until(run.now + ms(25));
    assert_eq!(run.answered, answered + 1, "the short one is answered first");
    assert!(run.requests[&long].1.done < Sectors(400));
    run.run_until(run.now + ms(500));
    assert_eq!(run.requests[&long].1.done, Sectors(400));
    assert_eq!(run.engine.preemption_stats().expect("preemptible").preemptions, 1);
}

#[test]
fn high_priority_waits_for_the_whole_request_if_execution_is_whole() {
    let execution = Execution::Whole { split: Some(Sectors(64)) };
    let mut run = calibrated(Settings { execution, ..preemptible() });
    run.submit(arrival(0, read(20_000, 400)));
    run.run_until(run.now + ms(30));
    run.submit(arrival(2, read(180_000, 8)));
    let (long, short) = (RequestId(3), RequestId(4));
    run.run_until(run.now + ms(500));
    let (long, short) = (&run.requests[&long].1, &run.requests[&short].1);
    assert_eq!((long.done, short.done), (Sectors(400), Sectors(8)));
    assert_eq!(run.engine.preemption_stats(), None);
}

/// Two requests cannot preempt each other without end: one that was preempted [`PREEMPTIONS_MAX`]
/// times since its last transfer is non-preemptible until its next one.
#[test]
fn a_request_makes_progress_whatever_arrives_whenever_its_positioning_begins() {
    let mut run = calibrated(preemptible());
    let long = RequestId(3);
    run.submit(arrival(0, read(20_000, 160)));
    let (mut short, mut done, mut since) = (0_u32, Sectors::ZERO, 0);
    while run.requests[&long].1.done < Sectors(160) {
        // As soon as the positioning for the long one begins (a rotational wait or a seek), a short
        // one arrives.
        run.drain();
        let is_served = run.serving.as_ref().is_some_and(|(command, _)| command.request == long);
        if is_served || run.engine.rotational_wait_until().is_some() {
            let start = if short.is_multiple_of(2) { 190_000 } else { 1_000 };
            run.submit(arrival(2, read(start, 1)));
            (short, since) = (short + 1, since + 1);
        }
        let next = run.serving.as_ref().map(|(_, at)| *at).or(run.engine.next_wakeup());
        run.run_until(next.expect("there is work"));
        let now = run.requests[&long].1.done;
        if now > done {
            (done, since) = (now, 0);
        }
        // One more may arrive while a non-preemptible chunk is in flight.
        assert!(
            since <= u32::from(PREEMPTIONS_MAX) * 4 + 4,
            "{since} short ones since its last transfer"
        );
    }
    assert!(short > 8, "it was preempted again and again: {short}");
}

#[test]
fn predictions_that_fail_disable_just_in_time_seeks() {
    // Seeks that take up to 9 ms longer than the profile says: no offset can hide that.
    let seek_errors = (0..97).map(|n| n * 7_919 % 9_000).collect();
    let jit = Some(Jit { offset: ms(1), approach: Approach::InTime });
    let execution = Execution::Preemptible(Preemptible { jit, ..Preemptible::default() });
    let mut run = Run::new(Settings { execution, ..preemptible() }, seek_errors);
    let mut random = 1_u64;
    for _ in 0..300 {
        random = random * 48_271 % 2_147_483_647;
        run.submit(arrival(0, read(random % 199_000, 8)));
        run.run_until(run.now + ms(200));
    }
    let stats = run.engine.preemption_stats().expect("preemptible");
    assert!(!stats.jit_enabled && stats.jit_disabled_count > 0, "{stats:?}");
    assert_eq!(run.answered, 300);
}

#[test]
fn seeks_on_a_predictable_disk_are_just_in_time() {
    let mut run = Run::new(preemptible(), vec![0, 100, 300, 50]);
    let mut random = 1_u64;
    for _ in 0..300 {
        random = random * 48_271 % 2_147_483_647;
        run.submit(arrival(0, read(random % 199_000, 8)));
        run.run_until(run.now + ms(200));
    }
    let stats = run.engine.preemption_stats().expect("preemptible");
    assert!(stats.jit_enabled && stats.jit_transfers > 200, "{stats:?}");
    assert!(stats.missed * 50 <= stats.jit_transfers, "{stats:?}");
}

/// A regression: each part of a split movement was split again, 23 seeks for one chunk.
#[test]
fn the_rest_of_a_split_movement_is_not_split_again() {
    let how = Preemptible { seek_split: Some(SeekSplit::Always(1)), ..Preemptible::default() };
    let execution = Execution::Preemptible(how);
    let mut run = calibrated(Settings { execution, ..preemptible() });
    run.submit(arrival(0, read(115_667, 334)));
    run.run_until(run.now + ms(500));
    let (_, progress) = &run.requests[&RequestId(3)];
    assert_eq!(progress.done, Sectors(334));
    assert!((2..=4).contains(&progress.seeks_max), "{} seeks", progress.seeks_max);
}

/// What a volume reads on in the waits of another's requests: the response times of those, the
/// number of its reads that were answered before them, and its engine.
fn read_on(free_prefetch: FreePrefetch, is_queued: bool) -> (Duration, usize, Run) {
    let jit = Some(Jit { offset: ms(1), approach: Approach::InTime });
    let chunk = Some(Sectors(16));
    let how = Preemptible { free_prefetch, chunk, jit, ..Preemptible::default() };
    let mut run = calibrated(Settings { execution: Execution::Preemptible(how), ..preemptible() });
    let (mut responses, mut before) = (Duration::ZERO, 0);
    for case in 0..40 {
        let from = 20_000 + 514 * case;
        run.submit(arrival(0, read(from, 64)));
        run.run_until(run.now + ms(100));
        let (waiting, begun) = (RequestId(run.requests.len() as u64), run.now);
        run.submit(arrival(1, read(100_001 + 938 * case, 8)));
        if is_queued {
            run.submit(arrival(0, read(from + 64, 8)));
        }
        let next = RequestId(waiting.0 + 1);
        let mut is_next_done = false;
        while run.requests[&waiting].1.done == Sectors::ZERO {
            is_next_done |= run.requests.get(&next).is_some_and(|(_, p)| p.done == Sectors(8));
            run.run_until(run.now + Duration::from_micros(100));
        }
        before += usize::from(is_next_done);
        responses += run.now.since(begun);
        run.run_until(run.now + ms(200));
    }
    (responses, before, run)
}

#[test]
fn a_volumes_next_read_is_served_in_the_wait_of_anothers_and_costs_that_nothing() {
    let (without, none_before, _) = read_on(FreePrefetch::Off, true);
    let (with, before, _) = read_on(FreePrefetch::ToHost, true);
    assert_eq!(none_before, 0, "first come, first served");
    assert!(before >= 10, "{before} of 40 waits are long enough");
    assert!(with <= without + Duration::from_micros(100) * 40, "{with}, {without} without");
}

#[test]
fn what_is_prefetched_is_charged_to_the_volume_that_gains() {
    let (without, _, off) = read_on(FreePrefetch::Off, false);
    let (with, _, run) = read_on(FreePrefetch::ToHost, false);
    let prefetched = run.engine.preemption_stats().expect("preemptible").prefetched;
    assert!(prefetched >= Sectors(300), "{prefetched}");
    assert!(with <= without + Duration::from_micros(100) * 40, "{with}, {without} without");
    let charged = |run: &Run, volume| run.engine.usage(VolumeId(volume)).disk_time;
    assert!(charged(&run, 0) > charged(&off, 0), "the volume that gains pays");
    assert!(charged(&run, 1) < charged(&off, 1), "the one whose request waits does not");
}
