//! Rules of the transmission phase.

use super::*;

#[test]
fn a_read_is_answered_with_its_cookie_and_the_very_buffer() {
    let mut timeline = Timeline::opened();
    timeline.request(0, command::READ, 0xfeed, 4096, 1024);
    let request = timeline.submitted();
    assert_eq!((request.export, request.data.len()), (ExportId(3), 0));
    assert_eq!(request.operation, Operation::read(extent(8, 2)));
    let data = vec![5; 1024];
    assert!(timeline.reply(&request, Ok(data.clone())));
    assert_eq!(timeline.said(), [&simple_reply(0xfeed, Ok(()))[..], &data].concat());
    assert_eq!(timeline.budget.free(), PAYLOADS_BYTES_MAX);
}

#[test]
fn a_write_is_submitted_once_its_payload_is_whole() {
    let mut timeline = Timeline::opened();
    timeline.request(command::FLAG_FUA, command::WRITE, 9, 512, 1024);
    timeline.feed(&[1; 1000]);
    assert_eq!(timeline.events, []);
    timeline.feed(&[2; 24]);
    let request = timeline.submitted();
    assert_eq!(request.operation, Operation::write(extent(1, 2)).with_fua());
    assert_eq!((&request.data[..1000], &request.data[1000..]), (&[1; 1000][..], &[2; 24][..]));
    // A write may return its buffer; it is not sent.
    timeline.reply(&request, Ok(request.data.clone()));
    assert_eq!(timeline.said(), simple_reply(9, Ok(())));
}

#[test]
fn answers_come_in_any_order_even_with_one_cookie_for_all() {
    let mut timeline = Timeline::opened();
    for n in 0..3 {
        timeline.request(0, command::READ, 1, n * 512, 512);
    }
    let requests: Vec<_> = (0..3).map(|_| timeline.submitted()).collect();
    for request in requests.iter().rev() {
        let start = u8::try_from(request.operation.extent.start.0).expect("small");
        timeline.reply(request, Ok(vec![start; 512]));
    }
    let expected: Vec<_> = [2, 1, 0]
        .iter()
        .flat_map(|n| [&simple_reply(1, Ok(()))[..], &[*n; 512]].concat())
        .collect();
    assert_eq!(timeline.said(), expected);
}

#[test]
fn a_request_is_answered_once() {
    let mut timeline = Timeline::opened();
    timeline.request(0, command::FLUSH, 1, 0, 0);
    let request = timeline.submitted();
    assert!(timeline.reply(&request, Ok(Vec::new())));
    assert!(!timeline.reply(&request, Ok(Vec::new())));
    timeline.request(0, command::FLUSH, 2, 0, 0);
    // The slot is reused, its old number is not.
    assert!(!timeline.reply(&request, Ok(Vec::new())));
}

#[test]
fn a_read_answered_short_is_an_error() {
    let mut timeline = Timeline::opened();
    for wrong in [0, 511, 1024] {
        timeline.request(0, command::READ, 1, 0, 512);
        let request = timeline.submitted();
        timeline.reply(&request, Ok(vec![0; wrong]));
        assert_eq!(timeline.said(), simple_reply(1, Err(Errno::Io)));
    }
    assert_eq!(timeline.budget.free(), PAYLOADS_BYTES_MAX);
}

#[test]
fn errors_carry_the_numbers_of_the_protocol() {
    let all = [
        (Errno::Perm, 1),
        (Errno::Io, 5),
        (Errno::NoMem, 12),
        (Errno::Inval, 22),
        (Errno::NoSpc, 28),
        (Errno::Overflow, 75),
        (Errno::NotSup, 95),
        (Errno::Shutdown, 108),
    ];
    for (errno, code) in all {
        assert_eq!((errno.code(), Errno::from_code(code)), (code, errno));
        let head = simple_reply(0, Err(errno));
        assert_eq!((&head[..4], &head[4..8]), (&b"\x67\x44\x66\x98"[..], &code.to_be_bytes()[..]));
    }
    assert_eq!(Errno::from_code(4711), Errno::Inval);
}

