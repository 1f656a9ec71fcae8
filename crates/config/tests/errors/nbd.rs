//! `[nbd]`, and the clients of a volume.

use super::*;

#[test]
fn limits_out_of_their_range() {
    for (line, expected) in [
        (
            "connections = 0",
            "field `connections`: found `0`, expected a whole number from 1 to 1024",
        ),
        ("requests = 257", "field `requests`: found `257`, expected a whole number from 1 to 256"),
        ("memory = \"1MB\"", "field `memory`: found `1MB`, expected a size from 1MiB to 64MiB"),
        ("stall = \"0s\"", "field `stall`: found `0s`, expected a time from 1ms to 86400s"),
        ("list = 1", "field `list`: found `1`, expected true or false, without quotes"),
    ] {
        let message = refused(&[], &format!("[nbd]\n{line}\n"));
        assert_eq!(message, format!("plan.toml:2: [nbd]: {expected}"));
    }
}

#[test]
fn tls_without_its_files_or_files_without_tls() {
    assert_eq!(
        refused(&[], "[nbd]\ntls = \"on\"\n"),
        "plan.toml:2: [nbd]: field `tls`: found `on`, expected \"off\", \"allowed\" or \"required\""
    );
    let lacking = refused(&[], "[nbd]\ntls = \"required\"\ncertificate = \"a.crt\"\n");
    assert!(lacking.contains("field `key`: "), "{lacking}");
    assert_eq!(
        refused(&[], "[nbd]\nkey = \"a.key\"\n"),
        "plan.toml:2: [nbd]: field `key`: found `a.key`, expected no file: `tls` is off; or tls \
         = \"required\""
    );
}

#[test]
fn clients_that_match_no_certificate() {
    for bad in ["vm", "CN=", "CN:vm", "sha256:", "sha256=00", "sha256:0g", "O=disks"] {
        let message = refused(&[DISK], &format!("{VOLUME}clients = [\"{bad}\"]\n"));
        let expected = "expected `CN=NAME`, or `sha256:` and a certificate's fingerprint";
        assert!(
            message.contains(&format!("field `clients`: found `{bad}`, {expected}")),
            "{message}"
        );
    }
}

#[test]
fn valid_settings_are_in_the_plan() {
    let digits = "0A:".repeat(31) + "ff";
    let text = format!(
        "[nbd]\nlist = false\nmemory = \"2MiB\"\ntls = \"allowed\"\ncertificate = \"a\"\nkey = \
         \"b\"\n\
         client_ca = \"c\"\n{DISK}{VOLUME}clients = [\"CN=vm 7\", \"sha256:{digits}\"]\n"
    );
    let plan = Plan::parse(&text, "plan.toml", Path::new("/etc")).expect("it is right");
    assert!(!plan.nbd.list && plan.nbd.memory.0 == 2 << 20);
    let tls = plan.nbd.tls.expect("it is allowed");
    assert_eq!((tls.required, tls.client_ca.as_deref()), (false, Some(Path::new("/etc/c"))));
    let clients = plan.volumes[0].clients.clone().expect("they are named");
    assert_eq!(clients, ["CN=vm 7".to_owned(), format!("sha256:{digits}")]);
}
