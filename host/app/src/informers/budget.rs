//! The limit on the memory of cached objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pilothouse_core::{Hub, InformerId};
use tracing::{error, info};

use crate::shared::{Cause, Shared};

/// The operator's limit on the memory of cached objects, and whether they exceed it now.
#[derive(Clone, Default)]
pub struct Budget {
    limit: Option<usize>,
    is_exceeded: Arc<AtomicBool>,
}

impl Budget {
    pub fn new(limit: Option<usize>) -> Self {
        Self {
            limit,
            is_exceeded: Arc::default(),
        }
    }

    /// Bytes that the objects of one informer may take, including those it holds now.
    pub fn room(&self, shared: &Shared, informer: InformerId) -> usize {
        let Some(limit) = self.limit else {
            return usize::MAX;
        };
        let others = shared.read(Cause::Change, |hub| {
            let own = hub.snapshot().informers[informer].bytes();
            hub.cached_bytes() - own
        });
        limit.saturating_sub(others)
    }

    /// Why nothing more can be cached, if the limit is reached.
    pub fn is_used_up(&self, shared: &Shared) -> Option<String> {
        let limit = self.limit?;
        let held = shared.read(Cause::Plugins, Hub::cached_bytes);
        (held >= limit)
            .then(|| format!("the caches hold {held} bytes; --cache-limit allows {limit}"))
    }

    /// Logs once when the caches exceed the limit, and once when they are within it again. Cached
    /// objects are kept, also while they grow: a controller that sees half of its objects is worse
    /// than one that needs more memory.
    pub fn check(&self, shared: &Shared) {
        let Some(limit) = self.limit else {
            return;
        };
        let bytes = shared.read(Cause::Change, Hub::cached_bytes);
        let is_exceeded = bytes > limit;
        if self.is_exceeded.swap(is_exceeded, Ordering::Relaxed) == is_exceeded {
            return;
        }
        if is_exceeded {
            error!(
                bytes,
                limit, "the caches exceed their limit; nothing more is cached"
            );
        } else {
            info!(bytes, limit, "the caches are within their limit again");
        }
    }
}