#[test]
fn flush_trim_and_write_zeroes_carry_no_payload() {
    let mut timeline = Timeline::opened();
    timeline.request(0, command::FLUSH, 1, 0, 0);
    assert_eq!(timeline.submitted().operation, Operation::flush());
    timeline.request(command::FLAG_FUA, command::TRIM, 2, 512, 512);
    let trim = timeline.submitted().operation;
    assert_eq!((trim.op, trim.extent, trim.fua), (Op::Trim, extent(1, 1), true));
    let flags = command::FLAG_FUA | command::FLAG_NO_HOLE;
    timeline.request(flags, command::WRITE_ZEROES, 3, 0, len32(1 << 30));
    let zeroes = timeline.submitted();
    assert_eq!(zeroes.operation.op, Op::WriteZeroes);
    assert_eq!(zeroes.operation.extent, extent(0, SIZE / 512));
    assert!(zeroes.operation.fua && zeroes.no_hole);
    assert_eq!(timeline.session.outstanding(), 3);
    assert_eq!(timeline.budget.free(), PAYLOADS_BYTES_MAX);
}

#[test]
fn fua_is_accepted_everywhere_and_other_flags_where_they_belong() {
    let mut timeline = Timeline::opened();
    timeline.request(command::FLAG_FUA, command::READ, 1, 0, 512);
    assert_eq!(timeline.submitted().operation, Operation::read(extent(0, 1)));
    timeline.request(command::FLAG_FUA, command::FLUSH, 2, 0, 0);
    assert_eq!(timeline.submitted().operation, Operation::flush());
    for (flags, command) in [
        (command::FLAG_NO_HOLE, command::READ),
        (command::FLAG_NO_HOLE, command::TRIM),
        (1 << 2, command::READ), // DF, which was not offered
        (1 << 4, command::TRIM), // FAST_ZERO, which is of zeroes alone
        (1 << 5, command::READ), // PAYLOAD_LEN, which was not offered
        (1 << 15, command::WRITE_ZEROES),
    ] {
        assert_eq!(timeline.refusal(flags, command, 0, 512), Errno::Inval);
    }
    assert_eq!(timeline.refusal(2, command::FLUSH, 0, 0), Errno::Inval);
}

#[test]
fn unknown_commands_are_invalid() {
    let mut timeline = Timeline::opened();
    // CACHE, BLOCK_STATUS, RESIZE, none.
    for command in [5, 7, 8, u16::MAX] {
        assert_eq!(timeline.refusal(0, command, 0, 512), Errno::Inval);
    }
}

#[test]
fn what_lies_past_the_end_is_refused_as_its_kind_wants() {
    let mut timeline = Timeline::opened();
    for (offset, length) in [(SIZE, 512), (SIZE - 512, 1024), (u64::MAX - 511, 512)] {
        assert_eq!(timeline.refusal(0, command::READ, offset, length), Errno::Inval);
        assert_eq!(timeline.refusal(0, command::TRIM, offset, length), Errno::Inval);
        assert_eq!(timeline.refusal(0, command::WRITE_ZEROES, offset, length), Errno::NoSpc);
        timeline.request(0, command::WRITE, 5, offset, length);
        timeline.feed(&vec![0; usize::try_from(length).expect("small")]);
        assert_eq!(timeline.refused(5), Errno::NoSpc);
    }
}

#[test]
fn an_open_connection_reaches_what_its_export_grew_by() {
    struct Growing(Export);
    impl Exports for Growing {
        fn list(&self) -> Vec<Export> {
            vec![self.0.clone()]
        }
        fn open(&self, _: &str) -> Option<Export> {
            Some(self.0.clone())
        }
        fn size_now(&self, export: ExportId) -> Option<Bytes> {
            (export == self.0.id).then_some(self.0.size)
        }
    }
    let mut timeline = Timeline::opened();
    // A partial sector at the new end is not offered.
    let grown = Export::new(ExportId(3), "vol", Bytes(SIZE + 1024 + 511));
    timeline.exports = Box::new(Growing(grown));
    timeline.request(0, command::READ, 5, SIZE - 512, 1536);
    assert_eq!(timeline.submitted().operation.extent.end().0, SIZE / 512 + 2);
    assert_eq!(timeline.refusal(0, command::READ, SIZE + 1024, 512), Errno::Inval);
    assert_eq!(timeline.refusal(0, command::READ, u64::MAX - 511, 512), Errno::Inval);
    // What was reached once stays reachable: a smaller size is not looked for.
    timeline.exports = Box::new(Growing(Export::new(ExportId(3), "vol", Bytes(512))));
    timeline.request(0, command::TRIM, 6, SIZE, 512);
    assert_eq!(timeline.submitted().operation.op, Op::Trim);
}

