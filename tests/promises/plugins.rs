//! Plugins are added, changed and removed while the host runs, and the operator's settings take
//! effect.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use pilothouse_tests::{
    Held, Host, HostOptions, Server, ServerOptions, fickle, fickle_with_schema, guest, named_fickle,
};
use serde_json::{Value, json};

/// A server, a host, and the plugin directory.
struct Rig {
    server: Server,
    directory: tempfile::TempDir,
    host: Host,
    namespace: String,
}

const FILE: &str = "fickle.wasm";

async fn host_of(
    command: &'static str,
    directory: &tempfile::TempDir,
    server: &Server,
    arguments: &[&str],
) -> Result<Host> {
    Host::start(&HostOptions {
        command,
        plugins: directory.path().into(),
        kubeconfig: server.kubeconfig().into(),
        arguments: arguments.iter().map(ToString::to_string).collect(),
        ..HostOptions::default()
    })
    .await
}

impl Rig {
    async fn new(command: &'static str) -> Result<Self> {
        Self::with(command, Server::start().await?).await
    }

    async fn with(command: &'static str, server: Server) -> Result<Self> {
        Self::with_arguments(command, server, &[]).await
    }

    async fn with_arguments(
        command: &'static str,
        server: Server,
        arguments: &[&str],
    ) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let host = host_of(command, &directory, &server, arguments).await?;
        Ok(Self {
            namespace: server.namespace().await?,
            server,
            directory,
            host,
        })
    }

    /// Replaces the host by a new one, which is started with `run`.
    async fn start_again(&mut self, arguments: &[&str]) -> Result<()> {
        self.host.ask_to_end()?;
        self.host.end().await?;
        self.host = host_of("run", &self.directory, &self.server, arguments).await?;
        Ok(())
    }

    /// A host that is started with `run`, with everything granted. It quarantines or rolls back
    /// versions that break.
    async fn judging() -> Result<Self> {
        let rig = Self::new("run").await?;
        replace(&rig.at("pilothouse.toml"), b"grants = \"as-requested\"")?;
        Ok(rig)
    }

    /// A host on a server that checks permissions. `None` if the environment provides the server.
    async fn with_rbac() -> Result<Option<Self>> {
        let server = Server::start_with(ServerOptions {
            rbac: true,
            ..ServerOptions::default()
        })
        .await?;
        if !server.is_own() {
            return Ok(None);
        }
        Self::with("dev", server).await.map(Some)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file beside the plugin file and renames it, as a careful tool does.
    fn put(&self, bytes: &[u8]) -> Result<()> {
        replace(&self.at(FILE), bytes)
    }

    fn settings(&self, text: &str) -> Result<()> {
        replace(&self.at("fickle.toml"), text.as_bytes())
    }

    fn config_maps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    async fn subject(&self, name: &str) -> Result<Value> {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"fickle": "true"}},
        });
        self.server.api.create(&self.config_maps(), &object).await
    }

    async fn touch(&self, name: &str, value: usize) -> Result<Value> {
        let path = format!("{}/{name}", self.config_maps());
        let patch = json!({"data": {"value": value.to_string()}});
        self.server.api.merge(&path, &patch).await
    }

    /// Waits until the plugin has written this value about an object.
    async fn seen(&self, name: &str, field: &str, value: &str) -> Result<()> {
        let path = format!("{}/{name}-seen", self.config_maps());
        let is_wanted =
            |found: Option<&Value>| found.is_some_and(|found| found["data"][field] == value);
        let what = format!("{field} = {value}");
        let found = self.server.api.eventually(&path, &what, is_wanted).await;
        found.map(drop).with_context(|| self.host.log())
    }

    /// Waits until the server has refused a write of the plugin's service account.
    async fn is_refused_as_itself(&self) -> Result<()> {
        let user = format!("system:serviceaccount:{}:fickle", self.namespace);
        let is_refused = |plugin: &Value| {
            let error = plugin["lastError"]["message"].as_str().unwrap_or_default();
            error.contains(&user) && error.contains("cannot")
        };
        let refused = self
            .host
            .eventually(FILE, "refused by the server", is_refused);
        refused.await.map(drop)
    }

    async fn is_noticed(&self) -> Result<()> {
        let notice = async {
            while self.host.plugin(FILE).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        Ok(tokio::time::timeout(Duration::from_secs(30), notice).await?)
    }

    async fn state(&self, state: &str) -> Result<Value> {
        self.host
            .eventually(FILE, state, |plugin| plugin["state"] == state)
            .await
    }

    async fn version(&self, version: &str) -> Result<Value> {
        self.host
            .eventually(FILE, version, |plugin| plugin["version"] == version)
            .await
    }

    /// Waits until the plugin's problem contains this text.
    async fn problem(&self, part: &str) -> Result<Value> {
        let is_said = |plugin: &Value| {
            let problem = plugin["problem"].as_str().unwrap_or_default();
            problem.contains(part)
        };
        self.host.eventually(FILE, part, is_said).await
    }

    fn logged(&self, message: &str) -> usize {
        let lines = self.host.log_lines();
        lines
            .iter()
            .filter(|line| line["message"] == message)
            .count()
    }
}

fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let beside = path.with_extension("new");
    std::fs::write(&beside, bytes)?;
    Ok(std::fs::rename(beside, path)?)
}

