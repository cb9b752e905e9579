//! What `deploy/` promises: the manifests are taken by an API server, the chart and the
//! kustomization are the same, the roles are enough and no more, and the image runs.

mod applying;
mod image;
mod permissions;
mod pod;
mod rendering;
mod tool;
