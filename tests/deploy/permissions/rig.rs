//! A host with the roles of the manifests, or less, and two plugins that use all of them.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pilothouse_tests::proxy::{ANY, Answer, Proxy, watches};
use pilothouse_tests::{Host, Server, ServerOptions, fickle_with_schema, guest, name_of};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::applying::{apply, path_of};
use crate::tool::{Kustomizations, parse, pilothouse};

/// The token of the host's service account.
const TOKEN: &str = "host";

const USER: &str = "system:serviceaccount:pilothouse:pilothouse";

/// The account of `actions`, if it has one, and of its role.
const ACCOUNT: &str = "actions";

/// Where the plugins work.
const NAMESPACE: &str = "work";

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces";

/// The Leases of the hosts.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/pilothouse/leases";

/// Shorter than usual, since a member's Lease must expire.
const TIMES: [&str; 3] = [
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
];

/// How the host and its plugins are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    /// It leads, and its plugins write in its name.
    Usual,
    /// It leads, and the plugin `actions` writes as a service account of its own.
    OwnAccount,
    /// It shares.
    Shares,
}

/// An API server with the base's objects and the permissions of two plugins.
pub struct Rig {
    setup: Setup,
    server: Server,
    /// The way from the host to the server. On it the server does not stream lists, as before
    /// Kubernetes 1.32, and so has to be asked for them.
    way: Proxy,
    plugins: TempDir,
    code: TempDir,
    /// How many files of `fickle` this host was given.
    files: Cell<usize>,
    /// The roles as they are printed.
    pub roles: Vec<Value>,
}

impl Rig {
    pub async fn new(setup: Setup) -> Result<Self> {
        let server = Server::start_own(ServerOptions {
            rbac: true,
            tokens: vec![format!("{TOKEN}={USER}")],
            ..ServerOptions::default()
        })
        .await?;
        let way = Proxy::before(&server.kubeconfig_for(TOKEN)?).await?;
        let streams = watches(ANY).streamed_lists(true);
        way.on(streams).answer(Answer::status(422));
        let plugins = tempfile::tempdir()?;
        let settings = format!("grants = \"as-requested\"\nnamespaces = [{NAMESPACE:?}]\n");
        std::fs::write(plugins.path().join("pilothouse.toml"), settings)?;
        std::fs::copy(guest("actions"), plugins.path().join("actions.wasm"))?;
        if setup == Setup::OwnAccount {
            let settings = format!("identity = \"serviceaccount:{NAMESPACE}/{ACCOUNT}\"\n");
            std::fs::write(plugins.path().join("actions.toml"), settings)?;
        }
        // It only breaks. Its kind is that of the other plugin.
        std::fs::write(
            plugins.path().join("fickle.toml"),
            "grants = \"own-kind\"\n",
        )?;
        let file = plugins.path().join("actions.wasm");
        let file = file.to_str().context("a path of letters")?;
        let permissions = parse(&pilothouse(&["rbac", "--plugins-only", file])?)?;
        let components: &[&str] = match setup {
            Setup::Shares => &["share"],
            Setup::Usual | Setup::OwnAccount => &[],
        };
        let mut objects = Kustomizations::copy()?.with(components)?;
        objects.push(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        );
        objects.extend(permissions);
        apply(&server.api, &objects).await?;
        objects.retain(|object| object["kind"] == "Role" || object["kind"] == "ClusterRole");
        let code = tempfile::tempdir()?;
        Ok(Self {
            setup,
            server,
            way,
            plugins,
            code,
            files: Cell::new(0),
            roles: objects,
        })
    }

    /// Sets the rules of a role, all but one verb for one resource.
    pub async fn take(&self, role: &str, resource: &str, verb: &str) -> Result<()> {
        for printed in self
            .roles
            .iter()
            .filter(|one| one["metadata"]["name"] == role)
        {
            let mut changed = printed.clone();
            for rule in changed["rules"].as_array_mut().context("no rules")? {
                if rule["resources"][0] == resource {
                    let verbs = rule["verbs"].as_array_mut().context("no verbs")?;
                    verbs.retain(|one| one != verb);
                }
            }
            let rules = changed["rules"].as_array_mut().context("no rules")?;
            rules.retain(|rule| rule["verbs"] != json!([]));
            self.server.api.apply(&path_of(printed)?, &changed).await?;
        }
        self.wait_for(role, resource, verb, false).await
    }

