//! Profiles: a written profile is read back, an error names its line, and a disk with a profile is
//! scheduled by it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use drive::Model;
use drive_library::profile::{CpuCost, MeasuredDevice, MeasurementRun, ProfileFile, assumed};
use drive_profile::findings::{
    AccessPattern, ChunkPoint, Chunks, DepthPoint, Dynamics, Figure, Findings, Flash, FlushTime,
    Geometry, LimitedQuantity, Outlier, OutlierReason, Overheads, Prediction, Rate, RateLimit,
    ReadBuffer, ReadsDuringWrites, Rotation, RotationTest, RotationVerdict, SeekPoint, Seeks,
    Spindle, Stage, Starvation, WriteBuffer, Zone,
};
use spindle_config::{CacheBypass, Plan};
use units::{Bytes, Duration, Lba, Op, Sectors, Share};

fn figure<T>(value: T, spread: T) -> Figure<T> {
    Figure { value, spread, samples: 321, confidence: Share::from_percent(95) }
}

fn time(nanos: u64) -> Figure<Duration> {
    figure(Duration::from_nanos(nanos), Duration::from_nanos(nanos / 100))
}

fn geometry(model: &Model) -> Geometry {
    let profile = assumed(model);
    let zones = profile.bands.iter().map(|band| Zone {
        lbas: band.lbas,
        begin_confidence: Share::from_percent(99),
        sectors_per_track: figure(band.sectors_per_track, 0),
        track_skew: time(800_000),
        cylinder_skew: time(950_000),
        skews_separated: true,
        media_rate: 46_000_000,
        sustained_rate: 42_000_000,
    });
    Geometry {
        zones: zones.take(drive::ZONES_MAX).collect(),
        heads: Some(figure(profile.surfaces, 0)),
        order: Some(profile.bands[0].heads),
        cylinders: profile.cylinders,
        known: profile.capacity(),
        bands: profile.bands,
    }
}

fn curve(model: &Model, more: Duration) -> Seeks {
    let spec = model.spec();
    Seeks {
        points: spec
            .seek
            .points
            .iter()
            .map(|(distance, takes)| SeekPoint {
                distance: *distance,
                time: *takes + more,
                error: Duration::from_micros(3),
                variation: spec.arm.variation,
            })
            .collect(),
        least: model.seek(1),
        mean: model.seek_mean(),
        full_stroke: model.full_stroke(),
        samples: 1_000,
    }
}

fn overheads(spec: &drive::Spec) -> Overheads {
    Overheads {
        path: Some(time(90_000)),
        hit: Some(time(spec.overheads.read_hit.as_nanos())),
        read: Some(time((spec.overheads.read_miss + spec.bus_sector).as_nanos())),
        cached: Some(time(spec.overheads.write_cached.as_nanos())),
        write: Some(time((spec.overheads.write_media + spec.bus_sector).as_nanos())),
        seek: Some(time(spec.overheads.control.as_nanos())),
        bus_read: Some(time(spec.bus_sector.as_nanos())),
        bus_write: Some(time(spec.bus_sector.as_nanos())),
        read_share: Some(figure(Share::from_percent(75), Share::from_percent(1))),
        head_switch: Some(time(spec.head_switch.as_nanos())),
        head_switch_write: Some(time((spec.head_switch + spec.write_settle).as_nanos())),
    }
}

