//! Runs reconciles. Guests run on threads of their own because they are CPU-bound; writes run on
//! the async runtime.

mod silent;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use pilothouse_cluster::ApiCluster;
use pilothouse_core::{
    ActionResult, ConfirmAnswers, ConfirmEnd, ConfirmedList, Confirming, Decision, Effect, Fetch,
    Fetching, Finished, LoopingKey, ObjectIdentity, ObjectKey, PendingWrite, Plan, Purpose,
    Question, Ran, ReadFailure, Reconcile, ReconcileError, RunError, RunningKey, WriteAnswer,
    Writing,
};
use tokio::sync::mpsc;
use tracing::{Instrument, Span, debug, error_span, warn};

use self::silent::SilentKinds;
use crate::events::{EventWriter, Events};
use crate::metrics::Metrics;
use crate::reports::Reports;
use crate::shared::{Cause, Shared, Task};

/// The stack of a thread that runs guests and the host calls they make. It is large, because an
/// overflow in the host's own code would end the process.
const STACK_SIZE: usize = 8 * 1024 * 1024;

/// The most objects of one fetch that are fetched at the same time.
const MAX_READS: usize = 16;

/// Work for the async runtime. Its key is held until the work is done.
enum Job {
    /// Write the outcome of a reconcile.
    Write(Box<WriteJob>),
    /// Fetch objects from the API server.
    Fetch(Fetch),
}

struct WriteJob {
    work: WriteWork,
    span: Span,
    started: tokio::time::Instant,
}

enum WriteWork {
    Write(Writing),
    /// Write, if the API server confirms what the outcome rests on.
    Confirm(Confirming),
    /// Fetch what the reconcile has asked about, so that it can run again and decide.
    Fetch(Fetching),
}

/// The parts that every worker shares.
#[derive(Clone)]
struct WorkerContext {
    shared: Arc<Shared>,
    metrics: Arc<Metrics>,
    is_stopping: Arc<AtomicBool>,
    ids: Arc<Ids>,
    reports: Arc<Reports>,
    events: Arc<Events>,
    silent: Arc<SilentKinds>,
}

/// The threads that run guests, the task that writes, and the one that writes Events.
pub struct Workers {
    tools: WorkerContext,
    threads: Vec<JoinHandle<()>>,
    writer: tokio::task::JoinHandle<()>,
    event_writer: EventWriter,
    ended: mpsc::UnboundedReceiver<()>,
}

impl Workers {
    pub fn start(
        count: usize,
        shared: Arc<Shared>,
        cluster: Arc<ApiCluster>,
        metrics: Arc<Metrics>,
    ) -> anyhow::Result<Self> {
        let tools = WorkerContext {
            shared,
            events: Arc::new(Events::new(metrics.clone())),
            metrics,
            is_stopping: Arc::default(),
            ids: Arc::default(),
            reports: Arc::default(),
            silent: Arc::default(),
        };
        let (ends, ended) = mpsc::unbounded_channel();
        let (jobs, queue) = mpsc::unbounded_channel();
        let spawn = |number| {
            let (tools, jobs, end) = (tools.clone(), jobs.clone(), End(ends.clone()));
            std::thread::Builder::new()
                .name(format!("guest-{number}"))
                .stack_size(STACK_SIZE)
                .spawn(move || {
                    let _end = end;
                    tools.run(&jobs);
                })
                .context("cannot start a worker thread")
        };
        let threads = (0..count).map(spawn).collect::<anyhow::Result<Vec<_>>>()?;
        let event_writer = EventWriter::start(tools.events.clone(), cluster.clone());
        let writer = tokio::spawn(write(tools.clone(), cluster, queue));
        Ok(Self {
            tools,
            threads,
            writer,
            event_writer,
            ended,
        })
    }

    /// Waits until a worker ends, which happens only when it panics. Its key is then held forever.
    pub async fn failed(&mut self) -> anyhow::Error {
        tokio::select! {
            _ = self.ended.recv() => anyhow::anyhow!("a worker thread has died; see the panic above"),
            _ = &mut self.writer => anyhow::anyhow!("the writing task has died; see the panic above"),
            _ = self.event_writer.ended() => anyhow::anyhow!("the task that writes Events has died; see the panic above"),
        }
    }

