//! Faults of a config by the dozen: `Plan::check` names each of them, beside any others, and
//! nothing that is right once they are mended.

use std::path::Path;

use spindle_config::{Plan, Purpose};

/// A config of a daemon: disks with and without volumes of their own, and a pool.
const SERVED: &str = r#"write_buffer_memory = "64MiB"
[listen]
nbd = ["unix:/run/spindle/nbd.sock", "127.0.0.1:10809"]
[nbd]
connections = 100
tls = "required"
certificate = "a.pem"
key = "b.pem"
[log]
slow = "500ms"
format = "json"
record = "flight"
record_max = "1GiB"
[[disk]]
name = "d0"
drive = "hgst-7k8"
backing = "d0.img"
period = "500ms"
batch = "100ms"
reserve_headroom = "5%"
best_effort = { share = "20%", period = "1s" }
[[disk]]
name = "d1"
drive = "samsung-870evo-1t"
worst_case = { command = "10ms", rate = "100MB/s" }
[[disk]]
name = "p0"
drive = "nearline-20t"
[[disk]]
name = "p1"
drive = "nearline-20t"
depth = 4
[[disk]]
name = "m0"
drive = "null"
size = "1GiB"
[[volume]]
name = "video"
disk = "d0"
size = "10GiB"
stream = { bandwidth = "817KB/s", block = "1MB", range = "0GiB..2GiB", span = ["0s", "2h"] }
labels = ["app=video", "team=tv"]
[[volume]]
name = "mail"
disk = "d0"
size = "20GiB"
at = "100GiB"
reserve = "30%"
limit = "80%"
weight = 3
[[volume]]
name = "again"
disk = "d0"
same_as = "mail"
priority = "normal"
[[volume]]
name = "base"
disk = "d1"
size = "1GiB"
latency = { within = "80ms", requests = "5/s", burst = 2, size = "64KiB" }
[pool]
disks = ["p0", "p1"]
metadata_share = "4%"
[[pool.volume]]
name = "wide"
size = "1GiB"
layout = "stripe"
disks = ["p0", "p1"]
reserve = "10%"
clients = ["CN=one", "CN=two"]
[[pool.volume]]
name = "slow"
size = "2GiB"
zone = "slow"
thin = true
iops = "20/s"
block = "8KiB"
"#;

