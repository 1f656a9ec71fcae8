//! What the tests of the formats share.
#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

use spindle_trace::{Format, Options, Reader, Record, Tally, Target, TraceError, Writer};
use units::{Extent, Instant, Lba, Op, Operation, Sectors};

pub fn reader(bytes: &[u8], options: Options) -> Result<Reader<&[u8]>, TraceError> {
    Reader::new(bytes, "t", options)
}

/// Every record of a trace that is sound, its format, and what else was met.
pub fn read_with(bytes: &[u8], options: Options) -> (Format, Vec<Record>, Tally) {
    let mut reader = reader(bytes, options).expect("it begins well");
    let records = reader.by_ref().collect::<Result<_, _>>().expect("it is sound");
    (reader.format(), records, reader.tally())
}

/// The same, of a trace whose format is detected from its content.
pub fn read(bytes: impl AsRef<[u8]>) -> (Format, Vec<Record>, Tally) {
    read_with(bytes.as_ref(), Options::default())
}

/// The error of an invalid trace. No record follows it.
pub fn refused(bytes: impl AsRef<[u8]>, options: Options) -> String {
    let mut reader = match reader(bytes.as_ref(), options) {
        Ok(reader) => reader,
        Err(error) => return error.to_string(),
    };
    let error = reader.by_ref().find_map(Result::err).expect("it is not sound");
    assert!(reader.next().is_none(), "nothing follows an error");
    error.to_string()
}

pub fn record(nanos: u64, device: u32, op: Op, start: u64, len: u64) -> Record {
    let extent = Extent::new(Lba(start), Sectors(len));
    let operation = Operation { op, extent, fua: false };
    Record { at: Instant::from_nanos(nanos), device, operation, response: None, think: None }
}

pub fn write(records: &[Record], target: Target) -> (Vec<u8>, spindle_trace::LeftOut) {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, target).expect("memory takes it");
    for record in records {
        writer.write(record).expect("memory takes it");
    }
    let left_out = writer.finish().expect("memory takes it");
    (bytes, left_out)
}

/// An HP record: seconds, µs, response µs, bytes, sector, unit, flags.
pub fn srt_record(of: [u32; 7]) -> Vec<u8> {
    let [seconds, micros, stop, bytes, sector, unit, flags] = of;
    let words =
        [56, 0x0004_0001, seconds, micros, 10, stop, bytes, sector, unit << 8, 4, 1, flags, 0, 1];
    words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect()
}

pub fn srt(records: &[[u32; 7]]) -> Vec<u8> {
    let mut file =
        b"$$TR_IOREC-1.3\ndisks = { sectorsize = 256, }, { sectorsize  = 256 };\n\x0c".to_vec();
    file.extend(records.iter().flat_map(|record| srt_record(*record)));
    file
}

/// A vSCSI record: bytes, SCSI command, block, µs.
pub fn vscsi(records: &[(u32, u16, u64, u64)]) -> Vec<u8> {
    let mut file = Vec::new();
    for (number, (bytes, command, block, micros)) in (1_u32..).zip(records) {
        file.extend(number.to_le_bytes());
        file.extend(bytes.to_le_bytes());
        file.extend(1_u32.to_le_bytes());
        file.extend(command.to_le_bytes());
        file.extend(0x0100_u16.to_le_bytes());
        file.extend(block.to_le_bytes());
        file.extend(micros.to_le_bytes());
    }
    file
}

pub const ASCII: &str = "13.191135 30 0 5 1\n17.829285 20 576560 6 0\n";
pub const VALIDATE: &str = "W Hit 100 4 663.00000 45422.5\nR Miss 200 12 6657.25 64047.0\n";
pub const BLKPARSE: &str = "\
  8,16   3        1     0.000000000   697  A   W 223490 + 8 <- (8,17) 223427
  8,16   3        2     0.000000500   697  Q   W 223490 + 8 [kjournald]
  8,16   3        3     0.000001000   697  G   W 223490 + 8 [kjournald]
  8,16   3        4     0.000001500   697  P   N [kjournald]
  8,16   3        5     0.000002000   697  D   W 223490 + 8 [kjournald]
  8,16   3        6     0.000900000     0  C   W 223490 + 8 [0]
  8,16   1        7     0.001000000   698  Q  RA 64 + 16 [cat]
  8,16   1        8     0.002000000   699  Q WFS 128 + 8 [db]
  8,16   1        9     0.003000000   699  Q FWFSM 136 + 8 [db]
  8,16   1       10     0.004000000   699  Q  FN [db]
  8,16   1       11     0.005000000   700  Q  DS 4096 + 2048 [fstrim]
  8,16   1       12     0.006000000   700  m   N cfq700 something
  8,16   1       13     0.006500000   700  Q  ZR 524288 + 0 [mkfs]
CPU3 (8,16):
 Reads Queued:           1,        8KiB\t Writes Queued:           1,        4KiB
";
pub const FIO_V2: &str = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda read 4096 \
     8192\n\
                      /dev/sda wait 5000 0\n/dev/sda write 0 512\n/dev/sdb add\n/dev/sdb open\n\
                      /dev/sdb trim 1024 1024\n/dev/sdb datasync 0 0\n/dev/sda close\n";
pub const FIO_V3: &str = "fio version 3 iolog\n19 /a add\n124 /a open\n128 /a read 0 4096\n\
                      10974 /a write 4096 4096\n11055 /a sync 0 0\n11056 /a close\n";
pub const MSR: &str =
    "128166372003061629,hm,1,Read,8192,4096,551\n128166372003061639,hm,1,Write,0,512,10\n";
pub const ALICLOUD: &str = "419,W,8192,4096,1577808000000626\n725,R,512,1024,1577808000000746\n";
pub const TENCENT: &str = "1538323200,12910952,128,0,1063\n1538323201,6,8,1,1360\n";
pub const SPINDLE: &str = "spindle trace 1\n# from somewhere\n0 R 8 16 3\n5 W+ 0 8 0 663000 -\n5 \
     F 0 0 0 1 2\n9 T 0 64 1 - 4\n9 Z 0 8 0\n";

/// A sound trace of every format.
pub fn samples() -> Vec<Vec<u8>> {
    let texts = [SPINDLE, ASCII, VALIDATE, BLKPARSE, FIO_V2, FIO_V3, MSR, ALICLOUD, TENCENT];
    let binary = [
        srt(&[[174, 19_687, 1_056, 4_096, 270, 1, 4], [175, 0, 5, 8_192, 16, 0, 5]]),
        vscsi(&[(4_096, 0x28, 64, 1_000), (512, 0x2a, 8, 2_000), (0, 0x35, 0, 3_000)]),
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).chain(binary).collect()
}
