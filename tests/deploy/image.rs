//! The image is what it says, and the host runs in it as in a pod.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::tool::{deploy, deploytool, printed};

/// The host's user, as in the manifests.
pub const USER: u32 = 65532;

/// An image layout that `make image` has written.
struct Layout(PathBuf);

/// The one image in a layout.
pub struct Image {
    layout: Layout,
    manifest: Value,
    pub config: Value,
}

impl Layout {
    /// The content that a descriptor names, if it is that.
    fn blob(&self, descriptor: &Value) -> Result<Vec<u8>> {
        let digest = descriptor["digest"].as_str().context("no digest")?;
        let content = std::fs::read(self.path(digest))?;
        ensure!(digest_of(&content) == digest, "{digest} is another");
        ensure!(descriptor["size"] == content.len(), "{digest} is cut off");
        Ok(content)
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.0.join("blobs").join(digest.replace(':', "/"))
    }
}

impl Image {
    /// Reads the image of `make image`, and checks every digest in it.
    pub fn read() -> Result<Self> {
        let path = std::env::var("PILOTHOUSE_IMAGE");
        let path = path.context("PILOTHOUSE_IMAGE is not set; run `make test`")?;
        Self::read_from(&PathBuf::from(path))
    }

    fn read_from(path: &Path) -> Result<Self> {
        let layout = Layout(path.to_owned());
        let json = |name: &str| -> Result<Value> {
            let text = std::fs::read(path.join(name)).with_context(|| name.to_owned())?;
            Ok(serde_json::from_slice(&text)?)
        };
        ensure!(json("oci-layout")?["imageLayoutVersion"] == "1.0.0");
        let index = json("index.json")?;
        let manifests = index["manifests"].as_array().context("no manifests")?;
        ensure!(manifests.len() == 1, "not one image: {index}");
        let manifest: Value = serde_json::from_slice(&layout.blob(&manifests[0])?)?;
        let config = serde_json::from_slice(&layout.blob(&manifest["config"])?)?;
        Ok(Self {
            layout,
            manifest,
            config,
        })
    }

    fn layers(&self) -> Result<&Vec<Value>> {
        self.manifest["layers"].as_array().context("no layers")
    }

    /// The files of all layers: of each, the line that `tar` writes about it.
    fn entries(&self) -> Result<BTreeMap<String, String>> {
        let mut entries = BTreeMap::new();
        for layer in self.layers()? {
            let digest = layer["digest"].as_str().context("no digest")?;
            let mut tar = Command::new("tar");
            tar.args(["--list", "--verbose", "--gzip", "--numeric-owner", "--utc"]);
            tar.arg("--full-time")
                .arg("--file")
                .arg(self.layout.path(digest));
            for line in printed(&mut tar, "")?.lines() {
                let (about, name) = line.rsplit_once(' ').context("a line without a name")?;
                let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
                entries.insert(name.to_owned(), about);
            }
        }
        Ok(entries)
    }

    /// Writes the image's root into a directory.
    pub fn unpack(&self, root: &Path) -> Result<()> {
        for layer in self.layers()? {
            let digest = layer["digest"].as_str().context("no digest")?;
            let mut tar = Command::new("tar");
            tar.args([
                "--extract",
                "--gzip",
                "--preserve-permissions",
                "--directory",
            ]);
            tar.arg(root).arg("--file").arg(self.layout.path(digest));
            printed(&mut tar, "")?;
        }
        Ok(())
    }

    /// What a container of the image runs, with these variables.
    pub fn environment(&self) -> Result<Vec<(String, String)>> {
        let variables = self.config["config"]["Env"].as_array();
        let variables = variables.context("no environment")?.iter();
        let pairs = variables.filter_map(|variable| variable.as_str()?.split_once('='));
        Ok(pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect())
    }

    /// The path of the host.
    pub fn entry_point(&self) -> Result<&str> {
        let entry_point = self.config["config"]["Entrypoint"][0].as_str();
        entry_point.context("no entry point")
    }
}

fn digest_of(content: &[u8]) -> String {
    let hex: String = Sha256::digest(content)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{hex}")
}

/// Assembles an image as `make image` does. Returns its digest.
fn assemble(binary: &Path, output: &Path) -> Result<String> {
    let mut command = deploytool()?;
    command.args(["image", "--version", "1", "--created", "1000000000"]);
    command.arg("--binary").arg(binary);
    printed(command.arg("--output").arg(output), "")
}

