//! Protocol features beyond reading and writing, used by other projects' clients.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::{Scratch, Server, client, config, noise, run, succeed};

const MIB: usize = 1 << 20;

fn serve(scratch: &Scratch) -> Server {
    Server::unix(scratch.path(), &scratch.write("plan.toml", config("ram")))
}

/// The volume's block status: first byte, length, and the client's word for the state.
fn map(directory: &Path, uri: &str) -> Vec<(u64, u64, String)> {
    let said = succeed("nbdinfo", &["--map", "--json", uri], directory);
    let all: Value = serde_json::from_str(&said).expect("JSON");
    let run = |run: &Value| {
        let number = |key: &str| run[key].as_u64().expect("a number");
        let kind = run["description"].as_str().expect("words").to_owned();
        (number("offset"), number("length"), kind)
    };
    all.as_array().expect("a list").iter().map(run).collect()
}

#[test]
fn block_status_distinguishes_data_and_holes() {
    let scratch = Scratch::new();
    for backing in ["ram", "disk.img"] {
        let server = Server::unix(scratch.path(), &scratch.write("plan.toml", config(backing)));
        let uri = server.uri("a");
        let mib = MIB as u64;
        let (data, hole) = ("data".to_owned(), "hole,zero".to_owned());
        assert_eq!(map(scratch.path(), &uri), [(0, 64 * mib, hole.clone())]);
        // Write zeroes with and without permission to leave a hole.
        let commands = ["write -P 9 1M 4M", "write -z -u 2M 1M", "write -z 8M 1M"];
        let mut arguments = vec!["-f", "raw", "-t", "writeback"];
        arguments.extend(commands.iter().flat_map(|command| ["-c", command]));
        arguments.push(&uri);
        succeed("qemu-io", &arguments, scratch.path());
        let expected = [(0, 1, &hole), (1, 1, &data), (2, 1, &hole), (3, 2, &data), (5, 3, &hole)];
        let rest = [(8, 1, &data), (9, 55, &hole)];
        let expected = expected.iter().chain(&rest);
        let expected: Vec<_> =
            expected.map(|(at, len, kind)| (at * mib, len * mib, (*kind).clone())).collect();
        assert_eq!(map(scratch.path(), &uri), expected, "{backing}");
        server.stop();
    }
}

#[test]
fn nbdcopy_and_qemu_img_copy_to_a_volume_and_back() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let mut image = noise(32 * MIB, 2);
    image[3 * MIB..20 * MIB].fill(0);
    scratch.write("image.raw", &image);
    let uri = server.uri("b");
    succeed("nbdcopy", &["--connections=4", "image.raw", &uri], scratch.path());
    succeed("nbdcopy", &["--connections=4", &uri, "back.raw"], scratch.path());
    assert!(std::fs::read(scratch.join("back.raw")).expect("it is there") == image);
    let said = succeed("qemu-img", &["map", "--output=json", "-f", "raw", &uri], scratch.path());
    let runs: Value = serde_json::from_str(&said).expect("JSON");
    let holes = runs.as_array().expect("a list").iter().filter(|run| run["data"] == false);
    assert_eq!(holes.map(|run| run["length"].as_u64().unwrap_or(0)).sum::<u64>(), 17 << 20);
    succeed("qemu-img", &["convert", "-f", "raw", "-O", "raw", &uri, "converted"], scratch.path());
    assert!(std::fs::read(scratch.join("converted")).expect("it is there") == image);
    server.stop();
}

#[test]
fn abilities_are_those_of_the_disk() {
    let scratch = Scratch::new();
    let server = serve(&scratch);
    let said = succeed("nbdinfo", &["--json", &server.uri("a")], scratch.path());
    let said: Value = serde_json::from_str(&said).expect("JSON");
    let export = &said["exports"][0];
    for (ability, has) in [
        ("is_rotational", true),
        ("can_df", true),
        ("can_fast_zero", true),
        ("can_multi_conn", true),
        ("can_cache", false),
    ] {
        assert_eq!(export[ability], has, "{ability}: {export}");
    }
    assert_eq!(export["description"], "on disk d0, a hgst-7k8");
    assert_eq!(export["contexts"][0], "base:allocation");
    server.stop();
}

