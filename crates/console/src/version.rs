//! What `--version` prints: which source a binary was built from, and how.

/// The commit, from the environment of the build (the Makefile sets it): a plain `cargo build`, and
/// one of an archive without git, need none.
const COMMIT: Option<&str> = option_env!("SPINDLE_COMMIT");

/// The version, followed by lines with the commit, the target, and the `features` of the binary.
pub fn long_version(version: &str, features: &[&str]) -> String {
    let commit = COMMIT.filter(|commit| !commit.is_empty()).unwrap_or("unknown");
    let linking = if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" };
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let (arch, os, env) = (std::env::consts::ARCH, std::env::consts::OS, environment());
    let features = features.join(" ");
    format!(
        "{version}\ncommit: {commit}\n\
         build: {arch}-{os}-{env}, {linking}, {profile}\nfeatures: {features}"
    )
}

/// The C library that the binary is linked with.
const fn environment() -> &'static str {
    if cfg!(target_env = "musl") {
        "musl"
    } else if cfg!(target_env = "gnu") {
        "gnu"
    } else {
        "other"
    }
}