#[test]
fn the_image_has_the_host_and_what_it_needs_and_no_more() -> Result<()> {
    let image = Image::read()?;
    let config = &image.config["config"];
    assert_eq!(image.entry_point()?, "/usr/bin/pilothouse");
    assert_eq!(config["User"], format!("{USER}:{USER}"));
    assert_eq!(image.config["os"], "linux");
    let entries = image.entries()?;
    let is_file = |about: &&String| about.starts_with('-');
    let files = entries.iter().filter(|(_, about)| is_file(about));
    let files: Vec<_> = files.map(|(name, _)| name.as_str()).collect();
    let wanted = [
        "etc/group",
        "etc/passwd",
        "etc/ssl/certs/ca-certificates.crt",
        "usr/bin/pilothouse",
    ];
    assert_eq!(files, wanted);
    let created = image.config["created"].as_str().context("no time")?;
    let created = created.trim_end_matches('Z').replace('T', " ");
    for (name, about) in &entries {
        assert!(
            matches!(about.as_bytes()[0], b'-' | b'd'),
            "{name}: {about}"
        );
        assert!(about.contains(&created), "{name}: {about}, not {created}");
        let is_own = about.contains(&format!(" {USER}/{USER} "));
        let is_to_write = ["home/nonroot/", "run/", "var/cache/", "var/lib/"];
        assert_eq!(is_own, is_to_write.contains(&&**name), "{name}: {about}");
    }
    Ok(())
}

#[test]
fn the_layers_are_what_the_configuration_says() -> Result<()> {
    let image = Image::read()?;
    let mut unpacked = Vec::new();
    for layer in image.layers()? {
        image.layout.blob(layer)?;
        let path = image
            .layout
            .path(layer["digest"].as_str().context("no digest")?);
        let output = Command::new("gzip")
            .arg("-dc")
            .stdin(std::fs::File::open(path)?)
            .output()?;
        ensure!(output.status.success(), "gzip: {:?}", output.stderr);
        unpacked.push(Value::from(digest_of(&output.stdout)));
    }
    assert_eq!(image.config["rootfs"]["diff_ids"], Value::from(unpacked));
    Ok(())
}

#[test]
fn an_image_that_is_made_twice_is_the_same() -> Result<()> {
    let (root, first, second) = (
        tempfile::tempdir()?,
        tempfile::tempdir()?,
        tempfile::tempdir()?,
    );
    let image = Image::read()?;
    image.unpack(root.path())?;
    let binary = root
        .path()
        .join(image.entry_point()?.trim_start_matches('/'));
    let made = assemble(&binary, first.path())?;
    assert_eq!(made, assemble(&binary, second.path())?);
    let again = Image::read_from(second.path())?;
    assert_eq!(image.layers()?.len(), again.layers()?.len());
    Ok(())
}

#[test]
fn no_image_is_made_of_a_binary_that_needs_a_library() -> Result<()> {
    let output = tempfile::tempdir()?;
    let host = PathBuf::from(std::env::var("PILOTHOUSE_BIN")?);
    let refused = assemble(&host, output.path()).unwrap_err().to_string();
    assert!(refused.contains("is not linked statically"), "{refused}");
    assert!(refused.contains("rustup target add"), "{refused}");
    Ok(())
}

/// The Containerfile cannot be built here. What it says of the container is compared.
#[test]
fn the_containerfile_configures_what_make_image_does() -> Result<()> {
    let text = std::fs::read_to_string(deploy().join("../Containerfile"))?;
    let (_, last) = text
        .rsplit_once("\nFROM scratch\n")
        .context("no last stage")?;
    let said = |instruction: &str| {
        let line = last.lines().find_map(|line| line.strip_prefix(instruction));
        line.with_context(|| format!("no {instruction}in the Containerfile"))
    };
    let image = Image::read()?;
    let config = &image.config["config"];
    let variables = config["Env"].as_array().context("no environment")?;
    let variables: Vec<&str> = variables.iter().filter_map(Value::as_str).collect();
    assert_eq!(said("ENV ")?, variables.join(" "));
    assert_eq!(said("USER ")?, config["User"]);
    assert_eq!(said("WORKDIR ")?, config["WorkingDir"]);
    assert_eq!(said("ENTRYPOINT ")?, config["Entrypoint"].to_string());
    let port = said("EXPOSE ")?;
    assert!(config["ExposedPorts"][port].is_object(), "{config}");
    Ok(())
}
