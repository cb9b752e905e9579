//! The one wasmtime engine of the process: what guests may be made of, the pool their instances come from, and the clock that
//! stops those that run too long. Everything a guest could observe is fixed here, so that it is the same on every machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wasmtime::{Config, InstanceAllocationStrategy, PoolingAllocationConfig, WasmFeatures};

use crate::secret::Secret;
use crate::stopwatch::{self, Clocks, Stopwatch};

/// Between two ticks. A timeout is exact to about one tick; ten a second would already do, and 200 are no load.
const TICK: Duration = Duration::from_millis(5);
/// Deep enough for Python's interpreter, small enough that an overflow is found at once and fits any worker thread.
const WASM_STACK_BYTES: usize = 512 << 10;
/// The most any one memory can have. A plugin's own limit is lower; this is the pool's slot size, in address space only.
pub(crate) const MEMORY_SLOT_BYTES: usize = 256 << 20;
/// Go's table has 6,311 elements, and Python with its extensions has more. Eight bytes of address space each.
const TABLE_ELEMENTS: usize = 64 << 10;
/// componentize-py makes a component of many modules, one for each shared library; small ones are no hardship.
pub(crate) const CORE_INSTANCES_PER_COMPONENT: u32 = 64;
/// One for the guest, one for an adapter, two to spare. Many memories are how per-memory limits are got round.
pub(crate) const MEMORIES_PER_COMPONENT: u32 = 4;
/// A shared table and the import shims.
pub(crate) const TABLES_PER_COMPONENT: u32 = 8;
/// Metadata of a component: grows with its functions. Python's is the largest known.
const COMPONENT_BYTES: usize = 4 << 20;
/// The part of a used memory slot that is zeroed by hand and stays resident: all of a small guest's, little of a large one's.
const KEEP_RESIDENT_BYTES: usize = 256 << 10;
/// How many instances may be alive at once: one per worker thread and one per load, with room to spare.
const INSTANCES: u32 = 64;

/// What guests may be made of: WebAssembly 1.0, what LLVM emits by default, and components.
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

/// What may differ between processes.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Between two epoch ticks. None: no ticker, and a test calls [`Engine::increment_epoch`] by hand.
    pub tick: Option<Duration>,
    /// How many instances may be alive at once. One more is [`pilothouse_core::plugin::RunError::Host`]. Half of them may be kept
    /// between calls by plugins that reuse theirs.
    pub instances: u32,
    /// What runs are timed by, whenever the epoch's ticks say that it is time to look.
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

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The machine lacks something: address space, most likely (`ulimit -v`).
    #[error("engine: {0:#}")]
    Create(wasmtime::Error),
    /// The system has no random numbers.
    #[error("random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// No thread for the ticker.
    #[error("epoch ticker: {0}")]
    Ticker(#[source] std::io::Error),
}

/// The engine. Cloning shares it; there should be one in a process.
#[derive(Clone)]
pub struct Engine {
    wasmtime: wasmtime::Engine,
    tick: Duration,
    clocks: Clocks,
    ticker: Option<Arc<JoinHandle<()>>>,
    secret: Secret,
    /// How many more instances may be kept between calls.
    idle_room: Arc<AtomicU32>,
}

/// The right to keep one instance between calls.
pub(crate) struct IdleRoom(Arc<AtomicU32>);

impl Drop for IdleRoom {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Engine {
    /// An engine and, unless switched off, its ticker thread. The thread ends by itself within a tick of the engine's end.
    pub fn new(options: &EngineOptions) -> Result<Self, EngineError> {
        let wasmtime = wasmtime::Engine::new(&config(options)).map_err(EngineError::Create)?;
        let ticker = match options.tick {
            Some(tick) => Some(Arc::new(
                spawn_ticker(&wasmtime, tick).map_err(EngineError::Ticker)?,
            )),
            None => None,
        };
        Ok(Self {
            wasmtime,
            tick: options.tick.unwrap_or(TICK),
            clocks: options.clocks,
            secret: Secret::draw()?,
            ticker,
            // The other half is for runs.
            idle_room: Arc::new(AtomicU32::new(options.instances / 2)),
        })
    }

    /// Room to keep an instance between calls, as long as that leaves enough for runs.
    pub(crate) fn idle_room(&self) -> Option<IdleRoom> {
        let take = |room: u32| room.checked_sub(1);
        self.idle_room
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .ok()
            .map(|_| IdleRoom(self.idle_room.clone()))
    }

    /// Moves the epoch on by one tick.
    pub fn increment_epoch(&self) {
        self.wasmtime.increment_epoch();
    }

    /// Whether timeouts are being kept. Without a ticker nothing but fuel ends a run.
    pub fn is_ticking(&self) -> bool {
        self.ticker
            .as_ref()
            .is_some_and(|ticker| !ticker.is_finished())
    }

    /// An engine that compiles what one of [`Engine::new`] runs, in a process that does nothing else: it has no room for instances,
    /// so it reserves no address space, and starts no threads.
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

    /// For hosts without a directory to keep one in.
    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Starts timing a run.
    pub(crate) fn stopwatch(&self, limit: Duration) -> Stopwatch {
        Stopwatch::start(self.clocks, limit)
    }

    /// How many ticks `timeout` is. One more than it fills, as the first may come at once.
    pub(crate) fn ticks(&self, timeout: Duration) -> u64 {
        ticks(timeout, self.tick)
    }

    /// Between two ticks.
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

fn spawn_ticker(engine: &wasmtime::Engine, tick: Duration) -> std::io::Result<JoinHandle<()>> {
    let engine = engine.weak();
    thread::Builder::new()
        .name("epoch-ticker".into())
        .spawn(move || {
            loop {
                thread::sleep(tick);
                let Some(engine) = engine.upgrade() else {
                    return;
                };
                engine.increment_epoch();
            }
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
    // A proposal that no toolchain of ours needs is code that need not be reachable, and what a new wasmtime
    // brings is off until it is listed.
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
    pool
}
