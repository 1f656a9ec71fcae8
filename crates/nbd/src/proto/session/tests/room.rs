//! Limits: which requests wait, for what, and their memory meanwhile.

use super::*;

#[test]
fn a_promise_of_bytes_costs_little() {
    let mut timeline = Timeline::opened();
    timeline.request(0, command::WRITE, 1, 0, len32(PAYLOAD_BYTES_MAX));
    assert!(timeline.session.memory() < PAYLOAD_STEP_BYTES);
    let mut filled = 0;
    while filled < PAYLOAD_BYTES_MAX - 1 {
        let piece = 10_007.min(PAYLOAD_BYTES_MAX - 1 - filled);
        timeline.feed(&vec![3; piece]);
        filled += piece;
        let held = timeline.session.memory();
        assert!(held < 3 * filled + 2 * PAYLOAD_STEP_BYTES, "{held} for {filled}");
    }
    assert_eq!(timeline.budget.free(), PAYLOADS_BYTES_MAX - PAYLOAD_BYTES_MAX);
    timeline.feed(&[4]);
    assert_eq!(timeline.submitted().data.len(), PAYLOAD_BYTES_MAX);
}

#[test]
fn at_most_so_many_requests_are_in_flight() {
    let mut timeline = Timeline::opened();
    let flushes: Vec<_> =
        (0..=REQUESTS_MAX as u64).flat_map(|n| head(0, command::FLUSH, n, 0, 0)).collect();
    timeline.feed(&flushes);
    assert_eq!(timeline.session.blocked(), Some(Blocked::ConnectionLimit));
    assert_eq!(timeline.events.len(), REQUESTS_MAX);
    let first = timeline.submitted();
    timeline.reply(&first, Ok(Vec::new()));
    timeline.resume();
    assert_eq!(timeline.events.len(), REQUESTS_MAX);
    assert_eq!(timeline.session.blocked(), None);
}

#[test]
fn at_most_so_many_bytes_are_in_flight_until_they_are_sent() {
    let mut timeline = Timeline::opened();
    let largest = len32(PAYLOAD_BYTES_MAX);
    for n in 0..(BYTES_IN_FLIGHT_MAX / PAYLOAD_BYTES_MAX) as u64 {
        timeline.request(0, command::READ, n, 0, largest);
    }
    timeline.request(0, command::READ, 99, 0, 512);
    assert_eq!(timeline.session.blocked(), Some(Blocked::ConnectionLimit));
    let request = timeline.submitted();
    timeline.reply(&request, Ok(vec![0; PAYLOAD_BYTES_MAX]));
    timeline.resume();
    assert_eq!(
        timeline.session.blocked(),
        Some(Blocked::ConnectionLimit),
        "answered, and not sent"
    );
    timeline.said();
    timeline.resume();
    assert_eq!(timeline.session.blocked(), None);
}

#[test]
fn unread_refusals_stop_the_reading() {
    let mut timeline = Timeline::opened();
    let nonsense = head(0, 99, 1, 0, 0).repeat(5_000);
    timeline.feed(&nonsense);
    assert_eq!(timeline.session.blocked(), Some(Blocked::ConnectionLimit));
    let mut said = 0;
    while timeline.session.blocked().is_some() {
        said += timeline.said().len();
        timeline.resume();
    }
    assert_eq!(said + timeline.said().len(), 5_000 * 16);
}

#[test]
fn without_memory_a_session_waits() {
    let mut timeline = Timeline::opened();
    timeline.budget = Budget::new(1024);
    timeline.request(0, command::READ, 1, 0, 1024);
    timeline.request(0, command::READ, 2, 0, 512);
    assert_eq!(timeline.session.blocked(), Some(Blocked::PayloadMemory));
    let request = timeline.submitted();
    timeline.reply(&request, Err(Errno::Io));
    timeline.resume();
    assert_eq!(timeline.submitted().operation, Operation::read(extent(0, 1)));
}

