//! Images decode to what was encoded, and nothing else is accepted.

use super::*;
use crate::pool::format::fields::{
    Field, IMAGE_DISK_BYTES, IMAGE_DISK_FIELDS, IMAGE_HEAD_BYTES, IMAGE_HEAD_FIELDS,
    IMAGE_VOLUME_BYTES, IMAGE_VOLUME_FIELDS, RUN_FIELDS, SCRUB_FIELDS, STALE_BYTES, STALE_FIELDS,
};
use crate::pool::format::structures::VERSION;
use crate::pool::names::VolumeBlock;
use crate::pool::state::apply::Effects;
use crate::pool::state::change::Change;
use crate::pool::state::extent_map::run;
use crate::pool::state::scrub::{ScrubPhase, UnixTime};

/// A pool of one disk with one stripe of one block, in which every field has a different value.
fn state() -> State {
    let geometry = Geometry::new(8, 16).expect("within the limits");
    let mut state = State::new(PoolUid([9; 16]), geometry, VERSION);
    (state.next_volume, state.next_disk, state.alarm, state.sequence) = (77, 33, 81, 0x1234);
    let uid = DiskUid([5; 16]);
    let (blocks, fast_end, draining, out, doubtful) = (1_000, 444, false, false, false);
    let disk = Disk { uid, blocks, fast_end, draining, out, doubtful, has_sums: true };
    let disks = vec![DiskId(33)];
    let (layout, zone) = (Layout::Stripe, Zone::Slow);
    let (name, size, seed) = ("archive".to_owned(), Blocks(19), 0xABCD);
    let (origin, group, columns) = (None, PoolVolumeId(77), Vec::new());
    let volume = Volume {
        open: true,
        thin: true,
        sums: false,
        name,
        size,
        layout,
        zone,
        seed,
        disks,
        origin,
        group,
        columns,
    };
    let changes = [
        Change::AddDisk { number: DiskId(33), disk },
        Change::SetDraining { number: DiskId(33), draining: true },
        Change::Create { id: PoolVolumeId(77), volume },
        Change::Map { id: PoolVolumeId(77), column: 0, run: run(6, 3, 33, 500) },
        Change::Stale { blocks: BlockExtent { disk: DiskId(33), block: 501, len: 2 } },
        Change::SetOpen { id: PoolVolumeId(77), open: true },
    ];
    let (began, ended, mended, unmended) = (UnixTime(91), UnixTime(0), 93, 94);
    let (phase, volume, block) = (ScrubPhase::Running, PoolVolumeId(77), VolumeBlock(3));
    let (read, lost, differing) = (92, 95, 96);
    state.scrub =
        ScrubRecord { phase, volume, block, began, ended, read, mended, unmended, lost, differing };
    for change in &changes {
        state.apply(change, &mut Effects::default()).expect("possible");
    }
    state
}

/// The number in a field of a structure that begins at `base`.
fn number(bytes: &[u8], base: usize, fields: &[Field], name: &str) -> u64 {
    let field = fields.iter().find(|field| field.name == name).expect("there is one");
    let at = base + field.offset;
    let mut value = [0; 8];
    value[..field.bytes].copy_from_slice(&bytes[at..at + field.bytes]);
    u64::from_le_bytes(value)
}

#[test]
fn every_field_lies_where_the_tables_say() {
    let bytes = encode(&state());
    let check = |base, fields: &[Field], expected: &[(&str, u64)]| {
        for (name, value) in expected {
            assert_eq!(number(&bytes, base, fields, name), *value, "{name}");
        }
    };
    let head = [
        ("sequence", 0x1234),
        ("disks", 1),
        ("volumes", 1),
        ("next volume", 78),
        ("next disk", 34),
        ("alarm", 81),
        ("stale", 1),
    ];
    check(0, &IMAGE_HEAD_FIELDS, &head);
    let disk = [("number", 33), ("blocks", 1_000), ("fast end", 444), ("flags", 9)];
    check(IMAGE_HEAD_BYTES, &IMAGE_DISK_FIELDS, &disk);
    let base = IMAGE_HEAD_BYTES + IMAGE_DISK_BYTES;
    let volume = [
        ("number", 77),
        ("origin", 0),
        ("size", 19),
        ("layout", 1),
        ("zone", 1),
        ("flags", 7),
        ("name bytes", 7),
        ("seed", 0xABCD),
        ("width", 1),
        ("copies", 0),
    ];
    check(base, &IMAGE_VOLUME_FIELDS, &volume);
    let field = |name| IMAGE_VOLUME_FIELDS.iter().find(|field| field.name == name).expect("is one");
    assert_eq!(&bytes[base + field("name").offset..][..8], b"archive\0");
    assert_eq!(&bytes[base + field("disks").offset..][..8], [33, 0, 0, 0, 255, 255, 255, 255]);
    let runs = base + IMAGE_VOLUME_BYTES;
    assert_eq!(bytes[runs..runs + 4], [1, 0, 0, 0], "the count of the extents");
    check(runs + 4, &RUN_FIELDS, &[("row", 6), ("length", 3), ("disk", 33), ("block", 500)]);
    let stale = runs + 4 + RUN_BYTES;
    check(stale, &STALE_FIELDS, &[("disk", 33), ("block", 501), ("length", 2)]);
    let scrub = [("phase", 1), ("volume", 77), ("block", 3), ("began", 91), ("lost", 95)];
    check(stale + STALE_BYTES, &SCRUB_FIELDS, &scrub);
    check(stale + STALE_BYTES, &SCRUB_FIELDS, &[("read", 92), ("differing", 96)]);
}

/// A valid checksum is not trusted: after any modification, decoding is an error or another
/// state, and never a panic.
#[test]
fn an_image_that_makes_no_sense_is_refused_and_never_a_panic() {
    let state = state();
    let whole = encode(&state);
    let read = |bytes: &[u8]| decode(bytes, VERSION, state.pool, state.geometry, state.sequence);
    assert_eq!(read(&whole), Ok(state.clone()));
    let mut refused = 0;
    for at in 0..whole.len() {
        for flip in [1, 0x80, 0xFF] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            match read(&bytes) {
                Ok(other) => {
                    assert_ne!(other, state, "byte {at} means something");
                    let _ = other.held();
                }
                Err(_) => refused += 1,
            }
        }
        assert!(read(&whole[..at]).is_err(), "{at} bytes are too few");
    }
    assert!(refused > whole.len(), "most of it has to make sense");
}
