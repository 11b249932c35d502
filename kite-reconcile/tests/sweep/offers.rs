//! What happens to offers and to those who claim them.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    cdi::DataVolume,
    crd::{
        KiteReservation, KiteVirtualMachine, KiteVirtualMachineOffer, KiteVirtualMachineOfferSpec,
        OfferPhase, VmPhase,
    },
};
use kite_fake::sim::{Builder, ScenarioError, World};
use kube::ResourceExt;
use serde_json::json;

use crate::{
    scenarios::{ANN, Done, nothing_is_left_of, phase, settle_in},
    stage::{user, vm, with_offers},
};

/// An offer of what [`vm`] asks for.
fn gold() -> KiteVirtualMachineOffer {
    let asked = vm("ann", "web").spec;
    KiteVirtualMachineOffer::new(
        "gold",
        KiteVirtualMachineOfferSpec {
            cpu: asked.cpu,
            memory: asked.memory,
            disk: asked.disk,
            image: asked.image,
            expires_at: None,
            lifetime: None,
            user: None,
            unreadable: None,
        },
    )
}

/// A VM that claims it.
fn claiming(user: &str, name: &str) -> KiteVirtualMachine {
    let mut vm = vm(user, name);
    vm.spec.offer = Some("gold".to_owned());
    vm
}

async fn offer_is(world: &World, expected: OfferPhase) -> Done {
    let offer: Option<KiteVirtualMachineOffer> = world.get("", "gold").await?;
    let found = offer
        .and_then(|offer| offer.status)
        .and_then(|status| status.phase);
    let text = format!("the offer is {found:?}, and should be {expected:?}");
    world.expect(found == Some(expected), &text).await;
    Ok(())
}

/// Withdraws the offer, with which its claim goes.
async fn withdraw(world: &World) -> Done {
    world.delete(&gold()).await?;
    world.settle().await?;
    let left = world.list::<KiteReservation>().await?;
    let left: Vec<String> = left
        .iter()
        .map(ResourceExt::name_any)
        .filter(|name| name.starts_with("offer."))
        .collect();
    let text = format!("the claim went with its offer: {left:?}");
    world.expect(left.is_empty(), &text).await;
    Ok(())
}

/// A VM is made from an offer; it goes, and the offer stays used up.
pub fn offer_claimed(copies: usize) -> Builder {
    with_offers(copies).scenario(async |world| {
        world.create(&gold()).await?;
        world.settle().await?;
        offer_is(&world, OfferPhase::Available).await?;
        let web = world.create(&claiming("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        offer_is(&world, OfferPhase::Claimed).await?;
        world.delete(&web).await?;
        world.settle().await?;
        offer_is(&world, OfferPhase::Claimed).await?;
        let late = world.create(&claiming("bob", "late")).await?;
        settle_in(&world, &late, VmPhase::Failed).await?;
        world.delete(&late).await?;
        world.settle().await?;
        withdraw(&world).await?;
        nothing_is_left_of(&world, "late").await
    })
}

/// A VM that cannot be made gives back the offer that it claimed, and another
/// has it.
pub fn offer_given_back(copies: usize) -> Builder {
    with_offers(copies).scenario(async |world| {
        world.create(&gold()).await?;
        let first = world.create(&vm("bob", "first")).await?;
        settle_in(&world, &first, VmPhase::Running).await?;
        let mut web = claiming("ann", "web");
        "first".clone_into(&mut web.spec.ssh_id);
        let web = world.create(&web).await?;
        settle_in(&world, &web, VmPhase::Failed).await?;
        offer_is(&world, OfferPhase::Available).await?;
        let late = world.create(&claiming("bob", "late")).await?;
        settle_in(&world, &late, VmPhase::Running).await?;
        offer_is(&world, OfferPhase::Claimed).await
    })
}

/// A VM claims an offer, and before anything is made of it there is no room for it
/// any more, and its controller starts anew: the offer is another's to have.
pub fn offer_claimed_in_vain(copies: usize) -> Builder {
    with_offers(copies).scenario(async |world| {
        world.create(&gold()).await?;
        world.settle().await?;
        let web = world.create(&claiming("ann", "web")).await?;
        let claim = async || world.get::<KiteReservation>("", "offer.gold").await;
        while claim().await?.is_none() {
            world.steps(1).await?;
        }
        let quota = json!({"vms": 5, "cpu": 1, "memory": "64Gi", "disk": "500Gi"});
        world
            .patch(&user("ann"), json!({"spec": {"quota": quota}}))
            .await?;
        world.restart().await;
        settle_in(&world, &web, VmPhase::Failed).await?;
        offer_is(&world, OfferPhase::Available).await?;
        let late = world.create(&claiming("bob", "late")).await?;
        settle_in(&world, &late, VmPhase::Running).await?;
        offer_is(&world, OfferPhase::Claimed).await?;
        world.delete(&web).await?;
        world.settle().await?;
        offer_is(&world, OfferPhase::Claimed).await
    })
}

/// Two VMs claim one offer at the same moment. Whichever gets it, only one does;
/// so what is compared is the world before and after.
pub fn offer_for_two(copies: usize) -> Builder {
    with_offers(copies).ignore_counts().scenario(async |world| {
        world.create(&gold()).await?;
        world.settle().await?;
        let mine = world.create(&claiming("ann", "mine")).await?;
        let theirs = world.create(&claiming("bob", "theirs")).await?;
        world.run_for(Duration::from_secs(900)).await?;
        let mut running = 0;
        for vm in [&mine, &theirs] {
            let namespace = vm.namespace().unwrap_or_default();
            match phase(&world, &namespace, &vm.name_any()).await? {
                Some(VmPhase::Running) => running += 1,
                Some(VmPhase::Failed) => {
                    let disk = format!("{}-disk", vm.name_any());
                    let disk: Option<DataVolume> = world.get(&namespace, &disk).await?;
                    world
                        .expect(disk.is_none(), "the loser has got nothing")
                        .await;
                }
                other => return Err(ScenarioError::Unmet(format!("one of the two is {other:?}"))),
            }
        }
        world.expect(running == 1, "one of the two has it").await;
        for vm in [&mine, &theirs] {
            world.delete(vm).await?;
        }
        // Before the world is compared, the offer forgets who had it.
        world.run_for(Duration::from_secs(900)).await?;
        withdraw(&world).await?;
        nothing_is_left_of(&world, "mine").await?;
        nothing_is_left_of(&world, "theirs").await
    })
}

/// An offer is claimed when it is too late, and is then offered for longer.
pub fn offer_expired(copies: usize) -> Builder {
    with_offers(copies).scenario(async |world| {
        let mut offer = gold();
        let ends = "2026-01-01T01:00:00Z".parse();
        offer.spec.expires_at = Some(Time(
            ends.map_err(|_| ScenarioError::Unmet("no time".to_owned()))?,
        ));
        let offer = world.create(&offer).await?;
        world.settle().await?;
        world.run_for(Duration::from_secs(4000)).await?;
        world.settle().await?;
        offer_is(&world, OfferPhase::Expired).await?;
        let web = world.create(&claiming("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Failed).await?;
        let longer = json!({"spec": {"expiresAt": "2026-01-02T00:00:00Z"}});
        world.patch(&offer, longer).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let claim: Option<KiteReservation> = world.get("", "offer.gold").await?;
        let holder = claim.and_then(|claim| claim.spec.holder.namespace);
        let is_held = holder.as_deref() == Some(ANN);
        world.expect(is_held, "ann has the offer").await;
        Ok(())
    })
}
