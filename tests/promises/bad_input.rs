//! Bad input is reported in one clear line and harms no other plugin. It ends the host only when
//! nothing can run.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use pilothouse_tests::{HEALED, Host, HostOptions, Server, ServerOptions, guest, plugin_directory};
use serde_json::{Value, json};

fn options(plugins: &Path, kubeconfig: &Path) -> HostOptions {
    HostOptions {
        plugins: plugins.into(),
        kubeconfig: kubeconfig.into(),
        ..HostOptions::default()
    }
}

/// Expects the host to end with an error, one line of which contains all of these parts.
async fn expect_end(options: &HostOptions, says: &[&str]) -> Result<()> {
    let (status, log) = Host::fails(options).await?;
    assert!(!status.success(), "{log}");
    let errors = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["level"] == "ERROR");
    let messages: Vec<String> = errors
        .filter_map(|line| line["message"].as_str().map(str::to_owned))
        .collect();
    let is_said = |message: &String| {
        says.iter().all(|part| message.contains(part)) && !message.contains('\n')
    };
    assert!(
        messages.iter().any(is_said),
        "want {says:?} in one line of {messages:?}\n{log}"
    );
    Ok(())
}

fn write(directory: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = directory.join(name);
    std::fs::write(&path, text)?;
    Ok(path)
}

/// Returns a kubeconfig for this server and this token.
fn kubeconfig(server: &str, token: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": server, "insecure-skip-tls-verify": true}}],
        "users": [{"name": "here", "user": {"token": token}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
    })
    .to_string()
}

#[tokio::test]
async fn a_plugin_directory_that_is_missing_or_open_to_all_ends_the_host() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let config = write(
        directory.path(),
        "config",
        &kubeconfig("https://127.0.0.1:1", "t"),
    )?;
    expect_end(
        &options(&directory.path().join("absent"), &config),
        &["absent", "--plugins"],
    )
    .await?;
    let open = directory.path().join("open");
    std::fs::create_dir(&open)?;
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777))?;
    expect_end(&options(&open, &config), &["open", "chmod o-w"]).await
}

#[tokio::test]
async fn a_kubeconfig_that_is_missing_or_broken_ends_the_host() -> Result<()> {
    let (directory, plugins) = (tempfile::tempdir()?, plugin_directory(&["hello-rust"]));
    expect_end(
        &options(plugins.path(), &directory.path().join("absent")),
        &["absent"],
    )
    .await?;
    let broken = write(directory.path(), "broken", "{{{")?;
    expect_end(&options(plugins.path(), &broken), &["broken"]).await?;
    let config = write(
        directory.path(),
        "config",
        &kubeconfig("https://127.0.0.1:1", "t"),
    )?;
    let unknown = HostOptions {
        arguments: vec!["--context".into(), "there".into()],
        ..options(plugins.path(), &config)
    };
    expect_end(&unknown, &["there", "here"]).await
}

/// As after a power cut, when the host is up before the API server.
#[tokio::test]
async fn a_host_without_a_server_waits_for_it_and_says_so() -> Result<()> {
    let mut server = Server::start_own(ServerOptions::default()).await?;
    server.kill().await?;
    let plugins = plugin_directory(&["hello-rust"]);
    let mut host = Host::start(&options(plugins.path(), server.kubeconfig())).await?;
    let waiting = || {
        let lines = host.log_lines();
        let is_wait = |line: &&Value| line["message"] == "waiting for the API server";
        lines.iter().filter(is_wait).cloned().collect::<Vec<_>>()
    };
    while waiting().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(host.get("/healthz").await?.0, 200);
    let (status, text) = host.get("/readyz").await?;
    assert_eq!(status, 503);
    assert!(
        text.contains("[-]api-server: ") && text.contains("cannot be reached"),
        "{text}"
    );
    let reason = waiting()[0]["reason"].to_string();
    assert!(reason.contains("cannot be reached"), "{reason}");
    host.eventually("hello-rust.wasm", "told of", |plugin| {
        plugin["state"] == "loading"
    })
    .await?;
    // The host retries, but does not repeat the line.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(waiting().len(), 1, "{}", host.log());

    server.start_again().await?;
    tokio::time::timeout(HEALED, host.wait_until_ready()).await??;
    let plugin = host.plugin("hello-rust.wasm").await?;
    assert_eq!(plugin["state"], "running", "{plugin}");
    Ok(())
}

