//! A drive small enough to be worked out by hand; what is refused; what a million slips of the pen
//! do; and the published drives, where they are at hand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use drive::{Discipline, Mapping, ReadAhead, Skip, Spec};
use units::{Angle, Duration, Lba};

use super::{import, import_with};
use crate::catalogue::{find_mechanical, names};
use crate::file::{parse_mechanical, to_toml};

const PARV: &str =
    "disksim_bus BUS { Read block transfer time = 0.17, Write block transfer time = 0.18 }
disksim_ctlr CTLR { Bulk sector transfer time = 0.01 }
source x.diskspecs # the disk
instantiate [ bus0, bus1 ] as BUS
instantiate [ ctlr0 ] as CTLR
instantiate [ disk0 .. disk2 ] as SMALL
topology disksim_ctlr ctlr0 [ disksim_bus bus0 [ disksim_disk disk0 [] ] ]
";

const DISKSPECS: &str = "disksim_disk SMALL {
  Model = source x.model,
  Time scale for overheads = 2.0,
  Bulk sector transfer time = 0.1,
  Number of buffer segments = 3,
  Segment size (in blks) = 64,
  Maximum read-ahead (blks) = 32,
  Buffer continuous read = 4,
  Read hit over. after read = 0.05,
  Read miss over. after write = 0.3,
  Write miss over. after read = 0.9
}
";

const MODEL: &str = "dm_disk SMALL_model {
  Number of data surfaces = 2,
  Number of cylinders = 20,
  Block count = 352,
  Layout Model = dm_layout_g1 {
    LBN-to-PBN mapping scheme = 0,
    Sparing scheme used = 9,
    Rangesize for sparing = 1,
    Zones = [
      dm_layout_g1_zone {
        First cylinder number = 0,
        Last cylinder number = 9,
        Blocks per track = 10,
        Offset of first block = 2.0,
        Empty space at zone front = 3,
        Skew for track switch = 1.0,
        Skew for cylinder switch = 2.0,
        Number of spares = 5,
        slips = [ 7, 8, 90 ],
        defects = []
      },
      dm_layout_g1_zone {
        First cylinder number = 11,
        Last cylinder number = 19,
        Blocks per track = 9,
        Number of spares = 0,
        slips = [], defects = []
      }
    ]
  },
  Mechanical Model = dm_mech_g1 {
    Access time type = trackSwitchPlusRotation,
    Seek type = extracted,
    Full seek curve = x.seek,
    Add. write settling delay = 0.5,
    Head switch time = 0.8,
    Rotation speed (in rpms) = 6000
  }
}
";

const SEEK: &str = "Seek distances measured: 3\n1, 1.0\n2, 0.9\n19, 5.0\n";

fn files() -> BTreeMap<PathBuf, String> {
    let all = [("x.parv", PARV), ("x.diskspecs", DISKSPECS), ("x.model", MODEL), ("x.seek", SEEK)];
    all.into_iter().map(|(name, text)| (Path::new("d").join(name), text.to_owned())).collect()
}

fn read(files: &BTreeMap<PathBuf, String>, name: &str) -> Result<Spec, String> {
    let mut read = |path: &Path| files.get(path).cloned().ok_or("a file that is there".to_owned());
    import_with(&Path::new("d").join(name), &mut read)
        .map(|imported| imported.spec)
        .map_err(|error| error.to_string())
}

fn refused(name: &str, from: &str, to: &str) -> String {
    let mut files = files();
    let text = files.get_mut(&Path::new("d").join(name)).expect("one of the files");
    assert!(text.contains(from), "{from}");
    *text = text.replacen(from, to, 1);
    read(&files, "x.parv").expect_err(to)
}

fn skip(first: u64, count: u64) -> Skip {
    Skip { first, count }
}

