//! How long the pods of a namespace may take to end.

use std::num::NonZeroU32;
use std::time::Duration;

use pilothouse_sdk::{Failure, Filter, Host, Kind, Projection};
use serde::Deserialize;

use crate::content::PAGE;

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Pod")]
pub struct Pod {
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
    /// For the content of a namespace, which pods are part of.
    #[serde(default)]
    #[allow(
        dead_code,
        reason = "the list of every kind has pods as they are read here"
    )]
    metadata: Finalizers,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct Finalizers {
    #[allow(dead_code, reason = "as above")]
    finalizers: Vec<String>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    termination_grace_period_seconds: Option<i64>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct Status {
    phase: String,
}

/// The longest grace period of the pods that have not ended, unless the namespace has been deleted
/// for that long already: then zero.
pub fn estimate(namespace: &str, age: Duration, host: &dyn Host) -> Result<Duration, Failure> {
    let size = NonZeroU32::new(PAGE).unwrap_or(NonZeroU32::MIN);
    let mut estimate = 0;
    for page in host.pages::<Pod>(Pod::KIND, Some(namespace), &Filter::Everything, size) {
        let page = page?;
        let running = page.iter().filter(|pod| !pod.has_ended());
        let longest = running
            .filter_map(|pod| pod.spec.termination_grace_period_seconds)
            .max();
        estimate = longest.unwrap_or_default().max(estimate);
    }
    let estimate = Duration::from_secs(u64::try_from(estimate).unwrap_or_default());
    Ok(if age >= estimate {
        Duration::ZERO
    } else {
        estimate
    })
}

impl Pod {
    fn has_ended(&self) -> bool {
        matches!(&*self.status.phase, "Succeeded" | "Failed")
    }
}
