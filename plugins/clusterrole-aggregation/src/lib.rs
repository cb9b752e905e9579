//! Gives every ClusterRole with an aggregation rule the rules of the ClusterRoles that it selects.
//!
//! The rules are those of kube-controller-manager's cluster role aggregation controller
//! (`pkg/controller/clusterroleaggregation` in kubernetes/kubernetes). The README lists the
//! differences.

use pilothouse_sdk::{
    Apply, Controller, Failure, Host, Kind, LabelSelector, Manifest, Metadata, Outcome, Projection,
    Request, Selection, Verb,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize, Projection)]
#[projection(kind = "rbac.authorization.k8s.io/v1/ClusterRole")]
#[serde(rename_all = "camelCase")]
struct ClusterRole {
    metadata: Metadata,
    aggregation_rule: Option<AggregationRule>,
    rules: Option<Vec<PolicyRule>>,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
struct AggregationRule {
    #[serde(default)]
    cluster_role_selectors: Vec<LabelSelector>,
}

/// What somebody may do. An absent list means the same as an empty one.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, Projection)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct PolicyRule {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    api_groups: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    non_resource_urls: Vec<String>,
}

/// The cluster role aggregation controller.
pub struct ClusterRoleAggregation;

impl Controller for ClusterRoleAggregation {
    fn manifest() -> Manifest {
        Manifest::new(
            "clusterrole-aggregation",
            env!("CARGO_PKG_VERSION"),
            Selection::of(ClusterRole::KIND),
        )
        .reads_as::<ClusterRole>()
        .writes(ClusterRole::KIND, [Verb::Apply])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(role) = request.object::<ClusterRole>()? else {
            return Ok(Outcome::done());
        };
        let Some(aggregation) = role.aggregation_rule else {
            return Ok(Outcome::done());
        };
        let rules = union(&role.metadata.name, &aggregation, host)?;
        if rules == role.rules.unwrap_or_default() {
            return Ok(Outcome::done());
        }
        let mut wanted = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": role.metadata.name},
        });
        // No rules are applied as no field, as upstream does: what this plugin had applied is
        // removed by that, and what others wrote stays.
        if !rules.is_empty() {
            wanted["rules"] = json!(rules);
        }
        Ok(Outcome::done().with(Apply::new(&wanted)?.force()))
    }
}

pilothouse_sdk::register!(ClusterRoleAggregation);

/// The rules of all other ClusterRoles that are selected, each once: selector by selector, and by
/// name.
fn union(
    own_name: &str,
    aggregation: &AggregationRule,
    host: &dyn Host,
) -> Result<Vec<PolicyRule>, Failure> {
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in &aggregation.cluster_role_selectors {
        let selected: Vec<ClusterRole> = host.list_as(None, &selector.filter()?)?;
        let others = selected
            .into_iter()
            .filter(|role| role.metadata.name != own_name);
        for rule in others.flat_map(|role| role.rules.unwrap_or_default()) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    Ok(rules)
}
