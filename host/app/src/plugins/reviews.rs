//! What the cluster lets a plugin's identity read. The caches are filled with the host's permissions, so that each plugin's own
//! must be asked for: by SubjectAccessReviews, again and again, for they may be revoked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pilothouse_cluster::ApiCluster;
use pilothouse_cluster::identity::{Identity, ReviewError};
use pilothouse_core::key::Kind;
use tokio::time::Instant;

/// What is revoked is noticed after this long, and a request.
pub const ASK_AGAIN: Duration = Duration::from_secs(15);

/// So long after no answer nothing is asked again that was answered before.
const PATIENCE: Duration = Duration::from_secs(5);

/// When the cluster last did not answer. Nobody can revoke anything while it cannot be reached, so the last answers hold, and one request is
/// waited for, not one for each read of each plugin. What was never answered is asked all the same.
#[derive(Default)]
pub struct Silence(Option<Instant>);

impl Silence {
    fn is_on(&self) -> bool {
        self.0.is_some_and(|since| since.elapsed() < PATIENCE)
    }

    /// One that was answered, with an error, is no silence: it says nothing of other questions.
    fn heard(&mut self, error: &ReviewError) {
        if error.is_silence() {
            self.0 = Some(Instant::now());
        }
    }
}

/// Kinds, and namespaces of them; no namespace means all.
type Reads = BTreeSet<(Kind, String)>;

/// The last answers for one plugin. Its versions may read different things, and share what is known.
#[derive(Default)]
pub struct Reviews(Option<Answers>);

struct Answers {
    identity: Identity,
    /// Whether each may be read, and since when that is known.
    known: BTreeMap<(Kind, String), (bool, Instant)>,
}

impl Reviews {
    /// Which of the reads are forbidden to the identity; none are to the host's own. An error if that is not known of one, and never was.
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

    /// Whether there is somebody to ask about again.
    pub fn is_needed(&self) -> bool {
        self.0.is_some()
    }
}
