//! One small trace of each format, made by hand, and what it says.

mod common;

use common::{read, read_with, record, refused};
use spindle_trace::{Format, Options, Position, Reader, Record};
use units::{Bytes, Duration, Op, Sectors};

fn with(record: Record, response: Option<u64>, think: Option<u64>) -> Record {
    let nanos = |time: Option<u64>| time.map(Duration::from_nanos);
    Record { response: nanos(response), think: nanos(think), ..record }
}

fn forced(record: Record) -> Record {
    Record { operation: record.operation.with_fua(), ..record }
}

#[test]
fn our_own_is_exact() {
    let (format, records, tally) = read(common::SPINDLE);
    let expected = [
        record(0, 3, Op::Read, 8, 16),
        with(forced(record(5, 0, Op::Write, 0, 8)), Some(663_000), None),
        with(record(5, 0, Op::Flush, 0, 0), Some(1), Some(2)),
        with(record(9, 1, Op::Trim, 0, 64), None, Some(4)),
        record(9, 0, Op::WriteZeroes, 0, 8),
    ];
    assert_eq!((format, records.as_slice()), (Format::Spindle, &expected[..]));
    assert_eq!(
        (tally.records, tally.skipped, tally.bytes_read),
        (5, 2, common::SPINDLE.len() as u64)
    );
}

#[test]
fn disksim_ascii_counts_milliseconds_and_reads_by_bit_0() {
    let (format, records, _) = read(common::ASCII);
    let expected =
        [record(13_191_135, 30, Op::Read, 0, 5), record(17_829_285, 20, Op::Write, 576_560, 6)];
    assert_eq!((format, records.as_slice()), (Format::DiskSimAscii, &expected[..]));
}

#[test]
fn disksim_validate_is_issued_when_the_answer_and_the_think_time_are_over() {
    let (format, records, _) = read(common::VALIDATE);
    let expected = [
        with(record(0, 0, Op::Write, 100, 4), Some(663_000), Some(45_422_500)),
        with(record(46_085_500, 0, Op::Read, 200, 12), Some(6_657_250), Some(64_047_000)),
    ];
    assert_eq!((format, records.as_slice()), (Format::DiskSimValidate, &expected[..]));
}

#[test]
fn blkparse_takes_what_was_queued_or_what_was_issued() {
    let sda = 8 << 20 | 16;
    let (format, records, tally) = read(common::BLKPARSE);
    let expected = [
        record(500, sda, Op::Write, 223_490, 8),
        record(1_000_000, sda, Op::Read, 64, 16),
        forced(record(2_000_000, sda, Op::Write, 128, 8)),
        forced(record(3_000_000, sda, Op::Write, 136, 8)),
        record(4_000_000, sda, Op::Flush, 0, 0),
        record(5_000_000, sda, Op::Trim, 4_096, 2_048),
    ];
    assert_eq!((format, records.as_slice()), (Format::Blkparse, &expected[..]));
    assert_eq!(tally.skipped, 9, "other actions and the summary");
    let issued = Options { format: Some(Format::BlkparseIssue), ..Options::default() };
    let (_, records, _) = read_with(common::BLKPARSE.as_bytes(), issued);
    assert_eq!(records, [record(2_000, sda, Op::Write, 223_490, 8)]);
}

#[test]
fn fio_version_2_tells_time_by_its_waits() {
    let (format, records, _) = read(common::FIO_V2);
    let expected = [
        record(0, 0, Op::Read, 8, 16),
        record(5_000_000, 0, Op::Write, 0, 1),
        record(5_000_000, 1, Op::Trim, 2, 2),
        record(5_000_000, 1, Op::Flush, 0, 0),
    ];
    assert_eq!((format, records.as_slice()), (Format::FioV2, &expected[..]));
}

#[test]
fn fio_version_3_tells_microseconds() {
    let (format, records, _) = read(common::FIO_V3);
    let expected = [
        record(128_000, 0, Op::Read, 0, 8),
        record(10_974_000, 0, Op::Write, 8, 8),
        record(11_055_000, 0, Op::Flush, 0, 0),
    ];
    assert_eq!((format, records.as_slice()), (Format::FioV3, &expected[..]));
}

