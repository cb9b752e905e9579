//! The host's rules for the texts in a manifest: their length and their characters.

use super::manifest::at_most;
use super::names::is_dns_label;
use crate::{Kind, LabelRequirement, Manifest, Subject};

/// Most bytes of all texts together, without the schema of the configuration.
const TOTAL: usize = 256 << 10;
/// Most bytes of a plugin's version, and of an index's name.
const SHORT: usize = 64;
/// Most bytes of a field selector, and of a field path.
const LONG: usize = 1 << 10;
/// Most conditions of one selector, and most values of one condition.
const CONDITIONS: usize = 32;
const VALUES: usize = 64;
/// Most characters of an invalid text that its error repeats.
const SHOWN: usize = 80;

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

/// True for a label's value, or the name in a label's key: letters, digits, '-', '_' and '.', at
/// most 63.
fn is_label_name(name: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    bytes.len() <= 63 && edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(is_inner)
}

fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_label_name(name),
        None => is_label_name(key),
    }
}

fn is_printable(text: &str, max: usize) -> bool {
    text.len() <= max && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Checks texts one by one and counts their bytes.
#[derive(Default)]
struct Texts {
    bytes: usize,
}

impl Texts {
    fn check(
        &mut self,
        place: &'static str,
        text: &str,
        wanted: &'static str,
        is_right: bool,
    ) -> Result<(), String> {
        self.bytes += text.len();
        if is_right {
            return Ok(());
        }
        let text: String = text.chars().take(SHOWN).collect();
        Err(format!("{place}: {text:?} is not {wanted}"))
    }

    fn kind(&mut self, place: &'static str, kind: &Kind) -> Result<(), String> {
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

    fn long(&mut self, place: &'static str, text: &str) -> Result<(), String> {
        let wanted = "a text of at most 1024 bytes";
        self.check(place, text, wanted, text.len() <= LONG)
    }

    fn namespaces(&mut self, namespaces: &[String]) -> Result<(), String> {
        for name in namespaces {
            let wanted = "a namespace: a DNS label of at most 63 characters";
            self.check("namespaces", name, wanted, is_dns_label(name))?;
        }
        Ok(())
    }

    fn selector(&mut self, selector: &[LabelRequirement]) -> Result<(), String> {
        at_most(CONDITIONS, selector.len(), "conditions in a selector")?;
        for requirement in selector {
            let (key, values) = match requirement {
                LabelRequirement::Equals((key, value)) => (key, std::slice::from_ref(value)),
                LabelRequirement::OneOf((key, values))
                | LabelRequirement::NoneOf((key, values)) => (key, &**values),
                LabelRequirement::Exists(key) | LabelRequirement::Absent(key) => (key, &[][..]),
            };
            let wanted = "a label's key: [prefix/]name, as Kubernetes has it";
            self.check("labels", key, wanted, is_label_key(key))?;
            at_most(VALUES, values.len(), "values in a condition")?;
            for value in values {
                let wanted = "a label's value: letters, digits, '-', '_' and '.', at most 63";
                let is_right = value.is_empty() || is_label_name(value);
                self.check("labels", value, wanted, is_right)?;
            }
        }
        Ok(())
    }
}

/// Checks each text, and the size of all of them together.
pub(super) fn check(manifest: &Manifest) -> Result<(), String> {
    let mut texts = Texts::default();
    let short = "at most 64 printable ASCII characters";
    let is_short = |text: &str| is_printable(text, SHORT);
    texts.check(
        "version",
        &manifest.version,
        short,
        is_short(&manifest.version),
    )?;
    if let Subject::Each(selection) = &manifest.subject {
        texts.kind("subject", &selection.kind)?;
        texts.selector(&selection.labels)?;
        texts.namespaces(&selection.namespaces)?;
        texts.long(
            "fields of the subject",
            selection.fields.as_deref().unwrap_or(""),
        )?;
        for companion in &selection.companions {
            texts.kind("companions", companion)?;
        }
    }
    for read in &manifest.reads {
        texts.kind("reads", &read.kind)?;
        texts.selector(&read.labels)?;
        texts.namespaces(&read.namespaces)?;
        texts.long(
            "field-selector",
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
    at_most(TOTAL, texts.bytes, "bytes of text (without config-schema)")
}