#[test]
fn what_is_not_aligned_to_the_minimum_block_is_invalid() {
    let opened = |least| {
        let mut export = Export::new(ExportId(3), "vol", Bytes(SIZE));
        export.block_min = Bytes(least);
        Timeline::opened_with(export)
    };
    let mut timeline = opened(512);
    for (offset, length) in [(1, 512), (0, 511), (256, 256)] {
        for command in [command::READ, command::TRIM, command::WRITE_ZEROES] {
            assert_eq!(timeline.refusal(0, command, offset, length), Errno::Inval);
        }
    }
    assert_eq!(opened(4_096).refusal(0, command::READ, 512, 4_096), Errno::Inval);
}

#[test]
fn a_read_only_export_is_not_written() {
    let mut export = Export::new(ExportId(3), "vol", Bytes(SIZE));
    export.read_only = true;
    let mut timeline = Timeline::opened_with(export);
    assert_eq!(timeline.refusal(0, command::TRIM, 0, 512), Errno::Perm);
    assert_eq!(timeline.refusal(0, command::WRITE_ZEROES, 0, 512), Errno::Perm);
    timeline.request(0, command::WRITE, 5, 0, 512);
    timeline.feed(&[0; 512]);
    assert_eq!(timeline.refused(5), Errno::Perm);
    timeline.request(0, command::READ, 1, 0, 512);
    timeline.submitted();
}

#[test]
fn a_request_without_length_is_fine_and_does_nothing() {
    let mut timeline = Timeline::opened();
    for command in [command::READ, command::WRITE, command::TRIM, command::WRITE_ZEROES] {
        timeline.request(0, command, 4, 1024, 0);
        assert_eq!(timeline.events, []);
        assert_eq!(timeline.said(), simple_reply(4, Ok(())));
    }
}

#[test]
fn a_flush_with_an_extent_is_invalid() {
    let mut timeline = Timeline::opened();
    assert_eq!(timeline.refusal(0, command::FLUSH, 0, 512), Errno::Inval);
    assert_eq!(timeline.refusal(0, command::FLUSH, 512, 0), Errno::Inval);
}

#[test]
fn too_long_a_read_is_invalid() {
    let mut timeline = Timeline::opened();
    let length = len32(PAYLOAD_ACCEPTED_BYTES_MAX + 512);
    assert_eq!(timeline.refusal(0, command::READ, 0, length), Errno::Inval);
    assert_eq!(timeline.refusal(0, command::READ, 0, u32::MAX), Errno::Inval);
}

#[test]
fn a_request_above_the_announced_maximum_is_served_to_clients_that_did_not_ask_for_it() {
    let mut timeline = Timeline::opened();
    timeline.request(0, command::READ, 1, 0, len32(PAYLOAD_BYTES_MAX + 512));
    let sectors = timeline.submitted().operation.extent.len;
    assert_eq!(sectors.bytes_usize(), PAYLOAD_BYTES_MAX + 512);
}

#[test]
fn too_long_a_write_is_read_past_without_being_held() {
    let mut timeline = Timeline::opened();
    timeline.request(0, command::WRITE, 5, 0, len32(PAYLOAD_SKIP_BYTES_MAX));
    for _ in 0..PAYLOAD_SKIP_BYTES_MAX / RECEIVE_BYTES_MAX {
        assert!(timeline.session.memory() < RECEIVE_BYTES_MAX);
        timeline.feed(&vec![0xee; RECEIVE_BYTES_MAX]);
    }
    assert_eq!(timeline.refused(5), Errno::Inval);
    timeline.request(0, command::READ, 1, 0, 512);
    timeline.submitted();
}

