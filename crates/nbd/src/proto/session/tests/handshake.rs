//! Rules of the handshake.

use super::*;

#[test]
fn the_greeting_offers_fixed_newstyle_without_zeroes() {
    assert_eq!(greeting(), *b"NBDMAGICIHAVEOPT\x00\x03");
}

#[test]
fn client_flags_that_were_not_offered_end_the_session() {
    for flags in [4_u32, 1 << 31, 7] {
        let mut timeline = Timeline::one();
        timeline.feed(&flags.to_be_bytes());
        assert_eq!(timeline.events, [Event::Close(CloseReason::UnknownClientFlags)]);
        assert!(!timeline.session.wants_input());
    }
}

#[test]
fn go_describes_and_opens() {
    let mut timeline = Timeline::in_handshake();
    timeline.option(option::GO, &[&info_data(b"vol", &[info::BLOCK_SIZE, info::NAME, 99])]);
    let block = [0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0];
    let expected = [
        (rep::INFO, &export_info(SIZE, FLAGS)[..]),
        (rep::INFO, b"\x00\x01vol"),
        (rep::INFO, &block),
        (rep::ACK, &[]),
    ];
    assert_eq!(timeline.said(), replies(option::GO, &expected));
    assert_eq!(timeline.events, [Event::Opened(ExportId(3))]);
    assert!(!timeline.session.is_in_handshake());
}

#[test]
fn info_describes_and_does_not_open() {
    let mut timeline = Timeline::in_handshake();
    for _ in 0..2 {
        timeline.option(option::INFO, &[&info_data(b"vol", &[])]);
        let expected = [(rep::INFO, &export_info(SIZE, FLAGS)[..]), (rep::ACK, &[])];
        assert_eq!(timeline.said(), replies(option::INFO, &expected));
    }
    assert_eq!(timeline.events, []);
}

#[test]
fn a_description_is_told_when_asked_for_and_there_is_one() {
    let mut export = Export::new(ExportId(0), "a", Bytes(1024));
    export.description = "ä".repeat(200);
    let mut timeline = Timeline::new(vec![export]);
    timeline.feed(&[0; 4]);
    timeline.option(option::INFO, &[&info_data(b"a", &[info::DESCRIPTION])]);
    let cut = [&info::DESCRIPTION.to_be_bytes()[..], "ä".repeat(128).as_bytes()].concat();
    let expected = [(rep::INFO, &export_info(1024, FLAGS)[..]), (rep::INFO, &cut), (rep::ACK, &[])];
    assert_eq!(timeline.said(), replies(option::INFO, &expected));
}

#[test]
fn an_unknown_name_is_an_error_and_the_next_may_be_right() {
    let mut timeline = Timeline::in_handshake();
    timeline.option(option::GO, &[&info_data(b"nosuch", &[])]);
    assert_eq!(timeline.said(), replies(option::GO, &[(rep::ERR_UNKNOWN, &[])]));
    timeline.option(option::GO, &[&info_data(b"vol", &[])]);
    assert_eq!(timeline.events, [Event::Opened(ExportId(3))]);
}

#[test]
fn malformed_questions_are_invalid() {
    let long = info_data(&[b'x'; NAME_BYTES_MAX + 1], &[]);
    let cases: [(&[u8], u32); 7] = [
        (&[], rep::ERR_INVALID),
        (&[0, 0, 0, 9, b'x', 0, 0], rep::ERR_INVALID),
        (&[0xff; 8], rep::ERR_INVALID),
        (&info_data(b"vol", &[1])[..10], rep::ERR_INVALID),
        (&info_data(b"\xff\xfe", &[]), rep::ERR_INVALID),
        (&info_data(b"v\0l", &[]), rep::ERR_INVALID),
        (&long, rep::ERR_TOO_BIG),
    ];
    for (data, kind) in cases {
        let mut timeline = Timeline::in_handshake();
        timeline.option(option::INFO, &[data]);
        assert_eq!(timeline.said(), replies(option::INFO, &[(kind, &[])]), "{data:?}");
    }
}

#[test]
fn the_empty_name_is_the_only_export_if_there_is_one_only() {
    let named = |name: &str| Export::new(ExportId(1), name, Bytes(512));
    for (exports, kinds) in [
        (vec![], rep::ERR_UNKNOWN),
        (vec![named("a")], rep::INFO),
        (vec![named("a"), named("b")], rep::ERR_UNKNOWN),
    ] {
        let mut timeline = Timeline::new(exports);
        timeline.feed(&[0; 4]);
        timeline.option(option::INFO, &[&info_data(b"", &[])]);
        assert_eq!(timeline.said()[12..16], kinds.to_be_bytes());
    }
}

