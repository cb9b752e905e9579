//! What is lost or kept on the way in one direction alone.

use super::*;

#[tokio::test]
async fn a_carried_request_arrives_although_its_client_has_gone() -> Result<()> {
    let rig = Rig::start().await?;
    let fault = rig.proxy.on(lists("pods")).times(1).carry();
    assert!(timeout(MOMENT, rig.get(PODS)).await.is_err());
    assert_eq!(rig.times_asked(), 0, "it is on its way");
    fault.lift();
    rig.proxy.until_answered(lists("pods"), 1, SOON).await?;
    assert_eq!(rig.times_asked(), 1);
    Ok(())
}

#[tokio::test]
async fn a_held_answer_comes_when_the_fault_is_lifted() -> Result<()> {
    let rig = Rig::start().await?;
    let fault = rig.proxy.on(lists("pods")).hold_answer();
    let lifted = async {
        rig.proxy.until_answered(lists("pods"), 1, SOON).await?;
        assert_eq!(rig.times_asked(), 1);
        fault.lift();
        anyhow::Ok(())
    };
    let (answer, lifted) = tokio::join!(rig.get(PODS), lifted);
    lifted?;
    assert_eq!(answer?.0, 200);
    Ok(())
}

#[tokio::test]
async fn cut_requests_do_not_arrive_while_watches_go_on() -> Result<()> {
    let rig = Rig::start().await?;
    let mut watch = rig.watch().await?;
    rig.proxy.cut_requests();
    assert!(timeout(MOMENT, rig.get(PODS)).await.is_err());
    assert_eq!(rig.times_asked(), 1, "the watch alone");
    rig.send("1");
    assert_eq!(watch.line().await, "1");
    rig.proxy.heal().await;
    assert_eq!(rig.get(PODS).await?.0, 200);
    Ok(())
}

#[tokio::test]
async fn cut_answers_do_not_arrive_while_requests_do() -> Result<()> {
    let rig = Rig::start().await?;
    let mut watch = rig.watch().await?;
    rig.proxy.cut_answers();
    assert!(timeout(MOMENT, rig.get(PODS)).await.is_err());
    assert_eq!(rig.times_asked(), 2, "the watch and the list");
    rig.send("1");
    assert!(watch.is_silent().await);
    rig.proxy.heal().await;
    assert_eq!(watch.line().await, "1", "nothing is lost");
    Ok(())
}
