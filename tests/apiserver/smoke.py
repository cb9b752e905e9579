"""Checks of the test API server over HTTPS, with nothing but the standard
library. Each check is a function named after what it claims; run one with
`smoke.sh NAME`."""

import base64
import contextlib
import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
PODS = "/api/v1/namespaces/default/pods"
CONFIGS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
WIDGETS = "/apis/smoke.example.com/v1/namespaces/default/widgets"

BINARY = ""


class Server:
    """One server process on a data directory of its own."""

    def __init__(self, *flags, data_dir, port=0):
        self.flags, self.data_dir, self.port = flags, data_dir, port
        self.start()

    def start(self):
        kubeconfig = os.path.join(self.data_dir, "kubeconfig")
        begun = time.monotonic()
        self.process = subprocess.Popen(
            [BINARY, "--data-dir", self.data_dir, "--port", str(self.port), "--kubeconfig", kubeconfig, *self.flags],
            stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.start_seconds = time.monotonic() - begun
        assert line.startswith("ready https://127.0.0.1:"), f"no ready line: {line!r}"
        config = open(kubeconfig).read()
        self.token = re.search(r"token: (\S+)", config)[1]
        self.ca = base64.b64decode(re.search(r"certificate-authority-data: (\S+)", config)[1]).decode()
        address = urllib.parse.urlparse(re.search(r"server: (\S+)", config)[1])
        assert f"ready {address.geturl()}" == line.strip(), "the kubeconfig names another server"
        self.port = address.port

    def connect(self, timeout=20):
        context = ssl.create_default_context(cadata=self.ca)
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=timeout)

    def send(self, connection, method, path, body, content_type, token, headers):
        headers = {"Accept": JSON, "User-Agent": "smoke", **headers}
        if token is None:
            token = self.token
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers["Content-Type"] = content_type
            body = json.dumps(body)
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def call(self, method, path, body=None, content_type=JSON, token=None, **headers):
        """Returns the status code and the decoded answer."""
        connection = self.connect()
        with contextlib.closing(connection):
            response = self.send(connection, method, path, body, content_type, token, headers)
            content = response.read()
            try:
                return response.status, json.loads(content or b"{}")
            except ValueError:
                return response.status, content.decode()

    def ok(self, method, path, body=None, content_type=JSON, **more):
        """The same, for calls that must succeed."""
        code, answer = self.call(method, path, body, content_type, **more)
        assert 200 <= code < 300, f"{method} {path}: {code} {answer}"
        return answer

    def refused(self, wanted, method, path, body=None, content_type=JSON, **more):
        """The same, for calls that must be refused with one code."""
        code, answer = self.call(method, path, body, content_type, **more)
        equal(code, wanted, f"{method} {path} ({answer})")
        return answer

    @contextlib.contextmanager
    def watching(self, path, **query):
        """Yields an iterator over the changes of a watch."""
        connection = self.connect()
        query = urllib.parse.urlencode({"watch": "true", **query})
        with contextlib.closing(connection):
            response = self.send(connection, "GET", f"{path}?{query}", None, JSON, None, {})
            equal(response.status, 200, f"watch {path}")
            yield (json.loads(line) for line in response)

    def stop(self, how=signal.SIGTERM):
        begun = time.monotonic()
        self.process.send_signal(how)
        self.process.wait(timeout=20)
        self.process.stdout.close()
        return time.monotonic() - begun


def equal(actual, wanted, what):
    assert actual == wanted, f"{what}: got {actual!r}, want {wanted!r}"


def eventually(claim, what, seconds=30):
    deadline = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < deadline, f"not within {seconds}s: {what}"
        time.sleep(0.02)


def pod(name, **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": "example/main:1", "ports": [{"containerPort": 80}]}], **spec}}


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def deployment(name, **spec):
    labels = {"app": name}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": labels},
                     "template": {"metadata": {"labels": labels},
                                  "spec": {"containers": [{"name": "main", "image": "example/main:1"}]}}, **spec}}


def definition():
    schema = {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}},
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}}}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.smoke.example.com"},
            "spec": {"group": "smoke.example.com", "scope": "Namespaced",
                     "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                     "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                                   "schema": {"openAPIV3Schema": schema}}]}}


# Checks on a server with the watch cache, where every user may do everything.

def it_has_the_system_namespaces_and_a_version(server):
    names = [item["metadata"]["name"] for item in server.ok("GET", "/api/v1/namespaces")["items"]]
    equal(names, ["default", "kube-node-lease", "kube-public", "kube-system"], "namespaces")
    assert server.ok("GET", "/version")["gitVersion"].startswith("v1.37."), "version"
    equal(server.call("GET", "/readyz", token="")[0], 200, "anonymous /readyz")
    server.refused(401, "GET", PODS, token="unknown")
    server.refused(403, "GET", PODS, token="")


