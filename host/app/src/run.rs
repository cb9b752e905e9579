//! `pilothouse run`: builds all parts, waits for a signal, then drains and stops.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use pilothouse_cluster::ApiCluster;
use pilothouse_cluster::client::RateLimits;
use pilothouse_cluster::connect::{ConnectError, Connection, Environment, Options};
use pilothouse_confine::hide_memory;
use pilothouse_wasm::{Engine, EngineOptions};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::cli::RunArgs;
use crate::compile;
use crate::controllers::Controllers;
use crate::directory::Directory;
use crate::host_events::HostEvents;
use crate::hosts::{Begun, Hosts, HostsParts, identity};
use crate::http::socket::{self, Socket};
use crate::http::{self, HttpState, Server};
use crate::informers::{Budget, WatchErrors, WatchLimit, Watches};
use crate::metrics::Metrics;
use crate::output;
use crate::patterns::Patterns;
use crate::plugins::{
    AtOnce, CodeRoom, FileLoader, InstallerParts, Notices, PluginCommand, PluginList, Supervisor,
    SupervisorParts, commands,
};
use crate::reach::{Reached, Reaching};
use crate::schema::Schemas;
use crate::settings::HostDefaults;
use crate::shared::Shared;
use crate::status::StatusSources;
use crate::workers::Workers;

/// How long queued and running keys may take to finish after a signal. Kubernetes kills a pod 30 s
/// after SIGTERM.
const DRAIN: Duration = Duration::from_secs(25);

/// How long the last Events may take before another host takes over.
const LAST_EVENTS: Duration = Duration::from_millis(300);

/// How long one attempt to reach the API server may take while the host waits for its first answer.
/// After that it tries again.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// Runs until a signal arrives. `defaults` apply where no settings file sets a value.
pub async fn run(args: RunArgs, defaults: HostDefaults) -> anyhow::Result<()> {
    let descriptors = raise_descriptors();
    guard_process();
    let mut signals = Signals::new()?;
    let directory = Directory::open(&args.plugins)?;
    directory.list()?;
    let limits = args.limits.limits()?;
    args.election.settings()?;
    let listener = http::bind(&args.listen).await?;
    let connection = tokio::select! {
        connection = open_connection(&args) => connection?,
        () = signals.received() => return Ok(()),
    };
    let threads = args.workers.map_or_else(|| cores() + 1, NonZeroUsize::get);
    let (reaching, reached) = Reaching::new();
    let common = CommonParts::new(connection, limits, threads, reached, &args)?;
    info!(address = %listener.local_addr()?, "listening");

    let workers = common.start_workers(threads)?;
    let engine = engine(threads)?;
    let (commands, given) = commands::channel();
    let defaults = HostDefaults {
        resync: Some(args.min_resync_period),
        ..defaults
    };
    let watch_limit = WatchLimit::new(args.watch_limit, descriptors);
    let loader = file_loader(&args, &engine, directory);
    let installer = common.installer_parts(&args, defaults, watch_limit, &loader.schemas);
    let controllers = Controllers::new(args.controllers.clone());
    let supervisor =
        Supervisor::new(common.supervisor_parts(loader, installer, controllers, given));
    let answers = HttpState::new(
        engine,
        common.sources.clone(),
        common.metrics.clone(),
        commands,
    );
    let (_socket, mut server) = serve_http(listener, &args, answers)?;

    // A task of its own, because the supervisor is busy while a plugin's views are built.
    let supervising = tokio::spawn(supervisor.run());
    let hosts = common.hosts.as_ref();
    let background = async {
        tokio::select! {
            error = kept(hosts) => error,
            error = server.failed() => error,
            error = connect(reaching, &common.connection, &common.cluster) => error.into(),
            ended = supervising => ended.unwrap_or_else(|_| anyhow::anyhow!("the supervisor of plugins has died; see the panic above")),
        }
    };
    work_until_stopped(background, workers, hosts, &mut signals).await
}

/// A connection to the API server that the flags or the environment name. Sends nothing to it yet.
async fn open_connection(args: &RunArgs) -> Result<Connection, ConnectError> {
    Connection::open(&options(args), &Environment::of_process()).await
}

fn options(args: &RunArgs) -> Options {
    Options {
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
    }
}

/// What the flags say about several hosts; `None` if this one is alone.
fn hosts_parts(args: &RunArgs, metrics: &mut Metrics) -> anyhow::Result<Option<HostsParts>> {
    let election = &args.election;
    let settings = election.settings()?;
    if !election.leader_elect {
        return Ok(None);
    }
    Ok(Some(HostsParts {
        options: options(args),
        settings,
        share: election.share,
        name: election.leader_elect_resource_name.clone(),
        namespace: election
            .leader_elect_resource_namespace
            .clone()
            .or_else(pod_namespace),
        identity: identity(&instance()),
        observer: metrics.rest_client(),
        metrics: metrics.add_hosts(&election.leader_elect_resource_name),
    }))
}

