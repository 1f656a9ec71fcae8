//! Invalid pools, and volumes of pools that do not fit.

use super::{error, refused};

const DISKS: &str = "[[disk]]\nname = \"d0\"\ndrive = \"atlas-ii\"\n[[disk]]\nname = \
     \"d1\"\ndrive = \"atlas-ii\"\n\
                     [[disk]]\nname = \"d2\"\ndrive = \"atlas-ii\"\n";
const POOL: &str = "[pool]\ndisks = [\"d0\", \"d1\"]\n";
const VOLUME: &str = "[[pool.volume]]\nname = \"v\"\nsize = \"1GiB\"\n";

/// The message about a pool with these lines, which follow its header.
fn pool(lines: &str) -> String {
    refused(&[DISKS, "[pool]\n"], lines)
}

/// The message about a volume with these lines, in a pool of two disks.
fn volume(lines: &str) -> String {
    refused(&[DISKS, POOL, "[[pool.volume]]\nname = \"v\"\n"], lines)
}

/// The message about a volume with a size and these lines, under this policy.
fn under(policy: &str, lines: &str) -> String {
    let policy = format!("drive = \"atlas-ii\"\npolicy = \"{policy}\"");
    let disks = DISKS.replace("drive = \"atlas-ii\"", &policy);
    refused(&[&disks, POOL, VOLUME], lines)
}

#[test]
fn without_disks() {
    assert_eq!(
        refused(&[DISKS], "[pool]\nmetadata = \"1%\"\n"),
        "plan.toml:1: [pool]: field `disks`: found nothing, expected the names of disks such as \
         [\"d0\", \"d1\"]"
    );
    assert_eq!(
        pool("disks = []\n"),
        "plan.toml:1: [pool]: field `disks`: found `[]`, expected at least one disk, the names \
         of disks such as [\"d0\", \"d1\"]"
    );
}

#[test]
fn of_disks_that_do_not_exist() {
    assert_eq!(
        pool("disks = [\"d0\", \"d9\"]\n"),
        "plan.toml:1: [pool]: field `disks`: found `d9`, expected one of the disks \"d0\", \
         \"d1\", \"d2\""
    );
    assert_eq!(
        volume("size = \"1GiB\"\ndisks = [\"d2\"]\n"),
        "plan.toml:2: [[pool.volume]] \"v\": field `disks`: found `d2`, expected one of the pool \
         disks \"d0\", \"d1\""
    );
}

#[test]
fn with_a_mirror_of_too_few_disks_or_copies() {
    let said = |lines: &str| volume(&format!("size = \"1GiB\"\n{lines}"));
    assert_eq!(
        said("layout = \"mirror\"\ncopies = 3\n"),
        "plan.toml:2: [[pool.volume]] \"v\": field `layout`: found `mirror`, expected at least 3 \
         disks for a mirror of 3 copies"
    );
    assert_eq!(
        said("layout = \"mirror\"\ncopies = 1\n"),
        "plan.toml:3: [[pool.volume]] \"v\": field `copies`: found `1`, expected a whole number \
         from 2 to 3"
    );
    assert_eq!(
        said("copies = 2\n"),
        "plan.toml:2: [[pool.volume]] \"v\": field `copies`: found `2`, expected no `copies` \
         without `layout = \"mirror\"`"
    );
    assert_eq!(
        said("layout = \"mirror\"\nfrom = { zone = \"any\", disks = [\"d0\"] }\n"),
        "plan.toml:3: [[pool.volume]] \"v\": from: field `disks`: found `[\"d0\"]`, expected 2 \
         disks: a mirror moves to as many as it has"
    );
}

#[test]
fn with_a_disk_twice() {
    assert_eq!(
        pool("disks = [\"d0\", \"d1\", \"d0\"]\n"),
        "plan.toml:1: [pool]: field `disks`: found `d0`, expected each disk once"
    );
    assert_eq!(
        volume("size = \"1GiB\"\ndisks = [\"d1\", \"d1\"]\n"),
        "plan.toml:2: [[pool.volume]] \"v\": field `disks`: found `d1`, expected each disk once"
    );
}

#[test]
fn twice() {
    assert!(error(&format!("{DISKS}{POOL}{POOL}")).expected().starts_with("TOML: "));
    assert_eq!(
        refused(&[DISKS], "[[pool]]\ndisks = [\"d0\"]\n"),
        "plan.toml:1: field `pool`: found `[[pool]]`, expected a table `[pool]`"
    );
}

