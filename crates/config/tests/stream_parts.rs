//! A stream in parts: each disk of a single layout has a span of its own, no more is admitted than
//! a disk bears at any time, and parts that say nothing are refused.

use std::fmt::Write as _;
use std::path::Path;

use engine::stream::{Span, Task};
use rng::SplitMix64;
use spindle_config::{DiskIndex, Plan, PoolVolume};
use units::{Duration, Instant};

const MIB: u64 = 1 << 20;
const SECOND: u128 = 1_000_000_000;

/// Three disks and a pool of the first two, without volumes.
fn pool(lines: &str) -> String {
    let mut text = String::new();
    for disk in 0..3 {
        write!(text, "[[disk]]\nname = \"d{disk}\"\ndrive = \"atlas-ii\"\n{lines}")
            .expect("a string takes all");
    }
    text + "[pool]\ndisks = [\"d0\", \"d1\"]\n"
}

fn table(name: &str, size: u64, lines: &str, stream: &str) -> String {
    format!(
        "[[pool.volume]]\nname = \"{name}\"\nsize = \"{size}MiB\"\n{lines}stream = {{ block = \
         \"1MiB\", {stream} }}\n"
    )
}

/// A stream in sequential order with this span and these parts.
fn in_parts(bandwidth: &str, span: (&str, &str), parts: &str) -> String {
    let (start, end) = span;
    format!(
        "bandwidth = \"{bandwidth}\", order = \"sequential\", span = [\"{start}\", \"{end}\"], \
         parts = [{parts}]"
    )
}

fn parse(text: &str) -> Result<Plan, String> {
    Plan::parse(text, "plan.toml", Path::new("")).map_err(|error| error.to_string())
}

fn volumes(text: &str) -> Vec<PoolVolume> {
    let plan = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    plan.pool.expect("it has one").volumes
}

/// A span in seconds.
fn seconds(span: Span) -> (f64, f64) {
    let at = |at: Instant| at.since(Instant::ZERO).as_secs_f64();
    (at(span.start), at(span.end))
}

#[test]
fn each_disk_has_the_time_of_its_part_with_four_blocks_on_either_side_and_three_to_answer() {
    let stream = in_parts("1MiB/s", ("100s", "1h"), "\"10MiB\", \"20MiB\"");
    let film = volumes(&(pool("") + &table("film", 30, "", &stream))).remove(0);
    assert_eq!(seconds(film.span_on(DiskIndex(0))), (100.0, 117.0));
    assert_eq!(seconds(film.span_on(DiskIndex(1))), (106.0, 137.0));
    assert_eq!(seconds(film.span()), (100.0, 3_600.0));
    let (before, fields) =
        ("[pool.volume.stream]\nblock = \"1MiB\"\n", stream.replace("\", ", "\"\n"));
    let fields = fields.replace("], parts", "]\nparts").replace("MiB\"\n\"", "MiB\", \"");
    let fields = fields.replace("0s\"\n\"", "0s\", \"");
    let head = "[[pool.volume]]\nname = \"film\"\nsize = \"30MiB\"\n";
    let long = volumes(&format!("{}{head}{before}{fields}\n", pool("")));
    assert_eq!(long[0].parts, film.parts, "in a table of its own");
    // Not beyond the span of the stream, and in the order of the volume's disks.
    let stream = in_parts("1MiB/s", ("100s", "110s"), "\"10MiB\", \"20MiB\"");
    let film = volumes(&(pool("") + &table("film", 30, "disks = [\"d1\", \"d0\"]\n", &stream)));
    assert_eq!(seconds(film[0].span_on(DiskIndex(1))), (100.0, 110.0));
    assert_eq!(seconds(film[0].span_on(DiskIndex(0))), (106.0, 110.0));
    // A block that is longer than one of the pool's counts as it is; a time is rounded outwards.
    let stream = in_parts("1536KiB/s", ("0s", "1h"), "\"100MiB\", \"100MiB\"");
    let film = table("film", 200, "", &stream).replace("\"1MiB\"", "\"2MiB\"");
    let film = volumes(&(pool("") + &film)).remove(0);
    let nanos = |nanos: u64| Instant::ZERO + Duration::from_nanos(nanos);
    let (d0, d1) = (film.span_on(DiskIndex(0)), film.span_on(DiskIndex(1)));
    assert_eq!(d0, Span { start: nanos(0), end: nanos(76_000_000_000) });
    assert_eq!(d1, Span { start: nanos(61_333_333_333), end: nanos(142_666_666_667) });
}

