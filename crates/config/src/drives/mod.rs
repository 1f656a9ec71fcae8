//! The drive library, and the file format it is written in.
//!
//! A drive file is TOML: [`parse_any`] reads one into a [`drive::AnySpec`] whose check has passed, or says what is
//! wrong as `FILE:LINE: field ...: what, expected ...`. The library's own files are compiled in, so that a
//! name means the same drive everywhere; each of their numbers carries its source.
//!
//! Invariant: every drive of the library passes its check (a test asks each).

mod firmware;
mod flash;
mod open;
mod shape;
mod write;
mod write_flash;

use core::fmt;

use drive::{AnySpec, Spec, SpecError};

use flash::{FlashFile, Kind, KindTable};
pub use open::{OpenDriveError, open, open_any};
use shape::DriveFile;
pub(crate) use write::time as exact;
pub use write::to_toml;
pub use write_flash::flash_to_toml;

/// Name and text of each drive.
const LIBRARY: &[(&str, &str)] = &[
    ("atlas-ii", include_str!("../../drives/atlas-ii.toml")),
    ("atlas10k", include_str!("../../drives/atlas10k.toml")),
    ("barracuda-2t", include_str!("../../drives/barracuda-2t.toml")),
    ("barracuda-st32171w", include_str!("../../drives/barracuda-st32171w.toml")),
    ("cheetah9LP", include_str!("../../drives/cheetah9LP.toml")),
    ("deskstar-34gxp", include_str!("../../drives/deskstar-34gxp.toml")),
    ("hgst-7k8", include_str!("../../drives/hgst-7k8.toml")),
    ("hp_c2247a", include_str!("../../drives/hp_c2247a.toml")),
    ("hp_c3323a", include_str!("../../drives/hp_c3323a.toml")),
    ("intel-p4500-2t", include_str!("../../drives/intel-p4500-2t.toml")),
    ("nearline-20t", include_str!("../../drives/nearline-20t.toml")),
    ("samsung-870evo-1t", include_str!("../../drives/samsung-870evo-1t.toml")),
    ("st318437lw", include_str!("../../drives/st318437lw.toml")),
];

/// The longest drive file: longer is something else by mistake.
pub const DRIVE_FILE_BYTES_MAX: usize = 4 << 20;

/// A drive file that describes no drive. Shows as `FILE:LINE: field ...: what, expected ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveFileError {
    file: String,
    line: usize,
    field: String,
    reason: String,
}

impl DriveFileError {
    /// The line, from 1.
    pub const fn line(&self) -> usize {
        self.line
    }

    /// The field, as far as one can be named.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// What is wrong with it, and what would be accepted.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for DriveFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, field, reason } = self;
        write!(f, "{file}:{line}: field `{field}`: {reason}")
    }
}

impl std::error::Error for DriveFileError {}

/// The names in the library, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    LIBRARY.iter().map(|(name, _)| *name)
}

/// The mechanical drive of that name, if the library has one.
///
/// # Panics
/// If a file of the library is wrong, which a test rules out.
pub fn library(name: &str) -> Option<Spec> {
    match library_any(name)? {
        AnySpec::Mechanical(spec) => Some(*spec),
        AnySpec::Flash(_) => None,
    }
}

/// The drive of that name, of either kind, if the library has one.
///
/// # Panics
/// If a file of the library is wrong, which a test rules out.
pub fn library_any(name: &str) -> Option<AnySpec> {
    let (name, text) = LIBRARY.iter().find(|(known, _)| *known == name)?;
    Some(parse_any(text, name).unwrap_or_else(|error| panic!("the drive library: {error}")))
}

/// Reads the file of a mechanical drive; `file` is the name that an error shows.
///
/// # Errors
/// Names the line and the field that is no part of such a drive, and what would be accepted.
pub fn parse(text: &str, file: &str) -> Result<Spec, DriveFileError> {
    match parse_any(text, file)? {
        AnySpec::Mechanical(spec) => Ok(*spec),
        AnySpec::Flash(_) => {
            let key = text.lines().position(|line| key_of(line) == Some("kind"));
            let reason = "is `flash`, expected `mechanical`: only a drive with an arm does this";
            let (file, field) = (file.to_owned(), "kind".to_owned());
            let line = key.map_or(1, |line| line + 1);
            Err(DriveFileError { file, line, field, reason: reason.to_owned() })
        }
    }
}