    /// Finishes queued and running keys, and writes the Events that they have recorded, for at most
    /// `limit`. Returns the number of keys left behind.
    pub async fn drain(mut self, limit: Duration) -> usize {
        self.tools.is_stopping.store(true, Ordering::SeqCst);
        self.tools.shared.change(Cause::End, |hub, _| hub.drain());
        let deadline = tokio::time::Instant::now() + limit;
        let all_ended = async {
            for _ in 0..self.threads.len() {
                self.ended.recv().await;
            }
        };
        let are_all_ended = tokio::time::timeout_at(deadline, all_ended).await.is_ok();
        // The Events of a key are in the queue before the key is given back, so no more will come.
        self.event_writer.drain(deadline).await;
        if are_all_ended {
            return 0;
        }
        let status = self.tools.shared.status();
        status
            .iter()
            .map(|plugin| plugin.keys.queued + plugin.keys.running + plugin.keys.held)
            .sum()
    }
}

/// Reports on drop that a thread has ended, whether it returned or panicked.
struct End(mpsc::UnboundedSender<()>);

impl Drop for End {
    fn drop(&mut self) {
        // The receiver is gone when the host itself is ending.
        let _ = self.0.send(());
    }
}

/// Numbers reconciles. All log lines of one reconcile, the plugin's and the host's, carry the same
/// number.
struct Ids {
    /// Random, so that two processes do not use the same numbers.
    process: u32,
    runs: AtomicU64,
}

impl Default for Ids {
    fn default() -> Self {
        Self {
            process: RandomState::new().build_hasher().finish() as u32,
            runs: AtomicU64::default(),
        }
    }
}

impl Ids {
    /// The span that adds the reconcile's fields to each of its log lines. Its level is ERROR: if
    /// the log's filter dropped the span, the fields would be missing from the lines inside it.
    fn span(&self, held: &RunningKey) -> Span {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let process = self.process;
        error_span!(
            "reconcile",
            version = held.plugin_version(),
            reconcile_id = format_args!("{process:08x}-{run}"),
        )
    }
}

impl WorkerContext {
    fn run(&self, jobs: &mpsc::UnboundedSender<Job>) {
        while let Some(task) = self
            .shared
            .next_task(|| self.is_stopping.load(Ordering::SeqCst))
        {
            match task {
                Task::Run(reconcile) => self.reconcile(*reconcile, jobs),
                // The writer outlives the workers, except when the host is ending.
                Task::Fetch(fetch) => drop(jobs.send(Job::Fetch(fetch))),
            }
        }
    }

    fn reconcile(&self, reconcile: Reconcile, jobs: &mpsc::UnboundedSender<Job>) {
        let started = tokio::time::Instant::now();
        let span = self.ids.span(reconcile.held());
        let _within = span.clone().entered();
        self.metrics
            .waited(reconcile.held().plugin_name(), reconcile.waited());
        let ran = reconcile.run();
        self.audit(&ran);
        let work = match self.shared.ran(ran) {
            Decision::Writing(writing) => WriteWork::Write(writing),
            Decision::Confirming(confirming) => WriteWork::Confirm(confirming),
            Decision::Fetching(fetching) => WriteWork::Fetch(fetching),
            Decision::Finished(finished) => {
                let plugin = finished.held().plugin_name();
                self.metrics.ran(plugin, started.elapsed());
                return self.finish(finished);
            }
        };
        // The writer outlives the workers, except when the host is ending.
        let _ = jobs.send(Job::Write(Box::new(WriteJob {
            work,
            span,
            started,
        })));
    }

    /// Logs a denied read and the warnings of a plan, once for each plugin and text; the metric
    /// counts all denied reads. The guest got the denial as its answer and may have gone on.
    fn audit(&self, ran: &Ran) {
        let held = ran.held();
        let plugin = held.plugin_name();
        let news = |text: &str| self.reports.news(held.plugin, plugin, text);
        if let Some(reason) = ran.denied().and_then(|denied| news(&denied.to_string())) {
            warn!(plugin, kind = held.kind(), object = %held.object(), reason, "read denied");
        }
        let warnings = ran.plan().into_iter().flat_map(Plan::warnings);
        for reason in warnings.filter_map(|warning| news(warning)) {
            warn!(plugin, kind = held.kind(), object = %held.object(), reason, "part of the outcome had no effect");
        }
    }

    async fn perform(&self, cluster: &ApiCluster, job: Job) {
        match job {
            Job::Write(job) => {
                let span = job.span.clone();
                self.write(cluster, *job).instrument(span).await;
            }
            Job::Fetch(fetch) => self.fetch(cluster, &fetch).await,
        }
    }

