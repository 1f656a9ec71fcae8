//! Streams that begin and end, streams over several disks, and counter-offers to refused streams.

mod common;

use common::abstract_disk::{Load, SeededRng, first_miss, task};
use spindle_engine::stream::{
    Booking, CounterOffers, RequestedStream, Span, Task, TaskId, TaskSet, Timetable, Violation,
    book_all,
};
use units::{Bytes, DiskTime, Duration, Instant};

/// A sample in CI; `make soak` asks for more.
fn cases(usual: u64) -> u64 {
    let cases = std::env::var("SPINDLE_CASES").ok();
    cases.map_or(usual, |cases| cases.parse().expect("SPINDLE_CASES is a number"))
}

fn span(start: u64, end: u64) -> Span {
    Span { start: Instant::from_nanos(start), end: Instant::from_nanos(end) }
}

fn booking(id: u32, task: Task, span: Span) -> Booking {
    Booking { id: TaskId(id), task, span }
}

/// The bookings as a set for the abstract disk, and the span of each.
fn on_the_disk(table: &Timetable) -> (TaskSet, Vec<Span>) {
    let mut set = TaskSet::default();
    for booking in table.iter() {
        set.insert(booking.id, booking.task);
    }
    let span_of = |id| table.iter().find(|booking| booking.id == id).expect("it is booked").span;
    let spans = set.iter().map(|(id, _)| span_of(id)).collect();
    (set, spans)
}

const HANDOVER: u64 = 200;

/// Two consecutive sets, each of which fits, with a handover that does not.
fn handover() -> [(Task, Span); 4] {
    [
        (task(10, 4, 1), span(0, HANDOVER)),
        (task(14, 7, 1), span(HANDOVER, 400)),
        (task(23, 8, 1), span(0, 400)),
        (task(59, 7, 7), span(0, 400)),
    ]
}

#[test]
fn a_task_that_follows_another_is_checked_together_with_it() {
    let mut table = Timetable::default();
    let mut all_tasks = TaskSet::default();
    for (id, (task, span)) in (0..).zip(handover()) {
        all_tasks.insert(TaskId(id), task);
        table.insert(booking(id, task, span));
    }
    for stretch in [span(0, HANDOVER), span(HANDOVER, 400)] {
        assert_eq!(table.tasks_during(stretch).check(), Ok(()), "each set fits");
    }
    let late = table.remove(TaskId(1)).expect("it was booked");
    let refused = table.check_with(late.task, late.span).expect_err("the handover does not fit");
    assert!(matches!(refused.1, Violation::Blocked { .. }), "{refused:?}");
    // The refusal is right: the longest command begins 1 ns before the other requests of the
    // interval, and one of them is late.
    let offsets = all_tasks.iter().map(|(id, _)| match id.0 {
        0 | 2 => HANDOVER - 10,
        1 => HANDOVER,
        _ => HANDOVER - 11,
    });
    let ends = all_tasks.iter().map(|(id, _)| if id.0 == 0 { HANDOVER } else { 400 });
    let (offsets, ends) = (offsets.collect(), ends.collect());
    let load = Load { offsets, ends, below_worst: None, best_effort: Vec::new() };
    let miss = first_miss(&all_tasks, 0, &load).expect("a request is late");
    assert_eq!((miss.deadline, miss.ended), (HANDOVER + 14, HANDOVER + 15));
}

