//! Kinds by pattern: asks the cluster which kinds it serves while a plugin reads patterns, and
//! gives informers to the kinds that reconciles ask about.
//!
//! It looks every five seconds, and asks the cluster only if the last answer may not be good any
//! more: `cluster::discovery` decides that, and this module tells it what the host is told of.

mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_cluster::ApiCluster;
use pilothouse_core::{Hub, Kind, KindName, ServedKind};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::informers::{WatchErrors, WatchLimit};
use crate::shared::{Cause, Shared};
pub use told::defines_kinds;

/// How often kinds are looked at. While the cluster is asked each time, a new kind is found within
/// this time; kube-controller-manager's garbage collector asks every thirty seconds.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How soon after a change the kinds are looked at. Many changes may come at once.
const SOON: Duration = Duration::from_secs(1);

/// A kind that was served is gone when no answer has had it for this long: much may be deleted when
/// a kind goes, and a server that starts leaves kinds out for a moment.
const GONE_AFTER: Duration = Duration::from_secs(20);

/// The kinds that the cluster serves, or why that is not known.
type Answer = Option<Result<Vec<ServedKind>, String>>;

/// See the module's documentation.
pub struct Patterns {
    cluster: Arc<ApiCluster>,
    shared: Arc<Shared>,
    watch_errors: WatchErrors,
    limit: WatchLimit,
    /// A task of its own: while it asks, it holds what others who ask the cluster about kinds wait
    /// for, who are in the task that polls this.
    asking: JoinSet<Answer>,
    /// When the kinds are looked at next.
    next: Instant,
    seen: Seen,
    refusals: Refusals,
    /// The last question had no answer, which has been logged.
    is_silent: bool,
}

impl Patterns {
    pub fn new(
        cluster: Arc<ApiCluster>,
        shared: Arc<Shared>,
        watch_errors: WatchErrors,
        limit: WatchLimit,
    ) -> Self {
        let mut patterns = Self {
            asking: JoinSet::new(),
            next: Instant::now(),
            cluster,
            shared,
            watch_errors,
            limit,
            seen: Seen::default(),
            refusals: Refusals::default(),
            is_silent: false,
        };
        patterns.ask_after(Duration::ZERO);
        patterns
    }

    /// Plugins have come or gone. One with patterns waits for the kinds.
    pub fn plugins_changed(&mut self) {
        let is_news = self.seen.0.is_empty() && self.shared.read(Cause::Plugins, Hub::wants_kinds);
        if is_news {
            self.ask_after(Duration::ZERO);
        }
        // One that reconciles patterns asks for their kinds by being there.
        if self.shared.read(Cause::Plugins, Hub::wants_informers) {
            self.shared.want_kinds();
        }
    }

    fn ask_after(&mut self, delay: Duration) {
        self.next = Instant::now() + delay;
        let discovery = self.cluster.discovery();
        let told = |hub: &Hub| told::told(hub, &self.watch_errors, discovery);
        discovery.set_told(self.shared.read(Cause::Plugins, told));
        let asking = ask(self.cluster.clone(), self.shared.clone(), delay);
        // The task before ends with its set.
        self.asking = JoinSet::new();
        self.asking.spawn(asking);
    }

    /// Waits until informers have come or gone, so that their list-watches are to be adjusted.
    pub async fn changed(&mut self) {
        loop {
            tokio::select! {
                () = self.shared.kinds_wanted() => {
                    self.widen();
                    return;
                }
                () = self.shared.kinds_redefined() => {
                    self.cluster.discovery().note_change();
                    if self.next > Instant::now() + SOON {
                        self.ask_after(SOON);
                    }
                }
                Some(answer) = self.asking.join_next() => {
                    // One that is cancelled is so because the host ends.
                    let answer = answer.unwrap_or_else(|error| match error.try_into_panic() {
                        Ok(panicked) => resume_unwind(panicked),
                        Err(_) => None,
                    });
                    let has_answered = self.answered(answer);
                    self.ask_after(LOOK_AGAIN);
                    if has_answered {
                        return;
                    }
                }
            }
        }
    }

    fn widen(&mut self) {
        let limit = self.limit;
        self.shared.widen(|hub| limit.room_for_patterns(hub));
        let refused = self.shared.read(Cause::Plugins, Hub::refused_kinds);
        for (plugin, kinds) in self.refusals.news(refused) {
            tracing::warn!(
                plugin,
                kinds = kinds.join(" "),
                "no room to list and watch these kinds of a pattern, so the plugin is told that they are unavailable; raise --watch-limit"
            );
        }
    }

