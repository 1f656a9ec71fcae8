//! The messages and services of CSI 1.13.0, generated from its `csi.proto`: `make csi-proto` makes
//! them again, and fails if they differ.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "the code is generated"
)]

include!("csi.v1.in");
