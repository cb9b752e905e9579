//! The contents and progress of the caches, per informer. Read at each scrape.

use std::sync::Arc;

use pilothouse_core::{Hub, InformerKey, InformerStatus};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::cache_labels::CacheLabels;
use super::informers::Informers;
use crate::informers::errors::WatchErrors;
use crate::shared::{Cause, Shared};

/// The metrics of the caches.
pub struct CacheMetrics {
    pub shared: Arc<Shared>,
    pub watch_errors: WatchErrors,
    pub informers: Arc<Informers>,
}

impl std::fmt::Debug for CacheMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CacheMetrics")
    }
}

impl Collector for CacheMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let informers = self.shared.read(Cause::Status, Hub::informers);
        for metric in GAUGES {
            metric.encode(&mut encoder, &informers)?;
        }
        list_watches(&mut encoder, informers.len())?;
        self.watch_up(&mut encoder, &informers)?;
        let help = "Changes that were dropped because the cache has come further";
        let name = "pilothouse_stale_changes";
        counter(&mut encoder, &informers, name, help, |informer| {
            informer.stale
        })?;
        let help = "Objects that a failing key had read and the server had otherwise, and that were put right";
        let name = "pilothouse_cache_repairs";
        counter(&mut encoder, &informers, name, help, |informer| {
            informer.repairs
        })?;
        self.resource_versions(&mut encoder, &informers)
    }
}

impl CacheMetrics {
    /// `informer_store_resource_version`, for the kinds whose path is known.
    fn resource_versions(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        informers: &[InformerStatus],
    ) -> Result<(), std::fmt::Error> {
        let value = ConstGauge::new(0i64);
        let name = "informer_store_resource_version";
        let help = "The last 15 digits of the resourceVersion that the cache has reached";
        let mut family = encoder.encode_descriptor(name, help, None, value.metric_type())?;
        for informer in informers {
            if let Some(labels) = self.informers.labels(&informer.informer_key) {
                let version = informer.resource_version.last_digits();
                let version = i64::try_from(version).unwrap_or(i64::MAX);
                ConstGauge::new(version).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// Which informers' list-watches work.
    fn watch_up(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        informers: &[InformerStatus],
    ) -> Result<(), std::fmt::Error> {
        let watch_errors = self.watch_errors.all();
        let is_behind = |informer_key: &InformerKey| {
            let error = watch_errors.get(informer_key);
            error.is_some_and(|error| error.is_behind)
        };
        let metric = PerInformer {
            name: "pilothouse_watch_up",
            help: "1 while the list-watch of an informer works, 0 while it fails and its cache may be behind",
            value: &|informer| u64::from(!is_behind(&informer.informer_key)),
        };
        metric.encode(encoder, informers)
    }
}

/// One counter per informer.
fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    informers: &[InformerStatus],
    name: &str,
    help: &str,
    count: fn(&InformerStatus) -> u64,
) -> Result<(), std::fmt::Error> {
    let value = ConstCounter::new(0u64);
    let mut family = encoder.encode_descriptor(name, help, None, value.metric_type())?;
    for informer in informers {
        let labels = CacheLabels::of(&informer.informer_key);
        ConstCounter::new(count(informer)).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// The number of list-watches, for comparison with `--watch-limit`.
fn list_watches(encoder: &mut DescriptorEncoder<'_>, count: usize) -> Result<(), std::fmt::Error> {
    let value = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
    let (name, help) = ("pilothouse_list_watches", "List-watches that plugins want");
    let family = encoder.encode_descriptor(name, help, None, value.metric_type())?;
    value.encode(family)
}

/// One number per informer.
struct PerInformer<'a> {
    name: &'static str,
    help: &'static str,
    value: &'a dyn Fn(&InformerStatus) -> u64,
}

const GAUGES: &[PerInformer<'_>] = &[
    PerInformer {
        name: "pilothouse_cached_objects",
        help: "Objects in the cache of an informer",
        value: &|informer| informer.objects as u64,
    },
    PerInformer {
        name: "pilothouse_cached_bytes",
        help: "Bytes of the objects in the cache of an informer, plugins' views included",
        value: &|informer| informer.bytes as u64,
    },
    PerInformer {
        name: "pilothouse_informer_users",
        help: "Plugins that use an informer",
        value: &|informer| informer.users.len() as u64,
    },
    PerInformer {
        name: "pilothouse_unreadable_objects",
        help: "Objects that are there and cannot be read",
        value: &|informer| informer.unreadable.len() as u64,
    },
];

impl PerInformer<'_> {
    fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        informers: &[InformerStatus],
    ) -> Result<(), std::fmt::Error> {
        let value = ConstGauge::new(0i64);
        let mut family =
            encoder.encode_descriptor(self.name, self.help, None, value.metric_type())?;
        for informer in informers {
            let value = ConstGauge::new(i64::try_from((self.value)(informer)).unwrap_or(i64::MAX));
            value.encode(family.encode_family(&CacheLabels::of(&informer.informer_key))?)?;
        }
        Ok(())
    }
}
