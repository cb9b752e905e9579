//! Before keys run that another host has run: shows that each cache is no older than the server
//! was when this host began.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use pilothouse_cluster::ApiCluster;
use pilothouse_core::{Doubt, Hub, InformerId, Proof, ResourceVersion};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use super::LOOK;
use crate::metrics::HostsMetrics;
use crate::shared::{Cause, Shared};

/// The most informers whose caches are compared with the server at the same time.
const AT_ONCE: usize = 16;

/// How long a cache may take to reach the version that the server has named, before the server is
/// asked again.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause after a question without an answer.
const RETRY: Duration = Duration::from_secs(1);

/// See the module's documentation.
pub(super) struct TakeOver {
    pub(super) shared: Arc<Shared>,
    pub(super) cluster: Arc<ApiCluster>,
    pub(super) metrics: HostsMetrics,
}

impl TakeOver {
    /// Asks the server about every cache that is in doubt, until none is.
    pub(super) async fn complete(&self) {
        let began = Instant::now();
        loop {
            let doubted = self.shared.read(Cause::Status, Hub::doubted);
            if doubted.is_empty() {
                break;
            }
            let questions = futures::stream::iter(&doubted);
            questions
                .for_each_concurrent(AT_ONCE, |doubt| self.prove(doubt))
                .await;
        }
        let took = began.elapsed();
        self.metrics.took_over(took);
        let informers = self.shared.read(Cause::Status, Hub::watched);
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        info!(informers, took_ms, "the caches are up to date; keys run");
    }

    fn is_doubted(&self, informer: InformerId) -> bool {
        let doubted = self.shared.read(Cause::Status, Hub::doubted);
        doubted.iter().any(|doubt| doubt.informer == informer)
    }

    /// Asks the server for the version of a kind, and waits until the cache has reached it.
    async fn prove(&self, doubt: &Doubt) {
        let informer = &doubt.informer_key;
        let give = |version: ResourceVersion, objects| {
            let proof = Proof { version, objects };
            let prove = |hub: &mut Hub, now| hub.prove(doubt, &proof, now);
            self.shared.change(Cause::Change, prove)
        };
        let is_enough = |version: &ResourceVersion| give(version.clone(), None);
        match self.cluster.versions(informer, is_enough).await {
            Ok((version, objects)) => {
                give(version, objects);
            }
            Err(error) => {
                debug!(%informer, %error, "the server does not say how old the cache is");
                return sleep(RETRY).await;
            }
        }
        let reached = async {
            while self.is_doubted(doubt.informer) {
                sleep(LOOK).await;
            }
        };
        if timeout(PATIENCE, reached).await.is_err() {
            warn!(%informer, "the cache is behind the server; the plugins that read it wait");
        }
    }
}
