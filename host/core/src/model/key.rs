//! Names of kinds and of objects, and the order of resourceVersions.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::model::text::cut;

/// What stands for every group, version and kind in a pattern.
const ANY: &str = "*";

/// A group-version-kind, or a pattern of them ([`is_pattern`](Kind::is_pattern)). The core group is
/// the empty string.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// API group, `apps`; empty for the core group.
    pub group: Arc<str>,
    /// API version, `v1`.
    pub version: Arc<str>,
    /// Kind, `Deployment`.
    pub kind: Arc<str>,
}

impl Kind {
    /// A kind from its three parts.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// Creates a kind from an object's `apiVersion` and `kind`.
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self::new(group, version, kind)
    }

    /// True if this is the kind Secret, whose values not every reader of the object may see.
    pub fn is_secret(&self) -> bool {
        self.group.is_empty() && &*self.kind == "Secret"
    }

    /// The pattern of every kind.
    pub(crate) fn any() -> Self {
        Self::new(ANY, ANY, ANY)
    }

    /// True if this is the same kind, in the same API version or another.
    pub fn is_version_of(&self, other: &Self) -> bool {
        (&self.group, &self.kind) == (&other.group, &other.kind)
    }

    /// True for a pattern: every kind that the cluster serves (`*`), or those of one group
    /// (`apps/*`, and `v1/*` for the core group), each in the version that the server prefers.
    pub fn is_pattern(&self) -> bool {
        &*self.kind == ANY
    }

    /// True if this is a pattern that the kind, or all that the other pattern stands for, belongs
    /// to.
    pub fn includes(&self, kind: &Self) -> bool {
        self.is_pattern() && (&*self.group == ANY || self.group == kind.group)
    }

    /// The pattern of this text, if it is one. A pattern names no version.
    fn pattern(text: &str) -> Option<Self> {
        let group = match text.split_once('/') {
            None => text,
            Some(("v1", ANY)) => "",
            Some((group, ANY)) => group,
            Some(_) => return None,
        };
        let is_pattern = text == ANY || (text.contains('/') && group != ANY);
        (is_pattern && !text.starts_with('/')).then(|| Self::new(group, ANY, ANY))
    }

    /// The object's `apiVersion`: `apps/v1`, or `v1` in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// A text is not a kind.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{0:?} is not a kind: write apiVersion, a slash and the kind, as in apps/v1/Deployment or v1/Pod; a pattern is *, apps/* or v1/*"
)]
pub struct KindError(String);

/// From `apps/v1/Deployment` or `v1/Pod`: an `apiVersion`, a slash, and a `kind`; or from a
/// pattern.
impl FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, KindError> {
        if let Some(pattern) = Self::pattern(text) {
            return Ok(pattern);
        }
        let parts = text.rsplit_once('/').and_then(|(api_version, kind)| {
            let (group, version) = match api_version.split_once('/') {
                Some((group, version)) if !group.is_empty() => (group, version),
                Some(_) => return None,
                None => ("", api_version),
            };
            let is_part = |part: &str| !part.is_empty() && !part.contains(['/', '*']);
            let is_whole = is_part(version) && is_part(kind) && !group.contains(ANY);
            is_whole.then_some((group, version, kind))
        });
        let (group, version, kind) = parts.ok_or_else(|| KindError(cut(text, 80)))?;
        Ok(Self::new(group, version, kind))
    }
}

/// `apps/v1/Deployment` or `v1/Pod`, and of a pattern `*`, `apps/*` or `v1/*`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_pattern() {
            return match &*self.group {
                ANY => f.write_str(ANY),
                "" => f.write_str("v1/*"),
                group => write!(f, "{group}/*"),
            };
        }
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        write!(f, "{}/{}", self.version, self.kind)
    }
}

/// The name of one object of a kind. Keys are ordered by namespace, then name, which is the order
/// in which objects are listed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// A key from its two parts; an empty namespace means cluster-scoped.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The only key of a singleton plugin. It names no object.
    pub fn singleton() -> Self {
        Self::new("", "")
    }
}

/// `namespace/name`, or only `name`: client-go's form of a key.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts().fmt(f)
    }
}

/// A key that borrows its parts. Ordered like [`ObjectKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyRef<'a> {
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// `metadata.name`.
    pub name: &'a str,
}

impl ObjectKey {
    /// The same key, borrowed.
    pub fn parts(&self) -> KeyRef<'_> {
        KeyRef {
            namespace: &self.namespace,
            name: &self.name,
        }
    }
}