#[test]
fn two_films_that_use_each_disk_at_different_times_are_both_admitted() {
    // Each asks for 60% of a disk; the second begins when the first has left the first disk.
    let films = |parts: bool| {
        ["first", "second"].map(|name| {
            let span = if name == "first" { ("0s", "300s") } else { ("140s", "440s") };
            let stream = in_parts("2MB/s", span, "\"256MiB\", \"256MiB\"");
            let stream = if parts {
                stream
            } else {
                let (kept, _) = stream.split_once(", parts").expect("it has parts");
                kept.replace("\"sequential\"", "\"any\"")
            };
            table(name, 512, "", &stream)
        })
    };
    let [first, second] = films(true);
    let admitted = volumes(&(pool("") + &first + &second));
    for disk in [DiskIndex(0), DiskIndex(1)] {
        let [one, two] = [&admitted[0], &admitted[1]].map(|volume| volume.span_on(disk));
        assert!(one.end <= two.start, "{disk:?}: {one:?}, {two:?}");
    }
    assert!(admitted[0].span_on(DiskIndex(1)).overlaps(&admitted[1].span_on(DiskIndex(0))));
    let [first, second] = films(false);
    let refused =
        parse(&(pool("") + &first + &second)).map(|_| ()).expect_err("both are on both disks");
    assert!(refused.contains("\"second\""), "{refused}");
    assert!(refused.contains("what fits on disk \"d0\""), "{refused}");
}

#[test]
fn a_refusal_names_the_disk_and_the_time() {
    let stream = |span| in_parts("2MB/s", span, "\"256MiB\", \"256MiB\"");
    let first = table("first", 512, "", &stream(("0s", "300s")));
    let second = table("second", 512, "", &stream(("130s", "430s")));
    let refused =
        parse(&(pool("") + &first + &second)).map(|_| ()).expect_err("the first is still there");
    assert_eq!(
        refused,
        "plan.toml:19: [[pool.volume]] \"second\": field `stream`: found `{ block = \"1MiB\", \
         bandwidth = \"2MB/s\", order = \"sequential\",…`, expected what fits on disk \"d0\" (at \
         L = 524.288ms, beside the longest command of volumes without a stream: short by \
         68.849ms, from 130s to 137.887s)"
    );
}

/// The message about a volume of 30 MiB with these lines and a stream with these fields.
fn refused(lines: &str, stream: &str) -> String {
    let refused =
        parse(&(pool("") + &table("v", 30, lines, stream))).map(|_| ()).expect_err("it is refused");
    let (_, said) = refused.split_once("stream: ").unwrap_or_else(|| panic!("{refused}"));
    said.to_owned()
}

