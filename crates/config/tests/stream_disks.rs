//! The disks of a mirror that keep its stream: they have one copy more of each block than losses
//! are survived, and are no more; an edit chooses the ones that have time.

use std::path::{Path, PathBuf};

use spindle_config::{
    ConfigError, DiskIndex, Document, Plan, PoolVolumeEdit, StreamEdit, VolumeEdit,
};
use volume::pool::VolumeBlock;

/// A pool of `disks` disks, with these volumes.
fn text(disks: usize, volumes: &str) -> String {
    let names: Vec<String> = (0..disks).map(|disk| format!("d{disk}")).collect();
    let disk = |name: &String| format!("[[disk]]\nname = \"{name}\"\ndrive = \"hgst-7k8\"\n");
    let tables: String = names.iter().map(disk).collect();
    format!("{tables}[pool]\ndisks = {names:?}\n{volumes}")
}

fn mirror(name: &str, more: &str, stream: &str) -> String {
    format!(
        "[[pool.volume]]\nname = \"{name}\"\nsize = \"64MiB\"\nlayout = \"mirror\"\n{more}\n\
         stream = {{ bandwidth = \"4MB/s\", block = \"1MiB\"{stream} }}\n"
    )
}

fn plan(text: &str) -> Result<Plan, ConfigError> {
    Plan::parse(text, "plan.toml", Path::new(""))
}

/// All sets of `count` of the numbers from 0 to `all` - 1.
fn choices(all: usize, count: usize) -> Vec<Vec<usize>> {
    let sets =
        (0..1_usize << all).map(|bits| (0..all).filter(|one| bits >> one & 1 == 1).collect());
    sets.filter(|set: &Vec<usize>| set.len() == count).collect()
}

#[test]
fn a_stream_that_survives_a_number_of_losses_has_a_copy_of_each_block_after_any_of_them() {
    for (disks, copies) in [(2, 2), (3, 2), (4, 2), (3, 3), (4, 3), (5, 3)] {
        for survive in 0..copies {
            let volume =
                mirror("film", &format!("copies = {copies}"), &format!(", survive = {survive}"));
            let plan = plan(&text(disks, &volume)).expect("it fits");
            let pool = plan.pool.as_ref().expect("it has one");
            let there = pool.create(&plan.disks).expect("the plan was checked");
            let volume = there.flow.pool().state().named("film").expect("it was created").1;
            let planned = &pool.volumes[0];
            let keeps = |disk: usize| planned.contract(DiskIndex(disk)).stream.is_some();
            let kept = (0..disks).filter(|disk| keeps(*disk)).count();
            assert_eq!(kept, disks - (copies - 1 - survive), "{disks} disks, {copies} copies");
            for lost in choices(disks, survive) {
                let is_left = |disk: usize| keeps(disk) && !lost.contains(&disk);
                for block in (0..volume.size.0).map(VolumeBlock) {
                    let mut copies = volume.copies(block).map(|copy| copy.disk.0 as usize);
                    assert!(copies.any(is_left), "{disks} disks without {lost:?}: {block:?}");
                }
            }
        }
    }
}

#[test]
fn without_a_number_a_stream_survives_as_much_as_its_data() {
    for copies in [2, 3] {
        let volume = mirror("film", &format!("copies = {copies}"), "");
        let plan = plan(&text(3, &volume)).expect("it fits");
        let volume = &plan.pool.as_ref().expect("it has one").volumes[0];
        assert_eq!(usize::from(volume.stream.expect("it has one").survive), copies - 1);
        assert_eq!(volume.stream_disks(), [DiskIndex(0), DiskIndex(1), DiskIndex(2)]);
        assert_eq!(volume.read_disks(), None, "reads go to any disk");
    }
}

#[test]
fn while_it_is_moved_all_disks_keep_the_stream() {
    let from = "disks = [\"d0\", \"d1\"]\nfrom = { zone = \"any\", disks = [\"d2\", \"d1\"] }";
    let plan = plan(&text(3, &mirror("film", from, ", survive = 0"))).expect("it fits");
    let volume = &plan.pool.as_ref().expect("it has one").volumes[0];
    assert_eq!(volume.stream_disks(), [DiskIndex(0), DiskIndex(1), DiskIndex(2)]);
}