impl KeyRef<'_> {
    /// The same key, owned.
    pub fn to_key(self) -> ObjectKey {
        ObjectKey::new(self.namespace, self.name)
    }

    /// The same key, owned. It shares the texts of `other` where they are equal, so that thousands
    /// of keys of one namespace hold its name once.
    pub fn to_key_beside(self, other: &ObjectKey) -> ObjectKey {
        ObjectKey {
            namespace: text_beside(self.namespace, &other.namespace),
            name: text_beside(self.name, &other.name),
        }
    }
}

fn text_beside(text: &str, other: &Arc<str>) -> Arc<str> {
    if *text == **other {
        other.clone()
    } else {
        text.into()
    }
}

impl PartialEq<ObjectKey> for KeyRef<'_> {
    fn eq(&self, other: &ObjectKey) -> bool {
        *self == other.parts()
    }
}

impl fmt::Display for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(self.name)
    }
}

/// A `metadata.resourceVersion`: a decimal integer of any length. Two of them may be compared
/// (KEP-5504).
///
/// A version that is not a number (an aggregated API server may still send one) sorts below all
/// numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceVersion(Version);

/// The order is that of versions: opaque texts first, then numbers by value. Each number has
/// exactly one representation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Version {
    /// A number that fits into 64 bits and has no leading zeros. Every version that etcd hands out
    /// is one.
    Small(u64),
    /// Any other text.
    Text(Box<str>),
}

impl ResourceVersion {
    /// Parses a version as it is written in the object.
    pub fn new(text: &str) -> Self {
        let is_canonical = text == "0" || !text.starts_with(['0', '+']);
        match text.parse() {
            Ok(number) if is_canonical => Self(Version::Small(number)),
            _ => Self(Version::Text(text.into())),
        }
    }

    /// True if the version is missing or empty.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Version::Text(text) if text.is_empty())
    }

    /// True if it is a number, so that it can be older or newer than another.
    pub fn is_comparable(&self) -> bool {
        match &self.0 {
            Version::Small(_) => true,
            Version::Text(text) => digits(text).is_some(),
        }
    }

    /// True if both are numbers and this one is not the greater.
    pub fn is_at_most(&self, other: &Self) -> bool {
        self.is_comparable() && other.is_comparable() && self <= other
    }

    /// True if both are numbers and this one is greater by more than `distance`.
    pub fn is_beyond(&self, other: &Self, distance: u64) -> bool {
        match (&self.0, &other.0) {
            (Version::Small(a), Version::Small(b)) => a.saturating_sub(*b) > distance,
            // The text is a number beyond 64 bits, a number with leading zeros, or opaque. A number
            // that does not fit into 128 bits either is beyond any number that fits into 64.
            (Version::Text(text), Version::Small(b)) => match value(text) {
                Some(a) => a > u128::from(*b) + u128::from(distance),
                None => self.is_comparable(),
            },
            (Version::Small(_), Version::Text(_)) => false,
            (Version::Text(a), Version::Text(b)) => match (value(a), value(b)) {
                (Some(a), Some(b)) => a.saturating_sub(b) > u128::from(distance),
                _ => match (digits(a), digits(b)) {
                    (Some(a), Some(b)) => a.len() > b.len() + 1,
                    _ => false,
                },
            },
        }
    }

    /// The number right before this one, as long as it is not 0: a watch from there brings whatever
    /// is of this version. `None` for a version that is no number, or does not fit into 64 bits.
    pub fn before(&self) -> Option<Self> {
        match &self.0 {
            Version::Small(number) if *number > 1 => Some(Self(Version::Small(number - 1))),
            _ => None,
        }
    }

    /// The last fifteen digits as a number, which a float can still hold exactly. client-go's
    /// metric of a store's version shows the same.
    pub fn last_digits(&self) -> u64 {
        const MODULUS: u64 = 1_000_000_000_000_000;
        match &self.0 {
            Version::Small(number) => number % MODULUS,
            Version::Text(text) => digits(text)
                .and_then(|digits| digits[digits.len().saturating_sub(15)..].parse().ok())
                .unwrap_or_default(),
        }
    }
}

impl Default for ResourceVersion {
    fn default() -> Self {
        Self(Version::Text("".into()))
    }
}

/// The version as it is written in the object.
impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Version::Small(number) => number.fmt(f),
            Version::Text(text) => text.fmt(f),
        }
    }
}

/// The digits without leading zeros, or `None` if the text is not a number.
fn digits(text: &str) -> Option<&str> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.trim_start_matches('0'))
}

