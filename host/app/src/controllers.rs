//! Which plugins of the directory this host runs: `--controllers`, with the syntax and the names of
//! kube-controller-manager's flag.

use std::str::FromStr;

use pilothouse_core::is_dns_label;

/// The controllers of kube-controller-manager (Kubernetes 1.36), in its order, and the name that
/// each has had before, which is still understood there.
pub const UPSTREAM: [(&str, Option<&str>); 50] = [
    (
        "serviceaccount-token-controller",
        Some("serviceaccount-token"),
    ),
    ("endpoints-controller", Some("endpoint")),
    ("endpointslice-controller", Some("endpointslice")),
    (
        "endpointslice-mirroring-controller",
        Some("endpointslicemirroring"),
    ),
    (
        "replicationcontroller-controller",
        Some("replicationcontroller"),
    ),
    ("pod-garbage-collector-controller", Some("podgc")),
    ("resourcequota-controller", Some("resourcequota")),
    ("namespace-controller", Some("namespace")),
    ("serviceaccount-controller", Some("serviceaccount")),
    ("garbage-collector-controller", Some("garbagecollector")),
    ("daemonset-controller", Some("daemonset")),
    ("job-controller", Some("job")),
    ("deployment-controller", Some("deployment")),
    ("replicaset-controller", Some("replicaset")),
    (
        "horizontal-pod-autoscaler-controller",
        Some("horizontalpodautoscaling"),
    ),
    ("disruption-controller", Some("disruption")),
    ("statefulset-controller", Some("statefulset")),
    ("cronjob-controller", Some("cronjob")),
    (
        "certificatesigningrequest-signing-controller",
        Some("csrsigning"),
    ),
    (
        "certificatesigningrequest-approving-controller",
        Some("csrapproving"),
    ),
    (
        "certificatesigningrequest-cleaner-controller",
        Some("csrcleaner"),
    ),
    ("podcertificaterequest-cleaner-controller", None),
    ("ttl-controller", Some("ttl")),
    ("bootstrap-signer-controller", Some("bootstrapsigner")),
    ("token-cleaner-controller", Some("tokencleaner")),
    ("node-ipam-controller", Some("nodeipam")),
    ("node-lifecycle-controller", Some("nodelifecycle")),
    ("taint-eviction-controller", None),
    ("device-taint-eviction-controller", None),
    (
        "persistentvolume-binder-controller",
        Some("persistentvolume-binder"),
    ),
    (
        "persistentvolume-attach-detach-controller",
        Some("attachdetach"),
    ),
    (
        "persistentvolume-expander-controller",
        Some("persistentvolume-expander"),
    ),
    (
        "clusterrole-aggregation-controller",
        Some("clusterrole-aggregation"),
    ),
    (
        "persistentvolumeclaim-protection-controller",
        Some("pvc-protection"),
    ),
    (
        "persistentvolume-protection-controller",
        Some("pv-protection"),
    ),
    ("podgroup-protection-controller", None),
    ("ttl-after-finished-controller", Some("ttl-after-finished")),
    (
        "root-ca-certificate-publisher-controller",
        Some("root-ca-cert-publisher"),
    ),
    (
        "service-ca-certificate-publisher-controller",
        Some("service-ca-cert-publisher"),
    ),
    (
        "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        None,
    ),
    ("ephemeral-volume-controller", Some("ephemeral-volume")),
    (
        "storageversion-garbage-collector-controller",
        Some("storage-version-gc"),
    ),
    (
        "resourceclaim-controller",
        Some("resource-claim-controller"),
    ),
    ("resourcepoolstatusrequest-controller", None),
    (
        "legacy-serviceaccount-token-cleaner-controller",
        Some("legacy-service-account-token-cleaner"),
    ),
    ("validatingadmissionpolicy-status-controller", None),
    ("volumeattributesclass-protection-controller", None),
    ("service-cidr-controller", None),
    ("storage-version-migrator-controller", Some("svm")),
    ("selinux-warning-controller", None),
];

/// Those of cloud providers. Kube-controller-manager knows the names, and runs none of them.
const OF_CLOUDS: [(&str, &str); 3] = [
    ("service-lb-controller", "service"),
    ("node-route-controller", "route"),
    ("cloud-node-lifecycle-controller", "cloud-node-lifecycle"),
];

