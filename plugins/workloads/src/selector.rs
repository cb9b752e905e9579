//! LabelSelectors as objects hold them, such as a ReplicaSet's `spec.selector`.

use std::collections::BTreeMap;

use pilothouse_sdk::Filter;
use serde::Deserialize;
use serde_json::Value;

/// The objects that a LabelSelector selects, as a question to the host. `None`: it is null, which
/// selects nothing. The empty selector selects everything.
///
/// # Errors
///
/// It is no LabelSelector. The API server lets none in, and the host would end the run.
pub fn filter(selector: &Value) -> Result<Option<Filter>, String> {
    if selector.is_null() {
        return Ok(None);
    }
    let parsed = Selector::deserialize(selector).map_err(|error| error.to_string())?;
    drop(parsed.match_labels);
    let expressions = parsed.match_expressions.unwrap_or_default();
    if let Some(wrong) = expressions.iter().find_map(Expression::fault) {
        return Err(wrong);
    }
    let filter = Filter::label_selector(selector).map_err(|error| error.to_string())?;
    Ok(Some(filter))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Selector {
    match_labels: Option<BTreeMap<String, String>>,
    match_expressions: Option<Vec<Expression>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expression {
    key: String,
    operator: String,
    values: Option<Vec<String>>,
}

impl Expression {
    fn fault(&self) -> Option<String> {
        let has_values = self
            .values
            .as_ref()
            .is_some_and(|values| !values.is_empty());
        let Self { key, operator, .. } = self;
        match (operator.as_str(), has_values) {
            ("In" | "NotIn", true) | ("Exists" | "DoesNotExist", false) => None,
            ("In" | "NotIn", false) => Some(format!("{key}: {operator} needs values")),
            ("Exists" | "DoesNotExist", true) => Some(format!("{key}: {operator} takes no values")),
            _ => Some(format!(
                "{key}: {operator:?} is no operator of a label selector"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_becomes_a_question_and_none_selects_nothing() {
        assert_eq!(filter(&Value::Null), Ok(None));
        for selector in [
            json!({}),
            json!({"matchLabels": {"a": "b"}}),
            json!({"matchExpressions": [
                {"key": "a", "operator": "In", "values": ["b"]},
                {"key": "a", "operator": "NotIn", "values": ["c", "d"]},
                {"key": "a", "operator": "Exists"},
                {"key": "b", "operator": "DoesNotExist", "values": []},
            ]}),
        ] {
            assert_eq!(
                filter(&selector),
                Ok(Some(Filter::labels(&selector.to_string())))
            );
        }
    }

    #[test]
    fn what_is_no_selector_is_told_and_not_asked() {
        let expression = |operator: &str, values: &[&str]| {
            let expression = json!({"key": "a", "operator": operator, "values": values});
            filter(&json!({"matchExpressions": [expression]})).expect_err("it is wrong")
        };
        assert_eq!(expression("In", &[]), "a: In needs values");
        assert_eq!(expression("NotIn", &[]), "a: NotIn needs values");
        assert_eq!(expression("Exists", &["b"]), "a: Exists takes no values");
        assert!(expression("Gt", &["1"]).contains("no operator"));
        assert!(filter(&json!({"a": "b"})).is_err());
        assert!(filter(&json!([])).is_err());
    }
}
