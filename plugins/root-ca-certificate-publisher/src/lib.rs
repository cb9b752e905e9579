//! Publishes the certificate authority of the API server in every namespace: the ConfigMap
//! `kube-root-ca.crt`.
//!
//! The rules are those of kube-controller-manager's root CA certificate publisher
//! (`pkg/controller/certificates/rootcacertpublisher` in kubernetes/kubernetes). The README lists
//! the differences.

use pilothouse_sdk::{
    Controller, Create, Failure, Host, Kind, Manifest, Metadata, ObjectRef, Outcome, Projection,
    Read, Request, Selection, Update, Verb,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const CONFIG_MAPS: &str = "v1/ConfigMap";

/// The name of the ConfigMaps.
const NAME: &str = "kube-root-ca.crt";

/// The annotation that says what a ConfigMap is for, and what it says.
const DESCRIPTION: (&str, &str) = (
    "kubernetes.io/description",
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
     endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
     guaranteed across distributions of Kubernetes clusters.",
);

/// What the operator configures.
#[derive(Deserialize)]
struct Config {
    /// One or more certificates in PEM.
    #[serde(rename = "rootCA")]
    root_ca: String,
}

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Namespace")]
struct Namespace {
    metadata: Metadata,
    #[serde(default)]
    status: NamespaceStatus,
}

#[derive(Default, Deserialize, Projection)]
#[serde(default)]
struct NamespaceStatus {
    phase: String,
}

impl Namespace {
    /// True if nothing can be created in it any more.
    fn is_terminating(&self) -> bool {
        self.status.phase == "Terminating" || self.metadata.deletion_timestamp.is_some()
    }
}

/// The root CA certificate publisher.
pub struct RootCaCertificatePublisher;

impl Controller for RootCaCertificatePublisher {
    fn manifest() -> Manifest {
        // Whole, because it is replaced. Others are not cached.
        let config_maps =
            Read::new(CONFIG_MAPS, []).field_selector("metadata.name=kube-root-ca.crt");
        Manifest::new(
            "root-ca-certificate-publisher",
            env!("CARGO_PKG_VERSION"),
            Selection::of(Namespace::KIND),
        )
        .reads_as::<Namespace>()
        .reads_only(config_maps)
        .writes(CONFIG_MAPS, [Verb::Create, Verb::Update])
        .config_schema(&json!({
            "type": "object", "additionalProperties": false, "required": ["rootCA"],
            "properties": {
                "rootCA": {"type": "string", "pattern": "-----BEGIN CERTIFICATE-----"},
            },
        }))
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(namespace) = request.object::<Namespace>()? else {
            return Ok(Outcome::done());
        };
        let config: Config = request.configuration()?;
        let data = json!({"ca.crt": config.root_ca});
        let key = ObjectRef::new(CONFIG_MAPS, &request.key().name, NAME);
        match host.get::<Map<String, Value>>(&key)? {
            None if namespace.is_terminating() => Ok(Outcome::done()),
            None => Ok(Outcome::done().with(Create::new(&json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "namespace": key.namespace, "name": key.name,
                    "annotations": {DESCRIPTION.0: DESCRIPTION.1},
                },
                "data": data,
            }))?)),
            Some(found) if is_right(&found, &data) => Ok(Outcome::done()),
            Some(found) => Ok(Outcome::done().with(Update::new(&corrected(found, data))?)),
        }
    }
}

pilothouse_sdk::register!(RootCaCertificatePublisher);

/// True if it has this data and no other, and any description.
fn is_right(config_map: &Map<String, Value>, data: &Value) -> bool {
    let annotations = config_map
        .get("metadata")
        .map(|metadata| &metadata["annotations"]);
    let description = annotations.and_then(|annotations| annotations[DESCRIPTION.0].as_str());
    config_map.get("data") == Some(data) && description.is_some_and(|text| !text.is_empty())
}

/// The ConfigMap with this data and our description. All else in it stays.
fn corrected(mut config_map: Map<String, Value>, data: Value) -> Value {
    config_map.insert("apiVersion".to_owned(), "v1".into());
    config_map.insert("kind".to_owned(), "ConfigMap".into());
    config_map.insert("data".to_owned(), data);
    let mut config_map = Value::Object(config_map);
    config_map["metadata"]["annotations"][DESCRIPTION.0] = DESCRIPTION.1.into();
    config_map
}
