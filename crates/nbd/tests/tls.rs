//! Encrypted connections, with a client that is rustls itself. Certificates are made by `openssl`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use spindle_nbd::memory::{FixedExports, MemoryHandler};
use spindle_nbd::{Address, ClientName, Export, ExportId, Handle, Server, Settings, Tls, TlsFiles};
use tempfile::TempDir;
use units::{Bytes, Instant};

/// An authority, a server's certificate, and those of two clients; and of one client that another
/// authority knows.
struct Certificates(TempDir);

impl Certificates {
    fn new() -> Self {
        let all = Self(TempDir::new().expect("a directory"));
        for authority in ["ca", "stranger-ca"] {
            let (key, certificate) = (format!("{authority}.key"), format!("{authority}.crt"));
            let subject = format!("/CN={authority}");
            let made = ["req", "-x509", "-days", "30", "-nodes", "-newkey", "ec", "-pkeyopt"];
            let files = ["ec_paramgen_curve:P-256", "-keyout", &key, "-out", &certificate];
            all.openssl(&[&made[..], &files, &["-subj", &subject]].concat());
        }
        for (name, authority) in
            [("localhost", "ca"), ("vm", "ca"), ("other", "ca"), ("mallory", "stranger-ca")]
        {
            all.sign(name, authority, "30");
        }
        all.sign("expired", "ca", "-1");
        all
    }

    fn sign(&self, name: &str, authority: &str, days: &str) {
        let file = |end: &str| format!("{name}.{end}");
        let (key, request, certificate) = (file("key"), file("csr"), file("crt"));
        let subject = format!("/O=disks/CN={name}");
        let made = ["req", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
        let files = ["-keyout", &key, "-out", &request, "-subj", &subject];
        self.openssl(&[&made[..], &files].concat());
        std::fs::write(self.file("ext"), format!("subjectAltName=DNS:{name}")).expect("written");
        let (ca, ca_key) = (format!("{authority}.crt"), format!("{authority}.key"));
        let signed = ["x509", "-req", "-days", days, "-in", &request, "-out", &certificate];
        let by = ["-CA", &ca, "-CAkey", &ca_key, "-CAcreateserial", "-extfile", "ext"];
        self.openssl(&[&signed[..], &by].concat());
    }

    fn openssl(&self, arguments: &[&str]) {
        let mut command = Command::new("openssl");
        let ran = command.args(arguments).current_dir(self.0.path()).output();
        let ran = ran.expect("`openssl` is not installed: `make test` installs what is needed");
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn client(&self, name: Option<&str>) -> Arc<ClientConfig> {
        let certificate = |path: &Path| CertificateDer::from_pem_file(path).expect("PEM");
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.file("ca.crt"))).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("there are")
            .with_root_certificates(roots);
        Arc::new(match name {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let own = certificate(&self.file(&format!("{name}.crt")));
                let key = PrivateKeyDer::from_pem_file(self.file(&format!("{name}.key")));
                builder.with_client_auth_cert(vec![own], key.expect("PEM")).expect("they match")
            }
        })
    }
}

/// A server of two exports: `secret` for the client `vm`, and `shared` for every client with a
/// certificate.
struct Running {
    address: Address,
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(certificates: &Certificates) -> Self {
        Self::start_with(certificates, true)
    }

    /// With TLS required, or optional.
    fn start_with(certificates: &Certificates, required: bool) -> Self {
        let export = |id, name: &str| Export::new(ExportId(id), name, Bytes(1 << 20));
        let mut secret = export(0, "secret");
        secret.clients = Some(vec![ClientName::CommonName("vm".into())]);
        let exports = FixedExports(vec![secret, export(1, "shared")]);
        let files = TlsFiles {
            certificate: certificates.file("localhost.crt"),
            key: certificates.file("localhost.key"),
            client_authorities: Some(certificates.file("ca.crt")),
        };
        let tls = Some(Tls::read(&files, required).expect("they are right"));
        let server = Server::bind(&["127.0.0.1:0".parse().expect("an address")]).expect("free");
        let settings = Settings { tls, ..Settings::default() };
        let server = server.with_settings(settings).expect("within the limits");
        let address = server.addresses().expect("bound").remove(0);
        let (handle, mut memory) = (server.handle(), MemoryHandler::new(&exports, &server));
        let thread = std::thread::spawn(move || {
            server.run(&exports, &mut memory, &|| Instant::ZERO).expect("polls");
        });
        Self { address, handle, thread: Some(thread) }
    }

