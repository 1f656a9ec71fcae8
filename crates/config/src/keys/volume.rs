//! The tables of volumes and of the pool.

use engine::limits::{
    LATENCY_MAX, LATENCY_MIN, TASK_BURST_MAX, WEIGHT_MAX, WRITE_BUFFER, WRITE_BUFFER_MEMORY_MAX,
};
use input::{Key, TableKeys, size_text, time_text};
use units::Duration;
use volume::pool::Copies;

use super::shapes::{BOOLEAN, Lazy, SHARE_OR_RATE, numbers, sizes, times};
use crate::defaults as d;
use crate::limits as l;
use crate::plan::ZONE_WORDS;

fn clients() -> Key {
    let shape = format!("a list of at most {}, each CN=NAME or sha256:FINGERPRINT", l::CLIENTS_MAX);
    Key::new("clients", shape, "The certificates of the clients that may open the volume.")
        .or("all clients")
}

/// The keys from which a reserve is derived. A volume of the pool has the reserve on each of its
/// disks.
fn rate() -> Vec<Key> {
    vec![
        Key::new(
            "iops",
            "a rate such as 60/s",
            "Requests a second that the reserve is derived from.",
        ),
        Key::new(
            "bandwidth",
            "bytes a second such as 20MB/s",
            "Bytes a second that the reserve is derived from.",
        ),
        Key::new(
            "run",
            numbers(1, l::RUN_MAX),
            "Consecutive sequential requests that a declared rate assumes.",
        )
        .or("1"),
        Key::new(
            "block",
            sizes(l::BLOCK_MIN, l::BLOCK_MAX),
            "The request size that a declared rate assumes.",
        )
        .or(size_text(d::BLOCK)),
    ]
}

fn contract() -> Vec<Key> {
    vec![
        Key::new("reserve", SHARE_OR_RATE, "The guaranteed share in each period.").or("0%"),
        Key::new("limit", SHARE_OR_RATE, "The largest share in each period.").or("100%"),
        Key::new(
            "weight",
            numbers(1, WEIGHT_MAX.into()),
            "The weight with which time beyond the reserves is divided.",
        )
        .or("1"),
        Key::new(
            "priority",
            "\"normal\" or \"high\"",
            "Whether the volume is served before volumes of normal priority.",
        )
        .or("\"normal\""),
        Key::new("stream", "a table in braces", "A bandwidth whose blocks each meet a deadline."),
        Key::new(
            "latency",
            "a table in braces",
            "A time within which requests of a bounded rate are answered.",
        ),
    ]
}

fn labels() -> Key {
    let about = "What the volume is for: the API and the metrics carry it.";
    Key::new("labels", format!("a list of at most {}, each NAME=VALUE", l::LABELS_MAX), about)
        .or("none")
}

fn ublk() -> Key {
    let about = "Whether the volume is a block device of the daemon's machine too, by the kernel's \
                 ublk driver.";
    Key::new("ublk", BOOLEAN, about).or("false")
}

fn write_buffer() -> Key {
    let about = "The bound of what clients have written and the disk has not; \"0\": a write is \
                 on the disk when it is answered.";
    let shape =
        format!("\"0\", or a size of at most {}", size_text(WRITE_BUFFER_MEMORY_MAX.bytes()));
    Key::new("write_buffer", shape, about).or(size_text(WRITE_BUFFER.bytes()))
}

pub(crate) static VOLUME: Lazy = Lazy::new(|| {
    let mut keys = vec![
        Key::new(
            "name",
            format!("a name of 1 to {} bytes", l::NAME_BYTES_MAX),
            "The volume's name, unique among all volumes: clients open it by this name.",
        )
        .required(),
        Key::new("disk", "the name of a disk", "The disk that the volume is placed on.").required(),
        clients(),
        Key::new(
            "size",
            "a size of whole sectors",
            "The volume's size; required without `same_as`.",
        ),
        Key::new("at", "a location in whole sectors, such as 20GiB", "The volume's first sector.")
            .or("the first gap that holds it"),
        Key::new(
            "same_as",
            "the name of a volume above, on the same disk",
            "The volume whose sectors this one shares, under a contract of its own.",
        ),
    ];
    keys.extend(rate());
    keys.extend(contract());
    keys.extend([write_buffer(), labels(), ublk()]);
    TableKeys::new("[[volume]]", "A volume on one disk, with its contract.", keys)
});

