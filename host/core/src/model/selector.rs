//! Conditions that select objects: label selectors and field selectors.

mod label_text;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::model::fields::{FieldPath, FieldPathError, Values};
use crate::model::key::Kind;

pub use label_text::LabelSelectorError;

/// One condition on an object's labels, as in Kubernetes' `matchExpressions`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Requirement {
    /// The label exists and has this value.
    Equals(String, String),
    /// The label exists and has one of these values.
    OneOf(String, Vec<String>),
    /// The label does not exist, or it has another value than these.
    NoneOf(String, Vec<String>),
    /// The label exists.
    Exists(String),
    /// The label does not exist.
    Absent(String),
}

/// Conditions that must all hold. Without conditions it selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelSelector {
    /// The conditions.
    pub requirements: Vec<Requirement>,
}

/// Something that has labels.
pub trait Labels {
    /// The value of a label.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Requirement {
    fn texts(&self) -> (&String, &[String]) {
        match self {
            Self::Equals(key, value) => (key, std::slice::from_ref(value)),
            Self::OneOf(key, values) | Self::NoneOf(key, values) => (key, values),
            Self::Exists(key) | Self::Absent(key) => (key, &[]),
        }
    }

    fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        match self {
            Self::Equals(key, value) => labels.label(key) == Some(value),
            Self::OneOf(key, values) => labels
                .label(key)
                .is_some_and(|have| values.iter().any(|value| value == have)),
            Self::NoneOf(key, values) => labels
                .label(key)
                .is_none_or(|have| values.iter().all(|value| value != have)),
            Self::Exists(key) => labels.label(key).is_some(),
            Self::Absent(key) => labels.label(key).is_none(),
        }
    }
}

/// The maximum number of values in an anchor.
const MAX_ANCHORS: usize = 64;

impl LabelSelector {
    /// Parses a selector in kubectl's form (`app=web,tier in (a,b),!canary`), or a LabelSelector as
    /// objects hold it (`{"matchLabels": …}`). The empty text selects everything.
    pub fn parse(text: &str) -> Result<Self, LabelSelectorError> {
        label_text::parse(text)
    }

    /// True if an object with these labels is selected.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.matches(labels))
    }

    /// Bytes that it takes, approximately.
    pub(crate) fn size(&self) -> usize {
        let requirements = self.requirements.iter();
        let texts = requirements.flat_map(|requirement| {
            let (key, values) = requirement.texts();
            std::iter::once(key).chain(values)
        });
        let texts: usize = texts.map(|text| text.len() + size_of::<String>()).sum();
        texts + self.requirements.len() * size_of::<Requirement>()
    }

    /// The maximum number of label look-ups and value comparisons that are needed to decide whether
    /// an object is selected.
    pub(crate) fn comparisons(&self) -> usize {
        let requirements = self.requirements.iter();
        requirements
            .map(|requirement| requirement.texts().1.len().max(1))
            .sum()
    }

    /// True if it has at most this many conditions, and at most this many values in all of them.
    pub(crate) fn is_within(&self, conditions: usize, values: usize) -> bool {
        let requirements = self.requirements.iter();
        let all = requirements.map(|requirement| requirement.texts().1.len());
        self.requirements.len() <= conditions && all.sum::<usize>() <= values
    }

    /// A label key, and values of which a selected object must have one. Through these the
    /// selectors that may select an object are found from the object's labels. `None` if the
    /// selector has no such condition, or only conditions with too many values to index each of
    /// them.
    pub fn anchor(&self) -> Option<(&str, &[String])> {
        self.requirements
            .iter()
            .find_map(|requirement| match requirement {
                Requirement::Equals(key, value) => {
                    Some((key.as_str(), std::slice::from_ref(value)))
                }
                Requirement::OneOf(key, values) if values.len() <= MAX_ANCHORS => {
                    Some((key.as_str(), values.as_slice()))
                }
                _ => None,
            })
    }
}

/// The selector in kubectl's form: `app=web,tier in (a,b),!canary`.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equals(key, value) => write!(f, "{key}={value}"),
            Self::OneOf(key, values) => write!(f, "{key} in ({})", values.join(",")),
            Self::NoneOf(key, values) => write!(f, "{key} notin ({})", values.join(",")),
            Self::Exists(key) => f.write_str(key),
            Self::Absent(key) => write!(f, "!{key}"),
        }
    }
}