def it_serves_every_kind(server):
    served = {}
    for path in ["/api/v1"] + [f"/apis/{group['preferredVersion']['groupVersion']}"
                               for group in server.ok("GET", "/apis")["groups"]]:
        for resource in server.ok("GET", path)["resources"]:
            served[f"{path}/{resource['name']}"] = resource
    expected = {
        "/api/v1": """namespaces namespaces/status namespaces/finalize nodes nodes/status pods pods/status
            pods/binding pods/eviction services services/status endpoints configmaps secrets serviceaccounts events
            persistentvolumeclaims persistentvolumeclaims/status persistentvolumes persistentvolumes/status
            replicationcontrollers replicationcontrollers/status replicationcontrollers/scale
            resourcequotas resourcequotas/status limitranges""",
        "/apis/apps/v1": """deployments deployments/status deployments/scale replicasets replicasets/status
            replicasets/scale statefulsets statefulsets/status statefulsets/scale daemonsets daemonsets/status
            controllerrevisions""",
        "/apis/batch/v1": "jobs jobs/status cronjobs cronjobs/status",
        "/apis/coordination.k8s.io/v1": "leases",
        "/apis/discovery.k8s.io/v1": "endpointslices",
        "/apis/events.k8s.io/v1": "events",
        "/apis/policy/v1": "poddisruptionbudgets poddisruptionbudgets/status",
        "/apis/autoscaling/v2": "horizontalpodautoscalers horizontalpodautoscalers/status",
        "/apis/networking.k8s.io/v1": "ingresses ingresses/status networkpolicies",
        "/apis/storage.k8s.io/v1": "storageclasses",
        "/apis/scheduling.k8s.io/v1": "priorityclasses",
        "/apis/rbac.authorization.k8s.io/v1": "roles clusterroles rolebindings clusterrolebindings",
        "/apis/authorization.k8s.io/v1": "subjectaccessreviews selfsubjectaccessreviews localsubjectaccessreviews",
        "/apis/apiextensions.k8s.io/v1": "customresourcedefinitions customresourcedefinitions/status",
    }
    wanted = {f"{path}/{name}" for path, names in expected.items() for name in names.split()}
    equal({path for path in served if "smoke.example.com" not in path}, wanted, "resources")
    cluster_wide = """namespaces nodes persistentvolumes storageclasses priorityclasses clusterroles
        clusterrolebindings subjectaccessreviews selfsubjectaccessreviews customresourcedefinitions""".split()
    equal({resource["name"] for resource in served.values() if not resource["namespaced"] and "/" not in resource["name"]},
          set(cluster_wide), "cluster-wide resources")
    for path, resource in served.items():
        if "list" in resource["verbs"]:
            items = server.ok("GET", path)["items"]
            assert isinstance(items, list), path


