//! Changes of a pool's part of a config: the text contains the change, and all other text stays.

use std::path::PathBuf;

use spindle_config::{
    ConfigError, DiskIndex, Document, NamedVolume, PlacementSpec, PoolVolumeEdit, StreamEdit,
    VolumeEdit,
};
use units::{Bytes, Duration, Instant, Share};
use volume::pool::{Copies, Layout, Zone};

const TEXT: &str = "\
# The cellar.
[[disk]]
name = \"d0\"
drive = \"atlas-ii\"
policy = \"edf\"

[[disk]]
name = \"d1\"
drive = \"atlas-ii\" # the quiet one
policy = \"edf\"

[[disk]]
name = \"d2\"
drive = \"atlas-ii\"
policy = \"edf\"

[[disk]]
name = \"d3\"
drive = \"atlas-ii\"

[[volume]]
name = \"own\"
disk = \"d3\"
size = \"1GiB\"

[pool] # all but d3
disks = [
    \"d0\", # on the left
    \"d1\", # on the right
]
relocation_share = \"10%\" # at night

[[pool.volume]]
name = \"films\"
size = \"2GiB\" # for now
reserve = \"30%\" # the family

# The camera at the door.
[[pool.volume]]
name = \"cam\"
size = \"1GiB\"
disks = [\"d0\"]
zone = \"fast\"
stream = { bandwidth = \"400KB/s\", block = \"1MiB\" } # not much
";

fn document(name: &str, text: &str) -> Document {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("a scratch file");
    let document = Document::read(&path).expect("a good config");
    std::fs::remove_file(&path).expect("it is there");
    document
}

/// The removed and the added lines.
fn changes(before: &str, after: &str) -> (Vec<String>, Vec<String>) {
    let not_in = |a: &str, b: &str| {
        let there: Vec<_> = b.lines().collect();
        a.lines().filter(|line| !there.contains(line)).map(str::to_owned).collect()
    };
    (not_in(before, after), not_in(after, before))
}

fn said(result: Result<Document, ConfigError>) -> String {
    let error = result.expect_err("is refused").to_string();
    error.split_once("toml").expect("a file").1.to_owned()
}

fn names(document: &Document) -> Vec<&str> {
    let pool = document.plan().pool.as_ref().expect("it has one");
    pool.volumes.iter().map(|volume| volume.name.as_str()).collect()
}

#[test]
fn a_name_is_looked_up_over_both_kinds() {
    let document = document("find.toml", TEXT);
    assert!(
        matches!(document.find("own"), Ok(NamedVolume::OnDisk(0, volume)) if volume.name == "own")
    );
    assert!(
        matches!(document.find("cam"), Ok(NamedVolume::InPool(1, volume)) if volume.name == "cam")
    );
    let missing = document.find("cat").expect_err("there is none");
    assert_eq!(missing.expected(), "one of the volumes \"own\", \"films\", \"cam\"");
    let missing = document.pool_volume("own").expect_err("it is no volume of the pool");
    assert_eq!(missing.expected(), "one of the volumes \"films\", \"cam\"");
}

#[test]
fn a_new_volume_names_the_current_disks_of_the_pool() {
    let before = document("create.toml", TEXT);
    let edit = PoolVolumeEdit {
        volume: VolumeEdit {
            size: Some("3GiB".to_owned()),
            reserve: Some("20%".to_owned()),
            weight: Some(2),
            ..VolumeEdit::default()
        },
        layout: Some("stripe".to_owned()),
        zone: Some("slow".to_owned()),
        thin: Some(true),
        checksums: Some(false),
        ..PoolVolumeEdit::default()
    };
    let after = before.create_pool_volume("music", &edit).expect("it fits");
    assert_eq!(names(&after), ["films", "cam", "music"]);
    let expected = format!(
        "{TEXT}\n[[pool.volume]]\nname = \"music\"\ndisks = [\"d0\", \"d1\"]\nlayout = \
         \"stripe\"\nzone = \"slow\"\nthin = true\nchecksums = false\n\
         size = \"3GiB\"\nreserve = \"20%\"\nweight = 2\n"
    );
    assert_eq!(after.text(), expected);
    let (_, music) = after.pool_volume("music").expect("it was made");
    assert_eq!((music.layout, music.zone, music.thin), (Layout::Stripe, Zone::Slow, true));
    assert_eq!(after.preview_create_pool_volume("music", &edit).as_ref(), Ok(music));
    let other = PoolVolumeEdit { thin: None, ..edit.clone() };
    let other = after.preview_create_pool_volume("music", &other).expect("it could be");
    assert_ne!(&other, music);
    let twice = said(after.create_pool_volume("music", &edit));
    assert!(twice.contains("expected a name of its own"), "{twice}");
}

/// Labels and the source of a clone are written with a volume; labels are replaced as a whole.
#[test]
fn a_volume_carries_its_source_and_its_labels() {
    let labels = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let before = document("labels.toml", TEXT);
    let edit = PoolVolumeEdit {
        volume: VolumeEdit {
            size: Some("2GiB".to_owned()),
            labels: Some(labels(&[("pvc", "data-0"), ("namespace", "shop = 1")])),
            ..VolumeEdit::default()
        },
        source: Some("films".to_owned()),
        ..PoolVolumeEdit::default()
    };
    let after = before.create_pool_volume("copy", &edit).expect("it fits");
    let expected = "source = \"films\"\nlabels = [\"namespace=shop = 1\", \"pvc=data-0\"]\n\
                    size = \"2GiB\"\n";
    assert!(after.text().ends_with(expected), "{}", after.text());
    let (_, copy) = after.pool_volume("copy").expect("it was made");
    assert_eq!(copy.source.as_deref(), Some("films"));
    assert_eq!(copy.labels, labels(&[("namespace", "shop = 1"), ("pvc", "data-0")]));
    let set = |pairs: &[(&str, &str)]| {
        let edit = VolumeEdit { labels: Some(labels(pairs)), ..VolumeEdit::default() };
        after.set_pool_volume("copy", &edit)
    };
    let other = set(&[("pvc", "")]).expect("it is possible");
    assert!(other.text().contains("labels = [\"pvc=\"]\n"), "{}", other.text());
    assert!(!set(&[]).expect("it is possible").text().contains("labels"));
    for bad in ["", "Pvc", "9a", "a-b", "disk", "device", &"x".repeat(64)] {
        let error = said(set(&[(bad, "x")]));
        assert!(error.contains("expected NAME=VALUE"), "{bad}: {error}");
    }
    assert!(said(set(&[("pvc", "two\nlines")])).contains("expected NAME=VALUE"));
    let many: Vec<String> = (0..17).map(|n| format!("n{n}")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "")).collect();
    assert!(said(set(&many)).contains("a list of at most 16"));
}

#[test]
fn the_first_volume_of_a_pool_and_the_first_disk_of_one() {
    let disks = TEXT.split("\n[pool]").next().expect("it has one");
    let before = document("first.toml", disks);
    let edit = PoolVolumeEdit {
        volume: VolumeEdit { size: Some("1GiB".to_owned()), ..VolumeEdit::default() },
        ..PoolVolumeEdit::default()
    };
    let none = said(before.create_pool_volume("v", &edit));
    assert_eq!(none, ": field `pool`: found nothing, expected a table `[pool]`, and there is none");
    let pool = before.add_pool_disk("d1").expect("it is free");
    assert_eq!(pool.text(), format!("{disks}\n[pool]\ndisks = [\"d1\"]\n"));
    let volume = pool.create_pool_volume("v", &edit).expect("it fits");
    assert_eq!(
        volume.text(),
        format!(
            "{disks}\n[pool]\ndisks = [\"d1\"]\n\n[[pool.volume]]\nname = \"v\"\ndisks = \
             [\"d1\"]\nsize = \"1GiB\"\n"
        )
    );
    assert!(said(volume.add_pool_disk("d3")).contains("expected a disk that is not the pool's"));
}

#[test]
fn a_contract_and_a_size_change_in_place() {
    let before = document("set.toml", TEXT);
    let edit = VolumeEdit {
        size: Some("4GiB".to_owned()),
        reserve: Some("40%".to_owned()),
        ..VolumeEdit::default()
    };
    let after = before.set_pool_volume("films", &edit).expect("it fits");
    let (gone, came) = changes(TEXT, after.text());
    assert_eq!(gone, ["size = \"2GiB\" # for now", "reserve = \"30%\" # the family"]);
    assert_eq!(came, ["size = \"4GiB\" # for now", "reserve = \"40%\" # the family"]);
    let (_, films) = after.pool_volume("films").expect("it is there");
    assert_eq!(films.size, Bytes(4 << 30));
    assert!(films.parts.iter().all(|part| part.contract.reserve == Share::from_percent(40)));

    let much = VolumeEdit { reserve: Some("90%".to_owned()), ..VolumeEdit::default() };
    let error = before.set_pool_volume("films", &much).expect_err("it does not fit");
    assert!(error.is_refusal());
    assert!(
        error.to_string().ends_with("expected at most 89% (what is left of disk \"d0\")"),
        "{error}"
    );
    assert_eq!(before.text(), TEXT);
}

#[test]
fn a_stream_is_added_and_removed() {
    let before = document("stream.toml", TEXT);
    let none = VolumeEdit { stream: Some(StreamEdit::Drop), ..VolumeEdit::default() };
    let none = before.set_pool_volume("cam", &none).expect("nothing fits always");
    assert_eq!(none.pool_volume("cam").expect("it is there").1.stream, None);
    let put = |range: Option<&str>| StreamEdit::Put {
        bandwidth: "200KB/s".to_owned(),
        block: "512KiB".to_owned(),
        range: range.map(str::to_owned),
        span: Some(["0s".to_owned(), "1h".to_owned()]),
        order: None,
        parts: None,
        survive: None,
    };
    let edit = VolumeEdit { stream: Some(put(None)), ..VolumeEdit::default() };
    let again = none.set_pool_volume("cam", &edit).expect("it fits");
    let (index, cam) = again.pool_volume("cam").expect("it is there");
    assert_eq!(cam.stream.expect("it has one").requested.block, Bytes(512 << 10));
    let hours = |hours: u64| Instant::ZERO + Duration::from_secs(3_600 * hours);
    assert_eq!(again.reject_expired_pool_span(index, hours(0)), Ok(()));
    assert_eq!(
        again.reject_expired_pool_span(index, hours(1)).expect_err("it is over").expected(),
        "a span that ends after 3600s (now)"
    );
    let StreamEdit::Put { bandwidth, block, range, span, .. } = put(None) else { panic!("it is") };
    let (order, parts, survive) = (Some("sequential".to_owned()), None, None);
    let stream = Some(StreamEdit::Put { bandwidth, block, range, span, order, parts, survive });
    let (size, layout) = (Some("1GiB".to_owned()), Some("stripe".to_owned()));
    let edit = VolumeEdit { size, stream, ..VolumeEdit::default() };
    let stripe = PoolVolumeEdit { volume: edit.clone(), layout, ..PoolVolumeEdit::default() };
    let film = none.create_pool_volume("film", &stripe).expect("it fits");
    assert!(film.pool_volume("film").expect("it is there").1.is_sequential(), "{}", film.text());
    assert!(said(none.set_pool_volume("cam", &edit)).contains("a stripe"), "it is on one disk");
    let range = VolumeEdit { stream: Some(put(Some("0GiB..1GiB"))), ..VolumeEdit::default() };
    assert!(said(none.set_pool_volume("cam", &range)).contains("expected no range"));
}

#[test]
fn a_volume_is_removed_with_its_table() {
    let before = document("delete.toml", TEXT);
    let after = before.delete_pool_volume("cam").expect("it is there");
    assert_eq!(names(&after), ["films"]);
    let at = TEXT.find("\n# The camera").expect("it is there");
    assert_eq!(after.text(), &TEXT[..at]);
    assert!(
        said(after.delete_pool_volume("cam")).contains("expected one of the volumes \"films\"")
    );
}

#[test]
fn a_removal_is_in_the_config_until_it_ends_or_the_name_is_used_again() {
    let bare = document("begin.toml", TEXT).delete_pool_volume("cam").expect("it is there");
    let begun = bare.begin_removal("cam").expect("it does not have it");
    let two = begun.begin_removal("old").expect("it does not have it");
    assert_eq!(two.removing(), ["cam", "old"]);
    let lines = vec!["removing = [\"cam\", \"old\"]".to_owned()];
    assert_eq!(changes(bare.text(), two.text()), (vec![], lines));
    assert_eq!(begun.begin_removal("cam").expect("twice is as good as once").removing(), ["cam"]);

    let one = two.end_removal("cam").expect("it has a pool");
    assert_eq!(one.removing(), ["old"]);
    assert_eq!(one.end_removal("old").expect("it has a pool").text(), bare.text());
    assert_eq!(bare.end_removal("old").expect("it has a pool").text(), bare.text());
    let edit = VolumeEdit { size: Some("64MiB".to_owned()), ..VolumeEdit::default() };
    let edit = PoolVolumeEdit { volume: edit, ..PoolVolumeEdit::default() };
    let again = one.create_pool_volume("old", &edit).expect("the name is free");
    assert_eq!((names(&again), again.removing()), (vec!["films", "old"], &[][..]));
    let error = said(bare.begin_removal("films"));
    assert!(error.contains("expected the name of a volume that the config has no more"), "{error}");
}

#[test]
fn an_added_disk_does_not_change_existing_volumes() {
    let before = document("add.toml", TEXT);
    let after = before.add_pool_disk("d2").expect("it is free");
    let pool = after.plan().pool.as_ref().expect("it has one");
    assert_eq!(pool.disks, [0, 1, 2].map(DiskIndex));
    assert_eq!(pool.volumes[0].disks, [0, 1].map(DiskIndex));
    for kept in
        ["\"d0\", # on the left", "\"d1\", # on the right", "relocation_share = \"10%\" # at night"]
    {
        assert!(after.text().contains(kept), "{}", after.text());
    }
    assert!(said(after.add_pool_disk("d2")).contains("expected each disk once"));
    assert!(said(before.add_pool_disk("d3")).contains("expected a disk that is not the pool's"));
    assert!(said(before.add_pool_disk("d9")).contains("expected one of the disks \"d0\""));
}

#[test]
fn a_removed_disk_takes_its_own_comment_along() {
    let after = document("remove.toml", TEXT).add_pool_disk("d2").expect("it is free");
    let error = said(after.remove_pool_disk("d1"));
    assert_eq!(
        error,
        ": [pool]: field `disks`: found `d1`, expected a disk that no volume lies on; \"films\" \
         does"
    );
    let back = after.remove_pool_disk("d2").expect("nothing lies on it");
    let (gone, came) = changes(TEXT, back.text());
    assert_eq!((gone, came), (Vec::<String>::new(), vec!["disks = [\"d0\", \"d1\"]".to_owned()]));

    let bare = after.delete_pool_volume("films").expect("it is there");
    let bare = bare.remove_pool_disk("d1").expect("nothing lies on it any more");
    assert!(bare.text().contains("\"d0\", # on the left"), "{}", bare.text());
    assert!(!bare.text().contains("on the right"), "{}", bare.text());
    let one = bare.delete_pool_volume("cam").expect("it is there").remove_pool_disk("d0");
    let one = one.expect("nothing lies on it");
    assert!(one.text().contains("\"d2\""), "{}", one.text());
    assert!(!one.text().contains("on the left"), "{}", one.text());
    assert!(said(one.remove_pool_disk("d2")).contains("expected at least one disk"));
    assert!(said(one.remove_pool_disk("d0")).contains("expected one of the pool disks \"d2\""));
}

#[test]
fn a_replaced_disk_gives_its_place_to_another_in_every_list() {
    let before = document("replace.toml", TEXT);
    let after = before.replace_pool_disk("d0", "d2").expect("it is free");
    let pool = after.plan().pool.as_ref().expect("it has one");
    assert_eq!(pool.disks, [2, 1].map(DiskIndex));
    assert_eq!(pool.volumes[0].disks, [2, 1].map(DiskIndex));
    assert_eq!(pool.volumes[1].disks, [DiskIndex(2)]);
    assert!(after.text().contains("\"d2\", # on the left"), "{}", after.text());
    // The same again changes nothing, as after a crash between the config and the pool.
    assert_eq!(after.replace_pool_disk("d0", "d2").expect("it is there").text(), after.text());
    let said = |old, new| said(before.replace_pool_disk(old, new));
    assert!(said("d0", "d1").contains("expected a disk that is none of the pool's"));
    assert!(said("d0", "d3").contains("expected a disk that is not the pool's"));
    assert!(said("d0", "d9").contains("expected one of the disks \"d0\""));
}

#[test]
fn a_spare_that_joins_the_pool_is_one_no_more() {
    let spare = TEXT.replace("name = \"d2\"\n", "name = \"d2\"\nspare = true\n");
    let before = document("spare.toml", &spare);
    assert!(before.plan().disks[2].spare);
    let replaced = before.replace_pool_disk("d0", "d2").expect("it fits");
    let added = before.add_pool_disk("d2").expect("it is free");
    for after in [replaced, added] {
        assert!(!after.plan().disks[2].spare);
        assert_eq!(
            changes(&spare, after.text()).0.first().map(String::as_str),
            Some("spare = true")
        );
    }
}

#[test]
fn a_mirror_is_written_with_its_number_of_copies() {
    let edit = PoolVolumeEdit {
        volume: VolumeEdit { size: Some("1GiB".to_owned()), ..VolumeEdit::default() },
        layout: Some("mirror".to_owned()),
        copies: Some(2),
        ..PoolVolumeEdit::default()
    };
    let after = document("mirror.toml", TEXT).create_pool_volume("vm", &edit).expect("it fits");
    let (_, volume) = after.pool_volume("vm").expect("it was created");
    assert_eq!(volume.layout, Layout::Mirror(Copies::DEFAULT));
    assert!(after.text().contains("layout = \"mirror\"\ncopies = 2\n"), "{}", after.text());
}

#[test]
fn a_list_of_disks_keeps_its_form() {
    let lists = [
        ("[\"d0\", \"d1\"]", "[\"d0\", \"d1\", \"d2\"]"),
        ("[ \"d0\", \"d1\" ]", "[ \"d0\", \"d1\", \"d2\" ]"),
        ("[\n  \"d0\",\n  \"d1\" # last\n]", "[\n  \"d0\",\n  \"d1\", # last\n  \"d2\"\n]"),
        (
            "[\n  \"d0\",\n  # below\n  \"d1\",\n]",
            "[\n  \"d0\",\n  # below\n  \"d1\",\n  \"d2\",\n]",
        ),
    ];
    let own = &TEXT[TEXT.find("[\n    \"d0\"").expect("a list")
        ..TEXT.find("relocation_share").expect("it is behind")];
    for (number, (before, after)) in lists.into_iter().enumerate() {
        let text = TEXT.replace(own, &format!("{before}\n"));
        let before = document(&format!("list{number}.toml"), &text);
        let more = before.add_pool_disk("d2").expect("it is free");
        assert!(more.text().contains(&format!("disks = {after}\n")), "{}", more.text());
        let back = more.remove_pool_disk("d2").expect("nothing lies on it");
        let commas = |text: &str| text.replace(", # last", " # last");
        let (gone, _) = changes(&commas(&text), &commas(back.text()));
        assert_eq!(gone, Vec::<String>::new(), "{}", back.text());
    }
}

#[test]
fn a_volume_in_relocation_has_its_contract_at_both_placements() {
    let before = document("settle.toml", TEXT);
    let there = ["d1".to_owned()];
    let (during, after) = before.relocate_pool_volume("cam", Zone::Slow, &there).expect("it fits");
    let (_, moving) = during.pool_volume("cam").expect("it is there");
    let (_, moved) = after.pool_volume("cam").expect("it is there");
    let from = PlacementSpec { zone: Zone::Fast, disks: vec![DiskIndex(0)] };
    assert_eq!((moving.zone, &moving.from), (Zone::Slow, &Some(from)));
    assert_eq!(moving.parts.iter().map(|part| part.disk.0).collect::<Vec<_>>(), [1, 0]);
    assert_eq!((moved.zone, &moved.from, moved.parts.len()), (Zone::Slow, &None, 1));
    assert_eq!(during.relocated_pool_volume("cam").expect("it is there").text(), after.text());
    let (gone, came) = changes(TEXT, after.text());
    assert_eq!(gone, ["disks = [\"d0\"]", "zone = \"fast\""]);
    assert_eq!(came, ["disks = [\"d1\"]", "zone = \"slow\""]);

    // The relocation can be reversed, and not redirected.
    let (back, _) =
        during.relocate_pool_volume("cam", Zone::Fast, &["d0".to_owned()]).expect("back");
    assert_eq!(back.pool_volume("cam").expect("it is there").1.zone, Zone::Fast);
    let third = during.relocate_pool_volume("cam", Zone::Any, &there).expect_err("a third place");
    assert_eq!(
        third.expected(),
        "no third place while it is moved from zone \"fast\" of \"d0\": wait, or send it back there"
    );
}

#[test]
fn a_volume_is_not_relocated_where_it_does_not_fit() {
    let full =
        TEXT.replace("reserve = \"30%\" # the family", "reserve = \"80%\"\ndisks = [\"d1\"]");
    let before = document("full.toml", &full);
    let error = before.relocate_pool_volume("cam", Zone::Fast, &["d1".to_owned()]);
    let error = error.expect_err("there is no room");
    assert!(error.is_refusal(), "{error}");
    let unfit = error.admission_failure().expect("it says why");
    assert!(unfit.to_string().contains(": short by "), "{unfit}");
    before.relocate_pool_volume("cam", Zone::Slow, &["d0".to_owned()]).expect("there is room here");
}
