//! One sentence for each table and key of a profile file, for the reference page.

use input::TableKeys;

/// A table's header, its sentence, and the sentence of each of its keys.
struct TableText {
    header: &'static str,
    about: &'static str,
    keys: &'static [(&'static str, &'static str)],
}

/// Adds the sentences to the tables.
///
/// # Panics
/// The sentences are not those of these tables and keys, which a test excludes.
pub(super) fn describe(tables: &mut [TableKeys]) {
    assert_eq!(tables.len(), TEXTS.len(), "each table has its sentences");
    for (table, text) in tables.iter_mut().zip(TEXTS) {
        assert_eq!(table.header, text.header, "the tables are in the order of the file");
        assert_eq!(table.keys.len(), text.keys.len(), "each key of {} has one", table.header);
        table.about = text.about;
        for (key, (name, about)) in table.keys.iter_mut().zip(text.keys) {
            assert_eq!(key.name, *name, "the keys are in the order of the file");
            key.about = about;
        }
    }
}

/// The keys of a seek curve.
const SEEK_KEYS: &[(&str, &str)] = &[
    ("track_to_track", "The seek time to the next cylinder."),
    ("mean", "The mean seek time between uniformly random cylinders."),
    ("full_stroke", "The seek time from the first cylinder to the last."),
    ("samples", "The number of seeks that the curve was measured from."),
    ("points", "The seek times at rising distances."),
];

/// The keys of a throughput curve.
const CHUNK_KEYS: &[(&str, &str)] = &[
    ("optimal_from", "The shortest chunk of the optimal range (FAST 2003, figure 3: a)."),
    ("optimal_to", "The longest chunk of the optimal range (FAST 2003, figure 3: b)."),
    ("confidence", "The probability that each length is correctly in or outside of the range."),
    ("points", "The throughput at rising lengths, with and without the host's delays."),
];