def it_stores_every_kind(server):
    template = deployment("any")["spec"]
    needed = {
        "Pod": {"spec": pod("any")["spec"]},
        "Service": {"spec": {"ports": [{"port": 80}]}},
        "Event": {"type": "Normal", "action": "a", "reason": "r", "reportingInstance": "i",
                  "eventTime": "2026-01-01T00:00:00.000000Z"},
        **{kind: {"spec": template} for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")},
    }
    for group_version in ["v1"] + [group["preferredVersion"]["groupVersion"] for group in server.ok("GET", "/apis")["groups"]]:
        base = "/api/v1" if group_version == "v1" else f"/apis/{group_version}"
        if base.startswith(("/apis/authorization", "/apis/apiextensions")):
            continue
        for resource in server.ok("GET", base)["resources"]:
            if "/" in resource["name"]:
                continue
            path = f"{base}/namespaces/default/{resource['name']}" if resource["namespaced"] else f"{base}/{resource['name']}"
            body = {"apiVersion": group_version, "kind": resource["kind"], **needed.get(resource["kind"], {})}
            if resource["kind"] == "Event":
                core = group_version == "v1"
                body["involvedObject" if core else "regarding"] = {"namespace": "default"}
                body["reportingComponent" if core else "reportingController"] = "example.com/c"
            name = "stored"
            body["metadata"] = {"name": name}
            made = server.ok("POST", f"{path}?fieldValidation=Strict", body)
            equal((made["apiVersion"], made["kind"]), (group_version, resource["kind"]), path)
            labelled = {"apiVersion": group_version, "kind": resource["kind"], "metadata": {"labels": {"smoke": "yes"}}}
            applied = server.ok("PATCH", f"{path}/{name}?fieldManager=smoke", labelled, APPLY)
            equal(applied["metadata"]["labels"]["smoke"], "yes", f"applied to {path}")
            found = server.ok("GET", f"{path}?labelSelector=smoke%3Dyes")["items"]
            equal([item["metadata"]["name"] for item in found], [name], f"selected in {path}")
            server.ok("DELETE", f"{path}/{name}", {"propagationPolicy": "Background"})
            if resource["kind"] != "Namespace":
                server.refused(404, "GET", f"{path}/{name}")


def it_creates_gets_lists_and_defaults(server):
    created = server.ok("POST", PODS, pod("plain"))
    equal(created["status"]["phase"], "Pending", "phase")
    equal(created["metadata"]["generation"], 1, "generation")
    equal(created["spec"]["restartPolicy"], "Always", "restartPolicy")
    equal(created["spec"]["containers"][0]["ports"][0]["protocol"], "TCP", "port protocol")
    equal(server.ok("GET", f"{PODS}/plain"), created, "what is got")
    server.refused(409, "POST", PODS, pod("plain"))
    listed = server.ok("GET", f"{PODS}?fieldSelector=metadata.name%3Dplain")
    equal((listed["kind"], len(listed["items"])), ("PodList", 1), "list")
    assert "kind" not in listed["items"][0], "an item of a list has a kind"
    equal(len(server.ok("GET", f"{PODS}?fieldSelector=spec.nodeName%3Dnowhere")["items"]), 0, "pods on no node")
    server.refused(400, "GET", f"{PODS}?fieldSelector=spec.unknown%3Dx")
    equal(server.ok("POST", PODS, {**pod(""), "metadata": {"generateName": "made-"}})["metadata"]["name"][:5], "made-", "name")


def it_refuses_what_the_real_one_refuses(server):
    server.refused(422, "POST", PODS, pod("Not_A_Name"))
    server.refused(404, "POST", "/api/v1/namespaces/missing/pods", pod("lost"))
    server.refused(422, "POST", DEPLOYMENTS, deployment("unmatched", selector={"matchLabels": {"app": "other"}}))
    server.refused(400, "POST", PODS, {**pod("x"), "kind": "Service"})
    server.refused(400, "POST", f"{PODS}?fieldValidation=Strict", pod("strict", unknownField=1))
    server.refused(403, "DELETE", "/api/v1/namespaces/default")
    server.ok("POST", PODS, pod("fixed"))
    server.refused(422, "PATCH", f"{PODS}/fixed", {"spec": {"hostNetwork": True}}, MERGE)
    server.ok("PATCH", f"{PODS}/fixed", {"spec": {"containers": [{"name": "main", "image": "example/main:2"}]}}, STRATEGIC)


def it_patches_in_every_way(server):
    server.ok("POST", DEPLOYMENTS, deployment("patched"))
    path = f"{DEPLOYMENTS}/patched"
    sidecar = {"name": "side", "image": "example/side:1"}
    patched = server.ok("PATCH", path, {"spec": {"template": {"spec": {"containers": [sidecar]}}}}, STRATEGIC)
    equal([c["name"] for c in patched["spec"]["template"]["spec"]["containers"]], ["side", "main"], "strategic merge by name")
    equal(patched["metadata"]["generation"], 2, "generation after a change of spec")
    patched = server.ok("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    equal((patched["metadata"]["labels"], patched["metadata"]["generation"]), ({"a": "b"}, 2), "labels do not count")
    patched = server.ok("PATCH", path, [{"op": "replace", "path": "/spec/replicas", "value": 4}], JSON_PATCH)
    equal(patched["spec"]["replicas"], 4, "replicas")
    server.refused(422, "PATCH", path, [{"op": "test", "path": "/spec/replicas", "value": 5}], JSON_PATCH)
    server.refused(422, "PATCH", path, {"spec": {"selector": {"matchLabels": {"app": "new"}}}}, MERGE)


def it_applies_with_owned_fields(server):
    path = f"{DEPLOYMENTS}/applied"
    applied = server.ok("PATCH", f"{path}?fieldManager=one", deployment("applied", replicas=2), APPLY)
    equal([m["manager"] for m in applied["metadata"]["managedFields"]], ["one"], "managers")
    server.refused(409, "PATCH", f"{path}?fieldManager=two", deployment("applied", replicas=3), APPLY)
    forced = server.ok("PATCH", f"{path}?fieldManager=two&force=true", deployment("applied", replicas=3), APPLY)
    equal(forced["spec"]["replicas"], 3, "replicas after force")
    released = server.ok("PATCH", f"{path}?fieldManager=one", deployment("applied"), APPLY)
    equal(released["spec"]["replicas"], 3, "replicas kept by their new owner")
    before = released["metadata"]["resourceVersion"]
    again = server.ok("PATCH", f"{path}?fieldManager=one", deployment("applied"), APPLY)
    equal(again["metadata"]["resourceVersion"], before, "applying the same again writes nothing")
    scaled = server.ok("PATCH", f"{path}/scale?fieldManager=three", {"spec": {"replicas": 7}}, MERGE)
    equal((scaled["kind"], scaled["apiVersion"], scaled["spec"]["replicas"]), ("Scale", "autoscaling/v1", 7), "scale")
    equal(scaled["status"]["selector"], "app=applied", "selector of the scale")
    owners = [m["manager"] for m in server.ok("GET", path)["metadata"]["managedFields"] if m.get("subresource") == "scale"]
    equal(owners, ["three"], "who scaled owns the replicas")


def it_keeps_status_and_spec_apart(server):
    server.ok("POST", DEPLOYMENTS, {**deployment("halves"), "status": {"replicas": 9}})
    path = f"{DEPLOYMENTS}/halves"
    equal(server.ok("GET", path)["status"], {}, "status of a new object")
    written = server.ok("PATCH", f"{path}/status", {"spec": {"replicas": 8}, "status": {"replicas": 5}}, MERGE)
    equal((written["spec"]["replicas"], written["status"]["replicas"], written["metadata"]["generation"]), (1, 5, 1), "through /status")
    written = server.ok("PATCH", path, {"spec": {"replicas": 8}, "status": {"replicas": 6}}, MERGE)
    equal((written["spec"]["replicas"], written["status"]["replicas"], written["metadata"]["generation"]), (8, 5, 2), "through the object")
    status = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "halves"}, "status": {"readyReplicas": 1}}
    applied = server.ok("PATCH", f"{path}/status?fieldManager=controller", status, APPLY)
    equal([m["subresource"] for m in applied["metadata"]["managedFields"] if m["manager"] == "controller"], ["status"], "subresource")


