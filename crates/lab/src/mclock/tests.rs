//! Tags against cases computed by hand, and properties of whole runs of the scheduler.

use engine::Weight;
use sim::SeededRng;
use units::{Bytes, Duration, Extent, Instant, Lba, Sectors};

use super::scheduler::{ClientIndex, Phase, RequestId, Scheduler, TagTime, Tags};
use super::terms::{LocalityBatch, Normalisation, Options, RequestRate, Terms};

const A: ClientIndex = ClientIndex(0);
const B: ClientIndex = ClientIndex(1);

fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn terms(reservation: u32, limit: u32, weight: u32) -> Terms {
    let rate = |rate: u32| (rate > 0).then(|| RequestRate::per_second(rate));
    let weight = Weight::new(weight).expect("a weight");
    Terms { reservation: rate(reservation), limit: rate(limit), weight, idle_credit: 0 }
}

/// A request of 4 KiB: its number says where it lies.
fn request(id: u64) -> (RequestId, Extent) {
    (RequestId(id), Extent::new(Lba(id * 1_000_000), Sectors(8)))
}

fn tags(reservation: u64, limit: u64, weight: u64) -> Tags {
    let at = |millis| TagTime::at(ms(millis));
    Tags { reservation: Some(at(reservation)), limit: Some(at(limit)), weight: at(weight) }
}

/// What is served at this time.
fn served(scheduler: &mut Scheduler, millis: u64) -> Option<(ClientIndex, u64, Phase)> {
    scheduler.invariants();
    let selected = scheduler.select(ms(millis))?;
    Some((selected.client, selected.request.0, selected.phase))
}

#[test]
fn tags_are_spaced_by_the_rates_from_the_present_on() {
    let mut scheduler = Scheduler::new(&[terms(10, 20, 4)], Options::default());
    let mut arrive = |millis, id| scheduler.arrive(ms(millis), A, request(id));
    assert_eq!(arrive(1_000, 0), tags(1_000, 1_000, 1_000));
    assert_eq!(arrive(1_000, 1), tags(1_100, 1_050, 1_250));
    assert_eq!(arrive(1_000, 2), tags(1_200, 1_100, 1_500));
    // Its R tag would be 1,300 and its L tag 1,150: both are past, and no credit is kept.
    assert_eq!(arrive(1_400, 3), tags(1_400, 1_400, 1_750));
}

#[test]
fn a_reservation_that_is_due_goes_first_and_then_the_least_p_tag_within_its_limit() {
    let mut scheduler = Scheduler::new(&[terms(10, 0, 1), terms(0, 5, 4)], Options::default());
    for id in [0, 1, 2] {
        scheduler.arrive(ms(0), A, request(id));
        scheduler.arrive(ms(0), B, request(10 + id));
    }
    // A: R 0, 100, 200, P 0, 1000, 2000. B: L 0, 200, 400, P 0, 250, 500.
    assert_eq!(served(&mut scheduler, 0), Some((A, 0, Phase::Constraint)));
    assert_eq!(served(&mut scheduler, 10), Some((B, 10, Phase::Weight)));
    // B's next L tag is 200, so that A's P tag of 1000 is the least; A's R tags become 0 and 100.
    assert_eq!(served(&mut scheduler, 20), Some((A, 1, Phase::Weight)));
    assert_eq!(scheduler.next_due(), Some(Instant::ZERO), "A has no limit");
    assert_eq!(served(&mut scheduler, 100), Some((A, 2, Phase::Constraint)));
    assert_eq!(served(&mut scheduler, 150), None);
    assert_eq!(scheduler.next_due(), Some(ms(200)));
    assert_eq!(served(&mut scheduler, 200), Some((B, 11, Phase::Weight)));
}

#[test]
fn what_the_weights_gave_is_not_taken_off_a_reservation() {
    let mut scheduler = Scheduler::new(&[terms(10, 0, 1)], Options::default());
    for id in 0..3 {
        scheduler.arrive(ms(0), A, request(id));
    }
    assert_eq!(served(&mut scheduler, 0), Some((A, 0, Phase::Constraint)));
    assert_eq!(served(&mut scheduler, 10), Some((A, 1, Phase::Weight)));
    // The third's R tag was 200, and is 100.
    assert_eq!(served(&mut scheduler, 100), Some((A, 2, Phase::Constraint)));
    let next = scheduler.arrive(ms(100), A, request(3));
    assert_eq!(next.reservation, Some(TagTime::at(ms(200))));
}

