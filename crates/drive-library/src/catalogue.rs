//! The drive library: drive files that are compiled in, so that a name means the same drive
//! everywhere.
//!
//! Each number in the files has its source beside it. Invariant: every drive of the library passes
//! its check.

use drive::{AnySpec, Spec};

use crate::file::parse;

/// Name and text of each drive.
const LIBRARY: &[(&str, &str)] = &[
    ("atlas-ii", include_str!("../drives/atlas-ii.toml")),
    ("atlas10k", include_str!("../drives/atlas10k.toml")),
    ("barracuda-2t", include_str!("../drives/barracuda-2t.toml")),
    ("barracuda-st32171w", include_str!("../drives/barracuda-st32171w.toml")),
    ("cheetah9LP", include_str!("../drives/cheetah9LP.toml")),
    ("deskstar-34gxp", include_str!("../drives/deskstar-34gxp.toml")),
    ("hgst-7k8", include_str!("../drives/hgst-7k8.toml")),
    ("hp_c2247a", include_str!("../drives/hp_c2247a.toml")),
    ("hp_c3323a", include_str!("../drives/hp_c3323a.toml")),
    ("intel-p4500-2t", include_str!("../drives/intel-p4500-2t.toml")),
    ("nearline-20t", include_str!("../drives/nearline-20t.toml")),
    ("samsung-870evo-1t", include_str!("../drives/samsung-870evo-1t.toml")),
    ("st318437lw", include_str!("../drives/st318437lw.toml")),
    ("wd400bb", include_str!("../drives/wd400bb.toml")),
];

/// The names in the library, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    LIBRARY.iter().map(|(name, _)| *name)
}

/// The mechanical drive of that name, if the library has one.
///
/// # Panics
/// If a file of the library is wrong, which a test rules out.
pub fn find_mechanical(name: &str) -> Option<Spec> {
    match find(name)? {
        AnySpec::Mechanical(spec) => Some(*spec),
        AnySpec::Flash(_) => None,
    }
}

/// The drive of that name, of either kind, if the library has one.
///
/// # Panics
/// If a file of the library is wrong, which a test rules out.
pub fn find(name: &str) -> Option<AnySpec> {
    let (name, text) = LIBRARY.iter().find(|(known, _)| *known == name)?;
    Some(parse(text, name).unwrap_or_else(|error| panic!("the drive library: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use drive::{Device, Model, Tag};
    use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

    fn model(name: &str) -> Arc<Model> {
        Arc::new(find_mechanical(name).expect("in the library").check().expect("a drive"))
    }

    /// Completions a second of `count` reads of 4 KiB at `location(n)`, one at a time.
    fn rate(model: &Arc<Model>, count: u64, mut location: impl FnMut(u64) -> Lba) -> u64 {
        let mut device = Device::new(Arc::clone(model));
        let mut now = Instant::ZERO;
        for n in 0..count {
            device.submit(now, Tag(n), Operation::read(Extent::new(location(n), Sectors(8))));
            now = device.next_completion().expect("one is in service");
            device.complete(now).expect("it is done");
        }
        count * 1_000_000_000_000 / now.as_nanos()
    }

    #[test]
    fn the_cheapest_way_past_a_write_buffer_is_known_of_each_mechanical_drive() {
        for name in names() {
            let Some(spec) = find_mechanical(name) else { continue };
            let model = Arc::new(spec.check().expect("a drive"));
            let Some(costs) = drive::DurableCosts::of(&model) else {
                println!("{name}: no write buffer");
                continue;
            };
            let order = costs.order();
            for way in order {
                let drive::DurableCost { short, batch, long } = costs.way(way);
                println!("{name} {way:?}: {short}, {batch}, {long}");
            }
            println!("{name}: {order:?} {:?}", order.map(|way| costs.relative(way)));
            assert!(costs.relative(order[0]) <= 1_000, "{name}");
        }
    }

    /// Thousandths of a request a second, at random over the whole disk.
    fn random(model: &Arc<Model>) -> u64 {
        let mut rng = 1_u64;
        let blocks = model.capacity().0 / 8;
        rate(model, 100_000, |_| {
            rng =
                rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Lba((rng >> 20) % blocks * 8)
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
            "{name}: {} sectors, {} cylinders, random 4 KiB {random} per 1000 s, outer {outer} \
             kB/s, inner \
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
            let spec = find(name).expect("in the library");
            assert!(spec.check().expect("a drive").capacity() > Sectors::ZERO);
        }
        assert_eq!(find_mechanical("no-such-drive"), None);
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
    fn the_wd400bb_has_its_capacity_its_seeks_and_its_media_rates() {
        let (_, outer, inner, seek) = facts("wd400bb");
        let model = model("wd400bb");
        near(model.capacity().0, 78_165_360, 1);
        near(seek, 8_900, 1);
        assert_eq!(model.seek(1), Duration::from_millis(2));
        near(model.full_stroke().as_micros(), 21_000, 1);
        // 651 and 397 sectors a revolution, less the changes of track.
        near(outer, 40_000 * 5 / 7, 5);
        near(inner, 24_400 * 5 / 7, 5);
    }

    #[test]
    fn the_hgst_has_its_capacity_its_average_seek_and_its_rates() {
        let (_, outer, _, seek) = facts("hgst-7k8");
        let model = model("hgst-7k8");
        assert_eq!(model.capacity(), Sectors(15_628_053_168));
        near(seek, 8_000, 1);
        near(outer, 255_000, 2);
        assert_eq!(model.seek(1), Duration::from_micros(600));
        // The mean rate over the disk's capacity: each part has the same weight.
        let parts = 48;
        let each = model.capacity().0 / parts;
        let slowness =
            (0..parts).map(|nth| 1_000_000_000 / sequential(&model, Lba(each * nth + each / 2)));
        let mean = parts * 1_000_000_000 / slowness.sum::<u64>();
        println!("mean rate {mean} kB/s");
        near(mean, 205_000, 5);
    }

    /// 1 MB in the outer zone takes about 120 ms, from any head position in it; three drives on
    /// separate buses read 25.3 MB/s.
    #[test]
    fn the_atlas_reads_a_megabyte_and_streams_as_was_measured() {
        let model = model("atlas-ii");
        near(model.capacity().bytes().0, 9_100_000_000, 1);
        near(3 * sequential(&model, Lba(0)), 25_300, 2);
        let outer = model.zones().next().expect("a zone").lbas;
        let (count, len) = (1_000, Sectors(1_954));
        let mut device = Device::new(Arc::clone(&model));
        let (mut now, mut rng, mut busy) = (Instant::ZERO, 1_u64, Duration::ZERO);
        for n in 0..count {
            rng =
                rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let start = outer.start + Sectors((rng >> 20) % (outer.len.0 - len.0));
            let submitted = now + Duration::from_micros((rng >> 40) % 50_000);
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
}
