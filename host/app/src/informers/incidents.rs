//! Logs failures of the API server: one line when an incident begins and one when it is over,
//! however many kinds are watched.
//!
//! Kinds that fail within half a minute of each other belong to one incident. A kind that fails
//! later begins a new incident. Otherwise the failure of a whole server would not be logged while
//! one aggregated API is down for days.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use pilothouse_core::InformerKey;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::Role;

/// Longer than the slowest list-watch takes to notice that its server is frozen.
const TOGETHER: Duration = Duration::from_secs(30);

/// The incidents that are not over.
pub struct Incidents {
    /// The API server, as host and port.
    server: String,
    open: Mutex<Vec<Incident>>,
}

struct Incident {
    since: Instant,
    /// The list-watches that still fail.
    failing: BTreeSet<(InformerKey, Role)>,
    /// How many informers have failed since the incident began.
    informers: usize,
}

impl Incident {
    fn add(&mut self, informer_key: &InformerKey, role: Role) {
        let is_known = self.failing.iter().any(|(known, _)| known == informer_key);
        self.informers += usize::from(!is_known);
        self.failing.insert((informer_key.clone(), role));
    }
}

impl Incidents {
    pub fn new(server: &str) -> Self {
        Self {
            server: server.to_owned(),
            open: Mutex::default(),
        }
    }

    /// A list-watch of an informer fails because of the server. Ignores a retired list-watch,
    /// because nothing would end its incident.
    pub fn begin(
        &self,
        informer_key: &InformerKey,
        role: Role,
        reason: &str,
        is_retired: &AtomicBool,
    ) {
        let mut open = self.lock();
        if is_retired.load(Ordering::SeqCst) {
            return;
        }
        let place = (informer_key.clone(), role);
        if open
            .iter()
            .any(|incident| incident.failing.contains(&place))
        {
            debug!(kind = %informer_key, reason, "watch still fails");
            return;
        }
        let latest = open.last_mut();
        if let Some(incident) = latest.filter(|incident| incident.since.elapsed() < TOGETHER) {
            incident.add(informer_key, role);
            let informers = incident.informers;
            debug!(kind = %informer_key, reason, informers, "watch failed, too");
            return;
        }
        open.push(Incident {
            since: Instant::now(),
            failing: BTreeSet::from([place]),
            informers: 1,
        });
        warn!(server = self.server, reason, kind = %informer_key, "watches are failing; more kinds may be affected");
    }

    /// Ends a list-watch's part in an incident: it works again, fails for a reason of its own, or
    /// is not wanted any more.
    pub fn end(&self, informer_key: &InformerKey, role: Role) {
        let mut open = self.lock();
        let place = (informer_key.clone(), role);
        let found = open
            .iter_mut()
            .position(|incident| incident.failing.remove(&place));
        let Some(place) = found else {
            return;
        };
        debug!(kind = %informer_key, "watch recovered");
        if open[place].failing.is_empty() {
            let Incident {
                since, informers, ..
            } = open.remove(place);
            let lasted = format!("{:.1} s", since.elapsed().as_secs_f32());
            info!(server = self.server, lasted, informers, "watches recovered");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Incident>> {
        self.open.lock()
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_core::Kind;

    use super::*;
    use crate::test_log::logged;

    use Role::{Follower, Successor};

    fn begin(incidents: &Incidents, informer_key: &InformerKey, role: Role, reason: &str) {
        incidents.begin(informer_key, role, reason, &AtomicBool::new(false));
    }

    fn kind(name: &str) -> InformerKey {
        InformerKey::all(Kind::new("", "v1", name))
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_fails_for_many_kinds_is_one_line_and_one_when_it_is_back() {
        let (log, _guard) = logged();
        let incidents = Incidents::new("server:6443");
        for number in 0..50 {
            begin(
                &incidents,
                &kind(&format!("Kind{number}")),
                Follower,
                "it is gone",
            );
            tokio::time::advance(Duration::from_millis(200)).await;
        }
        begin(&incidents, &kind("Kind7"), Follower, "it is still gone");
        for number in 0..50 {
            incidents.end(&kind(&format!("Kind{number}")), Follower);
        }
        incidents.end(&kind("Other"), Follower);
        let lines = log.lines();
        let wanted = [
            " WARN watches are failing; more kinds may be affected server=\"server:6443\" reason=\"it is gone\" kind=v1/Kind0",
            " INFO watches recovered server=\"server:6443\" lasted=\"10.0 s\" informers=50",
        ];
        assert_eq!(lines, wanted);
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_much_later_is_another_incident() {
        let (log, _guard) = logged();
        let incidents = Incidents::new("server:6443");
        begin(
            &incidents,
            &kind("Aggregated"),
            Follower,
            "its own server is gone",
        );
        tokio::time::advance(TOGETHER).await;
        for name in ["Pod", "Service"] {
            begin(&incidents, &kind(name), Follower, "all is gone");
        }
        for name in ["Service", "Pod"] {
            incidents.end(&kind(name), Follower);
        }
        let lines = log.lines();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[2].ends_with("informers=2"), "{lines:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_becomes_of_a_successor_does_not_end_its_predecessor_s_incident() {
        let (log, _guard) = logged();
        let incidents = Incidents::new("server:6443");
        for role in [Follower, Successor] {
            begin(&incidents, &kind("Pod"), role, "it is gone");
        }
        incidents.end(&kind("Pod"), Successor);
        assert_eq!(log.lines().len(), 1);
        incidents.end(&kind("Pod"), Follower);
        let lines = log.lines();
        assert_eq!(lines.len(), 2);
        assert!(lines[1].ends_with("informers=1"), "{lines:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_watch_that_is_retired_begins_no_incident() {
        let (log, _guard) = logged();
        let incidents = Incidents::new("server:6443");
        let is_retired = AtomicBool::new(true);
        incidents.begin(&kind("Pod"), Follower, "it is gone", &is_retired);
        assert_eq!(log.lines(), [""; 0]);
    }
}
