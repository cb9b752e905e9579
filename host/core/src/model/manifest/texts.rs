//! Limits the length and the syntax of a manifest's texts.
//!
//! The host keeps them for as long as the plugin exists, some of them once for each informer, and
//! shows them to operators. Therefore each text must have the syntax that Kubernetes prescribes for
//! it, if there is one, and together they may not be longer than [`TOTAL`]. A plugin file alone
//! thus cannot exhaust the host's memory.

use super::{Manifest, ManifestError};
use crate::model::key::Kind;
use crate::model::selector::{LabelSelector, Requirement};
use crate::model::text::cut;

/// The maximum number of bytes of all texts together, without the configuration's schema.
const TOTAL: usize = 256 << 10;
/// The maximum number of bytes of a plugin's version, and of an index's name.
const SHORT: usize = 64;
/// The maximum number of bytes of a field selector, and of a field path.
const LONG: usize = 1 << 10;
/// `CONDITIONS` limits the conditions of one selector, `VALUES` the values of one condition.
const CONDITIONS: usize = 32;
const VALUES: usize = 64;
/// The number of bytes of a wrong text that its error repeats.
const SHOWN: usize = 80;

/// True for a DNS label (RFC 1123), such as `kube-system`: lower-case letters, digits and '-', at
/// most 63 characters.
pub(super) fn is_dns_label(name: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// True for a DNS subdomain (RFC 1123), such as `cert-manager.io`: DNS labels separated by dots, at
/// most 253 bytes.
fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_dns_label)
}

/// True for a name that a CRD may give its kind: a DNS label that begins with a letter, in upper or
/// lower case.
fn is_kind(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && is_dns_label(&name.to_ascii_lowercase())
}

/// True for the name in a label's key, or for a label's value that is not empty: letters, digits,
/// '-', '_' and '.', at most 63 characters.
fn is_label_name(name: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    bytes.len() <= 63 && edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(is_inner)
}

/// True for the key of a label, and for what else the API calls a qualified name.
pub(super) fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_label_name(name),
        None => is_label_name(key),
    }
}