#[tokio::test]
async fn a_plugin_that_is_dropped_in_runs_and_one_that_is_taken_out_leaves_nothing() -> Result<()> {
    let rig = Rig::new("dev").await?;
    rig.subject("a").await?;
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    // The host was started with an empty directory.
    rig.is_noticed().await?;
    rig.state("running").await?;
    rig.seen("a", "version", "1.0.0").await?;
    std::fs::remove_file(rig.at(FILE))?;
    let is_gone = async || -> Result<bool> {
        let (_, plugins) = rig.host.get("/plugins").await?;
        let (_, informers) = rig.host.get("/informers").await?;
        let (_, metrics) = rig.host.get("/metrics").await?;
        let has_series = metrics.contains("controller=\"fickle\"");
        Ok(plugins == "[]" && informers == "[]" && !has_series)
    };
    tokio::time::timeout(Duration::from_secs(30), async {
        while !is_gone().await? {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok::<_, anyhow::Error>(())
    })
    .await??;
    assert_eq!(rig.logged("plugin removed"), 1);
    Ok(())
}

#[tokio::test]
async fn a_removed_plugin_runs_what_is_queued_before_another_of_its_name_begins() -> Result<()> {
    const SUBJECTS: usize = 60;
    // With this limit the queued keys take three seconds.
    let limit = ["--plugin-api-qps", "20", "--plugin-api-burst", "1"];
    let mut rig = Rig::with_arguments("dev", Server::start().await?, &limit).await?;
    for number in 0..SUBJECTS {
        rig.subject(&format!("s{number}")).await?;
    }
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.host.wait_until_ready().await?;
    std::fs::remove_file(rig.at(FILE))?;
    rig.state("draining").await?;
    let last = format!("{}/s9-seen", rig.config_maps());
    assert_eq!(rig.server.api.get(&last).await?, None);
    // This version writes nothing.
    rig.put(&fickle("2.0.0", "reads-own"))?;
    rig.is_noticed().await?;
    rig.version("2.0.0").await?;
    rig.host.wait_until_ready().await?;
    for number in 0..SUBJECTS {
        rig.seen(&format!("s{number}"), "version", "1.0.0").await?;
    }
    let lines = rig.host.log_lines();
    let at = |message: &str| lines.iter().rposition(|line| line["message"] == message);
    let removed = at("plugin removed").context("not removed")?;
    assert_eq!(lines[removed]["dropped"], 0);
    assert!(at("plugin loaded") > Some(removed), "{}", rig.host.log());
    Ok(())
}

#[tokio::test]
async fn a_new_version_takes_the_place_of_the_old_one_and_a_broken_file_does_not() -> Result<()> {
    let mut rig = Rig::new("dev").await?;
    rig.subject("a").await?;
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.host.wait_until_ready().await?;
    rig.seen("a", "version", "1.0.0").await?;

    rig.put(&fickle("2.0.0", "nothing-bad"))?;
    rig.seen("a", "version", "2.0.0").await?;
    let plugin = rig.version("2.0.0").await?;
    assert_eq!(plugin["previous"], "1.0.0");
    let swaps = rig.host.metric("pilothouse_plugin_swaps_total", "fickle");
    assert_eq!(swaps.await?, 1.0);

    rig.put(b"\0asm garbage")?;
    let is_noticed = |plugin: &Value| plugin["problem"].is_string();
    let plugin = rig.host.eventually(FILE, "noticed", is_noticed).await?;
    assert_eq!(plugin["state"], "running", "{plugin}");
    rig.subject("b").await?;
    rig.seen("b", "version", "2.0.0").await?;

    // Half a file, as a slow copy leaves it for some time.
    let whole = fickle("3.0.0", "nothing-bad");
    std::fs::write(rig.at(FILE), &whole[..whole.len() / 2])?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    std::fs::write(rig.at(FILE), &whole)?;
    rig.seen("b", "version", "3.0.0").await?;
    let plugin = rig.version("3.0.0").await?;
    assert!(plugin["problem"].is_null(), "{plugin}");
    Ok(())
}

#[tokio::test]
async fn settings_are_applied_while_the_plugin_runs_and_without_compiling_it_again() -> Result<()> {
    let mut rig = Rig::new("dev").await?;
    rig.settings("[config]\ngreeting = \"hello\"")?;
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.host.wait_until_ready().await?;
    rig.subject("a").await?;
    rig.seen("a", "greeting", "hello").await?;
    rig.settings("[config]\ngreeting = \"servus\"")?;
    rig.seen("a", "greeting", "servus").await?;
    rig.host.logs("plugin settings replaced").await?;
    assert_eq!(rig.logged("plugin version replaced"), 0, "it is the same");

    // The plugin's own settings override the shared ones.
    replace(
        &rig.at("pilothouse.toml"),
        b"paused = true\n[config]\ngreeting = \"salve\"",
    )?;
    rig.state("paused").await?;
    rig.subject("b").await?;
    rig.settings("paused = false\nconcurrency = 3")?;
    rig.seen("b", "greeting", "salve").await?;
    let concurrency = rig
        .host
        .metric("controller_runtime_max_concurrent_reconciles", "fickle")
        .await?;
    assert_eq!(concurrency, 3.0);

    // A mistake is named, and the previous settings stay in force.
    rig.settings("paused = true\nconcurency = 5")?;
    let is_noticed = |plugin: &Value| plugin["problem"].is_string();
    let plugin = rig.host.eventually(FILE, "noticed", is_noticed).await?;
    let problem = plugin["problem"].as_str().unwrap_or_default();
    assert!(
        problem.contains("line 2") && problem.contains("did you mean `concurrency`?"),
        "{problem}"
    );
    assert_eq!(plugin["state"], "running");
    assert_eq!(rig.logged("plugin loaded"), 1, "{}", rig.host.log());
    Ok(())
}

/// A schema that allows `greeting` and nothing else.
fn greeting(of_type: &str) -> Value {
    json!({
        "type": "object",
        "properties": {"greeting": {"type": of_type}},
        "additionalProperties": false,
    })
}

#[tokio::test]
async fn a_plugin_runs_only_with_a_configuration_that_its_schema_takes() -> Result<()> {
    let mut rig = Rig::new("dev").await?;
    rig.subject("a").await?;
    rig.settings("[config]\ngreeting = 5")?;
    rig.put(&fickle_with_schema(
        "1.0.0",
        "nothing-bad",
        &greeting("string"),
    ))?;
    rig.is_noticed().await?;
    let plugin = rig.state("failed").await?;
    let wanted = r#"config.greeting: 5 is not of type "string""#;
    assert_eq!(plugin["reason"], wanted);
    rig.settings("[config]\ngreeting = \"hello\"")?;
    rig.host.wait_until_ready().await?;
    rig.seen("a", "greeting", "hello").await?;

    // All previous settings stay in force, and the plugin keeps running.
    rig.settings("paused = true\n[config]\ngreting = \"servus\"")?;
    let plugin = rig.problem("'greting' was unexpected").await?;
    assert_eq!(plugin["state"], "running", "{plugin}");
    rig.subject("b").await?;
    rig.seen("b", "greeting", "hello").await?;
    rig.settings("[config]\ngreeting = \"servus\"")?;
    rig.seen("b", "greeting", "servus").await?;
    assert!(rig.host.plugin(FILE).await?["problem"].is_null());
    let message = "settings not applied; keeping the earlier ones";
    assert_eq!(rig.logged(message), 1, "{}", rig.host.log());

    // Another version may need another configuration, and waits for it.
    rig.put(&fickle_with_schema(
        "2.0.0",
        "nothing-bad",
        &greeting("integer"),
    ))?;
    let plugin = rig
        .problem("running 1.0.0, NOT the file's 2.0.0: config.greeting: it is not of type")
        .await?;
    assert_eq!(plugin["version"], "1.0.0", "{plugin}");
    rig.subject("c").await?;
    rig.seen("c", "version", "1.0.0").await?;
    rig.settings("[config]\ngreeting = 7")?;
    rig.seen("c", "version", "2.0.0").await?;
    let plugin = rig.version("2.0.0").await?;
    assert!(plugin["problem"].is_null(), "{plugin}");

    rig.put(&fickle_with_schema(
        "3.0.0",
        "nothing-bad",
        &greeting("text"),
    ))?;
    let plugin = rig
        .problem("running 2.0.0, NOT what is in the file: manifest: configSchema: at /properties/greeting/type")
        .await?;
    assert_eq!(plugin["version"], "2.0.0", "{plugin}");
    Ok(())
}

#[tokio::test]
async fn a_version_that_comes_back_brings_its_settings_if_todays_do_not_fit_it() -> Result<()> {
    let mut rig = Rig::judging().await?;
    rig.settings("[config]\ngreeting = \"hello\"")?;
    let first = fickle_with_schema("1.0.0", "nothing-bad", &greeting("string"));
    rig.put(&first)?;
    rig.host.wait_until_ready().await?;
    for name in ["a", "b", "c", "d", "e", "f"] {
        rig.subject(name).await?;
        rig.seen(name, "version", "1.0.0").await?;
    }
    rig.put(&fickle_with_schema("2.0.0", "trap", &greeting("integer")))?;
    let not_the_files = "running 1.0.0, NOT the file's 2.0.0";
    rig.problem(&format!("{not_the_files}: config.greeting"))
        .await?;
    rig.settings("[config]\ngreeting = 7")?;
    let rolled_back = format!("{not_the_files}: it was rolled back: ");
    let plugin = rig.problem(&rolled_back).await?;
    assert_eq!(plugin["version"], "1.0.0", "{plugin}");
    rig.subject("g").await?;
    rig.seen("g", "greeting", "hello").await
}

#[tokio::test]
async fn in_run_a_plugin_may_read_its_own_kind_until_more_is_granted() -> Result<()> {
    let rig = Rig::new("run").await?;
    for name in ["a", "b", "c", "d", "e"] {
        rig.subject(name).await?;
    }
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    let is_there = async || rig.host.plugin(FILE).await.is_ok();
    while !is_there().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Every reconcile is refused, so the version is quarantined.
    let plugin = rig.state("quarantined").await?;
    let reason = plugin["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("apply of v1/ConfigMap") && reason.contains("is not granted"),
        "{reason}"
    );
    assert_eq!(
        plugin["notGranted"],
        json!(["read v1/Pod", "apply v1/ConfigMap"])
    );
    let (_, informers) = rig.host.get("/informers").await?;
    assert!(!informers.contains("v1/Pod"), "{informers}");

    let granted = "[grants]\nwrites = [{ kind = \"ConfigMap\", verbs = [\"apply\"] }]";
    rig.settings(granted)?;
    rig.seen("a", "pods", "denied").await?;
    rig.settings("grants = \"as-requested\"")?;
    rig.seen("a", "pods", "readable").await?;
    let plugin = rig.host.plugin(FILE).await?;
    assert!(plugin["notGranted"].is_null(), "{plugin}");
    Ok(())
}

#[tokio::test]
async fn an_operators_namespaces_hold_for_reads_and_writes() -> Result<()> {
    let mut rig = Rig::new("dev").await?;
    let other = rig.server.namespace().await?;
    rig.settings(&format!("namespaces = [{:?}]", rig.namespace))?;
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.host.wait_until_ready().await?;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "labels": {"fickle": "true"}}});
    let elsewhere = format!("/api/v1/namespaces/{other}/configmaps");
    rig.server.api.create(&elsewhere, &object).await?;
    rig.subject("a").await?;
    rig.seen("a", "version", "1.0.0").await?;
    let seen = rig.server.api.get(&format!("{elsewhere}/b-seen")).await?;
    assert_eq!(seen, None);
    let (_, informers) = rig.host.get("/informers").await?;
    assert!(!informers.contains(&other), "{informers}");
    Ok(())
}