    /// A connection on which TLS was asked for and granted, not begun.
    fn granted(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address.to_string()).expect("it listens");
        stream.write_all(&3_u32.to_be_bytes()).expect("sent");
        stream.write_all(&option(5, &[])).expect("sent");
        let mut said = [0; 18 + 20];
        stream.read_exact(&mut said).expect("it answers");
        assert_eq!(said[30..34], 1_u32.to_be_bytes(), "granted");
        stream
    }

    fn secure(&self, client: Arc<ClientConfig>) -> StreamOwned<ClientConnection, TcpStream> {
        let name = ServerName::try_from("localhost").expect("a name");
        let tls = ClientConnection::new(client, name).expect("it is right");
        StreamOwned::new(tls, self.granted())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))) || std::thread::panicking(), "it ends well");
    }
}

fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).expect("short");
    [b"IHAVEOPT", &option.to_be_bytes()[..], &length.to_be_bytes(), data].concat()
}

/// Sends an option. Returns the kinds of all its replies with their data.
fn ask(stream: &mut (impl Read + Write), request: &[u8]) -> std::io::Result<Vec<(u32, Vec<u8>)>> {
    stream.write_all(request)?;
    let mut replies = Vec::new();
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head)?;
        let field = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four"));
        let mut data = vec![0; usize::try_from(field(16)).expect("small")];
        stream.read_exact(&mut data)?;
        replies.push((field(12), data));
        if field(12) == 1 || field(12) >> 31 == 1 {
            return Ok(replies);
        }
    }
}

fn names(replies: &[(u32, Vec<u8>)]) -> Vec<String> {
    let listed = replies.iter().filter(|(kind, _)| *kind == 2);
    listed.map(|(_, data)| String::from_utf8_lossy(&data[4..]).into_owned()).collect()
}

#[test]
fn a_client_sees_what_its_certificate_lets_it_see() {
    let certificates = Certificates::new();
    let running = Running::start(&certificates);
    for (name, expected) in [("vm", &["secret", "shared"][..]), ("other", &["shared"])] {
        let mut stream = running.secure(certificates.client(Some(name)));
        assert_eq!(names(&ask(&mut stream, &option(3, &[])).expect("answered")), expected);
        let go = [&6_u32.to_be_bytes()[..], b"secret", &[0, 0]].concat();
        let opened = ask(&mut stream, &option(7, &go)).expect("answered");
        let unknown = (1 << 31) + 6;
        assert_eq!(opened.last().expect("an end").0, if name == "vm" { 1 } else { unknown });
    }
}

#[test]
fn data_goes_both_ways_in_pieces_of_every_size() {
    let certificates = Certificates::new();
    let running = Running::start(&certificates);
    let mut stream = running.secure(certificates.client(Some("vm")));
    let go = [&6_u32.to_be_bytes()[..], b"secret", &[0, 0]].concat();
    ask(&mut stream, &option(7, &go)).expect("opened");
    for length in [512_u32, 16 << 10, 1 << 20] {
        let head = |command: u8| {
            let fixed = [0x25, 0x60, 0x95, 0x13, 0, 0, 0, command];
            [&fixed[..], &[9; 8], &[0; 8], &length.to_be_bytes()].concat()
        };
        let data: Vec<u8> = (0..length).map(|n| (n % 251) as u8 + 1).collect();
        stream.write_all(&[&head(1)[..], &data, &head(0)].concat()).expect("sent");
        let mut said = vec![0; 16 + 16 + data.len()];
        stream.read_exact(&mut said).expect("answered");
        assert!(said[32..] == data, "{length} bytes");
    }
    // A disconnect, and the server closes TLS with an alert: an end without it is an error here.
    let goodbye = [&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, 2][..], &[0; 20]].concat();
    stream.write_all(&goodbye).expect("sent");
    assert_eq!(stream.read(&mut [0]).expect("a clean end"), 0);
}

