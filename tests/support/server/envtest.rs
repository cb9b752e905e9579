//! A server made of the binaries that envtest downloads.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use super::{Backend, command};

/// Starts what controller-runtime's envtest starts: etcd and kube-apiserver on free ports, with a
/// token file for the administrator.
pub(super) async fn start(assets: &Path) -> Result<(Backend, PathBuf)> {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name);
    let (etcd_port, peer_port, port) = (free_port()?, free_port()?, free_port()?);
    let etcd = command(&assets.join("etcd"))
        .arg("--data-dir")
        .arg(path("etcd"))
        .args([
            "--listen-client-urls",
            &format!("http://127.0.0.1:{etcd_port}"),
        ])
        .args([
            "--advertise-client-urls",
            &format!("http://127.0.0.1:{etcd_port}"),
        ])
        .args([
            "--listen-peer-urls",
            &format!("http://127.0.0.1:{peer_port}"),
            "--unsafe-no-fsync",
        ])
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start etcd of KUBEBUILDER_ASSETS")?;
    std::fs::write(
        path("tokens.csv"),
        "pilothouse-test,admin,admin,system:masters\n",
    )?;
    let key = std::process::Command::new("openssl")
        .args(["genrsa", "-out"])
        .arg(path("sa.key"))
        .arg("2048")
        .output();
    ensure!(
        key.context("openssl is needed for KUBEBUILDER_ASSETS")?
            .status
            .success(),
        "openssl cannot make a key"
    );
    let apiserver = command(&assets.join("kube-apiserver"))
        .args(["--etcd-servers", &format!("http://127.0.0.1:{etcd_port}")])
        .args([
            "--secure-port",
            &port.to_string(),
            "--bind-address",
            "127.0.0.1",
            "--authorization-mode",
            "RBAC",
        ])
        .arg("--cert-dir")
        .arg(path("certs"))
        .arg("--token-auth-file")
        .arg(path("tokens.csv"))
        .arg("--service-account-signing-key-file")
        .arg(path("sa.key"))
        .arg("--service-account-key-file")
        .arg(path("sa.key"))
        .args([
            "--service-account-issuer",
            "https://kubernetes.default.svc",
            "--service-cluster-ip-range",
            "10.0.0.0/24",
        ])
        .args(["--disable-admission-plugins", "ServiceAccount"])
        .stderr(std::fs::File::create(path("log"))?)
        .spawn()
        .context("cannot start kube-apiserver of KUBEBUILDER_ASSETS")?;
    let kubeconfig = path("kubeconfig");
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true}}],
        "users": [{"name": "test", "user": {"token": "pilothouse-test"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    });
    std::fs::write(&kubeconfig, config.to_string())?;
    Ok((
        Backend::Envtest {
            etcd,
            apiserver,
            _directory: directory,
        },
        kubeconfig,
    ))
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?
        .local_addr()?
        .port())
}
