//! The host runs in the image as a pod of the manifests does: with the image's root, read-only; the
//! volumes as kubelet mounts them; the pod's user; and what the roles allow.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use kube::config::Kubeconfig;
use pilothouse_tests::{Host, Server, ServerOptions, guest};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::applying::apply;
use crate::image::{Image, USER};
use crate::tool::{deploy, kustomize, of_kind, parse, pilothouse, printed};

/// The token of the host's service account.
const TOKEN: &str = "host";

/// A container of the image on this machine, which has no container engine.
struct Container {
    image: Image,
    root: TempDir,
    /// What the plugins' volume contains.
    plugins: TempDir,
    /// The first container of the Deployment's pods.
    manifest: Value,
    volumes: Value,
}

impl Container {
    fn new(objects: &[Value], plugins: TempDir) -> Result<Self> {
        let (image, root) = (Image::read()?, tempfile::tempdir()?);
        image.unpack(root.path())?;
        let pod = &of_kind(objects, "Deployment")?["spec"]["template"]["spec"];
        Ok(Self {
            image,
            root,
            plugins,
            manifest: pod["containers"][0].clone(),
            volumes: pod["volumes"].clone(),
        })
    }

    /// Writes what kubelet mounts for the service account.
    fn give_account(&self, server: &Server) -> Result<()> {
        let config = Kubeconfig::read_from(server.kubeconfig())?;
        let cluster = config.clusters[0].cluster.as_ref();
        let authority = cluster.and_then(|cluster| cluster.certificate_authority_data.clone());
        let authority = authority.context("no authority in the kubeconfig")?;
        let mut decode = std::process::Command::new("base64");
        let authority = printed(decode.arg("--decode"), &authority)?;
        let path = "var/run/secrets/kubernetes.io/serviceaccount";
        let directory = self.root.path().join(path);
        std::fs::create_dir_all(&directory)?;
        for (name, content) in [
            ("token", TOKEN),
            ("ca.crt", &authority),
            ("namespace", "pilothouse"),
        ] {
            std::fs::write(directory.join(name), content)?;
        }
        Ok(())
    }

    /// The commands that mount the volumes below the root. Kubelet makes all of these with mode
    /// 0777, sets the group, and mounts those of ConfigMaps read-only.
    fn mounts(&self) -> Result<String> {
        let mut script = String::new();
        let mounts = self.manifest["volumeMounts"].as_array();
        for mount in mounts.context("no mounts")? {
            let path = mount["mountPath"].as_str().context("no path")?;
            let volumes = self.volumes.as_array().context("no volumes")?;
            let volume = volumes.iter().find(|one| one["name"] == mount["name"]);
            let volume = volume.with_context(|| format!("no volume for {mount}"))?;
            script += &format!("mount -t tmpfs -o mode=2777 tmpfs \"$root{path}\"\n");
            script += &format!("chown :$group \"$root{path}\"\n");
            if volume["projected"].is_object() {
                let from = self.plugins.path().display();
                script += &format!("cp -a {from}/. \"$root{path}\"\n");
                script += &format!("chmod 2777 \"$root{path}\"\n");
                script += &format!("mount -o remount,ro \"$root{path}\"\n");
            }
        }
        Ok(script)
    }

    /// A command in a mount namespace of its own that becomes the container's process.
    fn command(&self, server: &Server) -> Result<Command> {
        let (mut command, user) = namespace();
        let script = format!(
            "set -eu\nroot=$1 group={user}\nshift\nmount --bind \"$root\" \"$root\"\n\
             mkdir -p \"$root/proc\"\nmount --rbind /proc \"$root/proc\"\n{}\
             mount -o remount,ro,bind \"$root\"\n\
             exec setpriv --no-new-privs chroot --userspec={user}:{user} \"$root\" \"$@\"",
            self.mounts()?
        );
        command.args(["sh", "-c", &script, "sh"]);
        command.arg(self.root.path()).arg(self.image.entry_point()?);
        let arguments = self.manifest["args"].as_array().context("no arguments")?;
        command.args(arguments.iter().filter_map(Value::as_str));
        // Not the port of the manifest, which something else may use on this machine.
        command.args(["--listen", "127.0.0.1:0"]);
        let address = config_of(server)?;
        command
            .env_clear()
            .env("PATH", std::env::var("PATH")?)
            .envs(self.image.environment()?.into_iter().skip(1))
            .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            .env("KUBERNETES_SERVICE_PORT", address)
            .env("POD_NAMESPACE", "pilothouse")
            .env("POD_NAME", "pilothouse-0");
        Ok(command)
    }
}

/// A command that begins a mount namespace, and the user to become in it. Whoever is not root gets
/// a user namespace, in which there is nobody else to become.
fn namespace() -> (Command, u32) {
    let mut command = Command::new("unshare");
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !is_root {
        command.arg("--map-root-user");
    }
    command.arg("--mount");
    (command, if is_root { USER } else { 0 })
}