#[test]
fn with_an_unknown_key() {
    assert_eq!(
        pool("disk = \"d0\"\n"),
        "plan.toml:1: [pool]: field `disk`: found `disk`, expected one of the keys `disks`, \
         `metadata_share`, `relocation_share`, `rebuild`, `scrub`, `spare_after`, `slow_after`, \
         `removing`, `volume`"
    );
    assert_eq!(
        volume("disk = \"d0\"\n"),
        "plan.toml:1: [[pool.volume]] \"v\": field `disk`: found `disk`, expected one of the \
         keys `name`, `clients`, \
         `size`, `disks`, `layout`, `copies`, `zone`, `thin`, `checksums`, `from`, `source`, \
         `iops`, \
         `bandwidth`, `run`, `block`, \
         `reserve`, `limit`, `weight`, \
         `priority`, `stream`, `latency`, `write_buffer`, `labels`, `ublk`"
    );
    assert_eq!(
        refused(&[DISKS, POOL], "[pool.volume]\nname = \"v\"\n"),
        "plan.toml:1: [pool]: field `volume`: found `[pool.volume]`, expected tables \
         `[[pool.volume]]`, with two brackets"
    );
}

#[test]
fn with_a_removal_of_a_volume_that_it_has() {
    assert_eq!(
        refused(&[DISKS, POOL], &format!("removing = [\"u\", \"v\"]\n{VOLUME}")),
        "plan.toml:1: [pool]: field `removing`: found `v`, expected the name of a volume that \
         the config has no more"
    );
}

#[test]
fn without_shares_for_metadata_and_relocation() {
    for key in ["metadata_share", "relocation_share"] {
        assert_eq!(
            pool(&format!("disks = [\"d0\"]\n{key} = \"0%\"\n")),
            format!("plan.toml:2: [pool]: field `{key}`: found `0%`, expected a share above 0%")
        );
    }
}

#[test]
fn with_a_spare_that_is_in_use_or_has_no_pool_to_serve() {
    let spare = DISKS.replacen("name = \"d0\"\n", "name = \"d0\"\nspare = true\n", 1);
    assert_ne!(spare, DISKS, "it has a spare");
    let volume = "[[volume]]\nname = \"u\"\ndisk = \"d0\"\n";
    assert_eq!(
        refused(&[&spare], POOL),
        "plan.toml:2: [pool]: field `disks`: found `d0`, expected a disk that is no spare"
    );
    assert_eq!(
        refused(&[&spare, "[pool]\ndisks = [\"d1\"]\n"], volume),
        "plan.toml:3: [[volume]] \"u\": field `disk`: found `d0`, expected a disk that is no \
         spare: one that takes a pool disk's place"
    );
    let lonely = "[[disk]]\nname = \"d0\"\ndrive = \"hgst-7k8\"\nspare = true\n";
    assert_eq!(
        refused(&[], lonely),
        "plan.toml:4: [[disk]] \"d0\": field `spare`: found `true`, expected `false`: there is no \
         table `[pool]`"
    );
    assert!(pool("disks = [\"d0\"]\nspare_after = \"8d\"\n").contains("field `spare_after`"));
    assert!(pool("disks = [\"d0\"]\nslow_after = \"0s\"\n").contains("field `slow_after`"));
}

#[test]
fn with_a_rebuild_or_a_scrub_without_a_floor_or_that_does_not_fit() {
    let rebuild = |fields: &str| pool(&format!("disks = [\"d0\"]\nrebuild = {{ {fields} }}\n"));
    assert_eq!(
        rebuild("reserve = \"0%\""),
        "plan.toml:2: [pool]: rebuild: field `reserve`: found `0%`, expected a share above 0%"
    );
    assert_eq!(
        rebuild("reserve = \"20%\", limit = \"10%\""),
        "plan.toml:2: [pool]: rebuild: field `limit`: found `10%`, expected at least 20%, the \
         reserve"
    );
    assert!(rebuild("reserve = \"95%\"").contains("field `rebuild`"), "what is left is named");
    let scrub = |fields: &str| pool(&format!("disks = [\"d0\"]\nscrub = {{ {fields} }}\n"));
    assert_eq!(
        scrub("reserve = \"0%\""),
        "plan.toml:2: [pool]: scrub: field `reserve`: found `0%`, expected a share above 0%"
    );
    assert!(scrub("reserve = \"95%\"").contains("field `scrub`"), "what is left is named");
}