#[test]
fn without_memory_a_payload_waits_and_its_bytes_are_kept() {
    let mut timeline = Timeline::opened();
    timeline.budget = Budget::new(PAYLOAD_STEP_BYTES);
    let length = 2 * PAYLOAD_STEP_BYTES;
    timeline.request(0, command::WRITE, 1, 0, len32(length));
    timeline.feed(&vec![7; length - 1]);
    assert_eq!(timeline.session.blocked(), Some(Blocked::PayloadMemory));
    timeline.budget.release(PAYLOAD_STEP_BYTES);
    timeline.resume();
    timeline.feed(&[7]);
    assert_eq!(timeline.submitted().data, vec![7; length]);
}

#[test]
fn what_a_departed_session_has_at_the_disks_stays_accounted_for() {
    let mut timeline = Timeline::opened();
    timeline.request(0, command::READ, 1, 0, 4096);
    timeline.request(0, command::READ, 2, 0, 512);
    let first = timeline.submitted();
    timeline.reply(&first, Ok(vec![0; 4096]));
    timeline.request(0, command::WRITE, 3, 0, 4096);
    timeline.feed(&[0; 100]);
    let Timeline { session, mut budget, .. } = timeline;
    let in_flight = session.into_in_flight(&mut budget);
    assert_eq!((in_flight.count(), in_flight.bytes()), (1, 512));
    assert_eq!(budget.free(), PAYLOADS_BYTES_MAX - 512);
}

#[test]
fn a_payload_read_straight_into_its_buffer_is_the_same_write() {
    let mut timeline = Timeline::opened();
    let length = 3 * PAYLOAD_STEP_BYTES;
    timeline.request(0, command::WRITE, 1, 0, len32(length));
    let mut filled = 0;
    // However short its rest is.
    while filled < length {
        let Timeline { session, exports, settings, opened, budget, events } = &mut timeline;
        let space = session.payload_space(budget).expect("all of it has its place");
        let count = space.len().min(5_000);
        space[..count].fill(9);
        filled += count;
        let mut context = SessionContext { exports: &**exports, settings, opened, budget, events };
        session.payload_filled(count, &mut context);
    }
    assert_eq!(timeline.submitted().data, vec![9; length]);
}

#[test]
fn a_connection_is_held_to_the_requests_and_the_memory_that_it_may_have() {
    let mut timeline = Timeline::in_handshake();
    timeline.settings.requests_max = 2;
    timeline.settings.memory_max = Bytes(1 << 20);
    timeline.option(option::GO, &[&info_data(b"vol", &[info::BLOCK_SIZE])]);
    let said = timeline.said();
    let told = said.windows(14).any(|bytes| bytes == [0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 0, 16, 0, 0]);
    assert!(told, "no request is longer than the memory there is");
    timeline.events.clear();
    timeline.request(0, command::READ, 1, 0, 1 << 20);
    timeline.request(0, command::READ, 2, 0, 512);
    assert_eq!(timeline.session.blocked(), Some(Blocked::ConnectionLimit), "no memory");
    let first = timeline.submitted();
    timeline.reply(&first, Ok(vec![1; 1 << 20]));
    timeline.said();
    timeline.resume();
    timeline.request(0, command::FLUSH, 3, 0, 0);
    timeline.request(0, command::FLUSH, 4, 0, 0);
    assert_eq!(
        (timeline.session.blocked(), timeline.events.len()),
        (Some(Blocked::ConnectionLimit), 2)
    );
}

#[test]
fn buffers_are_used_again_and_never_for_much_less() {
    let mut timeline = Timeline::opened();
    timeline.feed(&[head(0, command::WRITE, 1, 0, 4096), vec![7; 4096]].concat());
    let written = timeline.submitted();
    let place = written.data.as_ptr();
    timeline.reply(&written, Ok(written.data.clone()));
    // A clone has its own allocation: the next buffer is the original one.
    timeline.request(0, command::READ, 2, 0, 512);
    assert_eq!(timeline.submitted().data.capacity(), 0, "4 KiB are not held for 512 bytes");
    timeline.request(0, command::READ, 3, 0, 4096);
    let again = timeline.submitted();
    assert_eq!((again.data.capacity(), again.data.len()), (4096, 0));
    assert_ne!(again.data.as_ptr(), place);
}