/// One item of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// `*`: all that is not named.
    All,
    /// `foo`.
    On(String),
    /// `-foo`.
    Off(String),
}

impl FromStr for Item {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::All);
        }
        let name = text.strip_prefix('-').unwrap_or(text);
        // All of upstream's names are DNS labels, and those of plugins are, too.
        if !is_dns_label(name) {
            return Err(format!(
                "{text:?} is not a controller; write '*' for all, foo to run the one of this name, -foo not to run it"
            ));
        }
        let name = canonical(name).to_owned();
        Ok(if text.starts_with('-') {
            Self::Off(name)
        } else {
            Self::On(name)
        })
    }
}

/// The whole list.
#[derive(Clone, Debug)]
pub struct Controllers(Vec<Item>);

impl Controllers {
    pub fn new(items: Vec<Item>) -> Self {
        Self(items)
    }

    /// Whether a plugin that has these names is run: the first item decides that is about one of
    /// them, and without any it is run if `*` is in the list.
    pub fn is_on(&self, names: &[&str]) -> bool {
        let is_it = |wanted: &String| names.iter().any(|name| canonical(name) == wanted);
        let decided = self.0.iter().find_map(|item| match item {
            Item::On(name) => is_it(name).then_some(true),
            Item::Off(name) => is_it(name).then_some(false),
            Item::All => None,
        });
        decided.unwrap_or_else(|| self.0.contains(&Item::All))
    }

    /// What the operator should know about the list, when plugins with these names are there. Files
    /// come and go, so that no name is wrong for certain.
    pub fn doubts(&self, plugins: &[String]) -> Vec<String> {
        let is_there = |wanted: &str| plugins.iter().any(|name| canonical(name) == wanted);
        let absent = self.0.iter().filter_map(|item| match item {
            Item::On(name) if is_there(name) => None,
            Item::Off(name) if is_there(name) || is_upstream(name) => None,
            Item::On(name) if is_upstream(name) => Some(format!(
                "no plugin is called {name}, or as it is without -controller; it runs as soon as one comes"
            )),
            Item::On(name) | Item::Off(name) => Some(format!(
                "{name} is neither a plugin that is there nor a controller of kube-controller-manager; see pilothouse plugins"
            )),
            Item::All => None,
        });
        absent.collect()
    }
}

/// One name for all that a controller is called: upstream's full name. A plugin of the same name,
/// of an earlier one, or of one without `-controller` stands for it.
fn canonical(name: &str) -> &str {
    let full = full_names().find(|(full, earlier)| {
        *full == name || *earlier == Some(name) || full.strip_suffix("-controller") == Some(name)
    });
    full.map_or(name, |(full, _)| full)
}

fn is_upstream(name: &str) -> bool {
    full_names().any(|(full, _)| full == name)
}

