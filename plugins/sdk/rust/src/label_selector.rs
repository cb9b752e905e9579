//! Label selectors as objects hold them: `spec.selector` of a Deployment.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{Failure, Filter};

/// A selector as objects hold it (`metav1.LabelSelector`): labels that must be there, and further
/// conditions. All of them must hold.
///
/// The empty selector selects everything. An absent one (`None`, as `Option<LabelSelector>` is
/// decoded) selects nothing in Kubernetes: `selector.is_some_and(|selector| …)`.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use pilothouse_sdk::LabelSelector;
/// use serde_json::json;
///
/// let selector: LabelSelector = serde_json::from_value(json!({
///     "matchLabels": {"app": "web"},
///     "matchExpressions": [{"key": "canary", "operator": "DoesNotExist"}],
/// }))?;
/// let labels = |text: &[(&str, &str)]| -> BTreeMap<String, String> {
///     let owned = text.iter().map(|(key, value)| (key.to_string(), value.to_string()));
///     owned.collect()
/// };
/// assert!(selector.matches(&labels(&[("app", "web"), ("tier", "front")])));
/// assert!(!selector.matches(&labels(&[("app", "web"), ("canary", "yes")])));
/// let filter = selector.filter()?; // for `host.list`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that the object must have, with these values.
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub match_labels: BTreeMap<String, String>,
    /// Further conditions.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelExpression>,
}

/// A condition on one label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct LabelExpression {
    /// The label's key.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`. `NotIn` holds for an object without the label.
    pub operator: String,
    /// The values of `In` and `NotIn`. The other operators have none.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub values: Vec<String>,
}

/// Why Kubernetes would refuse a label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidLabelSelector {
    key: String,
    problem: String,
}

impl LabelSelector {
    /// Selects the objects that have all of these labels: `spec.selector` of a Service or of a
    /// ReplicationController.
    pub fn of_labels<K, V>(labels: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<String>,
        V: Into<String>,
    {
        let labels = labels.into_iter();
        Self {
            match_labels: labels
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            match_expressions: Vec::new(),
        }
    }

    /// True if it has no conditions: it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// True if an object with these labels is selected. An [invalid](Self::check) selector selects
    /// nothing.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let has_value = |(key, value)| labels.get(key) == Some(value);
        let holds = |expression: &LabelExpression| expression.holds(labels);
        self.check().is_ok()
            && self.match_labels.iter().all(has_value)
            && self.match_expressions.iter().all(holds)
    }

    /// The objects that it selects, for [`list`](trait@crate::Host#method.list).
    ///
    /// # Errors
    ///
    /// As for [`check`](Self::check).
    pub fn filter(&self) -> Result<Filter, InvalidLabelSelector> {
        self.check()?;
        let text = serde_json::to_string(self).expect("a selector of texts has a JSON form");
        Ok(Filter::Labels(text))
    }

    /// Checks the operators and whether they have values, as Kubernetes does. Keys and values are
    /// not checked: one that no label can have selects nothing.
    ///
    /// # Errors
    ///
    /// An operator is unknown, or lacks values, or has some and takes none.
    pub fn check(&self) -> Result<(), InvalidLabelSelector> {
        self.match_expressions
            .iter()
            .try_for_each(LabelExpression::check)
    }
}

impl LabelExpression {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let is_listed = value.is_some_and(|value| self.values.contains(value));
        match self.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }

    fn check(&self) -> Result<(), InvalidLabelSelector> {
        let problem = match (self.operator.as_str(), self.values.is_empty()) {
            ("In" | "NotIn", false) | ("Exists" | "DoesNotExist", true) => return Ok(()),
            ("In" | "NotIn", true) => format!("the operator {} needs values", self.operator),
            ("Exists" | "DoesNotExist", false) => {
                format!("the operator {} takes no values", self.operator)
            }
            _ => format!(
                "the operator {:?} is none of In, NotIn, Exists and DoesNotExist",
                self.operator
            ),
        };
        let key = self.key.clone();
        Err(InvalidLabelSelector { key, problem })
    }
}

impl fmt::Display for InvalidLabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, problem } = self;
        write!(f, "the label selector's condition on {key:?}: {problem}")
    }
}

impl std::error::Error for InvalidLabelSelector {}

