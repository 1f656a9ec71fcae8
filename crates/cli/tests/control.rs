//! Changes of a running daemon by real processes over real sockets: no request is lost, and every
//! acknowledged change persists.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Child;

use api::{Answer, Client, ClientError};
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Scratch, Server, config, spindle, verifying};
use units::{Extent, Lba, Sectors};

/// A client on the default socket of the API.
const SOCKET: &str = "spindle-api.sock";

fn api(scratch: &Scratch) -> Client {
    Client::new(&scratch.join(SOCKET))
}

/// The default number of kills; `make soak` has more.
fn kills() -> u64 {
    let asked = std::env::var("SPINDLE_KILLS").ok();
    asked.map_or(10, |asked| asked.parse().expect("SPINDLE_KILLS is a number"))
}

fn volumes(client: &Client) -> Vec<Value> {
    let answer = client.get("volumes", None).expect("an answer");
    answer.body["volumes"].as_array().expect("a list").clone()
}

/// A share such as `12.5%`, in 10⁻⁷ percent.
fn parts(share: &Value) -> u64 {
    let share: units::Share = share.as_str().expect("text").parse().expect("a share");
    share.ppb().into()
}

fn verifying_fio(server: &Server, volume: &str, scratch: &Scratch) -> Child {
    verifying(server, volume, &["--bs=4k", "--iodepth=8", "--size=16m", "--loops=3"], scratch)
}

#[test]
fn fio_loses_nothing_while_reserves_change_hundreds_of_times() {
    let scratch = Scratch::new();
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", config("ram")));
    let api = api(&scratch);
    let mut fios = [verifying_fio(&server, "a", &scratch), verifying_fio(&server, "b", &scratch)];
    let (mut accepted, mut refused) = (0, 0);
    for turn in 0_u64.. {
        let under_way = fios.iter_mut().any(|fio| fio.try_wait().expect("a child").is_none());
        if !under_way && turn >= 200 {
            break;
        }
        let volume = if turn % 2 == 0 { "a" } else { "b" };
        // Cycles through all shares; some pairs exceed the whole disk and are refused.
        let change = json!({ "reserve": format!("{}%", turn * 37 % 90) });
        let answer = api.patch("volumes", volume, &change);
        let answer = answer.unwrap_or_else(|error| panic!("{turn}: {error} to {change}"));
        match (answer.status, answer.body["error"]["code"].as_str()) {
            (200, None) => accepted += 1,
            (409, Some("refused")) => refused += 1,
            _ => panic!("{turn}: {answer:?} to {change}"),
        }
        if turn % 10 == 0 {
            let sum: u64 = volumes(&api).iter().map(|volume| parts(&volume["reserve"])).sum();
            assert!(sum <= 1_000_000_000, "{sum} of a thousand million are promised");
        }
    }
    eprintln!("{accepted} changes were accepted and {refused} refused while fio ran");
    assert!(accepted > 0 && refused > 0, "{accepted} accepted, {refused} refused");
    for fio in fios {
        let output = fio.wait_with_output().expect("a child");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("READ: bw="), "{said}");
    }
    let failures =
        volumes(&api).iter().map(|volume| volume["failures"].as_u64()).collect::<Vec<_>>();
    assert_eq!(failures, [Some(0), Some(0)]);
    server.stop();
}

/// Sends change `number`, counted from 1.
fn ask(api: &Client, number: u64) -> Result<Answer, ClientError> {
    let name = format!("v{}", number / 4);
    match number % 4 {
        1 => {
            api.post("volumes", &json!({ "name": name, "disk": "d0", "size": "1MiB", "weight": 2 }))
        }
        2 => api.patch("volumes", &name, &json!({ "size": "2MiB", "limit": "70%" })),
        3 => api.delete("volumes", &name, Some(false)),
        // All shares differ, so that the state identifies the last change.
        _ => api.patch("volumes", "a", &json!({ "reserve": format!("{}.{:07}%", 40, number) })),
    }
}

/// The state after the first `count` changes: size, reserve and limit of each volume.
fn expected(count: u64) -> BTreeMap<String, (u64, u64, u64)> {
    const MIB: u64 = 1 << 20;
    const ALL: u64 = 1_000_000_000;
    let last = count / 4 * 4;
    let reserve = if last == 0 { 500_000_000 } else { 400_000_000 + last };
    let mut state = BTreeMap::from([
        ("a".to_owned(), (64 * MIB, reserve, ALL)),
        ("b".to_owned(), (32 * MIB, 300_000_000, ALL)),
    ]);
    let name = format!("v{}", count / 4);
    match count % 4 {
        1 => drop(state.insert(name, (MIB, 0, ALL))),
        2 => drop(state.insert(name, (2 * MIB, 0, 700_000_000))),
        _ => {}
    }
    state
}

fn state(api: &Client) -> BTreeMap<String, (u64, u64, u64)> {
    let one = |volume: &Value| {
        let name = volume["name"].as_str().expect("text").to_owned();
        let size = volume["size_bytes"].as_u64().expect("a number");
        (name, (size, parts(&volume["reserve"]), parts(&volume["limit"])))
    };
    volumes(api).iter().map(one).collect()
}

