//! Parameters of a `StorageClass` and of a `VolumeAttributesClass`, as contracts and placements.
//!
//! Kubernetes asks for the capacity of a class with the class's parameters alone, so the contract
//! that a pod is scheduled by stands there. A `VolumeAttributesClass` changes it afterwards, and
//! names all that it changes: a parameter that it does not name is what the class has. So that this
//! can be found again, a volume carries its class's contract as labels.

use std::collections::BTreeMap;

use api::{ContractSpec, StreamSpec, VolumeChange, VolumeSpec};
use tonic::Status;

/// The parameters that make a contract.
const CONTRACT: [&str; 6] =
    ["reserve", "limit", "weight", "streamBandwidth", "streamBlock", "streamSurvive"];
/// The parameters of a placement in the pool.
const PLACEMENT: [&str; 5] = ["layout", "zone", "disks", "thin", "checksums"];
/// Parameters that the sidecars add, or take for themselves.
const SIDECARS: &str = "csi.storage.k8s.io/";
/// The labels that the sidecars' parameters become.
const OBJECTS: [(&str, &str); 5] = [
    ("csi.storage.k8s.io/pvc/name", "pvc"),
    ("csi.storage.k8s.io/pvc/namespace", "namespace"),
    ("csi.storage.k8s.io/pv/name", "pv"),
    ("csi.storage.k8s.io/volumesnapshot/name", "volumesnapshot"),
    ("csi.storage.k8s.io/volumesnapshot/namespace", "namespace"),
];
/// The label of a volume that this driver has created.
pub(crate) const CREATED_BY: (&str, &str) = ("created_by", "csi");
/// Begins the labels that keep the contract of the class.
const CLASS: &str = "class_";

/// Refuses parameters that are not known.
fn known(given: &BTreeMap<String, String>, accepted: &[&[&str]]) -> Result<(), Status> {
    let mut names: Vec<&String> = given.keys().collect();
    names.sort_unstable();
    for name in names {
        let is_known = accepted.iter().any(|some| some.contains(&name.as_str()));
        if !is_known && !name.starts_with(SIDECARS) {
            let all = accepted.concat().join(", ");
            return Err(Status::invalid_argument(format!(
                "parameters: found `{name}`, expected some of {all}"
            )));
        }
    }
    Ok(())
}

/// The contract that parameters ask for.
fn contract(of: &impl Fn(&str) -> Option<String>) -> Result<ContractSpec, Status> {
    let number = |name: &str| {
        let parse = |text: String| {
            text.parse::<i64>().map_err(|_| {
                Status::invalid_argument(format!("{name}: found `{text}`, expected a number"))
            })
        };
        of(name).map(parse).transpose()
    };
    let (weight, survive) = (number("weight")?, number("streamSurvive")?);
    let stream = match (of("streamBandwidth"), of("streamBlock"), survive) {
        (None, None, None) => None,
        (Some(bandwidth), Some(block), survive) => {
            Some(StreamSpec { bandwidth, block, survive, ..StreamSpec::default() })
        }
        _ => {
            return Err(Status::invalid_argument(
                "expected streamBandwidth and streamBlock together, and streamSurvive with them \
                 alone",
            ));
        }
    };
    let (reserve, limit) = (of("reserve"), of("limit"));
    Ok(ContractSpec { reserve, limit, weight, stream, ..Default::default() })
}

/// The volume that a class asks for, without a name and a size.
///
/// # Errors
/// A parameter is not known, or cannot be read.
pub(crate) fn volume(
    parameters: &BTreeMap<String, String>,
    mutable: &BTreeMap<String, String>,
) -> Result<VolumeSpec, Status> {
    known(parameters, &[&CONTRACT, &PLACEMENT])?;
    known(mutable, &[&CONTRACT])?;
    let either = |name: &str| mutable.get(name).or_else(|| parameters.get(name)).cloned();
    let boolean = |name: &str| {
        let parse = |text: &String| {
            text.parse::<bool>().map_err(|_| {
                Status::invalid_argument(format!("{name}: found `{text}`, expected true or false"))
            })
        };
        parameters.get(name).map(parse).transpose()
    };
    let disks = parameters.get("disks").map(|all| all.split(',').map(|one| one.trim().to_owned()));
    let (created, by) = CREATED_BY;
    let mut labels = BTreeMap::from([(created.to_owned(), by.to_owned())]);
    for (name, label) in OBJECTS {
        if let Some(value) = parameters.get(name) {
            labels.insert(label.to_owned(), value.clone());
        }
    }
    for name in CONTRACT {
        if let Some(value) = parameters.get(name) {
            labels.insert(label_of(name), value.clone());
        }
    }
    Ok(VolumeSpec {
        layout: parameters.get("layout").cloned(),
        zone: parameters.get("zone").cloned(),
        disks: disks.map(Iterator::collect),
        thin: boolean("thin")?,
        checksums: boolean("checksums")?,
        labels: Some(labels),
        ..VolumeSpec::from(contract(&either)?)
    })
}