/// The number that the text is, if it fits into 128 bits.
fn value(text: &str) -> Option<u128> {
    // A sign, which `parse` allows, makes it no number.
    digits(text).and_then(|_| text.parse().ok())
}

impl Ord for ResourceVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (Version::Small(a), Version::Small(b)) = (&self.0, &other.0) {
            return a.cmp(b);
        }
        let (a, b) = (self.to_string(), other.to_string());
        match (digits(&a), digits(&b)) {
            (Some(a), Some(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
            (Some(_), None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
            (None, None) => a.cmp(&b),
        }
        .then_with(|| a.cmp(&b))
    }
}

impl PartialOrd for ResourceVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_reads_as_its_api_version_and_name() {
        assert_eq!(
            Kind::new("apps", "v1", "Deployment").to_string(),
            "apps/v1/Deployment"
        );
        assert_eq!(Kind::from_api_version("v1", "Pod").to_string(), "v1/Pod");
        assert_eq!(
            Kind::from_api_version("apps/v1", "Deployment").api_version(),
            "apps/v1"
        );
    }

    #[test]
    fn a_pattern_is_every_kind_or_those_of_a_group() {
        let kind = |text: &str| text.parse::<Kind>();
        let (pod, deployment) = (kind("v1/Pod").unwrap(), kind("apps/v1/Deployment").unwrap());
        for (text, has_pod, has_deployment) in [
            ("*", true, true),
            ("v1/*", true, false),
            ("apps/*", false, true),
            ("batch/*", false, false),
        ] {
            let pattern = kind(text).unwrap();
            assert!(pattern.is_pattern() && pattern.to_string() == text);
            assert_eq!(pattern.includes(&pod), has_pod, "{text}");
            assert_eq!(pattern.includes(&deployment), has_deployment, "{text}");
            assert!(kind("*").unwrap().includes(&pattern));
        }
        assert!(!pod.is_pattern() && !pod.includes(&pod));
        for text in [
            "apps/v1/*",
            "*/*",
            "/*",
            "apps/*/Deployment",
            "*/v1/Pod",
            "",
            "a*/v1/P",
        ] {
            assert!(kind(text).is_err(), "{text}");
        }
    }

    #[test]
    fn resource_versions_compare_as_integers_of_any_length() {
        let version = ResourceVersion::new;
        assert!(version("9") < version("10"));
        assert!(version("18446744073709551616") < version("18446744073709551617"));
        assert!(version("99999999999999999999") < version("100000000000000000000"));
        assert!(version("abc") < version("1"));
        assert!(version("7") > version(""));
        assert!(version("18446744073709551616") > version("18446744073709551615"));
    }

    #[test]
    fn a_resource_version_far_beyond_another_is_found_at_any_length() {
        let version = ResourceVersion::new;
        let huge = "9".repeat(60);
        let cases = [
            ("110", "100", false),
            ("111", "100", true),
            ("100", "111", false),
            (&*huge, "100", true),
            ("100", &*huge, false),
            (&*huge, &*huge, false),
            ("18446744073709551626", "18446744073709551615", true),
            ("18446744073709551625", "18446744073709551615", false),
            ("18446744073709551640", "18446744073709551629", true),
            ("x", "100", false),
            ("111", "x", false),
            ("+500", "100", false),
            ("+18446744073709551640", "18446744073709551616", false),
            ("18446744073709551640", "+500", false),
            ("007", "0", false),
        ];
        for (one, other, is_beyond) in cases {
            let (one, other) = (version(one), version(other));
            assert_eq!(one.is_beyond(&other, 10), is_beyond, "{one} and {other}");
        }
    }

    #[test]
    fn a_resource_version_reads_back_as_it_was_written() {
        for text in ["", "0", "7", "007", "+7", "18446744073709551616", "a7"] {
            assert_eq!(ResourceVersion::new(text).to_string(), text);
        }
    }

    #[test]
    fn only_numbers_can_be_said_to_be_older() {
        let version = ResourceVersion::new;
        assert!(version("7").is_at_most(&version("7")));
        assert!(!version("8").is_at_most(&version("7")));
        assert!(!version("").is_at_most(&version("7")));
        assert!(!version("a").is_at_most(&version("b")));
    }

    #[test]
    fn the_last_digits_of_a_version_are_a_number() {
        assert_eq!(ResourceVersion::new("42").last_digits(), 42);
        assert_eq!(
            ResourceVersion::new("98765432101234567890").last_digits(),
            101_234_567_890 + 432 * 1_000_000_000_000
        );
        assert_eq!(ResourceVersion::new("x").last_digits(), 0);
    }
}
