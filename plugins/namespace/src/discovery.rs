//! API groups that nobody can ask for their kinds: of such a group it is not known what is left.

use pilothouse_sdk::{Condition, Failure, Filter, Host, Kind, Projection, is_condition_true};
use serde::Deserialize;
use serde_json::Value;

/// A group version of the API, which may be served by a server of its own.
#[derive(Deserialize, Projection)]
#[projection(kind = "apiregistration.k8s.io/v1/APIService")]
pub struct ApiService {
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct Spec {
    group: String,
    version: String,
    /// Nothing: the API server itself serves it.
    service: Option<Value>,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

/// What to say of the groups that cannot be asked, if there are some.
pub fn failing(host: &dyn Host) -> Result<Option<String>, Failure> {
    let services: Vec<ApiService> = host.list(ApiService::KIND, None, &Filter::Everything)?;
    let mut failing: Vec<String> = services.iter().filter_map(ApiService::failure).collect();
    failing.sort_unstable();
    if failing.is_empty() {
        return Ok(None);
    }
    Ok(Some(format!(
        "Discovery failed for some groups, {} failing: unable to retrieve the complete list of \
         server APIs: {}",
        failing.len(),
        failing.join(", ")
    )))
}

impl ApiService {
    fn failure(&self) -> Option<String> {
        let Self { spec, status } = self;
        if spec.service.is_none() || is_condition_true(&status.conditions, "Available") {
            return None;
        }
        let mut conditions = status.conditions.iter();
        let condition = conditions.find(|condition| condition.r#type == "Available");
        let reason = condition.map_or("not available yet", |condition| &condition.message);
        Some(format!("{}/{}: {reason}", spec.group, spec.version))
    }
}
