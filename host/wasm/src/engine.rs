//! The only wasmtime engine of the process: the WebAssembly features that guests may use, the pool
//! that their instances come from, and the clock that stops runs which take too long.
//!
//! Everything a guest could observe is fixed here, so that it is the same on every machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use wasmtime::{
    Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig, WasmFeatures,
};

use crate::run::stopwatch::{self, Clocks, Stopwatch};
use crate::secret::Secret;
use crate::ticker::{Ticker, Ticking};

/// Time between two ticks while a guest runs. A timeout is exact to about one tick. Ten ticks a
/// second would be enough, and 200 are no noticeable load beside a guest.
const TICK: Duration = Duration::from_millis(5);
/// Deep enough for Python's interpreter, small enough that an overflow is found quickly and that
/// the stack fits any worker thread.
const WASM_STACK_BYTES: usize = 512 << 10;
/// Size limit of each memory, and the size of the pool's slots, which take address space only. A
/// plugin's own limit is lower.
pub(crate) const MEMORY_SLOT_BYTES: usize = 256 << 20;
/// Size limit of each table. Go's has 6,311 elements, Python's with its extensions more. An element
/// takes eight bytes of address space.
const TABLE_ELEMENTS: usize = 64 << 10;
/// componentize-py builds a component of many modules, one for each shared library. Small ones cost
/// little.
pub(crate) const CORE_INSTANCES_PER_COMPONENT: u32 = 64;
/// One for the guest, one for an adapter, two spare. More would let a guest get around limits that
/// are per memory.
pub(crate) const MEMORIES_PER_COMPONENT: u32 = 4;
/// A shared table and those of the import shims.
pub(crate) const TABLES_PER_COMPONENT: u32 = 8;
/// Size limit of a component's metadata, which grows with its number of functions. Python's is the
/// largest known.
const COMPONENT_BYTES: usize = 4 << 20;
/// This much of a used memory slot is reset by writing to it and stays resident, so that the next
/// run has no page faults for it: all that a small guest writes to, a small part of what a large
/// one does. Linux 6.7 and later say which pages were written to. On an older one it is the
/// beginning of the memory, most of which is the part of the stack that nobody reaches.
const KEEP_RESIDENT_BYTES: usize = 256 << 10;
/// How many instances may exist at once: one per worker thread and one per load, with some to
/// spare.
const INSTANCES: u32 = 64;

/// The WebAssembly features that guests may use: WebAssembly 1.0, what LLVM emits by default, and
/// components.
const PROPOSALS: WasmFeatures = WasmFeatures::FLOATS
    .union(WasmFeatures::MUTABLE_GLOBAL)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::BULK_MEMORY_OPT)
    .union(WasmFeatures::REFERENCE_TYPES)
    .union(WasmFeatures::CALL_INDIRECT_OVERLONG)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::SIMD)
    .union(WasmFeatures::COMPONENT_MODEL);

/// Options that may differ between processes.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Time between two epoch ticks. `None`: there is no ticker, and a test calls
    /// [`Engine::increment_epoch`] by hand.
    pub tick: Option<Duration>,
    /// How many instances may exist at once. A run beyond that fails with
    /// [`pilothouse_core::RunError::Host`]. Plugins that reuse instances may keep up to
    /// half of them between calls.
    pub instances: u32,
    /// The clocks that time a run. They are read whenever the epoch deadline of a run passes.
    pub clocks: Clocks,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            tick: Some(TICK),
            instances: INSTANCES,
            clocks: stopwatch::machine,
        }
    }
}

/// Why an engine could not be created.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// wasmtime could not be set up, most likely for lack of address space (`ulimit -v`).
    #[error("engine: {0:#}")]
    Create(wasmtime::Error),
    /// The system provides no random numbers.
    #[error("random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// The ticker thread could not be started.
    #[error("epoch ticker: {0}")]
    Ticker(#[source] std::io::Error),
}

/// The engine. Clones share it; one per process is enough.
#[derive(Clone)]
pub struct Engine {
    wasmtime: wasmtime::Engine,
    tick: Duration,
    clocks: Clocks,
    ticker: Option<Arc<Ticker>>,
    secret: Secret,
    /// How many more instances may be kept between calls.
    idle_room: Arc<AtomicU32>,
}

/// Permission to keep one instance between calls. Dropping it makes room for another.
pub(crate) struct IdleRoom(Arc<AtomicU32>);