/// A field selector in the API server's syntax: `spec.nodeName=a,status.phase!=Failed`.
///
/// The host evaluates it itself, on the object, so that any number of selections share one watch.
/// The server's field names are the objects' own paths, also for the `selectableFields` of CRDs,
/// and a missing field is the empty string. The fields in `TYPED` are the exceptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
    /// Finds the values of all terms in one pass over an object: the hub is locked meanwhile. It
    /// has a list for each path of each term, in the order of the terms.
    values: Values,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldTerm {
    /// Its lists in [`FieldSelector::values`]. The first value that is not empty counts.
    lists: Range<usize>,
    /// The value that the server assumes if the field is missing.
    absent: &'static str,
    value: String,
    negated: bool,
}

/// A field of a built-in kind that the server does not take literally from the object's text.
struct Typed {
    /// Group and kind.
    of: (&'static str, &'static str),
    /// The name in selectors.
    field: &'static str,
    /// The paths in the object. The first that exists counts.
    paths: &'static [&'static str],
    /// The value if the field is missing.
    absent: &'static str,
}

/// Booleans and numbers, whose zero values are not in the text, and names that are not paths
/// (Kubernetes' `*ToSelectableFields`).
const TYPED: [Typed; 7] = [
    Typed {
        of: ("", "Pod"),
        field: "spec.hostNetwork",
        paths: &["spec.hostNetwork"],
        absent: "false",
    },
    Typed {
        of: ("", "Pod"),
        field: "spec.host",
        paths: &["spec.nodeName"],
        absent: "",
    },
    Typed {
        of: ("", "Node"),
        field: "spec.unschedulable",
        paths: &["spec.unschedulable"],
        absent: "false",
    },
    Typed {
        of: ("", "ReplicationController"),
        field: "status.replicas",
        paths: &["status.replicas"],
        absent: "0",
    },
    Typed {
        of: ("apps", "ReplicaSet"),
        field: "status.replicas",
        paths: &["status.replicas"],
        absent: "0",
    },
    Typed {
        of: ("batch", "Job"),
        field: "status.successful",
        paths: &["status.succeeded"],
        absent: "0",
    },
    Typed {
        of: ("", "Event"),
        field: "source",
        paths: &["source.component", "reportingComponent"],
        absent: "",
    },
];

/// Why a field selector cannot be parsed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FieldSelectorError {
    /// A term is not `field=value`, `field==value` or `field!=value`.
    #[error("{0:?} is not of the form field=value or field!=value")]
    Term(String),
    /// A field's name is not a path.
    #[error(transparent)]
    Path(#[from] FieldPathError),
}

impl FieldSelector {
    /// Parses a selector in the API server's syntax, for objects of this kind. The empty string
    /// selects everything.
    pub fn parse(kind: &Kind, text: &str) -> Result<Self, FieldSelectorError> {
        let mut paths = Vec::new();
        let terms = text
            .split(',')
            .filter(|term| !term.is_empty())
            .map(|term| parse_term(kind, term, &mut paths));
        Ok(Self {
            terms: terms.collect::<Result<_, _>>()?,
            values: Values::new(paths.iter().map(std::slice::from_ref)),
        })
    }

    /// True if this object (JSON text) is selected.
    pub fn matches(&self, json: &str) -> bool {
        if self.terms.is_empty() {
            return true;
        }
        let found = self.values.find(json);
        self.terms.iter().all(|term| {
            let of_term = |(list, value): &&(usize, Cow<'_, str>)| {
                term.lists.contains(list) && !value.is_empty()
            };
            let have = found.iter().filter(of_term).min_by_key(|(list, _)| *list);
            let have = have.map_or(term.absent, |(_, value)| value);
            (have == term.value) != term.negated
        })
    }
}

