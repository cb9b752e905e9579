//! `test/integration/replicationcontroller`.

use anyhow::Result;

use crate::replicas::{self, Sets};

#[tokio::test]
async fn orphans_are_adopted_and_foreign_pods_are_not() -> Result<()> {
    replicas::adoption(Sets::replicationcontrollers_without_host().await?).await
}

#[tokio::test]
async fn the_number_of_pods_follows_the_spec() -> Result<()> {
    replicas::scaling(Sets::replicationcontrollers().await?).await
}

#[tokio::test]
async fn pods_that_fail_or_are_being_deleted_are_replaced() -> Result<()> {
    replicas::deleting_and_failed_pods(Sets::replicationcontrollers().await?).await
}

#[tokio::test]
async fn sets_with_the_same_selector_have_pods_of_their_own() -> Result<()> {
    replicas::overlapping_sets(Sets::replicationcontrollers().await?).await
}

#[tokio::test]
async fn a_pod_whose_labels_change_is_given_up_and_adopted_again() -> Result<()> {
    replicas::labels_that_change(Sets::replicationcontrollers().await?).await
}

#[tokio::test]
async fn a_pod_that_loses_its_controller_is_adopted_again() -> Result<()> {
    replicas::wrong_owners_are_patched(Sets::replicationcontrollers().await?).await
}

#[tokio::test]
async fn the_status_counts_ready_and_available_pods() -> Result<()> {
    replicas::ready_and_available(Sets::replicationcontrollers().await?).await
}

#[tokio::test]
async fn a_ready_pod_becomes_available_after_its_time() -> Result<()> {
    replicas::a_ready_pod_becomes_available(Sets::replicationcontrollers().await?).await
}

#[tokio::test]
async fn it_is_scaled_through_the_subresource() -> Result<()> {
    replicas::scale_subresource(Sets::replicationcontrollers().await?).await
}

#[tokio::test]
async fn of_too_many_orphans_some_are_deleted() -> Result<()> {
    replicas::extra_pods(Sets::replicationcontrollers_without_host().await?).await
}

#[tokio::test]
async fn the_status_counts_pods_with_all_labels_of_the_template() -> Result<()> {
    replicas::fully_labeled(Sets::replicationcontrollers().await?).await
}
