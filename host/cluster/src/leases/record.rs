//! What an election writes into a Lease, and reads there (client-go's `LeaseLock`).

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use pilothouse_core::LeaseRecord;

/// A time of day as a Lease has it: RFC 3339, with microseconds.
pub fn time_of_day(time: Timestamp) -> String {
    format!("{time:.6}")
}

fn micro_time(text: &str) -> Option<MicroTime> {
    text.parse().ok().map(MicroTime)
}

/// What a Lease says. What it does not say is empty.
pub fn record(lease: &Lease) -> LeaseRecord {
    let Some(spec) = &lease.spec else {
        return LeaseRecord::default();
    };
    let time = |time: &Option<MicroTime>| {
        let time = time.as_ref();
        time.map_or_else(String::new, |time| time_of_day(time.0))
    };
    let number = |number: Option<i32>| number.and_then(|number| number.try_into().ok());
    LeaseRecord {
        holder: spec.holder_identity.clone().unwrap_or_default(),
        duration_seconds: number(spec.lease_duration_seconds).unwrap_or(0),
        transitions: number(spec.lease_transitions).unwrap_or(0),
        acquire_time: time(&spec.acquire_time),
        renew_time: time(&spec.renew_time),
    }
}

/// The Lease as it was read, or a new one, with this record in it. Labels, annotations and the
/// fields that an election does not use stay as they are.
pub fn with_record(lease: Option<Lease>, name: &str, record: &LeaseRecord) -> Lease {
    let mut lease = lease.unwrap_or_default();
    lease.metadata.name = Some(name.to_owned());
    let number = |number: u64| Some(i32::try_from(number).unwrap_or(i32::MAX));
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(record.holder.clone()),
        lease_duration_seconds: number(record.duration_seconds),
        lease_transitions: number(record.transitions),
        acquire_time: micro_time(&record.acquire_time),
        renew_time: micro_time(&record.renew_time),
        ..lease.spec.unwrap_or_default()
    });
    lease
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// client-go's `TestLeaseConversion`, and its `TestLabelUpdate` for what is not the election's.
    #[test]
    fn a_record_survives_the_way_through_a_lease_and_leaves_the_rest_alone() {
        let lease: Lease = serde_json::from_value(json!({
            "metadata": {"name": "x", "labels": {"a": "b"}, "resourceVersion": "5"},
            "spec": {"holderIdentity": "other", "strategy": "OldestEmulationVersion"}}))
        .unwrap();
        let written = LeaseRecord {
            holder: "me".into(),
            duration_seconds: 15,
            transitions: 4,
            acquire_time: "2026-01-02T03:04:05.000006Z".into(),
            renew_time: "2026-01-02T03:04:07.100000Z".into(),
        };
        let lease = with_record(Some(lease), "x", &written);
        assert_eq!(record(&lease), written);
        let json = serde_json::to_value(&lease).unwrap();
        assert_eq!(json["metadata"]["labels"]["a"], "b");
        assert_eq!(json["metadata"]["resourceVersion"], "5");
        assert_eq!(json["spec"]["strategy"], "OldestEmulationVersion");
        assert_eq!(json["spec"]["renewTime"], "2026-01-02T03:04:07.100000Z");
    }

    #[test]
    fn an_empty_lease_is_an_empty_record() {
        assert_eq!(record(&Lease::default()), LeaseRecord::default());
    }
}
