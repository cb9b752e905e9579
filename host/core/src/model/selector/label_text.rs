//! Label selectors as texts: kubectl's form (`app=web,tier in (a,b),!canary`), and a LabelSelector
//! as objects hold it (`{"matchLabels": {"app": "web"}}`).
//!
//! Both are parsed as Kubernetes does (`labels.Parse` and `metav1.LabelSelectorAsSelector` of
//! apimachinery), but for two things. The comparisons `<` and `>` are refused, because a
//! LabelSelector has none. Keys and values are not checked here: one that no label can have selects
//! nothing.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{LabelSelector, Requirement};
use crate::model::text::cut;

/// The number of bytes of a wrong text that its error repeats.
const SHOWN: usize = 80;

/// Why a text is not a label selector.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum LabelSelectorError {
    /// The text is neither of the two forms.
    #[error(
        "label selector {text:?}: {problem} at byte {position}; write it as kubectl does \
         (app=web,tier in (a,b),!canary), or as a LabelSelector in JSON"
    )]
    Text {
        /// Its beginning.
        text: String,
        /// What is wrong.
        problem: &'static str,
        /// Where, in bytes from the beginning.
        position: usize,
    },
    /// The JSON text is not a LabelSelector.
    #[error("label selector {text:?} is not a LabelSelector: {problem}")]
    Json {
        /// Its beginning.
        text: String,
        /// What is wrong.
        problem: String,
    },
}

/// Parses either form. A text that begins with `{` is a LabelSelector. The empty text selects
/// everything, as it does for kubectl.
pub(super) fn parse(text: &str) -> Result<LabelSelector, LabelSelectorError> {
    let requirements = if text.trim_start().starts_with('{') {
        parse_json(text).map_err(|problem| LabelSelectorError::Json {
            text: cut(text, SHOWN),
            problem,
        })?
    } else {
        Parser { text, position: 0 }.requirements()?
    };
    Ok(LabelSelector { requirements })
}

/// `metav1.LabelSelector`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    #[serde(default)]
    match_labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    match_expressions: Option<Vec<Expression>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expression {
    key: String,
    operator: Operator,
    #[serde(default)]
    values: Option<Vec<String>>,
}

#[derive(Deserialize)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

fn parse_json(text: &str) -> Result<Vec<Requirement>, String> {
    let document: Document = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let labels = document.match_labels.unwrap_or_default().into_iter();
    let labels = labels.map(|(key, value)| Ok(Requirement::Equals(key, value)));
    let expressions = document.match_expressions.unwrap_or_default();
    labels
        .chain(expressions.into_iter().map(requirement))
        .collect()
}

fn requirement(expression: Expression) -> Result<Requirement, String> {
    let Expression {
        key,
        operator,
        values,
    } = expression;
    let values = values.unwrap_or_default();
    match (operator, values.is_empty()) {
        (Operator::In, false) => Ok(Requirement::OneOf(key, values)),
        (Operator::NotIn, false) => Ok(Requirement::NoneOf(key, values)),
        (Operator::Exists, true) => Ok(Requirement::Exists(key)),
        (Operator::DoesNotExist, true) => Ok(Requirement::Absent(key)),
        (Operator::In | Operator::NotIn, true) => {
            Err("the operators In and NotIn need values".to_owned())
        }
        (Operator::Exists | Operator::DoesNotExist, false) => {
            Err("the operators Exists and DoesNotExist take no values".to_owned())
        }
    }
}

/// Reads a selector in kubectl's form from left to right. White space between words means nothing.
struct Parser<'a> {
    text: &'a str,
    /// The bytes that have been read.
    position: usize,
}

