//! Structured replies and extended headers.

use super::*;
use crate::proto::reply::kind;

fn open_with(options: &[u32], export: Export) -> Timeline {
    let mut timeline = Timeline::new(vec![export]);
    timeline.feed(&u32::from(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    for wanted in options {
        timeline.option(*wanted, &[]);
        assert_eq!(timeline.said(), replies(*wanted, &[(rep::ACK, &[])]));
    }
    timeline.option(option::GO, &[&info_data(b"vol", &[])]);
    timeline.said();
    timeline.events.clear();
    timeline
}

fn vol() -> Export {
    Export::new(ExportId(3), "vol", Bytes(SIZE))
}

fn structured() -> Timeline {
    open_with(&[option::STRUCTURED_REPLY], vol())
}

fn extended() -> Timeline {
    open_with(&[option::EXTENDED_HEADERS], vol())
}

/// The only chunk of a reply, as in the protocol document.
fn chunk(kind: u16, cookie: u64, payload: &[u8]) -> Vec<u8> {
    let length = len32(payload.len()).to_be_bytes();
    let head = [&[0x66, 0x8e, 0x33, 0xef, 0, 1][..], &kind.to_be_bytes(), &cookie.to_be_bytes()];
    [&head.concat()[..], &length, payload].concat()
}

fn extended_chunk(kind: u16, cookie: u64, offset: u64, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u64).to_be_bytes();
    let head = [&[0x6e, 0x8a, 0x27, 0x8c, 0, 1][..], &kind.to_be_bytes(), &cookie.to_be_bytes()];
    [&head.concat()[..], &offset.to_be_bytes(), &length, payload].concat()
}

impl Timeline {
    fn extended_request(&mut self, flags: u16, command: u16, cookie: u64, range: (u64, u64)) {
        let (offset, length) = range;
        let mut bytes = Vec::new();
        RequestHeader { flags, command, cookie, offset, length }.encode_extended(&mut bytes);
        self.feed(&bytes);
    }
}

#[test]
fn a_read_is_answered_with_one_chunk_that_says_where_it_belongs() {
    let mut timeline = structured();
    for flags in [0, command::FLAG_DF] {
        timeline.request(flags, command::READ, 9, 1024, 512);
        let request = timeline.submitted();
        timeline.reply(&request, Ok(vec![5; 512]));
        let payload = [&1024_u64.to_be_bytes()[..], &[5; 512]].concat();
        assert_eq!(timeline.said(), chunk(kind::OFFSET_DATA, 9, &payload));
    }
    assert_eq!(timeline.budget.free(), PAYLOADS_BYTES_MAX);
}

#[test]
fn zeroes_are_told_and_not_sent() {
    let mut timeline = structured();
    timeline.request(0, command::READ, 9, 1024, 8192);
    let request = timeline.submitted();
    timeline.reply(&request, Ok(vec![0; 8192]));
    let payload = [&1024_u64.to_be_bytes()[..], &8192_u32.to_be_bytes()].concat();
    assert_eq!(timeline.said(), chunk(kind::OFFSET_HOLE, 9, &payload));
    for at in [0, 63, 64, 4096, 8191] {
        timeline.request(0, command::READ, 9, 0, 8192);
        let request = timeline.submitted();
        let mut data = vec![0; 8192];
        data[at] = 1;
        timeline.reply(&request, Ok(data));
        assert_eq!(timeline.said().len(), 20 + 8 + 8192, "a byte at {at}");
    }
    assert_eq!(timeline.budget.free(), PAYLOADS_BYTES_MAX);
}

#[test]
fn what_has_no_payload_is_answered_as_short_as_can_be() {
    let mut timeline = structured();
    timeline.request(0, command::FLUSH, 3, 0, 0);
    let request = timeline.submitted();
    timeline.reply(&request, Ok(Vec::new()));
    assert_eq!(timeline.said(), simple_reply(3, Ok(())));
    // A read is never answered by a simple reply.
    timeline.request(0, command::READ, 4, 0, 0);
    assert_eq!(timeline.said(), chunk(kind::NONE, 4, &[]));
}

#[test]
fn errors_come_with_words_and_with_the_place_where_it_is_known() {
    let mut timeline = structured();
    timeline.request(0, command::READ, 3, 0, 512);
    let request = timeline.submitted();
    timeline.reply(&request, Err(Errno::Io));
    let payload = [&[0, 0, 0, 5, 0, 15][..], b"the disk failed"].concat();
    assert_eq!(timeline.said(), chunk(kind::ERROR, 3, &payload));
    timeline.request(0, command::READ, 4, SIZE - 512, 1024);
    let words = b"past the end of the export";
    let head = [0, 0, 0, 22, 0, u8::try_from(words.len()).expect("short")];
    let payload = [&head[..], words, &SIZE.to_be_bytes()].concat();
    assert_eq!(timeline.said(), chunk(kind::ERROR_OFFSET, 4, &payload));
    // If the request lies wholly outside, no offset is reported.
    timeline.request(0, command::READ, 5, SIZE, 512);
    let payload = [&head[..], words].concat();
    assert_eq!(timeline.said(), chunk(kind::ERROR, 5, &payload));
}

#[test]
fn df_is_offered_with_structured_replies_alone() {
    for (options, flags) in
        [(&[][..], FLAGS), (&[option::STRUCTURED_REPLY], FLAGS | 1 << 7), (&[11], FLAGS | 1 << 7)]
    {
        let mut timeline = Timeline::in_handshake();
        for wanted in options {
            timeline.option(*wanted, &[]);
        }
        timeline.said();
        timeline.option(option::INFO, &[&info_data(b"vol", &[])]);
        let expected = [(rep::INFO, &export_info(SIZE, flags)[..]), (rep::ACK, &[])];
        assert_eq!(timeline.said(), replies(option::INFO, &expected));
    }
}

#[test]
fn a_style_is_agreed_on_once_and_never_downwards() {
    let kinds = |first: u32, second: u32, data: &[u8]| {
        let mut timeline = Timeline::in_handshake();
        timeline.option(first, &[]);
        timeline.said();
        timeline.option(second, &[data]);
        timeline.said()[12..16].to_vec()
    };
    let (structured, extended) = (option::STRUCTURED_REPLY, option::EXTENDED_HEADERS);
    assert_eq!(kinds(structured, extended, &[]), rep::ACK.to_be_bytes());
    assert_eq!(kinds(structured, structured, &[]), rep::ERR_INVALID.to_be_bytes());
    assert_eq!(kinds(extended, extended, &[]), rep::ERR_INVALID.to_be_bytes());
    assert_eq!(kinds(extended, structured, &[]), rep::ERR_EXT_HEADER_REQD.to_be_bytes());
    assert_eq!(kinds(option::LIST, extended, b"x"), rep::ERR_INVALID.to_be_bytes());
    assert_eq!(kinds(option::LIST, structured, b"x"), rep::ERR_INVALID.to_be_bytes());
}

#[test]
fn extended_headers_frame_every_answer() {
    let mut timeline = extended();
    timeline.extended_request(0, command::READ, 7, (512, 512));
    let request = timeline.submitted();
    timeline.reply(&request, Ok(vec![5; 512]));
    let payload = [&512_u64.to_be_bytes()[..], &[5; 512]].concat();
    assert_eq!(timeline.said(), extended_chunk(kind::OFFSET_DATA, 7, 512, &payload));
    timeline.extended_request(command::FLAG_PAYLOAD_LEN, command::WRITE, 8, (1024, 512));
    timeline.feed(&[9; 512]);
    let request = timeline.submitted();
    assert_eq!(request.operation, Operation::write(extent(2, 1)));
    timeline.reply(&request, Ok(Vec::new()));
    assert_eq!(timeline.said(), extended_chunk(kind::NONE, 8, 1024, &[]));
    timeline.request(0, command::READ, 1, 0, 512);
    timeline.feed(&[0; 4]);
    assert_eq!(timeline.events, [Event::Close(CloseReason::BadMagic)], "a compact request");
}

#[test]
fn extended_requests_reach_further_than_four_gibibytes() {
    const TEBIBYTE: u64 = 1 << 40;
    let large = Export::new(ExportId(3), "vol", Bytes(2 * TEBIBYTE));
    let mut timeline = open_with(&[option::EXTENDED_HEADERS], large);
    timeline.extended_request(0, command::WRITE_ZEROES, 7, (TEBIBYTE, TEBIBYTE));
    let request = timeline.submitted();
    assert_eq!(request.operation.extent, extent(TEBIBYTE / 512, TEBIBYTE / 512));
    timeline.extended_request(0, command::READ, 7, (0, TEBIBYTE));
    assert_eq!(timeline.said()[32..36], 22_u32.to_be_bytes(), "no reply is so long");
    timeline.extended_request(0, command::TRIM, 7, (512, u64::MAX - 511));
    assert_eq!(timeline.said()[32..36], 22_u32.to_be_bytes(), "no export is so large");
}

#[test]
fn a_payload_where_none_belongs_is_read_past() {
    let mut timeline = extended();
    timeline.extended_request(command::FLAG_PAYLOAD_LEN, command::TRIM, 7, (0, 512));
    timeline.feed(&[1; 512]);
    assert_eq!(timeline.said()[6..8], kind::ERROR.to_be_bytes());
    // A write without the payload flag has a payload all the same.
    timeline.extended_request(0, command::WRITE, 8, (0, 512));
    timeline.feed(&[1; 512]);
    assert_eq!(timeline.submitted().data, [1; 512]);
    timeline.extended_request(command::FLAG_PAYLOAD_LEN, command::WRITE, 9, (0, u64::MAX));
    assert_eq!(timeline.events, [Event::Close(CloseReason::PayloadTooBig)]);
}

#[test]
fn the_oldest_way_in_is_closed_behind_extended_headers() {
    let mut timeline = Timeline::in_handshake();
    timeline.option(option::EXTENDED_HEADERS, &[]);
    timeline.option(option::EXPORT_NAME, &[b"vol"]);
    assert_eq!(timeline.events, [Event::Close(CloseReason::NotAllowed)]);
}
