//! What the cluster lets a plugin's identity read. The caches are filled with the host's
//! permissions, so each plugin's own are checked with SubjectAccessReviews. These are repeated,
//! because permissions may be revoked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pilothouse_cluster::{ApiCluster, Identity, ReviewError};
use pilothouse_core::Kind;
use tokio::time::Instant;

/// A revoked permission is noticed within this time plus one request.
pub const ASK_AGAIN: Duration = Duration::from_secs(15);

/// After an unanswered review, known answers are reused for this long.
const PATIENCE: Duration = Duration::from_secs(5);

/// When a review last got no answer. Nobody can revoke a permission while the API server is
/// unreachable, so known answers stay valid, and only one request is waited for, not one for each
/// read of each plugin. A read that was never reviewed is asked about all the same.
#[derive(Default)]
pub struct Silence(Option<Instant>);

impl Silence {
    fn is_on(&self) -> bool {
        self.0.is_some_and(|since| since.elapsed() < PATIENCE)
    }

    /// Records a review that got no answer. A review that was answered with an error does not
    /// count, because that error tells nothing about other reviews.
    fn heard(&mut self, error: &ReviewError) {
        if error.is_silence() {
            self.0 = Some(Instant::now());
        }
    }
}

/// Kinds and namespaces; an empty namespace means all.
type Reads = BTreeSet<(Kind, String)>;

/// The last answers for one plugin. Its versions share them, although they may read different
/// things.
#[derive(Default)]
pub struct AccessReviews(Option<Answers>);

struct Answers {
    identity: Identity,
    /// Whether each may be read, and since when that is known.
    known: BTreeMap<(Kind, String), (bool, Instant)>,
}

impl AccessReviews {
    /// The reads that are forbidden to the identity. Without an identity the plugin reads as the
    /// host, to which none is forbidden. An error if a review fails and there is no earlier answer.
    pub async fn ask(
        &mut self,
        cluster: &ApiCluster,
        identity: Option<&Identity>,
        reads: &Reads,
        silence: &mut Silence,
    ) -> Result<Reads, String> {
        let Some(identity) = identity else {
            self.0 = None;
            return Ok(Reads::new());
        };
        let of_another = |answers: &Answers| answers.identity != *identity;
        if self.0.as_ref().is_none_or(of_another) {
            self.0 = None;
        }
        let answers = self.0.get_or_insert_with(|| Answers {
            identity: identity.clone(),
            known: BTreeMap::new(),
        });
        let mut forbidden = Reads::new();
        for place in reads {
            let known = answers.known.get(place).copied();
            let is_fresh = known.is_some_and(|(_, since)| since.elapsed() < ASK_AGAIN);
            let is_allowed = match known {
                Some((is_allowed, _)) if is_fresh || silence.is_on() => is_allowed,
                known => match cluster.may_read(identity, &place.0, &place.1).await {
                    Ok(is_allowed) => {
                        let known = (is_allowed, Instant::now());
                        answers.known.insert(place.clone(), known);
                        is_allowed
                    }
                    Err(error) => {
                        silence.heard(&error);
                        known.ok_or_else(|| error.to_string())?.0
                    }
                },
            };
            if !is_allowed {
                forbidden.insert(place.clone());
            }
        }
        Ok(forbidden)
    }
}
