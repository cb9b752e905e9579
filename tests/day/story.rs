//! What users and machines do on that day, at random: a seed repeats their choices.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use pilothouse_tests::{PLAN, Random, name_of, now, status_of};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::cast::{self, DAEMON_SETS, DEPLOYMENTS, Fate, STATEFUL_SETS};
use crate::world::World;

const NODES: u64 = 5;

/// Who does what comes to mind, until there is no time left.
pub struct Story {
    random: Random,
    /// The Jobs that were created and not deleted, and what they come to.
    pub jobs: BTreeMap<String, Fate>,
    begun_jobs: u64,
    pub acts: usize,
    revision: u64,
}

impl Story {
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random(seed),
            jobs: BTreeMap::new(),
            begun_jobs: 0,
            acts: 0,
            revision: 1,
        }
    }

    /// Creates the nodes and the workloads.
    pub async fn begin(&mut self, world: &World) -> Result<()> {
        for number in 1..=NODES {
            create(world, "nodes", &cast::node(number)).await?;
        }
        for (resource, workload) in cast::workloads() {
            let created = create(world, resource, &workload).await?;
            if resource == "cronjobs" {
                // Its last run was some minutes ago: one is due at once.
                let path = format!("{}/status", world.path(resource, &name_of(&created)));
                let ago = json!({"status": {"lastScheduleTime": minutes_ago(3)}});
                world.api.merge(&path, &ago).await?;
            }
        }
        for _ in 0..3 {
            self.begin_job(world).await?;
        }
        Ok(())
    }

    /// One act after the other, for ever.
    pub async fn go_on(&mut self, world: &World) -> Result<()> {
        loop {
            sleep(Duration::from_millis(50) + self.random.milliseconds(500)).await;
            let number = self.random.below(100);
            match self.act(world, number).await {
                Ok(()) => self.acts += 1,
                // What it was about is gone or just changed, or there is no server.
                Err(error) if matches!(status_of(&error), Some(404 | 409)) => {}
                Err(error) if is_no_answer(&error) => {}
                Err(error) => return Err(error.context(format!("act {number}"))),
            }
        }
    }

    async fn act(&mut self, world: &World, number: u64) -> Result<()> {
        match number {
            0..16 => self.roll_deployment(world).await,
            16..20 => self.roll_back(world).await,
            20..28 => self.scale(world, "deployments", &DEPLOYMENTS).await,
            28..34 => self.pause_or_resume(world).await,
            34..44 => {
                self.roll(world, "statefulsets", &STATEFUL_SETS, "200")
                    .await
            }
            44..50 => self.scale(world, "statefulsets", &STATEFUL_SETS).await,
            50..53 => self.partition(world).await,
            53..61 => self.roll(world, "daemonsets", &DAEMON_SETS, "200").await,
            61..66 => self.hurt_pod(world).await,
            66..69 => self.delete_pod(world).await,
            69..72 => self.lose_or_return_node(world).await,
            72..83 => self.begin_job(world).await,
            83..90 => self.change_job(world).await,
            90..93 => self.delete_job(world).await,
            93..96 => self.scale_sets(world).await,
            _ => self.replace_workload(world).await,
        }
    }

    fn choose(&mut self, names: &[&'static str]) -> &'static str {
        self.random.one_of(names).copied().unwrap_or_default()
    }

    /// Another template: mostly one that works, sometimes one that never gets ready, sometimes the
    /// one before.
    async fn roll_deployment(&mut self, world: &World) -> Result<()> {
        let plan = ["200", "200", "200", "600", "never"];
        let ready_after = self.choose(&plan);
        self.roll(world, "deployments", &DEPLOYMENTS, ready_after)
            .await
    }

    async fn roll(
        &mut self,
        world: &World,
        resource: &str,
        names: &[&'static str],
        ready_after: &str,
    ) -> Result<()> {
        let name = self.choose(names);
        if !self.random.percent(25) {
            self.revision += 1;
        }
        let image = format!("example.dev/main:{}", self.revision);
        merge(world, resource, name, &template(&image, ready_after)).await
    }

    /// What `kubectl rollout undo` does: an earlier template is the Deployment's again.
    async fn roll_back(&mut self, world: &World) -> Result<()> {
        let name = self.choose(&DEPLOYMENTS);
        let uid = world
            .get("deployments", name)
            .map(|found| found["metadata"]["uid"].clone());
        let mut sets = world.all("replicasets");
        sets.retain(|set| Some(&set["metadata"]["ownerReferences"][0]["uid"]) == uid.as_ref());
        let Some(set) = self.random.one_of(&sets) else {
            return Ok(());
        };
        let mut template = set["spec"]["template"].clone();
        // A merge patch removes it.
        template["metadata"]["labels"]["pod-template-hash"] = Value::Null;
        let patch = json!({"spec": {"template": template}});
        merge(world, "deployments", name, &patch).await
    }

    async fn scale(&mut self, world: &World, resource: &str, names: &[&'static str]) -> Result<()> {
        let name = self.choose(names);
        let replicas = self.random.below(8);
        merge(
            world,
            resource,
            name,
            &json!({"spec": {"replicas": replicas}}),
        )
        .await
    }

    async fn scale_sets(&mut self, world: &World) -> Result<()> {
        let replicas = json!({"spec": {"replicas": self.random.below(6)}});
        match self.random.percent(50) {
            true => merge(world, "replicasets", "bare", &replicas).await,
            false => merge(world, "replicationcontrollers", "old", &replicas).await,
        }
    }

    async fn pause_or_resume(&mut self, world: &World) -> Result<()> {
        let name = self.choose(&DEPLOYMENTS);
        let is_paused = world
            .get("deployments", name)
            .is_some_and(|found| found["spec"]["paused"] == true);
        let patch = json!({"spec": {"paused": !is_paused}});
        merge(world, "deployments", name, &patch).await
    }

    async fn partition(&mut self, world: &World) -> Result<()> {
        let name = self.choose(&STATEFUL_SETS);
        let rolling = json!({"partition": self.random.below(4)});
        let patch = json!({"spec": {"updateStrategy": {"rollingUpdate": rolling}}});
        merge(world, "statefulsets", name, &patch).await
    }

    /// A pod that fails, or is not ready for a moment.
    async fn hurt_pod(&mut self, world: &World) -> Result<()> {
        let pods = world.all("pods");
        let running = |pod: &&_| {
            let pod: &Value = pod;
            pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
        };
        let pods: Vec<_> = pods.iter().map(|pod| &**pod).filter(running).collect();
        let Some(pod) = self.random.one_of(&pods) else {
            return Ok(());
        };
        let phase = match self.random.percent(50) {
            true => "Failed",
            false => "Running",
        };
        let ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": now()});
        let status = json!({"phase": phase, "conditions": [ready]});
        let version = &pod["metadata"]["resourceVersion"];
        let metadata = json!({"uid": pod["metadata"]["uid"], "resourceVersion": version});
        let patch = json!({"metadata": metadata, "status": status});
        let path = format!("{}/status", world.path("pods", &name_of(pod)));
        world.api.merge(&path, &patch).await.map(drop)
    }

    async fn delete_pod(&mut self, world: &World) -> Result<()> {
        let pods = world.all("pods");
        match self.random.one_of(&pods) {
            Some(pod) => delete(world, "pods", pod).await,
            None => Ok(()),
        }
    }

    /// At least three nodes stay.
    async fn lose_or_return_node(&mut self, world: &World) -> Result<()> {
        let number = 1 + self.random.below(NODES);
        let there = world.all("nodes");
        match world.get("nodes", &cast::node_name(number)) {
            None => create(world, "nodes", &cast::node(number)).await.map(drop),
            Some(node) if there.len() > 3 => delete(world, "nodes", &node).await,
            Some(_) => Ok(()),
        }
    }

    async fn begin_job(&mut self, world: &World) -> Result<()> {
        // Not only by chance: each kind has its turn.
        let kind = self.begun_jobs;
        self.begun_jobs += 1;
        let name = format!("job-{kind}");
        let (job, fate) = cast::job(kind, &name);
        create(world, "jobs", &job).await?;
        self.jobs.insert(name, fate);
        Ok(())
    }

    /// Suspends, resumes, or scales a Job that goes on.
    async fn change_job(&mut self, world: &World) -> Result<()> {
        let jobs = world.all("jobs");
        let open: Vec<_> = jobs.iter().filter(|job| is_open(job)).collect();
        let Some(job) = self.random.one_of(&open) else {
            return Ok(());
        };
        let spec = if job["spec"]["suspend"] == true {
            json!({"suspend": false})
        } else if self.random.percent(50) {
            json!({"suspend": true})
        } else {
            json!({"parallelism": 1 + self.random.below(4)})
        };
        merge(world, "jobs", &name_of(job), &json!({"spec": spec})).await
    }

    async fn delete_job(&mut self, world: &World) -> Result<()> {
        let jobs = world.all("jobs");
        let own: Vec<_> = jobs
            .iter()
            .filter(|job| name_of(job).starts_with("job-"))
            .collect();
        let Some(job) = self.random.one_of(&own) else {
            return Ok(());
        };
        self.jobs.remove(&name_of(job));
        delete(world, "jobs", job).await
    }

    /// Deletes a workload, and creates it again while its pods are still going.
    async fn replace_workload(&mut self, world: &World) -> Result<()> {
        let all = cast::workloads();
        let Some((resource, workload)) = self.random.one_of(&all) else {
            return Ok(());
        };
        if let Some(found) = world.get(resource, &name_of(workload)) {
            delete(world, resource, &found).await?;
        }
        create(world, resource, workload).await.map(drop)
    }

    /// Wants what can come to an end: nothing is paused, suspended or broken, and no node is
    /// missing.
    pub async fn make_well(&mut self, world: &World) -> Result<()> {
        for number in 1..=NODES {
            if world.get("nodes", &cast::node_name(number)).is_none() {
                create(world, "nodes", &cast::node(number)).await?;
            }
        }
        for (resource, workload) in cast::workloads() {
            let name = name_of(&workload);
            if world.get(resource, &name).is_none() {
                create(world, resource, &workload).await?;
            }
            let image = format!("example.dev/main:{}", self.revision);
            let patch = match resource {
                "cronjobs" => json!({"spec": {"suspend": true}}),
                "deployments" => {
                    let mut patch = template(&image, "200");
                    patch["spec"]["paused"] = false.into();
                    patch
                }
                "statefulsets" => {
                    let mut patch = template(&image, "200");
                    patch["spec"]["updateStrategy"] = json!({"rollingUpdate": {"partition": 0}});
                    patch
                }
                _ => template(&image, "200"),
            };
            merge(world, resource, &name, &patch).await?;
        }
        for job in world.all("jobs") {
            if job["spec"]["suspend"] == true {
                let patch = json!({"spec": {"suspend": false}});
                merge(world, "jobs", &name_of(&job), &patch).await?;
            }
        }
        Ok(())
    }
}

fn template(image: &str, ready_after: &str) -> Value {
    let annotations = json!({format!("{PLAN}ready-after"): ready_after});
    // A merge patch replaces the list of containers.
    let spec = json!({"containers": [{"name": "main", "image": image}]});
    json!({"spec": {"template": {"metadata": {"annotations": annotations}, "spec": spec}}})
}

fn is_open(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    let ends = ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"];
    let mut types = conditions.map(|one| &one["type"]);
    let is_own = name_of(job).starts_with("job-");
    is_own && !types.any(|one| ends.iter().any(|end| one == end))
}

fn is_no_answer(error: &anyhow::Error) -> bool {
    status_of(error).is_none() && error.downcast_ref::<kube::Error>().is_some()
}

async fn create(world: &World, resource: &str, object: &Value) -> Result<Value> {
    world.api.create(&world.path(resource, ""), object).await
}

async fn merge(world: &World, resource: &str, name: &str, patch: &Value) -> Result<()> {
    let path = world.path(resource, name);
    world.api.merge(&path, patch).await.map(drop)
}

async fn delete(world: &World, resource: &str, object: &Value) -> Result<()> {
    let uid = object["metadata"]["uid"].as_str().context("no uid")?;
    world.doings.add(uid);
    let path = world.path(resource, &name_of(object));
    world.api.delete_uid(&path, uid, false).await
}

fn minutes_ago(minutes: i64) -> String {
    use k8s_openapi::jiff::{SignedDuration, Timestamp};
    let then = Timestamp::now() - SignedDuration::from_mins(minutes);
    then.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