#[tokio::test]
async fn a_host_that_waits_for_its_server_can_be_stopped() -> Result<()> {
    let (directory, plugins) = (tempfile::tempdir()?, plugin_directory(&["hello-rust"]));
    let config = write(
        directory.path(),
        "config",
        &kubeconfig("https://127.0.0.1:1", "t"),
    )?;
    let host = Host::start(&options(plugins.path(), &config)).await?;
    let (status, log) = host.terminate().await?;
    assert!(status.success(), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_wrong_token_ends_the_host() -> Result<()> {
    let (server, plugins) = (Server::start().await?, plugin_directory(&["hello-rust"]));
    if !server.is_own() {
        return Ok(());
    }
    let config = server.kubeconfig_for("wrong")?;
    expect_end(&options(plugins.path(), &config), &["401"]).await
}

#[tokio::test]
async fn an_address_in_use_ends_the_host() -> Result<()> {
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let (directory, plugins) = (tempfile::tempdir()?, plugin_directory(&["hello-rust"]));
    let config = write(
        directory.path(),
        "config",
        &kubeconfig("https://127.0.0.1:1", "t"),
    )?;
    let mut options = options(plugins.path(), &config);
    // `Host` adds a --listen of its own; the last one on the command line wins.
    options.arguments = vec!["--listen".into(), taken.local_addr()?.to_string()];
    expect_end(&options, &["cannot listen on", "--listen"]).await
}

/// Writes files that are not plugins. Returns their names, each with a part of the reason that
/// `/plugins` must report.
fn not_plugins(directory: &Path) -> Result<Vec<(&'static str, &'static str)>> {
    write(directory, "text.wasm", "hello")?;
    write(directory, "empty.wasm", "")?;
    std::fs::write(
        directory.join("module.wasm"),
        [0, b'a', b's', b'm', 1, 0, 0, 0],
    )?;
    std::fs::write(
        directory.join("component.wasm"),
        [0, b'a', b's', b'm', 13, 0, 1, 0],
    )?;
    let whole = std::fs::read(guest("hello-rust"))?;
    std::fs::write(directory.join("cut.wasm"), &whole[..whole.len() / 2])?;
    let newer = replace(&whole, b"pilothouse:controller/", b"@0.2.0", b"@0.9.0");
    std::fs::write(directory.join("newer.wasm"), newer)?;
    std::fs::copy(guest("hello-rust"), directory.join("twin.wasm"))?;
    Ok(vec![
        ("text.wasm", "not WebAssembly"),
        ("empty.wasm", "not WebAssembly"),
        ("module.wasm", "component-type"),
        ("component.wasm", "pilothouse:controller/plugin@"),
        ("cut.wasm", ""),
        ("newer.wasm", "0.9.0"),
        ("twin.wasm", "already loaded"),
    ])
}

/// Replaces `old` by `new`, which has the same length, wherever it stands shortly after `prefix`.
fn replace(bytes: &[u8], prefix: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let starts: Vec<usize> = (0..bytes.len() - old.len())
        .filter(|&at| bytes[at..].starts_with(old))
        .collect();
    for at in starts {
        let before = &bytes[at.saturating_sub(prefix.len() + 16)..at];
        if before.windows(prefix.len()).any(|window| window == prefix) {
            bytes[at..at + new.len()].copy_from_slice(new);
        }
    }
    bytes
}

#[tokio::test]
async fn a_file_that_is_not_a_plugin_is_named_and_the_others_run() -> Result<()> {
    let (server, plugins) = (Server::start().await?, plugin_directory(&["hello-rust"]));
    let bad = not_plugins(plugins.path())?;
    let host = Host::ready(plugins.path(), server.kubeconfig()).await?;
    for (file, reason) in bad {
        let plugin = host.plugin(file).await?;
        let said = plugin["reason"].as_str().unwrap_or_default();
        assert_eq!(plugin["state"], "failed", "{file}: {plugin}");
        assert!(
            said.contains(reason) && !said.is_empty() && !said.contains('\n'),
            "{file}: want {reason:?}, have {said:?}"
        );
    }
    assert_eq!(host.plugin("hello-rust.wasm").await?["state"], "running");
    Ok(())
}

#[tokio::test]
async fn when_no_plugin_loads_the_host_waits_for_one_that_does_and_is_not_ready() -> Result<()> {
    let (server, directory) = (Server::start().await?, tempfile::tempdir()?);
    write(directory.path(), "text.wasm", "hello")?;
    let mut host = Host::start(&options(directory.path(), server.kubeconfig())).await?;
    host.eventually("text.wasm", "failed", |plugin| plugin["state"] == "failed")
        .await?;
    let (status, text) = host.get("/readyz").await?;
    assert_eq!(status, 503, "{text}");
    std::fs::copy(guest("hello-rust"), directory.path().join("text.wasm"))?;
    host.wait_until_ready().await
}

#[tokio::test]
async fn a_kind_the_server_forbids_stops_its_plugin_only() -> Result<()> {
    let rbac = ServerOptions {
        rbac: true,
        tokens: vec!["configs=configs".into()],
        ..ServerOptions::default()
    };
    let server = Server::start_with(rbac).await?;
    if !server.is_own() {
        return Ok(());
    }
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "configs"}, "rules": rules});
    server
        .api
        .create("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role)
        .await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "configs"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "configs"}],
        "roleRef": {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "configs"},
    });
    server
        .api
        .create(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            &binding,
        )
        .await?;

    let plugins = plugin_directory(&["endpoints", "hello-rust"]);
    let host = Host::ready(plugins.path(), &server.kubeconfig_for("configs")?).await?;
    host.eventually("hello-rust.wasm", "running", |plugin| {
        plugin["state"] == "running"
    })
    .await?;
    let endpoints = host
        .eventually("endpoints.wasm", "waiting", |plugin| {
            plugin["state"] == "waiting"
        })
        .await?;
    let reason = endpoints["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("forbidden") || reason.contains("may not"),
        "{reason}"
    );
    Ok(())
}