#[test]
fn whose_own_reserves_do_not_fit_on_a_disk() {
    let full = DISKS.replacen(
        "atlas-ii\"\n[[disk]]\nname = \"d1\"",
        "atlas-ii\"\nunreserved = \"97%\"\n[[disk]]\nname = \"d1\"",
        1,
    );
    let said =
        error(&format!("{full}[pool]\ndisks = [\"d1\", \"d0\"]\nrelocation_share = \"4%\"\n"));
    assert!(said.is_refusal());
    assert_eq!(
        said.to_string(),
        "plan.toml:13: [pool]: field `relocation_share`: found `4%`, expected at most 2% (what \
         is left of disk \"d0\")"
    );
    let said = error(&format!("{full}[pool]\ndisks = [\"d0\"]\n"));
    assert_eq!(
        (said.line(), said.field(), said.found()),
        (Some(11), Some("relocation_share"), None)
    );
}

#[test]
fn of_disks_that_have_volumes_of_their_own() {
    let before = [DISKS, "[pool]\ndisks = [\"d1\"]\n[[volume]]\nname = \"v\"\n"];
    assert_eq!(
        refused(&before, "disk = \"d1\"\nsize = \"1GiB\"\n"),
        "plan.toml:1: [[volume]] \"v\": field `disk`: found `d1`, expected a disk that is not \
         the pool's: those have \
         `[[pool.volume]]`s"
    );
}

#[test]
fn with_a_volume_of_a_name_that_another_has() {
    let own = "[[volume]]\nname = \"films\"\ndisk = \"d2\"\nsize = \"1GiB\"\n";
    assert_eq!(
        refused(&[DISKS, own, POOL], "[[pool.volume]]\nname = \"films\"\nsize = \"1GiB\"\n"),
        "plan.toml:2: [[pool.volume]] \"films\": field `name`: found `films`, expected a name of \
         its own (line 11 has this \
         one already)"
    );
    assert_eq!(
        refused(&[DISKS, POOL, VOLUME], "[[pool.volume]]\nname = \"v\"\nsize = \"1GiB\"\n"),
        "plan.toml:2: [[pool.volume]] \"v\": field `name`: found `v`, expected a name of its own \
         (line 13 has this one already)"
    );
}

#[test]
fn with_a_volume_of_no_size() {
    assert_eq!(
        refused(&[DISKS, POOL], "[[pool.volume]]\nname = \"v\"\n"),
        "plan.toml:1: [[pool.volume]] \"v\": field `size`: found nothing, expected a size such \
         as 20GiB"
    );
}

#[test]
fn with_a_volume_of_half_a_block() {
    assert_eq!(
        volume("size = \"1536KiB\"\n"),
        "plan.toml:1: [[pool.volume]] \"v\": field `size`: found `1536KiB`, expected a multiple \
         of 1MiB (the blocks of a pool)"
    );
}

#[test]
fn with_a_volume_larger_than_its_disks() {
    let most = |lines: &str| {
        let said = volume(&format!("size = \"1TiB\"\n{lines}"));
        let (_, most) = said.split_once("at most ").expect("it says what could be");
        most.strip_suffix(" (what its disks can hold)").expect("and why").to_owned()
    };
    // The drive has 9,100 MB. Half of it is fast, and slightly more with the largest metadata.
    assert_eq!(most(""), "17340MiB");
    assert_eq!(most("layout = \"stripe\"\n"), "17340MiB");
    assert_eq!(most("disks = [\"d1\"]\n"), "8670MiB");
    assert_eq!(most("disks = [\"d1\"]\nzone = \"fast\"\n"), "4423MiB");
}

#[test]
fn with_a_stripe_over_one_disk() {
    assert_eq!(
        volume("size = \"1GiB\"\nlayout = \"stripe\"\ndisks = [\"d1\"]\n"),
        "plan.toml:3: [[pool.volume]] \"v\": field `disks`: found `[\"d1\"]`, expected at least \
         two disks for a stripe"
    );
    assert_eq!(
        refused(&[DISKS, "[pool]\ndisks = [\"d1\"]\n", VOLUME], "layout = \"stripe\"\n"),
        "plan.toml:1: [[pool.volume]] \"v\": field `layout`: found `stripe`, expected at least \
         two disks for a stripe"
    );
}

