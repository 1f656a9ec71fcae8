//! The bodies of requests that create and change volumes, and the edits of the config that they
//! stand for.
//!
//! Both have the fields of a contract beside their own. An unknown field is refused by its name,
//! and a wrong one by its path, which a shared part of the body (serde's `flatten`) would lose:
//! `with_contract!` writes the fields into each of them.

use std::collections::BTreeMap;

use config::{Labels, LatencyEdit, PoolVolumeEdit, RateEdit, StreamEdit, VolumeEdit};
use daemon::{NewVolume, Setting};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::latency::{LatencySpec, latency_edit};
use super::stream::{StreamSpec, stream_edit};
use crate::problem::Problem;

/// A struct with the given fields and those of a contract.
macro_rules! with_contract {
    ($(#[$about:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($own)*
            /// Its share of the time of each of its disks in every period; of the nominal rate, as
            /// `20/s`, if the policy is `throughput`. It replaces an `iops` or `bandwidth` that it
            /// was derived from.
            #[schema(example = "30%")]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub reserve: Option<String>,
            /// Its largest share, at least the reserve.
            #[schema(example = "60%")]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub limit: Option<String>,
            /// Its weight in the division of slack, 1 to 1000.
            #[schema(example = 2)]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub weight: Option<i64>,
            /// Its priority: `normal` or `high`. A volume of high priority is served before the
            /// others, up to its limit.
            #[schema(example = "high")]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub priority: Option<String>,
            /// Requests a second from which its reserve is derived, in place of `reserve`.
            #[schema(example = "60/s")]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub iops: Option<String>,
            /// Bytes a second from which its reserve is derived, in place of `iops`.
            #[schema(example = "20MB/s")]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub bandwidth: Option<String>,
            /// The consecutive sequential requests that the rate assumes. Default: 1.
            #[schema(example = 64)]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub run: Option<i64>,
            /// The size of the requests that the rate assumes. Default: 4KiB.
            #[schema(example = "64KiB")]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub block: Option<String>,
            /// A stream, in place of another one or of a bounded latency, and beside a reserve; in
            /// the pool without a range.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub stream: Option<StreamSpec>,
            /// A bounded latency, beside a reserve or in place of a stream; not beside a limit.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub latency: Option<LatencySpec>,
        }
    };
}