/// One word of a selector.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    /// A key, a value or an operator such as `in`.
    Word(&'a str),
    /// `=`, `==`, `!=`, `!`, `,`, `(`, `)`, `<` or `>`.
    Sign(&'a str),
    End,
}

impl<'a> Parser<'a> {
    fn requirements(mut self) -> Result<Vec<Requirement>, LabelSelectorError> {
        let mut requirements = Vec::new();
        if self.peek() == Token::End {
            return Ok(requirements);
        }
        loop {
            requirements.push(self.requirement()?);
            match self.next() {
                Token::End => return Ok(requirements),
                Token::Sign(",") => {}
                _ => return Err(self.error("a comma or the end is missing")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, LabelSelectorError> {
        if self.peek() == Token::Sign("!") {
            self.next();
            return Ok(Requirement::Absent(self.key()?));
        }
        let key = self.key()?;
        match self.peek() {
            Token::End | Token::Sign(",") => return Ok(Requirement::Exists(key)),
            _ => {}
        }
        match self.next() {
            Token::Sign("=" | "==") => Ok(Requirement::Equals(key, self.value()?)),
            Token::Sign("!=") => Ok(Requirement::NoneOf(key, vec![self.value()?])),
            Token::Word("in") => Ok(Requirement::OneOf(key, self.values()?)),
            Token::Word("notin") => Ok(Requirement::NoneOf(key, self.values()?)),
            _ => Err(self.error("the operator is none of =, ==, !=, in and notin")),
        }
    }

    fn key(&mut self) -> Result<String, LabelSelectorError> {
        match self.next() {
            Token::Word(word) => Ok(word.to_owned()),
            _ => Err(self.error("a label's key is missing")),
        }
    }

    /// A value. It is empty if the next word is a comma or the end.
    fn value(&mut self) -> Result<String, LabelSelectorError> {
        match self.peek() {
            Token::End | Token::Sign("," | ")") => Ok(String::new()),
            Token::Word(word) => {
                self.next();
                Ok(word.to_owned())
            }
            Token::Sign(_) => {
                self.next();
                Err(self.error("a label's value is missing"))
            }
        }
    }

    /// Values in parentheses, separated by commas.
    fn values(&mut self) -> Result<Vec<String>, LabelSelectorError> {
        if self.next() != Token::Sign("(") {
            return Err(self.error("( is missing"));
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            match self.next() {
                Token::Sign(",") => {}
                Token::Sign(")") => return Ok(values),
                _ => return Err(self.error(") is missing")),
            }
        }
    }

    fn peek(&self) -> Token<'a> {
        self.read().0
    }

    fn next(&mut self) -> Token<'a> {
        let (token, end) = self.read();
        self.position = end;
        token
    }

    /// The next word, and the position after it.
    fn read(&self) -> (Token<'a>, usize) {
        let rest = &self.text[self.position..];
        let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let start = self.position + (rest.len() - trimmed.len());
        let length = match trimmed.as_bytes() {
            [] => return (Token::End, start),
            [b'=' | b'!', b'=', ..] => 2,
            [b'=' | b'!' | b',' | b'(' | b')' | b'<' | b'>', ..] => 1,
            _ => {
                let is_end = |c: char| c.is_ascii_whitespace() || "=!,()<>".contains(c);
                let length = trimmed.find(is_end).unwrap_or(trimmed.len());
                return (Token::Word(&trimmed[..length]), start + length);
            }
        };
        (Token::Sign(&trimmed[..length]), start + length)
    }

    fn error(&self, problem: &'static str) -> LabelSelectorError {
        LabelSelectorError::Text {
            text: cut(self.text, SHOWN),
            problem,
            position: self.position,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        parse(text).unwrap().to_string()
    }

    fn error(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn kubectls_form_is_parsed_as_kubectl_does() {
        for (text, wanted) in [
            ("", ""),
            ("  ", ""),
            ("app=web", "app=web"),
            ("app==web", "app=web"),
            ("app = web , tier!=db", "app=web,tier notin (db)"),
            ("tier in (a,b)", "tier in (a,b)"),
            ("tier notin(a, b )", "tier notin (a,b)"),
            ("app,!canary", "app,!canary"),
            ("! canary", "!canary"),
            ("app=", "app="),
            ("app=,b", "app=,b"),
            ("a in (,)", "a in (,)"),
            ("in in (in)", "in in (in)"),
            ("example.com/app=web_1.0", "example.com/app=web_1.0"),
        ] {
            assert_eq!(shown(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_label_selector_of_an_object_is_parsed() {
        let text = r#"{"matchLabels": {"b": "2", "a": "1"}, "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["x", "y"]},
            {"key": "d", "operator": "NotIn", "values": ["x"]},
            {"key": "e", "operator": "Exists"},
            {"key": "f", "operator": "DoesNotExist", "values": []}]}"#;
        assert_eq!(shown(text), "a=1,b=2,c in (x,y),d notin (x),e,!f");
        assert_eq!(shown("{}"), "");
        assert_eq!(shown(r#"{"matchLabels": null}"#), "");
    }

    #[test]
    fn what_is_shown_of_a_selector_is_parsed_to_the_same_selector() {
        for text in ["a=1,b in (x,y),c notin (z),d,!e,f=", "a notin (,b)"] {
            let selector = parse(text).unwrap();
            assert_eq!(parse(&selector.to_string()), Ok(selector));
        }
    }

    #[test]
    fn an_error_names_the_text_the_fault_and_its_position() {
        let one = error("app=web,");
        assert!(
            one.contains("\"app=web,\": a label's key is missing at byte 8"),
            "{one}"
        );
        for (text, wanted) in [
            ("a b", "the operator is none of"),
            ("a>1", "the operator is none of"),
            ("a in b", "( is missing"),
            ("a in (b", ") is missing"),
            ("a=(b)", "a label's value is missing"),
            ("a=b c", "a comma or the end is missing"),
            (",a", "a label's key is missing"),
            ("!", "a label's key is missing"),
        ] {
            let error = error(text);
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn json_that_is_no_label_selector_is_refused_by_name() {
        for (text, wanted) in [
            (r#"{"app": "web"}"#, "unknown field `app`"),
            (
                r#"{"matchExpressions": [{"key": "a", "operator": "in"}]}"#,
                "unknown variant `in`",
            ),
            (
                r#"{"matchExpressions": [{"key": "a", "operator": "In"}]}"#,
                "need values",
            ),
            (
                r#"{"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}"#,
                "take no values",
            ),
            ("{", "EOF"),
        ] {
            let error = error(text);
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn a_long_text_is_not_repeated_in_its_error() {
        assert!(error(&format!("a=b {}", "x".repeat(1 << 20))).len() < 300);
    }
}