#[test]
fn msr_counts_from_the_first_request_and_has_responses() {
    let (format, records, _) = read(common::MSR);
    let expected = [
        with(record(0, 1, Op::Read, 16, 8), Some(55_100), None),
        with(record(1_000, 1, Op::Write, 0, 1), Some(1_000), None),
    ];
    assert_eq!((format, records.as_slice()), (Format::Msr, &expected[..]));
}

#[test]
fn the_clouds_are_told_apart_with_and_without_a_header() {
    let alicloud = [record(0, 419, Op::Write, 16, 8), record(120_000, 725, Op::Read, 1, 2)];
    let tencent = [
        record(0, 1_063, Op::Read, 12_910_952, 128),
        record(1_000_000_000, 1_360, Op::Write, 6, 8),
    ];
    let (format, records, _) = read(common::ALICLOUD);
    assert_eq!((format, records.as_slice()), (Format::AliCloud, &alicloud[..]));
    let headed = format!("device_id,opcode,offset,length,timestamp\n{}", common::ALICLOUD);
    assert_eq!(read(headed).1, alicloud);
    let (format, records, _) = read(common::TENCENT);
    assert_eq!((format, records.as_slice()), (Format::Tencent, &tencent[..]));
    let headed = format!("Timestamp,Offset,Size,IOType,VolumeID\r\n{}", common::TENCENT);
    assert_eq!(read(headed).1, tencent);
}

#[test]
fn hp_srt_has_sectors_of_256_bytes_and_odd_ones_are_widened_and_counted() {
    // Even and whole; odd: half a sector before and half behind; even with half a sector behind.
    let file = common::srt(&[
        [174, 500, 1_056, 4_096, 270, 1, 4],
        [174, 700, 9, 512, 271, 1, 5],
        [175, 500, 9, 256, 2, 0, 5],
    ]);
    let (format, records, tally) = read(file);
    let expected = [
        with(record(0, 1, Op::Write, 135, 8), Some(1_056_000), None),
        with(record(200_000, 1, Op::Read, 135, 2), Some(9_000), None),
        with(record(1_000_000_000, 0, Op::Read, 1, 1), Some(9_000), None),
    ];
    assert_eq!((format, records.as_slice()), (Format::HpSrt, &expected[..]));
    assert_eq!((tally.widened, tally.widened_bytes), (2, Bytes(512 + 256)));
}

#[test]
fn vscsi_leaves_out_commands_that_move_nothing() {
    let file = common::vscsi(&[
        (4_096, 0x28, 64, 1_000),
        (0, 0x00, 0, 1_500),
        (512, 0x8a, 8, 2_000),
        (0, 0x35, 0, 3_000),
    ]);
    let (format, records, tally) = read(file);
    let expected = [
        record(0, 0, Op::Read, 64, 8),
        record(1_000_000, 0, Op::Write, 8, 1),
        record(2_000_000, 0, Op::Flush, 0, 0),
    ];
    assert_eq!((format, records.as_slice(), tally.skipped), (Format::Vscsi, &expected[..], 1));
}

#[test]
fn one_device_of_several_can_be_asked_for() {
    let options = Options { device: Some(20), ..Options::default() };
    let (_, records, tally) = read_with(common::ASCII.as_bytes(), options);
    assert_eq!(records, [record(17_829_285, 20, Op::Write, 576_560, 6)]);
    assert_eq!(tally.other_devices, 1);
}

#[test]
fn a_request_past_the_end_of_the_disk_is_refused_where_it_stands() {
    let options = Options { capacity: Some(Sectors(576_565)), ..Options::default() };
    let message = refused(common::ASCII, options);
    let expected =
        "t:2: found a write of sectors 576560+6, expected a disk of 576565 sectors to hold them";
    assert_eq!(message, expected);
    let enough = Options { capacity: Some(Sectors(576_566)), ..options };
    assert_eq!(read_with(common::ASCII.as_bytes(), enough).1.len(), 2);
}

#[test]
fn time_that_goes_back_is_refused_where_it_does() {
    let text = "2.5 0 0 8 1\n2.4 0 8 8 1\n";
    let expected =
        "t:2: found a time of 2.4ms after one of 2.5ms, expected times that do not go back";
    assert_eq!(refused(text, Options::default()), expected);
    let file = common::srt(&[[9, 0, 1, 512, 0, 0, 1], [8, 0, 1, 512, 0, 0, 1]]);
    let message = refused(&file, Options::default());
    let byte = file.len() - 56;
    let expected = format!("t: record 2 (byte {byte}): found a time 1s before the first one");
    assert!(message.starts_with(&expected), "{message}");
}

