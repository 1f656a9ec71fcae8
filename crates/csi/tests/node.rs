//! The driver's calls on a node, cut short by kills and made on volumes with other content.
//!
//! `SPINDLE_STEPS=all` ends the driver after each step of each call on ext4 and xfs, both alone and
//! with its processes. Without, it is ext4: with its processes while a file system is made, and
//! alone afterwards.

mod support;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use support::caller::{Call, Claim};
use support::node::Node;
use tonic::Code;

const MIB: i64 = 1 << 20;
/// More than the smallest XFS.
const XFS: i64 = 320 * MIB;
const EXT4: i64 = 64 * MIB;
const LIFE: [Call; 4] = [Call::Stage, Call::Publish, Call::Unpublish, Call::Unstage];
const CONTENT: &str = "what a pod has written";
/// The bytes at either end of a device that are compared: all signatures lie there.
const ENDS: usize = 8 << 20;

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a thread").block_on(test)
}

fn write_content(node: &Node, claim: &Claim) {
    let file = format!("{}/content", node.caller.target(claim));
    std::fs::write(file, CONTENT).expect("the file system is published");
}

fn check_content(node: &Node, claim: &Claim) {
    let file = format!("{}/content", node.caller.target(claim));
    let found = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert_eq!(found, CONTENT);
}

/// Whether the processes of the driver end with it.
type WithGroup = bool;

/// Makes a call that is cut short after a step, and repeats it. Returns false if it has no such
/// step.
async fn cut_short(
    node: &Node,
    (call, claim): (Call, &Claim),
    (step, with_group): (u64, WithGroup),
) -> bool {
    let mut options = vec!["--end-after".to_owned(), step.to_string()];
    options.extend(with_group.then(|| "--end-with-group".to_owned()));
    let mut driver = node.driver(&options);
    let Err(status) = node.caller.once(call, claim).await else { return false };
    let ended = async {
        while !driver.has_ended() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_mins(1), ended).await;
    ended.unwrap_or_else(|_| panic!("{call:?}, step {step}: it answers with {status}"));
    let _driver = node.driver(&[]);
    // Twice is as good as once.
    node.caller.all(&[call, call], claim).await;
    true
}

/// A volume that has nothing on it is cut short at each step of its first staging.
async fn make_file_systems(node: &Node, (kind, bytes): (&'static str, i64), groups: &[WithGroup]) {
    for step in 1.. {
        let mut is_cut = false;
        for with_group in groups {
            let claim = Claim::new(&format!("new-{kind}-{step}-{with_group}"), Some(kind));
            let driver = node.driver(&[]);
            node.caller.create(&claim, bytes, None).await;
            drop(driver);
            is_cut |= cut_short(node, (Call::Stage, &claim), (step, *with_group)).await;
            let _driver = node.driver(&[]);
            node.caller.all(&LIFE[..2], &claim).await;
            write_content(node, &claim);
            node.caller.all(&LIFE[2..], &claim).await;
            node.caller.all(&LIFE[..2], &claim).await;
            check_content(node, &claim);
            node.caller.all(&LIFE[2..], &claim).await;
            node.check_nothing_left();
            node.caller.delete(&claim).await;
        }
        if !is_cut {
            println!("{kind}: the first staging was cut short at {} steps", step - 1);
            assert!(step > 10, "it has as many steps");
            return;
        }
    }
}

/// A volume with content is cut short at each step of each call.
async fn use_again(node: &Node, (kind, bytes): (&'static str, i64), groups: &[WithGroup]) {
    let claim = Claim::new(&format!("used-{kind}"), Some(kind));
    let driver = node.driver(&[]);
    node.caller.create(&claim, bytes, None).await;
    node.caller.all(&LIFE[..2], &claim).await;
    write_content(node, &claim);
    node.caller.all(&LIFE[2..], &claim).await;
    drop(driver);
    for (at, call) in LIFE.into_iter().enumerate() {
        let mut steps = 0;
        'steps: for step in 1.. {
            for with_group in groups {
                let driver = node.driver(&[]);
                node.caller.all(&LIFE[..at], &claim).await;
                drop(driver);
                let is_cut = cut_short(node, (call, &claim), (step, *with_group)).await;
                let _driver = node.driver(&[]);
                for next in &LIFE[at + 1..] {
                    if *next == Call::Unpublish {
                        check_content(node, &claim);
                    }
                    node.caller.all(&[*next], &claim).await;
                }
                node.check_nothing_left();
                if !is_cut {
                    break 'steps;
                }
            }
            steps = step;
        }
        println!("{kind}: {call:?} was cut short at {steps} steps");
        assert!(steps > 1, "it has as many steps");
    }
    let _driver = node.driver(&[]);
    node.caller.all(&LIFE[..2], &claim).await;
    check_content(node, &claim);
    node.caller.all(&LIFE[2..], &claim).await;
    node.caller.delete(&claim).await;
}

#[test]
fn a_call_that_a_kill_cuts_short_is_finished_by_its_repetition() {
    let is_all = std::env::var_os("SPINDLE_STEPS").is_some();
    run(async {
        let Some(node) = Node::new("the driver with kills at each step") else { return };
        if is_all {
            for kind in [("ext4", EXT4), ("xfs", XFS)] {
                make_file_systems(&node, kind, &[false, true]).await;
                use_again(&node, kind, &[false, true]).await;
            }
        } else {
            make_file_systems(&node, ("ext4", EXT4), &[true]).await;
            use_again(&node, ("ext4", EXT4), &[false]).await;
        }
    });
}

/// What is on a device, at its ends.
fn ends_of(device: &str) -> Vec<u8> {
    let mut file = File::open(device).expect("it is published");
    let mut ends = vec![0; 2 * ENDS];
    file.read_exact(&mut ends[..ENDS]).expect("it is larger");
    file.seek(SeekFrom::End(-i64::try_from(ENDS).expect("few"))).expect("it is larger");
    file.read_exact(&mut ends[ENDS..]).expect("its end");
    ends
}

/// Runs a tool of the system with an input; returns what it says if it fails.
fn tool(words: &[&str], input: &str) -> Result<(), String> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", words[0]))?;
    let mut stdin = child.stdin.take().expect("it is piped");
    // A tool that does not read its input may have ended.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{words:?}: {said}")) }
}