#[test]
fn a_list_names_all_and_takes_no_data() {
    let mut timeline = Timeline::in_handshake();
    timeline.option(option::LIST, &[]);
    let expected = [(rep::SERVER, &b"\x00\x00\x00\x03vol"[..]), (rep::ACK, &[])];
    assert_eq!(timeline.said(), replies(option::LIST, &expected));
    timeline.option(option::LIST, &[b"x"]);
    assert_eq!(timeline.said(), replies(option::LIST, &[(rep::ERR_INVALID, &[])]));
}

#[test]
fn an_export_that_the_protocol_cannot_express_is_not_shown() {
    let mut odd = Export::new(ExportId(0), "odd", Bytes(512));
    odd.block_min = Bytes(1000);
    let long = Export::new(ExportId(1), "x".repeat(NAME_BYTES_MAX + 1), Bytes(512));
    let mut timeline = Timeline::new(vec![odd, long]);
    timeline.feed(&[0; 4]);
    timeline.option(option::LIST, &[]);
    assert_eq!(timeline.said(), replies(option::LIST, &[(rep::ACK, &[])]));
    timeline.option(option::INFO, &[&info_data(b"odd", &[])]);
    assert_eq!(timeline.said(), replies(option::INFO, &[(rep::ERR_UNKNOWN, &[])]));
}

#[test]
fn options_that_are_not_done_are_said_to_be_unsupported() {
    // PEEK_EXPORT, none, none, none.
    for unsupported in [4, 12, 0, u32::MAX] {
        for data in [&b""[..], b"some data"] {
            let mut timeline = Timeline::in_handshake();
            timeline.option(unsupported, &[data]);
            assert_eq!(timeline.said(), replies(unsupported, &[(rep::ERR_UNSUP, &[])]));
            assert!(timeline.session.is_in_handshake() && timeline.session.wants_input());
        }
    }
}

#[test]
fn a_big_option_is_read_past_and_a_huge_one_is_the_end() {
    let big = vec![0; OPTION_BYTES_MAX + 1];
    for (option, kind) in [(option::INFO, rep::ERR_TOO_BIG), (42, rep::ERR_UNSUP)] {
        let mut timeline = Timeline::in_handshake();
        timeline.option(option, &[&big]);
        assert_eq!(timeline.said(), replies(option, &[(kind, &[])]));
        timeline.option(option::GO, &[&info_data(b"vol", &[])]);
        assert_eq!(timeline.events, [Event::Opened(ExportId(3))]);
    }
    let mut timeline = Timeline::in_handshake();
    timeline.option(42, &[&vec![0; OPTION_SKIP_BYTES_MAX + 1]]);
    assert_eq!(timeline.events, [Event::Close(CloseReason::OptionTooBig)]);
}

#[test]
fn more_options_than_a_handshake_needs_are_the_end() {
    let mut timeline = Timeline::in_handshake();
    for _ in 0..OPTIONS_MAX {
        timeline.option(42, &[]);
        timeline.said();
    }
    assert_eq!(timeline.events, []);
    timeline.option(42, &[]);
    assert_eq!(timeline.events, [Event::Close(CloseReason::TooManyOptions)]);
}

#[test]
fn a_client_that_reads_no_replies_is_not_read_further() {
    let mut timeline = Timeline::in_handshake();
    let mut lists = Vec::new();
    (0..4_000).for_each(|_| option_request(&mut lists, option::LIST, &[]));
    timeline.feed(&lists);
    assert_eq!(timeline.session.blocked(), Some(Blocked::ConnectionLimit));
    let answer = replies(option::LIST, &[(rep::SERVER, b"\x00\x00\x00\x03vol"), (rep::ACK, &[])]);
    let mut said = 0;
    while timeline.session.blocked().is_some() {
        said += timeline.said().len();
        timeline.resume();
    }
    assert_eq!(said + timeline.said().len(), 4_000 * answer.len());
}

#[test]
fn abort_is_acknowledged_and_then_over() {
    let mut timeline = Timeline::in_handshake();
    timeline.option(option::ABORT, &[b"ignored"]);
    assert_eq!(timeline.said(), replies(option::ABORT, &[(rep::ACK, &[])]));
    assert_eq!(timeline.events, [Event::Disconnect]);
    assert!(timeline.session.is_finished());
}