#[test]
fn a_last_record_that_is_cut_short_is_refused_or_counted() {
    let lenient = Options { lenient: true, ..Options::default() };
    let mut srt = common::srt(&[[9, 0, 1, 512, 0, 0, 1], [10, 0, 1, 512, 0, 0, 1]]);
    srt.truncate(srt.len() - 20);
    let message = refused(&srt, Options::default());
    assert!(
        message.contains("record 2 (byte 126): found the file's end after 36 bytes"),
        "{message}"
    );
    let (_, records, tally) = read_with(&srt, lenient);
    assert_eq!((records.len(), tally.truncated), (1, 1));

    let text = format!("{}19.5 20 57", common::ASCII);
    let message = refused(&text, Options::default());
    assert!(
        message.starts_with("t:3: found `19.5 20 57`, where the file ends within a line"),
        "{message}"
    );
    let (_, records, tally) = read_with(text.as_bytes(), lenient);
    assert_eq!((records.len(), tally.truncated), (2, 1));
    // The same within the file is a fault of another kind.
    assert!(
        refused(format!("{text}\n1 2 3 4 5\n"), lenient).starts_with("t:3: found `19.5 20 57`,")
    );
}

#[test]
fn what_is_wrong_is_said_with_what_would_be_right() {
    for (text, message) in [
        ("", "t: found nothing, expected a trace in one of the formats spindle, hp-srt, "),
        ("hello\n", "t: found no format that we know, expected a trace in one of the formats "),
        ("1 2 3 4 1\n1 2 x 4 1\n", "t:2: found `x`, expected the number of a block"),
        ("1 2 3 4 1\n1 2 3 4 1 9\n", "t:2: found `1 2 3 4 1 9`, expected five numbers"),
        ("1 2 3 0 1\n", "t:1: found a read of nothing, expected at least one byte"),
        ("spindle trace 1\n1 Q 0 1 0\n", "t:2: found `Q`, expected R, W, F, T or Z"),
        ("spindle trace 1\n", "t: found no request, expected at least one"),
        ("fio version 3 iolog\n1 /a add\n2 /a wait 1 1\n", "t:3: found `wait`, expected add, open"),
        (
            "R x 18446744073709551615 1 1 1\n",
            "t:1: found sector 18446744073709551615, expected at most",
        ),
        ("1,h,0,Read,0,512,1\n2,h,0,Erase,0,512,1\n", "t:2: found `Erase`, expected Read or Write"),
        ("0,R,4611686018427387900,512,1\n", "t:1: found 512 bytes from byte 4611686018427387900, "),
        ("1 0 0 8 1\n90000000001 0 0 8 1\n", "t:2: found a time too far from the first, "),
        (
            "8,0 1 1 0.5 9 C W 1 + 8 [0]\n",
            "t: found no request, expected at least one (`Q` actions;",
        ),
        ("$$TR_IOREC sectorsize = 100\n\x0c", "t: found `100`, expected a sectorsize of 256"),
        (
            "$$TR_IOREC sectorsize = 256 sectorsize = 512\n\x0c",
            "t: found `512`, expected one sectorsize",
        ),
        ("$$TR_IOREC sectorsize = 256", "t: found a header without an end, expected a byte 0x0C"),
    ] {
        let refused = refused(text, Options::default());
        assert!(refused.starts_with(message), "{text:?}: {refused}");
    }
}

#[test]
fn a_line_without_end_is_refused_before_it_fills_memory() {
    let text = format!("{}{}\n", common::ASCII, "1".repeat(100_000));
    let message = refused(text, Options::default());
    assert_eq!(message, "t:3: found over 4096 bytes on one line, expected at most 4096 bytes");
}

#[test]
fn an_error_knows_its_place_and_its_parts() {
    let mut reader = Reader::new(&b"1 2 3 4 1\nx\n"[..], "t", Options::default()).expect("begins");
    assert!(reader.next().expect("one").is_ok());
    let refusal = reader.refuse("it", "another");
    assert_eq!(
        (refusal.position(), refusal.to_string()),
        (Position::Line(1), "t:1: found it, expected another".into())
    );
    let error = reader.next().expect("another").expect_err("no good");
    assert_eq!((error.file(), error.position(), error.found()), ("t", Position::Line(2), "`x`"));
    assert!(error.expected().starts_with("five numbers"));
}