/// The namespace of the host's own pod, if the downward API says it.
fn pod_namespace() -> Option<String> {
    let named = std::env::var("POD_NAMESPACE").ok();
    named.filter(|namespace| !namespace.is_empty())
}

/// What several parts of the host use.
struct CommonParts {
    connection: Connection,
    cluster: Arc<ApiCluster>,
    metrics: Arc<Metrics>,
    sources: StatusSources,
    hosts: Option<Hosts>,
}

impl CommonParts {
    /// A hub for this number of threads, and the client with its limits, whose requests the metrics
    /// count. `reached` says whether the API server has answered.
    fn new(
        mut connection: Connection,
        limits: RateLimits,
        threads: usize,
        reached: Reached,
        args: &RunArgs,
    ) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::new(threads));
        let watch_errors = WatchErrors::default();
        let mut metrics = Metrics::new(shared.clone(), watch_errors.clone(), &connection.host);
        connection.client = connection.client.with(limits, metrics.rest_client());
        let begun = hosts_parts(args, &mut metrics)?;
        let begun = begun.map(Begun::start).transpose()?;
        if let Some(begun) = &begun {
            connection.limit_to(&begun.right())?;
        }
        let cluster = Arc::new(ApiCluster::new(&connection.client, &instance()));
        let standing = begun.as_ref().map(Begun::standing);
        let hosts = begun.map(|begun| begun.follow(shared.clone(), cluster.clone()));
        Ok(Self {
            cluster,
            connection,
            hosts,
            metrics: Arc::new(metrics),
            sources: StatusSources {
                shared,
                roster: Arc::<PluginList>::default(),
                watch_errors,
                server: reached,
                standing,
            },
        })
    }

    fn start_workers(&self, threads: usize) -> anyhow::Result<Workers> {
        let shared = self.sources.shared.clone();
        Workers::start(threads, shared, self.cluster.clone(), self.metrics.clone())
    }

    /// What plugins are checked against before they are installed in the hub.
    fn installer_parts(
        &self,
        args: &RunArgs,
        defaults: HostDefaults,
        watch_limit: WatchLimit,
        schemas: &Schemas,
    ) -> InstallerParts {
        InstallerParts {
            schemas: schemas.clone(),
            cluster: self.cluster.clone(),
            shared: self.sources.shared.clone(),
            metrics: self.metrics.clone(),
            budget: Budget::new(args.cache_limit),
            watch_limit,
            accepted: args.state.accepted(),
            host: defaults,
        }
    }

    /// What the supervisor needs to follow the loader's directory and the commands that are given.
    fn supervisor_parts(
        &self,
        loader: FileLoader,
        installer: InstallerParts,
        controllers: Controllers,
        given: mpsc::Receiver<PluginCommand>,
    ) -> SupervisorParts {
        SupervisorParts {
            at_once: AtOnce {
                read: cores(),
                compiled: loader.compiler.parallel().get(),
            },
            directory: loader.directory.clone(),
            controllers,
            loader: Arc::new(loader),
            watches: self.watches(installer.budget.clone()),
            patterns: Patterns::new(
                self.cluster.clone(),
                self.sources.shared.clone(),
                self.sources.watch_errors.clone(),
                installer.watch_limit,
            ),
            installer,
            shared: self.sources.shared.clone(),
            notices: Notices {
                metrics: self.metrics.clone(),
                events: HostEvents::new(self.cluster.clone()),
            },
            server: self.sources.server.clone(),
            sources: self.sources.clone(),
            commands: given,
        }
    }

    /// The list-watches, none of which runs yet. They keep the caches within the budget.
    fn watches(&self, budget: Budget) -> Watches {
        Watches::new(
            self.cluster.clone(),
            self.sources.shared.clone(),
            self.sources.watch_errors.clone(),
            self.metrics.clone(),
            budget,
        )
    }
}

/// Reads and compiles the plugins of the directory.
fn file_loader(args: &RunArgs, engine: &Engine, directory: Directory) -> FileLoader {
    FileLoader {
        engine: engine.clone(),
        compiler: compile::compiler(args.code.code_cache.as_deref()),
        schemas: Schemas::of_own_executable(),
        directory,
        code: CodeRoom::new(args.code_limit),
    }
}

/// Starts to answer at the listener, and to take commands at a socket that is removed when it is
/// dropped.
fn serve_http(
    listener: TcpListener,
    args: &RunArgs,
    answers: HttpState,
) -> anyhow::Result<(Option<Socket>, Server)> {
    let port = listener.local_addr()?.port();
    // Without the socket the host cannot take commands, but everything else works.
    let (commands, socket) = commands_at(args.command_socket.as_deref(), port).unzip();
    let (said, allowed) = (&args.listen, &args.allowed_host);
    let server = Server::start(listener, said, allowed, commands, answers)
        .context("cannot start the HTTP server")?;
    Ok((socket, server))
}

