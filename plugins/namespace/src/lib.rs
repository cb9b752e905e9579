//! Deletes what is in a namespace that is being deleted, and lets the namespace go when it is
//! empty.
//!
//! The rules are those of kube-controller-manager's namespace controller
//! (`pkg/controller/namespace/deletion` in kubernetes/kubernetes). The README lists them, with the
//! differences.

mod conditions;
mod content;
mod deletion;
mod discovery;
mod namespace;
mod pods;

use std::time::Duration;

use pilothouse_sdk::{
    Controller, Failure, Filter, Host, Kind, Manifest, Outcome, Request, Selection, Update, Verb,
};
use serde_json::Value;

use content::Content;
use namespace::Namespace;

const NAMESPACE: &str = "v1/Namespace";

/// Every kind that the cluster serves.
const EVERY_KIND: &str = "*";

/// How long after its deletion a namespace is left alone, so that every API server knows of it and
/// creates nothing in it any more.
const GRACE: Duration = Duration::from_secs(5);

/// The namespace controller.
pub struct NamespaceController;

impl Controller for NamespaceController {
    fn manifest() -> Manifest {
        let version = env!("CARGO_PKG_VERSION");
        let deletes = [Verb::Delete, Verb::DeleteCollection];
        Manifest::new("namespace", version, Selection::of(NAMESPACE))
            .reads_whole(NAMESPACE)
            .reads_as::<pods::Pod>()
            .reads_as::<discovery::ApiService>()
            .optional(discovery::ApiService::KIND)
            .reads(EVERY_KIND, [".metadata.finalizers"])
            .writes(EVERY_KIND, deletes)
            .writes(pods::Pod::KIND, deletes)
            .writes_subresource(NAMESPACE, "status", [Verb::Update])
            .writes_subresource(NAMESPACE, "finalize", [Verb::Update])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(object) = request.object::<Value>()? else {
            return Ok(Outcome::done());
        };
        let mut namespace = Namespace::new(object)?;
        let Some(deleted_at) = namespace.deleted_at() else {
            return Ok(Outcome::done());
        };
        namespace.mark_terminating();
        if namespace.is_finalized() {
            return with_status(Outcome::done(), &namespace);
        }
        let age = host.now().saturating_sub(deleted_at);
        if age < GRACE {
            return Ok(with_status(Outcome::done(), &namespace)?.requeue_after(GRACE - age));
        }
        let content = Content::survey(request, namespace.name(), age, host)?;
        let failing = discovery::failing(host)?;
        conditions::set(&mut namespace, failing.as_deref(), &content, host.now());
        let deletions = deletion::deletions(&content, namespace.name(), host)?;
        let is_empty = deletions.is_empty() && content.is_gone() && failing.is_none();
        let outcome = deletions.into_iter().fold(Outcome::done(), Outcome::with);
        let outcome = with_status(outcome.always(), &namespace)?;
        Ok(match is_empty {
            true => finalized(outcome, &namespace)?,
            false => deletion::again(outcome, failing, &content),
        })
    }
}

/// Writes the status, if it has changed.
fn with_status(outcome: Outcome, namespace: &Namespace) -> Result<Outcome, Failure> {
    if !namespace.has_new_status() {
        return Ok(outcome);
    }
    let status = Update::new(namespace.object())?.subresource("status");
    Ok(outcome.with(status))
}

/// Lets the namespace go, once the server has said that nothing is in it.
fn finalized(outcome: Outcome, namespace: &Namespace) -> Result<Outcome, Failure> {
    let update = Update::new(&namespace.finalized())?.subresource("finalize");
    let outcome = outcome.stage().with(update);
    Ok(outcome.confirm_list(EVERY_KIND, Some(namespace.name()), &Filter::Everything))
}

pilothouse_sdk::register!(NamespaceController);