pub(crate) static STREAM: Lazy = Lazy::new(|| {
    let keys = vec![
        Key::new("bandwidth", "bytes a second such as 817KB/s", "The guaranteed bandwidth.")
            .required(),
        Key::new(
            "block",
            sizes(l::BLOCK_MIN, l::BLOCK_MAX),
            "The request size; one block is due in each period of block ÷ bandwidth.",
        )
        .required(),
        Key::new(
            "range",
            "two locations on the volume such as 0GiB..2GiB",
            "The part of the volume that the guarantee covers; not for a pool's volume.",
        )
        .or("the whole volume"),
        Key::new(
            "span",
            "a start and an end such as [\"0s\", \"2h\"]",
            "When the guarantee holds, from the start of the run or of the daemon.",
        )
        .or("always"),
        Key::new(
            "order",
            "\"any\" or \"sequential\"",
            "The order in which the client asks for the volume's bytes; for a pool's volume. In \
             sequential order each disk of a stripe admits its part of the blocks alone.",
        )
        .or("\"any\""),
        Key::new(
            "parts",
            "a list of sizes of whole MiB such as [\"3GiB\", \"1GiB\"]",
            "How much of a pool's volume is on each of its disks, one disk after the other: each \
             disk keeps the stream only while play at the bandwidth, from the beginning of the \
             volume at the start of the span, is there. With layout \"single\", a span, and \
             sequential order.",
        )
        .or("each disk keeps the stream for the whole span"),
        Key::new(
            "survive",
            numbers(0, (Copies::MAX - 1).into()),
            "How many of a mirror's disks may be lost before the stream is best effort, at most \
             one less than there are copies. With fewer, that many fewer disks keep the stream: \
             the first of `disks`. Reads go to these, and writes are best effort.",
        )
        .or("one less than there are copies"),
    ];
    let about = "A bandwidth whose blocks each meet a deadline.";
    TableKeys::new("[[volume]] stream", about, keys)
});

pub(crate) static LATENCY: Lazy = Lazy::new(|| {
    let keys = vec![
        Key::new(
            "within",
            times(LATENCY_MIN, LATENCY_MAX),
            "The time from the arrival of a request to its answer.",
        )
        .required(),
        Key::new(
            "requests",
            "a rate such as 20/s",
            "The rate of the reads and writes that are answered in time.",
        )
        .required(),
        Key::new(
            "burst",
            numbers(1, TASK_BURST_MAX.into()),
            "The number of requests that may arrive at once.",
        )
        .or("1"),
        Key::new("size", sizes(l::BLOCK_MIN, l::BLOCK_MAX), "The largest request that counts.")
            .required(),
    ];
    let about = "A time within which requests of a bounded rate are answered.";
    TableKeys::new("[[volume]] latency", about, keys)
});

