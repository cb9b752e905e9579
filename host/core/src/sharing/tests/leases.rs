//! What the Leases look like, and what else is checked.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::leadership::{ElectionSettings, ElectionSettingsError};
use crate::model::division::Division;
use crate::model::key::ResourceVersion;
use crate::sharing::records::{
    AssignmentRecord, LeaseVersion, MemberId, MemberRecord, Offer, Owners, Record, Shard,
};
use crate::sharing::{Sharing, SharingError, SharingGroup};

const TIME: &str = "2026-01-02T03:04:05.678901Z";

fn group() -> SharingGroup {
    SharingGroup::new("pilothouse", "kube-system").expect("a good name")
}

fn version() -> LeaseVersion {
    LeaseVersion {
        uid: "u1".into(),
        resource_version: ResourceVersion::new("17"),
    }
}

fn by_namespace() -> Division {
    Division::by_namespace(Division::into(8).shards)
}

fn member() -> Record {
    Record::Member(Arc::new(MemberRecord {
        id: MemberId::new("web-x7-1"),
        offer: Arc::new(Offer::from([
            ("cronjob".into(), Division::into(1)),
            ("job".into(), by_namespace()),
        ])),
        leaving: true,
        lease_duration: Duration::from_secs(15),
        writes: 3,
    }))
}

fn assignment() -> Record {
    let member = MemberId::new("web-x7-1");
    Record::Assignment(Arc::new(AssignmentRecord {
        owners: Owners::from([(Shard::new("job", 3, by_namespace()), member)]),
        writes: 9,
    }))
}

#[test]
fn a_member_s_lease_says_who_it_is_and_what_it_can_run() {
    let lease = group().to_lease(&member(), Some(&version()), TIME);
    assert_eq!(
        lease,
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": "pilothouse-web-x7-1",
                "namespace": "kube-system",
                "uid": "u1",
                "resourceVersion": "17",
                "labels": { "pilothouse.dev/share-group": "pilothouse" },
                "annotations": {
                    "pilothouse.dev/offer": r#"{"cronjob":"1","job":"8-by-namespace"}"#,
                    "pilothouse.dev/leaving": "true",
                    "pilothouse.dev/writes": "3",
                },
            },
            "spec": {
                "holderIdentity": "web-x7-1",
                "leaseDurationSeconds": 15,
                "renewTime": TIME,
            },
        })
    );
}

#[test]
fn what_is_written_is_read_again() {
    for record in [member(), assignment()] {
        let lease = group().to_lease(&record, Some(&version()), TIME);
        let stored = group().read(&lease).expect("a good Lease");
        assert_eq!((stored.record, stored.version), (record, version()));
    }
}

#[test]
fn a_member_s_lease_counts_whatever_a_person_has_made_of_it() {
    let mut lease = group().to_lease(&member(), Some(&version()), TIME);
    lease["metadata"]["annotations"] = json!({});
    lease["spec"] = json!({});
    let stored = group().read(&lease).expect("a member");
    let Record::Member(record) = stored.record else {
        panic!("a member's Lease is not the assignment");
    };
    assert_eq!(record.id.as_str(), "web-x7-1");
    assert!(record.offer.is_empty());
}

#[test]
fn an_assignment_that_is_not_understood_is_an_error() {
    for owners in [
        "{",
        r#"{"job/8-of-8":"a"}"#,
        r#"{"job/03-of-8-by-namespace":"a"}"#,
        r#"{"job":"a"}"#,
    ] {
        let mut lease = group().to_lease(&assignment(), Some(&version()), TIME);
        lease["metadata"]["annotations"]["pilothouse.dev/owners"] = json!(owners);
        assert!(group().read(&lease).is_err(), "{owners}");
    }
}

#[test]
fn times_and_names_that_cannot_be_are_refused() {
    let seconds = Duration::from_secs;
    let new = |lease: Duration, deadline: Duration, retry: Duration, host: &str| {
        let settings = ElectionSettings {
            lease_duration: lease,
            renew_deadline: deadline,
            retry_period: retry,
        };
        Sharing::new(settings, host, 0).map(|_| ())
    };
    let good = new(seconds(15), seconds(10), seconds(2), "web-x7");
    assert_eq!(good, Ok(()));
    // The Lease would say 10 s.
    let long = new(Duration::from_millis(10_900), seconds(10), seconds(2), "a");
    assert_eq!(long, Err(ElectionSettingsError::LongDeadline.into()));
    let retry = new(seconds(15), seconds(12), seconds(10), "a");
    assert_eq!(retry, Err(ElectionSettingsError::LongRetry.into()));
    let none = new(seconds(15), seconds(10), seconds(0), "a");
    assert_eq!(none, Err(ElectionSettingsError::NoRetry.into()));
    for name in ["", "-a", "a-", "A", "a.b", &"a".repeat(101)] {
        let refused = new(seconds(15), seconds(10), seconds(2), name);
        assert_eq!(refused, Err(SharingError::BadName(name.to_owned())));
    }
}

#[test]
fn the_slack_is_what_is_left_between_the_right_and_the_lease_duration() {
    assert_eq!(ElectionSettings::default().slack(), Duration::from_secs(5));
}
