//! The setting `grants`: a word, or a table of reads and writes.

use std::collections::BTreeSet;
use std::fmt;

use pilothouse_core::{Granted, Kind, KindName, ReadGrant, Verb, WriteGrant};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// What a plugin may do of what its manifest asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum GrantSetting {
    /// `"own-kind"`: read its own kind, and nothing more.
    OwnKind,
    /// `"as-requested"`: all of it.
    AsRequested,
    /// What is listed.
    Listed(ListedGrants),
}

/// `[grants]`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ListedGrants {
    /// Kinds, each a name or a table.
    #[serde(default)]
    pub reads: Vec<ReadSetting>,
    /// Kinds and verbs.
    #[serde(default)]
    pub writes: Vec<WriteSetting>,
    /// Whether it may write Events about what it may read or write.
    #[serde(default)]
    pub events: bool,
}

/// `"apps/Deployment"`, or `{ kind = "apps/Deployment", namespaces = ["web"] }`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadSetting(ReadTable);

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ReadTable {
    kind: KindText,
    #[serde(default)]
    namespaces: BTreeSet<String>,
}

/// `{ kind = "Endpoints", verbs = ["apply"], subresource = "status" }`, with optional
/// `namespaces = ["web"]` and `names = ["front"]`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct WriteSetting {
    kind: KindText,
    subresource: Option<String>,
    #[serde(default)]
    verbs: Vec<VerbText>,
    #[serde(default)]
    namespaces: BTreeSet<String>,
    #[serde(default)]
    names: BTreeSet<String>,
    /// Whether it may force an apply. The default is true, because controllers should force
    /// conflicts.
    force: Option<bool>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum VerbText {
    Apply,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

/// `Pod`, `apps/Deployment`. A version in it, as in `apps/v1/Deployment`, is ignored. Or a pattern:
/// `*`, `apps/*`, `v1/*`.
#[derive(Clone, Debug, PartialEq)]
struct KindText(KindName);

impl<'de> Deserialize<'de> for KindText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        kind_name(&text).map(Self).ok_or_else(|| {
            D::Error::custom(format!(
                "{text:?} is not a kind; write Pod, apps/Deployment or apps/v1/Deployment, or a pattern: *, apps/* or v1/*"
            ))
        })
    }
}

fn kind_name(text: &str) -> Option<KindName> {
    if let Some(pattern) = text.parse().ok().filter(Kind::is_pattern) {
        return Some(KindName::of(&pattern));
    }
    let parts: Vec<&str> = text.split('/').collect();
    let (group, kind) = match parts.as_slice() {
        [kind] => ("", kind),
        [version, kind] if is_version(version) => ("", kind),
        [group, kind] => (*group, kind),
        [group, version, kind] if is_version(version) => (*group, kind),
        _ => return None,
    };
    let is_kind = kind.starts_with(|first: char| first.is_ascii_uppercase());
    (is_kind && (parts.len() == 1 || !parts[0].is_empty())).then(|| KindName {
        group: group.to_owned(),
        kind: (*kind).to_owned(),
    })
}

/// True for texts like `v1` and `v2beta3`. No API group has such a name.
fn is_version(text: &str) -> bool {
    let digits = text.strip_prefix('v').unwrap_or_default();
    digits.starts_with(|first: char| first.is_ascii_digit()) && !digits.contains('.')
}

impl<'de> Deserialize<'de> for GrantSetting {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct WordOrTable;

        impl<'de> Visitor<'de> for WordOrTable {
            type Value = GrantSetting;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"own-kind\", \"as-requested\" or a table of reads and writes")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
                match word {
                    "own-kind" => Ok(GrantSetting::OwnKind),
                    "as-requested" => Ok(GrantSetting::AsRequested),
                    _ => Err(E::unknown_variant(word, &["own-kind", "as-requested"])),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                ListedGrants::deserialize(MapAccessDeserializer::new(map)).map(GrantSetting::Listed)
            }
        }

        from.deserialize_any(WordOrTable)
    }
}

impl<'de> Deserialize<'de> for ReadSetting {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct NameOrTable;

        impl<'de> Visitor<'de> for NameOrTable {
            type Value = ReadSetting;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a kind, or a table with kind and namespaces")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
                let kind = KindText::deserialize(serde::de::value::StrDeserializer::new(name))?;
                Ok(ReadSetting(ReadTable {
                    kind,
                    namespaces: BTreeSet::new(),
                }))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                ReadTable::deserialize(MapAccessDeserializer::new(map)).map(ReadSetting)
            }
        }

        from.deserialize_any(NameOrTable)
    }
}

impl From<VerbText> for Verb {
    fn from(verb: VerbText) -> Self {
        match verb {
            VerbText::Apply => Self::Apply,
            VerbText::Create => Self::Create,
            VerbText::Update => Self::Update,
            VerbText::Patch => Self::Patch,
            VerbText::Delete => Self::Delete,
            VerbText::DeleteCollection => Self::DeleteCollection,
        }
    }
}

impl From<GrantSetting> for Granted {
    fn from(setting: GrantSetting) -> Self {
        let listed = match setting {
            GrantSetting::OwnKind => return Self::OwnKind,
            GrantSetting::AsRequested => return Self::AsRequested,
            GrantSetting::Listed(listed) => listed,
        };
        let reads = listed.reads.into_iter().map(|ReadSetting(read)| ReadGrant {
            kind: read.kind.0,
            namespaces: read.namespaces,
        });
        let writes = listed.writes.into_iter().map(|write| WriteGrant {
            kind: write.kind.0,
            subresource: write.subresource,
            verbs: write.verbs.into_iter().map(Verb::from).collect(),
            namespaces: write.namespaces,
            names: write.names,
            force: write.force.unwrap_or(true),
        });
        Self::Listed {
            reads: reads.collect(),
            writes: writes.collect(),
            events: listed.events,
        }
    }
}