/// The label that keeps a parameter of the class: names of labels have no capitals.
fn label_of(parameter: &str) -> String {
    let mut label = CLASS.to_owned();
    for letter in parameter.chars() {
        if letter.is_ascii_uppercase() {
            label.push('_');
        }
        label.push(letter.to_ascii_lowercase());
    }
    label
}

/// The change of a volume, with these labels, that its attributes class asks for.
///
/// # Errors
/// A parameter is not known, or cannot be read.
pub(crate) fn change(
    mutable: &BTreeMap<String, String>,
    volume: &api::Volume,
) -> Result<VolumeChange, Status> {
    known(mutable, &[&CONTRACT])?;
    let default = |name: &str| match name {
        "reserve" => Some("0%".to_owned()),
        "limit" => Some("100%".to_owned()),
        "weight" => Some("1".to_owned()),
        _ => None,
    };
    let of = |name: &str| {
        let class = || volume.labels.get(&label_of(name)).cloned();
        mutable.get(name).cloned().or_else(class).or_else(|| default(name))
    };
    let contract = contract(&of)?;
    let drop_stream = contract.stream.is_none() && volume.stream.is_some();
    Ok(VolumeChange { drop_stream, ..contract.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_class_is_a_contract_a_placement_and_labels() {
        let parameters = map(&[
            ("reserve", "30%"),
            ("streamBandwidth", "1MB/s"),
            ("streamBlock", "1MB"),
            ("streamSurvive", "0"),
            ("zone", "fast"),
            ("disks", "d0, d1"),
            ("thin", "true"),
            ("checksums", "false"),
            ("csi.storage.k8s.io/pvc/namespace", "shop"),
        ]);
        let spec = volume(&parameters, &map(&[("reserve", "10%")])).expect("it is known");
        assert_eq!(spec.reserve.as_deref(), Some("10%"), "the attributes class is later");
        assert_eq!(spec.disks, Some(vec!["d0".to_owned(), "d1".to_owned()]));
        assert_eq!((spec.thin, spec.checksums), (Some(true), Some(false)));
        let stream = spec.stream.expect("it has one");
        assert_eq!((stream.block.as_str(), stream.survive), ("1MB", Some(0)));
        let labels = spec.labels.expect("there are some");
        let label = |name: &str| labels.get(name).map(String::as_str);
        assert_eq!(label("namespace"), Some("shop"));
        assert_eq!(label("class_reserve"), Some("30%"), "what the class has is kept");
        assert_eq!(label("class_stream_block"), Some("1MB"));
    }

    #[test]
    fn unknown_and_unreadable_parameters_are_refused_by_name() {
        for (pairs, word) in [
            (&[("reserv", "30%")][..], "`reserv`"),
            (&[("weight", "much")], "weight"),
            (&[("thin", "yes")], "thin: found `yes`"),
            (&[("checksums", "off")], "checksums: found `off`, expected true or false"),
            (&[("streamBlock", "1MB")], "streamBandwidth"),
            (&[("streamSurvive", "0")], "streamSurvive with them"),
            (&[("streamSurvive", "no")], "streamSurvive: found `no`, expected a number"),
        ] {
            let status = volume(&map(pairs), &BTreeMap::new()).expect_err("it is refused");
            assert!(status.message().contains(word), "{status}");
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
        }
        assert!(volume(&BTreeMap::new(), &map(&[("zone", "fast")])).is_err(), "not mutable");
    }
}