/// Reads a drive file of either kind; `file` is the name that an error shows.
///
/// # Errors
/// Names the line and the field that is no part of a drive, and what would be accepted.
pub fn parse_any(text: &str, file: &str) -> Result<AnySpec, DriveFileError> {
    let refused = |line, field: &str, reason: String| DriveFileError {
        file: file.to_owned(),
        line,
        field: field.to_owned(),
        reason,
    };
    if text.len() > DRIVE_FILE_BYTES_MAX {
        let reason = format!("has {} bytes, expected {DRIVE_FILE_BYTES_MAX} at most", text.len());
        return Err(refused(1, "file", reason));
    }
    let wrong = |error: toml::de::Error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        let message = error.message().trim().replace('\n', " ");
        let reason = if message.contains("expected") {
            message.clone()
        } else {
            format!("{message}, expected a drive file")
        };
        refused(line, &field_named(&message, text, line), reason)
    };
    let kind = toml::from_str::<KindTable>(text).map_err(wrong)?.kind();
    let spec = match kind {
        Kind::Flash => {
            let drive: FlashFile = toml::from_str(text).map_err(wrong)?;
            AnySpec::Flash(Box::new(drive.spec()))
        }
        Kind::Mechanical => {
            let drive: DriveFile = toml::from_str(text).map_err(wrong)?;
            let spec = drive.spec().map_err(|reason| refused(1, "rpm", reason))?;
            AnySpec::Mechanical(Box::new(spec))
        }
    };
    match spec.clone().check() {
        Ok(_) => Ok(spec),
        Err(error) => {
            Err(refused(line_of(text, &error), &error.field().to_string(), error.reason()))
        }
    }
}

/// The line of a byte, from 1.
fn line_at(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|byte| *byte == b'\n').count()
}

/// The name in backquotes if the message is about a name, else the key on the line.
fn field_named(message: &str, text: &str, line: usize) -> String {
    for about in ["missing field `", "unknown field `", "duplicate field `"] {
        if let Some(name) = message.strip_prefix(about).and_then(|rest| rest.split('`').next()) {
            return name.to_owned();
        }
    }
    // A value that goes over lines has its key above.
    let above = text.lines().take(line).collect::<Vec<_>>();
    above.iter().rev().find_map(|line| key_of(line)).unwrap_or("file").to_owned()
}

fn key_of(line: &str) -> Option<&str> {
    let (key, _) = line.split_once('=')?;
    let key = key.trim();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!key.is_empty() && key.chars().all(word)).then_some(key)
}