#[test]
fn a_client_that_becomes_active_competes_from_the_present_on() {
    let mut scheduler = Scheduler::new(&[terms(0, 0, 1), terms(0, 0, 1)], Options::default());
    for id in 0..4 {
        scheduler.arrive(ms(0), A, request(id));
    }
    // A's P tags are 0, 1000, 2000, 3000.
    assert_eq!(served(&mut scheduler, 0), Some((A, 0, Phase::Weight)));
    assert_eq!(served(&mut scheduler, 10), Some((A, 1, Phase::Weight)));
    // They become 20 and 1020, and B's are 20 and 1020: without the adjustment A, with 2000 and
    // 3000, would wait for both.
    let first = scheduler.arrive(ms(20), B, request(10));
    let second = scheduler.arrive(ms(20), B, request(11));
    assert_eq!(first.weight, TagTime::at(ms(20)));
    assert_eq!(second.weight, TagTime::at(ms(1_020)));
    let order: Vec<u64> = (0..4).filter_map(|_| served(&mut scheduler, 20)).map(|s| s.1).collect();
    assert_eq!(order, [2, 10, 3, 11]);
}

#[test]
fn a_client_that_goes_on_at_its_answer_has_not_been_idle_and_one_that_pauses_has() {
    let weight = |pause_ms: u64| {
        let mut scheduler = Scheduler::new(&[terms(0, 0, 1)], Options::default());
        scheduler.arrive(ms(0), A, request(0));
        served(&mut scheduler, 0).expect("it has a request");
        scheduler.complete(ms(10), A);
        scheduler.arrive(ms(10 + pause_ms), A, request(1)).weight
    };
    assert_eq!(weight(0), TagTime::at(ms(1_000)));
    assert_eq!(weight(1), TagTime::at(ms(11)));
}

#[test]
fn an_idle_credit_puts_a_burst_before_others() {
    let credited = Terms { idle_credit: 2, ..terms(0, 0, 1) };
    let mut scheduler = Scheduler::new(&[terms(0, 0, 1), credited], Options::default());
    for id in 0..3 {
        scheduler.arrive(ms(5_000), A, request(id));
    }
    for id in 10..13 {
        scheduler.arrive(ms(5_000), B, request(id));
    }
    // A's P tags are 5, 6 and 7 s, B's 3, 4 and 5 s.
    let order = (0..6).filter_map(|_| served(&mut scheduler, 5_000)).map(|served| served.1);
    assert_eq!(order.collect::<Vec<_>>(), [10, 11, 0, 12, 1, 2]);
}

#[test]
fn a_request_counts_as_one_and_its_size_by_the_delay_and_the_rate() {
    let normalisation = Some(Normalisation::TYPICAL);
    let options = Options { normalisation, ..Options::default() };
    let mut scheduler = Scheduler::new(&[terms(10, 0, 10)], options);
    scheduler.arrive(ms(0), A, request(0));
    // 5 ms at 60 MB/s are 300,000 bytes, and 1,200,128 bytes 1 + 4.00043 requests of 100 ms.
    let large = Extent::new(Lba(0), Sectors(2_344));
    assert_eq!(large.len.bytes(), Bytes(1_200_128));
    let tags = scheduler.arrive(ms(0), A, (RequestId(1), large));
    let spacing = TagTime::at(Instant::from_nanos(500_042_667));
    assert_eq!((tags.reservation, tags.weight), (Some(spacing), spacing));
}

#[test]
fn requests_that_are_close_go_in_batches_of_a_bounded_length() {
    let batch = Some(LocalityBatch { within: Sectors(100), requests_max: 3 });
    let options = Options { batch, ..Options::default() };
    let mut scheduler = Scheduler::new(&[terms(0, 0, 1), terms(0, 0, 1)], options);
    for id in 0..6 {
        scheduler.arrive(ms(0), A, (RequestId(id), Extent::new(Lba(8 * id), Sectors(8))));
        scheduler.arrive(ms(0), B, request(10 + id));
    }
    let order: Vec<u64> = (0..8).filter_map(|_| served(&mut scheduler, 0)).map(|s| s.1).collect();
    // B's P tags of 0, 1 and 2 s are the least; of the two of 3 s A's goes, and its batch goes on.
    assert_eq!(order, [0, 1, 2, 10, 11, 12, 3, 4]);
}