pub(crate) static POOL: Lazy = Lazy::new(|| {
    let keys = vec![
        Key::new(
            "disks",
            format!("a list of at most {} names of disks", l::DISKS_MAX),
            "The disks that belong to the pool.",
        )
        .required(),
        Key::new("metadata_share", "a share above 0%", "Each disk's reserve for pool metadata.")
            .formerly("metadata")
            .or(d::METADATA_SHARE.to_string()),
        Key::new(
            "relocation_share",
            "a share above 0%",
            "Each disk's reserve and limit for relocating blocks.",
        )
        .formerly("reorganise")
        .or(d::RELOCATION_SHARE.to_string()),
        Key::new(
            "rebuild",
            "{ reserve, limit }",
            "Each disk's contract for making the copies of mirrors equal.",
        )
        .or("that of relocating blocks"),
        Key::new(
            "scrub",
            "{ reserve, limit }",
            "Each disk's contract for `spindle pool scrub`, which reads everything.",
        )
        .or("that of relocating blocks"),
        Key::new(
            "spare_after",
            times(Duration::ZERO, l::SPARE_AFTER_MAX),
            "How long a disk has been out before a disk with `spare = true` takes its place.",
        )
        .or(time_text(d::SPARE_AFTER)),
        Key::new(
            "slow_after",
            times(l::SLOW_AFTER_MIN, l::SLOW_AFTER_MAX),
            "From when on a command of one of the disks is slow. A disk is taken out as if it had \
             failed, if each of its blocks has a whole copy elsewhere, once 16 commands in a row \
             were slow, or one has had no answer for ten times as long.",
        )
        .or(time_text(d::SLOW_AFTER)),
        Key::new(
            "removing",
            format!("a list of at most {} names", l::POOL_VOLUMES_MAX),
            "Volumes whose removal was begun: the daemon writes it, ends the removal when it \
             starts, and takes the names out again.",
        )
        .or("none"),
        Key::new(
            "volume",
            format!("tables, at most {}", l::POOL_VOLUMES_MAX),
            "The pool's volumes, each with its contract.",
        ),
    ];
    TableKeys::new("[pool]", "Disks whose space is shared by the pool's volumes.", keys)
});

fn floor_keys() -> Vec<Key> {
    vec![
        Key::new("reserve", "a share above 0%", "What it has of each disk at least.")
            .or(d::RELOCATION_SHARE.to_string()),
        Key::new(
            "limit",
            "a share of at least the reserve",
            "What it has at most, slack included.",
        )
        .or("100%"),
    ]
}

pub(crate) static REBUILD: Lazy = Lazy::new(|| {
    let about = "The contract of making the copies of mirrors equal.";
    TableKeys::new("[pool] rebuild", about, floor_keys())
});

pub(crate) static SCRUB: Lazy =
    Lazy::new(|| TableKeys::new("[pool] scrub", "The contract of scrubbing.", floor_keys()));

pub(crate) static POOL_VOLUME: Lazy = Lazy::new(|| {
    let mut keys = vec![
        Key::new(
            "name",
            format!("a name of 1 to {} bytes", l::NAME_BYTES_MAX),
            "The volume's name, unique among all volumes.",
        )
        .required(),
        clients(),
        Key::new("size", "a size of whole MiB", "The size with which the volume is created.")
            .required(),
        Key::new("disks", "a list of names of the pool's disks", "The disks it is placed on.")
            .or("all disks of the pool"),
        Key::new(
            "layout",
            "\"single\", \"stripe\", \"random\" or \"mirror\"",
            "How consecutive blocks are placed on the disks.",
        )
        .or("\"single\""),
        Key::new(
            "copies",
            numbers(2, Copies::MAX.into()),
            "The number of copies of each block of a mirror, each on another disk.",
        )
        .or(Copies::DEFAULT.number().to_string()),
        Key::new("zone", ZONE_WORDS, "The part of the disks it is placed on.").or("\"any\""),
        Key::new("thin", BOOLEAN, "Whether blocks are allocated when first written.").or("false"),
        Key::new(
            "checksums",
            BOOLEAN,
            "Whether checksums of its data are kept, where the pool's disks have room for them; \
             counts when the volume is created.",
        )
        .or("true"),
        Key::new(
            "from",
            "a table in braces",
            "The placement from which the volume's blocks are being relocated.",
        ),
        Key::new(
            "source",
            "the name of a volume or snapshot of the pool",
            "The content with which the volume is created.",
        )
        .or("zeroes"),
    ];
    keys.extend(rate());
    keys.extend(contract());
    keys.extend([write_buffer(), labels(), ublk()]);
    TableKeys::new("[[pool.volume]]", "A volume of the pool, with its contract.", keys)
});

pub(crate) static FROM: Lazy = Lazy::new(|| {
    let keys = vec![
        Key::new("zone", ZONE_WORDS, "The earlier part of the disks.").required(),
        Key::new("disks", "a list of names of the pool's disks", "The earlier disks.").required(),
    ];
    TableKeys::new("[[pool.volume]] from", "A placement that is being left.", keys)
});