#[test]
fn parts_that_say_nothing_are_refused_with_what_is_missing() {
    let span = "span = [\"0s\", \"1h\"]";
    let found = "field `parts`: found `[\"10MiB\", \"20MiB\"]`, expected ";
    let good = in_parts("1MiB/s", ("0s", "1h"), "\"10MiB\", \"20MiB\"");
    let any = good.replace("sequential", "any");
    assert_eq!(
        refused("", &any),
        format!(
            "{found}`order = \"sequential\"` beside it: a client that jumps may come to any disk \
             at any time"
        )
    );
    assert_eq!(
        refused("", &good.replace(&format!("{span}, "), "")),
        format!("{found}a `span` beside it: play begins at its start")
    );
    assert_eq!(
        refused("layout = \"stripe\"\n", &good),
        format!(
            "{found}no parts, or layout \"single\": no disk of layout \"stripe\" has one part of \
             the volume alone"
        )
    );
    assert_eq!(
        refused("from = { zone = \"any\", disks = [\"d1\"] }\n", &good),
        format!("{found}no parts while the volume is moved: they are not where they were")
    );
    assert_eq!(
        refused("source = \"other\"\n", &good),
        format!(
            "{found}no parts of a volume with a `source`: its blocks are where those of its \
             source are"
        )
    );
    assert_eq!(
        refused("disks = [\"d1\"]\n", &good),
        format!("{found}one size for each of the volume's disks \"d1\"")
    );
    assert_eq!(
        refused("", &good.replace("20MiB", "19MiB")),
        "field `parts`: found `[\"10MiB\", \"19MiB\"]`, expected sizes of 30MiB together (the \
         size of the volume)"
    );
    for wrong in ["0MiB", "1500KiB", "9GiB"] {
        assert_eq!(
            refused("", &good.replace("20MiB", wrong)),
            format!(
                "field `parts`: found `{wrong}`, expected a multiple of 1MiB, at most 8670MiB \
                 (what disk \"d1\" can hold)"
            )
        );
    }
    // Four blocks before play comes to the 10th MiB it is 6 s.
    assert_eq!(
        refused("", &good.replace("\"1h\"", "\"6s\"")),
        "field `span`: found `[\"0s\", \"6s\"]`, expected an end after 6s, when play comes near \
         to the part on disk \"d1\""
    );
    let own = "[[volume]]\nname = \"v\"\ndisk = \"d2\"\nsize = \"30MiB\"\nstream = { block = \
               \"1MiB\", bandwidth = \"1MiB/s\", parts = [\"30MiB\"] }\n";
    let said = parse(&(pool("") + own)).map(|_| ()).expect_err("it is refused");
    assert!(
        said.ends_with(
            "field `parts`: found `[\"30MiB\"]`, expected no parts: a volume on one disk has all \
             of its blocks there"
        ),
        "{said}"
    );
}

/// A generated stream: its bandwidth, and when it begins; the parts in MiB, by disk.
#[derive(Clone, Debug)]
struct Stream {
    bandwidth: u64,
    start: u64,
    parts: Vec<(usize, u64)>,
}

impl Stream {
    fn generate(rng: &mut SplitMix64) -> Self {
        let below = |rng: &mut SplitMix64, end: u32| u64::from(rng.below(end));
        let bandwidth = 250_000 + below(rng, 1_500_000);
        let start = below(rng, 60);
        let first = rng.below(2) as usize;
        let parts = [first, 1 - first].map(|disk| (disk, 1 + below(rng, 40)));
        Self { bandwidth, start, parts: parts.to_vec() }
    }

    /// When all of it has been played, and answered.
    fn end(&self) -> u64 {
        let size: u64 = self.parts.iter().map(|(_, part)| part).sum();
        self.start + ((size + 8) * MIB).div_ceil(self.bandwidth)
    }

    fn table(&self, name: &str) -> String {
        let size = self.parts.iter().map(|(_, part)| part).sum();
        let sizes: Vec<_> = self.parts.iter().map(|(_, part)| format!("\"{part}MiB\"")).collect();
        let disks: Vec<_> = self.parts.iter().map(|(disk, _)| format!("\"d{disk}\"")).collect();
        let (start, end) = (format!("{}s", self.start), format!("{}s", self.end()));
        let bandwidth = format!("{}B/s", self.bandwidth);
        let stream = in_parts(&bandwidth, (&start, &end), &sizes.join(", "));
        table(name, size, &format!("disks = [{}]\n", disks.join(", ")), &stream)
    }

