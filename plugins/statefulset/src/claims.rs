//! The claims that pods need, as they are in the cluster.

use std::collections::BTreeMap;

use pilothouse_sdk::{Failure, Filter, Host};

use crate::objects::{Claim, StatefulSet};
use crate::replicas::Replicas;
use crate::storage;

/// Most claims that are read one by one. A reconcile makes at most 10,000 reads; a list is one.
const MAX_READS: usize = 5_000;

/// Where claims are found.
pub enum Claims<'a> {
    /// Each is read.
    Each(&'a dyn Host),
    /// All of the namespace have been read, by their names.
    All(BTreeMap<String, Claim>),
}

/// A claim that a pod needs, as it is.
pub struct Found<'a> {
    pub wanted: storage::Wanted<'a>,
    /// `None`: it is missing.
    pub claim: Option<Claim>,
}

impl<'a> Claims<'a> {
    /// Chooses how to find the claims of these pods.
    pub fn new(
        host: &'a dyn Host,
        set: &StatefulSet,
        replicas: &Replicas<'_>,
    ) -> Result<Self, Failure> {
        let pods = replicas.wanted.len() + replicas.condemned.len();
        if pods * set.spec.volume_claim_templates.len() <= MAX_READS {
            return Ok(Self::Each(host));
        }
        let all: Vec<Claim> = host.list_as(Some(set.namespace()), &Filter::Everything)?;
        let named = all
            .into_iter()
            .map(|claim| (claim.name().to_owned(), claim));
        Ok(Self::All(named.collect()))
    }

    /// The claims that the pod of this ordinal needs.
    pub fn of<'b>(&self, set: &'b StatefulSet, ordinal: i64) -> Result<Vec<Found<'b>>, Failure> {
        let wanted = storage::claims(set, ordinal);
        let found = wanted.map(|wanted| {
            let claim = self.get(set.namespace(), &wanted.name)?;
            Ok(Found { wanted, claim })
        });
        found.collect()
    }

    fn get(&self, namespace: &str, name: &str) -> Result<Option<Claim>, Failure> {
        match self {
            Self::Each(host) => host.get_as(namespace, name),
            Self::All(claims) => Ok(claims.get(name).cloned()),
        }
    }
}