/// Writes a signature as its own tool does.
fn sign(kind: &str, device: &str) -> Result<(), String> {
    let sfdisk = ["sfdisk", "-q", "--no-reread", "--no-tell-kernel", device];
    match kind {
        "ext4" => tool(&["mkfs.ext4", "-q", "-F", device], ""),
        "xfs" => tool(&["mkfs.xfs", "-q", "-f", device], ""),
        "swap" => tool(&["mkswap", device], ""),
        "dos" | "gpt" => tool(&sfdisk, &format!("label: {kind}\n,\n")),
        "LVM2_member" => tool(&["pvcreate", "-q", "-y", device], ""),
        "linux_raid_member" => {
            let create = ["mdadm", "--create", "/dev/md77", "--run", "--level=1"];
            let of = ["--raid-devices=2", "--metadata=1.2", device, "missing"];
            tool(&[&create[..], &of[..]].concat(), "")?;
            tool(&["mdadm", "--stop", "/dev/md77"], "")
        }
        other => panic!("no tool for {other}"),
    }
}

#[test]
fn a_volume_with_another_signature_is_refused_and_left_as_it_is() {
    let kinds = ["ext4", "xfs", "swap", "dos", "gpt", "LVM2_member", "linux_raid_member"];
    run(async {
        let Some(node) = Node::new("the driver on foreign signatures") else { return };
        let _driver = node.driver(&[]);
        for kind in kinds {
            let block = Claim::new(&format!("signed-{kind}"), None);
            node.caller.create(&block, XFS, None).await;
            node.caller.all(&LIFE[..2], &block).await;
            let device = node.device(&block);
            if let Err(said) = sign(kind, &device) {
                // Without `md` in the kernel there is no RAID to be made.
                assert_eq!(kind, "linux_raid_member", "{said}");
                eprintln!("SKIPPED: a member of a RAID was NOT tried: {}", said.trim());
                node.caller.all(&LIFE[2..], &block).await;
                continue;
            }
            File::open(&device).and_then(|file| file.sync_all()).expect("it is written");
            let before = ends_of(&device);
            node.caller.all(&LIFE[2..], &block).await;
            let other = if kind == "ext4" { "xfs" } else { "ext4" };
            for asked in [other, "xfs", "ext4"].into_iter().filter(|asked| *asked != kind) {
                let claim = block.used_as(Some(asked));
                let status =
                    node.caller.once(Call::Stage, &claim).await.expect_err("it is refused");
                assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
                let words = format!("has a signature of {kind}, expected {asked} or none");
                assert!(status.message().contains(&words), "{status}");
                node.caller.all(&[Call::Unstage], &claim).await;
            }
            node.caller.all(&LIFE[..2], &block).await;
            assert!(ends_of(&node.device(&block)) == before, "{kind}: it was written to");
            node.caller.all(&LIFE[2..], &block).await;
            node.check_nothing_left();
            node.caller.delete(&block).await;
        }
    });
}
