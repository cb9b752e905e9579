//! Chains, fans and cycles of objects that own each other.

use anyhow::{Context, Result};
use pilothouse_tests::Api;
use serde_json::{Value, json};

/// The namespace of all objects.
pub const NAMESPACE: &str = "graph";

/// Group and version, plural and kind. Each object has the next kind.
pub const KINDS: [(&str, &str, &str); 3] = [
    ("v1", "configmaps", "ConfigMap"),
    ("v1", "secrets", "Secret"),
    ("bench.dev/v1", "gadgets", "Gadget"),
];

const CHAIN: usize = 100;
const FAN: usize = 1_000;
const CYCLE: usize = 10;

/// Of the leaves of a fan, each that has this distance to the one before has one more owner.
const SHARED: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each object is owned by the one before.
    Chain,
    /// One object owns all others.
    Fan,
    /// A chain, the first of which is owned by the last.
    Cycle,
    /// A cycle whose references block their owners, of which one is deleted in the foreground.
    BlockingCycle,
}

/// An object of a figure.
#[derive(Clone)]
pub struct Member {
    pub path: String,
    pub uid: String,
    /// Has an owner that is not of the figure.
    pub is_shared: bool,
    reference: Value,
}

impl Shape {
    pub const ALL: [Self; 4] = [Self::Chain, Self::Fan, Self::Cycle, Self::BlockingCycle];

    /// How many objects a figure has.
    pub fn size(self) -> usize {
        match self {
            Self::Chain => CHAIN,
            Self::Fan => FAN,
            Self::Cycle | Self::BlockingCycle => CYCLE,
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Self::Chain => "chains",
            Self::Fan => "fans, one leaf of a hundred with another owner, too",
            Self::Cycle => "cycles",
            Self::BlockingCycle => "cycles that block, deleted in the foreground",
        }
    }

    /// How the first object of a figure is deleted.
    pub fn propagation(self) -> &'static str {
        match self {
            Self::BlockingCycle => "Foreground",
            _ => "Background",
        }
    }

    /// Creates a figure of so many objects, the first of which is its root. `other` owns the leaves
    /// of a fan that have two owners.
    pub async fn create(
        self,
        api: &Api,
        name: &str,
        size: usize,
        other: &Member,
    ) -> Result<Vec<Member>> {
        let mut members: Vec<Member> = Vec::with_capacity(size);
        for number in 0..size {
            let owner = match self {
                Self::Fan => members.first(),
                _ => members.last(),
            };
            let is_shared = self == Self::Fan && number > 0 && number % SHARED == 0;
            let owners = owner.into_iter().chain(is_shared.then_some(other));
            let owners: Vec<Value> = owners.map(|owner| self.reference(owner)).collect();
            let member = Member {
                is_shared,
                ..create(api, &format!("{name}-{number}"), number, &owners).await?
            };
            members.push(member);
        }
        if let (Self::Cycle | Self::BlockingCycle, [first, .., last]) = (self, &members[..]) {
            let owners = json!({"metadata": {"ownerReferences": [self.reference(last)]}});
            api.merge(&first.path, &owners).await?;
        }
        Ok(members)
    }

    fn reference(self, owner: &Member) -> Value {
        let mut reference = owner.reference.clone();
        if self == Self::BlockingCycle {
            reference["blockOwnerDeletion"] = true.into();
        }
        reference
    }
}

/// Creates an object with these owners, of the kind that has this number.
pub async fn create(api: &Api, name: &str, number: usize, owners: &[Value]) -> Result<Member> {
    let (version, plural, kind) = KINDS[number % KINDS.len()];
    let object = json!({
        "apiVersion": version, "kind": kind,
        "metadata": {"name": name, "ownerReferences": owners},
    });
    let collection = collection(version, plural);
    let created = api.create(&collection, &object).await?;
    let uid = created["metadata"]["uid"].as_str();
    let uid = uid.context("an object without a uid")?.to_owned();
    Ok(Member {
        path: format!("{collection}/{name}"),
        is_shared: false,
        reference: json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid}),
        uid,
    })
}

/// The path of all objects of a kind.
pub fn collection(version: &str, plural: &str) -> String {
    let api_path = if version == "v1" { "api" } else { "apis" };
    format!("/{api_path}/{version}/namespaces/{NAMESPACE}/{plural}")
}
