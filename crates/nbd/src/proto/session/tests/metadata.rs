//! Metadata contexts and block status.

use super::*;
use crate::limits::{STATUS_BYTES_MAX, STATUS_SEGMENTS_MAX};
use crate::proto::reply::kind;
use crate::proto::request::{Allocation, Segment};

fn contexts_data(name: &[u8], queries: &[&[u8]]) -> Vec<u8> {
    let mut data = [&len32(name.len()).to_be_bytes()[..], name].concat();
    data.extend_from_slice(&len32(queries.len()).to_be_bytes());
    for query in queries {
        data.extend_from_slice(&len32(query.len()).to_be_bytes());
        data.extend_from_slice(query);
    }
    data
}

fn found(id: u8) -> Vec<u8> {
    [&[0, 0, 0, id][..], b"base:allocation"].concat()
}

fn structured(option: u32) -> Timeline {
    let mut timeline = Timeline::in_handshake();
    timeline.option(option, &[]);
    timeline.said();
    timeline
}

fn chosen(option: u32) -> Timeline {
    let mut timeline = structured(option);
    timeline.option(option::SET_META_CONTEXT, &[&contexts_data(b"vol", &[b"base:allocation"])]);
    timeline.option(option::GO, &[&info_data(b"vol", &[])]);
    timeline.said();
    timeline.events.clear();
    timeline
}

fn segments(all: &[(u64, Allocation)]) -> Vec<Segment> {
    let segment = |(len, allocation): &(u64, Allocation)| Segment {
        len: units::Sectors(*len),
        allocation: *allocation,
    };
    all.iter().map(segment).collect()
}

