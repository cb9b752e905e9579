//! Which objects a quota is about: its scopes and its scope selector.

use crate::objects::{QuotaSpec, ScopeExpression};

/// The scopes of a quota. An object counts if all of them hold.
pub struct Scopes(Vec<ScopeExpression>);

/// A scope that cannot be evaluated. Then the quota counts nothing of what has scopes.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidScope;

impl Scopes {
    pub fn of(spec: &QuotaSpec) -> Self {
        let listed = spec.scopes.iter().map(|scope| ScopeExpression {
            scope_name: scope.clone(),
            operator: "Exists".to_owned(),
            values: Vec::new(),
        });
        let selected = spec.scope_selector.match_expressions.iter().cloned();
        Self(listed.chain(selected).collect())
    }

    /// True if there are none: every object counts.
    pub fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// True if all scopes hold of an object, of which it is known which of them do.
    pub fn hold(
        &self,
        holds: impl Fn(&ScopeExpression) -> Result<bool, InvalidScope>,
    ) -> Result<bool, InvalidScope> {
        let mut all = true;
        for scope in &self.0 {
            all &= holds(scope)?;
        }
        Ok(all)
    }
}

impl ScopeExpression {
    /// True if the name of a class is as the expression wants it. `None`: there is none.
    pub fn selects(&self, class: Option<&str>) -> Result<bool, InvalidScope> {
        if self.operator != "Exists" && !self.values.iter().all(|value| is_label_value(value)) {
            return Err(InvalidScope);
        }
        let is_listed = class.is_some_and(|class| self.values.iter().any(|value| value == class));
        match (self.operator.as_str(), self.values.is_empty()) {
            ("In", false) => Ok(is_listed),
            ("NotIn", false) => Ok(!is_listed),
            ("Exists", _) => Ok(class.is_some()),
            ("DoesNotExist", true) => Ok(class.is_none()),
            _ => Err(InvalidScope),
        }
    }
}

/// True if a label could have this value: upstream takes the expression for one of labels.
fn is_label_value(text: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let bytes = text.as_bytes();
    bytes.len() <= 63 && is_end(bytes.first()) && is_end(bytes.last()) && text.bytes().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_selects_by_the_name_of_a_class() {
        let selects = |operator: &str, values: &[&str], class| {
            let expression = ScopeExpression {
                scope_name: "PriorityClass".to_owned(),
                operator: operator.to_owned(),
                values: values.iter().map(ToString::to_string).collect(),
            };
            expression.selects(class)
        };
        for (operator, values, high, none) in [
            ("In", &["high"][..], Ok(true), Ok(false)),
            ("NotIn", &["high"], Ok(false), Ok(true)),
            ("NotIn", &["low"], Ok(true), Ok(true)),
            ("Exists", &[], Ok(true), Ok(false)),
            ("DoesNotExist", &[], Ok(false), Ok(true)),
            ("In", &[], Err(InvalidScope), Err(InvalidScope)),
            ("In", &["h i"], Err(InvalidScope), Err(InvalidScope)),
            ("Exists", &["high"], Ok(true), Ok(false)),
            (
                "DoesNotExist",
                &["high"],
                Err(InvalidScope),
                Err(InvalidScope),
            ),
            ("Near", &["high"], Err(InvalidScope), Err(InvalidScope)),
        ] {
            assert_eq!(selects(operator, values, Some("high")), high, "{operator}");
            assert_eq!(selects(operator, values, None), none, "{operator}");
        }
    }
}
