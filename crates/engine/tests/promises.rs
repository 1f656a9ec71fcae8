//! Reserves and limits are kept, over generated sets of volumes, clients and service times.

mod common;

use common::{Closed, Timeline, block, ms, percent};
use proptest::prelude::*;
use spindle_engine::{Contract, Event, PolicyName, Settings, VolumeId};
use units::{DiskTime, Duration, Operation, Share};

/// One volume and its client.
#[derive(Clone, Debug)]
struct Client {
    reserve: u32,
    limit: Option<u32>,
    /// Blocks before a jump; 1 is random.
    run: u64,
}

fn clients() -> impl Strategy<Value = Vec<Client>> {
    let run = prop_oneof![Just(1_u64), 2_u64..50, Just(100_000)];
    let client = (1_u32..60, prop::option::weighted(0.3, 5_u32..100), run);
    prop::collection::vec(client, 1..8).prop_map(|clients| {
        let mut left = 100;
        let fit = |(reserve, limit, run): (u32, Option<u32>, u64)| {
            let reserve = reserve.min(left);
            left -= reserve;
            Client { reserve, limit: limit.map(|limit| limit.max(reserve).max(1)), run }
        };
        clients.into_iter().map(fit).collect()
    })
}

fn contract(client: &Client) -> Contract {
    let limit = client.limit.map_or(Share::ALL, percent);
    Contract { limit, ..Contract::reserve(percent(client.reserve)) }
}

/// The blocks of a client that jumps after each run.
fn blocks(clients: &[Client]) -> impl FnMut(VolumeId) -> Operation {
    let mut sent = vec![0_u64; clients.len()];
    let runs: Vec<u64> = clients.iter().map(|client| client.run).collect();
    move |volume| {
        let index = volume.0 as usize;
        let number = sent[index];
        sent[index] += 1;
        let (run, step) = (number / runs[index], number % runs[index]);
        // Runs begin far apart, in a pseudo-random order.
        let start = run.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1_000_000 * 200;
        block(u64::from(volume.0) * 1_000_000_000 + start + step)
    }
}

/// A sample in CI; `make soak` asks for more.
fn cases() -> u32 {
    let cases = std::env::var("SPINDLE_CASES").ok();
    cases.map_or(96, |cases| cases.parse().expect("SPINDLE_CASES is a number"))
}

/// The largest deficit of a backlogged volume against its reserve: one period's worth (RTAS 2008
/// §2.1), what the reserve accrues while each other volume has a batch, the estimate that the
/// bucket must hold, and a command in service.
fn behind_max(settings: &Settings, reserve: Share, volumes: usize) -> DiskTime {
    let others = u64::try_from(volumes).expect("a few") - 1;
    let round = (settings.batch + LONGEST) * others;
    reserve.of(settings.period + round) + settings.estimates.random + LONGEST.into()
}

const LONGEST: Duration = Duration::from_millis(25);
const LENGTH: Duration = Duration::from_secs(30);

/// The policies that guarantee shares.
const POLICIES: [PolicyName; 2] = [PolicyName::Utilization, PolicyName::Spindle];

fn settings(policy: PolicyName) -> Settings {
    assert!(policy.guarantees_shares(), "the policy guarantees shares");
    Settings { policy, ..Settings::default() }
}

/// Runs the clients on a disk whose sequential commands take `near` µs and others `far` µs.
fn check_contracts(
    policy: PolicyName,
    clients: &[Client],
    costs: &[(u64, u64)],
    outstanding: u32,
) -> Result<(), String> {
    let contracts: Vec<Contract> = clients.iter().map(contract).collect();
    let settings = settings(policy);
    let (mut last, mut number) = (None, 0);
    let service = |command: &spindle_engine::Command| {
        number += 1;
        let (near, far) = costs[number % costs.len()];
        let start = Some(command.operation.extent.start);
        let follows = last.replace(command.operation.extent.end()) == start;
        Duration::from_micros(if follows { near } else { far })
    };
    let mut disk = Closed {
        timeline: Timeline::new(settings, &contracts),
        next: Box::new(blocks(clients)),
        service: Box::new(service),
    };
    disk.run(outstanding, LENGTH);
    let elapsed = disk.timeline.now.since(units::Instant::ZERO);
    for (volume, contract) in (0_u32..).zip(&contracts) {
        let (had, longest) = (disk.timeline.had(volume), DiskTime::from(LONGEST));
        let behind = behind_max(&settings, contract.reserve, contracts.len());
        let guaranteed = contract.reserve.of(elapsed) - behind;
        if had < guaranteed {
            return Err(format!("volume {volume} had {had} of {guaranteed}"));
        }
        // The limit does not cap the reserve: what the reserve bucket held at the start is added.
        let ahead =
            contract.limit.of(elapsed) + contract.reserve.of(settings.period) + longest + longest;
        if contract.limit < Share::ALL && had > ahead {
            return Err(format!("volume {volume} had {had}, at most {ahead}"));
        }
    }
    Ok(())
}

