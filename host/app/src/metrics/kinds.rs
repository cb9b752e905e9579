//! What the caches hold and how far they have come, per kind, read when somebody asks.

use std::sync::{Arc, PoisonError};

use pilothouse_core::cache::KindCache;
use pilothouse_core::key::Kind;
use pilothouse_core::snapshot::Snapshot;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;

use super::informers::Informers;
use crate::shared::Shared;
use crate::watches::Troubles;

pub struct KindMetrics {
    pub shared: Arc<Shared>,
    pub troubles: Troubles,
    pub informers: Arc<Informers>,
}

impl std::fmt::Debug for KindMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KindMetrics")
    }
}

impl Collector for KindMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let snapshot = self.shared.look(|hub| hub.snapshot().clone());
        objects(&snapshot, &mut encoder)?;
        self.resource_versions(&snapshot, &mut encoder)?;
        self.watches(&snapshot, &mut encoder)
    }
}

impl KindMetrics {
    /// `informer_store_resource_version`, of the kinds whose path is known.
    fn resource_versions(
        &self,
        snapshot: &Snapshot,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        let value = ConstGauge::new(0i64);
        let name = "informer_store_resource_version";
        let help = "The last 15 digits of the resourceVersion that the cache has reached";
        let mut family = encoder.encode_descriptor(name, help, None, value.metric_type())?;
        for cache in snapshot.kinds.iter() {
            if let Some(labels) = self.informers.labels(cache.kind()) {
                let version = last_digits(cache.resource_version().as_str());
                ConstGauge::new(version).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// Which kinds are being followed.
    fn watches(
        &self,
        snapshot: &Snapshot,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        let troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        let value = ConstGauge::new(0i64);
        let name = "pilothouse_watch_up";
        let help =
            "1 while the list-watch of a kind works, 0 while it fails and its cache may be behind";
        let mut family = encoder.encode_descriptor(name, help, None, value.metric_type())?;
        for kind in snapshot.kinds.iter().map(KindCache::kind) {
            let is_up = i64::from(!troubles.contains_key(kind));
            ConstGauge::new(is_up).encode(family.encode_family(&kind_labels(kind))?)?;
        }
        Ok(())
    }
}

/// What the shared caches hold.
fn objects(
    snapshot: &Snapshot,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), std::fmt::Error> {
    let value = ConstGauge::new(0i64);
    let (name, help) = (
        "pilothouse_cached_objects",
        "Objects in the cache of a kind",
    );
    let mut family = encoder.encode_descriptor(name, help, None, value.metric_type())?;
    for cache in snapshot.kinds.iter() {
        let count = i64::try_from(cache.len()).unwrap_or(i64::MAX);
        let labels = kind_labels(cache.kind());
        ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// 15 digits are exact in a float of 64 bits (client-go's `parseRVForMetricsWithTruncation`).
fn last_digits(version: &str) -> i64 {
    let start = version.len().saturating_sub(15);
    version
        .get(start..)
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}

fn kind_labels(kind: &Kind) -> [(&'static str, &str); 3] {
    [
        ("group", &*kind.group),
        ("version", &*kind.version),
        ("kind", &*kind.kind),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_version_is_shown_by_its_last_15_digits() {
        assert_eq!(last_digits(""), 0);
        assert_eq!(last_digits("42"), 42);
        assert_eq!(last_digits("1234567890123456789"), 567_890_123_456_789);
        assert_eq!(last_digits("not a number"), 0);
    }
}