#[tokio::test]
async fn a_version_that_breaks_on_everything_is_rolled_back() -> Result<()> {
    let mut rig = Rig::judging().await?;
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.host.wait_until_ready().await?;
    for name in ["a", "b", "c", "d", "e", "f"] {
        rig.subject(name).await?;
        rig.seen(name, "version", "1.0.0").await?;
    }
    for (version, does) in [("2.0.0", "trap"), ("3.0.0", "denied")] {
        rig.put(&fickle(version, does))?;
        let is_noticed = |plugin: &Value| {
            let problem = plugin["problem"].as_str().unwrap_or_default();
            let wanted = format!("running 1.0.0, NOT the file's {version}: it was rolled back: ");
            problem.starts_with(&wanted)
        };
        let plugin = rig.host.eventually(FILE, "rolled back", is_noticed).await?;
        assert_eq!(plugin["version"], "1.0.0");
        assert_eq!(plugin["state"], "running");
    }
    rig.subject("g").await?;
    rig.seen("g", "version", "1.0.0").await?;
    let rollbacks = rig
        .host
        .metric("pilothouse_plugin_rollbacks_total", "fickle");
    assert_eq!(rollbacks.await?, 2.0);
    let table = rig.host.command(&["plugins"]).await?.unwrap_or_default();
    assert!(
        table.contains("running 1.0.0, NOT the file's 3.0.0"),
        "{table}"
    );
    assert_eq!(rig.logged("running an earlier version of the plugin"), 2);
    assert_eq!(rig.logged("plugin rolled back: it failed on most keys"), 2);
    let events = rig
        .server
        .api
        .get("/apis/events.k8s.io/v1/namespaces/default/events")
        .await?
        .unwrap_or_default();
    let items = events["items"].as_array().context("no events")?;
    let rolled_back = items.iter().filter(|event| {
        let note = event["note"].as_str().unwrap_or_default();
        event["reason"] == "PluginRolledBack" && note.starts_with("fickle")
    });
    assert!(rolled_back.count() >= 1, "{events}");
    // A file with the same content is not tried again, as when a volume is swapped for other
    // reasons.
    rig.put(&fickle("3.0.0", "denied"))?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let plugin = rig.version("1.0.0").await?;
    assert_eq!(plugin["state"], "running", "{plugin}");
    // A new version is tried.
    rig.put(&fickle("4.0.0", "nothing-bad"))?;
    rig.seen("g", "version", "4.0.0").await
}

#[tokio::test]
async fn settings_with_a_name_of_no_plugin_are_told_with_the_name_that_is_meant() -> Result<()> {
    let mut rig = Rig::new("dev").await?;
    replace(&rig.at("Fickle.toml"), b"paused = true")?;
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.host.wait_until_ready().await?;
    let line = rig.host.logs("settings that are for no plugin").await?;
    assert_eq!(line["level"], "WARN");
    assert_eq!(
        line["reason"],
        "Fickle.toml is not read: the settings of fickle.wasm are in fickle.toml; rename it if it is meant for that"
    );
    Ok(())
}

#[tokio::test]
async fn settings_for_all_that_make_no_sense_let_nothing_begin() -> Result<()> {
    let (server, directory) = (Server::start().await?, tempfile::tempdir()?);
    let defaults = directory.path().join("pilothouse.toml");
    std::fs::write(&defaults, "pused = true")?;
    std::fs::write(directory.path().join(FILE), fickle("1.0.0", "nothing-bad"))?;
    let mut host = Host::start(&HostOptions {
        plugins: directory.path().into(),
        kubeconfig: server.kubeconfig().into(),
        ..HostOptions::default()
    })
    .await?;
    let is_refused = |plugin: &Value| {
        let reason = plugin["reason"].as_str().unwrap_or_default();
        plugin["state"] == "failed"
            && reason.contains("pilothouse.toml")
            && reason.contains("`paused`")
    };
    host.eventually(FILE, "refused", is_refused).await?;
    replace(&defaults, b"paused = false")?;
    host.wait_until_ready().await
}