#[test]
fn a_daemon_killed_amid_changes_restarts_with_all_acknowledged_changes() {
    let scratch = Scratch::new();
    let plan = scratch.write("plan.toml", config("ram"));
    let mut done = 0;
    for kill in 0..kills() {
        let server = Server::unix(scratch.path(), &plan);
        let api = api(&scratch);
        let found = state(&api);
        // The change in progress at the kill may or may not have been made.
        assert!(
            found == expected(done) || found == expected(done + 1),
            "kill {kill}: {done} {found:?}"
        );
        if found == expected(done + 1) {
            done += 1;
        }
        // After this number of acknowledged changes the daemon is killed during further ones.
        let (tell, told) = std::sync::mpsc::channel();
        let asker = std::thread::spawn(move || {
            let mut acknowledged = done;
            loop {
                match ask(&api, acknowledged + 1) {
                    Ok(answer) => assert!(answer.status < 300, "{} {answer:?}", acknowledged + 1),
                    Err(_) => return acknowledged,
                }
                acknowledged += 1;
                let _ = tell.send(());
            }
        });
        for _ in 0..=kill * 7 % 23 {
            told.recv().expect("it goes on until it is killed");
        }
        server.signal(Signal::KILL);
        assert_eq!(server.ended().code, None, "a signal ended it");
        done = asker.join().expect("it saw answers, then none");
    }
    eprintln!("{done} changes were acknowledged over {} kills", kills());
    assert_eq!(scratch.names().iter().filter(|name| name.contains("plan.toml")).count(), 1);
}

#[test]
fn a_thousand_volumes_on_eight_disks_are_listed_and_one_more_is_created() {
    let scratch = Scratch::new();
    let mut text = String::new();
    for disk in 0..8 {
        write!(text, "[[disk]]\nname = \"d{disk}\"\ndrive = \"hgst-7k8\"\n\n")
            .expect("to a string");
    }
    for volume in 0..1_000 {
        let disk = volume % 8;
        write!(
            text,
            "[[volume]]\nname = \"v{volume}\"\ndisk = \"d{disk}\"\nsize = \
                      \"1GiB\"\nreserve = \"0.7%\"\n\n"
        )
        .expect("to a string");
    }
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", text));
    let listed = |count: usize| {
        let ran = spindle(scratch.path(), &["vol", "ls", "--json"]);
        assert_eq!(ran.json()["volumes"].as_array().expect("a list").len(), count);
    };
    listed(1_000);
    let create = ["vol", "create", "one more", "--disk", "d7", "--size", "1GiB"];
    assert_eq!(spindle(scratch.path(), &create).code, Some(0));
    listed(1_001);
    let table = spindle(scratch.path(), &["vol", "ls"]).stdout;
    assert_eq!(table.lines().count(), 1_002, "a head and a line each");
    server.stop();
}

#[test]
fn commands_exit_with_1_when_refused_and_with_2_on_bad_input() {
    let scratch = Scratch::new();
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", config("ram")));
    let ends = |arguments: &[&str], code: i32, words: &str| {
        let ran = spindle(scratch.path(), arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(words), "{arguments:?}: {ran:?}");
        ran
    };
    ends(&["vol", "create", "c", "--disk", "d0", "--size", "1MiB", "--reserve", "20%"], 0, "");
    ends(&["vol", "create", "c", "--disk", "d0", "--size", "1MiB", "--reserve", "20%"], 0, "");
    ends(&["vol", "set", "c", "--reserve", "21%"], 1, "expected at most 20% (what is left");
    ends(&["vol", "set", "c", "--reserve", "lots"], 2, "expected a share from 0% to 100%");
    ends(
        &["vol", "set", "c"],
        2,
        "expected --reserve, --limit, --weight, --priority, --iops, --bandwidth, --latency, \
         --no-stream or --no-latency",
    );
    ends(&["vol", "show", "absent"], 2, "expected one of the volumes");
    ends(&["vol", "resize", "a", "1GiB"], 1, "expected at most 64MiB");
    ends(&["vol", "ls", "--socket", "nowhere"], 2, "expected the API's socket of a daemon");
    ends(&["vol", "resize", "c", "2MiB"], 0, "");
    ends(&["disk", "set", "d0", "--period", "50ms"], 2, "expected a time from 100ms to 10s");
    ends(&["disk", "set", "d0", "--period", "500ms"], 0, "");
    let dry = ["admit", "--dry-run", "--disk", "d0", "--size", "1GiB", "--reserve", "10%"];
    let refused = ends(&dry, 1, "");
    assert!(refused.stdout.contains("a reserve of 0% and a size of"), "{refused:?}");
    ends(&["vol", "rm", "c"], 0, "");
    assert_eq!(ends(&[&dry[..], &["--json"]].concat(), 0, "").json()["admission"]["fits"], true);
    let shown = ends(&["vol", "show", "a", "--json"], 0, "").json();
    assert_eq!((&shown["schema"], &shown["volume"]["reserve"]), (&json!(1), &json!("50%")));
    server.stop();
}