/// The server's port.
fn config_of(server: &Server) -> Result<String> {
    let config = Kubeconfig::read_from(server.kubeconfig())?;
    let cluster = config.clusters[0].cluster.as_ref();
    let url = cluster.and_then(|cluster| cluster.server.clone());
    let url = url.context("no server in the kubeconfig")?;
    let (_, port) = url.rsplit_once(':').context("no port in the kubeconfig")?;
    Ok(port.trim_end_matches('/').to_owned())
}

/// A directory as kubelet makes it of a ConfigMap: links to files in a directory that a link names.
fn config_map(files: &[(&str, Vec<u8>)]) -> Result<TempDir> {
    let directory = tempfile::tempdir()?;
    let data = directory.path().join("..2026_01_01_00_00_00.1");
    std::fs::create_dir(&data)?;
    symlink("..2026_01_01_00_00_00.1", directory.path().join("..data"))?;
    for (name, content) in files {
        std::fs::write(data.join(name), content)?;
        symlink(Path::new("..data").join(name), directory.path().join(name))?;
    }
    Ok(directory)
}

/// Runs the host's command in the container, as `kubectl exec` does.
fn exec(host: &Host, image: &Image, arguments: &[&str]) -> Result<String> {
    let mut command = std::process::Command::new("nsenter");
    let process = host.process()?.to_string();
    command.args(["--mount", "--root", "--target", &process]);
    let (_, user) = namespace();
    let user = user.to_string();
    command.args(["--setuid", &user, "--setgid", &user]);
    command.arg(image.entry_point()?).args(arguments);
    command.args(["--host", &host.address().to_string()]);
    command.envs(image.environment()?.into_iter().skip(1));
    printed(&mut command, "")
}

#[tokio::test]
async fn the_host_works_in_the_image_as_a_pod_of_the_manifests() -> Result<()> {
    let server = Server::start_own(ServerOptions {
        rbac: true,
        tokens: vec![format!(
            "{TOKEN}=system:serviceaccount:pilothouse:pilothouse"
        )],
        ..ServerOptions::default()
    })
    .await?;
    let objects = kustomize(&deploy().join("kustomize/base"))?;
    apply(&server.api, &objects).await?;
    let settings = "grants = \"as-requested\"\nnamespaces = [\"pilothouse\"]\n";
    let files = [
        ("fickle.wasm", std::fs::read(guest("fickle"))?),
        ("fickle.toml", settings.into()),
    ];
    let plugins = config_map(&files)?;
    let place = plugins.path().to_str().context("a path of letters")?;
    let permissions = pilothouse(&["rbac", "--plugins-only", place])?;
    apply(&server.api, &parse(&permissions)?).await?;

    let container = Container::new(&objects, plugins)?;
    container.give_account(&server)?;
    let mut host = Host::start_by(container.command(&server)?).await?;
    host.wait_until_ready().await?;
    let config_maps = "/api/v1/namespaces/pilothouse/configmaps";
    let metadata = json!({"name": "a", "labels": {"fickle": "true"}});
    let subject = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    server.api.create(config_maps, &subject).await?;
    let seen = format!("{config_maps}/a-seen");
    let is_there = |found: Option<&Value>| found.is_some();
    let found = server.api.eventually(&seen, "there", is_there).await;
    found.with_context(|| host.log())?;

    let listed = exec(&host, &container.image, &["plugins"])?;
    assert!(listed.contains("running"), "{listed}");
    exec(&host, &container.image, &["pause", "fickle"])?;
    let is_paused = |plugin: &Value| plugin["state"] == "paused";
    host.eventually("fickle.wasm", "paused", is_paused).await?;

    let lines = host.log_lines();
    let is_wrong = |line: &&Value| matches!(line["level"].as_str(), Some("WARN" | "ERROR"));
    let wrong: Vec<_> = lines.iter().filter(is_wrong).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let (status, log) = host.terminate().await?;
    ensure!(status.success(), "{status}: {log}");
    Ok(())
}

#[test]
fn the_image_says_its_version() -> Result<()> {
    let (image, root) = (Image::read()?, tempfile::tempdir()?);
    image.unpack(root.path())?;
    let (command, user) = namespace();
    let mut command = command.into_std();
    command.args(["chroot", &format!("--userspec={user}:{user}")]);
    command
        .arg(root.path())
        .arg(image.entry_point()?)
        .arg("--version");
    let said = printed(&mut command, "")?;
    let version = image.config["config"]["Labels"]["org.opencontainers.image.version"].as_str();
    let version = version.context("no version")?;
    assert!(
        said.starts_with(&format!("pilothouse {version}\n")),
        "{said}"
    );
    // A checkout without git has none.
    let revision = &image.config["config"]["Labels"]["org.opencontainers.image.revision"];
    if let Some(revision) = revision.as_str() {
        let commit = format!("commit: {}", &revision[..12]);
        assert!(said.contains(&commit), "{said}");
    }
    Ok(())
}