    async fn fetch(&self, cluster: &ApiCluster, fetch: &Fetch) {
        let answers = answers(&fetch.questions, |question| {
            cluster.read(&question.kind, &question.key)
        });
        let answers = answers.await;
        if matches!(fetch.purpose, Purpose::Gate(_)) {
            let is_cut_off = self
                .shared
                .read(Cause::End, |hub| hub.is_cut_off(fetch.plugin));
            tell_unknown(&fetch.questions, &answers, is_cut_off);
        }
        let repaired = self
            .shared
            .change(Cause::Change, |hub, now| hub.fetched(fetch, answers, now));
        for Question { kind, key, .. } in &repaired {
            warn!(%kind, object = %key, "the cache differed from the server; repaired");
        }
    }

    async fn write(&self, cluster: &ApiCluster, job: WriteJob) {
        let writing = match job.work {
            WriteWork::Write(writing) => ControlFlow::Continue(writing),
            WriteWork::Confirm(confirming) => self.confirm(cluster, confirming).await,
            WriteWork::Fetch(fetching) => {
                ControlFlow::Break(self.fetch_for(cluster, fetching).await)
            }
        };
        let mut finished = match writing {
            ControlFlow::Continue(writing) => carry_out(writing, cluster).await,
            ControlFlow::Break(finished) => finished,
        };
        let (held, executed) = (finished.held(), finished.executed());
        self.metrics.ran(held.plugin_name(), job.started.elapsed());
        report(held, &executed.effects);
        self.events.take(&mut finished);
        self.finish(finished);
    }

    /// Fetches the objects of which a reconcile has asked, and which no watch brings.
    async fn fetch_for(&self, cluster: &ApiCluster, fetching: Fetching) -> Finished {
        let found = answers(fetching.objects(), |asked| {
            let read = cluster.read(&asked.kind, &asked.key);
            self.silent.ask(&asked.kind, read)
        });
        let found = found.await;
        for (asked, answer) in fetching.objects().iter().zip(&found) {
            if let Err(reason) = answer {
                let held = fetching.held();
                debug!(
                    plugin = held.plugin_name(),
                    kind = %asked.kind,
                    object = %asked.key,
                    %reason,
                    "cannot fetch an object; the plugin is told that it is unavailable"
                );
            }
        }
        fetching.answered(found)
    }

    /// Asks the API server what an outcome wants to have confirmed. If it contradicts what the
    /// reconcile has seen, brings the caches up to date.
    async fn confirm(
        &self,
        cluster: &ApiCluster,
        confirming: Confirming,
    ) -> ControlFlow<Finished, Writing> {
        // The answers are parsed here, and not while the hub is held.
        let objects = answers(confirming.objects(), |asked| async move {
            let found = cluster.read(asked.kind(), &asked.key).await?;
            asked
                .examine(found.as_deref())
                .map_err(ReadFailure::Refused)
        });
        let objects = objects.await;
        let lists = answers(confirming.lists(), |asked| listed(cluster, asked)).await;
        let answers = ConfirmAnswers { objects, lists };
        let end = self
            .shared
            .read(Cause::End, |hub| hub.confirmed(confirming, answers));
        match end {
            ConfirmEnd::Writing(writing) => ControlFlow::Continue(writing),
            ConfirmEnd::Contradicted(fetch, finished) => {
                let held = finished.held();
                debug!(
                    plugin = held.plugin_name(),
                    kind = held.kind(),
                    object = %held.object(),
                    objects = fetch.questions.len(),
                    "the server contradicts the snapshot; nothing is written"
                );
                self.fetch(cluster, &fetch).await;
                ControlFlow::Break(finished)
            }
            ConfirmEnd::Finished(finished) => ControlFlow::Break(finished),
        }
    }

    /// Logs how a reconcile has ended, and gives its key back.
    fn finish(&self, finished: Finished) {
        let held = finished.held();
        let (plugin, kind) = (held.plugin_name().to_owned(), held.kind());
        if let Some(error) = finished.error() {
            self.report_failure(held, error);
        }
        if let Some(LoopingKey { key, runs, field }) = self.shared.finished(finished).looping {
            warn!(plugin, kind, object = %key.object, runs, field, "a key is run only by its own writes; slowed down");
        }
    }

    fn report_failure(&self, held: &RunningKey, error: &ReconcileError) {
        let plugin = held.plugin_name();
        if matches!(error, ReconcileError::Run(RunError::Timeout(_))) {
            self.metrics.timed_out(plugin);
        }
        let (kind, object) = (held.kind(), held.object());
        let attempt = held.request.attempt;
        // An outage is logged once, by the first key that cannot reach the API server.
        let is_said = matches!(error, ReconcileError::Unavailable(_))
            && self
                .shared
                .read(Cause::End, |hub| hub.is_cut_off(held.plugin));
        if is_said || !self.reports.takes_failure(held.plugin, plugin) {
            debug!(plugin, kind, %object, attempt, %error, "reconcile failed");
        } else {
            warn!(plugin, kind, %object, attempt, %error, "reconcile failed");
        }
    }
}

