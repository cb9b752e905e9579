//! A loaded plugin and the way it is run. Unless the operator chooses otherwise, every call gets a
//! fresh instance, so that nothing is carried over to the next. An error in a guest is an error of
//! that run and affects nothing else.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use pilothouse_core::text::cut;
use pilothouse_core::{
    Failure, Manifest, NextRun, Outcome, Plugin, Reader, Request, RunError, Scope, Snapshot,
    SubjectKey,
};

use wasmtime::{AsContextMut, Store};

use super::stats::RunStats;
use super::totals::RunTotals;

use super::call::{Call, FreshInstance, Kept, Site};
use super::totals::Totals;
use super::verify;
use crate::bindings::{Controller, ControllerPre, plugin};
use crate::convert;
use crate::engine::Engine;
use crate::imports::snapshot::own_object;
use crate::log::{LogBudget, PluginLog};
use crate::run::limits::{LimitPolicy, RunLimits};
use crate::run::report::LoadReport;
use crate::run::state::StoreState;
use crate::secret::{Random, Secret};

/// Most bytes of an error's text. A guest can influence the text, and it ends up in status and
/// logs.
const ERROR_BYTES: usize = 2 << 10;

/// A loaded plugin.
pub struct WasmPlugin {
    code: Arc<Code>,
    /// The manifest of the file, except for the name, which the operator may change.
    manifest: Arc<Manifest>,
    limits: RunLimits,
    options: RunOptions,
    /// Instances that are kept for further calls.
    idle: Mutex<Vec<Kept>>,
    log: Arc<LogBudget>,
    /// The secret that this plugin's random numbers derive from.
    secret: Secret,
}

/// What does not depend on how the plugin is run.
struct Code {
    engine: Engine,
    pre: ControllerPre<StoreState>,
    report: LoadReport,
    totals: Totals,
    /// The host's secret, from which each plugin's own is derived by name.
    secret: Secret,
}

/// How a plugin is run. The operator chooses these, and changing them compiles nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunOptions {
    /// Use an instance again after it has answered.
    ///
    /// This saves the instantiation, which costs little for Rust and much for an interpreter. The
    /// price is that a guest can carry state from one call to the next. If a reused instance fails,
    /// the call is repeated in a fresh one, so that no failure is caused by an earlier call. The
    /// exceptions are failures that the guest itself returned, and timeouts.
    pub reuse: bool,
    /// The fraction of runs that are repeated in a fresh instance and compared with the first: from
    /// 0.0 (none) to 1.0 (all). If the two differ, the run fails with
    /// [`RunError::NonDeterministic`].
    pub verify: f64,
    /// Give no run a memo: a plugin that needs its memos to be right is then found out.
    pub forget_memos: bool,
    /// Log lines per second, over all runs of the plugin. A burst may have ten times as many.
    pub log_lines: u32,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            reuse: false,
            verify: 0.0,
            forget_memos: false,
            log_lines: 100,
        }
    }
}

/// The result of a run, and what it used.
type Answer = (Result<Outcome, RunError>, RunStats);

impl WasmPlugin {
    pub(crate) fn new(
        engine: Engine,
        pre: ControllerPre<StoreState>,
        manifest: Manifest,
        policy: &LimitPolicy,
        report: LoadReport,
        secret: &Secret,
    ) -> Self {
        let code = Code {
            secret: secret.clone(),
            engine,
            pre,
            report,
            totals: Totals::default(),
        };
        let manifest = Arc::new(manifest);
        Self::of(Arc::new(code), manifest, policy, RunOptions::default())
    }

    fn of(
        code: Arc<Code>,
        manifest: Arc<Manifest>,
        policy: &LimitPolicy,
        options: RunOptions,
    ) -> Self {
        let name = manifest.name.as_str().into();
        Self {
            limits: policy.grant(&manifest.limits),
            idle: Mutex::default(),
            log: Arc::new(LogBudget::new(name, options.log_lines)),
            secret: code.secret.of_plugin(&manifest.name),
            code,
            manifest,
            options,
        }
    }

