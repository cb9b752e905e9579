//! Signs the cluster's address with its bootstrap tokens, so that a new node that has a token can
//! trust it.
//!
//! The rules are those of kube-controller-manager's bootstrap signer (`pkg/controller/bootstrap` in
//! kubernetes/kubernetes). The README lists the differences.

mod jws;

use std::collections::BTreeMap;
use std::time::Duration;

use bootstrap_tokens::{NAMESPACE, SECRETS, SecretValue, Validity};
use pilothouse_sdk::{
    Controller, Failure, Filter, Host, Manifest, Metadata, Outcome, Projection, Request, Selection,
    Update, Verb,
};
use serde::Deserialize;
use serde_json::{Map, Value};

const CONFIG_MAPS: &str = "v1/ConfigMap";

/// What is signed, in the ConfigMap's `data`.
const KUBECONFIG: &str = "kubeconfig";

/// What begins the key of a signature there. The rest is the token's id.
const SIGNATURE: &str = "jws-kubeconfig-";

/// What begins a token's name. The rest is its id.
const TOKEN: &str = "bootstrap-token-";

#[derive(Deserialize, Projection)]
struct Token {
    metadata: Metadata,
    #[serde(default)]
    data: TokenData,
}

#[derive(Default, Deserialize, Projection)]
#[serde(rename_all = "kebab-case", default)]
struct TokenData {
    #[projection(whole)]
    token_id: SecretValue,
    #[projection(whole)]
    token_secret: SecretValue,
    #[projection(whole)]
    expiration: SecretValue,
    #[projection(whole)]
    usage_bootstrap_signing: SecretValue,
}

impl Token {
    /// Its id, if it may sign: its name says the same id, and it has a secret.
    fn id(&self) -> Option<&str> {
        let id = self.metadata.name.strip_prefix(TOKEN)?;
        let is_id = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        let is_valid = id.len() == 6
            && id.bytes().all(is_id)
            && self.data.token_id.bytes() == id.as_bytes()
            && !self.data.token_secret.is_empty()
            && self.data.usage_bootstrap_signing.bytes() == b"true";
        is_valid.then_some(id)
    }
}

/// The bootstrap signer.
pub struct BootstrapSigner;

impl Controller for BootstrapSigner {
    fn manifest() -> Manifest {
        let cluster_info = Selection::of(CONFIG_MAPS)
            .namespace("kube-public")
            .field_selector("metadata.name=cluster-info");
        let whole = cluster_info.read([]);
        let manifest = Manifest::new("bootstrap-signer", env!("CARGO_PKG_VERSION"), cluster_info)
            .reads_only(whole)
            .writes(CONFIG_MAPS, [Verb::Update]);
        bootstrap_tokens::reads(manifest, &Token::fields())
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(mut config_map) = request.object::<Value>()? else {
            return Ok(Outcome::done());
        };
        let Some(content) = config_map["data"][KUBECONFIG].as_str() else {
            return Ok(Outcome::done());
        };
        let (signatures, end) = signatures(content, host)?;
        let before = config_map["data"].as_object().cloned().unwrap_or_default();
        let mut data: Map<String, Value> = before.clone();
        data.retain(|key, _| !key.starts_with(SIGNATURE));
        data.extend(signatures);
        let mut outcome = Outcome::done();
        if data != before {
            config_map["data"] = Value::Object(data);
            outcome = outcome.with(Update::new(&config_map)?);
        }
        Ok(match end {
            Some(time) => outcome.requeue_after(time),
            None => outcome,
        })
    }
}

pilothouse_sdk::register!(BootstrapSigner);

/// The signatures of this text by all tokens that may sign, by their keys in the ConfigMap; and how
/// long it takes until the first of these tokens expires.
fn signatures(
    content: &str,
    host: &dyn Host,
) -> Result<(BTreeMap<String, Value>, Option<Duration>), Failure> {
    let tokens: Vec<Token> = host.list(SECRETS, Some(NAMESPACE), &Filter::Everything)?;
    let mut signatures = BTreeMap::new();
    let mut end: Option<Duration> = None;
    for token in &tokens {
        let Some(id) = token.id() else {
            continue;
        };
        match Validity::of(&token.data.expiration, host.now()) {
            Validity::Forever => {}
            Validity::For(time) => end = end.into_iter().chain([time]).min(),
            Validity::Over => continue,
        }
        let signature = jws::detached_signature(content, id, token.data.token_secret.bytes());
        signatures.insert(format!("{SIGNATURE}{id}"), signature.into());
    }
    Ok((signatures, end))
}