impl Drop for IdleRoom {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Engine {
    /// Creates an engine and, unless it is switched off, its ticker thread. The thread ends by
    /// itself within a second after the last clone is dropped.
    pub fn new(options: &EngineOptions) -> Result<Self, EngineError> {
        let wasmtime = wasmtime::Engine::new(&config(options)).map_err(EngineError::Create)?;
        let ticker = match options.tick {
            Some(tick) => Some(Arc::new(
                start_ticker(&wasmtime, tick).map_err(EngineError::Ticker)?,
            )),
            None => None,
        };
        Ok(Self {
            wasmtime,
            tick: options.tick.unwrap_or(TICK),
            clocks: options.clocks,
            secret: Secret::draw()?,
            ticker,
            // The other half is reserved for runs.
            idle_room: Arc::new(AtomicU32::new(options.instances / 2)),
        })
    }

    /// Permission to keep one more instance between calls, if enough remain for runs.
    pub(crate) fn idle_room(&self) -> Option<IdleRoom> {
        let take = |room: u32| room.checked_sub(1);
        self.idle_room
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .ok()
            .map(|_| IdleRoom(self.idle_room.clone()))
    }

    /// Advances the epoch by one tick.
    pub fn increment_epoch(&self) {
        self.wasmtime.increment_epoch();
    }

    /// True if timeouts are enforced. Without a ticker, only fuel ends a run.
    pub fn is_ticking(&self) -> bool {
        self.ticker.as_ref().is_some_and(|ticker| ticker.is_alive())
    }

    /// A run begins, which has to be timed until this is dropped.
    pub(crate) fn begin_run(&self) -> Option<Ticking> {
        self.ticker.as_ref().map(|ticker| ticker.run())
    }

    /// An engine whose code runs on an engine made by [`Engine::new`], for a process that only
    /// compiles. It has no room for instances, so it reserves no address space. It starts no
    /// threads.
    pub(crate) fn for_compiling() -> Result<wasmtime::Engine, EngineError> {
        let no_instances = EngineOptions {
            tick: None,
            instances: 0,
            ..EngineOptions::default()
        };
        let mut config = config(&no_instances);
        config.parallel_compilation(false);
        wasmtime::Engine::new(&config).map_err(EngineError::Create)
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.wasmtime
    }

    /// A secret for this process alone, for hosts without a directory to store one in.
    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Starts timing a run that may use `limit` of CPU time.
    pub(crate) fn stopwatch(&self, limit: Duration) -> Stopwatch {
        Stopwatch::start(self.clocks, limit)
    }

    /// The epoch deadline for `timeout`, in ticks. One more than fit into it, because the first
    /// tick may come immediately.
    pub(crate) fn ticks(&self, timeout: Duration) -> u64 {
        ticks(timeout, self.tick)
    }

    /// Time between two ticks.
    pub(crate) fn tick(&self) -> Duration {
        self.tick
    }
}

/// [`Engine::ticks`] without an engine.
pub(crate) fn ticks(timeout: Duration, tick: Duration) -> u64 {
    let ticks = timeout.as_nanos().div_ceil(tick.as_nanos().max(1));
    u64::try_from(ticks)
        .unwrap_or(u64::MAX / 2)
        .saturating_add(1)
}

fn start_ticker(engine: &wasmtime::Engine, tick: Duration) -> std::io::Result<Ticker> {
    let engine = engine.weak();
    Ticker::start(tick, move |is_running| {
        let engine = engine.upgrade();
        if let (true, Some(engine)) = (is_running, &engine) {
            engine.increment_epoch();
        }
        engine.is_some()
    })
}

fn config(options: &EngineOptions) -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .consume_fuel(true)
        .epoch_interruption(true)
        .cranelift_nan_canonicalization(true)
        .max_wasm_stack(WASM_STACK_BYTES)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool(options.instances)));
    // A proposal that none of our toolchains needs would only make more of wasmtime's code
    // reachable. Proposals that a new version of wasmtime adds stay off until they are listed.
    config
        .wasm_features(WasmFeatures::all().difference(PROPOSALS), false)
        .wasm_features(PROPOSALS, true)
        .relaxed_simd_deterministic(true);
    config
}

fn pool(instances: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(CORE_INSTANCES_PER_COMPONENT))
        .total_memories(instances.saturating_mul(MEMORIES_PER_COMPONENT))
        .total_tables(instances.saturating_mul(TABLES_PER_COMPONENT))
        .max_core_instances_per_component(CORE_INSTANCES_PER_COMPONENT)
        .max_memories_per_component(MEMORIES_PER_COMPONENT)
        .max_tables_per_component(TABLES_PER_COMPONENT)
        .max_component_instance_size(COMPONENT_BYTES)
        .max_core_instance_size(COMPONENT_BYTES)
        .max_memory_size(MEMORY_SLOT_BYTES)
        .table_elements(TABLE_ELEMENTS)
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .table_keep_resident(KEEP_RESIDENT_BYTES);
    // A process without instances has none to reset, and may be confined.
    if instances > 0 {
        pool.pagemap_scan(Enabled::Auto);
    }
    pool
}