    /// The same plugin with other limits and options. Nothing is compiled. Runs that are under way
    /// keep the old ones.
    pub fn with(&self, policy: &LimitPolicy, options: RunOptions) -> Self {
        let (code, manifest) = (self.code.clone(), self.manifest.clone());
        Self::of(code, manifest, policy, options)
    }

    /// The same plugin under a name other than its manifest's.
    pub fn named(&self, name: &str, policy: &LimitPolicy, options: RunOptions) -> Self {
        let manifest = Manifest {
            name: name.to_owned(),
            ..Manifest::clone(&self.manifest)
        };
        Self::of(self.code.clone(), Arc::new(manifest), policy, options)
    }

    /// The limits of each run: what the manifest asks for, within the operator's policy.
    pub fn limits(&self) -> &RunLimits {
        &self.limits
    }

    /// How the plugin is run.
    pub fn options(&self) -> &RunOptions {
        &self.options
    }

    /// What loading the file took.
    pub fn report(&self) -> &LoadReport {
        &self.code.report
    }

    /// What all runs have used since the file was loaded, whatever their options.
    pub fn totals(&self) -> RunTotals {
        self.code.totals.read()
    }

    /// How many log lines have been dropped since the plugin got these options.
    pub fn dropped_log_lines(&self) -> u64 {
        self.log.dropped()
    }

    /// [`Plugin::reconcile`], with what it used.
    pub fn run(
        &self,
        request: &Request,
        reader: &mut Reader,
    ) -> (Result<Outcome, RunError>, RunStats) {
        reader.limit_answers(usize::try_from(self.limits.memory_bytes).unwrap_or(usize::MAX));
        let mut run = self.run_once(request, reader);
        let is_chosen = verify::is_chosen(
            self.options.verify,
            &self.manifest.name,
            &request.key,
            request.attempt,
        );
        if is_chosen && verify::is_comparable(&run.0) {
            run = self.verify(run, request, reader);
        }
        self.code.totals.add(&run.0, &run.1);
        run
    }

    /// Runs in a kept instance if there is one, and in a fresh one if that fails.
    fn run_once(&self, request: &Request, reader: &mut Reader) -> Answer {
        let kept = self.options.reuse.then(|| self.idle().pop()).flatten();
        let Some(kept) = kept else {
            return self.run_fresh(request, reader);
        };
        let (call, kept) = self.site().again(
            kept,
            self.state(request, reader, self.own_log(request)),
            |controller, store| self.call(controller, store, request),
        );
        let answer = answer(call, reader);
        self.idle().extend(kept.filter(|_| answer.0.is_ok()));
        match answer.0 {
            // Do not repeat what the guest itself decided, nor a timeout, which would take as long
            // again.
            Ok(_) | Err(RunError::Failure(_) | RunError::Timeout(_)) => answer,
            Err(_) => self.run_fresh(request, reader),
        }
    }

    fn run_fresh(&self, request: &Request, reader: &mut Reader) -> Answer {
        let (answer, left) = self.call_fresh(request, reader, self.own_log(request));
        if self.options.reuse && answer.0.is_ok() {
            self.idle()
                .extend(left.and_then(|left| self.site().keep(left)));
        }
        answer
    }

    fn call_fresh(
        &self,
        request: &Request,
        reader: &mut Reader,
        log: PluginLog,
    ) -> (Answer, Option<FreshInstance>) {
        let state = self.state(request, reader, log);
        let (call, left) = self.site().fresh(state, |controller, store| {
            self.call(controller, store, request)
        });
        (answer(call, reader), left)
    }

    /// Calls the guest with the key's own object.
    fn call(
        &self,
        controller: &Controller,
        store: &mut Store<StoreState>,
        request: &Request,
    ) -> wasmtime::Result<Result<plugin::Outcome, plugin::Failure>> {
        let key = &request.key;
        let object = match &key.kind {
            Some(kind) => own_object(store.as_context_mut(), kind, &key.object)?,
            None => None,
        };
        let memo = request.memo.as_deref();
        let memo = memo.filter(|_| !self.options.forget_memos);
        let request = convert::request(request, object, memo);
        let guest = controller.pilothouse_controller_plugin();
        guest.call_reconcile(store, &request)
    }