#[test]
fn an_absurd_write_is_the_end() {
    let mut timeline = Timeline::opened();
    timeline.request(0, command::WRITE, 5, 0, len32(PAYLOAD_SKIP_BYTES_MAX + 512));
    assert_eq!(timeline.events, [Event::Close(CloseReason::PayloadTooBig)]);
}

#[test]
fn a_request_without_its_magic_is_the_end() {
    let mut timeline = Timeline::opened();
    timeline.feed(&[0; 28]);
    assert_eq!(timeline.events, [Event::Close(CloseReason::BadMagic)]);
    assert!(timeline.session.is_finished());
}

#[test]
fn after_goodbye_nothing_is_read_and_what_is_outstanding_is_answered() {
    let mut timeline = Timeline::opened();
    let read = head(0, command::READ, 1, 0, 512);
    timeline.feed(&[read.clone(), head(0, command::DISC, 0, 0, 0), read].concat());
    let request = timeline.submitted();
    assert_eq!(timeline.events, [Event::Disconnect]);
    assert!(timeline.session.is_finished());
    timeline.reply(&request, Ok(vec![1; 512]));
    assert_eq!(timeline.said().len(), 16 + 512);
}

#[test]
fn fast_zeroes_are_refused_where_they_are_not_faster() {
    let fast = command::FLAG_FAST_ZERO;
    let mut timeline = Timeline::opened();
    assert_eq!(timeline.refusal(fast, command::WRITE_ZEROES, 0, 512), Errno::NotSup);
    timeline.request(0, command::WRITE_ZEROES, 1, 0, 512);
    timeline.submitted();
    let mut export = Export::new(ExportId(3), "vol", Bytes(SIZE));
    export.fast_zero = true;
    let mut timeline = Timeline::opened_with(export);
    timeline.request(fast, command::WRITE_ZEROES, 1, 0, 512);
    assert!(!timeline.submitted().no_hole);
    let kept = fast | command::FLAG_NO_HOLE;
    assert_eq!(timeline.refusal(kept, command::WRITE_ZEROES, 0, 512), Errno::NotSup);
}

#[test]
fn sectors_are_cached_by_reading_them_where_that_helps_and_refused_where_not() {
    let mut timeline = Timeline::opened();
    assert_eq!(timeline.refusal(0, command::CACHE, 0, 512), Errno::Inval);
    let mut export = Export::new(ExportId(3), "vol", Bytes(SIZE));
    export.caches = true;
    let mut timeline = Timeline::opened_with(export);
    timeline.request(0, command::CACHE, 5, 512, 1024);
    let request = timeline.submitted();
    assert_eq!(request.operation, Operation::read(extent(1, 2)));
    timeline.reply(&request, Ok(vec![1; 1024]));
    assert_eq!(timeline.said(), simple_reply(5, Ok(())), "without the bytes");
    assert_eq!(timeline.budget.free(), PAYLOADS_BYTES_MAX);
    assert_eq!(
        timeline.refusal(0, command::CACHE, 0, len32(PAYLOAD_ACCEPTED_BYTES_MAX + 512)),
        Errno::Inval
    );
    assert_eq!(timeline.refusal(2, command::CACHE, 0, 512), Errno::Inval);
}

#[test]
fn an_export_that_goes_answers_what_it_has_and_refuses_what_comes() {
    let mut timeline = Timeline::opened();
    timeline.request(0, command::READ, 1, 0, 512);
    timeline.request(0, command::WRITE, 2, 0, 1024);
    timeline.feed(&[5; 1000]);
    timeline.session.begin_shutdown();
    let request = timeline.submitted();
    assert!(!timeline.session.is_drained(), "something is outstanding");
    timeline.feed(&[5; 24]);
    assert_eq!(timeline.refused(2), Errno::Shutdown, "a write that was not whole yet");
    assert_eq!(timeline.refusal(0, command::READ, 0, 512), Errno::Shutdown);
    timeline.reply(&request, Ok(vec![1; 512]));
    assert_eq!(timeline.said().len(), 16 + 512);
    assert!(timeline.session.is_drained());
    assert_eq!(timeline.budget.free(), PAYLOADS_BYTES_MAX);
}
