//! What a VM may have beside its owner's others.

use kite_core::{
    cluster::Unread,
    crd::{Charge, KiteVirtualMachine, VmSize},
    names,
};
use kite_render::Vm;
use kube::api::ObjectMeta;

use super::{ALL, Answer, Field};
use crate::vm::observe::Observed;

/// A VM's place among its owner's others.
pub(super) struct Judge<'a> {
    /// None without an owner.
    quota: Option<Charge>,
    /// What the others have or are about to have.
    others: Charge,
    /// The same without what those ask for who have to give way.
    least: Charge,
    /// The same with what those ask for who come first.
    most: Charge,
    is_current: bool,
    /// One of the others, if it cannot be read.
    unread: Option<&'a Unread>,
    user: &'a str,
    /// Why it is not known what the quota is.
    doubt: Option<&'a str>,
}

impl<'a> Judge<'a> {
    pub(super) fn of(vm: &Vm<'a>, seen: &'a Observed, held: &VmSize) -> Self {
        let quota = seen.owner.as_ref();
        let quota = quota.map(|owner| Charge::from(&owner.spec.effective_quota()));
        let (mut others, mut least) = (Charge::default(), Charge::default());
        let mut first = Vec::new();
        for other in &seen.siblings.all {
            if other.metadata.uid.as_deref() == Some(vm.uid) {
                continue;
            }
            let is_first = age(&other.metadata) < age(&vm.object.metadata);
            let is_leaving = other.metadata.deletion_timestamp.is_some();
            others = others.plus(other.charge());
            least = least.plus(if is_first || is_leaving {
                other.charge()
            } else {
                other.granted_charge()
            });
            // Who cannot be read asks for nothing.
            if is_first && !is_leaving && other.unreadable().is_none() {
                first.push(other);
            }
        }
        first.sort_by(|a, b| age(&a.metadata).cmp(&age(&b.metadata)));
        // What the VM itself has, the others cannot get.
        let own = Charge::from(held);
        let bound = quota.unwrap_or_default();
        let all = first
            .into_iter()
            .fold(others.plus(own), |all, other| with_wish(all, other, &bound));
        let most = all.minus(own);
        Self {
            quota,
            others,
            least,
            most,
            is_current: seen.siblings.are_current,
            unread: seen.siblings.unread.first(),
            user: names::user_of_namespace(vm.namespace).unwrap_or_default(),
            doubt: seen
                .owner
                .as_ref()
                .and_then(|it| it.spec.unreadable.as_deref()),
        }
    }

    /// What is said to a VM that has `held` of a field and asks for `amount`.
    pub(super) fn answer(&self, field: Field, amount: u64, held: u64, has_asked: bool) -> Answer {
        let Some(quota) = &self.quota else {
            let (path, user) = (field.path(), self.user);
            return Answer::Refused(format!(
                "{path}: there is no KiteUser {user}, whose quota it is to be taken from: an \
                 administrator must create the KiteUser"
            ));
        };
        if let Some(why) = self.doubt {
            let user = self.user;
            return Answer::Refused(format!(
                "what the quota is, is not known, since KiteUser {user} cannot be read: {why}; an \
                 administrator must mend the field that is named"
            ));
        }
        if let Some(unread) = self.unread {
            return Answer::Refused(format!(
                "what is left of the quota is not known, since KiteVirtualMachine {unread}"
            ));
        }
        let most = field.of(quota);
        let fits = |others: &Charge| field.of(others).saturating_add(amount) <= most;
        let no = |others: &Charge| {
            let used = field.of(others);
            Answer::Refused(if held == 0 {
                excess(field, used.saturating_add(amount), most)
            } else {
                refusal(field, amount, used, most)
            })
        };
        if !has_asked {
            return if fits(&self.most) {
                Answer::Asking
            } else {
                no(&self.most)
            };
        }
        if self.is_current && fits(&self.others) {
            Answer::Granted
        } else if !self.is_current || fits(&self.least) {
            // Those who have to give way will see it.
            Answer::Asking
        } else {
            no(&self.others)
        }
    }
}

/// By what all objects of a kind agree on the order in which they are served.
pub(crate) fn age(meta: &ObjectMeta) -> (Option<jiff::Timestamp>, Option<&str>) {
    let created = meta.creation_timestamp.as_ref().map(|time| time.0);
    (created, meta.name.as_deref())
}

/// What all are charged with when `other`, which is among them, gets what it asks
/// for; what it cannot get is left out.
fn with_wish(all: Charge, other: &KiteVirtualMachine, quota: &Charge) -> Charge {
    let has = other.charge();
    // Who was refused, for whatever reason, asks in vain until a person does something.
    let granted = all.minus(has).plus(other.expected_charge());
    let more = |field: Field| {
        let amount = field.of(&granted);
        (amount <= field.of(quota)).then_some(amount)
    };
    let more = ALL.map(more);
    if has == Charge::default() && more.contains(&None) {
        return all;
    }
    let [cpu, memory, disk] = more;
    Charge {
        cpu: cpu.unwrap_or(all.cpu),
        memory: memory.unwrap_or(all.memory),
        disk: disk.unwrap_or(all.disk),
    }
}

fn excess(field: Field, all: u64, most: u64) -> String {
    let [all, most] = [all, most].map(|amount| spelled(field, amount));
    format!(
        "{}: with this VM the user's VMs would have {all} together, and the quota is {most}: \
         delete others or make them smaller, or ask an administrator for more",
        field.path()
    )
}

fn refusal(field: Field, asks: u64, used: u64, most: u64) -> String {
    let [asks, used, most] = [asks, used, most].map(|amount| spelled(field, amount));
    format!(
        "{}: the VM asks for {asks}, the user's other VMs have {used}, and the quota is {most}: \
         the VM stays as it is; ask for less, delete others or make them smaller, or ask an \
         administrator for more",
        field.path()
    )
}

fn spelled(field: Field, amount: u64) -> String {
    match field {
        Field::Cpu => format!("{amount} CPUs"),
        Field::Memory | Field::Disk => gibibytes(amount),
    }
}

/// In tenths of a gibibyte, rounded up.
pub(crate) fn gibibytes(bytes: u64) -> String {
    let tenths = (u128::from(bytes) * 10).div_ceil(1 << 30);
    match tenths % 10 {
        0 => format!("{}Gi", tenths / 10),
        tenth => format!("{}.{tenth}Gi", tenths / 10),
    }
}