    /// Whether a client in contract may ask `disk` for a block at this time, or wait for one.
    fn uses(&self, disk: usize, nanos: u128) -> bool {
        let mut before = 0;
        for (there, part) in &self.parts {
            let blocks = [before, before + part].map(u128::from);
            before += part;
            if *there != disk {
                continue;
            }
            // In bytes, exactly: where play is now.
            let played = (nanos.saturating_sub(u128::from(self.start) * SECOND))
                * u128::from(self.bandwidth);
            let byte = u128::from(MIB) * SECOND;
            let is_before = nanos < u128::from(self.start) * SECOND;
            return !is_before
                && played + 4 * byte >= blocks[0] * byte
                && played <= (blocks[1] + 7) * byte;
        }
        false
    }
}

/// Whether non-preemptive tasks meet all deadlines beside a command of `other` (RTAS 2000 §3.1, of
/// Jeffay et al.): in each interval what is due, and the longest other command, take less.
fn fits(tasks: &[Task], reach: Duration) -> bool {
    let nanos = |task: &Task| u128::try_from(task.cost().as_nanos()).expect("it takes time");
    let ppb: u128 =
        tasks.iter().map(|task| nanos(task) * SECOND / u128::from(task.period().as_nanos())).sum();
    let steps = tasks.iter().flat_map(|task| {
        let period = task.period().as_nanos();
        (1..=reach.as_nanos() / period).map(move |n| n * period)
    });
    let due = |interval: u64| {
        let of = |task: &Task| u128::from(interval / task.period().as_nanos()) * nanos(task);
        let blocks = tasks.iter().filter(|task| task.period().as_nanos() > interval).map(nanos);
        tasks.iter().map(of).sum::<u128>() + blocks.max().unwrap_or(0)
    };
    ppb <= SECOND && steps.into_iter().all(|interval| due(interval) <= u128::from(interval))
}

#[test]
fn no_disk_admits_more_than_it_bears_at_any_time() {
    let (mut most_whole, mut most, mut instants) = (0, 0, 0_u64);
    for seed in 0..12 {
        let mut rng = SplitMix64::new(seed);
        let (mut text, mut streams, mut refused) = (pool("policy = \"edf\"\n"), Vec::new(), 0);
        let mut whole = pool("policy = \"edf\"\n");
        while refused < 6 && streams.len() < 24 {
            let stream = Stream::generate(&mut rng);
            let more = stream.table(&format!("s{}", streams.len()));
            let plain = more.split_once(", parts").expect("it has parts").0.to_owned() + " }\n";
            let plain = plain.replace("\"sequential\"", "\"any\"");
            if parse(&format!("{whole}{plain}")).is_ok() {
                whole += &plain;
            }
            if parse(&format!("{text}{more}")).is_ok() {
                text += &more;
                streams.push(stream);
            } else {
                refused += 1;
            }
        }
        let volumes = volumes(&text);
        most += streams.len();
        most_whole += whole.matches("stream =").count();
        for disk in 0..2 {
            // Each quarter of a second, with tasks that are there by the test's own account.
            for quarter in 0..1_700_u128 {
                let now = quarter * SECOND / 4;
                let there = streams.iter().zip(&volumes);
                let there = there.filter(|(stream, _)| stream.uses(disk, now));
                let tasks: Vec<Task> = there
                    .map(|(stream, volume)| {
                        let span = volume.span_on(DiskIndex(disk));
                        let nanos = u128::from(span.start.since(Instant::ZERO).as_nanos());
                        let end = u128::from(span.end.since(Instant::ZERO).as_nanos());
                        assert!(nanos <= now && now <= end, "{now}: {span:?} of {stream:?}");
                        volume.contract(DiskIndex(disk)).stream.expect("it has one").task
                    })
                    .collect();
                assert!(fits(&tasks, Duration::from_secs(12)), "seed {seed}, disk {disk}, {now}");
                instants += 1;
            }
        }
        assert!(streams.len() > 3, "some fit: {streams:?}");
    }
    println!("{most} streams in parts, {most_whole} without, at {instants} instants");
    assert!(most > most_whole, "{most} in parts, {most_whole} without");
}