/// Two sets that fit, each with costs as large as possible; one follows the other at [`HANDOVER`].
fn generated_handover(rng: &mut SeededRng) -> Option<Timetable> {
    let (before, after) = (rng.between(6, 20), rng.between(6, 20));
    let both = (before + after).saturating_sub(rng.between(0, 3));
    let periods = [before, after, both, rng.between(both + 1, 60)];
    let command = rng.between(2, 12);
    let always = span(0, 2 * HANDOVER);
    // The blocking task's request is released just before the first of the others, or is due just
    // at the end of its span, or 1 ns later than either.
    let first = HANDOVER - before;
    let blocks = match rng.between(0, 4) {
        0 => span(first - rng.between(0, 1), always.end.as_nanos()),
        1 => span(0, first - rng.between(1, 2) + periods[3]),
        2 => span(0, HANDOVER + rng.between(0, 60)),
        _ => always,
    };
    let spans = [span(0, HANDOVER), span(HANDOVER, 2 * HANDOVER), always, blocks];
    let table = |costs: [u64; 4]| {
        let mut table = Timetable::default();
        for (id, index) in (0..).zip(0..4) {
            let longest = if index == 3 { command } else { 1 };
            let task = task(periods[index], costs[index], longest.min(costs[index]));
            table.insert(booking(id, task, spans[index]));
        }
        let halves = [&spans[0], &spans[1]].map(|half| table.tasks_during(*half).check());
        halves.iter().all(Result::is_ok).then_some(table)
    };
    let mut costs = [1, 1, 1, command];
    let mut found = table(costs)?;
    for _ in 0..30 {
        let mut more = costs;
        more[usize::try_from(rng.between(0, 2)).expect("small")] += 1;
        if let Some(fuller) = table(more) {
            (costs, found) = (more, fuller);
        }
    }
    Some(found)
}

/// Whether any interval around the handover has a shortfall.
fn has_shortfall(table: &Timetable) -> bool {
    let nanos = |at: Instant| at.as_nanos();
    let short = |from: u64, until: u64| {
        let demand = |Booking { task, span, .. }: &Booking| {
            let (start, end) = (nanos(span.start).max(from), nanos(span.end).min(until));
            let requests = end.saturating_sub(start) / task.period().as_nanos();
            requests * task.cost().as_nanos().unsigned_abs()
        };
        let blocks = |Booking { task, span, .. }: &Booking| {
            let due = from - 1 + task.period().as_nanos();
            let blocks = nanos(span.start) < from && due > until && due <= nanos(span.end);
            blocks.then(|| task.longest().as_nanos().unsigned_abs() - 1)
        };
        let demand: u64 = table.iter().map(demand).sum();
        let blocking = table.iter().filter_map(blocks).max().unwrap_or(0);
        demand > 0 && demand + blocking > until - from
    };
    let around = HANDOVER - 70..HANDOVER + 70;
    around.clone().any(|from| (from + 1..around.end).any(|until| short(from, until)))
}

#[test]
fn around_a_handover_the_verdict_equals_that_of_an_exhaustive_search() {
    let (mut fit, mut late) = (0, 0);
    // With the last seed, the interval with the shortfall begins where the blocking task's last
    // request is due at the end of its span.
    for seed in (0..cases(4_000)).chain([6_893]) {
        let Some(table) = generated_handover(&mut SeededRng(seed)) else { continue };
        let verdict = table.check();
        assert_eq!(
            verdict.is_err(),
            has_shortfall(&table),
            "seed {seed}: {verdict:?} of {table:?}"
        );
        *(if verdict.is_ok() { &mut fit } else { &mut late }) += 1;
    }
    println!("{fit} handovers fit; {late} do not, although the sets before and after do");
    assert!(fit > 0 && late > 0);
}

#[test]
fn a_stream_may_follow_another_although_both_do_not_fit_at_once() {
    let mut table = Timetable::default();
    table.insert(booking(0, task(100, 60, 20), span(0, 10_000)));
    table.insert(booking(1, task(150, 45, 20), span(0, 20_000)));
    let next = task(100, 60, 20);
    assert_eq!(table.check_with(next, span(10_000, 20_000)), Ok(()));
    let (stretch, violation) =
        table.check_with(next, span(9_999, 20_000)).expect_err("1 ns too soon");
    assert_eq!(stretch, span(9_999, 10_000));
    assert!(matches!(violation, Violation::Utilization { .. }));
}