    /// Repeats the run in a fresh instance and compares. The reads of both runs count.
    fn verify(&self, first: Answer, request: &Request, reader: &mut Reader) -> Answer {
        let (result, mut stats) = first;
        let ((second, again), _) = self.call_fresh(request, reader, PluginLog::silent());
        // A reused instance may use other fuel for the same answer, because its heap is not that of
        // a fresh one.
        let is_like = stats.is_reused == again.is_reused;
        stats.duration += again.duration;
        if !verify::is_comparable(&second) {
            return (result, stats);
        }
        stats.is_verified = true;
        let fuel = is_like.then_some((stats.fuel, again.fuel));
        match verify::difference(&result, &second, fuel) {
            Some(difference) => (Err(RunError::NonDeterministic(difference)), stats),
            None => (result, stats),
        }
    }

    fn site(&self) -> Site<'_> {
        Site {
            engine: &self.code.engine,
            pre: &self.code.pre,
            limits: &self.limits,
        }
    }

    fn own_log(&self, request: &Request) -> PluginLog {
        PluginLog::new(self.log.clone(), request.key.clone())
    }

    /// The state of one run. It takes the reader out of `reader`; [`answer`] puts it back.
    fn state(&self, request: &Request, reader: &mut Reader, log: PluginLog) -> StoreState {
        let nothing = Reader::new(Snapshot::default(), Arc::new(Scope::default()), 0);
        let lent = std::mem::replace(reader, nothing);
        let random = Random::new(self.secret.clone(), request.key.clone());
        StoreState::new(random, Some(lent), log, &self.limits)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.idle.lock()
    }
}

/// Returns the guest's answer and gives the reader back.
fn answer(call: Call<Result<plugin::Outcome, plugin::Failure>>, reader: &mut Reader) -> Answer {
    if let Some(lent) = call.reader {
        *reader = lent;
    }
    let result = call.result.and_then(|answer| match answer {
        Ok(outcome) => convert::outcome(outcome)
            .map(with_bounded_text)
            .map_err(|error| RunError::Trap(error.to_string())),
        Err(failure) => Err(RunError::Failure(bounded(failure.into()))),
    });
    (result, call.stats)
}

impl Plugin for WasmPlugin {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn reconcile(&self, request: &Request, reader: &mut Reader) -> Result<Outcome, RunError> {
        let (result, stats) = self.run(request, reader);
        tracing::debug!(
            plugin = self.manifest.name,
            kind = request.key.kind.as_deref().map(tracing::field::display),
            object = %request.key.object,
            fuel = stats.fuel,
            memory_bytes = stats.memory_bytes,
            duration = ?stats.duration,
            is_reused = stats.is_reused,
            is_verified = stats.is_verified,
            is_ok = result.is_ok(),
            "reconcile ran"
        );
        result
    }
}

/// Asks a plugin for its manifest, a JSON document, with the default limits and without a snapshot.
pub(crate) fn describe(
    engine: &Engine,
    pre: &ControllerPre<StoreState>,
    policy: &LimitPolicy,
    secret: &Secret,
) -> (Result<String, RunError>, RunStats) {
    // The guest has not yet declared how much memory it needs, so it gets the maximum.
    let limits = RunLimits {
        memory_bytes: policy.max.memory_bytes,
        ..policy.default
    };
    // The guest has not yet declared its name either. No plugin has the empty name.
    let random = Random::new(secret.of_plugin(""), SubjectKey::singleton());
    let state = StoreState::new(random, None, PluginLog::silent(), &limits);
    let site = Site {
        engine,
        pre,
        limits: &limits,
    };
    let (call, _) = site.fresh(state, |controller, store| {
        let guest = controller.pilothouse_controller_plugin();
        guest.call_describe(store)
    });
    (call.result, call.stats)
}

fn with_bounded_text(mut outcome: Outcome) -> Outcome {
    if let NextRun::Retry(text) = &mut outcome.follow_up.next {
        *text = cut(text, ERROR_BYTES);
    }
    outcome
}

fn bounded(failure: Failure) -> Failure {
    match failure {
        Failure::Retry(text) => Failure::Retry(cut(&text, ERROR_BYTES)),
        Failure::Terminal(text) => Failure::Terminal(cut(&text, ERROR_BYTES)),
    }
}