/// A terminal failure, because the selector would be the same on every retry.
impl From<InvalidLabelSelector> for Failure {
    fn from(error: InvalidLabelSelector) -> Self {
        Self::Terminal(error.to_string())
    }
}

/// A value that objects may also give as null.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use pilothouse_core as host;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn expression(key: &str, operator: &str, values: &[&str]) -> LabelExpression {
        LabelExpression {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(ToString::to_string).collect(),
        }
    }

    fn with(expression: LabelExpression) -> LabelSelector {
        LabelSelector {
            match_expressions: vec![expression],
            ..LabelSelector::default()
        }
    }

    fn labels(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
        LabelSelector::of_labels(labels.iter().copied()).match_labels
    }

    #[test]
    fn each_operator_answers_as_kubernetes_does() {
        let web = labels(&[("app", "web")]);
        for (operator, values, on_web, on_none) in [
            ("In", &["web", "db"][..], true, false),
            ("In", &["db"], false, false),
            ("NotIn", &["web"], false, true),
            ("NotIn", &["db"], true, true),
            ("Exists", &[], true, false),
            ("DoesNotExist", &[], false, true),
        ] {
            let selector = with(expression("app", operator, values));
            assert_eq!(selector.matches(&web), on_web, "{operator} {values:?}");
            assert_eq!(
                selector.matches(&labels(&[])),
                on_none,
                "{operator} {values:?}"
            );
        }
        let both = LabelSelector::of_labels([("app", "web"), ("tier", "front")]);
        assert!(!both.matches(&web));
        assert!(both.matches(&labels(&[("app", "web"), ("tier", "front"), ("x", "y")])));
    }

    #[test]
    fn the_empty_selector_selects_everything() {
        for text in [
            json!({}),
            json!({"matchLabels": null, "matchExpressions": null}),
        ] {
            let selector: LabelSelector = serde_json::from_value(text).unwrap();
            assert!(selector.is_empty() && selector.matches(&labels(&[("app", "web")])));
            assert_eq!(selector.filter().unwrap(), Filter::labels("{}"));
        }
    }

    #[test]
    fn what_kubernetes_refuses_is_an_error_and_selects_nothing() {
        for (expression, wanted) in [
            (expression("app", "In", &[]), "the operator In needs values"),
            (
                expression("app", "NotIn", &[]),
                "the operator NotIn needs values",
            ),
            (
                expression("app", "Exists", &["a"]),
                "the operator Exists takes no values",
            ),
            (
                expression("app", "Gt", &["1"]),
                "the operator \"Gt\" is none of In, NotIn, Exists and DoesNotExist",
            ),
        ] {
            let selector = with(expression);
            let error = selector.filter().unwrap_err().to_string();
            let wanted = format!("the label selector's condition on \"app\": {wanted}");
            assert_eq!(error, wanted);
            assert!(!selector.matches(&labels(&[])));
        }
    }

    prop_compose! {
        fn any_expression()(
            key in "[ab]",
            operator in prop::sample::select(vec!["In", "NotIn", "Exists", "DoesNotExist", "Gt"]),
            values in prop::collection::vec("[xy]", 0..3),
        ) -> LabelExpression {
            LabelExpression { key, operator: operator.to_owned(), values }
        }
    }

    fn any_labels() -> impl Strategy<Value = BTreeMap<String, String>> {
        prop::collection::btree_map("[abc]", "[xyz]", 0..3)
    }

    /// The host's view of an object with these labels.
    fn object(labels: &BTreeMap<String, String>) -> host::Object {
        let kind = host::Kind::new("", "v1", "ConfigMap");
        let json = json!({"metadata": {"name": "a", "labels": labels}}).to_string();
        host::Object::parse(&kind, &json, &host::Schema::default()).unwrap()
    }

    proptest! {
        #[test]
        fn it_selects_what_the_host_selects_by_its_filter(
            match_labels in any_labels(),
            match_expressions in prop::collection::vec(any_expression(), 0..3),
            labels in any_labels(),
        ) {
            let selector = LabelSelector { match_labels, match_expressions };
            let text = serde_json::to_string(&selector).unwrap();
            let by_host = host::LabelSelector::parse(&text);
            prop_assert_eq!(selector.filter().is_ok(), by_host.is_ok());
            let is_selected = by_host.is_ok_and(|by_host| by_host.matches(&object(&labels)));
            prop_assert_eq!(selector.matches(&labels), is_selected);
        }
    }
}