fn client(reserve: u32, run: u64) -> Client {
    Client { reserve, limit: None, run }
}

const RUN: u64 = 100_000;

/// Sets that broke earlier versions of the policy, each for another reason.
#[test]
fn contracts_that_earlier_versions_broke_are_kept() {
    let capped = Client { limit: Some(9), ..client(9, 1) };
    let sets = [
        // The small bucket of a sequential run overflowed while the run waited for a batch.
        vec![client(10, RUN), client(90, 1)],
        // A small bucket overflowed during the batch of a sequential run.
        vec![client(90, RUN), client(10, 1)],
        // A bucket whose cap is below an estimate overflowed at its deadline.
        vec![client(1, 1), client(4, 1), client(3, 1), client(40, 1), client(52, 1)],
        // The limit bucket overflowed while its volume waited for others.
        vec![capped, client(18, RUN), client(51, RUN), client(22, 1), client(0, 1)],
        // The credit was lost between an answer and the next request.
        vec![client(13, 1), client(1, 1), client(56, RUN), client(30, 1)],
    ];
    for (set, outstanding) in sets.iter().flat_map(|set| [1, 2, 6].map(|o| (set, o))) {
        for costs in [vec![(100, 3_000)], vec![(300, 15_000)], vec![(452, 24_881), (1_046, 7_968)]]
        {
            for policy in POLICIES {
                let kept = check_contracts(policy, set, &costs, outstanding);
                kept.unwrap_or_else(|broken| {
                    panic!("{policy}, {set:?} with {outstanding} outstanding: {broken}")
                });
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, ..ProptestConfig::with_cases(cases())
    })]

    #[test]
    fn every_reserve_is_met_and_no_limit_is_exceeded(
        policy in prop::sample::select(POLICIES.to_vec()),
        clients in clients(),
        costs in prop::collection::vec((100_u64..2_000, 3_000_u64..25_000), 16),
        outstanding in 1_u32..8,
    ) {
        check_contracts(policy, &clients, &costs, outstanding).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn a_changed_reserve_is_kept_from_the_next_period_on(
        policy in prop::sample::select(POLICIES.to_vec()),
        first in 10_u32..90,
        second in 10_u32..90,
    ) {
        let clients = [first, 100 - first].map(|reserve| Client { reserve, limit: None, run: 1 });
        let contracts: Vec<Contract> = clients.iter().map(contract).collect();
        let mut disk = Closed {
            timeline: Timeline::new(settings(policy), &contracts),
            next: Box::new(blocks(&clients)),
            service: Box::new(|_| ms(10)),
        };
        disk.run(4, Duration::from_secs(5));
        // The reserve that shrinks is changed first, so that the sum never exceeds the whole.
        let mut changes = [(0, second), (1, 100 - second)];
        changes.sort_by_key(|(_, to)| *to);
        for (volume, to) in [changes[0], changes[1]] {
            let (volume, contract) = (VolumeId(volume), Contract::reserve(percent(to)));
            if disk.timeline.engine.admits(volume, contract).is_ok() {
                let event = Event::ContractChanged { volume, contract };
                disk.timeline.engine.handle(event, disk.timeline.now);
            }
        }
        let kept = [0, 1].map(|volume| disk.timeline.engine.contract(VolumeId(volume)).reserve);
        disk.go_on(Duration::from_secs(1));
        let (from, had) = (disk.timeline.now, [0, 1].map(|volume| disk.timeline.had(volume)));
        disk.go_on(Duration::from_secs(20));
        let elapsed = disk.timeline.now.since(from);
        for volume in [0, 1] {
            let got = disk.timeline.had(volume) - had[volume as usize];
            let reserve = kept[volume as usize];
            let behind = behind_max(&settings(policy), reserve, 2);
            prop_assert!(got >= reserve.of(elapsed) - behind, "{} of {}", got, reserve);
        }
    }
}