/// The line where the field of a refused [`Spec`] stands: the file's tables are named as the fields are, but
/// for the period, which is written as `rpm`.
fn line_of(text: &str, error: &SpecError) -> usize {
    let field = error.field();
    let name = match field.name {
        "" => "points",
        "period" if !text.lines().any(|line| key_of(line) == Some("period")) => "rpm",
        name => name,
    };
    let mut lines = (1..).zip(text.lines());
    let mut found = 1;
    if let Some(table) = field.table {
        let (header, nth) = match field.index {
            Some(index) if table == "zones" => (format!("[[{table}]]"), index),
            _ => (format!("[{table}]"), 0),
        };
        let mut headers = lines.by_ref().filter(|(_, line)| line.trim_start().starts_with(&header));
        let Some((line, _)) = headers.nth(nth) else { return found };
        found = line;
    }
    let key =
        lines.find(|(_, line)| key_of(line) == Some(name) || line.contains(&format!("[[{name}]]")));
    key.map_or(found, |(line, _)| line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use drive::{Device, Model, Tag};
    use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

    fn model(name: &str) -> Arc<Model> {
        Arc::new(library(name).expect("in the library").check().expect("a drive"))
    }

    /// Completions a second of `count` reads of 4 KiB, one at a time without a pause, `place` giving where.
    fn rate(model: &Arc<Model>, count: u64, mut place: impl FnMut(u64) -> Lba) -> u64 {
        let mut device = Device::new(Arc::clone(model));
        let mut now = Instant::ZERO;
        for n in 0..count {
            device.submit(now, Tag(n), Operation::read(Extent::new(place(n), Sectors(8))));
            now = device.next_completion().expect("one is in service");
            device.complete(now).expect("it is done");
        }
        count * 1_000_000_000_000 / now.as_nanos()
    }

    /// Thousandths of a request a second, at random over the whole disk.
    fn random(model: &Arc<Model>) -> u64 {
        let mut dice = 1_u64;
        let blocks = model.capacity().0 / 8;
        rate(model, 100_000, |_| {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            Lba((dice >> 20) % blocks * 8)
        })
    }

    /// kB/s of a sequential read of 16 MiB commands from `start` on.
    fn sequential(model: &Arc<Model>, start: Lba) -> u64 {
        let mut device = Device::new(Arc::clone(model));
        let mut now = Instant::ZERO;
        let len = Sectors(32_768);
        let mut lba = start;
        for n in 0..8 {
            device.submit(now, Tag(n), Operation::read(Extent::new(lba, len)));
            now = device.next_completion().expect("one is in service");
            device.complete(now).expect("it is done");
            lba = lba + len;
        }
        8 * len.bytes().0 * 1_000_000 / now.as_nanos()
    }

    fn facts(name: &str) -> (u64, u64, u64, u64) {
        let model = model(name);
        let inner = model.zones().last().expect("a zone").lbas.start;
        let random = random(&model);
        let outer = sequential(&model, Lba(0));
        let inner = sequential(&model, inner);
        let mean = model.seek_mean().as_micros();
        let full = model.full_stroke().as_micros();
        let worst = model.worst_case(Sectors(8));
        println!(
            "{name}: {} sectors, {} cylinders, random 4 KiB {random} per 1000 s, outer {outer} kB/s, inner \
             {inner} kB/s, mean seek {mean} us, full stroke {full} us, worst 4 KiB {worst}",
            model.capacity().0,
            model.cylinders()
        );
        (random, outer, inner, mean)
    }

    fn near(found: u64, expected: u64, percent: u64) {
        assert!(found.abs_diff(expected) * 100 <= expected * percent, "{found} for {expected}");
    }

    #[test]
    fn every_drive_of_the_library_is_a_drive() {
        assert!(names().is_sorted());
        for name in names() {
            let spec = library_any(name).expect("in the library");
            assert!(spec.check().expect("a drive").capacity() > Sectors::ZERO);
        }
        assert_eq!(library("no-such-drive"), None);
    }

    #[test]
    fn the_deskstar_has_its_capacity_its_average_seek_and_its_measured_rate() {
        let (random, _, _, seek) = facts("deskstar-34gxp");
        near(model("deskstar-34gxp").capacity().bytes().0, 20_500_000_000, 1);
        near(seek, 9_000, 1);
        near(random, 68_000, 1);
    }

    #[test]
    fn the_st318437lw_streams_and_seeks_as_the_paper_says() {
        let (_, outer, inner, _) = facts("st318437lw");
        near(outer, 41_700, 2);
        near(inner, 24_300, 2);
        let model = model("st318437lw");
        near(model.capacity().bytes().0, 18_400_000_000, 1);
        assert_eq!(model.seek(20_000), Duration::from_millis(14));
        assert_eq!(model.seek(10_000), Duration::from_millis(9));
    }

    #[test]
    fn the_hgst_has_its_capacity_its_average_seek_and_its_rates() {
        let (_, outer, _, seek) = facts("hgst-7k8");
        let model = model("hgst-7k8");
        assert_eq!(model.capacity(), Sectors(15_628_053_168));
        near(seek, 8_000, 1);
        near(outer, 255_000, 2);
        assert_eq!(model.seek(1), Duration::from_micros(600));
        // The mean rate, over the disk's capacity: so much time for each part of it.
        let parts = 48;
        let each = model.capacity().0 / parts;
        let slowness =
            (0..parts).map(|nth| 1_000_000_000 / sequential(&model, Lba(each * nth + each / 2)));
        let mean = parts * 1_000_000_000 / slowness.sum::<u64>();
        println!("mean rate {mean} kB/s");
        near(mean, 205_000, 5);
    }

    /// 1 MB in the outer zone takes about 120 ms, wherever in it the arm comes from; three drives on buses of their
    /// own read 25.3 MB/s.
    #[test]
    fn the_atlas_reads_a_megabyte_and_streams_as_was_measured() {
        let model = model("atlas-ii");
        near(model.capacity().bytes().0, 9_100_000_000, 1);
        near(3 * sequential(&model, Lba(0)), 25_300, 2);
        let outer = model.zones().next().expect("a zone").lbas;
        let (count, len) = (1_000, Sectors(1_954));
        let mut device = Device::new(Arc::clone(&model));
        let (mut now, mut dice, mut busy) = (Instant::ZERO, 1_u64, Duration::ZERO);
        for n in 0..count {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let start = outer.start + Sectors((dice >> 20) % (outer.len.0 - len.0));
            let submitted = now + Duration::from_micros((dice >> 40) % 50_000);
            device.submit(submitted, Tag(n), Operation::read(Extent::new(start, len)));
            now = device.next_completion().expect("one is in service");
            device.complete(now).expect("it is done");
            busy += now.since(submitted);
        }
        let each = busy.as_micros() / count;
        println!("1 MB in the outer zone takes {each} us");
        near(each, 120_000, 5);
    }

    #[test]
    fn the_nearline_drive_has_its_capacity_its_average_seek_and_its_rate() {
        let (_, outer, _, seek) = facts("nearline-20t");
        assert_eq!(model("nearline-20t").capacity(), Sectors(39_063_650_304));
        near(seek, 7_400, 1);
        near(outer, 285_000, 2);
    }

    #[test]
    fn a_wrong_file_is_refused_with_line_field_and_what_is_expected() {
        let good = LIBRARY.iter().find(|(name, _)| *name == "deskstar-34gxp").expect("in it").1;
        let line = |part: &str| line_at(good, good.find(part).expect("in the file"));
        let refused = |from: &str, to: &str| {
            assert!(good.contains(from), "{from}");
            parse(&good.replacen(from, to, 1), "x.toml").expect_err(to).to_string()
        };
        let rpm = line("\nrpm = ") + 1;
        assert_eq!(
            refused("\nrpm = 7200", "\nrpm = 0"),
            format!("x.toml:{rpm}: field `period`: is 0 ns, expected 100000 to 1000000000")
        );
        let text = refused("\nrpm = 7200", "\nrpm = \"fast\"");
        assert!(text.starts_with(&format!("x.toml:{rpm}: field `rpm`: ")), "{text}");
        assert!(text.contains("expected"), "{text}");
        let switch = line("\nhead_switch") + 1;
        let text = refused("head_switch = \"", "head_switch = \"x");
        assert!(
            text.starts_with(&format!("x.toml:{switch}: field `head_switch`: found `x")),
            "{text}"
        );
        let text = refused("\nrpm = 7200", "\nrpm = 7200\nrmp = 7200");
        assert!(text.starts_with(&format!("x.toml:{}: field `rmp`: unknown", rpm + 1)), "{text}");
        let text = refused("\nrpm = 7200", "\n");
        assert!(text.contains("field `rpm`: missing field `rpm`, expected"), "{text}");
        let queue =
            |keys: &str| refused("\n[overheads]", &format!("\n[queue]\n{keys}\n[overheads]"));
        let at = line("\n[overheads]") + 1;
        assert_eq!(
            queue("order = \"shortest-positioning\"\nage_limit = \"1ms\""),
            format!(
                "x.toml:{}: field `queue.age_limit`: is 1000000 ns, expected 8333333 to 60000000000",
                at + 2
            )
        );
        let text = queue("order = \"elevator\"");
        assert!(text.starts_with(&format!("x.toml:{}: field `order`: unknown", at + 1)), "{text}");
        let second = line_at(good, good.match_indices("[[zones]]").nth(1).expect("two zones").0);
        let text = refused("first_cylinder = 1500", "first_cylinder = 1501");
        let expected = format!(
            "x.toml:{}: field `zones[1].first_cylinder`: is 1501, expected 1500",
            second + 1
        );
        assert!(text.starts_with(&expected), "{text}\n{expected}");
        assert!(parse("[", "y.toml").expect_err("no file").to_string().contains("expected"));
    }
}