/// A timetable of bookings that were checked one by one, and the number of refused ones.
fn generated(rng: &mut SeededRng) -> (Timetable, u64) {
    let mut table = Timetable::default();
    let mut refused = 0;
    let cut = rng.between(60, 140);
    for id in 0..u32::try_from(rng.between(4, 9)).expect("small") {
        let period = rng.between(4, 40);
        let cost = (period * rng.between(2, 70) / 100).max(1);
        let task = task(period, cost, rng.between(1, cost));
        // Many begin and end at the same instants, others at any.
        let span = match rng.between(0, 4) {
            0 => span(0, cut),
            1 => span(cut, 200),
            2 => span(rng.between(0, 100), rng.between(101, 200)),
            _ => span(0, 200),
        };
        match table.check_with(task, span) {
            Ok(()) => table.insert(booking(id, task, span)),
            Err(_) => refused += 1,
        }
    }
    (table, refused)
}

#[test]
fn no_request_is_late_while_other_tasks_begin_and_end() {
    let (mut booked, mut refused) = (0, 0);
    for seed in 0..cases(4_000) {
        let mut rng = SeededRng(seed);
        let (table, turned_away) = generated(&mut rng);
        let (set, spans) = on_the_disk(&table);
        (booked, refused) = (booked + set.len(), refused + turned_away);
        let slack = (0..200).step_by(3).map(|now| table.slack(Instant::from_nanos(now))).min();
        let slack = slack.expect("some").as_nanos().unsigned_abs().min(200);
        for _ in 0..20 {
            let offsets = set.iter().zip(&spans);
            let offsets = offsets
                .map(|((_, task), span)| {
                    span.start.as_nanos() + rng.between(0, task.period().as_nanos())
                })
                .collect();
            let ends = spans.iter().map(|span| span.end.as_nanos()).collect();
            let best_effort = (0..20).filter(|_| slack > 0).map(|n| (n * 10, slack)).collect();
            let below_worst = (rng.between(0, 2) == 0).then(|| SeededRng(rng.next()));
            let load = Load { offsets, below_worst, best_effort, ends };
            let miss = first_miss(&set, slack, &load);
            assert_eq!(miss, None, "seed {seed}: {table:?} with {load:?}");
        }
    }
    println!("{booked} booked, {refused} refused");
    assert!(booked > 0 && refused > 0);
}

#[test]
fn a_stream_over_two_disks_is_booked_on_both_or_on_none() {
    let (mut one, mut other) = (Timetable::default(), Timetable::default());
    other.insert(booking(7, task(100, 60, 10), Span::ALWAYS));
    let before = (one.clone(), other.clone());
    let part = booking(8, task(100, 50, 10), Span::ALWAYS);
    let (index, stretch, violation) =
        book_all(&mut [(&mut one, part), (&mut other, part)]).expect_err("the second is full");
    assert_eq!((index, stretch), (1, Span::ALWAYS));
    assert!(matches!(violation, Violation::Utilization { over_ppb: 100_000_000, .. }));
    assert_eq!((&one, &other), (&before.0, &before.1), "neither has changed");
    let less = booking(8, task(100, 40, 10), Span::ALWAYS);
    book_all(&mut [(&mut one, part), (&mut other, less)]).expect("both fit now");
    assert_eq!(other.slack(Instant::ZERO), DiskTime::ZERO, "and the second is full");
}

#[test]
fn the_slack_is_that_of_the_set_where_nothing_changes() {
    let mut table = Timetable::default();
    for (id, (task, _)) in (0..).zip(&handover()[2..]) {
        table.insert(booking(id, *task, Span::ALWAYS));
    }
    assert_eq!(table.slack(Instant::from_nanos(5)), table.tasks_during(Span::ALWAYS).slack());
    assert_eq!(table.next_change(Instant::ZERO), None);
}