fn report(held: &RunningKey, effects: &[Effect]) {
    let plugin = held.plugin_name();
    let results = || effects.iter().map(|effect| &effect.result);
    debug!(
        plugin,
        kind = held.kind(),
        object = %held.object(),
        writes = results().filter(|result| matches!(result, ActionResult::Done(_))).count(),
        "reconciled"
    );
    for error in results().filter_map(ActionResult::error) {
        debug!(plugin, kind = held.kind(), object = %held.object(), error, "action failed");
    }
}

/// The API server's answer to one question.
type Fetched = Result<Option<String>, ReadFailure>;

/// Sends the writes of a reconcile, each as soon as `core` lets it begin.
async fn carry_out(mut writing: Writing, cluster: &ApiCluster) -> Finished {
    let mut answers = FuturesUnordered::new();
    loop {
        match writing.advance() {
            ControlFlow::Continue((begun, sending)) => {
                answers.extend(begun.into_iter().map(|pending| send(pending, cluster)));
                // There is one: a write is under way.
                let (pending, answer) = answers.select_next_some().await;
                writing = sending.answered(pending, answer);
            }
            ControlFlow::Break(finished) => return finished,
        }
    }
}

async fn send(pending: PendingWrite, cluster: &ApiCluster) -> (PendingWrite, WriteAnswer) {
    let answer = cluster.write(pending.author(), pending.write()).await;
    (pending, answer)
}

/// What the API server has in a list that is to be confirmed.
async fn listed(
    cluster: &ApiCluster,
    asked: &ConfirmedList,
) -> Result<BTreeMap<ObjectKey, ObjectIdentity>, ReadFailure> {
    let mut found = BTreeMap::new();
    let examine = |json: &str| {
        found.extend(asked.examine(json)?);
        Ok(())
    };
    let is_whole = asked.takes_whole_objects();
    cluster.list(&asked.target, is_whole, examine).await?;
    Ok(found)
}

/// Asks the API server all questions with `read`, and returns the answers in the same order. Only
/// [`MAX_READS`] run at a time, because each takes a connection.
async fn answers<'a, Q, A, R: Future<Output = A>>(
    questions: &'a [Q],
    read: impl Fn(&'a Q) -> R,
) -> Vec<A> {
    let reads: Vec<R> = questions.iter().map(read).collect();
    futures::stream::iter(reads)
        .buffered(MAX_READS)
        .collect()
        .await
}

/// Warns about written objects whose state cannot be fetched: at most one line for requests without
/// an answer and one for refused requests, each with a count. Requests without an answer are not
/// logged for a plugin that is cut off from the cluster, because that has been logged already.
fn tell_unknown(questions: &[Question], answers: &[Fetched], is_cut_off: bool) {
    let failures = questions.iter().zip(answers);
    let failures =
        failures.filter_map(|(question, answer)| Some((question, answer.as_ref().err()?)));
    let (refused, unanswered): (Vec<_>, Vec<_>) =
        failures.partition(|(_, failure)| matches!(failure, ReadFailure::Refused(_)));
    if let Some((
        Question {
            kind, key: object, ..
        },
        reason,
    )) = unanswered.first()
        && !is_cut_off
    {
        let others = unanswered.len() - 1;
        warn!(%kind, %object, %reason, others, "cannot confirm a write; its key waits");
    }
    if let Some((
        Question {
            kind, key: object, ..
        },
        reason,
    )) = refused.first()
    {
        let others = refused.len() - 1;
        warn!(%kind, %object, %reason, others, "not allowed to confirm a write; its key runs anyway");
    }
}

/// Runs the jobs of the async runtime, all concurrently. Their number is bounded by the plugins'
/// concurrency, because a key is held until its plan is done.
async fn write(
    tools: WorkerContext,
    cluster: Arc<ApiCluster>,
    mut queue: mpsc::UnboundedReceiver<Job>,
) {
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            job = queue.recv() => match job {
                Some(job) => running.push(tools.perform(&cluster, job)),
                None => break,
            },
            Some(()) = running.next() => {}
        }
    }
    while running.next().await.is_some() {}
}

#[cfg(test)]
mod tests;
