//! Claims, which name their holder by its uid: a VM that is back has another one.

use kite_core::crd::{Holder, KiteReservation, KiteVirtualMachineOffer, OfferClaim};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::json;

use super::{document::Entry, kinds::Kind, outcome::Outcome, restore::Restoring};
use crate::install::ObjectName;

impl Restoring<'_> {
    /// What becomes of a claim that is there, unless it is treated as any other object:
    /// its holder cannot be changed, and that it is used up cannot be taken back.
    pub(super) async fn claim(
        &mut self,
        entry: &Entry,
        wanted: &mut DynamicObject,
        there: &DynamicObject,
    ) -> Result<Option<Outcome>, kube::Error> {
        let parsed = |object: &DynamicObject| object.clone().try_parse::<KiteReservation>().ok();
        let (Some(kept), Some(now)) = (parsed(wanted), parsed(there)) else {
            return Ok(None);
        };
        let (kept, now) = (kept.spec, now.spec);
        let would_be = Holder {
            uid: kept.holder.uid.clone(),
            ..now.holder.clone()
        };
        if kept.claim != now.claim || kept.holder != would_be {
            return Ok(None);
        }
        if kept.holder.uid != now.holder.uid {
            // Whoever holds it is gone, for another of its name is there, which is back.
            let is_back = self.uids.values().any(|uid| *uid == kept.holder.uid);
            if !is_back {
                return Ok(None);
            }
            self.delete(Kind::Reservation, there).await?;
            if !self.options.dry_run {
                self.create(Kind::Reservation, entry, wanted).await?;
            }
            return Ok(Some(Outcome::Overwritten));
        }
        if kept.fulfilled == now.fulfilled {
            return Ok(None);
        }
        wanted.data["spec"]["fulfilled"] = json!(true);
        if now.fulfilled {
            return Ok(None);
        }
        let spec = json!({ "fulfilled": true });
        self.patch_spec(Kind::Reservation, there, &spec).await?;
        Ok(Some(Outcome::Overwritten))
    }

    /// Has offers name the VMs that were made from them by their new uids. Offers come
    /// back before VMs, and say until then that they are taken. Gives what went wrong.
    pub(super) async fn tell_offers(&self) -> Vec<(ObjectName, Outcome)> {
        let mut wrong = Vec::new();
        for entry in &self.backup.entries {
            if Kind::of(&entry.object) == Some(Kind::Offer)
                && self.uids.contains_key(&entry.former_uid)
                && let Err(error) = self.tell_offer(entry).await
            {
                let name = ObjectName::found(&Kind::Offer.resource(), &entry.object);
                wrong.push((name, Outcome::refused(&error)));
            }
        }
        wrong
    }

    async fn tell_offer(&self, entry: &Entry) -> Result<(), kube::Error> {
        let claimed = |offer: KiteVirtualMachineOffer| offer.status.and_then(|it| it.claimed_by);
        let kept = entry.object.clone().try_parse::<KiteVirtualMachineOffer>();
        let Some(kept) = kept.ok().and_then(claimed) else {
            return Ok(());
        };
        let Some(uid) = self.uids.get(&kept.uid).filter(|uid| **uid != kept.uid) else {
            return Ok(());
        };
        let offers = Api::<KiteVirtualMachineOffer>::all(self.client.clone());
        let name = entry.object.name_any();
        let there = offers.get(&name).await?;
        let offer_uid = there.uid();
        let is_its = |by: &OfferClaim| by.namespace == kept.namespace && by.name == kept.name;
        let now = claimed(there);
        if now.as_ref().is_some_and(|by| !is_its(by) || by.uid == *uid) {
            return Ok(());
        }
        let claim = OfferClaim {
            uid: uid.clone(),
            ..kept.clone()
        };
        let patch = json!({
            "metadata": {"uid": offer_uid},
            "status": {"claimedBy": claim},
        });
        let params = PatchParams {
            dry_run: self.options.dry_run,
            ..PatchParams::default()
        };
        offers
            .patch_status(&name, &params, &Patch::Merge(patch))
            .await?;
        Ok(())
    }
}