#[test]
fn with_unknown_words() {
    assert_eq!(
        volume("size = \"1GiB\"\nlayout = \"parity\"\n"),
        "plan.toml:2: [[pool.volume]] \"v\": field `layout`: found `parity`, expected one of \
         \"single\", \"stripe\", \"random\", \"mirror\""
    );
    assert_eq!(
        volume("size = \"1GiB\"\nzone = \"outer\"\n"),
        "plan.toml:2: [[pool.volume]] \"v\": field `zone`: found `outer`, expected \
         \"fast\", \"slow\", \"any\", or \"fastest 1%\" to \"fastest 99%\""
    );
    assert_eq!(
        volume("size = \"1GiB\"\nthin = \"yes\"\n"),
        "plan.toml:2: [[pool.volume]] \"v\": field `thin`: found `yes`, expected true or false, \
         without quotes"
    );
}

#[test]
fn with_a_stripe_that_moves_to_fewer_disks() {
    assert_eq!(
        volume(
            "size = \"1GiB\"\nlayout = \"stripe\"\nfrom = { zone = \"any\", disks = [\"d0\"] }\n"
        ),
        "plan.toml:3: [[pool.volume]] \"v\": from: field `disks`: found `[\"d0\"]`, expected 2 \
         disks: a stripe moves to as many \
         as it has"
    );
    assert_eq!(
        volume("size = \"1GiB\"\nfrom = { disks = [\"d0\"] }\n"),
        "plan.toml:2: [[pool.volume]] \"v\": from: field `zone`: found nothing, expected \
         \"fast\", \"slow\", \"any\", or \"fastest 1%\" to \"fastest 99%\""
    );
}

#[test]
fn with_a_reserve_that_does_not_fit_on_one_of_its_disks() {
    let other =
        "[[pool.volume]]\nname = \"w\"\nsize = \"1GiB\"\ndisks = [\"d1\"]\nreserve = \"30%\"\n";
    let before = [DISKS, POOL, other, VOLUME];
    // 1 % for the metadata, 5 % for moving blocks.
    assert_eq!(
        refused(&before, "reserve = \"65%\"\n"),
        "plan.toml:1: [[pool.volume]] \"v\": field `reserve`: found `65%`, expected at most 64% \
         (what is left of disk \"d1\")"
    );
    let all = [DISKS, POOL, other, VOLUME, "reserve = \"64%\"\n"].concat();
    spindle_config::Plan::parse(&all, "plan.toml", std::path::Path::new("")).expect("it fits");
}

#[test]
fn with_a_relocated_volume_that_does_not_fit_at_its_old_placement() {
    let other =
        "[[pool.volume]]\nname = \"w\"\nsize = \"1GiB\"\ndisks = [\"d1\"]\nreserve = \"80%\"\n";
    let before = [DISKS, POOL, other, VOLUME, "disks = [\"d0\"]\n"];
    assert_eq!(
        refused(&before, "reserve = \"20%\"\nfrom = { zone = \"any\", disks = [\"d1\"] }\n"),
        "plan.toml:1: [[pool.volume]] \"v\": field `reserve`: found `20%`, expected at most 14% \
         (what is left of disk \"d1\")"
    );
}

#[test]
fn with_a_limit_where_requests_are_served_by_deadline() {
    assert_eq!(
        under("edf", "limit = \"50%\"\n"),
        "plan.toml:1: [[pool.volume]] \"v\": field `limit`: found `50%`, expected no `limit` \
         on disk \"d0\": its policy \"edf\" keeps none (\"throughput\", \"utilization\", \
         \"spindle\" do)"
    );
}

#[test]
fn with_an_invalid_stream() {
    let stream = "stream = { bandwidth = \"400KB/s\", block = \"1MiB\" }";
    assert_eq!(
        under("utilization", &format!("{stream}\n")),
        "plan.toml:1: [[pool.volume]] \"v\": field `stream`: found `{ bandwidth = \"400KB/s\", \
         block = \"1MiB\" }`, expected a disk \
         whose policy keeps streams (\"edf\", \"lst\", \"delta-l\", \"delta-star\", \
         \"spindle\"): disk \"d0\" has \"utilization\""
    );
    for (lines, said) in [
        (
            format!("{stream}\nthin = true\n"),
            "plan.toml:2: [[pool.volume]] \"v\": field `thin`: found `true`, expected false \
             beside a stream: it keeps no time for placing blocks",
        ),
        (
            format!("{stream}\nreserve = \"10%\"\n"),
            "plan.toml:2: [[pool.volume]] \"v\": field `reserve`: found `10%`, expected no \
             reserve beside a stream under policy \"delta-star\": policy \"spindle\" keeps both",
        ),
        (
            stream.replace(" }", ", range = \"0B..1GiB\" }\n"),
            "plan.toml:1: [[pool.volume]] \"v\": stream: field `range`: found `0B..1GiB`, \
             expected no range: blocks of a pool's \
             volume lie anywhere in its zone",
        ),
        (
            stream.replace("400KB/s", "1B/s") + "\n",
            "plan.toml:1: [[pool.volume]] \"v\": stream: field `bandwidth`: found `1B/s`, \
             expected at least 13B/s (a block of 1MiB \
             every 86400s)",
        ),
    ] {
        assert_eq!(under("delta-star", &lines), said);
    }
    let small =
        VOLUME.replace("1GiB", "1MiB") + "stream = { bandwidth = \"400KB/s\", block = \"2MiB\" }\n";
    let edf = DISKS.replace("drive = \"atlas-ii\"", "drive = \"atlas-ii\"\npolicy = \"edf\"");
    assert_eq!(
        error(&format!("{edf}{POOL}{small}")).to_string(),
        "plan.toml:18: [[pool.volume]] \"v\": stream: field `block`: found `2MiB`, expected at \
         most 1MiB (the size of the volume)"
    );
}

