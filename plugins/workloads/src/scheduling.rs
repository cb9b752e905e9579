//! On which nodes a pod may run, as far as a controller decides it: the node selector, the required
//! node affinity, and taints against tolerations. Resources, ports and the affinity to other pods
//! are the scheduler's.
//!
//! The rules are those of Kubernetes' `component-helpers/scheduling/corev1`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use pilothouse_sdk::Projection;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The part of a Node that placement depends on. The heartbeats of a kubelet change none of it.
#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[projection(kind = "v1/Node")]
#[serde(default)]
pub struct Node {
    /// Name and labels.
    pub metadata: NodeMetadata,
    /// The taints.
    pub spec: NodeSpec,
}

/// The part of a Node's metadata that placement depends on.
///
/// The labels stay text until somebody asks for them: there are thousands of nodes with dozens of
/// labels each, and most pods ask for none.
#[derive(Clone, Debug, Default, Deserialize, Projection)]
#[serde(default)]
pub struct NodeMetadata {
    /// The name.
    pub name: String,
    #[projection(whole)]
    labels: Option<Box<RawValue>>,
}

/// The part of a Node's spec that placement depends on.
///
/// `unschedulable` is not among it: such a node has a taint that says so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Projection)]
#[serde(default)]
pub struct NodeSpec {
    /// What keeps pods away, or drives them out.
    pub taints: Vec<Taint>,
}

impl Node {
    /// The node's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The node's labels.
    fn labels(&self) -> BTreeMap<Cow<'_, str>, Cow<'_, str>> {
        let labels = self.metadata.labels.as_deref().map(RawValue::get);
        // What is no map of labels has none: the API server stores nothing else.
        let labels = labels.and_then(|labels| serde_json::from_str(labels).ok());
        labels.unwrap_or_default()
    }

    /// The node's first taint with one of these effects that none of the tolerations tolerates.
    #[must_use]
    pub fn untolerated(&self, tolerations: &[Toleration], effects: &[&str]) -> Option<&Taint> {
        let counts = |taint: &&Taint| effects.contains(&taint.effect.as_str());
        let is_tolerated = |taint: &Taint| tolerations.iter().any(|one| one.tolerates(taint));
        let mut taints = self.spec.taints.iter().filter(counts);
        taints.find(|taint| !is_tolerated(taint))
    }
}

/// A taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Projection)]
#[serde(default)]
pub struct Taint {
    /// What is tolerated or not.
    pub key: String,
    /// Its value, which may be empty.
    pub value: String,
    /// [`NO_SCHEDULE`], [`NO_EXECUTE`], or `PreferNoSchedule`.
    pub effect: String,
}

/// The effect of a taint that lets no new pod onto the node.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// The effect of a taint that also drives out the pods that are there.
pub const NO_EXECUTE: &str = "NoExecute";

/// A toleration of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// The key of the taints that it tolerates. Empty: all of them.
    pub key: String,
    /// `Equal`, as when it is empty, or `Exists`.
    pub operator: String,
    /// The value of the taints that it tolerates, for `Equal`.
    pub value: String,
    /// The effect of the taints that it tolerates. Empty: all of them.
    pub effect: String,
}

impl Toleration {
    /// True if a pod with this toleration tolerates the taint.
    ///
    /// The operators `Lt` and `Gt` tolerate nothing, as long as Kubernetes has them behind a
    /// feature gate that is off (`TaintTolerationComparisonOperators`).
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let is_free = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let is_about_it = is_free(&self.effect, &taint.effect) && is_free(&self.key, &taint.key);
        is_about_it
            && match self.operator.as_str() {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                _ => false,
            }
    }
}

/// The part of a pod's spec that says which nodes it wants.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeChoice {
    /// Labels that the node must have.
    pub node_selector: BTreeMap<String, String>,
    affinity: Option<Affinity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelector {
    node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelectorTerm {
    match_expressions: Vec<Requirement>,
    match_fields: Vec<Requirement>,
}

/// A condition on a label or a field of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl NodeChoice {
    /// What a pod requires of its node: prepared once, to be asked of many nodes.
    #[must_use]
    pub fn required(&self) -> RequiredNode {
        let affinity = self.affinity.as_ref();
        let affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
        let required = affinity
            .and_then(|affinity| {
                affinity
                    .required_during_scheduling_ignored_during_execution
                    .as_ref()
            })
            .map(|required| required.node_selector_terms.iter());
        RequiredNode {
            labels: self.node_selector.clone(),
            terms: required.map(|terms| terms.filter_map(Term::of).collect()),
        }
    }
}

/// What a pod requires of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredNode {
    labels: BTreeMap<String, String>,
    /// One of them must match. `None`: there is no required affinity.
    terms: Option<Vec<Term>>,
}