/// A fault: what stands in the config, what is there instead, and the errors that it is, without
/// their lines.
type Fault = (&'static str, &'static str, &'static str);

const SERVED_FAULTS: &[Fault] = &[
    ("memory = \"64MiB\"", "memory = \"much\"", "field `write_buffer_memory`: found `much`"),
    ("\"127.0.0.1:10809\"", "\"localhost\"", "[listen]: field `nbd`: found `localhost`"),
    ("connections = 100", "connections = 0", "[nbd]: field `connections`: found `0`"),
    ("tls = \"required\"", "tls = \"must\"", "[nbd]: field `tls`: found `must`"),
    ("certificate = \"a.pem\"", "certificate = 1", "[nbd]: field `certificate`: found `1`"),
    ("slow = \"500ms\"", "slow = \"long\"", "[log]: field `slow`: found `long`"),
    ("record = \"flight\"", "record = \"\"", "[log]: field `record`: found ``"),
    ("name = \"d0\"", "name = \"d/0\"", "field `name`: found `d/0`"),
    ("\"hgst-7k8\"", "\"hgst-7k9\"", "field `drive`: found `hgst-7k9`"),
    ("period = \"500ms\"", "period = \"ever\"", "field `period`: found `ever`"),
    ("batch = \"100ms\"", "batch = 100", "field `batch`: found `100`"),
    ("reserve_headroom = \"5%\"", "hue = 1", "field `hue`: found `hue`"),
    ("share = \"20%\"", "share = \"0%\"", "field `share`"),
    ("\"samsung-870evo-1t\"", "7", "field `drive`: found `7`"),
    ("command = \"10ms\"", "command = \"\"", "field `command`"),
    ("rate = \"100MB/s\"", "rate = \"1B\"", "field `rate`"),
    ("depth = 4", "depth = 40000", "field `depth`: found `40000`"),
    ("drive = \"null\"", "drive = \"nil\"", "field `drive`: found `nil`"),
    ("drive = \"null\"\nsize = \"1GiB\"", "drive = \"null\"", "field `size`: found nothing"),
    ("disk = \"d0\"\nsize = \"10", "disk = \"d9\"\nsize = \"10", "field `disk`"),
    ("size = \"10GiB\"", "size = \"10\"", "field `size`: found `10`"),
    ("bandwidth = \"817KB/s\"", "bandwidth = \"fast\"", "field `bandwidth`"),
    ("block = \"1MB\"", "block = \"1 line\"", "field `block`: found `1 line`"),
    ("span = [\"0s\", \"2h\"]", "span = [\"0s\"]", "field `span`"),
    ("\"app=video\"", "\"app\"", "field `labels`: found `app`"),
    ("name = \"mail\"", "name = \"video\"", "field `name`: found `video`"),
    ("size = \"20GiB\"\n", "", "field `size`: found nothing"),
    ("at = \"100GiB\"", "at = \"end\"", "field `at`: found `end`"),
    ("reserve = \"30%\"", "reserve = 30%", "found `reserve = 30%`, expected TOML"),
    ("limit = \"80%\"", "limit = \"800%\"", "field `limit`: found `800%`"),
    ("weight = 3", "weight = \"3\"", "field `weight`: found `\"3\"`"),
    ("priority = \"normal\"", "priority = 1", "field `priority`: found `1`"),
    ("within = \"80ms\"", "within = 80", "field `within`: found `80`"),
    ("requests = \"5/s\"", "requests = \"5\"", "field `requests`"),
    ("disks = [\"p0\", \"p1\"]\nmeta", "disks = [\"p0\", \"p2\"]\nmeta", "[pool]: field `disks`"),
    ("metadata_share = \"4%\"", "metadata_share = \"0%\"", "[pool]: field `metadata_share`"),
    ("name = \"wide\"\n", "", "field `name`: found nothing"),
    ("layout = \"stripe\"", "layout = \"strip\"", "field `layout`: found `strip`"),
    ("reserve = \"10%\"", "reserve = \"110%\"", "field `reserve`: found `110%`"),
    ("\"CN=one\"", "\"one\"", "field `clients`: found `one`"),
    ("zone = \"slow\"", "zone = \"dark\"", "field `zone`"),
    ("iops = \"20/s\"", "iops = \"20\"", "field `iops`: found `20`"),
    ("block = \"8KiB\"", "block = \"8\"", "field `block`: found `8`"),
];

/// A scenario of a simulation.
const SIMULATED: &str = r#"duration = "10s"
[[disk]]
name = "d0"
drive = "hgst-7k8"
execution = "preemptible"
chunk = "64KiB"
[[disk]]
name = "d1"
drive = "samsung-870evo-1t"
[[disk]]
name = "d2"
drive = "hgst-7k8"
policy = "throughput"
nominal_rate = "40/s"
[[volume]]
name = "a"
disk = "d0"
size = "1GiB"
reserve = "60%"
[[volume]]
name = "b"
disk = "d2"
size = "1GiB"
reserve = "10/s"
[[workload]]
volume = "a"
op = "mix"
read_share = "70%"
access = "random"
block = "4KiB"
rate = "50/s"
arrivals = "poisson"
[[workload]]
volume = "b"
op = "read"
access = "sequential"
run = 8
block = "4KiB"
outstanding = 4
think = { exponential = "1ms" }
start = "1s"
stop = "5s"
[[workload]]
volume = "a"
op = "write"
access = "random"
block = "4KiB"
outstanding = 1
flush_every = 8
"#;

const SIMULATED_FAULTS: &[Fault] = &[
    ("duration = \"10s\"", "duration = \"x\"", "field `duration`: found `x`"),
    ("[[disk]]\nname = \"d0\"", "[[disk]\nname = \"d0\"", "found `[[disk]`, expected TOML"),
    ("\"preemptible\"", "\"partly\"", "field `execution`: found `partly`"),
    ("chunk = \"64KiB\"", "chunk = \"big\"", "field `chunk`: found `big`"),
    ("\"throughput\"", "\"thruput\"", "field `policy`: found `thruput`"),
    ("nominal_rate = \"40/s\"", "nominal_rate = 40", "field `nominal_rate`: found `40`"),
    ("name = \"a\"", "name = \"\"", "field `name`: found ``"),
    ("reserve = \"60%\"", "reserve = \"x\"", "field `reserve`: found `x`"),
    ("disk = \"d2\"", "disk = \"d3\"", "field `disk`: found `d3`"),
    ("volume = \"b\"", "volume = \"c\"", "field `volume`: found `c`"),
    ("op = \"mix\"", "op = \"both\"", "field `op`: found `both`"),
    ("read_share = \"70%\"", "read_share = 7", "field `read_share`: found `7`"),
    ("rate = \"50/s\"", "rate = \"50\"", "field `rate`: found `50`"),
    ("\"poisson\"", "\"fish\"", "field `arrivals`: found `fish`"),
    ("\"sequential\"", "\"line\"", "field `access`: found `line`"),
    ("run = 8", "run = 0", "field `run`: found `0`"),
    ("outstanding = 4", "outstanding = []", "field `outstanding`"),
    ("exponential = \"1ms\"", "exponential = 1", "field `exponential`"),
    ("start = \"1s\"", "start = 1", "field `start`: found `1`"),
    ("stop = \"5s\"", "stop = \"0s\"", "field `stop`: found `0s`"),
    ("flush_every = 8", "flush_every = 0", "field `flush_every`: found `0`"),
];

/// Faults of which the second is seen once the first is mended: it may be right until then.
const HIDES: &[(&str, &str)] = &[
    ("name = \"d/0\"", "disk = \"d9\"\nsize = \"10"),
    ("name = \"d/0\"", "disks = [\"p0\", \"p2\"]\nmeta"),
    ("name = \"\"", "volume = \"c\""),
];

/// Of the pairs of faults, one in this many is tried, and this many larger sets.
const STEP: usize = 7;
const SUBSETS: usize = 11;

/// The errors of a config, without the file's name.
fn errors(text: &str, purpose: Purpose) -> Vec<String> {
    let checked = Plan::check(text, "plan.toml", Path::new(""), purpose);
    let errors = checked.map_or_else(|errors| errors, |_| Vec::new());
    errors.iter().map(|error| error.to_string().replacen("plan.toml:", "", 1)).collect()
}

/// The text with some of the faults; `None` if one of them is where another was.
fn with(text: &str, faults: &[&Fault]) -> Option<String> {
    let mut text = text.to_owned();
    for (right, wrong, _) in faults {
        let at = text.find(right)?;
        text.replace_range(at..at + right.len(), wrong);
    }
    Some(text)
}

/// Checks the faults together: each is named once, and nothing else is.
fn check(text: &str, faults: &[&Fault], purpose: Purpose) -> Option<String> {
    let text = with(text, faults)?;
    let found = errors(&text, purpose);
    let is_of = |error: &String, fault: &Fault| error.contains(fault.2);
    let may_hide = |fault: &Fault| {
        let hides = |(first, second): &(&str, &str)| {
            fault.1 == *second && faults.iter().any(|other| other.1 == *first)
        };
        HIDES.iter().any(hides)
    };
    let missed = faults
        .iter()
        .filter(|fault| !found.iter().any(|error| is_of(error, fault)) && !may_hide(fault));
    let missed: Vec<_> = missed.map(|fault| fault.2).collect();
    let invented: Vec<_> =
        found.iter().filter(|error| !faults.iter().any(|fault| is_of(error, fault))).collect();
    let faulty: Vec<_> = faults.iter().map(|fault| fault.1).collect();
    (!missed.is_empty() || !invented.is_empty() || found.len() > faults.len())
        .then(|| format!("{faulty:?}: missed {missed:?}, invented {invented:?}\n"))
}

fn check_all(text: &str, faults: &[Fault], purpose: Purpose) {
    assert_eq!(errors(text, purpose), [""; 0], "the config without faults");
    let mut wrong: Vec<String> = Vec::new();
    for fault in faults {
        assert!(text.matches(fault.0).count() > 0, "{} is not there", fault.0);
        wrong.extend(check(text, &[fault], purpose));
    }
    for (index, first) in faults.iter().enumerate() {
        for second in faults[index + 1..].iter().step_by(STEP) {
            wrong.extend(check(text, &[first, second], purpose));
        }
    }
    for seed in 0..SUBSETS {
        let is_drawn = |index: usize| (index * seed * 31 + index * index * 17 + seed * 7) % 11 < 3;
        let some = faults.iter().enumerate().filter(|(index, _)| is_drawn(*index));
        let some: Vec<_> = some.map(|(_, fault)| fault).collect();
        wrong.extend(check(text, &some, purpose).map(|wrong| format!("seed {seed}: {wrong}")));
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(40)].concat());
}

#[test]
fn each_fault_of_a_served_config_is_named_beside_others_and_nothing_else_is() {
    check_all(SERVED, SERVED_FAULTS, Purpose::Serve);
}

#[test]
fn each_fault_of_a_scenario_is_named_beside_others_and_nothing_else_is() {
    check_all(SIMULATED, SIMULATED_FAULTS, Purpose::Simulation);
}
