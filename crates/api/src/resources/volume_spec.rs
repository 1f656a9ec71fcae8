//! The bodies of requests that create and change volumes, and the edits of the config that they
//! stand for.
//!
//! Both have the fields of a contract. These stand in each of them: an unknown field is refused,
//! which excludes a shared part.

use config::{PoolVolumeEdit, RateEdit, StreamEdit, VolumeEdit};
use daemon::{NewVolume, Setting};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::stream::{StreamSpec, stream_edit};
use crate::problem::Problem;

/// A volume to be created, or to be checked for admission. It lies on one `disk`, or in the pool if
/// it has any of `disks`, `layout`, `zone` and `thin` instead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeSpec {
    /// The name that clients open it by: 1 to 255 bytes, printable, without `/`, `\\` and quotes.
    #[schema(example = "vm1")]
    pub name: String,
    /// The disk that it lies on, for a volume on one disk.
    #[schema(example = "d0")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Its size: whole sectors of 512 bytes, or whole MiB in the pool.
    #[schema(example = "10GiB")]
    pub size: String,
    /// The disks that it is placed on, for a volume of the pool. Default: all of the pool's disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disks: Option<Vec<String>>,
    /// For a volume of the pool: `single`, `stripe` or `random`. Default: `single`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// For a volume of the pool: `fast`, `slow` or `any`. Default: `any`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// For a volume of the pool: whether blocks are allocated when they are first written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thin: Option<bool>,
    /// Its share of the time of each of its disks in every period. Default: none.
    #[schema(example = "30%")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve: Option<String>,
    /// Its largest share, at least the reserve. Default: all.
    #[schema(example = "60%")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Its weight in the division of slack, 1 to 1000. Default: 1.
    #[schema(example = 2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
    /// Its priority: `normal` or `high`. A volume of high priority is served before the others, up
    /// to its limit.
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
    /// A stream in place of a reserve; in the pool without a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamSpec>,
}

impl VolumeSpec {
    /// The volume to be created at its placement. `in_pool` if the caller asks for the pool.
    pub(super) fn placed(self, in_pool: bool) -> Result<(String, NewVolume), Problem> {
        let Self { name, disk, size, disks, layout, zone, thin, .. } = self;
        let Self { reserve, limit, weight, priority, stream, .. } = self;
        let rate = rate_edit(self.iops, self.bandwidth, self.run, self.block);
        let has_pool_fields =
            disks.is_some() || layout.is_some() || zone.is_some() || thin.is_some();
        let stream = stream.map(stream_edit);
        let size = Some(size);
        let edit = VolumeEdit { size, reserve, limit, weight, priority, rate, stream };
        let new = match disk {
            Some(disk) if in_pool || has_pool_fields => {
                let accepted = "no `disk` for a volume of the pool: use `disks`".to_owned();
                return Err(Problem::invalid("disk", Some(disk), accepted));
            }
            Some(disk) => NewVolume::OnDisk { disk, edit },
            None if in_pool || has_pool_fields => {
                let thin = thin.filter(|thin| *thin);
                NewVolume::InPool(PoolVolumeEdit { volume: edit, disks, layout, zone, thin })
            }
            None => return Err(missing_disk()),
        };
        Ok((name, new))
    }
}

/// The edit that sets a rate, if any of its fields is given. They replace all fields of a rate.
fn rate_edit(
    iops: Option<String>,
    bandwidth: Option<String>,
    run: Option<i64>,
    block: Option<String>,
) -> Option<RateEdit> {
    let rate = RateEdit { iops, bandwidth, run, block };
    (rate != RateEdit::default()).then_some(rate)
}

pub(super) fn missing_disk() -> Problem {
    Problem::invalid("disk", None, "the name of a disk, or fields of a pool's volume".to_owned())
}

/// The changed fields of a volume. Missing fields keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeChange {
    /// Its size. A volume on one disk grows into the free space behind it. No client may have a
    /// volume open that shrinks.
    #[schema(example = "20GiB")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Its share of the disk's time in every period; of the nominal rate, as `20/s`, if the policy
    /// is `throughput`. It replaces an `iops` or `bandwidth` that it was derived from.
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
    /// Its priority: `normal` or `high`. A volume of high priority is served before the others, up
    /// to its limit.
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
    /// A stream in place of a reserve or another stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamSpec>,
    /// Remove its stream: it becomes best effort.
    #[serde(default)]
    pub drop_stream: bool,
    /// Disconnect the clients of a volume that shrinks.
    #[serde(default)]
    pub force: bool,
}

impl VolumeChange {
    /// The change as the operator takes it.
    pub(super) fn setting(self) -> Result<Setting, Problem> {
        let Self { size, reserve, limit, weight, priority, stream, drop_stream, force, .. } = self;
        let rate = rate_edit(self.iops, self.bandwidth, self.run, self.block);
        let stream = match (stream, drop_stream) {
            (Some(_), true) => {
                let accepted = "no `drop_stream` beside a `stream`".to_owned();
                return Err(Problem::invalid("drop_stream", Some("true".to_owned()), accepted));
            }
            (Some(stream), false) => Some(stream_edit(stream)),
            (None, true) => Some(StreamEdit::Drop),
            (None, false) => None,
        };
        let edit = VolumeEdit { size, reserve, limit, weight, priority, rate, stream };
        Ok(Setting { edit, force })
    }
}
