//! The types of k8s-openapi: their kinds, and what is converted to and from them.

use std::marker::PhantomData;
use std::time::Duration;

use k8s_openapi::Resource;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;

use crate::projection::whole;
use crate::{
    InvalidQuantity, Kind, LabelExpression, Metadata, MicroTime, ObjectRef, OwnerReference,
    Projection, Shape, Time,
};

impl<T: Resource> Kind for T {
    const KIND: &'static str = Joined::<T>::TEXT;
}

/// The `apiVersion` and `kind` of a type as one text. Constants of a type parameter cannot be
/// joined by `concat!`.
struct Joined<T>(PhantomData<T>);

impl<T: Resource> Joined<T> {
    const LENGTH: usize = T::API_VERSION.len() + 1 + T::KIND.len();
    const BYTES: [u8; MAX_LENGTH] = join(T::API_VERSION.as_bytes(), T::KIND.as_bytes());
    const TEXT: &'static str = match str::from_utf8(Self::BYTES.split_at(Self::LENGTH).0) {
        Ok(text) => text,
        Err(_) => panic!("kinds are ASCII"),
    };
}

/// Longer than any kind: the longest of Kubernetes 1.37 has 68 bytes. A longer one would not
/// compile.
const MAX_LENGTH: usize = 256;

const fn join(api_version: &[u8], kind: &[u8]) -> [u8; MAX_LENGTH] {
    let mut joined = [0; MAX_LENGTH];
    let (start, rest) = joined.split_at_mut(api_version.len());
    start.copy_from_slice(api_version);
    let (slash, rest) = rest.split_at_mut(1);
    slash.copy_from_slice(b"/");
    rest.split_at_mut(kind.len()).0.copy_from_slice(kind);
    joined
}

// Values, rather than objects with fields of which only some are of interest.
whole!(
    IntOrString,
    Quantity,
    v1::LabelSelector,
    v1::MicroTime,
    v1::Time
);

/// The namespace and name of an object, for one that is written.
impl From<&ObjectRef> for v1::ObjectMeta {
    fn from(object: &ObjectRef) -> Self {
        let namespace = Some(object.namespace.clone()).filter(|namespace| !namespace.is_empty());
        Self {
            namespace,
            name: Some(object.name.clone()),
            ..Self::default()
        }
    }
}

impl From<OwnerReference> for v1::OwnerReference {
    fn from(owner: OwnerReference) -> Self {
        Self {
            api_version: owner.api_version,
            kind: owner.kind,
            name: owner.name,
            uid: owner.uid,
            controller: owner.controller.then_some(true),
            block_owner_deletion: owner.block_owner_deletion.then_some(true),
        }
    }
}

impl From<&v1::OwnerReference> for OwnerReference {
    fn from(owner: &v1::OwnerReference) -> Self {
        Self {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            controller: owner.controller.unwrap_or_default(),
            block_owner_deletion: owner.block_owner_deletion.unwrap_or_default(),
        }
    }
}

impl From<&v1::LabelSelector> for crate::LabelSelector {
    fn from(selector: &v1::LabelSelector) -> Self {
        let expressions = selector.match_expressions.iter().flatten();
        let expressions = expressions.map(|expression| LabelExpression {
            key: expression.key.clone(),
            operator: expression.operator.clone(),
            values: expression.values.clone().unwrap_or_default(),
        });
        Self {
            match_labels: selector.match_labels.clone().unwrap_or_default(),
            match_expressions: expressions.collect(),
        }
    }
}

impl From<&IntOrString> for crate::IntOrString {
    fn from(value: &IntOrString) -> Self {
        match value {
            IntOrString::Int(number) => Self::Int(*number),
            IntOrString::String(text) => Self::String(text.clone()),
        }
    }
}

impl From<crate::IntOrString> for IntOrString {
    fn from(value: crate::IntOrString) -> Self {
        match value {
            crate::IntOrString::Int(number) => Self::Int(number),
            crate::IntOrString::String(text) => Self::String(text),
        }
    }
}

/// What every view has, of an object that was read.
impl From<&v1::ObjectMeta> for Metadata {
    fn from(metadata: &v1::ObjectMeta) -> Self {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        Self {
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
            uid: text(&metadata.uid),
            deletion_timestamp: metadata.deletion_timestamp.as_ref().map(Time::from),
        }
    }
}

impl TryFrom<&Quantity> for crate::Quantity {
    type Error = InvalidQuantity;

    fn try_from(quantity: &Quantity) -> Result<Self, InvalidQuantity> {
        quantity.0.parse()
    }
}

impl From<crate::Quantity> for Quantity {
    fn from(quantity: crate::Quantity) -> Self {
        Self(quantity.to_string())
    }
}

/// A time before 1970 becomes 1970-01-01.
impl From<&v1::Time> for Time {
    fn from(time: &v1::Time) -> Self {
        let since_epoch = Duration::try_from(time.0.as_duration());
        Self(since_epoch.unwrap_or_default())
    }
}

/// A time after the year 9999 becomes its end.
impl From<Time> for v1::Time {
    fn from(time: Time) -> Self {
        let second = i64::try_from(time.0.as_secs()).unwrap_or(i64::MAX);
        Self(Timestamp::from_second(second).unwrap_or(Timestamp::MAX))
    }
}

/// A time before 1970 becomes 1970-01-01.
impl From<&v1::MicroTime> for MicroTime {
    fn from(time: &v1::MicroTime) -> Self {
        let since_epoch = Duration::try_from(time.0.as_duration());
        Self(since_epoch.unwrap_or_default())
    }
}

/// A time after the year 9999 becomes its end.
impl From<MicroTime> for v1::MicroTime {
    fn from(time: MicroTime) -> Self {
        let micros = i64::try_from(time.0.as_micros()).unwrap_or(i64::MAX);
        Self(Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX))
    }
}