#[test]
fn a_hidden_list_is_refused_and_its_volumes_open_by_name() {
    let scratch = Scratch::new();
    let plan = scratch.write("plan.toml", "[nbd]\nlist = false\n".to_owned() + &config("ram"));
    let server = Server::unix(scratch.path(), &plan);
    let mut command = client("nbdinfo");
    command.args(["--list", &server.uri("")]);
    let refused = run(command, scratch.path());
    assert_eq!((refused.code, refused.stdout.contains("\"a\"")), (Some(1), false));
    succeed("nbdinfo", &["--size", &server.uri("a")], scratch.path());
    server.stop();
}

#[test]
fn the_server_listens_on_sockets_of_a_service_manager() {
    let scratch = Scratch::new();
    let one = config("ram").split("\n[[volume]]\nname = \"b\"").next().map(str::to_owned);
    let plan = scratch.write("plan.toml", one.expect("a first part"));
    let server = env!("CARGO_BIN_EXE_spindle");
    // The client opens the socket and starts the server with it, as systemd does.
    let activated = ["--size", "--", "[", server, "serve", &plan, "--api", "none", "]"];
    let said = succeed("nbdinfo", &activated, scratch.path());
    let size = (64 * MIB).to_string();
    assert!(said.lines().any(|line| line == size), "both print to one stream: {said}");
}

/// Certificates signed by `ca`, under the file names that clients expect.
fn certificates(scratch: &Scratch) {
    let script = "set -e
        ec='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
        openssl req -x509 -days 30 $ec -keyout ca.key -out ca-cert.pem -subj /CN=ca
        for name in localhost vm other; do
          mkdir -p $name && cp ca-cert.pem $name
          openssl req $ec -keyout $name/client-key.pem -out $name.csr -subj /CN=$name
          printf 'subjectAltName=DNS:%s,IP:127.0.0.1' $name > ext
          openssl x509 -req -days 30 -in $name.csr -out $name/client-cert.pem \\
            -CA ca-cert.pem -CAkey ca.key -CAcreateserial -extfile ext
        done
        mkdir none && cp ca-cert.pem none";
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let ran = run(command, scratch.path());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn with_tls_a_client_without_the_right_certificate_sees_no_name_and_no_byte() {
    let scratch = Scratch::new();
    certificates(&scratch);
    let tls = "[nbd]\ntls = \"required\"\ncertificate = \"localhost/client-cert.pem\"\n\
               key = \"localhost/client-key.pem\"\nclient_ca = \"ca-cert.pem\"\n";
    let volumes = config("ram").replace("reserve = \"30%\"", "clients = [\"CN=vm\"]");
    let plan = scratch.write("plan.toml", tls.to_owned() + &volumes);
    let server = Server::start(scratch.path(), &plan, &["--listen", "127.0.0.1:0"]);
    let port = server.address.rsplit(':').next().expect("a port");
    let uri = |name: &str, volume: &str| {
        let directory = scratch.join(name);
        format!("nbds://localhost:{port}/{volume}?tls-certificates={}", directory.display())
    };
    let list = |uri: &str| {
        let mut command = client("nbdinfo");
        command.args(["--list", uri]);
        run(command, scratch.path())
    };
    for (name, sees) in [("vm", [true, true]), ("other", [true, false]), ("none", [false; 2])] {
        let ran = list(&uri(name, ""));
        let listed = ["a", "b"].map(|volume| ran.stdout.contains(&format!("export=\"{volume}\"")));
        assert_eq!(listed, sees, "{name}: {ran:?}");
        let mut command = client("nbdinfo");
        command.args(["--size", &uri(name, "b")]);
        assert_eq!(run(command, scratch.path()).code == Some(0), sees[1], "{name}");
    }
    let plain = list(&format!("nbd://localhost:{port}/"));
    assert!(plain.code == Some(1) && !plain.stdout.contains("export="), "{plain:?}");
    scratch.write("image.raw", noise(8 * MIB, 3));
    succeed("nbdcopy", &["image.raw", &uri("vm", "b")], scratch.path());
    let credentials =
        format!("tls-creds-x509,id=t,endpoint=client,dir={}", scratch.join("vm").display());
    let image = format!("driver=nbd,host=localhost,port={port},export=b,tls-creds=t");
    let read = ["--object", &credentials, "--image-opts", &image, "-r", "-c"];
    let first = std::fs::read(scratch.join("image.raw")).expect("it is there")[0];
    let pattern = format!("read -P {first} 0 1");
    let mut arguments = read.to_vec();
    arguments.push(&pattern);
    succeed("qemu-io", &arguments, scratch.path());
    server.stop();
}