/// Parses a condition, and adds the paths to its field to `paths`.
fn parse_term(
    kind: &Kind,
    term: &str,
    paths: &mut Vec<FieldPath>,
) -> Result<FieldTerm, FieldSelectorError> {
    let (field, value, negated) = if let Some((field, value)) = term.split_once("!=") {
        (field, value, true)
    } else if let Some((field, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        (field, value, false)
    } else {
        return Err(FieldSelectorError::Term(term.to_owned()));
    };
    let field = field.trim();
    let mut typed = TYPED.iter();
    let typed = typed.find(|typed| typed.of == (&*kind.group, &*kind.kind) && typed.field == field);
    let first = paths.len();
    for path in typed.map_or(std::slice::from_ref(&field), |typed| typed.paths) {
        paths.push(FieldPath::parse(&format!(".{path}"))?);
    }
    Ok(FieldTerm {
        lists: first..paths.len(),
        absent: typed.map_or("", |typed| typed.absent),
        value: value.trim().to_owned(),
        negated,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Labels for [(&str, &str)] {
        fn label(&self, key: &str) -> Option<&str> {
            self.iter()
                .find(|(name, _)| *name == key)
                .map(|(_, value)| *value)
        }
    }

    fn selects(requirement: Requirement, on: &[(&str, &str)]) -> bool {
        let selector = LabelSelector {
            requirements: vec![requirement],
        };
        selector.matches(on)
    }

    #[test]
    fn each_operator_answers_as_kubernetes_does() {
        let web = [("app", "web")];
        let values = || vec!["web".to_owned(), "db".to_owned()];
        assert!(selects(
            Requirement::Equals("app".into(), "web".into()),
            &web
        ));
        assert!(!selects(
            Requirement::Equals("app".into(), "web".into()),
            &[]
        ));
        assert!(selects(Requirement::OneOf("app".into(), values()), &web));
        assert!(!selects(Requirement::OneOf("app".into(), values()), &[]));
        assert!(!selects(Requirement::NoneOf("app".into(), values()), &web));
        assert!(
            selects(Requirement::NoneOf("app".into(), values()), &[]),
            "an absent label is in no set"
        );
        assert!(selects(Requirement::Exists("app".into()), &web));
        assert!(selects(Requirement::Absent("tier".into()), &web));
    }

    #[test]
    fn the_empty_selector_selects_everything() {
        let none: &[(&str, &str)] = &[];
        assert!(LabelSelector::default().matches(none));
    }

    #[test]
    fn a_field_selector_sees_missing_fields_as_empty() {
        let pod = r#"{"spec":{"nodeName":"a"},"status":{"phase":"Running"}}"#;
        let kind = Kind::new("", "v1", "Pod");
        let matches = |text| FieldSelector::parse(&kind, text).unwrap().matches(pod);
        assert!(matches("spec.nodeName=a,status.phase!=Failed"));
        assert!(matches("spec.schedulerName="));
        assert!(!matches("spec.nodeName==b"));
        assert_eq!(
            FieldSelector::parse(&kind, "phase"),
            Err(FieldSelectorError::Term("phase".into()))
        );
    }

    #[test]
    fn typed_fields_are_answered_as_the_server_answers_them() {
        let matches = |group: &str, kind: &str, text: &str, json: &str| {
            let kind = Kind::new(group, "v1", kind);
            FieldSelector::parse(&kind, text).unwrap().matches(json)
        };
        for (group, kind, field, zero, set, json) in [
            (
                "",
                "Node",
                "spec.unschedulable",
                "false",
                "true",
                r#"{"spec":{"unschedulable":true}}"#,
            ),
            (
                "",
                "Pod",
                "spec.hostNetwork",
                "false",
                "true",
                r#"{"spec":{"hostNetwork":true}}"#,
            ),
            (
                "",
                "Pod",
                "spec.host",
                "",
                "a",
                r#"{"spec":{"nodeName":"a"}}"#,
            ),
            (
                "",
                "ReplicationController",
                "status.replicas",
                "0",
                "3",
                r#"{"status":{"replicas":3}}"#,
            ),
            (
                "apps",
                "ReplicaSet",
                "status.replicas",
                "0",
                "3",
                r#"{"status":{"replicas":3}}"#,
            ),
            (
                "batch",
                "Job",
                "status.successful",
                "0",
                "2",
                r#"{"status":{"succeeded":2}}"#,
            ),
            (
                "",
                "Event",
                "source",
                "",
                "kubelet",
                r#"{"source":{"component":"kubelet"},"reportingComponent":"x"}"#,
            ),
            (
                "",
                "Event",
                "source",
                "",
                "x",
                r#"{"source":{},"reportingComponent":"x"}"#,
            ),
        ] {
            let is = |value: &str, json| matches(group, kind, &format!("{field}={value}"), json);
            assert!(is(zero, r#"{"spec":{}}"#), "{kind} {field}");
            assert!(is(set, json), "{kind} {field}");
            assert!(!is(zero, json), "{kind} {field}");
        }
        assert!(
            matches(
                "example.com",
                "Node",
                "spec.unschedulable=",
                r#"{"spec":{}}"#
            ),
            "another group's kind of the same name"
        );
    }
}