/// What each of some backlogged clients gets of a server whose requests all take `cost`, with the
/// instants of its services.
fn backlogged(terms: &[Terms], cost: Duration, length: Duration) -> Vec<Vec<Instant>> {
    let mut scheduler = Scheduler::new(terms, Options::default());
    let mut services = vec![Vec::new(); terms.len()];
    let mut id = 0;
    let mut arrive = |scheduler: &mut Scheduler, now, client| {
        scheduler.arrive(now, client, request(id));
        id += 1;
    };
    for client in 0..terms.len() {
        (0..3).for_each(|_| arrive(&mut scheduler, Instant::ZERO, ClientIndex(client)));
    }
    let mut now = Instant::ZERO;
    while now < Instant::ZERO + length {
        let Some(selected) = scheduler.select(now) else {
            let next = scheduler.next_due().expect("all are backlogged");
            assert!(next > now, "nothing was due at {now}");
            now = next;
            continue;
        };
        services[selected.client.0].push(now);
        now += cost;
        scheduler.complete(now, selected.client);
        arrive(&mut scheduler, now, selected.client);
        scheduler.invariants();
    }
    services
}

/// Two to five clients with reservations that add up to at most `capacity` requests a second, in
/// half of the cases to nearly all of it, limits above them, and weights.
fn generated(rng: &mut SeededRng, capacity: u32) -> Vec<Terms> {
    let draw = |rng: &mut SeededRng, below: u32| {
        u32::try_from(rng.below(u64::from(below))).expect("it is below 32 bits")
    };
    let count = 2 + draw(rng, 4);
    let each = capacity / count;
    let is_full = draw(rng, 2) == 0;
    (0..count)
        .map(|_| {
            let reservation = if is_full { each } else { draw(rng, each + 1) };
            let limit = if draw(rng, 2) == 0 { 0 } else { reservation + 1 + draw(rng, 60) };
            terms(reservation, limit, 1 + draw(rng, 50))
        })
        .collect()
}

#[test]
fn with_equal_costs_each_reservation_is_kept_whenever_they_fit() {
    let (cost, length) = (Duration::from_millis(5), Duration::from_secs(20));
    for seed in 0..300 {
        let mut rng = SeededRng::new(seed, 0);
        let all = generated(&mut rng, 195);
        let services = backlogged(&all, cost, length);
        for (terms, services) in all.iter().zip(&services) {
            let reserved = u64::from(terms.reservation.map_or(0, RequestRate::get));
            // Requests of the others that are due in the same instants go before its last ones.
            let wanted = (reserved * 20).saturating_sub(2);
            assert!(services.len() as u64 >= wanted, "seed {seed}: {terms:?} of {all:?}");
        }
    }
}

#[test]
fn from_the_beginning_of_a_backlog_no_limit_is_exceeded_by_more_than_one_request() {
    let (cost, length) = (Duration::from_millis(5), Duration::from_secs(20));
    for seed in 0..300 {
        let mut rng = SeededRng::new(seed, 1);
        let all = generated(&mut rng, 195);
        let services = backlogged(&all, cost, length);
        for (terms, services) in all.iter().zip(&services) {
            let Some(limit) = terms.limit else { continue };
            for (count, at) in (1_u64..).zip(services) {
                // The limit itself lets the first go at zero. A due R tag goes whatever its L tag:
                // after the last service by weight at s, with at most l·s + 1 so far, at most
                // r·(t − s) + 1 ≤ l·(t − s) + 1 follow.
                let most = u64::from(limit.get()) * at.as_nanos() / 1_000_000_000 + 1;
                assert!(count <= most + 1, "seed {seed}: {count} until {at}: {terms:?} of {all:?}");
            }
        }
    }
}

#[test]
fn without_reservations_and_limits_backlogged_clients_have_the_ratio_of_their_weights() {
    let all = [terms(0, 0, 1), terms(0, 0, 2), terms(0, 0, 5)];
    let services = backlogged(&all, Duration::from_millis(5), Duration::from_secs(40));
    let counts: Vec<usize> = services.iter().map(Vec::len).collect();
    assert_eq!(counts.iter().sum::<usize>(), 8_000);
    for (count, weight) in counts.iter().zip([1, 2, 5]) {
        assert!(count.abs_diff(weight * 1_000) <= 2, "{counts:?}");
    }
}