fn full_names() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    let clouds = OF_CLOUDS
        .iter()
        .map(|(full, earlier)| (*full, Some(*earlier)));
    UPSTREAM.iter().copied().chain(clouds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Controllers {
        let items = text.split(',').map(str::parse);
        Controllers::new(items.collect::<Result<_, _>>().unwrap())
    }

    /// The rows of upstream's `TestIsControllerEnabled`, but for those of controllers that are off
    /// by default, of which there are none here.
    #[test]
    fn the_first_item_that_names_a_controller_decides_and_a_star_is_for_the_rest() {
        for (controllers, name, is_on) in [
            ("bravo", "bravo", true),
            ("alpha,-bravo,-charlie", "bravo", false),
            ("bravo,charlie", "alpha", false),
            ("*,-bravo", "alpha", true),
            ("*,-bravo", "bravo", false),
            ("bravo,*", "bravo", true),
            ("-bravo,bravo,*", "bravo", false),
            ("bravo,-bravo", "bravo", true),
            ("-bravo", "alpha", false),
            ("*", "alpha", true),
        ] {
            assert_eq!(
                list(controllers).is_on(&[name]),
                is_on,
                "{controllers}: {name}"
            );
        }
    }

    #[test]
    fn a_controller_has_all_names_that_upstream_gives_it() {
        for item in ["endpoints-controller", "endpoint", "endpoints"] {
            let off = list(&format!("*,-{item}"));
            for plugin in ["endpoints", "endpoint", "endpoints-controller"] {
                assert!(!off.is_on(&[plugin]), "{item}: {plugin}");
            }
            assert!(off.is_on(&["endpointslice"]));
        }
        assert!(!list("*,-podgc").is_on(&["pod-garbage-collector"]));
        assert!(!list("*,-service").is_on(&["service-lb"]));
        assert!(list("*,-podgc").is_on(&["podgc-2"]));
    }

    #[test]
    fn a_plugin_of_two_names_is_meant_by_either() {
        let one = list("cronjob");
        assert!(one.is_on(&["cronjob", "mine"]) && one.is_on(&["file", "cronjob"]));
        assert!(!one.is_on(&["file", "mine"]));
        assert!(!list("*,-mine").is_on(&["file", "mine"]));
    }

    #[test]
    fn what_is_no_item_is_told_what_to_write() {
        for text in ["", "-", "--a", "a b", "*a", "A", "a*"] {
            let error = text.parse::<Item>().unwrap_err();
            assert!(error.contains("write '*' for all"), "{error}");
        }
        assert_eq!("-copies".parse(), Ok(Item::Off("copies".into())));
        assert_eq!("cronjob".parse(), Ok(Item::On("cronjob-controller".into())));
    }

    #[test]
    fn a_name_that_nothing_has_is_doubted() {
        let plugins = ["endpoints".to_owned(), "copies".to_owned()];
        let doubts = |text: &str| list(text).doubts(&plugins);
        assert_eq!(doubts("*,-endpoints,-copies,-cronjob"), [""; 0]);
        assert_eq!(doubts("endpoint,copies"), [""; 0]);
        let unknown = doubts("*,-cornjob");
        assert!(unknown[0].starts_with("cornjob is neither"), "{unknown:?}");
        let missing = doubts("cronjob");
        assert!(missing[0].starts_with("no plugin is called cronjob-controller"));
    }

    /// The rows of a document's list: the controller, and what stands in the other columns.
    fn rows(document: &'static str) -> Vec<(&'static str, &'static str)> {
        let rows = document.lines().filter_map(|line| {
            let row = line.strip_prefix("| `")?.strip_suffix('|')?;
            let (name, rest) = row.split_once("` |")?;
            name.ends_with("-controller").then_some((name, rest.trim()))
        });
        let rows: Vec<_> = rows.collect();
        let names: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
        let upstream: Vec<&str> = UPSTREAM.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, upstream, "the list is upstream's");
        rows
    }

    /// What the Makefile builds.
    fn shipped() -> Vec<&'static str> {
        let makefile = include_str!("../../../Makefile");
        let shipped = makefile
            .lines()
            .find_map(|line| line.strip_prefix("rust_plugins := "));
        shipped.unwrap().split_whitespace().collect()
    }

    /// How a document marks the controller, if it is shipped.
    fn mark(name: &str, folder: &str) -> String {
        let shipped = shipped();
        let ours = shipped.iter().find(|plugin| canonical(plugin) == name);
        let mark = ours.map(|plugin| format!("[{plugin}]({folder}/{plugin})"));
        mark.unwrap_or_default()
    }

    #[test]
    fn the_readme_marks_the_controllers_that_are_shipped() {
        for (name, marked) in rows(include_str!("../../../README.md")) {
            assert_eq!(marked, mark(name, "plugins"), "{name}");
        }
        let others = shipped()
            .into_iter()
            .filter(|plugin| !is_upstream(canonical(plugin)));
        assert_eq!(others.count(), 0, "each stands for one of upstream's");
    }

    /// The page for operators has another column, which says what differs where there is a plugin.
    #[test]
    fn the_page_for_operators_marks_them_too_and_says_what_differs() {
        let page = include_str!("../../../docs/kube-controller-manager.md");
        for (name, columns) in rows(page) {
            let (marked, differs) = columns.split_once('|').unwrap();
            let mark = mark(name, "../plugins");
            assert_eq!(marked.trim(), mark, "{name}");
            assert!(mark.is_empty() || !differs.trim().is_empty(), "{name}");
        }
    }
}
