//! Keeps a service account `default` in every namespace.
//!
//! The rules are those of kube-controller-manager's service account controller
//! (`pkg/controller/serviceaccount` in kubernetes/kubernetes). The README lists the differences.

use pilothouse_sdk::{
    Controller, Create, Failure, Host, Kind, Manifest, ObjectRef, Outcome, Projection, Read,
    Request, Selection, Verb,
};
use serde::Deserialize;
use serde_json::{Value, json};

const SERVICE_ACCOUNTS: &str = "v1/ServiceAccount";

/// The service account that pods have which name none.
const NAME: &str = "default";

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Namespace")]
struct Namespace {
    #[serde(default)]
    status: NamespaceStatus,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct NamespaceStatus {
    phase: String,
}

/// The service account controller.
pub struct ServiceAccountController;

impl Controller for ServiceAccountController {
    fn manifest() -> Manifest {
        // Others are not cached.
        let accounts = Read::new(SERVICE_ACCOUNTS, []).field_selector("metadata.name=default");
        Manifest::new(
            "serviceaccount",
            env!("CARGO_PKG_VERSION"),
            Selection::of(Namespace::KIND),
        )
        .reads_as::<Namespace>()
        .reads_only(accounts)
        .writes(SERVICE_ACCOUNTS, [Verb::Create])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let namespace = request.object::<Namespace>()?;
        // In one that is being deleted nothing can be created.
        if namespace.is_none_or(|namespace| namespace.status.phase != "Active") {
            return Ok(Outcome::done());
        }
        let key = ObjectRef::new(SERVICE_ACCOUNTS, &request.key().name, NAME);
        if host.get::<Value>(&key)?.is_some() {
            return Ok(Outcome::done());
        }
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"namespace": key.namespace, "name": key.name},
        });
        Ok(Outcome::done().with(Create::new(&account)?))
    }
}

pilothouse_sdk::register!(ServiceAccountController);