/// Waits for a signal, and then until what is queued has run. An error means that something has
/// ended without which the host cannot go on (`background`, a worker), or that a second signal
/// came.
async fn work_until_stopped(
    background: impl Future<Output = anyhow::Error>,
    mut workers: Workers,
    hosts: Option<&Hosts>,
    signals: &mut Signals,
) -> anyhow::Result<()> {
    tokio::pin!(background);
    tokio::select! {
        error = &mut background => return Err(error),
        error = workers.failed() => return Err(error),
        () = signals.received() => {}
    }
    info!("draining");
    let draining = async {
        let Some(hosts) = hosts else {
            // The watches go on: a key whose last write is not visible yet waits for them.
            return workers.drain(DRAIN).await;
        };
        // What is queued runs on another host, which must not wait for long.
        let until = Instant::now() + DRAIN;
        hosts.lay_down(DRAIN).await;
        let left = workers.drain(LAST_EVENTS).await;
        hosts.release(until).await;
        left
    };
    let left = tokio::select! {
        left = draining => left,
        error = &mut background => return Err(error),
        () = signals.received() => anyhow::bail!("stopped by a second signal before everything was drained"),
    };
    if left > 0 {
        warn!(keys = left, "stopped before everything was drained");
    }
    info!("stopped");
    Ok(())
}

/// Follows who runs what, if there may be several hosts. Returns only on a fault.
async fn kept(hosts: Option<&Hosts>) -> anyhow::Error {
    match hosts {
        Some(hosts) => hosts.keep().await,
        None => std::future::pending().await,
    }
}

/// Waits for the first answer of the API server, and then forever. Returns only on an error that
/// waiting cannot fix.
async fn connect(
    reaching: Reaching,
    connection: &Connection,
    cluster: &ApiCluster,
) -> ConnectError {
    let attempt = async || {
        let version = connection.check(FIRST_ANSWER).await?;
        let asked = cluster.discovery().ask_now().await;
        asked.map_err(|error| connection.not_ready(&error))?;
        Ok(version)
    };
    let version = match reaching.reach(attempt).await {
        Ok(version) => version,
        Err(error) => return error,
    };
    info!(
        server = connection.server,
        version,
        kubeconfig = connection.origin,
        "connected"
    );
    std::future::pending().await
}

/// Raises the soft limit of open descriptors to the hard limit, because each watch and each request
/// takes a connection. The soft limit is usually 1,024, for programs that still use `select`; Go's
/// runtime raises it as well. Returns the resulting limit, or `None` if it is unlimited.
fn raise_descriptors() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        let descriptors = limit.current;
        warn!(%error, descriptors, "the limit of open descriptors cannot be raised");
    }
    getrlimit(Resource::Nofile).current
}

/// Protects the process in case a plugin breaks out of its sandbox, or another process of the same
/// user is hostile.
fn guard_process() {
    if let Err(error) = hide_memory() {
        warn!(%error, "other processes of this user may be able to read the host's memory");
    }
    if geteuid().is_root() {
        warn!(
            "the host runs as root; let it run as a user of its own, it needs no rights on this machine"
        );
    }
}

/// Binds the socket for commands. If that fails, the host runs without commands.
fn commands_at(said: Option<&Path>, port: u16) -> Option<(UnixListener, Socket)> {
    let said = said.map(Path::to_owned).or_else(socket::of_environment);
    let bound = match said.as_deref() {
        Some(path) if path == Path::new("none") => return None,
        Some(path) => socket::bind(path),
        None => socket::bind_usual(&socket::usual_places(port)),
    };
    match &bound {
        Ok((_, socket)) => debug!(socket = %socket.path().display(), "taking commands"),
        Err(error) => {
            let reason = output::chain(error);
            warn!(
                reason,
                "cannot take commands; give --command-socket another path"
            );
        }
    }
    bound.ok()
}

/// An engine with room for two instances per worker: one that reconciles, and one whose manifest is
/// being read.
fn engine(workers: usize) -> anyhow::Result<Engine> {
    let instances = u32::try_from(workers.saturating_mul(2)).unwrap_or(u32::MAX);
    let options = EngineOptions::default();
    let options = EngineOptions {
        instances: options.instances.max(instances),
        ..options
    };
    Engine::new(&options).context("cannot start the WebAssembly engine")
}

/// The name that distinguishes this process from other hosts: the pod's name, or the machine's.
fn instance() -> String {
    let name =
        std::env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"));
    name.map_or_else(|_| "pilothouse".to_owned(), |name| name.trim().to_owned())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