#[test]
fn every_number_of_the_files_comes_to_its_place() {
    let spec = read(&files(), "x.parv").expect("a drive");
    assert_eq!((spec.period, spec.surfaces), (Duration::from_millis(10), 2));
    assert_eq!(spec.mapping, Mapping::Cylinder);
    let (outer, inner) = (&spec.zones[0], &spec.zones[1]);
    // 3 sectors at the front, the slips, 5 spares at the end less the 3 taken up, and cylinder 10.
    assert_eq!(outer.skips, [skip(0, 3), skip(7, 2), skip(90, 1), skip(198, 22)]);
    assert_eq!((outer.first_cylinder, outer.last_cylinder), (0, 10));
    assert_eq!(outer.first_sector_angle, Angle(2 * 429_496_729));
    assert_eq!((outer.track_skew, outer.cylinder_skew), (1, 2));
    assert_eq!((inner.first_cylinder, inner.last_cylinder, inner.skips.len()), (11, 19, 0));
    assert_eq!(spec.seek.fall_max, Duration::from_micros(100));
    assert_eq!(spec.head_switch, Duration::from_micros(800));
    assert_eq!(spec.write_settle, Duration::from_micros(500));
    assert_eq!(spec.overheads.read_hit, Duration::from_micros(100));
    assert_eq!(spec.overheads.write_media, Duration::from_micros(1_800));
    assert_eq!(spec.overheads_after_write.read_miss, Duration::from_micros(600));
    assert_eq!(spec.firmware.read_ahead, ReadAhead::TrackAndNext);
    // The slowest of the disk, its bus and its controller.
    assert_eq!(spec.bus_sector, Duration::from_micros(170));
    assert_eq!(spec.firmware.bus.write_sector, Some(Duration::from_micros(180)));
    let alone = read(&files(), "x.diskspecs").expect("a drive");
    assert_eq!(alone.bus_sector, Duration::from_micros(100));
    let model = spec.check().expect("a drive");
    assert_eq!(model.capacity().0, 200 - 3 - 5 + 162);
    let fifth = model.position(Lba(4));
    assert_eq!((fifth.cylinder, fifth.surface, fifth.sector), (0, 0, 9));
}

#[test]
fn each_sparing_scheme_leaves_the_runs_it_is_described_with() {
    let zone = |scheme: &str, spares: &str, slips: &str| {
        let mut files = files();
        let model = files.get_mut(Path::new("d/x.model")).expect("it is there");
        let changes = [
            ("used = 9", format!("used = {scheme}")),
            ("Rangesize for sparing = 1", "Rangesize for sparing = 4".into()),
            ("spares = 5", format!("spares = {spares}")),
            ("[ 7, 8, 90 ]", slips.into()),
            ("Block count = 352,", String::new()),
        ];
        for (from, to) in changes {
            *model = model.replacen(from, &to, 1);
        }
        read(&files, "x.parv").map(|spec| spec.zones)
    };
    let skips = |scheme, spares, slips| zone(scheme, spares, slips).expect(scheme)[0].skips.clone();
    assert_eq!(skips("1", "2", "[ 4 ]"), [skip(0, 3), skip(40, 10), skip(190, 30)]);
    assert_eq!(skips("7", "0", "[ 2, 9 ]"), [skip(0, 4), skip(9, 1), skip(200, 20)]);
    assert_eq!(
        skips("8", "5", "[ 90 ]"),
        [skip(0, 3), skip(75, 5), skip(90, 1), skip(156, 4), skip(200, 20)]
    );
    // Behind the last whole range there are no spares: the one before lends one.
    assert_eq!(
        skips("8", "5", "[ 170 ]")[1..],
        [skip(75, 5), skip(156, 4), skip(170, 1), skip(200, 20)]
    );
    assert_eq!(skips("10", "1", "[ 7 ]"), [skip(0, 3), skip(7, 1), skip(199, 21)]);
    let tracks = skips("3", "1", "[]");
    assert_eq!(tracks[..3], [skip(0, 3), skip(9, 1), skip(19, 1)]);
    // A slip shifts the cylinders (of two tracks) that follow it in its zone, or the tracks.
    let turned = &zone("2", "1", "[ 45 ]").expect("2")[0];
    assert_eq!(turned.skips[..4], [skip(0, 3), skip(19, 1), skip(39, 1), skip(45, 1)]);
    assert_eq!(turned.track_slips, [6]);
    assert_eq!(zone("3", "1", "[ 45 ]").expect("3")[0].track_slips, [5]);
    // Slips that move all that follows leave the spares alone; spares at the front lie before the
    // data.
    assert_eq!(skips("4", "1", "[ 45 ]")[..4], [skip(0, 3), skip(19, 1), skip(39, 1), skip(45, 1)]);
    assert_eq!(skips("4", "1", "[ 45 ]")[4], skip(59, 1));
    assert_eq!(skips("5", "2", "[ 45 ]")[..4], [skip(0, 5), skip(20, 2), skip(40, 1), skip(45, 1)]);
    assert_eq!(skips("6", "2", "[ 45 ]")[..4], [skip(0, 5), skip(20, 2), skip(40, 2), skip(45, 1)]);
    // What one cylinder's spare does not take up the next one's does.
    let lent = skips("2", "1", "[ 45, 46 ]");
    assert_eq!(lent[3..6], [skip(45, 2), skip(99, 1), skip(119, 1)]);
    let message = zone("9", "1", "[ 185, 186 ]").expect_err("no room");
    assert!(message.contains("field `slips`"), "{message}");
}