fn is_printable(text: &str, max: usize) -> bool {
    text.len() <= max && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Checks one text after the other and counts their bytes.
#[derive(Default)]
pub(super) struct Texts {
    bytes: usize,
}

impl Texts {
    /// Checks each text of a manifest by itself, and the length of all of them together.
    pub fn validate(manifest: &Manifest) -> Result<(), ManifestError> {
        let mut texts = Self::default();
        let short = "at most 64 printable ASCII characters";
        let is_short = |text: &str| is_printable(text, SHORT);
        texts.check(
            "version",
            &manifest.version,
            short,
            is_short(&manifest.version),
        )?;
        for selection in &manifest.reconciles {
            texts.kind("reconciles", &selection.kind)?;
            texts.selector(&selection.labels)?;
            texts.namespaces(&selection.namespaces)?;
            texts.long("fieldSelector", selection.fields.as_deref().unwrap_or(""))?;
            for companion in &selection.companions {
                texts.kind("alsoEnqueuedBy", companion)?;
            }
        }
        for read in &manifest.reads {
            texts.kind("reads", &read.kind)?;
            texts.selector(&read.labels)?;
            texts.namespaces(&read.namespaces)?;
            texts.long(
                "fieldSelector",
                read.field_selector.as_deref().unwrap_or(""),
            )?;
            for path in &read.fields {
                texts.long("fields", path)?;
            }
        }
        for index in &manifest.indexes {
            texts.kind("indexes", &index.kind)?;
            texts.check("indexes", &index.name, short, is_short(&index.name))?;
            for path in &index.paths {
                texts.long("paths", path)?;
            }
        }
        for write in &manifest.writes {
            texts.kind("writes", &write.kind)?;
            if let Some(subresource) = &write.subresource {
                let wanted = "a subresource: letters, digits, '-', '_' and '.', at most 63";
                texts.check("writes", subresource, wanted, is_label_name(subresource))?;
            }
        }
        count("bytes of text (without configSchema)", texts.bytes, TOTAL)
    }

    fn check(
        &mut self,
        place: &'static str,
        text: &str,
        wanted: &'static str,
        is_right: bool,
    ) -> Result<(), ManifestError> {
        self.bytes += text.len();
        if is_right {
            return Ok(());
        }
        Err(ManifestError::Text {
            place,
            text: cut(text, SHOWN),
            wanted,
        })
    }

    fn kind(&mut self, place: &'static str, kind: &Kind) -> Result<(), ManifestError> {
        // Of a pattern only the group can be of any text.
        let of_group = Kind::new(&kind.group, "v1", "Any");
        let kind = match kind.is_pattern() && kind.to_string() == "*" {
            true => return Ok(()),
            false if kind.is_pattern() => &of_group,
            false => kind,
        };
        let Kind {
            group,
            version,
            kind,
        } = kind;
        self.check(
            place,
            group,
            "an API group: empty, or a DNS subdomain of at most 253 characters",
            group.is_empty() || is_dns_subdomain(group),
        )?;
        self.check(
            place,
            version,
            "an API version: a DNS label of at most 63 characters",
            is_dns_label(version),
        )?;
        self.check(
            place,
            kind,
            "a kind: letters, digits and '-', at most 63, the first a letter",
            is_kind(kind),
        )
    }

    fn long(&mut self, place: &'static str, text: &str) -> Result<(), ManifestError> {
        let wanted = "a text of at most 1024 bytes";
        self.check(place, text, wanted, text.len() <= LONG)
    }

    fn namespaces(&mut self, namespaces: &[String]) -> Result<(), ManifestError> {
        for name in namespaces {
            let wanted = "a namespace: a DNS label of at most 63 characters";
            self.check("namespaces", name, wanted, is_dns_label(name))?;
        }
        Ok(())
    }

    fn selector(&mut self, selector: &LabelSelector) -> Result<(), ManifestError> {
        count(
            "conditions in a selector",
            selector.requirements.len(),
            CONDITIONS,
        )?;
        for requirement in &selector.requirements {
            let (key, values) = match requirement {
                Requirement::Equals(key, value) => (key, std::slice::from_ref(value)),
                Requirement::OneOf(key, values) | Requirement::NoneOf(key, values) => {
                    (key, &**values)
                }
                Requirement::Exists(key) | Requirement::Absent(key) => (key, &[][..]),
            };
            let wanted = "a label's key: [prefix/]name, as Kubernetes has it";
            self.check("labels", key, wanted, is_qualified_name(key))?;
            count("values in a condition", values.len(), VALUES)?;
            for value in values {
                let wanted = "a label's value: letters, digits, '-', '_' and '.', at most 63";
                let is_right = value.is_empty() || is_label_name(value);
                self.check("labels", value, wanted, is_right)?;
            }
        }
        Ok(())
    }
}

fn count(what: &'static str, count: usize, max: usize) -> Result<(), ManifestError> {
    match count > max {
        true => Err(ManifestError::TooMany { what, count, max }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use crate::model::selector::Requirement;

    fn manifest() -> Manifest {
        let kind = Kind::new("apps.example.com", "v1beta1", "Web-App");
        let labels = LabelSelector {
            requirements: vec![
                Requirement::Equals("app.kubernetes.io/name".into(), "Web_1.0".into()),
                Requirement::OneOf("tier".into(), vec![String::new()]),
            ],
        };
        Manifest {
            name: "p".into(),
            version: "1.0.0-rc.1+build 5".into(),
            reconciles: vec![Selection {
                kind: kind.clone(),
                labels: labels.clone(),
                fields: Some("metadata.name=a".into()),
                namespaces: vec!["kube-system".into()],
                companions: vec![],
            }],
            reads: vec![ReadDeclaration {
                labels,
                namespaces: vec!["default".into()],
                ..ReadDeclaration::new(kind.clone(), vec![".spec".into()])
            }],
            indexes: vec![IndexDeclaration {
                name: "by spec".into(),
                kind: kind.clone(),
                paths: vec![".spec.a".into()],
            }],
            writes: vec![WriteDeclaration {
                kind,
                subresource: Some("status".into()),
                verbs: vec![Verb::Patch],
                children: false,
            }],
            limits: Limits::default(),
            config_schema: None,
            optional: BTreeSet::new(),
        }
    }

    fn error(change: impl FnOnce(&mut Manifest)) -> String {
        let mut manifest = manifest();
        change(&mut manifest);
        manifest.validate().unwrap_err().to_string()
    }

    fn selection(manifest: &mut Manifest) -> &mut Selection {
        &mut manifest.reconciles[0]
    }

    #[test]
    fn texts_of_kubernetes_own_syntax_are_taken() {
        manifest().validate().unwrap();
    }

    #[test]
    fn a_text_of_any_length_is_refused_in_a_few_words() {
        let long = || "a".repeat(4 << 20);
        let errors = [
            error(|it| it.name = long()),
            error(|it| it.version = long()),
            error(|it| it.reads[0].kind.group = long().into()),
            error(|it| it.writes[0].kind.version = long().into()),
            error(|it| it.indexes[0].kind.kind = long().into()),
            error(|it| it.indexes[0].name = long()),
            error(|it| it.indexes[0].paths[0] = format!(".{}", long())),
            error(|it| it.reads[0].fields[0] = format!(".{}", long())),
            error(|it| it.reads[0].field_selector = Some(format!("a={}", long()))),
            error(|it| it.reads[0].namespaces[0] = long()),
            error(|it| it.writes[0].subresource = Some(long())),
            error(|it| selection(it).fields = Some(format!("a={}", long()))),
            error(|it| selection(it).namespaces[0] = long()),
            error(|it| selection(it).companions = vec![Kind::new(&long(), "v1", "A")]),
            error(|it| {
                it.reads[0].labels.requirements = vec![Requirement::Equals("k".into(), long())];
            }),
            error(|it| {
                it.reads[0].labels.requirements = vec![Requirement::Exists(long())];
            }),
        ];
        for error in errors {
            assert!(error.len() < 300, "{error}");
        }
    }

    #[test]
    fn what_a_terminal_or_a_path_would_obey_is_refused() {
        for error in [
            error(|it| it.version = "1\u{1b}[8m".into()),
            error(|it| it.indexes[0].name = "a\n".into()),
            error(|it| it.reads[0].kind.group = "*".into()),
            error(|it| it.reads[0].kind.kind = "Pod\n  risk none".into()),
            error(|it| it.writes[0].kind.version = "v1/x".into()),
            error(|it| it.writes[0].subresource = Some("..".into())),
            error(|it| selection(it).namespaces[0] = "a/b".into()),
        ] {
            assert!(error.contains(" is not "), "{error}");
            assert!(!error.contains(['\n', '\u{1b}']), "{error}");
        }
    }

    #[test]
    fn many_short_texts_are_too_many_together() {
        let field = |number: usize| format!(".a{number:0>900}");
        let error = error(|it| it.reads[0].fields = (0..1_000).map(field).collect());
        assert!(error.contains("bytes of text"), "{error}");
    }

    #[test]
    fn what_the_host_does_for_every_object_or_prints_again_and_again_is_bounded() {
        let error = |change: fn(&mut Manifest)| error(change);
        let verbs = error(|it| it.writes[0].verbs = vec![Verb::Create; 7]);
        assert_eq!(verbs, "7 verbs of a write; a manifest has at most 6");
        let terms = error(|it| selection(it).fields = Some("a=,".repeat(17)));
        assert!(terms.contains("conditions in a field selector"), "{terms}");
        let labels = error(|it| {
            let values = (0..64).map(|number| format!("{number:0>63}")).collect();
            let requirements = &mut selection(it).labels.requirements;
            *requirements = vec![Requirement::OneOf("k".into(), values); 2];
        });
        assert!(labels.contains("bytes of a label selector"), "{labels}");
    }

    #[test]
    fn a_selector_has_a_few_conditions_of_a_few_values() {
        let error = error(|it| {
            it.reads[0].labels.requirements = vec![Requirement::Exists("k".into()); 33];
        });
        assert_eq!(
            error,
            "33 conditions in a selector; a manifest has at most 32"
        );
    }
}
