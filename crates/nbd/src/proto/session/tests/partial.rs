//! Requests for parts of sectors.

use units::{Op, Operation};

use super::*;
use crate::limits::READ_MODIFY_WRITE_BYTES;
use crate::proto::request::ReadModifyWrite;

fn tracked_exports(timeline: &mut Timeline) -> ReadModifyWrite {
    match timeline.events.remove(0) {
        Event::ReadModifyWrite(write) => write,
        other => panic!("{other:?} instead of a write"),
    }
}

#[test]
fn a_read_of_bytes_reads_the_sectors_around_them_and_gives_the_bytes() {
    let mut timeline = Timeline::opened();
    timeline.request(0, command::READ, 9, 1_000, 100);
    let request = timeline.submitted();
    assert_eq!(request.operation, Operation::read(extent(1, 2)));
    let sectors: Vec<u8> = (0..1_024_u32).map(|n| u8::try_from(n % 251).expect("a byte")).collect();
    assert!(timeline.reply(&request, Ok(sectors.clone())));
    let answer = [simple_reply(9, Ok(())), sectors[488..588].to_vec()].concat();
    assert_eq!(timeline.said(), answer);
    assert_eq!(timeline.budget.free(), PAYLOADS_BYTES_MAX, "all memory is back");
}

#[test]
fn a_read_of_bytes_that_are_zeroes_is_a_hole_of_as_many() {
    let mut timeline = Timeline::in_handshake();
    timeline.option(option::STRUCTURED_REPLY, &[]);
    timeline.option(option::GO, &[&info_data(b"vol", &[])]);
    timeline.said();
    timeline.events.clear();
    timeline.request(0, command::READ, 9, 5, 7);
    let request = timeline.submitted();
    let mut sector = vec![0; 512];
    (sector[4], sector[12]) = (1, 1);
    timeline.reply(&request, Ok(sector));
    let said = timeline.said();
    assert_eq!(said[20..], [&5_u64.to_be_bytes()[..], &7_u32.to_be_bytes()].concat());
    assert_eq!(timeline.budget.free(), PAYLOADS_BYTES_MAX);
}

#[test]
fn a_write_of_bytes_is_a_read_modify_write_however_its_payload_arrives() {
    for pieces in [1, 40, 5_000] {
        let mut timeline = Timeline::opened();
        let flags = command::FLAG_FUA;
        let payload: Vec<u8> =
            (0..3_000_u32).map(|n| u8::try_from(n % 251).expect("a byte")).collect();
        let message = [head(flags, command::WRITE, 4, 511, 3_000), payload.clone()].concat();
        message.chunks(pieces).for_each(|piece| timeline.feed(piece));
        let write = tracked_exports(&mut timeline);
        assert_eq!((write.span.start, write.span.len), (Bytes(511), Bytes(3_000)));
        assert_eq!((write.data, write.fua, write.no_hole), (Some(payload), true, false));
        assert_eq!(timeline.budget.free(), PAYLOADS_BYTES_MAX - 3_000 - READ_MODIFY_WRITE_BYTES);
        timeline.session.reply(write.id.sequence, Ok(Vec::new()), &mut timeline.budget);
        assert_eq!(timeline.said(), simple_reply(4, Ok(())));
        assert_eq!(timeline.budget.free(), PAYLOADS_BYTES_MAX);
    }
}

#[test]
fn zeroes_of_bytes_are_a_read_modify_write_and_never_fast() {
    let mut export = Export::new(ExportId(3), "vol", Bytes(SIZE));
    export.fast_zero = true;
    let mut timeline = Timeline::opened_with(export);
    timeline.request(command::FLAG_NO_HOLE, command::WRITE_ZEROES, 4, 1, 5_000);
    let write = tracked_exports(&mut timeline);
    assert_eq!((write.data, write.no_hole), (None, true));
    let fast = command::FLAG_FAST_ZERO;
    assert_eq!(timeline.refusal(fast, command::WRITE_ZEROES, 1, 5_000), Errno::NotSup);
}

#[test]
fn a_trim_of_bytes_is_a_read_modify_write() {
    for bytes in [100, 1_600] {
        let mut timeline = Timeline::opened();
        timeline.request(command::FLAG_FUA, command::TRIM, 4, 1, bytes);
        let trim = tracked_exports(&mut timeline);
        assert_eq!((trim.op, trim.data, trim.fua, trim.no_hole), (Op::Trim, None, true, false));
        assert_eq!((trim.span.start, trim.span.len), (Bytes(1), Bytes(bytes.into())));
        timeline.session.reply(trim.id.sequence, Ok(Vec::new()), &mut timeline.budget);
        assert_eq!(timeline.said(), simple_reply(4, Ok(())));
        assert_eq!(timeline.budget.free(), PAYLOADS_BYTES_MAX);
    }
}

#[test]
fn the_longest_request_is_let_in_at_any_offset() {
    let mut timeline = Timeline::in_handshake();
    timeline.settings.memory_max = Bytes(1 << 20);
    timeline.option(option::GO, &[&info_data(b"vol", &[])]);
    timeline.events.clear();
    timeline.request(0, command::READ, 1, 1, 1 << 20);
    let read = timeline.submitted();
    timeline.reply(&read, Err(Errno::Io));
    timeline.said();
    let message = [head(0, command::WRITE, 4, 1, 1 << 20), vec![1; 1 << 20]].concat();
    timeline.feed(&message);
    assert_eq!(tracked_exports(&mut timeline).data.map(|data| data.len()), Some(1 << 20));
}

#[test]
fn a_client_that_leaves_amid_a_payload_leaves_no_memory_behind() {
    let mut timeline = Timeline::opened();
    timeline.request(0, command::WRITE, 3, 1, 4096);
    timeline.feed(&[0; 100]);
    let Timeline { session, mut budget, .. } = timeline;
    session.into_in_flight(&mut budget);
    assert_eq!(budget.free(), PAYLOADS_BYTES_MAX);
}