#[test]
fn what_cannot_be_represented_is_refused_by_name_and_line() {
    let line = |text: &str, part: &str| {
        1 + text[..text.find(part).expect("it is there")].matches('\n').count()
    };
    let model = |from: &str, to: &str, expected: &str| {
        let message = refused("x.model", from, to);
        let at = format!("d/x.model:{}: ", line(MODEL, from));
        assert!(
            message.starts_with(&at) && message.contains(expected),
            "{message}\n{at}{expected}"
        );
    };
    model(
        "dm_layout_g1 {",
        "dm_layout_g4 {",
        "field `Layout Model`: found `dm_layout_g4`, expected dm_layout_g1: its tracks may follow",
    );
    model(
        "dm_layout_g1 {",
        "dm_layout_g2 {",
        "field `Layout Model`: found `dm_layout_g2`, expected dm_layout_g1: the extents of a map",
    );
    model("= extracted", "= hpl", "field `Seek type`: found `hpl`, expected one of");
    model(
        "defects = []\n",
        "defects = [ 5, 6, 9 ]\n",
        "field `defects`: found `3`, expected pairs",
    );
    model(
        "Sparing scheme used = 9",
        "Sparing scheme used = 11",
        "field `Sparing scheme used`: found `11`",
    );
    model(
        "number = 11",
        "number = 9",
        "field `First cylinder number`: found `9`, expected at least 10",
    );
    model(
        "Block count = 352",
        "Block count = 500",
        "field `Block count`: found `500`, expected 354",
    );
    model("[ 7, 8, 90 ]", "[ 7, -8 ]", "field `slips`: found `-8`");
    let unspared = refused("x.model", "used = 9", "used = 0");
    assert!(
        unspared.contains("x.model:19: field `slips`: found `3`, expected no slips"),
        "{unspared}"
    );
    model(
        "slips = [], defects = []",
        "slips = [], defects = [ 5, 6 ]",
        "no defects without spares",
    );
    model("rpms) = 6000", "rpms) = fast", "found `fast`, expected a number");
    model("dm_mech_g1", "dm_mech_g0", "field `Mechanical Model`");
    model("trackSwitchPlusRotation", "constant", "field `Access time type`: found `constant`");
    let seek = refused("x.seek", "19,", "2,");
    assert!(seek.starts_with("d/x.seek:4: field `distance`"), "{seek}");
    let gone = refused("x.diskspecs", "x.model", "y.model");
    assert!(gone.starts_with("d/x.diskspecs:2: field `source`"), "{gone}");
    let itself = refused("x.parv", "source x.diskspecs", "source x.parv");
    assert!(itself.contains("inside each other"), "{itself}");
    let none = read(&files(), "x.model").expect_err("no disk");
    assert!(none.contains("field `disksim_disk`"), "{none}");
}

/// The drive after changes to the files, and the warnings.
fn warned(changes: &[(&str, &str, &str)]) -> (Spec, Vec<String>) {
    let mut files = files();
    for (name, from, to) in changes {
        let text = files.get_mut(&Path::new("d").join(name)).expect("one of the files");
        assert!(text.contains(from), "{from}");
        *text = text.replacen(from, to, 1);
    }
    let mut read = |path: &Path| files.get(path).cloned().ok_or("a file that is there".to_owned());
    let imported = import_with(Path::new("d/x.parv"), &mut read).expect("DiskSim takes it");
    (imported.spec, imported.warnings.iter().map(ToString::to_string).collect())
}

