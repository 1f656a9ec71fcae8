//! Volumes are added, changed and removed while requests are queued and in service: no request is
//! lost, and no disk time is reserved twice.

mod common;

use std::collections::BTreeMap;

use common::{Closed, Timeline, block, ms, percent, reserve};
use proptest::prelude::*;
use spindle_engine::stream::Task;
use spindle_engine::{
    Action, BestEffortServer, Command, CommandBound, Contract, Deadlines, Event, Feature,
    LatencyContract, Outcome, PolicyName, Priority, RequestId, Settings, StreamContract, VolumeId,
    Weight,
};
use units::{DiskTime, Duration, Sectors, Share};

/// One step of a generated history; indices are taken modulo the number of candidates.
#[derive(Clone, Debug)]
enum Step {
    Submit {
        volume: usize,
        block: u64,
    },
    Finish {
        command: usize,
    },
    Pass {
        micros: u64,
    },
    Add {
        contract: Contract,
    },
    Change {
        volume: usize,
        contract: Contract,
    },
    Remove {
        volume: usize,
    },
    Period {
        millis: u64,
    },
    Prioritise {
        volume: usize,
        priority: Priority,
    },
    /// A stream or a bounded latency, where the policy keeps it.
    Promise {
        volume: usize,
        latency: bool,
    },
}

/// Every policy, with shared return costs and with several commands in flight.
fn disks() -> impl Strategy<Value = (PolicyName, u32)> {
    (prop::sample::select(PolicyName::ALL.to_vec()), prop::sample::select(vec![1, 4]))
        .prop_map(|(policy, depth)| (policy, if policy.has_deadlines() { 1 } else { depth }))
}