    /// Takes what the cluster has answered. Returns whether it has.
    fn answered(&mut self, answer: Answer) -> bool {
        match answer {
            None => {
                self.seen = Seen::default();
                false
            }
            Some(Ok(kinds)) => {
                self.is_silent = false;
                let kinds = self.seen.settled(kinds);
                self.shared.set_kinds(kinds);
                // A kind that there was no room for is asked for again now and then.
                self.widen();
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
}

/// The kinds that the cluster serves or has served lately.
#[derive(Default)]
struct Seen(BTreeMap<KindName, (ServedKind, Instant)>);

impl Seen {
    /// The kinds that are served now, and those that were served a moment ago. A kind in another
    /// version is the same kind: the version that is served now counts.
    fn settled(&mut self, kinds: Vec<ServedKind>) -> Vec<ServedKind> {
        let now = Instant::now();
        let is_recent = |since: &Instant| now.duration_since(*since) < GONE_AFTER;
        self.0.retain(|_, (_, since)| is_recent(since));
        let fresh = kinds.into_iter();
        self.0
            .extend(fresh.map(|served| (KindName::of(&served.kind), (served, now))));
        self.0.values().map(|(served, _)| served.clone()).collect()
    }
}

/// The kinds that there is no room for, by plugin, as they have been logged.
#[derive(Default)]
struct Refusals(BTreeSet<(String, Kind)>);

impl Refusals {
    /// Those of these that were not refused before, by plugin.
    fn news(&mut self, refused: Vec<(String, Kind, Arc<str>)>) -> BTreeMap<String, Vec<String>> {
        let refused = refused.into_iter();
        let now: BTreeSet<(String, Kind)> =
            refused.map(|(plugin, kind, _)| (plugin, kind)).collect();
        let mut news: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (plugin, kind) in now.difference(&self.0) {
            news.entry(plugin.clone())
                .or_default()
                .push(kind.to_string());
        }
        self.0 = now;
        news
    }
}

/// Finds out after a delay which kinds the cluster serves: from its last answer, as long as that is
/// good. `None`: no plugin reads patterns.
async fn ask(cluster: Arc<ApiCluster>, shared: Arc<Shared>, delay: Duration) -> Answer {
    tokio::time::sleep(delay).await;
    if !shared.read(Cause::Plugins, Hub::wants_kinds) {
        return None;
    }
    let discovery = cluster.discovery();
    let is_current = discovery.is_current(LOOK_AGAIN).await;
    let kinds = match discovery.known_kinds() {
        Some(kinds) if is_current => Ok(kinds),
        _ => discovery.kinds().await,
    };
    Some(kinds.map_err(|error| error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(kind: &str) -> ServedKind {
        ServedKind {
            kind: kind.parse().unwrap(),
            versions: Vec::new(),
            resource: "x".to_owned(),
            is_namespaced: true,
            verbs: Vec::new(),
            subresources: Vec::new(),
        }
    }

    fn settled(seen: &mut Seen, kinds: &[&str]) -> Vec<String> {
        let kinds = kinds.iter().map(|kind| served(kind)).collect();
        let settled = seen.settled(kinds).into_iter();
        settled.map(|served| served.kind.to_string()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_goes_when_no_answer_has_had_it_for_twenty_seconds() {
        let mut seen = Seen::default();
        settled(&mut seen, &["v1/Pod", "example.com/v1/Foo"]);
        tokio::time::advance(Duration::from_secs(19)).await;
        let both = ["v1/Pod", "example.com/v1/Foo"];
        assert_eq!(settled(&mut seen, &["v1/Pod"]), both);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(settled(&mut seen, &["v1/Pod"]), ["v1/Pod"]);
    }

    #[test]
    fn a_kind_that_there_is_no_room_for_is_told_once_until_there_is_room_again() {
        let refused = |kinds: &[&str]| {
            let kinds = kinds.iter().map(|kind| kind.parse().unwrap());
            kinds
                .map(|kind| ("p".to_owned(), kind, "full".into()))
                .collect()
        };
        let mut refusals = Refusals::default();
        let mut news = |kinds| {
            refusals
                .news(refused(kinds))
                .remove("p")
                .unwrap_or_default()
        };
        let both = ["example.com/v1/A", "example.com/v1/B"];
        assert_eq!(news(&both[..1]), both[..1]);
        assert_eq!(news(&both), both[1..]);
        assert!(news(&both).is_empty());
        assert!(news(&[]).is_empty());
        assert_eq!(news(&both), both);
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_the_server_prefers_in_another_version_is_in_that_one_at_once() {
        let mut seen = Seen::default();
        settled(&mut seen, &["example.com/v1beta1/Foo"]);
        let now = settled(&mut seen, &["example.com/v1/Foo"]);
        assert_eq!(now, ["example.com/v1/Foo"]);
    }
}