#[tokio::test]
async fn settings_hold_for_what_runs_while_another_version_waits() -> Result<()> {
    let mut rig = Rig::new("dev").await?;
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.host.wait_until_ready().await?;
    // A second plugin of the same name is refused until the first has gone.
    replace(&rig.at("twin.wasm"), &fickle("2.0.0", "nothing-bad"))?;
    let is_refused = |plugin: &Value| {
        let reason = plugin["reason"].as_str().unwrap_or_default();
        plugin["state"] == "failed" && reason.contains("already loaded")
    };
    while rig.host.plugin("twin.wasm").await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    rig.host
        .eventually("twin.wasm", "refused", is_refused)
        .await?;
    rig.settings("paused = true")?;
    rig.state("paused").await?;
    rig.subject("a").await?;
    std::fs::remove_file(rig.at(FILE))?;
    // The settings of `fickle.wasm` do not apply to the twin, which has none.
    rig.seen("a", "version", "2.0.0").await
}

#[tokio::test]
async fn without_an_earlier_version_a_broken_one_is_put_in_quarantine() -> Result<()> {
    let rig = Rig::judging().await?;
    for name in ["a", "b", "c", "d", "e", "f"] {
        rig.subject(name).await?;
    }
    rig.put(&fickle("1.0.0", "trap"))?;
    rig.is_noticed().await?;
    let plugin = rig.state("quarantined").await?;
    let reason = plugin["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("trap") && reason.contains("tried again in"),
        "{reason}"
    );
    let quarantined = rig.host.metric("pilothouse_plugin_quarantined", "fickle");
    assert_eq!(quarantined.await?, 1.0);
    // Settings that need no key to run again do not end the quarantine, and nothing claims that the
    // plugin runs.
    rig.settings("weight = 3")?;
    let stays = "settings applied; the plugin stays in quarantine";
    rig.host.logs(stays).await?;
    assert_eq!(rig.logged("plugin runs with other settings"), 0);
    assert_eq!(rig.host.plugin(FILE).await?["state"], "quarantined");
    // `resume` tries the plugin again and reports its real state.
    let runs = async || {
        rig.host
            .metric("controller_runtime_reconcile_panics_total", "fickle")
            .await
    };
    let before = runs().await?;
    let said = rig.host.command(&["resume", "fickle"]).await?;
    // By then the plugin may have broken again.
    let said = said.unwrap_or_default();
    let is_true = said == "fickle is running"
        || (said.starts_with("fickle is quarantined: ") && said.contains("trap"));
    assert!(is_true, "{said}");
    while runs().await? == before {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    rig.put(&fickle("1.0.1", "nothing-bad"))?;
    rig.seen("a", "version", "1.0.1").await
}

#[tokio::test]
async fn in_dev_the_version_in_the_file_runs_however_often_it_breaks() -> Result<()> {
    let mut rig = Rig::new("dev").await?;
    rig.subject("a").await?;
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.host.wait_until_ready().await?;
    rig.seen("a", "version", "1.0.0").await?;
    rig.put(&fickle("2.0.0", "trap"))?;
    let has_broken = |plugin: &Value| plugin["keys"]["failed"] == 1;
    rig.host.eventually(FILE, "failing", has_broken).await?;
    // More often than the five failures in a row after which `run` quarantines a version.
    for value in 0..10 {
        let panics = "controller_runtime_reconcile_panics_total";
        let before = rig.host.metric(panics, "fickle").await?;
        rig.touch("a", value).await?;
        while value < 8 && rig.host.metric(panics, "fickle").await? == before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let plugin = rig.version("2.0.0").await?;
    assert_eq!(plugin["state"], "running", "{plugin}");
    assert!(plugin["problem"].is_null(), "{plugin}");
    rig.put(&fickle("3.0.0", "nothing-bad"))?;
    rig.seen("a", "version", "3.0.0").await
}

#[tokio::test]
async fn resume_says_what_keeps_the_plugin_from_running() -> Result<()> {
    let rig = Rig::new("dev").await?;
    rig.settings("paused = true")?;
    rig.put(b"\0asm garbage")?;
    rig.is_noticed().await?;
    rig.state("failed").await?;
    let said = rig.host.command(&["resume", "fickle"]).await?;
    let said = said.unwrap_or_default();
    assert!(said.starts_with("fickle is failed: is damaged"), "{said}");
    Ok(())
}

/// Starts a host with two plugins. The first must be compiled, and its compilation is held; the
/// second is in the code cache.
async fn one_of_two_is_compiled(first: &[u8], second: &[u8]) -> Result<(Rig, Held)> {
    let (server, directory) = (Server::start().await?, tempfile::tempdir()?);
    let cache = directory.path().join("cache");
    let cache_argument = cache.to_str().context("a path")?.to_owned();
    std::fs::write(directory.path().join("b.wasm"), second)?;
    let checked = std::process::Command::new(std::env::var("PILOTHOUSE_BIN")?)
        .args(["check", "--code-cache", &cache_argument])
        .arg(directory.path().join("b.wasm"))
        .output()?;
    assert!(checked.status.success(), "{checked:?}");
    std::fs::write(directory.path().join("a.wasm"), first)?;
    let host = Host::start(&HostOptions {
        plugins: directory.path().into(),
        kubeconfig: server.kubeconfig().into(),
        arguments: vec!["--code-cache".into(), cache_argument],
        ..HostOptions::default()
    })
    .await?;
    let held = host.hold_compiling().await?;
    let rig = Rig {
        namespace: server.namespace().await?,
        server,
        directory,
        host,
    };
    Ok((rig, held))
}

#[tokio::test]
async fn a_plugin_that_is_ready_does_not_wait_for_one_that_is_compiled() -> Result<()> {
    let (first, second) = (
        named_fickle("slow", "1.0.0", "reads-own"),
        named_fickle("ready", "2.0.0", "nothing-bad"),
    );
    let (rig, held) = one_of_two_is_compiled(&first, &second).await?;
    rig.subject("a").await?;
    rig.seen("a", "version", "2.0.0").await?;
    assert_eq!(rig.host.plugin("a.wasm").await?["state"], "loading");
    let lines = rig.host.log_lines();
    let compiled = lines.iter().filter(|line| line["message"] == "compiling");
    let files: Vec<&Value> = compiled.map(|line| &line["file"]).collect();
    assert_eq!(files, ["a.wasm"], "what has been checked is in the cache");
    drop(held);
    let is_running = |plugin: &Value| plugin["state"] == "running";
    let running = rig.host.eventually("a.wasm", "running", is_running);
    running.await.map(drop)
}

#[tokio::test]
async fn of_two_files_of_one_name_the_first_runs_whichever_is_ready_first() -> Result<()> {
    let (first, second) = (
        fickle("1.0.0", "nothing-bad"),
        fickle("2.0.0", "nothing-bad"),
    );
    let (rig, held) = one_of_two_is_compiled(&first, &second).await?;
    rig.subject("a").await?;
    rig.seen("a", "version", "2.0.0").await?;
    drop(held);
    rig.seen("a", "version", "1.0.0").await?;
    let is_refused = |plugin: &Value| {
        let reason = plugin["reason"].as_str().unwrap_or_default();
        plugin["state"] == "failed" && reason.contains("already loaded")
    };
    let refused = rig.host.eventually("b.wasm", "refused", is_refused);
    refused.await?;
    assert_eq!(rig.host.plugin("a.wasm").await?["state"], "running");
    Ok(())
}

/// As for two DNS providers or two ingress classes.
#[tokio::test]
async fn the_same_file_runs_twice_under_two_names() -> Result<()> {
    let mut rig = Rig::new("dev").await?;
    let bytes = fickle("1.0.0", "nothing-bad");
    for (name, manager) in [
        ("one", ""),
        ("two", "field-manager = \"kube-controller-manager\""),
    ] {
        let settings = format!("name = {name:?}\n{manager}\n[config]\ngreeting = {name:?}");
        replace(&rig.at(&format!("{name}.toml")), settings.as_bytes())?;
        replace(&rig.at(&format!("{name}.wasm")), &bytes)?;
    }
    let is_running = |plugin: &Value| plugin["state"] == "running";
    for name in ["one", "two"] {
        let file = format!("{name}.wasm");
        while rig.host.plugin(&file).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let plugin = rig.host.eventually(&file, "running", is_running).await?;
        assert_eq!(plugin["name"], name);
    }
    rig.host.wait_until_ready().await?;
    let said = rig.host.command(&["pause", "two"]).await?;
    assert!(said.is_ok_and(|said| said.contains("two is paused")));
    rig.subject("a").await?;
    rig.seen("a", "greeting", "one").await?;
    let said = rig.host.command(&["pause", "one"]).await?;
    assert!(said.is_ok());
    // A plugin does not overwrite fields that the other one owns.
    rig.host.command(&["resume", "two"]).await?.ok();
    rig.subject("b").await?;
    rig.seen("b", "greeting", "two").await?;
    rig.seen("a", "greeting", "one").await?;
    for (subject, wanted) in [
        ("a", "pilothouse.dev/one"),
        ("b", "kube-controller-manager"),
    ] {
        let path = format!("{}/{subject}-seen", rig.config_maps());
        let seen = rig.server.api.get(&path).await?.context("nothing seen")?;
        let managers = seen["metadata"]["managedFields"].as_array();
        let managers = managers.into_iter().flatten();
        let managers: Vec<&Value> = managers.map(|entry| &entry["manager"]).collect();
        assert_eq!(managers, [wanted], "{seen}");
    }
    for name in ["one", "two"] {
        let runs = rig.host.metric("controller_runtime_reconcile_total", name);
        assert!(runs.await? >= 1.0, "{name}");
    }

    // A name that another plugin has is refused, and both plugins keep running.
    replace(&rig.at("two.toml"), b"name = \"one\"")?;
    let is_refused = |plugin: &Value| {
        let problem = plugin["problem"].as_str().unwrap_or_default();
        problem.contains("a plugin named \"one\" is already loaded")
    };
    let plugin = rig
        .host
        .eventually("two.wasm", "refused", is_refused)
        .await?;
    assert_eq!(
        (&plugin["name"], &plugin["state"]),
        (&json!("two"), &json!("running"))
    );
    replace(&rig.at("two.toml"), b"name = \"three\"")?;
    let is_renamed = |plugin: &Value| plugin["name"] == "three" && plugin["problem"].is_null();
    rig.host
        .eventually("two.wasm", "renamed", is_renamed)
        .await?;
    Ok(())
}

#[tokio::test]
async fn settings_that_change_while_the_host_drains_drop_nothing_that_is_queued() -> Result<()> {
    const SUBJECTS: usize = 60;
    // With this limit the queued keys take three seconds.
    let limit = ["--plugin-api-qps", "20", "--plugin-api-burst", "1"];
    let mut rig = Rig::with_arguments("dev", Server::start().await?, &limit).await?;
    for number in 0..SUBJECTS {
        rig.subject(&format!("s{number}")).await?;
    }
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.host.wait_until_ready().await?;
    rig.host.ask_to_end()?;
    rig.host.logs("draining").await?;
    rig.settings("[config]\ngreeting = \"late\"")?;
    rig.host.end().await?;
    for number in 0..SUBJECTS {
        rig.seen(&format!("s{number}"), "version", "1.0.0").await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_operator_pauses_resumes_and_rolls_back_by_command() -> Result<()> {
    let mut rig = Rig::new("dev").await?;
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.host.wait_until_ready().await?;
    rig.subject("a").await?;
    rig.seen("a", "version", "1.0.0").await?;
    let error = rig
        .host
        .command(&["rollback", "fickle"])
        .await?
        .unwrap_err();
    assert!(error.contains("no earlier version"), "{error}");
    let error = rig.host.command(&["pause", "fikle"]).await?.unwrap_err();
    assert!(error.contains("there are: fickle"), "{error}");

    let said = rig.host.command(&["pause", "fickle"]).await?;
    assert!(said.is_ok_and(|said| said.contains("paused")));
    rig.state("paused").await?;
    rig.put(&fickle("2.0.0", "nothing-bad"))?;
    rig.version("2.0.0").await?;
    assert_eq!(rig.host.plugin(FILE).await?["state"], "paused");
    let said = rig.host.command(&["resume", "fickle"]).await?;
    assert!(said.is_ok());
    rig.seen("a", "version", "2.0.0").await?;

    let said = rig.host.command(&["rollback", "fickle"]).await?;
    assert!(said.is_ok_and(|said| said.contains("1.0.0")));
    rig.seen("a", "version", "1.0.0").await?;

    let table = rig.host.command(&["plugins"]).await?.unwrap_or_default();
    assert!(
        table.starts_with("NAME") && table.contains("fickle") && table.contains("1.0.0"),
        "{table}"
    );
    let (head, _) = rig
        .host
        .request("POST", "/plugins/fickle/pause", &[])
        .await?;
    assert!(head.contains("403"), "anybody could send this: {head}");
    let page = rig
        .host
        .request("GET", "/plugins", &["Origin: http://localhost"]);
    assert!(page.await?.0.contains("403"), "a web page asks");

    rig.settings("paused = true")?;
    rig.state("paused").await?;
    let error = rig.host.command(&["resume", "fickle"]).await?.unwrap_err();
    assert!(error.contains("take that out of fickle.toml"), "{error}");
    assert_eq!(rig.host.plugin(FILE).await?["state"], "paused");
    Ok(())
}

/// Swaps the link `..data`, as the kubelet does.
fn swap_volume(volume: &Path, number: usize) -> Result<()> {
    let (name, link) = (format!("..data_{number}"), volume.join("..data_tmp"));
    let folder = volume.join(&name);
    std::fs::create_dir(&folder)?;
    let version = format!("{number}.0.0");
    std::fs::write(folder.join(FILE), fickle(&version, "nothing-bad"))?;
    let settings = format!("[config]\ngreeting = \"{number}\"");
    std::fs::write(folder.join("fickle.toml"), settings)?;
    symlink(name, &link)?;
    Ok(std::fs::rename(link, volume.join("..data"))?)
}

/// In the volume of a ConfigMap all files change at once, by renaming one link.
#[tokio::test]
async fn a_mounted_volume_that_changes_is_followed() -> Result<()> {
    let mut rig = Rig::new("dev").await?;
    swap_volume(rig.directory.path(), 1)?;
    symlink(format!("..data/{FILE}"), rig.at(FILE))?;
    symlink("..data/fickle.toml", rig.at("fickle.toml"))?;
    swap_volume(rig.directory.path(), 2)?;
    rig.host.wait_until_ready().await?;
    rig.subject("a").await?;
    rig.seen("a", "version", "2.0.0").await?;
    swap_volume(rig.directory.path(), 3)?;
    rig.seen("a", "version", "3.0.0").await?;
    rig.seen("a", "greeting", "3").await
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

#[tokio::test]
async fn where_settings_are_required_a_plugin_without_them_waits_and_one_that_runs_keeps_its_own()
-> Result<()> {
    let rig = Rig::new("run").await?;
    replace(&rig.at("pilothouse.toml"), b"require-settings = true")?;
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.is_noticed().await?;
    let waiting = rig.state("waiting").await?;
    let why = "there is no fickle.toml, and pilothouse.toml says require-settings = true";
    assert_eq!(waiting["reason"], why);
    rig.settings("grants = \"as-requested\"\n[config]\ngreeting = \"hello\"")?;
    rig.subject("a").await?;
    rig.seen("a", "greeting", "hello").await?;
    std::fs::remove_file(rig.at("fickle.toml"))?;
    rig.problem(why).await?;
    rig.subject("b").await?;
    rig.seen("b", "greeting", "hello").await?;
    replace(&rig.at("pilothouse.toml"), b"grants = \"as-requested\"")?;
    rig.seen("b", "greeting", "").await
}

/// Returns the first sha256 digest in a text.
fn digest_in(text: &Value) -> String {
    let text = text.as_str().unwrap_or_default();
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let mut digests = words.filter(|word| word.len() == 64);
    digests.next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_file_whose_digest_is_not_in_its_settings_waits_and_what_runs_goes_on() -> Result<()> {
    let rig = Rig::new("run").await?;
    let pinned = |digests: &[&str]| {
        rig.settings(&format!(
            "grants = \"as-requested\"\nsha256 = {digests:?}\nconcurrency = {}",
            digests.len()
        ))
    };
    let nobody = "0".repeat(64);
    pinned(&[&nobody])?;
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.is_noticed().await?;
    let waiting = rig.state("waiting").await?;
    let reason = waiting["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("is not in sha256 of fickle.toml"),
        "{reason}"
    );
    let first = digest_in(&waiting["reason"]);
    assert_eq!(waiting["digest"], first);
    let logged = rig.host.logs("plugin waits").await?;
    assert_eq!(digest_in(&logged["reason"]), first);
    pinned(&[&first])?;
    rig.subject("a").await?;
    rig.seen("a", "version", "1.0.0").await?;

    rig.put(&fickle("2.0.0", "nothing-bad"))?;
    let is_other = "running 1.0.0, NOT the file's 2.0.0: its digest ";
    let second = digest_in(&rig.problem(is_other).await?["problem"]);
    rig.subject("b").await?;
    rig.seen("b", "version", "1.0.0").await?;
    pinned(&[&first, &second])?;
    rig.seen("b", "version", "2.0.0").await?;
    let is_well = |plugin: &Value| plugin["problem"].is_null();
    rig.host
        .eventually(FILE, "as it should be", is_well)
        .await?;

    pinned(&[&first, &nobody, &nobody])?;
    rig.problem(&format!("its digest {second} is not in"))
        .await?;
    assert_eq!(rig.host.plugin(FILE).await?["version"], "2.0.0");
    pinned(&[&second])?;
    rig.host
        .eventually(FILE, "as it should be", is_well)
        .await?;
    let error = rig
        .host
        .command(&["rollback", "fickle"])
        .await?
        .unwrap_err();
    assert!(error.contains("the version before may not run"), "{error}");
    assert!(error.contains(&first), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_version_that_asks_for_more_waits_until_that_is_accepted() -> Result<()> {
    let rig = Rig::judging().await?;
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.is_noticed().await?;
    rig.subject("a").await?;
    rig.seen("a", "version", "1.0.0").await?;
    let error = rig.host.command(&["accept", "fickle"]).await?.unwrap_err();
    assert!(error.contains("nothing of it waits"), "{error}");

    rig.put(&fickle("2.0.0", "asks-more"))?;
    let more = "it asks for more than was accepted: read Service: .spec";
    let waiting = rig.problem(more).await?;
    assert_eq!(waiting["version"], "1.0.0");
    assert_eq!(waiting["notAccepted"], json!(["read Service: .spec"]));
    let table = rig.host.command(&["plugins"]).await?.unwrap();
    assert!(table.contains("pilothouse accept fickle"), "{table}");
    let digest = digest_in(&waiting["problem"]);
    let logged = rig.host.logs("plugin waits").await?;
    assert_eq!(digest_in(&logged["reason"]), digest);
    rig.subject("b").await?;
    rig.seen("b", "version", "1.0.0").await?;

    let accept = async |digest: &str| {
        let command = ["accept", "fickle", "--sha256", digest];
        rig.host.command(&command).await
    };
    let error = accept(&"0".repeat(64)).await?.unwrap_err();
    assert!(error.contains("another file, with the digest"), "{error}");
    let said = accept(&digest).await?.unwrap();
    let accepted = format!("version 2.0.0 ({digest}) is accepted; fickle is ");
    assert!(said.starts_with(&accepted), "{said}");
    rig.seen("b", "version", "2.0.0").await?;
    let is_well = |plugin: &Value| plugin["notAccepted"].is_null();
    rig.host.eventually(FILE, "accepted", is_well).await?;
    rig.put(&fickle("3.0.0", "nothing-bad"))?;
    rig.seen("b", "version", "3.0.0").await?;
    rig.put(&fickle("4.0.0", "asks-more"))?;
    rig.seen("b", "version", "4.0.0").await
}

#[tokio::test]
async fn settings_that_would_grant_more_than_was_accepted_wait_for_that() -> Result<()> {
    let rig = Rig::judging().await?;
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.is_noticed().await?;
    rig.subject("a").await?;
    rig.seen("a", "version", "1.0.0").await?;
    rig.settings("[grants]\nreads = [\"Pod\"]\nwrites = [{ kind = \"ConfigMap\" }]")?;
    rig.put(&fickle("2.0.0", "asks-more"))?;
    rig.seen("a", "version", "2.0.0").await?;
    let is_limited = |plugin: &Value| plugin["notGranted"] == json!(["read v1/Service"]);
    rig.host.eventually(FILE, "limited", is_limited).await?;

    rig.settings("grants = \"as-requested\"\n[config]\ngreeting = \"hello\"")?;
    let more = "it asks for more than was accepted: read Service: .spec";
    let limited = rig.problem(more).await?;
    assert!(is_limited(&limited), "{limited}");
    rig.host
        .logs("settings not applied; keeping the earlier ones")
        .await?;
    rig.host.command(&["accept", "fickle"]).await?.unwrap();
    rig.seen("a", "greeting", "hello").await?;
    let is_granted = |plugin: &Value| plugin["notGranted"].is_null();
    rig.host.eventually(FILE, "granted all", is_granted).await?;
    Ok(())
}

#[tokio::test]
async fn what_was_accepted_outlives_the_host_and_the_file() -> Result<()> {
    let state = tempfile::tempdir()?;
    let path = state.path().to_str().context("a path of text")?;
    let arguments = ["--state-dir", path];
    let mut rig = Rig::with_arguments("run", Server::start().await?, &arguments).await?;
    rig.settings("grants = \"as-requested\"")?;
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.subject("a").await?;
    rig.seen("a", "version", "1.0.0").await?;
    std::fs::remove_file(rig.at(FILE))?;
    while rig.host.plugin(FILE).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    rig.put(&named_fickle("other", "2.0.0", "asks-more"))?;
    rig.is_noticed().await?;
    let waiting = rig.state("waiting").await?;
    assert_eq!(waiting["notAccepted"], json!(["read Service: .spec"]));

    rig.put(&fickle("2.0.0", "asks-more"))?;
    let check = || {
        let binary = std::env::var("PILOTHOUSE_BIN").unwrap_or_default();
        let mut check = std::process::Command::new(binary);
        check
            .arg("check")
            .args(arguments)
            .arg(rig.at(FILE))
            .output()
    };
    let output = check()?;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "it would wait");
    assert!(text.contains("asks more   read Service: .spec"), "{text}");
    for _ in 0..2 {
        rig.start_again(&arguments).await?;
        rig.is_noticed().await?;
        rig.state("waiting").await?;
    }
    rig.host.command(&["accept", "fickle"]).await?.unwrap();
    rig.seen("a", "version", "2.0.0").await?;
    rig.touch("a", 1).await?;
    rig.start_again(&arguments).await?;
    rig.host.wait_until_ready().await?;
    let running = rig.state("running").await?;
    assert_eq!(running["version"], "2.0.0");
    Ok(())
}

/// Allows the service account `fickle` these verbs in all namespaces.
async fn allow(rig: &Rig, name: &str, resources: &[&str], verbs: &[&str]) -> Result<()> {
    let rules = json!([{"apiGroups": [""], "resources": resources, "verbs": verbs}]);
    let (version, group) = ("rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io");
    let role = json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
    let binding = json!({
        "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": rig.namespace, "name": "fickle"}],
        "roleRef": {"kind": "ClusterRole", "apiGroup": group, "name": name},
    });
    let api = &rig.server.api;
    api.create(&format!("{RBAC}/clusterroles"), &role).await?;
    api.create(&format!("{RBAC}/clusterrolebindings"), &binding)
        .await?;
    Ok(())
}

#[tokio::test]
async fn an_identity_that_is_given_while_the_plugin_runs_holds_for_its_next_write() -> Result<()> {
    let Some(mut rig) = Rig::with_rbac().await? else {
        return Ok(());
    };
    // The identity may read everything that the host lets the plugin read, but write nothing.
    let reads = ["configmaps", "pods"];
    allow(&rig, "fickle-reads", &reads, &["list", "watch"]).await?;
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.host.wait_until_ready().await?;
    rig.subject("a").await?;
    rig.seen("a", "version", "1.0.0").await?;
    let identity = format!("serviceaccount:{}/fickle", rig.namespace);
    rig.settings(&format!("identity = {identity:?}"))?;
    let told = async {
        while rig.logged("plugin runs with other settings") == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), told).await?;
    rig.subject("b").await?;
    rig.is_refused_as_itself().await
}

#[tokio::test]
async fn a_plugin_with_an_identity_reads_and_writes_what_that_may_and_no_more() -> Result<()> {
    let Some(rig) = Rig::with_rbac().await? else {
        return Ok(());
    };
    rig.subject("a").await?;
    rig.settings(&format!(
        "identity = \"serviceaccount:{}/fickle\"",
        rig.namespace
    ))?;
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.is_noticed().await?;
    let plugin = rig.state("waiting").await?;
    let reason = plugin["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("may not list and watch v1/ConfigMap"),
        "{reason}"
    );

    allow(&rig, "fickle-reads", &["configmaps"], &["list", "watch"]).await?;
    rig.is_refused_as_itself().await?;
    allow(&rig, "fickle-writes", &["configmaps"], &["create", "patch"]).await?;
    rig.seen("a", "version", "1.0.0").await?;
    // The operator grants reads of pods, but the cluster does not.
    rig.seen("a", "pods", "denied").await?;

    let binding = format!("{RBAC}/clusterrolebindings/fickle-reads");
    rig.server.api.delete(&binding).await?;
    let revoked = tokio::time::Instant::now();
    rig.state("waiting").await?;
    assert!(revoked.elapsed() < Duration::from_secs(30));
    // Its informers end a moment later.
    while rig.host.get("/informers").await?.1 != "[]" {
        assert!(revoked.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    Ok(())
}

#[test]
fn check_says_what_a_file_is_and_fails_for_what_would_not_load() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let (good, bad) = (
        directory.path().join(FILE),
        directory.path().join("bad.wasm"),
    );
    std::fs::copy(guest("fickle"), &good)?;
    std::fs::write(&bad, "\0asm garbage")?;
    let check = |file: &Path| {
        let binary = std::env::var("PILOTHOUSE_BIN").unwrap_or_default();
        std::process::Command::new(binary)
            .arg("check")
            .arg(file)
            .output()
    };
    let output = check(&good)?;
    let text = String::from_utf8(output.stdout)?;
    assert!(output.status.success());
    for part in [
        "fickle 1.0.0",
        "each v1/ConfigMap with fickle=true",
        "v1/Pod: .metadata.labels",
        "v1/ConfigMap: apply",
        "risk        writes v1/ConfigMap: could change any such object",
        "native code",
        "64 MiB of memory",
        "pilothouse:controller/",
        "  grants.reads = [\n    \"Pod\",\n  ]",
        "    { kind = \"ConfigMap\", verbs = [\"apply\"] },",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    let pin = text.lines().find(|line| line.starts_with("  sha256 = "));
    std::fs::write(
        directory.path().join("fickle.toml"),
        pin.unwrap_or_default(),
    )?;
    assert!(check(&good)?.status.success(), "{pin:?}");
    std::fs::write(&good, fickle("2.0.0", "nothing-bad"))?;
    let output = check(&good)?;
    let text = String::from_utf8(output.stderr)?;
    assert!(
        !output.status.success() && text.contains("is not in sha256 of fickle.toml"),
        "{text}"
    );
    let output = check(&bad)?;
    let text = String::from_utf8(output.stderr)?;
    assert!(
        !output.status.success() && text.contains("is damaged"),
        "{text}"
    );
    std::fs::write(directory.path().join("fickle.toml"), "wieght = 2")?;
    let output = check(&good)?;
    let text = String::from_utf8(output.stderr)?;
    assert!(
        !output.status.success() && text.contains("did you mean `weight`?"),
        "{text}"
    );
    Ok(())
}

/// The host runs with the permissions that `pilothouse rbac` prints, and no others.
#[tokio::test]
async fn the_printed_permissions_are_enough_for_the_host() -> Result<()> {
    let server = Server::start_with(ServerOptions {
        rbac: true,
        tokens: vec!["host=system:serviceaccount:pilothouse:pilothouse".into()],
        ..ServerOptions::default()
    })
    .await?;
    if !server.is_own() {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    std::fs::copy(guest("fickle"), directory.path().join(FILE))?;
    let namespace = server.namespace().await?;
    let settings = format!("grants = \"as-requested\"\nnamespaces = [{namespace:?}]");
    std::fs::write(directory.path().join("fickle.toml"), settings)?;
    let binary = std::env::var("PILOTHOUSE_BIN")?;
    let file = directory.path().join(FILE);
    let printed = std::process::Command::new(binary)
        .arg("rbac")
        .arg(file)
        .output()?;
    assert!(printed.status.success());
    let yaml = String::from_utf8(printed.stdout)?;
    for document in yaml.split("---\n").filter(|text| !text.trim().is_empty()) {
        create_yaml(&server, document).await?;
    }
    let host = Host::start(&HostOptions {
        command: "run",
        plugins: directory.path().into(),
        kubeconfig: server.kubeconfig_for("host")?,
        ..HostOptions::default()
    })
    .await?;
    let config_maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let subject = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"fickle": "true"}}});
    server.api.create(&config_maps, &subject).await?;
    let seen = server
        .api
        .eventually(&format!("{config_maps}/a-seen"), "there", |found| {
            found.is_some()
        })
        .await;
    seen.map(drop).with_context(|| host.log())?;
    let listed = yaml.matches("verbs:").count();
    assert_eq!(
        listed, 6,
        "configmaps, pods, events; of the host: events, leases, the leader's:\n{yaml}"
    );
    Ok(())
}

/// As with `kubectl apply`, the objects are created one after the other in a cluster without
/// preparation.
#[tokio::test]
async fn the_printed_permissions_can_be_applied_to_an_empty_cluster() -> Result<()> {
    let server = Server::start().await?;
    if !server.is_own() {
        return Ok(());
    }
    for arguments in [&["--name", "one"][..], &["--per-plugin", "--name", "two"]] {
        let space = format!("space-{}", arguments.len());
        let printed = std::process::Command::new(std::env::var("PILOTHOUSE_BIN")?)
            .arg("rbac")
            .args([guest("fickle"), guest("actions")])
            .arg("--as-requested")
            .args(arguments)
            .args(["--namespace", &space])
            .output()?;
        assert!(printed.status.success());
        let yaml = String::from_utf8(printed.stdout)?;
        for document in yaml.split("---\n").filter(|text| !text.trim().is_empty()) {
            let created = create_yaml(&server, document).await;
            created.with_context(|| document.to_owned())?;
        }
        let found = server
            .api
            .get(&format!("/api/v1/namespaces/{space}"))
            .await?;
        assert!(found.is_some(), "{yaml}");
        // `actions` keeps children of ConfigMaps.
        let rule = "  resources:\n  - configmaps/finalizers\n  verbs:\n  - update\n";
        assert!(yaml.contains(rule), "{yaml}");
        assert!(yaml.contains("# For owner references"), "{yaml}");
    }
    Ok(())
}

/// Creates one of the printed objects. They are printed in an order in which each can be created.
async fn create_yaml(server: &Server, document: &str) -> Result<()> {
    let value = |key: &str| {
        let line = document.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_default().trim().trim_matches('"').to_owned()
    };
    let kind = value("kind:");
    let plural = format!("{}s", kind.to_lowercase());
    let namespace = value("  namespace:");
    let path = match &*kind {
        "Namespace" => format!("/api/v1/{plural}"),
        "ServiceAccount" => format!("/api/v1/namespaces/{namespace}/{plural}"),
        kind if kind.starts_with("Cluster") => format!("{RBAC}/{plural}"),
        _ => format!("{RBAC}/namespaces/{namespace}/{plural}"),
    };
    server.api.create_yaml(&path, document).await
}

/// Twenty versions are installed one after the other while objects change all the time. In the end
/// the last state of every object has been seen.
#[tokio::test]
async fn no_key_is_lost_while_versions_change_under_load() -> Result<()> {
    const SUBJECTS: usize = 40;
    let mut rig = Rig::new("dev").await?;
    rig.put(&fickle("1.0.0", "nothing-bad"))?;
    rig.host.wait_until_ready().await?;
    for number in 0..SUBJECTS {
        rig.subject(&format!("s{number}")).await?;
    }
    let is_done = std::cell::Cell::new(false);
    let swaps = async {
        for number in 1..=20 {
            let version = format!("2.0.{number}");
            // The file has room for a version of this length only.
            let version = if number < 10 {
                version
            } else {
                format!("3.0.{}", number % 10)
            };
            let version = if number == 20 {
                "4.0.0".to_owned()
            } else {
                version
            };
            rig.put(&fickle(&version, "nothing-bad"))?;
            rig.version(&version).await?;
        }
        is_done.set(true);
        Ok::<_, anyhow::Error>(())
    };
    let changes = async {
        let mut round = 0;
        while !is_done.get() {
            round += 1;
            let touches = (0..SUBJECTS).map(|number| format!("s{number}"));
            for name in touches {
                rig.touch(&name, round).await?;
            }
        }
        Ok::<_, anyhow::Error>(())
    };
    tokio::try_join!(swaps, changes)?;
    for number in 0..SUBJECTS {
        let name = format!("s{number}");
        let path = format!("{}/{name}", rig.config_maps());
        let subject = rig.server.api.get(&path).await?.context("no subject")?;
        let version = subject["metadata"]["resourceVersion"].as_str();
        rig.seen(&name, "of", version.unwrap_or_default()).await?;
        rig.seen(&name, "version", "4.0.0").await?;
    }
    let failed = rig.logged("reconcile failed");
    assert_eq!(failed, 0, "{}", rig.host.log());
    let swaps = rig.host.metric("pilothouse_plugin_swaps_total", "fickle");
    assert_eq!(swaps.await?, 20.0);
    Ok(())
}