const TEXTS: &[TableText] = &[
    TableText {
        header: "",
        about: "The top of a profile file.",
        keys: &[
            ("schema", "The version of the file format."),
            ("device", "The measured device."),
            ("run", "The measurement."),
            ("found", "The findings."),
        ],
    },
    TableText {
        header: "[device]",
        about: "The measured device.",
        keys: &[
            ("name", "The name of the device: a path, a URI, `emulated:NAME` or `simulated:NAME`."),
            ("model", "The model that the device reports."),
            ("capacity", "The capacity of the device."),
            ("block", "The logical block size of the device."),
            ("writes_allowed", "Whether the measurement was allowed to write to the device."),
            ("seek_command", "Whether the device has a seek command without a transfer."),
            ("queue_depth_max", "The largest queue depth of the device and of the path to it."),
        ],
    },
    TableText {
        header: "[run]",
        about: "How the device was measured.",
        keys: &[
            ("time", "The device time of the measurement, over all runs."),
            ("quick", "Whether it is a quick profile."),
            ("stop_reason", "Why the measurement stopped early; absent if it is complete."),
            (
                "overhead",
                "The host's time to hand a command to a thread and to observe its completion.",
            ),
            ("cpu_cost", "The CPU time of transfers, by their length."),
        ],
    },
    TableText {
        header: "[[run.cpu_cost]]",
        about: "The CPU time of transfers of one length, in the profiler's process.",
        keys: &[
            ("length", "The length of a transfer."),
            ("time", "The mean CPU time of a transfer, without interrupts."),
            ("samples", "The number of transfers."),
        ],
    },
    TableText {
        header: "[found]",
        about: "The findings about the device.",
        keys: &[
            ("done", "The stages that were measured to their end."),
            ("notes", "Remarks of the profiler."),
            ("outliers_unlisted", "The number of outliers beyond those in the file."),
            ("non_rotating", "`true` for a device that does not rotate."),
            ("rotation", "The rotation of the spindle."),
            ("geometry", "The layout of sectors."),
            ("dynamics", "The mechanics, caches and queues."),
            ("flash", "The findings about a device that does not rotate."),
            ("outlier", "Samples that are excluded from the figures."),
        ],
    },
    TableText {
        header: "[found.rotation]",
        about: "The rotation of the spindle.",
        keys: &[
            ("period", "The rotation period."),
            ("period_ps", "The rotation period in picoseconds."),
            ("noise", "The standard deviation of completion times about the rotation."),
            (
                "wander",
                "The largest deviation from the mean rotation over seconds, beyond the noise.",
            ),
            ("eviction_reads", "The number of reads elsewhere that evict a block from the cache."),
            (
                "cache_hit_max",
                "The longest service time of a cache hit; zero if the drive caches nothing.",
            ),
        ],
    },
    TableText {
        header: "[found.geometry]",
        about: "The layout of sectors.",
        keys: &[
            ("mapped", "The number of sectors that the bands cover."),
            ("cylinders", "The number of cylinders; of tracks, if the number of heads is unknown."),
            ("heads", "The number of heads, if it is measurable."),
            ("head_order", "The order of heads within a cylinder."),
            ("zone", "The zones, each with its number of sectors per track."),
            ("band", "The bands, each with one formula for the location of its sectors."),
        ],
    },
    TableText {
        header: "[[found.geometry.zone]]",
        about: "Consecutive sectors on tracks of equal length.",
        keys: &[
            ("first_lba", "The number of the first sector."),
            ("sectors", "The number of sectors."),
            ("begin_confidence", "The confidence that the zone begins at its first sector."),
            ("sectors_per_track", "The number of sectors per track."),
            ("track_skew", "The track skew as a time."),
            ("cylinder_skew", "The cylinder skew as a time."),
            (
                "skews_separated",
                "Whether the two skews were separated; if not, both are their mean.",
            ),
            ("media_bytes_per_s", "The media rate under a head."),
            ("sustained_bytes_per_s", "The sequential rate, changes of track included."),
        ],
    },
    TableText {
        header: "[[found.geometry.band]]",
        about: "Sectors that lie on consecutive sectors of tracks with one layout.",
        keys: &[
            ("first_lba", "The number of the first sector."),
            ("sectors", "The number of sectors."),
            (
                "first_sector",
                "The physical number of the first sector, from the start of `first_cylinder`.",
            ),
            ("first_cylinder", "The cylinder from which `first_sector` is counted."),
            ("sectors_per_track", "The number of sectors per track."),
            ("track_skew", "The track skew."),
            ("cylinder_skew", "The cylinder skew."),
            ("first_angle", "The angle of the first sector of `first_cylinder`."),
            ("head_order", "The order of heads within a cylinder."),
            (
                "chunk_read",
                "The shortest read at full throughput; below 4KiB if it was not measured.",
            ),
            (
                "chunk_write",
                "The shortest write at full throughput; below 4KiB if it was not measured.",
            ),
        ],
    },
    TableText {
        header: "[found.dynamics]",
        about: "The mechanics, caches and queues.",
        keys: &[
            ("depths", "The rate of random reads at each queue depth."),
            ("overheads", "The times between a command's submission and its effect."),
            ("seek", "The seek times before reads."),
            ("seek_write", "The seek times before writes."),
            ("read_buffer", "The cache for reads."),
            ("write_buffer", "The write buffer."),
            ("chunks_read", "The throughput of a sequential stream of reads, by command length."),
            ("chunks_write", "The throughput of a sequential stream of writes, by command length."),
            ("starvation", "The latency of random reads during a sequential stream."),
            ("prediction", "The accuracy of predictions of a sector's passing."),
        ],
    },
    TableText {
        header: "[found.dynamics.overheads]",
        about: "The times between a command's submission and its effect.",
        keys: &[
            (
                "path",
                "The latency of the path to the drive and back; if known, the others exclude it.",
            ),
            ("read_hit", "A read that hits the cache, until its data is on the bus."),
            ("read_miss", "A read from the media, until the arm moves."),
            ("write_cached", "A write to the write buffer, until the drive accepts data."),
            ("write_media", "A write with forced unit access, until the arm moves."),
            ("seek_command", "A seek command over zero cylinders."),
            ("bus_read", "The transfer of one sector of a read on the bus."),
            ("bus_write", "The transfer of one sector of a write on the bus."),
            (
                "read_share",
                "The share of a read that leaves the media before its data goes on the bus.",
            ),
            ("head_switch", "A head switch before a read."),
            ("head_switch_write", "A head switch before a write."),
        ],
    },
    TableText {
        header: "[found.dynamics.seek]",
        about: "The seek times before reads.",
        keys: SEEK_KEYS,
    },
    TableText {
        header: "[found.dynamics.seek_write]",
        about: "The seek times before writes.",
        keys: SEEK_KEYS,
    },
    TableText {
        header: "[found.dynamics.read_buffer]",
        about: "The cache for reads.",
        keys: &[
            ("read_ahead", "The length of the read-ahead after a read of one block."),
            ("ends_with_track", "Whether read-ahead stops at the end of a track."),
            (
                "reads_next_track",
                "Whether read-ahead continues on the next track after a read to a track's end.",
            ),
            (
                "serves_arriving_sectors",
                "Whether a read of a sector about to pass is served in the same revolution.",
            ),
            (
                "keeps_after_read",
                "Whether data that was read ahead stays in the cache after its first use.",
            ),
            ("segments", "The number of cache segments."),
            ("segment", "The length of the longest segment."),
        ],
    },
    TableText {
        header: "[found.dynamics.write_buffer]",
        about: "The write buffer.",
        keys: &[
            ("write_back", "Whether writes complete before they are on the media."),
            ("size", "The amount of data that the drive accepts before writes wait."),
            (
                "scattered_writes",
                "The number of scattered writes that the drive accepts before writes wait.",
            ),
            ("destage", "The additional flush time for each scattered write before the flush."),
            (
                "destages_when_idle",
                "Whether the drive writes its buffer to the media within a second without a flush.",
            ),
        ],
    },
    TableText {
        header: "[found.dynamics.chunks_read]",
        about: "The throughput of a sequential stream of reads.",
        keys: CHUNK_KEYS,
    },
    TableText {
        header: "[found.dynamics.chunks_write]",
        about: "The throughput of a sequential stream of writes.",
        keys: CHUNK_KEYS,
    },
    TableText {
        header: "[found.dynamics.starvation]",
        about: "The latency of random reads during a sequential stream.",
        keys: &[
            ("safe_depth", "The largest queue depth at which the random read does not starve."),
            ("waits", "The longest latency of a random read at each queue depth."),
        ],
    },
    TableText {
        header: "[found.dynamics.prediction]",
        about: "The accuracy of predictions of a sector's passing.",
        keys: &[
            (
                "noise",
                "The standard deviation of completions about their prediction, modulo revolutions.",
            ),
            (
                "offset",
                "The predicted time between the arrival of the heads and the command's sector.",
            ),
            ("missed", "The share of commands that missed their revolution."),
            ("samples", "The number of commands."),
            ("just_in_time_gains", "Whether just-in-time seeks gain more than they cost."),
        ],
    },
    TableText {
        header: "[found.flash]",
        about: "The findings about a device that does not rotate.",
        keys: &[
            ("write_buffer", "The amount of data that is accepted faster than it is stored."),
            ("rotation_test", "The test of whether the device rotates."),
            ("rate_limit", "The rate limits of the device."),
            ("reads_during_writes", "The latency of reads during writes."),
            ("flush", "The time of a flush after a number of writes."),
            ("rate", "The rate and latency of each kind of command."),
        ],
    },
    TableText {
        header: "[found.flash.rotation_test]",
        about: "The test of whether the device rotates.",
        keys: &[
            ("verdict", "The result of the test."),
            ("median", "The median latency of random reads."),
            ("spread", "The range between the 10th and the 90th percentile of the latencies."),
            ("samples", "The number of reads."),
        ],
    },
    TableText {
        header: "[[found.flash.rate_limit]]",
        about: "A rate limit (token bucket) of the device.",
        keys: &[
            ("quantity", "The limited quantity: commands or bytes."),
            ("per_second", "The sustained rate."),
            ("burst", "The burst size."),
        ],
    },
    TableText {
        header: "[found.flash.reads_during_writes]",
        about: "The latency of reads during writes.",
        keys: &[
            ("alone", "The mean latency of random reads of 4KiB without other load."),
            ("mean", "The mean latency of reads during writes."),
            ("p99", "The 99th percentile of the latency of reads during writes."),
            ("max", "The largest latency of reads during writes."),
        ],
    },
    TableText {
        header: "[[found.flash.flush]]",
        about: "The time of a flush.",
        keys: &[
            ("writes", "The number of writes before the flush."),
            ("time", "The time of the flush."),
        ],
    },
    TableText {
        header: "[[found.flash.rate]]",
        about: "The rate and latency of one kind of command.",
        keys: &[
            ("op", "The operation."),
            ("access", "The access pattern."),
            ("length", "The length of each command."),
            ("depth", "The number of commands in flight."),
            ("interval", "The mean time between two completions."),
            ("latency", "The mean time from submission to completion."),
            ("latency_p99", "The 99th percentile of the latency."),
            ("latency_max", "The largest latency."),
        ],
    },
    TableText {
        header: "[[found.outlier]]",
        about: "A sample that is excluded from the figures.",
        keys: &[
            ("sector", "The first sector of the command."),
            ("stage", "The stage that issued the command."),
            ("reason", "Why the sample is excluded."),
        ],
    },
];
