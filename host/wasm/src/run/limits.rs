//! How much one run may use. wasmtime's own `StoreLimits` applies to each memory separately: ten
//! memories under a limit of 64 MiB held 630 MiB. The limiter here adds up everything that a store
//! holds.

use std::time::Duration;

use pilothouse_core::Limits;
use wasmtime::ResourceLimiter;

use crate::engine::{
    CORE_INSTANCES_PER_COMPONENT, MEMORIES_PER_COMPONENT, MEMORY_SLOT_BYTES, TABLES_PER_COMPONENT,
};

/// Most bytes that a guest may hand to the host in one call, an outcome included: two objects of
/// the largest size that etcd stores, with some room.
pub(crate) const HOSTCALL_BYTES: usize = 4 << 20;
/// Most resource handles that may be open at once. The contract has no resources; the WASI of a
/// language runtime keeps a handful of streams.
pub(crate) const HANDLES: usize = 1_000;
/// Size of a table element: a pointer.
const TABLE_ELEMENT_BYTES: usize = 8;

/// The limits of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// Bytes of linear memory and tables, over the whole instance.
    pub memory_bytes: u64,
    /// Fuel: about one unit per wasm instruction; bulk operations cost fuel by size.
    pub fuel: u64,
    /// CPU time of the thread, the backstop behind fuel. On the wall clock a run may take ten times
    /// as long.
    pub timeout: Duration,
    /// How many runs of one plugin may be under way at the same time. The scheduler enforces this,
    /// not this crate.
    pub concurrency: u32,
}

/// The operator's limits: the defaults, and the most that a manifest may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitPolicy {
    /// Limits for a manifest that asks for none.
    pub default: RunLimits,
    /// The most that a manifest may ask for. More than 256 MiB of memory is never granted, whatever
    /// this contains.
    pub max: RunLimits,
}

impl Default for LimitPolicy {
    fn default() -> Self {
        let default = RunLimits {
            memory_bytes: 64 << 20,
            // A reconcile of Endpoints with a Service of 1,000 pods takes 98 million, one of
            // hello-rust 60,000.
            fuel: 500_000_000,
            // Many times what that much fuel takes, so that fuel decides first even on a machine
            // that is ten times slower.
            timeout: Duration::from_secs(20),
            // Several runs of one plugin are safe: a reconcile is pure, and a key is held while its
            // writes are under way.
            concurrency: 16,
        };
        let max = RunLimits {
            memory_bytes: MEMORY_SLOT_BYTES as u64,
            fuel: 5_000_000_000,
            // The maximum of fuel takes less time than this, unless it is spent on calls of
            // memory.grow by zero. The operator can allow more, but a worker thread is occupied
            // during all of it.
            timeout: default.timeout,
            concurrency: 64,
        };
        Self { default, max }
    }
}

impl LimitPolicy {
    /// The limits of a plugin whose manifest asks for `asked`.
    pub fn grant(&self, asked: &Limits) -> RunLimits {
        let Self { default, max } = self;
        RunLimits {
            memory_bytes: asked
                .memory_bytes
                .unwrap_or(default.memory_bytes)
                .min(max.memory_bytes)
                .min(MEMORY_SLOT_BYTES as u64),
            fuel: asked.fuel.unwrap_or(default.fuel).min(max.fuel),
            timeout: asked.timeout.unwrap_or(default.timeout).min(max.timeout),
            concurrency: asked
                .concurrency
                .unwrap_or(default.concurrency)
                .min(max.concurrency),
        }
    }
}

/// Adds up what a store holds. Memories and tables never shrink, so the sum is also the peak.
#[derive(Debug)]
pub(crate) struct Limiter {
    limit: usize,
    used: usize,
    /// The total size that was asked for when memory was refused. A guest seldom survives that, and
    /// its trap does not mention memory.
    refused: Option<usize>,
}

impl Limiter {
    pub(crate) fn new(limits: &RunLimits) -> Self {
        Self {
            limit: usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX),
            used: 0,
            refused: None,
        }
    }

    /// Counts `bytes` that a kept instance holds already.
    pub(crate) fn hold(&mut self, bytes: usize) {
        self.used = bytes;
    }

    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// The reason why the guest got no more memory, if it was refused any.
    pub(crate) fn refusal(&self) -> Option<String> {
        let wanted = self.refused?;
        Some(format!(
            "memory: asked for {wanted} bytes in all, limit {}",
            self.limit
        ))
    }

    fn grow(&mut self, by: usize) -> bool {
        let wanted = self.used.saturating_add(by);
        if wanted > self.limit {
            self.refused = Some(wanted);
            return false;
        }
        self.used = wanted;
        true
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // A guest that exceeds its own declared maximum has not been refused by the host. Memory
        // that will not be granted must not be counted either.
        if maximum.is_some_and(|maximum| desired > maximum && maximum < MEMORY_SLOT_BYTES) {
            return Ok(false);
        }
        Ok(self.grow(desired.saturating_sub(current)))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        Ok(self.grow(
            desired
                .saturating_sub(current)
                .saturating_mul(TABLE_ELEMENT_BYTES),
        ))
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES_PER_COMPONENT as usize
    }

    fn memories(&self) -> usize {
        MEMORIES_PER_COMPONENT as usize
    }

    fn tables(&self) -> usize {
        TABLES_PER_COMPONENT as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_gets_the_default_what_it_asks_for_or_the_maximum() {
        let policy = LimitPolicy::default();
        assert_eq!(policy.grant(&Limits::default()), policy.default);
        let asked = Limits {
            fuel: Some(5),
            memory_bytes: Some(u64::MAX),
            ..Limits::default()
        };
        let granted = policy.grant(&asked);
        assert_eq!(
            (granted.fuel, granted.memory_bytes),
            (5, policy.max.memory_bytes)
        );
    }

    #[test]
    fn a_manifest_gets_no_more_time_than_one_that_asks_for_nothing() {
        let policy = LimitPolicy::default();
        let asked = Limits {
            timeout: Some(Duration::from_secs(200)),
            ..Limits::default()
        };
        assert_eq!(policy.grant(&asked).timeout, policy.default.timeout);
    }

    #[test]
    fn memories_and_tables_count_together() {
        let limits = RunLimits {
            memory_bytes: 100,
            ..LimitPolicy::default().default
        };
        let mut limiter = Limiter::new(&limits);
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(
            !limiter.memory_growing(0, 60, None).unwrap(),
            "a second memory"
        );
        assert!(limiter.table_growing(0, 5, None).unwrap());
        assert!(!limiter.table_growing(5, 6, None).unwrap());
        assert_eq!(limiter.used(), 100);
        assert_eq!(
            limiter.refusal().unwrap(),
            "memory: asked for 108 bytes in all, limit 100"
        );
    }
}
