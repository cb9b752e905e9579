//! The Leases of a group as JSON.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::records::{
    AssignmentRecord, LeaseVersion, MemberId, MemberRecord, Offer, Owners, Record, Shard,
    StoredRecord,
};
use super::settings::{SharingError, check_name};
use crate::model::key::ResourceVersion;

/// The label by which a group's Leases are selected; its value is the group's name.
const GROUP: &str = "pilothouse.dev/share-group";
/// What a member can run: a JSON object from plugin to division.
const OFFER: &str = "pilothouse.dev/offer";
/// Present, and `true`, while a member gives everything away.
const LEAVING: &str = "pilothouse.dev/leaving";
/// Who owns what: a JSON object from shard to member.
const OWNERS: &str = "pilothouse.dev/owners";
/// How often the Lease was written.
const WRITES: &str = "pilothouse.dev/writes";

/// The hosts that share: those whose Leases have the same group's name, in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharingGroup {
    name: String,
    namespace: String,
}

/// A Lease of the group that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error(
    "the Lease {name} of a group that shares is not as a host writes it: {reason}. \
     If a person has edited it, stop all hosts of the group, delete it, and start them again"
)]
pub struct NotARecord {
    name: String,
    reason: String,
}

#[derive(Deserialize)]
struct Lease {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    uid: String,
    resource_version: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    lease_duration_seconds: Option<u64>,
}

impl SharingGroup {
    /// The group of this name, which is also the name of its assignment.
    pub fn new(name: &str, namespace: &str) -> Result<Self, SharingError> {
        // A label's value has at most 63.
        let is_short = name.len() <= 63;
        is_short
            .then_some(())
            .ok_or_else(|| SharingError::BadName(name.to_owned()))?;
        check_name(name)?;
        Ok(Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
        })
    }

    /// The namespace of its Leases.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The label selector of its Leases.
    pub fn label_selector(&self) -> String {
        format!("{GROUP}={}", self.name)
    }

    /// The name of a member's Lease.
    pub fn member_lease(&self, member: &MemberId) -> String {
        format!("{}-{member}", self.name)
    }

    /// The name of the Lease that a record is in.
    pub fn lease_of(&self, record: &Record) -> String {
        match record {
            Record::Member(record) => self.member_lease(&record.id),
            Record::Assignment(_) => self.name.clone(),
        }
    }

    /// The Lease that says this; with `version`, as the body of an update that has its
    /// preconditions. `renew_time` is the time of day, as a Lease has it
    /// (`2026-01-02T03:04:05.678901Z`), for people alone.
    pub fn to_lease(
        &self,
        record: &Record,
        version: Option<&LeaseVersion>,
        renew_time: &str,
    ) -> Value {
        let (annotations, spec) = match record {
            Record::Member(record) => member(record, renew_time),
            Record::Assignment(record) => assignment(record, renew_time),
        };
        let mut metadata = json!({
            "name": self.lease_of(record),
            "namespace": self.namespace,
            "labels": { GROUP: self.name },
            "annotations": annotations,
        });
        if let Some(version) = version {
            metadata["uid"] = json!(*version.uid);
            metadata["resourceVersion"] = json!(version.resource_version.to_string());
        }
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": spec,
        })
    }

    /// What a Lease of the group says.
    ///
    /// A member's Lease counts, whatever a person has made of it: its member may run something. An
    /// assignment that cannot be read is an error; a list with one is to be answered `Failed`.
    pub fn read(&self, lease: &Value) -> Result<StoredRecord, NotARecord> {
        let lease = Lease::deserialize(lease).map_err(|error| NotARecord {
            name: lease["metadata"]["name"].to_string(),
            reason: error.to_string(),
        })?;
        let name = &lease.metadata.name;
        let not_a_record = |reason: &str| NotARecord {
            name: name.clone(),
            reason: reason.to_owned(),
        };
        let record = if *name == self.name {
            Record::Assignment(Arc::new(
                read_assignment(&lease).map_err(|why| not_a_record(&why))?,
            ))
        } else {
            let id = name.strip_prefix(&self.name);
            let id = id.and_then(|id| id.strip_prefix('-'));
            let id = id.ok_or_else(|| not_a_record("its name does not begin with the group's"))?;
            Record::Member(Arc::new(read_member(id, &lease)))
        };
        Ok(StoredRecord {
            version: LeaseVersion {
                uid: lease.metadata.uid.as_str().into(),
                resource_version: ResourceVersion::new(&lease.metadata.resource_version),
            },
            record,
        })
    }
}

