//! `spindle emulate`: a drive alone, served over NBD. As a device of the kernel it is tested in a
//! guest (`tests/guest`).

use testkit::{Scratch, Server, noise, spindle, succeed};

const MIB: usize = 1 << 20;

fn emulate(scratch: &Scratch, arguments: &[&str]) -> Server {
    Server::run(scratch.path(), &[&["emulate", "--nbd", "unix:nbd.sock"], arguments].concat())
}

#[test]
fn a_drive_has_its_own_size_or_the_one_that_is_asked_for() {
    let scratch = Scratch::new();
    for (arguments, bytes) in
        [(&["hgst-7k8"][..], "8001563222016"), (&["barracuda-2t", "--size", "64MiB"], "67108864")]
    {
        let server = emulate(&scratch, arguments);
        let uri = server.uri("emulated");
        let size = succeed("nbdinfo", &["--size", &uri], scratch.path());
        assert_eq!(size.trim(), bytes, "{arguments:?}");
        assert_eq!(server.stop().stdout.trim(), "nbd+unix:///emulated?socket=nbd.sock");
    }
}

#[test]
fn what_was_written_is_kept_in_the_backing_file() {
    let scratch = Scratch::new();
    let image = noise(4 * MIB, 7);
    scratch.write("image.raw", &image);
    let arguments = ["samsung-870evo-1t", "--size", "4MiB", "--backing", "disk.img"];
    let server = emulate(&scratch, &arguments);
    succeed("nbdcopy", &["image.raw", &server.uri("emulated")], scratch.path());
    server.stop();
    let server = emulate(&scratch, &arguments);
    succeed("nbdcopy", &[&server.uri("emulated"), "back.raw"], scratch.path());
    server.stop();
    assert!(std::fs::read(scratch.join("back.raw")).expect("it was copied") == image, "all of it");
}

#[test]
fn what_is_no_drive_or_no_size_is_refused_in_one_line() {
    let scratch = Scratch::new();
    for (arguments, words) in [
        (&["no-drive"][..], "expected a drive of the library"),
        (&["hgst-7k8", "--size", "9TiB"], "expected a size from 1MiB to 7.27TiB"),
        (&["hgst-7k8", "--size", "4KiB"], "expected a size from 1MiB to 7.27TiB"),
        (&["--profile", "absent.toml"], "absent.toml"),
    ] {
        let ran = spindle(scratch.path(), &[&["emulate", "--nbd", "unix:x"], arguments].concat());
        assert!(ran.refusal().contains(words), "{arguments:?}: {ran:?}");
    }
}
