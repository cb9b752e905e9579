//! The chart and the kustomization are the same, and say what the binary says.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::tool::{
    Kustomizations, Release, deploy, kustomize, of_kind, parse, pilothouse, pod_security,
};

/// The ways to deploy: the components of the kustomization, and the values of the chart that mean
/// the same.
fn ways() -> [(&'static [&'static str], Value); 5] {
    [
        (&[], json!({})),
        (&["share"], json!({"share": true})),
        (
            &["plugins-from-volume"],
            json!({"plugins": {"from": "volume"}}),
        ),
        (
            &["plugins-from-image"],
            json!({"plugins": {"from": "image"}}),
        ),
        (
            &["service-monitor"],
            json!({"serviceMonitor": {"enabled": true}}),
        ),
    ]
}

/// The objects by kind and name, without what only Helm writes.
fn comparable(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let named = objects.into_iter().map(|mut object| {
        if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
            labels.remove("app.kubernetes.io/managed-by");
            labels.remove("helm.sh/chart");
        }
        let key = format!("{} {}", object["kind"], object["metadata"]["name"]);
        (key, object)
    });
    named.collect()
}

#[test]
fn the_chart_and_the_kustomization_make_the_same_objects() -> Result<()> {
    let kustomizations = Kustomizations::copy()?;
    for (components, values) in ways() {
        let mut kustomized = comparable(kustomizations.with(components)?);
        let release = Release {
            values,
            ..Release::default()
        };
        let charted = comparable(release.objects()?);
        // Helm keeps its own records in the namespace, which must be there before.
        let namespace = kustomized.remove(r#""Namespace" "pilothouse""#);
        namespace.context("the kustomization makes no namespace")?;
        let keys = |of: &BTreeMap<String, Value>| of.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&kustomized), keys(&charted), "{components:?}");
        for (key, object) in kustomized {
            assert_eq!(object, charted[&key], "{components:?}: {key}");
        }
    }
    Ok(())
}

#[test]
fn the_roles_are_what_the_binary_prints() -> Result<()> {
    let kustomize = deploy().join("kustomize");
    let written = std::fs::read_to_string(kustomize.join("base/rbac.yaml"))?;
    let says = "write it anew: pilothouse rbac > deploy/kustomize/base/rbac.yaml";
    assert_eq!(written, pilothouse(&["rbac"])?, "{says}");
    let written = std::fs::read_to_string(kustomize.join("components/share/role.yaml"))?;
    let (_, role) = written.split_once('\n').context("a comment and a role")?;
    let printed = pilothouse(&["rbac", "--share"])?;
    let mut printed = printed.split("---\n");
    assert!(printed.any(|document| document == role), "{role}");
    Ok(())
}

#[test]
fn every_pod_is_allowed_where_pods_must_be_restricted() -> Result<()> {
    let kustomizations = Kustomizations::copy()?;
    for (components, values) in ways() {
        let mut objects = kustomizations.with(components)?;
        pod_security("restricted", &objects)?;
        let release = Release {
            values,
            ..Release::default()
        };
        pod_security("restricted", &release.objects()?)?;
        let host = objects
            .iter_mut()
            .find(|object| object["kind"] == "Deployment");
        let host = host.context("there is no Deployment")?;
        host["spec"]["template"]["spec"]["hostNetwork"] = true.into();
        let refused = pod_security("restricted", &objects).unwrap_err();
        assert!(refused.to_string().contains("host namespaces"), "{refused}");
    }
    let objects = kustomize(&deploy().join("kustomize/base"))?;
    let labels = &of_kind(&objects, "Namespace")?["metadata"]["labels"];
    assert_eq!(
        labels["pod-security.kubernetes.io/enforce"], "restricted",
        "{labels}"
    );
    Ok(())
}

#[test]
fn the_root_of_the_container_is_read_only_and_what_it_writes_has_a_limit() -> Result<()> {
    let objects = kustomize(&deploy().join("kustomize/base"))?;
    let pod = &of_kind(&objects, "Deployment")?["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    let volumes = pod["volumes"].as_array().context("no volumes")?;
    for mount in container["volumeMounts"].as_array().context("no mounts")? {
        let volume = volumes.iter().find(|one| one["name"] == mount["name"]);
        let volume = volume.with_context(|| format!("no volume for {mount}"))?;
        let is_limited = volume["emptyDir"]["sizeLimit"].is_string();
        assert!(is_limited || mount["readOnly"] == true, "{mount}: {volume}");
    }
    Ok(())
}

#[test]
fn a_value_that_the_chart_does_not_know_is_refused() {
    for (values, named) in [
        (json!({"replicaCount": 3}), "replicaCount"),
        (json!({"replicas": 0}), "replicas"),
        (json!({"plugins": {"from": "nowhere"}}), "from"),
        (json!({"extraArgs": ["run"]}), "extraArgs"),
        (
            json!({"networkPolicy": {"apiServerNetworks": ["10.0.0.1"]}}),
            "apiServerNetworks",
        ),
    ] {
        let release = Release {
            values,
            ..Release::default()
        };
        let refused = release.objects().unwrap_err().to_string();
        assert!(refused.contains(named), "{refused}");
    }
}

#[test]
fn a_release_of_another_name_has_names_and_a_lease_of_its_own() -> Result<()> {
    let release = Release {
        name: "second",
        namespace: "controllers",
        ..Release::default()
    };
    let objects = release.objects()?;
    for object in &objects {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        assert!(name.starts_with("second-pilothouse"), "{metadata}");
        assert_eq!(metadata["namespace"], "controllers", "{metadata}");
    }
    let lease = "--leader-elect-resource-name=second-pilothouse";
    let container = &of_kind(&objects, "Deployment")?["spec"]["template"]["spec"]["containers"][0];
    let arguments = container["args"].as_array().context("no arguments")?;
    assert!(arguments.contains(&lease.into()), "{arguments:?}");
    // The same role as the binary prints for this name.
    let arguments = ["rbac", "--name", "second-pilothouse", lease];
    let printed = pilothouse(&[&arguments[..], &["--namespace", "controllers"]].concat())?;
    let printed = parse(&printed)?;
    assert_eq!(
        of_kind(&printed, "Role")?["rules"],
        of_kind(&objects, "Role")?["rules"]
    );
    Ok(())
}

#[test]
fn the_notes_say_a_command_that_the_binary_takes() -> Result<()> {
    let release = Release {
        name: "second",
        ..Release::default()
    };
    let notes = release.notes()?;
    let line = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("pilothouse rbac "));
    let line = line.with_context(|| format!("no such command in {notes}"))?;
    let (command, _) = line.split_once(" |").context("not piped into kubectl")?;
    let plugins = pilothouse_tests::plugin_directory(&["hello-rust"]);
    let plugins = plugins.path().to_str().context("a path of letters")?;
    let command = command.replace("DIRECTORY", plugins);
    let arguments: Vec<&str> = ["rbac"].into_iter().chain(command.split(' ')).collect();
    let printed = pilothouse(&arguments)?;
    assert!(
        printed.contains("name: second-pilothouse:plugins"),
        "{printed}"
    );
    Ok(())
}