fn member(record: &MemberRecord, renew_time: &str) -> (Value, Value) {
    let mut annotations = Map::new();
    annotations.insert(OFFER.to_owned(), json!(text(&named(&record.offer))));
    annotations.insert(WRITES.to_owned(), json!(record.writes.to_string()));
    if record.leaving {
        annotations.insert(LEAVING.to_owned(), json!("true"));
    }
    let spec = json!({
        "holderIdentity": record.id.as_str(),
        "leaseDurationSeconds": record.lease_duration.as_secs(),
        "renewTime": renew_time,
    });
    (Value::Object(annotations), spec)
}

fn named(offer: &Offer) -> BTreeMap<&str, String> {
    let named = offer.iter();
    named
        .map(|(plugin, of)| (&**plugin, of.to_string()))
        .collect()
}

fn assignment(record: &AssignmentRecord, renew_time: &str) -> (Value, Value) {
    let owners: BTreeMap<String, &str> = record
        .owners
        .iter()
        .map(|(shard, owner)| (shard.to_string(), owner.as_str()))
        .collect();
    let annotations = json!({
        OWNERS: text(&owners),
        WRITES: record.writes.to_string(),
    });
    // A host or a client-go program that would lead by a Lease of this name sees that it is held,
    // and never sees it expire.
    let spec = json!({
        "holderIdentity": "the members of this group, who share",
        "leaseDurationSeconds": i32::MAX,
        "renewTime": renew_time,
    });
    (annotations, spec)
}

/// Maps of texts always become JSON.
fn text<V: serde::Serialize>(map: &BTreeMap<impl serde::Serialize + Ord, V>) -> String {
    serde_json::to_string(map).unwrap_or_default()
}

fn annotation<T: DeserializeOwned>(lease: &Lease, name: &str) -> Result<T, String> {
    let text = lease.metadata.annotations.get(name);
    let text = text.ok_or_else(|| format!("it has no annotation {name}"))?;
    serde_json::from_str(text).map_err(|error| format!("its annotation {name}: {error}"))
}

fn read_member(id: &str, lease: &Lease) -> MemberRecord {
    let offer: BTreeMap<String, String> = annotation(lease, OFFER).unwrap_or_default();
    let offer = offer.into_iter();
    let leaving = lease.metadata.annotations.get(LEAVING);
    MemberRecord {
        id: MemberId::new(id),
        offer: Arc::new(
            offer
                .filter_map(|(plugin, of)| Some((plugin.into(), of.parse().ok()?)))
                .collect(),
        ),
        leaving: leaving.is_some_and(|value| value == "true"),
        lease_duration: Duration::from_secs(lease.spec.lease_duration_seconds.unwrap_or(0)),
        writes: annotation(lease, WRITES).unwrap_or(0),
    }
}

fn read_assignment(lease: &Lease) -> Result<AssignmentRecord, String> {
    let named: BTreeMap<String, String> = annotation(lease, OWNERS)?;
    let mut owners = Owners::new();
    for (shard, owner) in named {
        let shard: Shard = shard.parse().map_err(|error| format!("{error}"))?;
        owners.insert(shard, MemberId::new(&owner));
    }
    Ok(AssignmentRecord {
        owners,
        writes: annotation(lease, WRITES)?,
    })
}