def it_holds_to_preconditions(server):
    first = server.ok("POST", CONFIGS, config_map("guarded", a="1"))
    path = f"{CONFIGS}/guarded"
    server.ok("PUT", path, {**first, "data": {"a": "2"}})
    server.refused(409, "PUT", path, {**first, "data": {"a": "3"}})
    server.refused(409, "DELETE", path, {"preconditions": {"uid": "another"}})
    server.refused(409, "DELETE", path, {"preconditions": {"resourceVersion": first["metadata"]["resourceVersion"]}})
    server.ok("DELETE", path, {"preconditions": {"uid": first["metadata"]["uid"]}})
    server.refused(404, "GET", path)
    server.ok("POST", f"{CONFIGS}?dryRun=All", config_map("imagined"))
    server.refused(404, "GET", f"{CONFIGS}/imagined")


def it_waits_for_finalizers(server):
    held = config_map("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    server.ok("POST", CONFIGS, held)
    path = f"{CONFIGS}/held"
    server.ok("DELETE", path)
    assert "deletionTimestamp" in server.ok("GET", path)["metadata"], "no deletionTimestamp"
    server.refused(422, "PATCH", path, {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}, MERGE)
    server.ok("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
    server.refused(404, "GET", path)


def it_deletes_pods_gracefully(server):
    server.ok("POST", PODS, pod("unplaced"))
    server.ok("DELETE", f"{PODS}/unplaced")
    server.refused(404, "GET", f"{PODS}/unplaced")
    server.ok("POST", PODS, pod("placed"))
    target = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "placed"}, "target": {"kind": "Node", "name": "n1"}}
    server.ok("POST", f"{PODS}/placed/binding", target)
    server.refused(409, "POST", f"{PODS}/placed/binding", target)
    bound = server.ok("GET", f"{PODS}?fieldSelector=spec.nodeName%3Dn1")["items"]
    equal([item["metadata"]["name"] for item in bound], ["placed"], "pods on the node")
    server.ok("DELETE", f"{PODS}/placed")
    leaving = server.ok("GET", f"{PODS}/placed")["metadata"]
    equal(leaving["deletionGracePeriodSeconds"], 30, "grace period")
    assert "deletionTimestamp" in leaving, "no deletionTimestamp"
    server.ok("DELETE", f"{PODS}/placed", {"gracePeriodSeconds": 0})
    server.refused(404, "GET", f"{PODS}/placed")


def it_evicts_within_the_budget(server):
    member = pod("member", nodeName="n1")
    member["metadata"]["labels"] = {"app": "budgeted"}
    server.ok("POST", PODS, member)
    server.ok("PATCH", f"{PODS}/member/status", {"status": {"phase": "Running"}}, MERGE)
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    server.ok("POST", budgets, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
                                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "budgeted"}}}})
    server.ok("PATCH", f"{budgets}/b/status", {"status": {"observedGeneration": 1, "disruptionsAllowed": 0}}, MERGE)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "member"}}
    server.refused(429, "POST", f"{PODS}/member/eviction", eviction)
    server.ok("PATCH", f"{budgets}/b/status", {"status": {"disruptionsAllowed": 1}}, MERGE)
    server.ok("POST", f"{PODS}/member/eviction", eviction)
    assert "deletionTimestamp" in server.ok("GET", f"{PODS}/member")["metadata"], "not evicted"
    equal(server.ok("GET", f"{budgets}/b")["status"]["disruptionsAllowed"], 0, "the budget is spent")
    unready = dict(member, metadata=dict(member["metadata"], name="unready"))
    server.ok("POST", PODS, unready)
    server.ok("PATCH", f"{PODS}/unready/status", {"status": {"phase": "Running"}}, MERGE)
    eviction["metadata"]["name"] = "unready"
    server.refused(429, "POST", f"{PODS}/unready/eviction", eviction)
    server.ok("PATCH", f"{budgets}/b", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}, MERGE)
    server.ok("PATCH", f"{budgets}/b/status", {"status": {"observedGeneration": 2}}, MERGE)
    server.ok("POST", f"{PODS}/unready/eviction", eviction)


