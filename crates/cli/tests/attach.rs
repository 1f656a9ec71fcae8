//! What cannot be attached, detached, emulated or offered to virtual machines is refused in one
//! line that says what was found and what to do. What needs a driver of the kernel is refused in
//! guests (`tests/guest`).

use std::fs;
use std::path::Path;

use testkit::{Ran, Scratch, Server, config, spindle};

/// Whether this machine's kernel has the driver of this name.
fn has_driver(name: &str) -> bool {
    match name {
        "nbd" => Path::new("/sys/block/nbd0").exists(),
        _ => Path::new("/dev/ublk-control").exists(),
    }
}

fn assert_refused(ran: &Ran, arguments: &[&str], words: &str) {
    assert!(ran.refusal().contains(words), "{arguments:?}: {ran:?}");
}

#[test]
fn what_cannot_be_detached_is_refused_with_what_to_do() {
    let scratch = Scratch::new();
    for (arguments, words) in [
        (
            &["detach", "/dev/sda"][..],
            "found `/dev/sda`, expected a device such as /dev/nbd0 or /dev/ublkb0, or a volume",
        ),
        (
            &["detach", "/dev/nbd4000000000"],
            "found no /dev/nbd4000000000, expected one of the devices of `spindle attach --list`",
        ),
        (
            &["detach", "vm1"],
            "found no device attached to volume \"vm1\", expected one of the volumes of `spindle \
             attach --list`",
        ),
    ] {
        assert_refused(&spindle(scratch.path(), arguments), arguments, words);
    }
}

#[test]
fn without_a_driver_each_command_names_it() {
    let scratch = Scratch::new();
    let nbd = "found no NBD driver in the kernel, expected one (`modprobe nbd`; it is visible in \
               the host's network namespace alone)";
    let ublk = "found no ublk driver in the kernel, expected one (`modprobe ublk_drv`, Linux 6.5 \
                or later with CONFIG_BLK_DEV_UBLK; or `spindle attach` over NBD)";
    if has_driver("nbd") {
        println!("SKIPPED: this kernel has an NBD driver");
    } else {
        for (arguments, words) in [
            (&["attach", "vm1"][..], nbd),
            (&["attach", "vm1", "/dev/nbd0", "--supervise"], nbd),
            (&["emulate", "hgst-7k8", "--device", "/dev/nbd0"], "or `--nbd ADDRESS`, which needs"),
        ] {
            assert_refused(&spindle(scratch.path(), arguments), arguments, words);
        }
    }
    if has_driver("ublk") {
        println!("SKIPPED: this kernel has a ublk driver");
        return;
    }
    let arguments = &["detach", "/dev/ublkb0"][..];
    assert_refused(&spindle(scratch.path(), arguments), arguments, ublk);
    let plan = config("ram");
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", &plan));
    let arguments = &["attach", "--ublk", "a"][..];
    assert_refused(&spindle(scratch.path(), arguments), arguments, ublk);
    let kept = fs::read_to_string(scratch.join("plan.toml")).expect("the config");
    assert_eq!(kept, plan, "a device that could not be made is not in the config");
    server.stop();
    scratch.write("plan.toml", plan + "ublk = true\n");
    let ran = Server::refused(scratch.path(), &["plan.toml", "--listen", "unix:nbd.sock"]);
    assert_refused(&ran, &["serve"], ublk);
}

#[test]
fn a_daemon_or_a_volume_that_is_absent_is_named() {
    let scratch = Scratch::new();
    let arguments = &["attach", "--ublk", "vm1"][..];
    let words = "spindle-api.sock";
    assert_refused(&spindle(scratch.path(), arguments), arguments, words);
    let server = Server::unix(scratch.path(), &scratch.write("plan.toml", config("ram")));
    assert_refused(
        &spindle(scratch.path(), arguments),
        arguments,
        "found `vm1`, expected one of the volumes \"a\", \"b\"",
    );
    server.stop();
}

/// A daemon with sockets for virtual machines in `directory`, and what it said.
fn vhost_user(scratch: &Scratch, directory: &str, volume: &str) -> String {
    let text = format!("[listen]\nvhost_user = \"{directory}\"\n\n{}", config("ram"));
    let plan = scratch.write("plan.toml", text.replace("name = \"a\"", volume));
    let ran = Server::unix(scratch.path(), &plan).stop();
    let lines: Vec<_> = ran.stderr.lines().filter(|line| line.starts_with("vhost-user")).collect();
    lines.join("\n")
}

#[test]
fn a_volume_without_a_socket_for_virtual_machines_is_named_with_the_reason() {
    let scratch = Scratch::new();
    assert_eq!(vhost_user(&scratch, "vhost", "name = \"a\""), "");
    let said = vhost_user(&scratch, "vhost", &format!("name = \"{}\"", "n".repeat(120)));
    assert!(said.contains("expected at most 107 (name a shorter directory in"), "{said}");
    let said = vhost_user(&scratch, "vhost", "name = \"a\"\nclients = [\"CN=vm7\"]");
    assert!(said.contains("found `clients`, expected none"), "{said}");
    fs::write(scratch.join("vhost/a.sock"), "").expect("it is written");
    let said = vhost_user(&scratch, "vhost", "name = \"a\"");
    assert!(said.contains("(there is a file that is no socket; stop what is there, or"), "{said}");
}

#[test]
fn a_directory_for_sockets_that_is_none_is_refused() {
    let scratch = Scratch::new();
    let text = format!("[listen]\nvhost_user = \"plan.toml\"\n\n{}", config("ram"));
    scratch.write("plan.toml", text);
    let ran = Server::refused(scratch.path(), &["plan.toml", "--listen", "unix:nbd.sock"]);
    let words = "[listen]: field `vhost_user`: found `plan.toml`, expected a directory for sockets";
    assert_refused(&ran, &["serve"], words);
}