#[test]
fn a_counter_offer_for_a_span_fits_all_of_it() {
    let ms = |n: u64| n * 1_000_000;
    let mut table = Timetable::default();
    let busy = task(ms(100), ms(50), ms(10));
    table.insert(booking(0, busy, span(ms(60_000), ms(120_000))));
    let asked = RequestedStream { bandwidth: Bytes(40_000_000), block: Bytes(1_000_000) };
    let stream = |asked| stream(asked, Bytes(250_000));
    let candidate = stream(asked).expect("a task");
    assert_eq!(
        table.check_with(candidate, span(0, ms(60_000))),
        Ok(()),
        "it fits before the other begins"
    );
    let over = span(0, ms(120_000));
    let (stretch, _) =
        table.check_with(candidate, over).expect_err("it does not fit beside the other");
    assert_eq!(stretch, span(ms(60_000), ms(120_000)));
    let offers = table.counter_offers(over, asked, stream);
    let bandwidth = offers.bandwidth.expect("half of the disk is left");
    assert_eq!(bandwidth, Bytes(25_000_000), "20 ms a block of 1 MB");
    let less = stream(RequestedStream { bandwidth, ..asked }).expect("a task");
    assert_eq!(table.check_with(less, over), Ok(()));
}

/// A stream on a disk that takes 10 ms for positioning and 10 ms per MB.
fn stream(asked: RequestedStream, command: Bytes) -> Option<Task> {
    let bytes = i64::try_from(asked.block.0).expect("small");
    let period = u128::from(asked.block.0) * 1_000_000_000 / u128::from(asked.bandwidth.0);
    let longest =
        DiskTime::from_nanos(10_000_000 + 10 * bytes.min(i64::try_from(command.0).expect("small")));
    let cost = DiskTime::from_nanos(10_000_000 + 10 * bytes);
    Task::new(Duration::from_nanos(u64::try_from(period).ok()?), cost, longest).ok()
}

#[test]
fn a_counter_offer_fits_and_a_larger_one_does_not() {
    let (mut blocks, mut bandwidths) = (0, 0);
    for seed in 0..cases(1_000) {
        let mut rng = SeededRng(seed);
        let command = Bytes([250_000, 1 << 30][usize::from(seed % 2 == 0)]);
        let stream = |asked| stream(asked, command);
        let mut set = TaskSet::new(DiskTime::from_nanos(
            i64::try_from(rng.between(0, 1)).expect("small") * 2_000_000,
        ));
        for id in 0..u32::try_from(rng.between(1, 30)).expect("small") {
            let block = Bytes(1 << rng.between(16, 21));
            let bandwidth = Bytes(rng.between(200_000, 8_000_000));
            if let Some(task) = stream(RequestedStream { bandwidth, block }) {
                let _ = set.admit(TaskId(id), task);
            }
        }
        let block = Bytes(1 << rng.between(16, 24));
        let asked = RequestedStream { bandwidth: Bytes(rng.between(200_000, 80_000_000)), block };
        if stream(asked).is_some_and(|task| set.check_with(task).is_ok()) {
            continue;
        }
        let offers = CounterOffers::find(&set, asked, stream);
        let fits = |asked| stream(asked).is_some_and(|task| set.check_with(task).is_ok());
        if let Some(block) = offers.block {
            blocks += 1;
            assert!(block < asked.block && fits(RequestedStream { block, ..asked }), "seed {seed}");
            assert!(!fits(RequestedStream { block: Bytes(block.0 * 2), ..asked }), "seed {seed}");
        }
        if let Some(bandwidth) = offers.bandwidth {
            bandwidths += 1;
            assert!(
                bandwidth < asked.bandwidth && fits(RequestedStream { bandwidth, ..asked }),
                "seed {seed}"
            );
            let more = Bytes(bandwidth.0 + 1 + bandwidth.0 / 1_000);
            assert!(
                !fits(RequestedStream { bandwidth: more, ..asked }),
                "seed {seed}: {more:?} would fit too"
            );
        }
    }
    println!("{blocks} blocks and {bandwidths} bandwidths offered");
    assert!(blocks > 0 && bandwidths > 0);
}