fn contracts() -> impl Strategy<Value = Contract> {
    (0_u32..70, 0_u32..=100, 1_u32..=1_000).prop_map(|(reserve, limit, weight)| Contract {
        reserve: percent(reserve),
        limit: percent(limit),
        weight: Weight::new(weight).expect("within its bounds"),
        stream: None,
        latency: None,
        is_background: limit % 3 == 0,
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let volume = any::<usize>;
    let step = prop_oneof![
        6 => (volume(), 0_u64..1_000_000)
            .prop_map(|(volume, block)| Step::Submit { volume, block }),
        6 => volume().prop_map(|command| Step::Finish { command }),
        3 => (0_u64..400_000).prop_map(|micros| Step::Pass { micros }),
        2 => contracts().prop_map(|contract| Step::Add { contract }),
        3 => (volume(), contracts())
            .prop_map(|(volume, contract)| Step::Change { volume, contract }),
        2 => volume().prop_map(|volume| Step::Remove { volume }),
        1 => (100_u64..=10_000).prop_map(|millis| Step::Period { millis }),
        1 => (volume(), prop::sample::select(vec![Priority::Normal, Priority::High]))
            .prop_map(|(volume, priority)| Step::Prioritise { volume, priority }),
        2 => (volume(), any::<bool>())
            .prop_map(|(volume, latency)| Step::Promise { volume, latency }),
    ];
    prop::collection::vec(step, 1..300)
}

/// A bounded latency, or else a stream, of which a block takes 30 ms at most.
fn promise(latency: bool) -> Contract {
    let (cost, size) = (DiskTime::from_millis(30), Sectors(8));
    if latency {
        let task = Task::sporadic(ms(500), ms(400), 2, cost, cost).expect("a task");
        return Contract { latency: Some(LatencyContract { task, size }), ..Contract::BEST_EFFORT };
    }
    let task = Task::new(ms(600), cost, cost).expect("a task");
    Contract::stream(StreamContract { task, block: size, range: None })
}

/// An engine, and the expected state of its volumes, requests and commands.
struct Model {
    policy: PolicyName,
    timeline: Timeline,
    volumes: Vec<VolumeId>,
    open: BTreeMap<RequestId, VolumeId>,
    running: Vec<Command>,
}

impl Model {
    fn new((policy, depth): (PolicyName, u32)) -> Self {
        // Under deadlines a server keeps best effort from starving.
        let best_effort = Some(BestEffortServer { share: percent(5), period: ms(1_000) });
        let deadlines = Deadlines { best_effort, ..Deadlines::default() };
        let settings = Settings { policy, depth, deadlines, ..Settings::default() };
        let timeline = Timeline::new(settings, &[]);
        let (volumes, open, running) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { policy, timeline, volumes, open, running }
    }

    fn settle(&mut self) {
        while let Some(action) = self.timeline.poll() {
            match action {
                Action::Issue(command) => {
                    assert!(self.volumes.contains(&command.volume), "a command of a volume");
                    self.running.push(command);
                }
                Action::Reply(reply) => {
                    let submitter = self.open.remove(&reply.request);
                    assert_eq!(
                        submitter,
                        Some(reply.volume),
                        "answered once, to the submitting volume"
                    );
                }
            }
        }
        let mut reserved = self.volumes.iter().map(|v| self.timeline.engine.contract(*v).reserve);
        let sum = reserved.try_fold(Share::NONE, Share::checked_add);
        assert_eq!(sum, Some(self.timeline.engine.admission().reserved()), "at most the whole");
        assert_eq!(self.timeline.engine.volumes(), self.volumes.len());
        self.timeline.engine.invariants();
    }

    fn finish(&mut self, index: usize) {
        let command = self.running.swap_remove(index);
        self.timeline.after(ms(3)).complete(&command, Outcome::Done);
    }

    fn drain(&mut self, volume: Option<VolumeId>) {
        for _ in 0..10_000 {
            self.settle();
            if !self.open.values().any(|of| volume.is_none_or(|volume| *of == volume)) {
                return;
            }
            if self.running.is_empty() {
                let wakeup = self.timeline.engine.next_wakeup();
                self.timeline.now = wakeup.expect("a disk with queued requests idles for a reason");
            } else {
                self.finish(0);
            }
        }
        panic!("a request was lost: {:?}", self.open);
    }

    /// Changes the contract of `volume` if it is admitted.
    fn change(&mut self, volume: VolumeId, contract: Contract) {
        let engine = &mut self.timeline.engine;
        if engine.admits(volume, contract).is_ok() {
            engine.handle(Event::ContractChanged { volume, contract }, self.timeline.now);
            assert_eq!(engine.contract(volume), contract);
        }
    }

    fn step(&mut self, step: &Step) {
        let count = self.volumes.len();
        let now = self.timeline.now;
        match *step {
            Step::Submit { volume, block: number } if count > 0 => {
                let volume = self.volumes[volume % count];
                let request = self.timeline.submit(volume.0, block(number));
                self.open.insert(request, volume);
            }
            Step::Finish { command } if !self.running.is_empty() => {
                self.finish(command % self.running.len());
            }
            Step::Pass { micros } => {
                self.timeline.after(Duration::from_micros(micros));
            }
            Step::Add { contract } => {
                let before = *self.timeline.engine.admission();
                match self.timeline.engine.add_volume(contract, now) {
                    Ok(volume) => self.volumes.push(volume),
                    Err(_) => assert_eq!(*self.timeline.engine.admission(), before),
                }
            }
            Step::Change { volume, contract } if count > 0 => {
                self.change(self.volumes[volume % count], contract);
            }
            Step::Promise { volume, latency } if count > 0 => {
                let feature = if latency { Feature::Latency } else { Feature::Stream };
                if self.policy.keeps(feature) {
                    self.change(self.volumes[volume % count], promise(latency));
                }
            }
            Step::Remove { volume } if count > 0 => {
                let volume = self.volumes[volume % count];
                self.drain(Some(volume));
                self.volumes.retain(|there| *there != volume);
                let now = self.timeline.now;
                self.timeline.engine.handle(Event::VolumeRemoved { volume }, now);
            }
            Step::Prioritise { volume, priority } if count > 0 => {
                self.timeline.engine.set_priority(self.volumes[volume % count], priority);
            }
            Step::Period { millis } => {
                let (period, batch) = (ms(millis), ms(millis.min(250)));
                self.timeline.engine.handle(Event::PeriodChanged { period, batch }, now);
            }
            _ => {}
        }
        self.settle();
    }
}

/// A sample in CI; `make soak` asks for more.
fn cases() -> u32 {
    let cases = std::env::var("SPINDLE_CASES").ok();
    cases.map_or(256, |cases| cases.parse().expect("SPINDLE_CASES is a number"))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_changes_every_request_is_answered_once_and_reserves_stay_within_the_disk(
        disk in disks(),
        steps in steps(),
    ) {
        let mut model = Model::new(disk);
        for step in &steps {
            model.step(step);
        }
        model.drain(None);
    }
}

/// Two backlogged clients with random 4 KiB reads that take 10 ms each.
fn two(contracts: &[Contract; 2]) -> Closed<'static> {
    let mut number = 0_u64;
    let next = move |volume: VolumeId| {
        number += 7_919;
        block(number % 100_000 * 100 + u64::from(volume.0))
    };
    let timeline = Timeline::new(Settings::default(), contracts);
    Closed { timeline, next: Box::new(next), service: Box::new(|_| ms(10)) }
}

/// The share of `length` that the first of two had in it.
fn share_of_first(disk: &mut Closed<'_>, length: Duration) -> f64 {
    let before = disk.timeline.had(0);
    disk.go_on(length);
    (disk.timeline.had(0) - before).as_secs_f64() / length.as_secs_f64()
}

#[test]
fn a_reserve_that_is_changed_under_load_holds_from_the_next_period_on() {
    let mut disk = two(&[reserve(50), reserve(50)]);
    disk.run(8, ms(10_000));
    for (volume, percent) in [(1, 20), (0, 80)] {
        let now = disk.timeline.now;
        let event = Event::ContractChanged { volume: VolumeId(volume), contract: reserve(percent) };
        disk.timeline.engine.handle(event, now);
    }
    disk.go_on(ms(1_000));
    let share = share_of_first(&mut disk, ms(10_000));
    assert!((share - 0.80).abs() < 0.03, "80 % is reserved, the share is {share}");
}

#[test]
fn slack_is_shared_as_the_weights_say_before_and_after_they_change() {
    let weighed = |weight| Contract {
        weight: Weight::new(weight).expect("within its bounds"),
        ..Contract::BEST_EFFORT
    };
    let mut disk = two(&[weighed(3), weighed(1)]);
    disk.run(8, ms(20_000));
    let share = share_of_first(&mut disk, ms(40_000));
    assert!((share - 0.75).abs() < 0.02, "three to one, the share is {share}");
    let now = disk.timeline.now;
    let event = Event::ContractChanged { volume: VolumeId(1), contract: weighed(9) };
    disk.timeline.engine.handle(event, now);
    disk.go_on(ms(2_000));
    let share = share_of_first(&mut disk, ms(40_000));
    assert!((share - 0.25).abs() < 0.02, "three to nine, the share is {share}");
}

#[test]
fn a_reused_number_keeps_no_state_of_the_removed_volume() {
    let mut timeline = Timeline::new(Settings::default(), &[reserve(60), reserve(40)]);
    timeline.submit(0, block(5));
    timeline.serve(ms(10));
    assert_eq!(timeline.had(0), DiskTime::from_millis(10));
    timeline.engine.handle(Event::VolumeRemoved { volume: VolumeId(0) }, timeline.now);
    let again = timeline.engine.add_volume(reserve(60), timeline.now);
    assert_eq!(again, Ok(VolumeId(0)), "60 % and a number are free again");
    assert_eq!(timeline.had(0), DiskTime::ZERO);
    timeline.submit(0, block(6));
    timeline.serve(ms(10));
    timeline.engine.invariants();
}

#[test]
fn under_throughput_a_reserve_that_is_changed_holds_too_and_weights_share_the_slack() {
    let nominal = DiskTime::from_millis(20);
    let settings =
        Settings { policy: PolicyName::Throughput, nominal_cost: nominal, ..Settings::default() };
    let weighed = |reserve, weight| Contract {
        weight: Weight::new(weight).expect("within its bounds"),
        ..Contract::reserve(percent(reserve))
    };
    let mut disk = two(&[weighed(50, 1), weighed(50, 1)]);
    disk.timeline = Timeline::new(settings, &[weighed(50, 1), weighed(50, 1)]);
    disk.run(8, ms(5_000));
    // Of the hundred commands a second that the disk serves, fifty are reserved: the rest is slack.
    for (volume, contract) in [(1, weighed(10, 1)), (0, weighed(90, 4))] {
        let now = disk.timeline.now;
        let event = Event::ContractChanged { volume: VolumeId(volume), contract };
        disk.timeline.engine.handle(event, now);
    }
    let event = Event::PeriodChanged { period: ms(500), batch: ms(250) };
    disk.timeline.engine.handle(event, disk.timeline.now);
    disk.go_on(ms(10_000));
    let share = share_of_first(&mut disk, ms(40_000));
    assert!((share - 0.80).abs() < 0.02, "four to one by weight, the share is {share}");
}

#[test]
fn a_change_of_its_weight_or_reserve_leaves_the_latency_that_a_queued_request_was_promised() {
    let worst = CommandBound { positioning: DiskTime::ZERO, sector: DiskTime::from_millis(1) };
    let deadlines = Deadlines { worst, ..Deadlines::default() };
    let policy = PolicyName::Spindle;
    let settings = Settings { policy, command_max: Sectors(20), deadlines, ..Settings::default() };
    let cost = DiskTime::from_millis(8);
    let task = Task::sporadic(ms(50), ms(100), 2, cost, cost).expect("a task");
    let latency = Some(LatencyContract { task, size: Sectors(8) });
    let promised = Contract { latency, ..Contract::BEST_EFFORT };
    let mut disk = Timeline::new(settings, &[promised]);
    // The promise begins with the first decision.
    disk.quiet();
    let weight = Weight::new(3).expect("a weight");
    for contract in [Contract { weight, ..promised }, Contract { reserve: percent(10), ..promised }]
    {
        disk.submit(0, block(1));
        let volume = VolumeId(0);
        disk.engine.handle(Event::ContractChanged { volume, contract }, disk.now);
        disk.serve(ms(8));
    }
    let stats = disk.engine.latency_stats(VolumeId(0)).expect("it has a latency");
    assert_eq!((stats.answered, stats.late, stats.beyond), (2, 0, 0), "{stats:?}");
}