impl RequiredNode {
    /// True if the node has the labels that the selector names, and matches a term of the required
    /// affinity, if there is one.
    #[must_use]
    pub fn matches(&self, node: &Node) -> bool {
        let labels = if self.asks_for_labels() {
            node.labels()
        } else {
            BTreeMap::new()
        };
        let label = |key: &str| labels.get(key).map(|value| &**value);
        let has = |(key, value): (&String, &String)| label(key) == Some(value);
        let is_term = |terms: &Vec<Term>| terms.iter().any(|term| term.matches(node.name(), label));
        self.labels.iter().all(has) && self.terms.as_ref().is_none_or(is_term)
    }

    fn asks_for_labels(&self) -> bool {
        let mut terms = self.terms.iter().flatten();
        !self.labels.is_empty() || terms.any(|term| !term.labels.is_empty())
    }
}

/// A term that can match: it is not empty, and all its conditions are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    labels: Vec<Condition>,
    fields: Vec<Condition>,
}

impl Term {
    /// `None`: an empty term, or one with an invalid condition, matches no node.
    fn of(term: &NodeSelectorTerm) -> Option<Self> {
        if term.match_expressions.is_empty() && term.match_fields.is_empty() {
            return None;
        }
        let labels = term.match_expressions.iter().map(Requirement::on_label);
        let fields = term.match_fields.iter().map(Requirement::on_field);
        Some(Self {
            labels: labels.collect::<Option<_>>()?,
            fields: fields.collect::<Option<_>>()?,
        })
    }

    fn matches<'a>(&self, name: &'a str, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        // The only field that a node is selected by. Others are empty.
        let field = |key: &str| Some(if key == "metadata.name" { name } else { "" });
        self.labels.iter().all(|one| one.holds(label(&one.key)))
            && self.fields.iter().all(|one| one.holds(field(&one.key)))
    }
}

/// A valid condition on the value of a label or field.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

impl Condition {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::GreaterThan(limit) => number().is_some_and(|number| number > *limit),
            Test::LessThan(limit) => number().is_some_and(|number| number < *limit),
        }
    }
}

impl Requirement {
    /// The condition on a label. `None`: it is not valid.
    fn on_label(&self) -> Option<Condition> {
        let values: BTreeSet<String> = self.values.iter().cloned().collect();
        let is_valid = is_label_key(&self.key) && values.iter().all(|value| is_label_value(value));
        let only = || match self.values.as_slice() {
            [value] => value.parse().ok(),
            _ => None,
        };
        let test = match self.operator.as_str() {
            "In" if !values.is_empty() => Test::In(values),
            "NotIn" if !values.is_empty() => Test::NotIn(values),
            "Exists" if values.is_empty() => Test::Exists,
            "DoesNotExist" if values.is_empty() => Test::DoesNotExist,
            "Gt" => Test::GreaterThan(only()?),
            "Lt" => Test::LessThan(only()?),
            _ => return None,
        };
        is_valid.then(|| self.with(test))
    }

    /// The condition on a field, which is compared with one value. `None`: it is not valid.
    fn on_field(&self) -> Option<Condition> {
        let values: BTreeSet<String> = match self.values.as_slice() {
            [value] => [value.clone()].into(),
            _ => return None,
        };
        match self.operator.as_str() {
            "In" => Some(self.with(Test::In(values))),
            "NotIn" => Some(self.with(Test::NotIn(values))),
            _ => None,
        }
    }

    fn with(&self, test: Test) -> Condition {
        let key = self.key.clone();
        Condition { key, test }
    }
}

/// True if this can be the key of a label: a name, perhaps after the name of a domain and a slash.
fn is_label_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_part = |part: &str| {
        let is_end = |end: Option<char>| {
            end.is_some_and(|end| end.is_ascii_lowercase() || end.is_ascii_digit())
        };
        let is_middle = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        is_end(part.chars().next()) && is_end(part.chars().last()) && part.chars().all(is_middle)
    };
    let is_domain = |prefix: &str| prefix.len() <= 253 && prefix.split('.').all(is_part);
    !name.is_empty() && is_label_value(name) && prefix.is_none_or(is_domain)
}

/// True if this can be the value of a label.
fn is_label_value(value: &str) -> bool {
    let is_end = |end: Option<char>| end.is_none_or(|end| end.is_ascii_alphanumeric());
    let is_middle = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    value.len() <= 63
        && is_end(value.chars().next())
        && is_end(value.chars().last())
        && value.chars().all(is_middle)
}

#[cfg(test)]
#[path = "scheduling_tests.rs"]
mod tests;