#[test]
fn a_seek_curve_that_falls_is_taken_as_it_is_with_a_warning() {
    // The small drive's own curve falls by 0.1 ms; this one by most of a seek.
    for (to, distance, by) in [("2, 0.9", 2, "100us"), ("2, 0.1", 2, "900us")] {
        let (spec, warnings) = warned(&[("x.seek", "2, 0.9", to)]);
        let expected = format!(
            "d/x.model:33: field `Seek type`: a seek over {distance} cylinders takes {by} less \
             than a shorter one: the curve is taken as it is"
        );
        assert_eq!(warnings, [expected]);
        assert!(spec.check().expect("a drive").seek(2) < Duration::from_millis(1));
    }
    let (_, warnings) = warned(&[("x.seek", "2, 0.9", "2, 1.1")]);
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn cylinders_may_be_counted_from_one() {
    let rising = ("x.seek", "2, 0.9", "2, 1.1");
    let (before, _) = warned(&[rising]);
    let unstated = ("x.model", "Block count = 352,", "");
    let last = ("x.model", "number = 19", "number = 20");
    let (spec, warnings) = warned(&[rising, last, unstated]);
    let made = "the cylinder after the 20 of `Number of cylinders` is taken as one of the disk: \
                its cylinders are those of its zones";
    assert_eq!(warnings, [format!("d/x.model:24: field `Last cylinder number`: {made}")]);
    let [before, after] = [before, spec].map(|spec| spec.check().expect("a drive"));
    assert_eq!((before.cylinders(), after.cylinders()), (20, 21));
    assert_eq!(after.capacity().0 - before.capacity().0, 18);
    // Beyond that the zones belong to another drive.
    let message = refused("x.model", "number = 19", "number = 21");
    assert!(message.contains("field `Last cylinder number`: found `21`"), "{message}");
    // A serpentine begins with the zone, wherever its cylinders are counted from.
    let (from_one, warnings) = warned(&[
        rising,
        unstated,
        ("x.model", "scheme = 0", "scheme = 1"),
        ("x.model", "number = 0", "number = 1"),
        ("x.model", "number = 9", "number = 10"),
        ("x.model", "number = 11", "number = 12"),
        last,
    ]);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    let (from_zero, _) = warned(&[rising, unstated, ("x.model", "scheme = 0", "scheme = 1")]);
    assert_eq!(from_one, from_zero);
}

#[test]
fn a_read_leaves_its_segment_when_the_file_says_minus_one() {
    let over = |value: &str| {
        let to = format!("segments = 3, Read-ahead over requested = {value},");
        warned(&[("x.seek", "2, 0.9", "2, 1.1"), ("x.diskspecs", "segments = 3,", &to)])
    };
    let (erased, warnings) = over("-1");
    let made = "the sectors of a read leave their segment when it is done, so that the whole \
                segment is for read-ahead";
    assert_eq!(warnings, [format!("d/x.diskspecs:5: field `Read-ahead over requested`: {made}")]);
    assert!(erased.firmware.discard_after_read);
    for value in ["0", "1"] {
        let (spec, warnings) = over(value);
        assert_eq!((spec.firmware.discard_after_read, warnings.len()), (false, 0));
    }
    let message =
        refused("x.diskspecs", "segments = 3,", "segments = 3, Read-ahead over requested = 2,");
    assert!(message.contains("found `2`, expected -1, 0 or 1"), "{message}");
}

/// The drive after changes to the files; nothing else in it changes.
fn changed(name: &str, from: &str, to: &str) -> Spec {
    let mut files = files();
    let text = files.get_mut(&Path::new("d").join(name)).expect("one of the files");
    assert!(text.contains(from), "{from}");
    *text = text.replacen(from, to, 1);
    read(&files, "x.parv").unwrap_or_else(|error| panic!("{to}: {error}"))
}

#[test]
fn what_is_written_in_another_way_is_the_same_drive() {
    let same = read(&files(), "x.parv").expect("a drive");
    for (name, from, to) in [
        ("x.model", "cylinders = 20", "cylinders = 0x14"),
        ("x.model", "Seek type = extracted", "Seek type = \"extracted\""),
        ("x.model", "curve = x.seek", "curve = \"x.seek\""),
        ("x.model", "[ 7, 8, 90 ]", "[ 90, 8, 7, 8 ]"),
        ("x.model", "switch = 1.0", "switch = 1.9"),
        ("x.model", "switch = 2.0", "switch = -8.0"),
        ("x.model", "Block count = 352,", ""),
        ("x.model", "Rangesize for sparing = 1,", ""),
        ("x.model", "slips = [], defects = []", "defects = [ 7, 7 ]"),
        ("x.model", "Sparing scheme used = 9,", "Skew units = sectors, Sparing scheme used = 9,"),
        ("x.seek", "Seek distances measured: 3\n", "0, 0.0\n"),
        ("x.seek", "1, 1.0\n2, 0.9\n", "1 1.0 0.05\n  # two\n2 0.9\n"),
        (
            "x.diskspecs",
            "Time scale",
            "Preseeking level = 2, Scheduler = disksim_ioqueue {}, Time scale",
        ),
        (
            "x.diskspecs",
            "segments = 3,",
            "segments = 3, Max queue length = 0, Never disconnect = 0,",
        ),
    ] {
        assert_eq!(changed(name, from, to), same, "{name}: {to}");
    }
    // In the directory above, as when the simulator is called from there.
    let mut moved = files();
    let model = moved.remove(Path::new("d/x.model")).expect("it is there");
    moved.insert("d/models/x.model".into(), model);
    let disk = moved.get_mut(Path::new("d/x.diskspecs")).expect("it is there");
    *disk = disk.replace("source x.model", "source models/x.model");
    assert_eq!(read(&moved, "x.parv"), Ok(same));
}

#[test]
fn skews_may_be_in_revolutions_of_the_whole_layout_or_of_a_zone() {
    let units = "Skew units = revolutions, ";
    let all = changed("x.model", "Sparing scheme used", &format!("{units}Sparing scheme used"));
    assert_eq!((all.zones[0].track_skew, all.zones[0].cylinder_skew), (0, 0));
    let mut files = files();
    let model = files.get_mut(Path::new("d/x.model")).expect("it is there");
    for (from, to) in [
        ("First cylinder number = 0,", "First cylinder number = 0, Skew units = revolutions,"),
        ("block = 2.0", "block = 0.5"),
        ("track switch = 1.0", "track switch = 0.25"),
        ("cylinder switch = 2.0", "cylinder switch = -0.1"),
    ] {
        *model = model.replacen(from, to, 1);
    }
    let zone = &read(&files, "x.parv").expect("a drive").zones[0];
    let sector = u32::MAX / 10;
    let whole = |sectors: u32, rest: Angle| u64::from(sectors * sector) + u64::from(rest.0);
    assert_eq!(zone.first_sector_angle, Angle(1 << 31));
    assert_eq!((zone.track_skew, whole(2, zone.track_skew_remainder)), (2, 1 << 30));
    assert_eq!(zone.cylinder_skew, 9);
    assert_eq!(whole(9, zone.cylinder_skew_remainder), 3_865_470_566);
}

#[test]
fn defects_are_kept_where_the_file_says_or_at_the_next_place_that_is_free() {
    let remaps = |defects: &str| {
        let spec = changed("x.model", "defects = []\n", &format!("defects = [ {defects} ]\n"));
        let all = spec.zones[0].remaps.iter().map(|remap| (remap.from, remap.to, remap.count));
        all.collect::<Vec<_>>()
    };
    // 198 and 199 are spares; 7 is a slip, and 1 is not used: what was there has nothing to be
    // kept.
    assert_eq!(remaps("20, 199, 10, 198"), [(10, 198, 1), (20, 199, 1)]);
    assert_eq!(remaps("7, 198, 1, 199"), []);
    assert_eq!(remaps("10, 30, 20, 30"), [(10, 198, 1), (20, 199, 1)]);
    let more =
        refused("x.model", "defects = []\n", "defects = [ 9,0, 10,0, 11,0, 12,0, 13,0, 14,0 ]\n");
    assert!(more.contains("x.model:20: field `defects`: found `6`, expected no defects"), "{more}");
}

#[test]
fn every_value_of_the_enumerated_keys_is_read() {
    let set = |key: &str, value: u32| {
        changed("x.diskspecs", "Time scale", &format!("{key} = {value}, Time scale"))
    };
    for level in 0..=2 {
        let spec = set("Fast write level", level);
        assert_eq!((spec.write_cache, spec.check().is_ok()), (level > 0, true));
    }
    let policies = [ReadAhead::Never, ReadAhead::Track, ReadAhead::Cylinder, ReadAhead::Fixed];
    for (value, policy) in (0..).zip(policies) {
        let spec =
            changed("x.diskspecs", "continuous read = 4", &format!("continuous read = {value}"));
        assert_eq!(spec.firmware.read_ahead, policy);
    }
    let queue = |policy: u32| {
        let keys = format!(
            "Max queue length = 8, Scheduler = disksim_ioqueue {{ Scheduling policy = {policy} }}"
        );
        changed("x.diskspecs", "Time scale", &format!("{keys}, Time scale"))
    };
    assert_eq!((queue(1).queue_depth_max, queue(1).discipline), (8, Discipline::Fifo));
    let latency =
        |discipline: Discipline| discipline.choosing().map(|choosing| choosing.decision_latency);
    assert!(matches!(queue(4).discipline, Discipline::ShortestSeek(_)));
    assert!(matches!(queue(8).discipline, Discipline::ShortestPositioning(_)));
    // A hit after a read, 0.05 ms, at a scale of 2.
    assert_eq!(latency(queue(8).discipline), Some(Duration::from_micros(100)));
    let keys =
        "Max queue length = 8, Scheduler = disksim_ioqueue { Scheduling policy = 2 }, Time scale";
    let elevator = refused("x.diskspecs", "Time scale", keys);
    assert!(elevator.contains("x.diskspecs:3: field `Scheduling policy`: found `2`"), "{elevator}");
}

#[test]
fn no_slip_of_the_pen_makes_it_panic() {
    let mut rng = 7_u64;
    let mut below = |most: usize| {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(rng >> 33).expect("31 bits") % most
    };
    let bits =
        ["{", "}", "[", "]", ",", "=", "-1", "9e99", "0", "4294967295", "source x.parv", "\u{0}"];
    let mut drives = 0;
    for _ in 0..4_000 {
        let mut files = files();
        for _ in 0..=below(2) {
            let nth = below(files.len());
            let text = files.values_mut().nth(nth).expect("one of them");
            let words: Vec<&str> = text.split_inclusive(' ').collect();
            let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
            let count = words.len().max(1);
            if words.is_empty() {
                continue;
            }
            let (at, other) = (below(count), below(count));
            match below(4) {
                0 => words[at] = bits[below(bits.len())].to_owned() + " ",
                1 => drop(words.remove(at)),
                2 => words.swap(at, other),
                _ => words.truncate(at),
            }
            *text = words.concat();
        }
        match read(&files, "x.parv") {
            Ok(spec) => {
                assert_eq!(parse_mechanical(&to_toml(&spec), "x.toml"), Ok(spec));
                drives += 1;
            }
            Err(message) => assert_eq!(message.lines().count(), 1, "{message}"),
        }
    }
    assert!(drives > 100, "only {drives} were drives");
}

#[test]
fn a_drive_file_that_was_written_is_read_back_as_the_same_drive() {
    for name in names() {
        let Some(spec) = find_mechanical(name) else { continue };
        assert_eq!(parse_mechanical(&to_toml(&spec), name), Ok(spec));
    }
    let mut spec = read(&files(), "x.parv").expect("a drive");
    for nanos in [5_985_037, 5_973_120, 16_666_666, 16_666_667] {
        spec.period = Duration::from_nanos(nanos);
        spec.seek_write = Some(spec.seek.clone());
        assert_eq!(parse_mechanical(&to_toml(&spec), "x.toml"), Ok(spec.clone()));
    }
}

#[test]
fn the_published_drives_are_read() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/disksim");
    if !directory.is_dir() {
        eprintln!("SKIPPED: {} is missing: no published drive was read", directory.display());
        return;
    }
    let capacities =
        [("cheetah9LP", 17_918_387_u64), ("hp_c2247a", 2_054_864), ("hp_c3323a", 2_056_008)];
    for name in ["cheetah9LP", "hp_c2247a", "hp_c3323a", "barracuda", "atlas10k"] {
        let spec = import(&directory.join(name).with_extension("parv")).expect(name).spec;
        assert_eq!(parse_mechanical(&to_toml(&spec), name), Ok(spec.clone()));
        let capacity = spec.check().expect(name).capacity().0;
        println!("{name}: {capacity} sectors");
        if let Some((_, stated)) = capacities.iter().find(|(known, _)| *known == name) {
            assert!(
                capacity.abs_diff(*stated) * 1_000 <= capacity,
                "{name}: {capacity} for {stated}"
            );
        }
    }
}