fn dynamics(model: &Model) -> Dynamics {
    let spec = model.spec();
    let buffer = spec.read_buffer;
    Dynamics {
        seek: Some(curve(model, Duration::ZERO)),
        seek_write: Some(curve(model, spec.write_settle)),
        overheads: overheads(spec),
        read_buffer: Some(ReadBuffer {
            ahead: figure(buffer.read_ahead_max, Sectors(8)),
            ends_with_track: false,
            reads_next_track: true,
            waits: Some(false),
            keeps: Some(true),
            segments: figure(buffer.segments, 0),
            segment: figure(buffer.segment, Sectors(8)),
        }),
        write_buffer: Some(WriteBuffer {
            write_back: spec.write_cache,
            size: Some(figure(spec.write_buffer, Sectors(8))),
            runs: Some(7),
            destage: Some(time(9_400_000)),
            destages_when_idle: true,
        }),
        chunks_read: Some(Chunks {
            points: vec![ChunkPoint {
                chunk: Sectors(8),
                seen: Bytes(12_345_678),
                drive: Bytes(1),
            }],
            optimal: (Sectors(50), Sectors(2_048)),
            confidence: Some(Share::from_percent(97)),
        }),
        chunks_write: None,
        depths: vec![DepthPoint { depth: 1, per_1000_s: 68_123, samples: 99 }],
        starvation: Some(Starvation {
            waits: vec![(1, Duration::from_millis(20)), (2, Duration::from_secs(2))],
            safe_depth: 1,
        }),
        prediction: Some(Prediction {
            noise: Duration::from_micros(200),
            offset: Duration::from_micros(900),
            missed: Share::from_percent(2),
            samples: 200,
            just_in_time_gains: true,
        }),
    }
}

/// Findings without errors.
fn truth(name: &str) -> ProfileFile {
    let model = drive_library::find_mechanical(name).expect("in it").check().expect("a drive");
    let spec = model.spec();
    let spindle = Spindle::Rotating(Rotation {
        period: Figure { spread: Duration::from_nanos(3), ..time(model.period().as_nanos()) },
        period_picos: model.period().as_nanos() * 1_000 + 333,
        noise: Duration::from_micros(200),
        wander: Duration::from_nanos(80),
        eviction_reads: 40,
        cache_hit_max: Duration::from_millis(1),
    });
    let findings = Findings {
        done: vec![Stage::Rotation, Stage::Zones],
        outliers: vec![
            Outlier { lba: Lba(12_345), stage: Stage::Zones, reason: OutlierReason::Remapped },
            Outlier { lba: Lba(0), stage: Stage::Seeks, reason: OutlierReason::Failed },
        ],
        outliers_more: 3,
        spindle: Some(spindle),
        geometry: Some(geometry(&model)),
        dynamics: dynamics(&model),
        flash: Flash::default(),
        notes: vec!["a \"note\"\nwith [odd] = characters \u{1F4BE}".to_owned()],
    };
    let device = MeasuredDevice {
        name: format!("simulated:{name}"),
        model: Some("BARRACUDA \\ 36".to_owned()),
        capacity: model.capacity(),
        block: Sectors(1),
        written: true,
        seeks: spec.arm.seek_command,
        depth_max: model.queue_depth_max(),
    };
    let processor = vec![CpuCost { len: Sectors(8), time: Duration::from_micros(4), samples: 9 }];
    let run = MeasurementRun {
        time: Duration::from_secs(588),
        quick: false,
        halted: Some("interrupted".to_owned()),
        overhead: Some(Duration::from_micros(11)),
        processor,
    };
    ProfileFile { device, run, findings }
}

fn flash() -> Flash {
    let rate = Rate {
        op: Op::Write,
        access: AccessPattern::Sequential,
        len: Sectors(128),
        depth: 8,
        interval: time(10_204),
        latency: time(81_632),
        latency_p99: Duration::from_micros(90),
        latency_max: Duration::from_millis(2),
    };
    Flash {
        rotation_test: Some(RotationTest {
            verdict: RotationVerdict::TooFast,
            median: Duration::from_nanos(76_925),
            spread: Duration::from_nanos(1),
            samples: 48,
        }),
        limits: vec![RateLimit {
            of: LimitedQuantity::Commands,
            per_second: figure(3_000, 2),
            burst: figure(20_000, 150),
        }],
        rates: vec![rate.clone(), Rate { op: Op::Read, access: AccessPattern::Random, ..rate }],
        write_buffer: Some(figure(Sectors(32_768), Sectors(64))),
        reads_during_writes: Some(ReadsDuringWrites {
            alone: time(76_925),
            mean: time(2_003_265),
            p99: Duration::from_millis(3),
            max: Duration::from_millis(4),
        }),
        flushes: vec![FlushTime { writes: 8, time: time(960_893) }],
    }
}