#[test]
fn contexts_are_listed_and_chosen() {
    type Case<'a> = (u32, &'a [&'a [u8]], Option<u8>);
    let (list, set) = (option::LIST_META_CONTEXT, option::SET_META_CONTEXT);
    let cases: [Case<'_>; 8] = [
        (list, &[], Some(0)),
        (list, &[b"base:"], Some(0)),
        (list, &[b"base:allocation"], Some(0)),
        (list, &[b"base:other", b"x-y:"], None),
        (set, &[], None),
        (set, &[b"base:"], None),
        (set, &[b"x-y:z", b"base:allocation"], Some(1)),
        (set, &[b"base:allocation2"], None),
    ];
    for (option, queries, id) in cases {
        let mut timeline = structured(option::STRUCTURED_REPLY);
        timeline.option(option, &[&contexts_data(b"vol", queries)]);
        let context = id.map(found);
        let mut expected: Vec<_> =
            context.iter().map(|context| (rep::META_CONTEXT, &context[..])).collect();
        expected.push((rep::ACK, &[]));
        assert_eq!(timeline.said(), replies(option, &expected), "{option} {queries:?}");
    }
}

#[test]
fn what_asks_for_contexts_wrongly_is_refused() {
    let set = option::SET_META_CONTEXT;
    let good = contexts_data(b"vol", &[b"base:allocation"]);
    let mut timeline = Timeline::in_handshake();
    timeline.option(set, &[&good]);
    assert_eq!(timeline.said()[12..16], rep::ERR_INVALID.to_be_bytes(), "no structured replies");
    let mut timeline = structured(option::STRUCTURED_REPLY);
    for end in 0..good.len() {
        timeline.option(set, &[&good[..end]]);
        assert_eq!(timeline.said(), replies(set, &[(rep::ERR_INVALID, &[])]), "cut at {end}");
    }
    timeline.option(set, &[&good, b"x"]);
    assert_eq!(timeline.said(), replies(set, &[(rep::ERR_INVALID, &[])]));
    timeline.option(set, &[&contexts_data(b"nosuch", &[])]);
    assert_eq!(timeline.said(), replies(set, &[(rep::ERR_UNKNOWN, &[])]));
    let endless = [&contexts_data(b"vol", &[])[..7], &[0xff; 4]].concat();
    timeline.option(set, &[&endless]);
    assert_eq!(timeline.said(), replies(set, &[(rep::ERR_INVALID, &[])]));
}

#[test]
fn a_failed_choice_takes_the_one_before_it_away() {
    let mut timeline = structured(option::STRUCTURED_REPLY);
    let good = contexts_data(b"vol", &[b"base:allocation"]);
    timeline.option(option::SET_META_CONTEXT, &[&good]);
    timeline.option(option::SET_META_CONTEXT, &[b"x"]);
    timeline.option(option::GO, &[&info_data(b"vol", &[])]);
    timeline.events.clear();
    timeline.said();
    timeline.request(0, command::BLOCK_STATUS, 1, 0, 512);
    assert_eq!(timeline.said()[6..8], kind::ERROR.to_be_bytes());
}

#[test]
fn a_choice_for_one_export_is_none_for_another() {
    let named = |id, name: &str| Export::new(ExportId(id), name, Bytes(SIZE));
    let mut timeline = Timeline::new(vec![named(1, "a"), named(2, "b")]);
    timeline.feed(&[0; 4]);
    timeline.option(option::STRUCTURED_REPLY, &[]);
    timeline.option(option::SET_META_CONTEXT, &[&contexts_data(b"a", &[b"base:allocation"])]);
    timeline.option(option::GO, &[&info_data(b"b", &[])]);
    timeline.events.clear();
    timeline.said();
    timeline.request(0, command::BLOCK_STATUS, 1, 0, 512);
    assert_eq!(timeline.said()[6..8], kind::ERROR.to_be_bytes());
}

#[test]
fn status_is_told_in_runs_of_what_was_asked() {
    let mut timeline = chosen(option::STRUCTURED_REPLY);
    timeline.request(0, command::BLOCK_STATUS, 6, 1024, 8192);
    let query = timeline.asked();
    assert_eq!((query.export, query.extent), (ExportId(3), extent(2, 16)));
    let told = segments(&[
        (4, Allocation::Hole),
        (4, Allocation::Hole),
        (0, Allocation::Data),
        (2, Allocation::Data),
        (100, Allocation::Zeroes),
        (1, Allocation::Data),
    ]);
    let Timeline { session, budget, .. } = &mut timeline;
    assert!(session.reply_block_status(query.id.sequence, Ok(&told), budget));
    let descriptors = [4096_u32, 3, 1024, 0, 3072, 2].map(u32::to_be_bytes).concat();
    let head = [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 28];
    assert_eq!(timeline.said(), [&head[..], &[0, 0, 0, 1], &descriptors].concat());
    assert_eq!(timeline.budget.free(), PAYLOADS_BYTES_MAX);
}

#[test]
fn one_segment_is_sent_on_request_and_unknown_sectors_are_data() {
    let mut timeline = chosen(option::STRUCTURED_REPLY);
    for (flags, told, expected) in [
        (command::FLAG_REQ_ONE, &[(1, Allocation::Hole), (9, Allocation::Data)][..], [512_u32, 3]),
        (command::FLAG_REQ_ONE, &[(99, Allocation::Hole)], [4096, 3]),
        (0, &[], [4096, 0]),
        (0, &[(0, Allocation::Hole)], [4096, 0]),
    ] {
        timeline.request(flags, command::BLOCK_STATUS, 6, 0, 4096);
        let query = timeline.asked();
        let Timeline { session, budget, .. } = &mut timeline;
        session.reply_block_status(query.id.sequence, Ok(&segments(told)), budget);
        assert_eq!(timeline.said()[24..], expected.map(u32::to_be_bytes).concat());
    }
}

#[test]
fn status_is_bounded_and_the_client_asks_on() {
    let mut timeline = chosen(option::STRUCTURED_REPLY);
    timeline.request(0, command::BLOCK_STATUS, 6, 0, 1 << 20);
    let query = timeline.asked();
    let turns = [(1, Allocation::Hole), (1, Allocation::Data)];
    let told = segments(&turns.repeat(1_000));
    let Timeline { session, budget, .. } = &mut timeline;
    assert_eq!(budget.free(), PAYLOADS_BYTES_MAX - STATUS_BYTES_MAX);
    session.reply_block_status(query.id.sequence, Ok(&told), budget);
    assert_eq!(timeline.said().len(), 24 + 8 * STATUS_SEGMENTS_MAX);
    assert_eq!(timeline.budget.free(), PAYLOADS_BYTES_MAX);
}

#[test]
fn a_question_that_cannot_be_answered_is_refused() {
    let mut timeline = chosen(option::STRUCTURED_REPLY);
    for (flags, offset, length) in [(0, 0, 0), (0, SIZE, 512), (2, 0, 512)] {
        timeline.request(flags, command::BLOCK_STATUS, 1, offset, length);
        assert_eq!(timeline.events, []);
        assert_eq!(timeline.said()[20..24], 22_u32.to_be_bytes(), "{flags} {offset} {length}");
    }
    timeline.request(0, command::BLOCK_STATUS, 1, 0, 512);
    let query = timeline.asked();
    let Timeline { session, budget, .. } = &mut timeline;
    session.reply_block_status(query.id.sequence, Err(Errno::Io), budget);
    assert_eq!(timeline.said()[20..24], 5_u32.to_be_bytes());
}

#[test]
fn a_question_about_bytes_is_answered_about_just_those() {
    let mut timeline = chosen(option::STRUCTURED_REPLY);
    timeline.request(0, command::BLOCK_STATUS, 1, 700, 1_000);
    let query = timeline.asked();
    assert_eq!(query.extent, extent(1, 3));
    let one = |len, allocation| Segment { len: units::Sectors(len), allocation };
    let segments = [one(1, Allocation::Hole), one(9, Allocation::Data)];
    let Timeline { session, budget, .. } = &mut timeline;
    session.reply_block_status(query.id.sequence, Ok(&segments), budget);
    let told = [324_u32, 3, 676, 0].map(u32::to_be_bytes).concat();
    assert_eq!(timeline.said()[24..], told);
}

#[test]
fn extended_status_has_wide_numbers_and_a_filter() {
    let mut timeline = chosen(option::EXTENDED_HEADERS);
    let filter = |length: u64, ids: &[u32]| {
        let ids: Vec<_> = ids.iter().flat_map(|id| id.to_be_bytes()).collect();
        let payload = [&length.to_be_bytes()[..], &ids].concat();
        let mut bytes = Vec::new();
        let (flags, command) = (command::FLAG_PAYLOAD_LEN, command::BLOCK_STATUS);
        let length = payload.len() as u64;
        RequestHeader { flags, command, cookie: 6, offset: 512, length }
            .encode_extended(&mut bytes);
        [bytes, payload].concat()
    };
    timeline.feed(&filter(1024, &[1]));
    let query = timeline.asked();
    assert_eq!(query.extent, extent(1, 2));
    let Timeline { session, budget, .. } = &mut timeline;
    session.reply_block_status(query.id.sequence, Ok(&segments(&[(9, Allocation::Hole)])), budget);
    let said = timeline.said();
    assert_eq!(said[6..8], kind::BLOCK_STATUS_EXT.to_be_bytes());
    assert_eq!(said[16..32], [512_u64, 24].map(u64::to_be_bytes).concat(), "offset and length");
    assert_eq!(said[32..40], [1_u32, 1].map(u32::to_be_bytes).concat(), "context and count");
    assert_eq!(said[40..], [1024_u64, 3].map(u64::to_be_bytes).concat());
    for ids in [&[][..], &[2], &[1, 1], &[0; 40]] {
        timeline.feed(&filter(1024, ids));
        assert_eq!(timeline.events, [], "{ids:?}");
        assert_eq!(timeline.said()[32..36], 22_u32.to_be_bytes(), "{ids:?}");
    }
    timeline.feed(&filter(SIZE, &[1]));
    assert_eq!(timeline.said()[32..36], 22_u32.to_be_bytes(), "past the end");
}

#[test]
fn the_filter_is_offered_where_it_can_be_used() {
    for (option, flags) in [(8, FLAGS | 1 << 7), (11, FLAGS | 1 << 7 | 1 << 12)] {
        let mut timeline = structured(option);
        let good = contexts_data(b"vol", &[b"base:allocation"]);
        timeline.option(option::SET_META_CONTEXT, &[&good]);
        timeline.said();
        timeline.option(option::INFO, &[&info_data(b"vol", &[])]);
        let expected = [(rep::INFO, &export_info(SIZE, flags)[..]), (rep::ACK, &[])];
        assert_eq!(timeline.said(), replies(option::INFO, &expected));
    }
}