    /// Gives back what was taken.
    pub async fn give_back(&self, role: &str, resource: &str, verb: &str) -> Result<()> {
        for printed in self
            .roles
            .iter()
            .filter(|one| one["metadata"]["name"] == role)
        {
            self.server.api.apply(&path_of(printed)?, printed).await?;
        }
        self.wait_for(role, resource, verb, true).await
    }

    /// Waits until the server judges a request of the role's account like this.
    async fn wait_for(&self, role: &str, resource: &str, verb: &str, allowed: bool) -> Result<()> {
        let has = |list: &Value, what: &str| {
            let mut list = list.as_array().into_iter().flatten();
            list.any(|one| one == what)
        };
        let is_of = |rule: &&Value| has(&rule["resources"], resource) && has(&rule["verbs"], verb);
        let named = self
            .roles
            .iter()
            .filter(|one| one["metadata"]["name"] == role);
        let mut found = named.filter_map(|role| {
            let rule = role["rules"].as_array()?.iter().find(is_of)?;
            Some((&role["metadata"]["namespace"], rule))
        });
        let (namespace, rule) = found.next().context("no such rule")?;
        let user = match role {
            ACCOUNT => format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}"),
            _ => USER.to_owned(),
        };
        let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": {
                "namespace": namespace, "verb": verb, "name": rule["resourceNames"][0],
                "group": rule["apiGroups"][0], "resource": resource, "subresource": part,
            }},
        });
        let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        for _ in 0..400 {
            let answer = self.server.api.create(reviews, &review).await?;
            if answer["status"]["allowed"] == allowed {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("{verb} {resource} does not become {allowed}")
    }

    /// A host with the service account and the namespace of the manifests' pods.
    pub async fn host(&self) -> Result<Host> {
        // The host before did not give its Lease back: it was killed.
        self.server
            .api
            .request_text(http::Method::DELETE, LEASES)
            .await?;
        self.start().await
    }

    /// As [`Rig::host`], and there was another one, which shared and was killed.
    pub async fn host_after_a_killed_one(&self) -> Result<Host> {
        let mut other = self.host().await?;
        other.logs("this host runs a shard").await?;
        other.kill().await?;
        self.start().await
    }

    /// The Leases of the members of a group that shares.
    pub async fn member_leases(&self) -> Result<Vec<String>> {
        let leases = self.server.api.get(LEASES).await?.context("no Leases")?;
        let leases = leases["items"].as_array().context("no Leases")?.iter();
        let names = leases.map(name_of);
        Ok(names
            .filter(|name| name.starts_with("pilothouse-"))
            .collect())
    }

    async fn start(&self) -> Result<Host> {
        self.files.set(0);
        self.break_fickle()?;
        let mut command = Command::new(std::env::var("PILOTHOUSE_BIN")?);
        command.arg("run").arg("--plugins").arg(self.plugins.path());
        command.arg("--kubeconfig").arg(self.way.kubeconfig());
        command
            .arg("--code-cache")
            .arg(self.code.path().join("code"));
        command.args(["--listen", "127.0.0.1:0", "--log-format", "json"]);
        command.args(["--state-dir", "none", "--command-socket", "none"]);
        if self.setup == Setup::Shares {
            command.arg("--share");
            command.args(TIMES);
        }
        command.env("POD_NAMESPACE", "pilothouse");
        command.env("POD_NAME", "pilothouse-0");
        Host::start_by(command).await
    }

    /// Replaces `fickle` by another file of the same version that traps, too.
    fn break_fickle(&self) -> Result<()> {
        self.files.set(self.files.get() + 1);
        let schema = json!({"title": self.files.get().to_string()});
        let next = self.plugins.path().join("next");
        std::fs::write(&next, fickle_with_schema("1.0.0", "trap", &schema))?;
        Ok(std::fs::rename(
            next,
            self.plugins.path().join("fickle.wasm"),
        )?)
    }

    fn config_map(name: &str) -> String {
        format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}")
    }

    /// Gives the plugins something of every kind to do.
    pub async fn give_work(&self) -> Result<()> {
        for name in ["updated", "patched", "deleted"] {
            self.give(name, &json!({}), &json!({"value": "old"}))
                .await?;
        }
        for (name, task) in [
            ("makes", json!({"do": "create"})),
            (
                "updates",
                json!({"do": "update", "target": "updated", "value": "new"}),
            ),
            (
                "patches",
                json!({"do": "merge-patch", "target": "patched", "value": "new"}),
            ),
            ("deletes", json!({"do": "delete", "target": "deleted"})),
            ("keeps", json!({"do": "children", "children": "kept"})),
            ("tells", json!({"do": "event"})),
        ] {
            self.give(name, &json!({"actions": ""}), &task).await?;
        }
        self.give_fickle("broken").await
    }

    /// Has the Events repeated, that of the plugin and the host's own.
    pub async fn repeat_events(&self, host: &Host, round: usize) -> Result<()> {
        let again = json!({"data": {"round": round.to_string()}});
        let tells = Self::config_map("tells");
        self.server.api.merge(&tells, &again).await?;
        let lines = host.log_lines();
        let is_quarantine =
            |line: &&Value| line["message"] == "plugin in quarantine: it fails on most keys";
        if lines.iter().filter(is_quarantine).count() == self.files.get() {
            self.break_fickle()?;
            // A key of its own for each file: the last one's waits for its back-off.
            self.give_fickle(&format!("broken-{round}")).await?;
        }
        Ok(())
    }

    /// Gives `fickle` something on which it breaks.
    async fn give_fickle(&self, name: &str) -> Result<()> {
        let labels = json!({"fickle": "true"});
        self.give(name, &labels, &json!({})).await
    }

    async fn give(&self, name: &str, labels: &Value, data: &Value) -> Result<()> {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": labels}, "data": data,
        });
        let collection = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
        self.server.api.create(&collection, &object).await.map(drop)
    }

    /// Removes what was worked on.
    pub async fn clear(&self) -> Result<()> {
        for collection in [
            format!("/api/v1/namespaces/{NAMESPACE}/configmaps"),
            format!("{EVENTS}/{NAMESPACE}/events"),
            format!("{EVENTS}/pilothouse/events"),
        ] {
            self.server
                .api
                .request_text(http::Method::DELETE, &collection)
                .await?;
        }
        Ok(())
    }

    /// Whether all of the work has been done, Events included.
    pub async fn is_done(&self) -> Result<bool> {
        let api = &self.server.api;
        let value = async |name: &str| -> Result<Value> {
            let found = api.get(&Self::config_map(name)).await?;
            Ok(found.map_or(Value::Null, |found| found["data"]["value"].clone()))
        };
        let all = api
            .get(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps"))
            .await?;
        let all = all.context("no ConfigMaps")?;
        let all = all["items"].as_array().context("no ConfigMaps")?;
        let is_made = |one: &Value| {
            one["metadata"]["name"]
                .as_str()
                .is_some_and(|name| name.starts_with("makes-made-"))
        };
        let is_there = |name: &str| all.iter().any(|one| one["metadata"]["name"] == name);
        Ok(all.iter().any(is_made)
            && is_there("kept")
            && !is_there("deleted")
            && value("updated").await? == "new"
            && value("patched").await? == "new"
            && self.is_repeated(NAMESPACE, "Tested").await?
            && self.is_repeated("pilothouse", "PluginQuarantined").await?)
    }

    /// Whether there is an Event with this reason that says that it was repeated.
    pub async fn is_repeated(&self, namespace: &str, reason: &str) -> Result<bool> {
        let events = self
            .server
            .api
            .get(&format!("{EVENTS}/{namespace}/events"))
            .await?;
        let events = events.context("no Events")?;
        let mut events = events["items"].as_array().context("no Events")?.iter();
        Ok(events.any(|event| event["reason"] == reason && event["series"]["count"].is_number()))
    }
}
