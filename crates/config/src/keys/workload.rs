//! The tables of a simulation: workloads, and changes of the pool.

use input::{Key, TableKeys};
use units::Duration;

use super::shapes::{Lazy, PATH, SHARE, numbers, sizes, times};
use crate::limits as l;

fn synthetic() -> Vec<Key> {
    vec![
        Key::new(
            "op",
            "\"read\", \"write\" or \"mix\"",
            "The operation; required without access = \"trace\".",
        ),
        Key::new("read_share", SHARE, "The share of reads; required with op = \"mix\"."),
        Key::new(
            "access",
            "\"sequential\", \"random\", \"stream\" or \"trace\"",
            "The locations of the requests.",
        )
        .required(),
        Key::new("run", numbers(1, l::RUN_MAX), "Sequential requests before a jump.")
            .or("no jumps"),
        Key::new("block", sizes(l::BLOCK_MIN, l::BLOCK_MAX), "The size of each request."),
        Key::new(
            "outstanding",
            numbers(1, l::OUTSTANDING_MAX.into()),
            "Requests in flight: a closed loop.",
        ),
        Key::new(
            "burst",
            numbers(1, l::OUTSTANDING_MAX.into()),
            "Requests that are sent at one instant; the next burst follows when all of them are \
             completed and one think time has passed: a closed loop, instead of `outstanding`.",
        ),
        Key::new(
            "think",
            format!("{}, or {{ exponential = the mean }}", times(Duration::ZERO, l::TIME_MAX)),
            "The pause between a completion (of a burst: the last one) and the next request of a \
             closed loop.",
        )
        .or("0s"),
        Key::new("rate", "a rate such as 60/s", "Requests a second: an open loop."),
        Key::new("arrivals", "\"constant\" or \"poisson\"", "The arrival process of an open loop.")
            .or("\"constant\""),
        Key::new(
            "elevator",
            numbers(1, l::ELEVATOR_MAX),
            "Random requests that are generated at a time and sent in the order of their \
             locations.",
        ),
        Key::new(
            "flush_every",
            numbers(1, l::FLUSH_EVERY_MAX.into()),
            "Writes after which a flush is sent, as by `fsync`, as soon as the last of them is \
             completed; with op = \"write\" and outstanding = 1.",
        )
        .or("no flushes"),
    ]
}

pub(crate) static WORKLOAD: Lazy = Lazy::new(|| {
    let about = "The volume that is loaded, or the snapshot of a `[[change]]`.";
    let volume = Key::new("volume", "the name of a volume", about);
    let mut keys = vec![volume.required()];
    keys.extend(synthetic());
    keys.extend([
        Key::new("start", times(Duration::ZERO, l::TIME_MAX), "When the first request arrives.")
            .or("0s"),
        Key::new(
            "stop",
            times(Duration::from_nanos(1), l::TIME_MAX),
            "When requests end; after `start`.",
        )
        .or("the end of the run"),
        Key::new("file", PATH, "The trace; required with access = \"trace\"."),
        Key::new("format", format!("one of {}", trace::Format::names()), "The trace's format.")
            .or("recognised from its beginning"),
        Key::new("device", "a whole number", "The device whose requests are replayed.").or("all"),
        Key::new(
            "scale",
            "a factor such as 0.5",
            "The factor by which the trace's times are multiplied.",
        )
        .or("1"),
        Key::new(
            "remap",
            "\"refuse\" or \"modulo\"",
            "What happens to a request past the volume's end.",
        )
        .or("\"refuse\""),
    ]);
    TableKeys::new("[[workload]]", "A stream of requests that a simulation sends.", keys)
});

pub(crate) static CHANGE: Lazy = Lazy::new(|| {
    let keys = vec![
        Key::new("at", times(Duration::ZERO, l::TIME_MAX), "When it is made.").required(),
        Key::new("volume", "the name of a volume of the pool", "The volume it is about.")
            .required(),
        Key::new(
            "action",
            "\"snapshot\" or \"relocate\"",
            "What is done: a snapshot is taken, or the volume is relocated from its `from`, which \
             a simulation otherwise does from its start.",
        )
        .required(),
        Key::new(
            "name",
            format!("a name of 1 to {} bytes", l::NAME_BYTES_MAX),
            "The snapshot's name, unique among all volumes; required with action = \"snapshot\".",
        ),
    ];
    TableKeys::new("[[change]]", "A change of the pool that a simulation makes.", keys)
});

pub(crate) static THINK: Lazy = Lazy::new(|| {
    let mean = Key::new(
        "exponential",
        times(Duration::from_nanos(1), l::TIME_MAX),
        "The mean of independent, exponentially distributed think times.",
    );
    let about = "A distribution of think times.";
    TableKeys::new("[[workload]] think", about, vec![mean.required()])
});