/// As [`with_contract`], for a body of which the contract is a part.
macro_rules! body_with_contract {
    ($(#[$about:meta])* $name:ident { $($own:tt)* }) => {
        with_contract! { $(#[$about])* $name { $($own)* } }

        impl From<ContractSpec> for $name {
            fn from(contract: ContractSpec) -> Self {
                let ContractSpec { reserve, limit, weight, priority, iops, .. } = contract;
                let ContractSpec { bandwidth, run, block, stream, latency, .. } = contract;
                Self {
                    reserve, limit, weight, priority, iops, bandwidth, run, block, stream, latency,
                    ..Self::default()
                }
            }
        }

        impl From<$name> for ContractSpec {
            fn from(body: $name) -> Self {
                let $name { reserve, limit, weight, priority, iops, .. } = body;
                let $name { bandwidth, run, block, stream, latency, .. } = body;
                Self {
                    reserve, limit, weight, priority, iops, bandwidth, run, block, stream, latency,
                }
            }
        }
    };
}

with_contract! {
    /// The fields of a contract. Missing ones are the default, or unchanged.
    ContractSpec {}
}

body_with_contract! {
    /// A volume to be created, or to be checked for admission. It lies on one `disk`, or in the
    /// pool if it has any of `disks`, `layout`, `copies`, `zone`, `thin`, `checksums` and `source`
    /// instead.
    VolumeSpec {
        /// The name that clients open it by: 1 to 255 bytes, printable, without `/`, `\\` and
        /// quotes.
        #[schema(example = "vm1")]
        pub name: String,
        /// The disk that it lies on, for a volume on one disk.
        #[schema(example = "d0")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub disk: Option<String>,
        /// Its size: whole sectors of 512 bytes, or whole MiB in the pool.
        #[schema(example = "10GiB")]
        pub size: String,
        /// The disks that it is placed on, for a volume of the pool. Default: all of the pool's
        /// disks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub disks: Option<Vec<String>>,
        /// For a volume of the pool: `single`, `stripe`, `random` or `mirror`. Default: `single`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub layout: Option<String>,
        /// For a mirror: the number of copies of each block, 2 or 3. Default: 2.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub copies: Option<i64>,
        /// For a volume of the pool: `fast`, `slow`, `any`, or the first per cent of its disks as
        /// in `fastest 10%`. Default: `any`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub zone: Option<String>,
        /// For a volume of the pool: whether blocks are allocated when they are first written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub thin: Option<bool>,
        /// For a volume of the pool: whether checksums of its data are kept, where the pool's disks
        /// have room for them. Default: true. A volume that is made from another is as that is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub checksums: Option<bool>,
        /// For a volume of the pool: the volume or snapshot of the pool with whose content it
        /// begins, and whose placement it shares. It is at least as large.
        #[schema(example = "monday")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub source: Option<String>,
        /// What it is for, in the words of its user. An equal volume with other labels is the same
        /// volume.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub labels: Option<BTreeMap<String, String>>,
    }
}

body_with_contract! {
    /// The changed fields of a volume. Missing fields keep their values.
    VolumeChange {
        /// Its size. A volume on one disk grows into the free space behind it. No client may have
        /// a volume open that shrinks.
        #[schema(example = "20GiB")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub size: Option<String>,
        /// All of its labels, in place of those that it has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub labels: Option<BTreeMap<String, String>>,
        /// Whether it is a block device of the daemon's machine too, by the kernel's ublk driver. A
        /// device that is mounted or otherwise in use is not removed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub ublk: Option<bool>,
        /// Remove its stream: it becomes best effort.
        #[serde(default)]
        pub drop_stream: bool,
        /// Remove its bounded latency: the rest of its contract stays.
        #[serde(default)]
        pub drop_latency: bool,
        /// Disconnect the clients of a volume that shrinks.
        #[serde(default)]
        pub force: bool,
    }
}

impl ContractSpec {
    /// The edit that sets the contract.
    fn edit(self, size: Option<String>, labels: Option<Labels>) -> VolumeEdit {
        let Self { reserve, limit, weight, priority, stream, latency, .. } = self;
        let Self { iops, bandwidth, run, block, .. } = self;
        let rate = RateEdit { iops, bandwidth, run, block };
        VolumeEdit {
            size,
            reserve,
            limit,
            weight,
            priority,
            // The fields of a rate replace all of them.
            rate: (rate != RateEdit::default()).then_some(rate),
            stream: stream.map(stream_edit),
            latency: latency.map(latency_edit),
            labels,
            ublk: None,
        }
    }
}

impl VolumeSpec {
    /// The volume to be created at its placement. `in_pool` if the caller asks for the pool.
    pub(super) fn placed(mut self, in_pool: bool) -> Result<(String, NewVolume), Problem> {
        let (name, size) = (core::mem::take(&mut self.name), core::mem::take(&mut self.size));
        let (disk, disks) = (self.disk.take(), self.disks.take());
        let (layout, zone, thin) = (self.layout.take(), self.zone.take(), self.thin.take());
        let (copies, checksums) = (self.copies.take(), self.checksums.take());
        let (source, labels) = (self.source.take(), self.labels.take());
        let edit = ContractSpec::from(self).edit(Some(size), labels);
        let has_pool_fields = disks.is_some()
            || layout.is_some()
            || copies.is_some()
            || zone.is_some()
            || thin.is_some()
            || checksums.is_some()
            || source.is_some();
        let new = match disk {
            Some(disk) if in_pool || has_pool_fields => {
                let accepted = "no `disk` for a volume of the pool: use `disks`".to_owned();
                return Err(Problem::invalid("disk", Some(disk), accepted));
            }
            Some(disk) => NewVolume::OnDisk { disk, edit },
            None if in_pool || has_pool_fields => {
                let thin = thin.filter(|thin| *thin);
                NewVolume::InPool(PoolVolumeEdit {
                    volume: edit,
                    disks,
                    layout,
                    copies,
                    zone,
                    thin,
                    checksums: checksums.filter(|kept| !*kept),
                    source,
                })
            }
            None => return Err(missing_disk()),
        };
        Ok((name, new))
    }
}

fn missing_disk() -> Problem {
    Problem::invalid("disk", None, "the name of a disk, or fields of a pool's volume".to_owned())
}

impl VolumeChange {
    /// The change as the operator takes it.
    pub(super) fn setting(mut self) -> Result<Setting, Problem> {
        let Self { drop_stream, drop_latency, force, ublk, .. } = self;
        for (key, drops, contract, is_given) in [
            ("drop_stream", drop_stream, "stream", self.stream.is_some()),
            ("drop_latency", drop_latency, "latency", self.latency.is_some()),
        ] {
            if drops && is_given {
                let accepted = format!("no `{key}` beside a `{contract}`");
                return Err(Problem::invalid(key, Some("true".to_owned()), accepted));
            }
        }
        let (size, labels) = (self.size.take(), self.labels.take());
        let mut edit = ContractSpec::from(self).edit(size, labels);
        edit.ublk = ublk;
        edit.stream = edit.stream.or(drop_stream.then_some(StreamEdit::Drop));
        edit.latency = edit.latency.or(drop_latency.then_some(LatencyEdit::Drop));
        Ok(Setting { edit, force })
    }
}