def it_ends_namespaces_in_two_steps(server):
    server.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "brief"}})
    path = "/api/v1/namespaces/brief"
    made = server.ok("GET", path)
    equal(made["metadata"]["labels"], {"kubernetes.io/metadata.name": "brief"}, "labels")
    server.ok("DELETE", path)
    ending = server.ok("GET", path)
    equal((ending["status"]["phase"], ending["spec"]["finalizers"]), ("Terminating", ["kubernetes"]), "after DELETE")
    eventually(lambda: server.call("POST", f"{path}/configmaps", config_map("late"))[0] == 403, "no creation while terminating")
    server.ok("PATCH", f"{path}/status", {"status": {"conditions": [{"type": "Remaining", "status": "True"}]}}, MERGE)
    ending = server.ok("GET", path)
    equal(ending["status"]["conditions"][0]["type"], "Remaining", "a change of status")
    server.ok("PUT", f"{path}/finalize", {**ending, "spec": {"finalizers": []}})
    server.refused(404, "GET", path)


def it_gives_services_an_address(server):
    services = "/api/v1/namespaces/default/services"
    make = lambda name, **spec: server.ok("POST", services, {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}})
    first, second = make("one"), make("two")
    port = first["spec"]["ports"][0]
    equal((port["protocol"], port["targetPort"], first["spec"]["type"]), ("TCP", 80, "ClusterIP"), "defaults")
    assert first["spec"]["clusterIP"].startswith("10.96.0.") and first["spec"]["clusterIP"] != second["spec"]["clusterIP"], "addresses"
    equal(make("none", clusterIP="None")["spec"]["clusterIP"], "None", "headless")
    assert "clusterIP" not in make("outside", type="ExternalName", externalName="example.com")["spec"], "ExternalName"
    replaced = server.ok("PUT", f"{services}/one", {"metadata": {"name": "one"}, "spec": {"ports": [{"port": 81}]}})
    equal(replaced["spec"]["clusterIP"], first["spec"]["clusterIP"], "address after PUT without it")
    server.refused(422, "PATCH", f"{services}/one", {"spec": {"clusterIP": "10.96.9.9"}}, MERGE)


def it_shares_events_between_groups(server):
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    event = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e1"}, "type": "Normal", "reason": "Made",
             "action": "Create", "note": "made it", "reportingController": "example.com/host", "reportingInstance": "host-1",
             "eventTime": "2026-01-01T00:00:00.000000Z",
             "regarding": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "namespace": "default"}}
    equal(server.ok("POST", path, event)["note"], "made it", "note")
    core = server.ok("GET", "/api/v1/namespaces/default/events/e1")
    equal((core["apiVersion"], core["message"], core["involvedObject"]["name"]), ("v1", "made it", "x"), "as a core event")
    equal(len(server.ok("GET", f"{path}?fieldSelector=regarding.name%3Dx")["items"]), 1, "selected")
    patched = server.ok("PATCH", f"{path}/e1", {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}, MERGE)
    equal(patched["series"]["count"], 2, "series")
    applied = {**event, "metadata": {"name": "e2"}}
    equal(server.ok("PATCH", f"{path}/e2?fieldManager=m", applied, APPLY)["reason"], "Made", "applied")
    server.refused(422, "POST", path, {**event, "metadata": {"name": "e3"}, "action": ""})
    server.refused(422, "POST", path, {**event, "metadata": {"name": "e4"}, "regarding": {"kind": "Pod", "name": "x", "namespace": "other"}})


def it_watches_changes_in_order(server):
    start = server.ok("GET", CONFIGS)["metadata"]["resourceVersion"]
    with server.watching(CONFIGS, resourceVersion=start, timeoutSeconds=10) as changes:
        server.ok("POST", CONFIGS, config_map("seen", a="1"))
        server.ok("PATCH", f"{CONFIGS}/seen", {"data": {"a": "2"}}, MERGE)
        server.ok("DELETE", f"{CONFIGS}/seen")
        seen = [next(changes) for _ in range(3)]
    equal([(c["type"], c["object"]["data"]["a"], c["object"]["kind"]) for c in seen],
          [("ADDED", "1", "ConfigMap"), ("MODIFIED", "2", "ConfigMap"), ("DELETED", "2", "ConfigMap")], "changes")