#[test]
fn with_a_stream_in_an_order_that_its_layout_gains_nothing_from() {
    let stream = |order: &str| {
        format!("stream = {{ bandwidth = \"400KB/s\", block = \"1MiB\", order = \"{order}\" }}\n")
    };
    let lines = format!("layout = \"single\"\n{}", stream("sequential"));
    assert_eq!(
        under("spindle", &lines),
        "plan.toml:2: [[pool.volume]] \"v\": stream: field `order`: found `sequential`, expected \
         \"any\", a stripe, or `parts` beside it: each disk of layout \"single\" may get every \
         block"
    );
    for layout in ["random", "mirror"] {
        let lines = format!("layout = \"{layout}\"\n{}", stream("sequential"));
        assert_eq!(
            under("spindle", &lines),
            format!(
                "plan.toml:2: [[pool.volume]] \"v\": stream: field `order`: found `sequential`, \
                 expected \"any\", or a stripe: each disk of layout \"{layout}\" may get every \
                 block"
            )
        );
    }
    let said = under("spindle", &format!("layout = \"stripe\"\n{}", stream("in order")));
    assert!(said.ends_with("found `in order`, expected one of \"any\", \"sequential\""), "{said}");
    let seldom = stream("sequential").replace("400KB/s", "24B/s");
    let said = under("spindle", &format!("layout = \"stripe\"\n{seldom}"));
    assert!(said.ends_with("expected at least 25B/s (a block of 2MiB every 86400s)"), "{said}");
}

#[test]
fn with_a_stream_that_survives_more_disks_than_its_data() {
    let stream = |survive: &str| {
        format!("stream = {{ bandwidth = \"400KB/s\", block = \"1MiB\", survive = {survive} }}\n")
    };
    for layout in ["single", "stripe", "random"] {
        assert_eq!(
            under("spindle", &format!("layout = \"{layout}\"\n{}", stream("0"))),
            format!(
                "plan.toml:2: [[pool.volume]] \"v\": stream: field `survive`: found `0`, expected \
                 no `survive`, or layout \"mirror\": layout \"{layout}\" has one copy of each block"
            )
        );
    }
    assert_eq!(
        under("spindle", &format!("layout = \"mirror\"\n{}", stream("2"))),
        "plan.toml:2: [[pool.volume]] \"v\": stream: field `survive`: found `2`, expected a whole \
         number from 0 to 1 (one less than its copies)"
    );
}

#[test]
fn with_a_stream_that_does_not_fit_on_one_of_its_disks() {
    let said = under("edf", "stream = { bandwidth = \"20MB/s\", block = \"1MiB\" }\n");
    let (before, after) = said.split_once("299.").map_or((said.as_str(), ""), |both| both);
    assert!(before.contains("expected what fits on disk \"d0\" ("), "{said}");
    assert!(said.contains("/s would fit)"), "{said} {after}");
}

#[test]
fn with_reserves_of_its_own_that_block_a_stream() {
    // A metadata reserve of 300 ms per second blocks a stream with 20 ms per block.
    let edf = DISKS.replace("drive = \"atlas-ii\"", "drive = \"atlas-ii\"\npolicy = \"edf\"");
    let before = [&edf, "[pool]\ndisks = [\"d0\"]\nmetadata = \"30%\"\n", VOLUME];
    let said = refused(&before, "stream = { bandwidth = \"30KB/s\", block = \"4KiB\" }\n");
    assert!(said.contains("beside the pool's own reserves: short by "), "{said}");
}
