//! Stages that VMs and their disks pass, for [rules](kite_fake::actors::Rules).

use std::time::Duration;

use kite_fake::actors::{Rules, Stage};

/// A `DataVolume`'s worker is scheduled.
pub const DISK_SCHEDULED: Stage = Stage::new("DiskScheduled");
/// A `DataVolume` is filled by one step more ([`Rules::steps`](kite_fake::actors::Rules::steps) says how many there are).
pub const DISK_STEP: Stage = Stage::new("DiskStep");
/// A VM's guest has booted.
pub const GUEST_BOOTED: Stage = Stage::new("GuestBooted");
/// A VM's guest has shut down.
pub const GUEST_STOPPED: Stage = Stage::new("GuestStopped");
/// The agent on the node knows how a running guest fares.
pub const GUEST_SEEN: Stage = Stage::new("GuestSeen");
/// The target node of a migration is prepared. Rules select the instance.
pub const MIGRATION_PREPARED: Stage = Stage::new("MigrationPrepared");
/// The agent in a guest has frozen its file systems. Rules select the instance, as with the next
/// two.
pub const GUEST_FROZEN: Stage = Stage::new("GuestFrozen");
/// The agent in a guest has let its file systems go on.
pub const GUEST_THAWED: Stage = Stage::new("GuestThawed");
/// The node has heard from the agent whether file systems are frozen.
pub const FREEZE_SEEN: Stage = Stage::new("FreezeSeen");
/// A migration has begun to copy. Rules select the instance.
pub const MIGRATION_STARTED: Stage = Stage::new("MigrationStarted");
/// A migration has copied everything. Rules select the instance.
pub const MIGRATION_DONE: Stage = Stage::new("MigrationDone");
/// A disk that is plugged into a running VM is there. Rules select the
/// instance.
pub const VOLUME_ATTACHED: Stage = Stage::new("VolumeAttached");
/// A `DataVolume`'s worker does not crash. One that does is tried again.
pub const DISK_WORKER: Stage = Stage::new("DiskWorker");

/// Things take as long as a person likes to watch: a VM runs about two seconds after
/// its creation.
///
/// ```
/// use kite_fake::actors::{Rule, Selector};
/// use kite_fake_kubevirt::{demo_rules, stages::GUEST_BOOTED};
///
/// let rules = demo_rules();
/// // No guest boots any more.
/// rules.add(Rule::hold(GUEST_BOOTED, Selector::all()));
/// ```
pub fn demo_rules() -> Rules {
    let ms = Duration::from_millis;
    let delays = [
        (DISK_SCHEDULED, ms(150)),
        (DISK_STEP, ms(200)),
        (GUEST_BOOTED, ms(400)),
        (GUEST_STOPPED, ms(400)),
        (FREEZE_SEEN, ms(500)),
        (MIGRATION_PREPARED, ms(200)),
        (MIGRATION_STARTED, ms(100)),
        (MIGRATION_DONE, ms(700)),
        (VOLUME_ATTACHED, ms(200)),
    ];
    Rules::demo().with_delays(delays).with_steps(DISK_STEP, 4)
}