#[test]
fn every_kind_of_contract_is_set_and_listed() {
    let scratch = Scratch::new();
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", config("ram")));
    let set = |arguments: &[&str]| {
        let ran = spindle(scratch.path(), &[&["vol", "set"], arguments].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout
    };
    let table = set(&["a", "--iops", "20/s", "--run", "4", "--limit", "60%", "--priority", "high"]);
    assert!(table.contains("for 20/s in runs of 4 x 4KiB") && table.contains("high"), "{table}");
    let table = set(&["a", "--bandwidth", "1MB/s", "--run", "64", "--block", "64KiB"]);
    assert!(table.contains("in runs of 64 x 64KiB"), "{table}");
    set(&["b", "--reserve", "10%"]);
    let table = spindle(scratch.path(), &["vol", "ls"]).stdout;
    for word in ["contract", "priority", "left", "worth", "deadlines", "10%"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let shown = spindle(scratch.path(), &["disk", "ls"]).stdout;
    assert!(shown.contains("streams") && shown.contains("available"), "{shown}");
    for arguments in [
        &["vol", "set", "a", "--run", "4"][..],
        &["vol", "set", "a", "--block", "64KiB"],
        &["vol", "set", "a", "--bandwidth", "1MB/s"],
        &["vol", "set", "a", "--iops", "20/s", "--reserve", "10%"],
        &["vol", "set", "a", "--iops", "20/s", "--span", "0s..1h"],
        &["vol", "set", "a", "--latency", "400ms"],
        &["vol", "set", "a", "--requests", "5/s"],
    ] {
        let ran = spindle(scratch.path(), arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{arguments:?}: {ran:?}");
    }
    server.stop();
}

#[test]
fn a_bounded_latency_is_created_admitted_shown_and_removed() {
    let scratch = Scratch::new();
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", config("ram")));
    let run = |words: &[&str], more: &[&str], code: i32| {
        let ran = spindle(scratch.path(), &[words, more].concat());
        assert_eq!(ran.code, Some(code), "{words:?} {more:?}: {ran:?}");
        ran.stdout
    };
    run(&["vol", "set", "a", "--reserve", "0%"], &[], 0);
    run(&["vol", "set", "b", "--reserve", "10%"], &[], 0);
    let rate = ["--requests", "5/s", "--request-size", "64KiB", "--latency"];
    let admit = ["admit", "--dry-run", "--disk", "d0", "--size", "16MiB"];
    let admit = [&admit[..], &rate].concat();
    let refused = run(&admit, &["50ms"], 1);
    assert!(refused.starts_with("it does not fit: "), "{refused}");
    assert!(refused.contains("beside ") && refused.contains(" would fit"), "{refused}");
    let (_, offer) = refused.rsplit_once("within = ").expect("a longer one would fit");
    let (offer, _) = offer.split_once([' ', ',']).expect("a time");
    assert!(run(&admit, &[offer], 0).starts_with("it fits\n"));
    let create = ["vol", "create", "log", "--disk", "d0", "--size", "16MiB"];
    let table = run(&[&create[..], &rate].concat(), &["500ms", "--burst", "2"], 0);
    assert!(table.contains("500 ms for 5.0/s of 64KiB"), "{table}");
    let shown = run(&["vol", "show", "log"], &[], 0);
    assert!(shown.contains("2 at once, of at most 64KiB"), "{shown}");
    let shown = run(&["vol", "show", "log", "--json"], &[], 0);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["volume"]["latency"]["within_ms"], json!(500.0), "{shown}");
    assert!(run(&["vol", "ls"], &[], 0).contains("0 met, 0 missed"));
    let table = run(&["vol", "set", "log", "--no-latency"], &[], 0);
    assert!(table.contains("best effort"), "{table}");
    server.stop();
}

#[test]
fn an_open_connection_reaches_what_its_volume_grew_by() {
    let scratch = Scratch::new();
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", config("ram")));
    let address = server.address.parse().expect("an address");
    let mut connected = nbd::client::Client::connect(&address).expect("it listens");
    assert_eq!(connected.go("b").expect("it is served").size.0, 32 << 20);
    let beyond = Extent::new(Lba(32 << 11), Sectors(8));
    assert!(connected.read(beyond).is_err(), "the volume ends there");
    let grown = spindle(scratch.path(), &["vol", "resize", "b", "40MiB"]);
    assert_eq!(grown.code, Some(0), "{grown:?}");
    connected.write(beyond, &[7; 4096]).expect("the volume has grown");
    assert_eq!(connected.read(beyond).expect("it is there"), [7; 4096]);
    let past = Extent::new(Lba(40 << 11), Sectors(8));
    assert!(connected.read(past).is_err(), "the new end");
    connected.disconnect().expect("it is connected");
    server.stop();
}
