//! Kinds by pattern: asks the cluster which kinds it serves while a plugin reads patterns, and gives
//! informers to the kinds that reconciles ask about.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_cluster::ApiCluster;
use pilothouse_core::{Hub, Kind, ServedKind};
use tokio::time::Instant;

use crate::informers::WatchLimit;
use crate::shared::{Cause, Shared};

/// How often the cluster is asked which kinds it serves. A new kind is found within this time;
/// kube-controller-manager's garbage collector asks every thirty seconds.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// A kind that was served is gone when no answer has had it for this long: much may be deleted when
/// a kind goes, and a server that starts leaves kinds out for a moment.
const GONE_AFTER: Duration = Duration::from_secs(20);

/// The kinds that the cluster serves, or why that is not known.
type Answer = Option<Result<Vec<ServedKind>, String>>;

/// See the module's documentation.
pub struct Patterns {
    cluster: Arc<ApiCluster>,
    shared: Arc<Shared>,
    limit: WatchLimit,
    asking: Pin<Box<dyn Future<Output = Answer> + Send>>,
    /// What the cluster serves or has served lately, and when it was last seen to.
    seen: BTreeMap<Kind, (ServedKind, Instant)>,
    /// The last question had no answer, which has been logged.
    is_silent: bool,
}

impl Patterns {
    pub fn new(cluster: Arc<ApiCluster>, shared: Arc<Shared>, limit: WatchLimit) -> Self {
        let asking = ask(cluster.clone(), shared.clone(), Duration::ZERO);
        Self {
            asking: Box::pin(asking),
            cluster,
            shared,
            limit,
            seen: BTreeMap::new(),
            is_silent: false,
        }
    }

    /// Plugins have come or gone. One with patterns waits for the kinds.
    pub fn plugins_changed(&mut self) {
        let is_news = self.seen.is_empty() && self.shared.read(Cause::Plugins, Hub::wants_kinds);
        if is_news {
            self.ask_after(Duration::ZERO);
        }
    }

    fn ask_after(&mut self, delay: Duration) {
        let asking = ask(self.cluster.clone(), self.shared.clone(), delay);
        self.asking = Box::pin(asking);
    }

    /// Waits until informers have come or gone, so that their list-watches are to be adjusted.
    pub async fn changed(&mut self) {
        loop {
            tokio::select! {
                () = self.shared.kinds_wanted() => {
                    let limit = self.limit;
                    self.shared.widen(|hub| limit.room(hub));
                    return;
                }
                answer = &mut self.asking => {
                    self.ask_after(ASK_AGAIN);
                    if self.answered(answer) {
                        return;
                    }
                }
            }
        }
    }

    /// Takes what the cluster has answered. Returns whether it has.
    fn answered(&mut self, answer: Answer) -> bool {
        match answer {
            None => {
                self.seen.clear();
                false
            }
            Some(Ok(kinds)) => {
                self.is_silent = false;
                let kinds = self.settled(kinds);
                self.shared.set_kinds(kinds);
                true
            }
            Some(Err(reason)) => {
                if !std::mem::replace(&mut self.is_silent, true) {
                    tracing::warn!(
                        reason,
                        "cannot find out which kinds the cluster serves; keeping those that are known"
                    );
                }
                false
            }
        }
    }

    /// The kinds that are served now, and those that were served a moment ago.
    fn settled(&mut self, kinds: Vec<ServedKind>) -> Vec<ServedKind> {
        let now = Instant::now();
        let is_recent = |since: &Instant| now.duration_since(*since) < GONE_AFTER;
        self.seen.retain(|_, (_, since)| is_recent(since));
        // A kind in another version is the same kind: the version that is served now counts.
        for served in &kinds {
            self.seen
                .retain(|kind, _| !kind.is_version_of(&served.kind));
        }
        let fresh = kinds
            .into_iter()
            .map(|served| (served.kind.clone(), (served, now)));
        self.seen.extend(fresh);
        self.seen
            .values()
            .map(|(served, _)| served.clone())
            .collect()
    }
}

/// Asks the cluster after a delay which kinds it serves. `None`: no plugin reads patterns.
async fn ask(cluster: Arc<ApiCluster>, shared: Arc<Shared>, delay: Duration) -> Answer {
    tokio::time::sleep(delay).await;
    if !shared.read(Cause::Plugins, Hub::wants_kinds) {
        return None;
    }
    let kinds = cluster.discovery().kinds().await;
    Some(kinds.map_err(|error| error.to_string()))
}
