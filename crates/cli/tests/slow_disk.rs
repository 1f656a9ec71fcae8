//! A disk of a mirror that answers slowly, or not at all, is taken out, and the mirror goes on.

use testkit::{Scratch, Server, pattern, spindle, verified, verifying};

/// Two mirrors and a volume without copies; the second disk stalls. The disks are flash, so that
/// what is not stalled is fast.
fn config(stall: &str, last: &str) -> String {
    let disk = |name: &str, faults: &str| {
        format!(
            "[[disk]]\nname = \"{name}\"\ndrive = \"samsung-870evo-1t\"\n\
             backing = \"{name}.img\"\n{faults}\n"
        )
    };
    format!(
        "{}{}[pool]\ndisks = [\"d0\", \"d1\"]\nslow_after = \"500ms\"\n\
         [[pool.volume]]\nname = \"a\"\nsize = \"48MiB\"\nlayout = \"mirror\"\n\
         [[pool.volume]]\nname = \"b\"\nsize = \"16MiB\"\nlayout = \"{last}\"\n",
        disk("d0", ""),
        disk("d1", &format!("faults = {{ {stall} }}")),
    )
}

/// A pool that was created on disks that do not stall, and is served on one that does.
fn served(stall: &str, last: &str) -> (Scratch, Server) {
    let scratch = Scratch::new();
    scratch.write("plan.toml", config("seed = 1", last));
    let ran = spindle(scratch.path(), &["pool", "create", "--config", "plan.toml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    scratch.write("plan.toml", config(stall, last));
    let server = Server::unix(scratch.path(), "plan.toml");
    (scratch, server)
}

/// The state of the disk that stalls.
fn state(scratch: &Scratch) -> String {
    let ran = spindle(scratch.path(), &["pool", "status", "--json"]).json();
    let disks = ran["pool"]["disks"].as_array().expect("a list").clone();
    let found = disks.iter().find(|one| one["name"] == "d1").expect("it is of the pool");
    found["state"].as_str().expect("a word").to_owned()
}

fn verify(server: &Server, scratch: &Scratch) {
    let shape = ["--bsrange=4k-64k", "--iodepth=4", "--size=16m", "--thread", "--fsync=16"];
    verified(verifying(server, "a", &shape, scratch));
}

#[test]
fn a_disk_that_answers_slowly_again_and_again_is_taken_out() {
    let (scratch, server) = served("stall = \"100%\", stall_for = \"600ms\"", "mirror");
    verify(&server, &scratch);
    assert_eq!(state(&scratch), "out");
    // Its commands have been answered: it can be opened again, and is taken out again.
    loop {
        let ran = spindle(scratch.path(), &["disk", "reopen", "d1"]);
        if ran.code == Some(0) {
            break;
        }
        assert!(ran.stderr.contains("since it was given up as slow"), "{ran:?}");
    }
    verify(&server, &scratch);
    while state(&scratch) != "out" {
        pattern(&server, "a", "write -P 7 0 1M", &scratch);
    }
    let ran = server.stop();
    let said = "disk d1: too slow: its last 16 commands each took at least 500ms: taken out";
    assert!(ran.stderr.contains(said), "{ran:?}");
}

#[test]
fn a_disk_that_does_not_answer_is_taken_out_and_not_opened_again_before_it_has_answered() {
    let (scratch, server) = served("stall = \"2%\", stall_for = \"10min\"", "mirror");
    verify(&server, &scratch);
    assert_eq!(state(&scratch), "out");
    let ran = spindle(scratch.path(), &["disk", "reopen", "d1"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("since it was given up as slow"), "{ran:?}");
    pattern(&server, "a", "write -P 7 0 8M", &scratch);
    pattern(&server, "a", "read -P 7 0 8M", &scratch);
    let ran = server.stop();
    assert!(ran.stderr.contains("disk d1: too slow: a command has had no answer for"), "{ran:?}");
}

#[test]
fn a_slow_disk_that_alone_has_data_stays() {
    let (scratch, server) = served("stall = \"100%\", stall_for = \"600ms\"", "stripe");
    for _ in 0..12 {
        pattern(&server, "a", "write -P 7 0 1M", &scratch);
    }
    assert_eq!(state(&scratch), "in");
    let ran = server.stop();
    assert!(!ran.stderr.contains("too slow"), "{ran:?}");
}