#[test]
fn export_name_answers_with_size_and_flags() {
    for (client_flags, zeroes) in [(0_u32, 124), (1, 124), (2, 0), (3, 0)] {
        let mut timeline = Timeline::one();
        timeline.feed(&client_flags.to_be_bytes());
        timeline.option(option::EXPORT_NAME, &[b"vol"]);
        let expected = [&SIZE.to_be_bytes()[..], &FLAGS.to_be_bytes(), &vec![0; zeroes]].concat();
        assert_eq!(timeline.said(), expected);
        assert_eq!(timeline.events, [Event::Opened(ExportId(3))]);
    }
}

#[test]
fn export_name_of_nothing_ends_the_session() {
    let mut timeline = Timeline::in_handshake();
    timeline.option(option::EXPORT_NAME, &[b"nosuch"]);
    assert_eq!(timeline.events, [Event::Close(CloseReason::UnknownExport)]);
}

#[test]
fn an_option_without_its_magic_ends_the_session() {
    let mut timeline = Timeline::in_handshake();
    timeline.feed(b"GET / HTTP/1.1\r\n");
    assert_eq!(timeline.events, [Event::Close(CloseReason::BadMagic)]);
}

#[test]
fn a_read_only_export_says_so() {
    let mut export = Export::new(ExportId(3), "vol", Bytes(SIZE));
    export.read_only = true;
    let mut timeline = Timeline::new(vec![export]);
    timeline.feed(&[0; 4]);
    timeline.option(option::INFO, &[&info_data(b"vol", &[])]);
    let expected = [(rep::INFO, &export_info(SIZE, FLAGS | 2)[..]), (rep::ACK, &[])];
    assert_eq!(timeline.said(), replies(option::INFO, &expected));
}

#[test]
fn the_size_that_is_offered_is_in_whole_blocks() {
    let mut timeline = Timeline::new(vec![Export::new(ExportId(0), "vol", Bytes(1_000_000))]);
    timeline.feed(&[0; 4]);
    timeline.option(option::INFO, &[&info_data(b"vol", &[])]);
    assert_eq!(timeline.said()[22..30], 999_936_u64.to_be_bytes());
}

#[test]
fn a_hidden_list_is_refused_and_a_name_still_opens() {
    let mut timeline = Timeline::in_handshake();
    timeline.settings.listing = crate::Listing::Hidden;
    timeline.option(option::LIST, &[]);
    let why: &[u8] = b"this server keeps its list to itself";
    assert_eq!(timeline.said(), replies(option::LIST, &[(rep::ERR_POLICY, why)]));
    timeline.option(option::GO, &[&info_data(b"", &[])]);
    assert_eq!(timeline.said(), replies(option::GO, &[(rep::ERR_UNKNOWN, &[])]));
    timeline.option(option::GO, &[&info_data(b"vol", &[])]);
    assert_eq!(timeline.events, [Event::Opened(ExportId(3))]);
}

#[test]
fn an_export_is_opened_as_often_as_is_allowed() {
    let mut timeline = Timeline::in_handshake();
    timeline.settings.export_connections_max = 2;
    timeline.opened.insert(ExportId(3), 2);
    timeline.option(option::INFO, &[&info_data(b"vol", &[])]);
    assert_eq!(timeline.said()[12..16], rep::INFO.to_be_bytes(), "it is there");
    timeline.option(option::GO, &[&info_data(b"vol", &[])]);
    assert_eq!(timeline.said()[12..16], rep::ERR_POLICY.to_be_bytes());
    timeline.opened.insert(ExportId(3), 1);
    timeline.option(option::GO, &[&info_data(b"vol", &[])]);
    assert_eq!(timeline.events, [Event::Opened(ExportId(3))]);
}

#[test]
fn a_handshake_with_a_stopping_server_is_refused() {
    let mut timeline = Timeline::in_handshake();
    timeline.session.begin_shutdown();
    for option in [option::LIST, option::GO, option::STARTTLS, 42] {
        timeline.option(option, &[b"anything"]);
        assert_eq!(timeline.said(), replies(option, &[(rep::ERR_SHUTDOWN, &[])]));
    }
    timeline.option(option::ABORT, &[]);
    assert_eq!(timeline.said(), replies(option::ABORT, &[(rep::ACK, &[])]));
}