fn same(measured: &ProfileFile) {
    let text = measured.to_toml();
    let again =
        ProfileFile::parse(&text, "p.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(again, *measured);
    assert_eq!(again.to_toml(), text);
}

#[test]
fn a_written_profile_is_read_back() {
    for name in drive_library::names().filter(|name| drive_library::find_mechanical(name).is_some())
    {
        same(&truth(name));
    }
    let mut measured = truth("cheetah9LP");
    measured.findings =
        Findings { flash: flash(), spindle: Some(Spindle::NotRotating), ..Findings::default() };
    measured.run = MeasurementRun::default();
    measured.device.model = None;
    same(&measured);
    measured.findings = Findings::default();
    same(&measured);
}

/// A text of the file, its replacement, and the message.
const BROKEN: &[(&str, &str, &str)] = &[
    (
        "schema = 1",
        "schema = 2",
        "p.toml:1: field `schema`: found `2`, expected 1, the only version there is",
    ),
    ("schema = 1\n", "", "field `schema`: found nothing, expected 1"),
    (
        "seek_command = true",
        "seek_command = 1",
        "[device]: field `seek_command`: found `1`, expected true or false, without quotes",
    ),
    (
        "quick = false",
        "quick = false\nslow = true",
        "[run]: field `slow`: found `slow`, expected one of the keys",
    ),
    (
        "[run]",
        "[ran]",
        "field `ran`: found `ran`, expected one of the keys `schema`, `device`, `run`, `found`",
    ),
    (
        "\"rotation\", \"zones\"",
        "\"rotations\"",
        "[found]: field `done`: found `rotations`, expected one of \"rotation\"",
    ),
    (
        "reason = \"remapped\"",
        "reason = \"odd\"",
        "field `reason`: found `odd`, expected one of \"failed\", \"late\", \"remapped\"",
    ),
    ("period = { value = ", "period = { valu = ", "[rotation] period: field `valu`"),
    (
        "confidence = \"95%\" }\nperiod_ps",
        "confidence = \"195%\" }\nperiod_ps",
        "[rotation] period: field `confidence`: found `195%`, expected a share from 0% to 100%",
    ),
    (
        "spread = \"3ns\"",
        "spread = 3",
        "[rotation] period: field `spread`: found `3`, expected a time from 0s to",
    ),
    ("[1, \"700us\"", "[1, 2, \"700us\"", "field `points`: found `[1, 2, \"700us\""),
    (
        "cylinders = 30276",
        "cylinders = 0",
        "[geometry]: field `cylinders`: found `0`, expected 1 to 4194304 cylinders and 1 to 64 \
         heads",
    ),
    (
        "[[found.geometry.band]]\nfirst_lba = 0\n",
        "[[found.geometry.band]]\nfirst_lba = 1\n",
        "expected bands that follow one another from sector 0 on; number 1 does not",
    ),
    (
        "\nhead_order = \"up\"\nchunk_read",
        "\nhead_order = \"down\"\nchunk_read",
        "[[geometry.band]] #1: field `head_order`: found `down`, expected one of \"up\"",
    ),
    ("track_skew = \"0x", "track_skew = \"", "field `track_skew`"),
    (
        "eviction_reads = 40",
        "eviction_reads = -40",
        "field `eviction_reads`: found `-40`, expected a whole number from 0 to 4294967295",
    ),
    ("capacity = \"", "capacity = \"1", "[device]: field `capacity`"),
    (
        "block = \"512B\"",
        "block = \"511B\"",
        "[device]: field `block`: found `511B`, expected a size of whole sectors",
    ),
];

#[test]
fn an_error_names_its_line_and_the_accepted_values() {
    let text = truth("st318437lw").to_toml();
    for (from, to, expected) in BROKEN {
        assert!(text.contains(from), "{from}");
        let broken = text.replacen(from, to, 1);
        if let Err(error) = ProfileFile::parse(&broken, "p.toml") {
            let message = error.to_string();
            assert!(
                message.starts_with("p.toml:") && message.contains(expected),
                "{to}: {message}"
            );
            assert_eq!(message.lines().count(), 1, "{message}");
        } else {
            // Another capacity alone is valid; only together with the rest is it wrong.
            assert!(from.starts_with("capacity"), "{to} is accepted");
        }
    }
}

/// The text with `key` of the table `header` under its earlier name, wherever it has the key.
fn under_earlier_name(text: &str, header: &str, key: &str, earlier: &str) -> String {
    let inner = header.trim_matches(['[', ']']);
    let within =
        |name: &str| if inner.is_empty() { name.into() } else { format!("{inner}.{name}") };
    let (table, earlier_table): (String, String) = (within(key), within(earlier));
    let mut is_inside = header.is_empty();
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            is_inside = line == header;
            let name = line.trim_matches(['[', ']']);
            let is_nested = name == table || name.starts_with(&format!("{table}."));
            lines.push(if is_nested {
                line.replacen(&table, &earlier_table, 1)
            } else {
                line.into()
            });
        } else if let Some(value) = line.strip_prefix(&format!("{key} = ")).filter(|_| is_inside) {
            lines.push(format!("{earlier} = {value}"));
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n") + "\n"
}

/// Two profiles that together have every key that was renamed.
fn with_all_keys() -> [ProfileFile; 2] {
    let mut rotating = truth("st318437lw");
    rotating.findings.flash = flash();
    let mut flash = truth("st318437lw");
    flash.findings = Findings { spindle: Some(Spindle::NotRotating), ..Findings::default() };
    [rotating, flash]
}

#[test]
fn a_profile_with_the_earlier_name_of_a_key_is_the_same_profile() {
    let profiles = with_all_keys();
    let mut renamed = 0;
    for table in drive_library::profile::keys() {
        for key in table.keys {
            let Some(earlier) = key.old_name else { continue };
            renamed += 1;
            let (measured, text, old) = profiles
                .iter()
                .map(|measured| (measured, measured.to_toml()))
                .map(|(measured, text)| {
                    let old = under_earlier_name(&text, &table.header, key.name, earlier);
                    (measured, text, old)
                })
                .find(|(_, text, old)| text != old)
                .unwrap_or_else(|| panic!("{} `{}` is in neither", table.header, key.name));
            let read = ProfileFile::parse(&old, "p.toml");
            let read = read.unwrap_or_else(|error| panic!("{earlier}: {error}"));
            assert_eq!(read, *measured, "{} `{earlier}`", table.header);

            // Both names, in the first place where the texts differ.
            let mut both: Vec<_> = text.lines().collect();
            let differs = text.lines().zip(old.lines()).position(|(one, other)| one != other);
            let at = differs.expect("they differ");
            let line = old.lines().nth(at).expect("a line");
            if line.starts_with('[') {
                both.push(line);
            } else {
                both.insert(at, line);
            }
            let error = ProfileFile::parse(&both.join("\n"), "p.toml").expect_err("two names");
            let message = error.to_string();
            for name in [key.name, earlier] {
                assert!(message.contains(&format!("`{name}`")), "{message}");
            }
        }
    }
    assert!(renamed > 30, "{renamed}");
}

#[test]
fn a_profile_with_the_earlier_name_of_a_value_is_the_same_profile() {
    let values = [
        ("reason = \"remapped\"", "reason = \"elsewhere\""),
        ("\"not-rotating-fast\"", "\"not-rotating-at-once\""),
        ("\"not-rotating-uniform\"", "\"not-rotating-level\""),
        ("\"rate-limit\"", "\"provisioned\""),
    ];
    let [mut measured, _] = with_all_keys();
    measured.findings.done.push(Stage::RateLimit);
    for verdict in [RotationVerdict::TooFast, RotationVerdict::Uniform] {
        let test = measured.findings.flash.rotation_test.as_mut().expect("a test");
        test.verdict = verdict;
        let text = measured.to_toml();
        let old = values.iter().fold(text.clone(), |text, (new, old)| text.replace(new, old));
        assert_ne!(old, text);
        assert_eq!(ProfileFile::parse(&old, "p.toml").as_ref(), Ok(&measured));
    }
}

#[test]
fn the_tables_for_output_have_a_renamed_key_under_both_names() {
    let [measured, _] = with_all_keys();
    let tables = toml::Value::try_from(measured.table()).expect("tables");
    let found = &tables["found"];
    for name in ["rate_limit", "limit"] {
        let limits = found["flash"][name].as_array().expect("a list");
        assert_eq!(limits[0]["quantity"], limits[0]["of"]);
    }
    let same = found["dynamics"]["prediction"]["worth_it"].as_bool();
    assert_eq!(found["dynamics"]["prediction"]["just_in_time_gains"].as_bool(), same);
}

fn config(lines: &str, profile: &str) -> Result<Plan, spindle_config::ConfigError> {
    // Tests run in parallel, so each config has its own profile.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let directory = &Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("profile-{number}"));
    std::fs::create_dir_all(directory).expect("a scratch directory");
    std::fs::write(directory.join("measured.toml"), profile).expect("a scratch file");
    let disk = std::fs::File::create(directory.join("disk.img")).expect("a scratch disk");
    disk.set_len(35_937_612 * 512).expect("a sparse file of st318437lw's size");
    Plan::parse(&format!("[[disk]]\nname = \"d0\"\n{lines}\n"), "plan.toml", directory)
}

#[test]
fn a_disk_with_a_profile_is_scheduled_by_it() {
    let mut measured = truth("st318437lw");
    let Some(Spindle::Rotating(rotation)) = &mut measured.findings.spindle else {
        panic!("it turns")
    };
    rotation.period.value = Duration::from_nanos(8_400_000);
    measured.findings.geometry.as_mut().expect("a map").bands[0].chunk_read = Sectors(77);
    let lines = "drive = \"st318437lw\"\nprofile = \"measured.toml\"\nestimate = \"profile\"";
    let plan = config(lines, &measured.to_toml()).expect("a good config");
    let disk = &plan.disks[0];
    let known = &disk.profile.as_ref().expect("it has one").profile;
    assert_eq!(known.rotation_period, Duration::from_nanos(8_400_000));
    assert_eq!(known.overheads.hit, Duration::from_micros(395));
    assert_eq!(known.bands[0].chunk_read, Sectors(77));
    assert!(known.extremes.read_share >= Share::from_percent(75), "and what it may be off");
    assert_eq!(disk.mechanics().expect("an arm").rotation_period, known.rotation_period);
    let plain =
        config("drive = \"st318437lw\"\nestimate = \"profile\"", "").expect("a good config");
    let ways = |plan: &Plan| plan.disks[0].settings().estimates.table.expect("a table").positioning;
    assert_ne!(ways(&plan), ways(&plain), "half a turn is longer");
}

#[test]
fn a_profile_makes_a_drive_where_no_other_is_named() {
    for name in drive_library::names() {
        let Some(spec) = drive_library::find_mechanical(name) else { continue };
        let model = Arc::new(spec.check().expect("a drive"));
        let plan = config("profile = \"measured.toml\"", &truth(name).to_toml());
        let plan = plan.unwrap_or_else(|error| panic!("{name}: {error}"));
        let made = plan.disks[0].drive.model.mechanical().expect("an arm");
        assert_eq!(made.capacity(), model.capacity(), "{name}");
        assert_eq!(made.full_stroke(), model.full_stroke(), "{name}");
        assert_eq!(made.spec().overheads, model.spec().overheads, "{name}");
    }
}

#[test]
fn the_measured_profile_of_a_real_disk_decides_which_way_its_forced_writes_go_first() {
    let first = |measured: &ProfileFile| {
        let lines = "path = \"disk.img\"\nprofile = \"measured.toml\"";
        config(lines, &measured.to_toml()).expect("a good config").disks[0].bypass_order()[0]
    };
    let mut measured = truth("st318437lw");
    assert_eq!(first(&measured), CacheBypass::Forced);
    measured.findings.dynamics.overheads.write = Some(time(60_000_000));
    assert_eq!(first(&measured), CacheBypass::Flushed, "several are stored no later than one");
}

#[test]
fn an_invalid_profile_or_one_of_another_drive_is_refused() {
    let mut still = truth("cheetah9LP");
    still.findings.spindle = Some(Spindle::NotRotating);
    let mut seekless = truth("cheetah9LP");
    seekless.findings.dynamics.seek = None;
    let good = truth("cheetah9LP").to_toml();
    let of = "profile = \"measured.toml\"";
    let library = "drive = \"st318437lw\"\nprofile = \"measured.toml\"";
    let table = [
        (of, String::new(), "expected a profile that can be used ("),
        (of, still.to_toml(), "expected a stage `rates`"),
        (
            "drive = \"cheetah9LP\"\nprofile = \"measured.toml\"",
            still.to_toml(),
            "on which nothing turns",
        ),
        (of, seekless.to_toml(), "expected a stage `seeks`"),
        (library, good.clone(), "expected a profile of this drive, which has"),
        ("profile = \"no-such.toml\"", good.clone(), "/no-such.toml: found `No such file"),
        ("profile = 7", good, "expected the path of a profile (*.toml), in quotes"),
    ];
    for (lines, profile, expected) in table {
        let message = config(lines, &profile).expect_err("is refused").to_string();
        assert!(message.contains("field `profile`: found"), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_profile_of_flash_makes_a_drive_whose_file_is_read_back() {
    let mut measured = truth("cheetah9LP");
    let rates = [(1, 76_925), (32, 10_204)].map(|(depth, interval)| Rate {
        op: Op::Read,
        access: AccessPattern::Random,
        len: Sectors(8),
        depth,
        interval: time(interval),
        latency: time(interval * u64::from(depth)),
        latency_p99: Duration::from_millis(1),
        latency_max: Duration::from_millis(1),
    });
    measured.findings = Findings {
        flash: Flash { rates: rates.to_vec(), ..Flash::default() },
        spindle: Some(Spindle::NotRotating),
        ..Findings::default()
    };
    let spec = measured.flash_spec().expect("what it takes");
    let text = drive_library::flash_to_toml(&spec);
    let again =
        drive_library::parse(&text, "f.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(again, drive::AnySpec::Flash(Box::new(spec)));
    let plan = config("profile = \"measured.toml\"", &measured.to_toml()).expect("a good config");
    assert!(plan.disks[0].drive.model.flash().is_some() && plan.disks[0].profile.is_none());
    for name in drive_library::names() {
        let Some(drive::AnySpec::Flash(spec)) = drive_library::find(name) else { continue };
        let again = drive_library::parse(&drive_library::flash_to_toml(&spec), "f.toml");
        assert_eq!(again, Ok(drive::AnySpec::Flash(spec)), "{name}");
    }
}

/// Replaces digits of a valid profile, with a seeded RNG: an accepted text is a usable profile or
/// names its missing findings.
#[test]
fn no_profile_causes_a_panic() {
    let good = truth("st318437lw").to_toml().into_bytes();
    let mut state = 7_u64;
    let mut roll = |bound: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits") % bound
    };
    let (mut accepted, mut models) = (0, 0);
    for _ in 0..1_000 {
        let mut bytes = good.clone();
        for _ in 0..=roll(3) {
            let digits: Vec<usize> =
                (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
            let at = digits[roll(digits.len())];
            match roll(3) {
                0 => bytes[at] = b'0' + u8::try_from(roll(10)).expect("a digit"),
                1 => drop(bytes.splice(at..at, *b"99999999")),
                _ => drop(bytes.remove(at)),
            }
        }
        let text = String::from_utf8(bytes).expect("digits are text");
        let Ok(measured) = ProfileFile::parse(&text, "p.toml") else { continue };
        accepted += 1;
        same(&measured);
        if let Ok(profile) = measured.profile() {
            profile.assert_valid();
        }
        models += u32::from(measured.mechanical_spec().is_ok_and(|spec| spec.check().is_ok()));
    }
    assert!(accepted > 100 && models > 10, "{accepted} are profiles, {models} of them of drives");
}