#[test]
fn without_the_right_certificate_there_is_no_name_and_no_byte() {
    let certificates = Certificates::new();
    let running = Running::start(&certificates);
    // No certificate; one of another authority; an expired one; and that of the authority itself,
    // which signs and is not a client's.
    for name in [None, Some("mallory"), Some("expired"), Some("stranger-ca")] {
        let mut stream = running.secure(certificates.client(name));
        assert!(ask(&mut stream, &option(3, &[])).is_err(), "{name:?}");
    }
    let mut plain = TcpStream::connect(running.address.to_string()).expect("it listens");
    plain.write_all(&3_u32.to_be_bytes()).expect("sent");
    plain.read_exact(&mut [0; 18]).expect("greeted");
    for wanted in [3, 6, 7, 8, 10] {
        let answer = ask(&mut plain, &option(wanted, &[])).expect("answered");
        assert_eq!(answer, [((1 << 31) + 5, Vec::new())], "TLS is required, and nothing else said");
    }
    // Input that was sent before TLS began is not taken as sent over TLS.
    let mut hasty = TcpStream::connect(running.address.to_string()).expect("it listens");
    let slipped = [&3_u32.to_be_bytes()[..], &option(5, &[]), &option(3, &[])].concat();
    hasty.write_all(&slipped).expect("sent");
    let mut said = Vec::new();
    let _ = hasty.read_to_end(&mut said);
    assert!(said.len() <= 18 + 20 + 7, "greeting, grant, and an alert at most: {said:?}");
    // Input that is not TLS closes the connection.
    let mut noise = running.granted();
    noise.write_all(&[0x47; 1_000]).expect("sent");
    let mut said = Vec::new();
    let _ = noise.read_to_end(&mut said);
    assert!(said.len() < 100, "an alert at most: {said:?}");
}

/// A connection in plain text, greeted.
fn plain(running: &Running) -> TcpStream {
    let mut stream = TcpStream::connect(running.address.to_string()).expect("it listens");
    stream.write_all(&3_u32.to_be_bytes()).expect("sent");
    stream.read_exact(&mut [0; 18]).expect("greeted");
    stream
}

fn open(name: &str) -> Vec<u8> {
    let length = u32::try_from(name.len()).expect("short");
    option(7, &[&length.to_be_bytes()[..], name.as_bytes(), &[0, 0]].concat())
}

#[test]
fn where_tls_is_required_plain_text_opens_nothing_in_any_way() {
    let certificates = Certificates::new();
    let running = Running::start(&certificates);
    for name in ["secret", "shared", "none", ""] {
        let answer = ask(&mut plain(&running), &open(name)).expect("answered");
        assert_eq!(answer, [((1 << 31) + 5, Vec::new())], "{name:?}: TLS first, whatever it is");
        // The oldest option to open has no error reply: the connection is closed without a byte.
        let mut stream = plain(&running);
        stream.write_all(&option(1, name.as_bytes())).expect("sent");
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert_eq!(said, [], "{name:?}");
    }
    // A client without fixed newstyle cannot send options.
    let mut old = TcpStream::connect(running.address.to_string()).expect("it listens");
    old.write_all(&[&0_u32.to_be_bytes()[..], &option(1, b"secret")].concat()).expect("sent");
    let mut said = Vec::new();
    let _ = old.read_to_end(&mut said);
    assert_eq!(said.len(), 18, "a greeting, and nothing of the export");
}

#[test]
fn where_tls_is_a_choice_plain_text_sees_what_is_everybodys_and_no_more() {
    let certificates = Certificates::new();
    let running = Running::start_with(&certificates, false);
    let mut stream = plain(&running);
    assert_eq!(names(&ask(&mut stream, &option(3, &[])).expect("answered")), ["shared"]);
    let refused = |name| ask(&mut plain(&running), &open(name)).expect("answered");
    assert_eq!(
        refused("secret"),
        refused("none"),
        "what is for others looks like what is not there"
    );
    assert_eq!(ask(&mut stream, &open("shared")).expect("answered").last().expect("an end").0, 1);
    // In TLS, neither plain text nor another TLS handshake can follow.
    let mut secure = running.secure(certificates.client(Some("other")));
    let again = ask(&mut secure, &option(5, &[])).expect("answered");
    assert_eq!(again.last().expect("an end").0, (1 << 31) + 3, "it is encrypted already");
    assert_eq!(names(&ask(&mut secure, &option(3, &[])).expect("answered")), ["shared"]);
}