fn document(name: &str, text: &str) -> Document {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("a directory for tests");
    Document::read(&path).expect("a sound config")
}

fn stream(survive: Option<i64>) -> VolumeEdit {
    let (bandwidth, block) = ("4MB/s".to_owned(), "1MiB".to_owned());
    let (range, span, order, parts) = (None, None, None, None);
    let stream = StreamEdit::Put { bandwidth, block, range, span, order, parts, survive };
    VolumeEdit { stream: Some(stream), ..VolumeEdit::default() }
}

fn edit(survive: Option<i64>) -> PoolVolumeEdit {
    let volume = VolumeEdit { size: Some("64MiB".to_owned()), ..stream(survive) };
    let layout = Some("mirror".to_owned());
    PoolVolumeEdit { volume, layout, ..PoolVolumeEdit::default() }
}

/// The disks that keep the stream of the last volume.
fn keepers(document: &Document) -> Vec<DiskIndex> {
    let pool = document.plan().pool.as_ref().expect("it has one");
    pool.volumes.last().expect("there is one").stream_disks()
}

#[test]
fn new_streams_are_kept_by_the_disks_with_the_most_time_until_none_has_any() {
    let mut now = document("keepers.toml", &text(2, ""));
    let both = core::iter::successors(Some(now.clone()), |now| {
        now.create_pool_volume(&format!("b{}", now.text().len()), &edit(None)).ok()
    });
    let (both, mut counts) = (both.count() - 1, [0_usize; 2]);
    assert!(both > 0, "one fits");
    let refused = loop {
        let name = format!("film{}", counts[0] + counts[1]);
        match now.create_pool_volume(&name, &edit(Some(0))) {
            Ok(after) => {
                let [disk] = keepers(&after)[..] else { panic!("one disk: {}", after.text()) };
                counts[disk.0] += 1;
                assert!(counts[0].abs_diff(counts[1]) <= 1, "by turns: {counts:?}");
                let again = after.preview_create_pool_volume(&name, &edit(Some(0)));
                assert_eq!(again.as_ref(), Ok(after.pool_volume(&name).expect("it is there").1));
                now = after;
            }
            Err(error) => break error,
        }
    };
    assert_eq!(counts, [both, both], "each disk has as many as if it had no mirror");
    let said = refused.to_string();
    assert!(said.contains("what fits on disk \"d"), "{said}");
}

#[test]
fn a_stream_stays_on_its_disk_and_goes_to_another_if_that_does_not_admit_it() {
    let mirrors = mirror("film", "disks = [\"d1\", \"d0\"]", ", survive = 0");
    let before = document("stays.toml", &text(2, &mirrors));
    let same = before.set_pool_volume("film", &stream(Some(0))).expect("it fits");
    assert_eq!(keepers(&same), [DiskIndex(1)]);
    let busy = "[[pool.volume]]\nname = \"busy\"\nsize = \"64MiB\"\ndisks = [\"d1\"]\n\
                reserve = \"90%\"\n";
    let plain = "[[pool.volume]]\nname = \"film\"\nsize = \"64MiB\"\nlayout = \"mirror\"\n\
                 disks = [\"d1\", \"d0\"]\n";
    let before = document("goes.toml", &text(2, &format!("{busy}{plain}")));
    let after = before.set_pool_volume("film", &stream(Some(0))).expect("d0 admits it");
    assert_eq!(keepers(&after), [DiskIndex(0)], "{}", after.text());
    let both = before.set_pool_volume("film", &stream(None)).expect_err("d1 does not");
    assert!(both.to_string().contains("what fits on disk \"d1\" ("), "{both}");
    // Disks that are named keep it in their order.
    let named = Some(vec!["d1".to_owned(), "d0".to_owned()]);
    let named = PoolVolumeEdit { disks: named, ..edit(Some(0)) };
    let refused = before.create_pool_volume("clip", &named).expect_err("d1 does not");
    assert!(refused.to_string().contains("what fits on disk \"d1\" ("), "{refused}");
}