def it_streams_lists_and_ends_them_with_a_bookmark(server):
    server.ok("POST", CONFIGS, config_map("streamed"))
    with server.watching(CONFIGS, sendInitialEvents="true", resourceVersionMatch="NotOlderThan",
                         allowWatchBookmarks="true", timeoutSeconds=10) as changes:
        names = set()
        for change in changes:
            if change["type"] == "BOOKMARK":
                break
            names.add(change["object"]["metadata"]["name"])
    assert "streamed" in names, names
    equal(change["object"]["metadata"]["annotations"], {"k8s.io/initial-events-end": "true"}, "bookmark")


def it_sends_a_bookmark_before_a_watch_times_out(server):
    with server.watching(CONFIGS, resourceVersion="0", allowWatchBookmarks="true", timeoutSeconds=4) as changes:
        types = [change["type"] for change in changes]
    assert "BOOKMARK" in types, types


def it_serves_custom_resources(server):
    server.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    eventually(lambda: server.call("GET", WIDGETS)[0] == 200, "custom resources served")
    groups = lambda: [group["name"] for group in server.ok("GET", "/apis")["groups"]]
    eventually(lambda: "smoke.example.com" in groups(), "group in /apis")
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    listed = lambda: [g["metadata"]["name"] for g in server.ok("GET", "/apis", Accept=aggregated)["items"]]
    eventually(lambda: {"smoke.example.com", "apps"} <= set(listed()), "group in aggregated discovery")
    eventually(lambda: "apis/smoke.example.com/v1" in server.ok("GET", "/openapi/v3")["paths"], "group in OpenAPI")

    widget = {"apiVersion": "smoke.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
    equal(server.ok("POST", WIDGETS, widget)["metadata"]["generation"], 1, "generation")
    server.refused(422, "POST", WIDGETS, {**widget, "metadata": {"name": "bad"}, "spec": {"size": 0}})
    status = server.ok("PATCH", f"{WIDGETS}/w/status", {"spec": {"size": 5}, "status": {"ready": True}}, MERGE)
    equal((status["spec"]["size"], status["status"]["ready"]), (1, True), "status apart")
    applied = server.ok("PATCH", f"{WIDGETS}/w?fieldManager=m&force=true", {**widget, "spec": {"size": 3}}, APPLY)
    equal((applied["spec"]["size"], applied["metadata"]["generation"]), (3, 2), "applied")
    server.refused(404, "POST", WIDGETS.replace("default", "missing"), widget)

    server.ok("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.smoke.example.com")
    eventually(lambda: server.call("GET", WIDGETS)[0] == 404, "gone with the definition")
    eventually(lambda: "smoke.example.com" not in groups(), "group gone from /apis")


def it_counts_requests_and_open_watches(server):
    mine = lambda: {(r["verb"], r["resource"]): (r["count"], r["open"])
                    for r in server.ok("GET", "/testing/requests")["requests"] if r["userAgent"] == "counted"}
    equal(server.call("DELETE", "/testing/requests")[0], 204, "reset")
    equal(mine(), {}, "after a reset")
    server.ok("GET", CONFIGS, **{"User-Agent": "counted"})
    server.ok("GET", f"{CONFIGS}", **{"User-Agent": "counted"})
    server.refused(404, "GET", f"{CONFIGS}/missing", **{"User-Agent": "counted"})
    connection = server.connect()
    with contextlib.closing(connection):
        server.send(connection, "GET", f"{PODS}?watch=true", None, JSON, None, {"User-Agent": "counted"})
        equal(mine(), {("list", "configmaps"): (2, 0), ("get", "configmaps"): (1, 0), ("watch", "pods"): (1, 1)}, "counts")
    eventually(lambda: mine()[("watch", "pods")] == (1, 0), "the watch is closed")
    agents = {record["userAgent"] for record in server.ok("GET", "/testing/requests")["requests"]}
    assert not any("loopback" in agent for agent in agents), agents


def compaction_expires_continue_tokens(server):
    for index in range(3):
        server.ok("POST", CONFIGS, config_map(f"page-{index}"))
    page = server.ok("GET", f"{CONFIGS}?limit=2")
    equal(len(page["items"]), 2, "first page")
    next_page = f"{CONFIGS}?limit=2&continue={urllib.parse.quote(page['metadata']['continue'])}"
    server.ok("GET", next_page)
    assert server.ok("POST", "/testing/compact")["revision"] > int(page["metadata"]["resourceVersion"]), "revision"
    # With the watch cache the cache learns of it within its polling period.
    eventually(lambda: server.call("GET", next_page)[0] == 410, "410 for an old continue token")
    equal(server.call("GET", next_page)[1]["reason"], "Expired", "reason")
    server.ok("GET", f"{CONFIGS}?limit=2")


# Checks on servers of their own.

def it_writes_down_who_has_changed_what(make):
    server = make("--record-writes")
    created = server.ok("POST", CONFIGS, config_map("written"))
    server.ok("GET", f"{CONFIGS}/written")
    server.refused(409, "POST", CONFIGS, config_map("written"))
    server.ok("DELETE", f"{CONFIGS}/written")
    writes = server.ok("GET", "/testing/writes?after=0")["writes"]
    own = [write for write in writes if write["name"] == "written"]
    equal([(write["user"], write["verb"], write["code"]) for write in own],
          [("admin", "create", 201), ("admin", "delete", 200)], "writes")
    equal(own[0]["version"], created["metadata"]["resourceVersion"], "version")
    equal(own[0]["uid"], created["metadata"]["uid"], "uid")
    equal(own[1]["uid"], created["metadata"]["uid"], "uid of the deletion")
    equal([write["code"] for write in writes if write["resource"] == "configmaps"], [201, 409, 200], "codes")
    equal(server.ok("GET", f"/testing/writes?after={len(writes)}")["writes"], [], "nothing more")


def without_watch_cache_compaction_expires_watches_at_once(make):
    server = make("--watch-cache=false")
    old = server.ok("POST", CONFIGS, config_map("old"))["metadata"]["resourceVersion"]
    page = server.ok("GET", "/api/v1/namespaces?limit=1")
    assert "kind" not in page["items"][0], "an item of a list has a kind"
    server.ok("PATCH", f"{CONFIGS}/old", {"data": {"a": "1"}}, MERGE)
    with server.watching(CONFIGS, resourceVersion=old, timeoutSeconds=5) as changes:
        equal(next(changes)["type"], "MODIFIED", "before the compaction")
    server.ok("POST", "/testing/compact")
    code, answer = server.call("GET", f"{CONFIGS}?watch=true&timeoutSeconds=5&resourceVersion={old}")
    assert (code == 410) or (answer["type"] == "ERROR" and answer["object"]["code"] == 410), (code, answer)
    server.refused(410, "GET", f"/api/v1/namespaces?limit=1&continue={urllib.parse.quote(page['metadata']['continue'])}")
    server.refused(410, "GET", f"{CONFIGS}?resourceVersion={old}&resourceVersionMatch=Exact")


def it_survives_being_killed(make):
    server = make()
    made = server.ok("POST", CONFIGS, config_map("kept", a="1"))
    service = {"metadata": {"name": "one"}, "spec": {"ports": [{"port": 80}]}}
    address = server.ok("POST", "/api/v1/namespaces/default/services", service)["spec"]["clusterIP"]
    server.ok("PATCH", f"{CONFIGS}/kept", {"data": {"a": "2"}}, MERGE)
    token, ca, port = server.token, server.ca, server.port
    server.stop(signal.SIGKILL)
    server.start()
    equal((server.token, server.ca, server.port), (token, ca, port), "token, certificate and port after a restart")
    kept = server.ok("GET", f"{CONFIGS}/kept")
    equal((kept["metadata"]["uid"], kept["data"]["a"]), (made["metadata"]["uid"], "2"), "the object after a restart")
    service["metadata"]["name"] = "two"
    assert server.ok("POST", "/api/v1/namespaces/default/services", service)["spec"]["clusterIP"] != address, "address used twice"
    old = made["metadata"]["resourceVersion"]
    code, answer = server.call("GET", f"{CONFIGS}?watch=true&timeoutSeconds=5&resourceVersion={old}")
    assert (code == 410) or (answer["type"] == "ERROR" and answer["object"]["code"] == 410), (code, answer)


def it_stops_promptly_with_watches_open(make):
    server = make()
    with server.watching(CONFIGS, resourceVersion="0") as changes:
        next(changes, None) if server.ok("POST", CONFIGS, config_map("x")) else None
        seconds = server.stop()
    assert seconds < 2, f"took {seconds:.1f}s"
    equal(server.process.returncode, 0, "exit code")


def rbac_denies_until_a_binding_allows(make):
    server = make("--authorization-mode=rbac", "--token=t-jane=jane,devs", "--token=t-bot=system:serviceaccount:default:bot")
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    server.refused(403, "GET", CONFIGS, token="t-jane")
    server.refused(403, "GET", "/testing/requests", token="t-jane")
    server.refused(403, "POST", "/testing/compact", token="t-jane")
    server.refused(403, "GET", "/apis", token="")
    equal(server.call("GET", "/readyz", token="")[0], 200, "anonymous /readyz")
    eventually(lambda: server.call("GET", "/apis", token="t-jane")[0] == 200, "discovery for every user")

    server.ok("POST", f"{rbac}/namespaces/default/roles", {"metadata": {"name": "reader"}, "rules": [
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]}]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    server.ok("POST", f"{rbac}/namespaces/default/rolebindings", {"metadata": {"name": "devs-read"}, "roleRef": reference, "subjects": [
        {"kind": "Group", "name": "devs"}, {"kind": "ServiceAccount", "name": "bot", "namespace": "default"}]})
    eventually(lambda: server.call("GET", CONFIGS, token="t-jane")[0] == 200, "allowed by group")
    eventually(lambda: server.call("GET", CONFIGS, token="t-bot")[0] == 200, "allowed as a service account")
    server.refused(403, "POST", CONFIGS, config_map("no"), token="t-jane")
    server.refused(403, "GET", CONFIGS.replace("default", "kube-system"), token="t-jane")
    server.refused(403, "GET", f"{CONFIGS}?watch=true", token="t-jane")

    ask = lambda verb: {"spec": {"user": "jane", "groups": ["devs"], "resourceAttributes": {
        "namespace": "default", "verb": verb, "resource": "configmaps"}}}
    authorization = "/apis/authorization.k8s.io/v1"
    equal(server.ok("POST", f"{authorization}/subjectaccessreviews", ask("list"))["status"]["allowed"], True, "SAR")
    equal(server.ok("POST", f"{authorization}/subjectaccessreviews", ask("delete"))["status"]["allowed"], False, "SAR")
    local = f"{authorization}/namespaces/default/localsubjectaccessreviews"
    equal(server.ok("POST", local, {"metadata": {"namespace": "default"}, **ask("get")})["status"]["allowed"], True, "local SAR")
    own = {"spec": {"resourceAttributes": ask("get")["spec"]["resourceAttributes"]}}
    code, answer = server.call("POST", f"{authorization}/selfsubjectaccessreviews", own, token="t-jane")
    equal((code, answer["status"]["allowed"]), (201, True), "self SAR")

    server.ok("POST", f"{rbac}/clusterroles", {"metadata": {"name": "as-anyone"}, "rules": [
        {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users", "groups"]}]})
    server.ok("POST", f"{rbac}/clusterrolebindings", {"metadata": {"name": "bot-as-anyone"}, "subjects": [
        {"kind": "User", "name": "system:serviceaccount:default:bot"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "as-anyone"}})
    eventually(lambda: server.call("GET", "/testing/requests", token="t-bot", **{
        "Impersonate-User": "boss", "Impersonate-Group": "system:masters"})[0] == 200, "a service account impersonates")

    as_jane = {"Impersonate-User": "jane", "Impersonate-Group": "devs"}
    server.ok("GET", CONFIGS, **as_jane)
    server.refused(403, "DELETE", f"{CONFIGS}/x", **as_jane)
    server.refused(403, "GET", CONFIGS, token="t-jane", **{"Impersonate-User": "admin"})


SHARED = [
    it_has_the_system_namespaces_and_a_version,
    it_serves_every_kind,
    it_stores_every_kind,
    it_creates_gets_lists_and_defaults,
    it_refuses_what_the_real_one_refuses,
    it_patches_in_every_way,
    it_applies_with_owned_fields,
    it_keeps_status_and_spec_apart,
    it_holds_to_preconditions,
    it_waits_for_finalizers,
    it_deletes_pods_gracefully,
    it_evicts_within_the_budget,
    it_ends_namespaces_in_two_steps,
    it_gives_services_an_address,
    it_shares_events_between_groups,
    it_watches_changes_in_order,
    it_streams_lists_and_ends_them_with_a_bookmark,
    it_sends_a_bookmark_before_a_watch_times_out,
    it_serves_custom_resources,
    it_counts_requests_and_open_watches,
    compaction_expires_continue_tokens,
]
ALONE = [
    without_watch_cache_compaction_expires_watches_at_once,
    it_writes_down_who_has_changed_what,
    it_survives_being_killed,
    it_stops_promptly_with_watches_open,
    rbac_denies_until_a_binding_allows,
]


def attempt(check, subject, failures):
    begun = time.monotonic()
    try:
        check(subject)
    except Exception as error:  # One failed check must not hide the others.
        failures.append(check.__name__)
        print(f"FAIL {check.__name__}: {type(error).__name__}: {error}", flush=True)
    else:
        print(f"ok   {check.__name__} ({time.monotonic() - begun:.2f}s)", flush=True)


@contextlib.contextmanager
def servers():
    """Yields what makes servers; whatever it made ends with the block."""
    made = []
    with tempfile.TemporaryDirectory() as directory:
        def make(*flags):
            data_dir = os.path.join(directory, str(len(made)))
            os.mkdir(data_dir)
            made.append(Server(*flags, data_dir=data_dir))
            return made[-1]
        try:
            yield make
        finally:
            for server in made:
                if server.process.poll() is None:
                    server.stop(signal.SIGKILL)


def main(wanted):
    failures = []
    chosen = lambda checks: [check for check in checks if not wanted or check.__name__ in wanted]
    shared, alone = chosen(SHARED), chosen(ALONE)
    if not shared and not alone:
        sys.exit(f"no such check: {' '.join(wanted)}")
    with servers() as make:
        if shared:
            server = make()
            print(f"ready in {server.start_seconds:.2f}s", flush=True)
            for check in shared:
                attempt(check, server, failures)
    for check in alone:
        with servers() as make:
            attempt(check, make, failures)
    print(f"{len(shared) + len(alone) - len(failures)} passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    BINARY = sys.argv[1]
    main(sys.argv[2:])
