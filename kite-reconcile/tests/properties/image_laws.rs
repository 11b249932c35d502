//! Laws for the plans of images.

use std::fmt;

use kite_core::{
    cdi::{DataVolume, DataVolumeStatus},
    crd::{ImagePhase, KiteImage, KitePlatformSpec},
    labels,
};
use kite_reconcile::{
    image::{Made, Observed, plan},
    objects::AnyObject,
    plan::{Change, Step},
};
use kite_render::{Image, image};
use proptest::prelude::*;
use serde_json::json;

use crate::found::{Found, found, is_foreign, now, place};

const IMAGES: &str = "kite-images";
const MOST_ROUNDS: usize = 16;

fn law(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(otherwise.to_owned())
    }
}

#[derive(Clone)]
struct World {
    object: KiteImage,
    seen: Observed,
    slow: bool,
    gone: bool,
}

fn object(imported: bool, deleting: bool, held: bool) -> KiteImage {
    let source = if imported {
        json!({"http": {"url": "https://example.org/i"}})
    } else {
        json!({"pvc": {"name": "golden"}})
    };
    let mut image: KiteImage = serde_json::from_value(json!({
        "apiVersion": "hy3ons.github.io/v1",
        "kind": "KiteImage",
        "metadata": {"name": "debian-12", "uid": "uid-image", "generation": 2},
        "spec": {"source": source, "osFamily": "Debian", "minDisk": "5Gi"},
    }))
    .unwrap();
    let held = held.then(|| labels::IMAGE_FINALIZER.to_owned());
    let finalizers = held.into_iter().chain(["example.org/backup".to_owned()]);
    image.metadata.finalizers = Some(finalizers.collect());
    image.metadata.deletion_timestamp = deleting.then(now);
    image
}

prop_compose! {
    fn world()(
        (imported, deleting, held, held_anyway, slow) in any::<(bool, bool, bool, bool, bool)>(),
        of_disk in found(),
        of_source in found(),
        says in prop_oneof![
            Just(None), Just(Some("Succeeded")), Just(Some("Failed")), Just(Some("ImportInProgress")), Just(Some("New")),
        ],
    ) -> (World, Found, Found) {
        let object = object(imported, deleting, held || held_anyway);
        let platform = KitePlatformSpec { image_namespace: Some(IMAGES.to_owned()), ..KitePlatformSpec::default() };
        let seen = {
            let image = Image::of(&object).unwrap();
            let mut disk: Option<DataVolume> =
                image::data_volume(&image, &platform).and_then(|disk| place(disk, of_disk));
            if let Some(disk) = &mut disk {
                disk.status = says.map(|phase| DataVolumeStatus {
                    phase: Some(phase.to_owned()),
                    ..DataVolumeStatus::default()
                });
            }
            Observed {
                made: Made {
                    disk,
                    source: image::data_source(&image, &platform)
                        .and_then(|source| place(source, of_source)),
                    ..Made::default()
                },
                is_homeless: false,
                platform,
                ..Observed::default()
            }
        };
        (World { object, seen, slow, gone: false }, of_disk, of_source)
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("deleting", &self.is_deleting())
            .field("slow", &self.slow)
            .field("source", &self.object.spec.source)
            .finish_non_exhaustive()
    }
}

impl World {
    fn is_deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    fn carry_out(&mut self, step: Step) {
        let finalizers = self.object.metadata.finalizers.get_or_insert_default();
        match step {
            Step::AddFinalizer(name) => finalizers.push(name.to_owned()),
            Step::RemoveFinalizer(name) => {
                finalizers.retain(|finalizer| finalizer != name);
                self.gone = true;
            }
            Step::Change(Change::Apply(AnyObject::DataVolume(disk))) => {
                self.seen.made.disk = Some(*disk);
            }
            Step::Change(Change::Apply(AnyObject::DataSource(source))) => {
                self.seen.made.source = Some(*source);
            }
            Step::Change(Change::Delete(AnyObject::DataVolume(mut disk), _)) => {
                disk.metadata.deletion_timestamp = Some(now());
                self.seen.made.disk = self.slow.then_some(*disk);
            }
            Step::Change(Change::Delete(AnyObject::DataSource(mut source), _)) => {
                source.metadata.deletion_timestamp = Some(now());
                self.seen.made.source = self.slow.then_some(*source);
            }
            other => panic!("{} is nothing that is done for an image", other.describe()),
        }
    }

    fn let_go(&mut self) -> bool {
        let mut went = false;
        if self
            .seen
            .disk
            .as_ref()
            .is_some_and(|it| it.metadata.deletion_timestamp.is_some())
        {
            self.seen.made.disk = None;
            went = true;
        }
        if self
            .seen
            .source
            .as_ref()
            .is_some_and(|it| it.metadata.deletion_timestamp.is_some())
        {
            self.seen.made.source = None;
            went = true;
        }
        went
    }

    fn to_rest(
        &mut self,
        mut judge: impl FnMut(&Self, &Step) -> Result<(), String>,
    ) -> Result<Vec<Step>, TestCaseError> {
        let mut done = Vec::new();
        for _ in 0..MOST_ROUNDS {
            let planned = plan(&self.object, &self.seen).unwrap();
            if planned.steps.is_empty() && !self.let_go() {
                return Ok(done);
            }
            for step in planned.steps {
                judge(self, &step)
                    .map_err(|why| TestCaseError::fail(format!("{}: {why}", step.describe())))?;
                done.push(step.clone());
                self.carry_out(step);
                if self.gone {
                    return Ok(done);
                }
            }
        }
        let steps = done.iter().map(Step::describe).collect::<Vec<_>>();
        Err(TestCaseError::fail(format!("it never rests: {steps:#?}")))
    }
}

fn a_step_is_lawful(world: &World, step: &Step) -> Result<(), String> {
    match step {
        Step::Change(Change::Delete(object, _)) => {
            law(world.is_deleting(), "nobody has asked for it")?;
            law(!is_foreign(object), "it is somebody else's")?;
            law(
                object.metadata().deletion_timestamp.is_none(),
                "it is going already",
            )?;
            let named = world.seen.source.as_ref().is_some_and(|it| {
                it.metadata
                    .uid
                    .as_deref()
                    .is_none_or(|uid| uid.starts_with("ours-"))
            });
            law(
                object.kind() == "DataSource" || !named,
                "clones of it can still begin",
            )
        }
        Step::Change(Change::Apply(object)) => {
            law(!world.is_deleting(), "it is to go")?;
            law(
                object.key().namespace.as_deref() == Some(IMAGES),
                "it lies elsewhere",
            )?;
            let there = match object.kind() {
                "DataVolume" => world.seen.disk.as_ref().map(|it| it.metadata.clone()),
                _ => world.seen.source.as_ref().map(|it| it.metadata.clone()),
            };
            let Some(there) = there else { return Ok(()) };
            let theirs = there.uid.is_some_and(|uid| uid.starts_with("theirs-"));
            law(!theirs, "what is there is somebody else's")?;
            law(
                there.deletion_timestamp.is_none(),
                "what is there is on its way out",
            )
        }
        Step::RemoveFinalizer(_) => law(world.is_deleting(), "it is to stay"),
        _ => Ok(()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, max_global_rejects: 8192, ..ProptestConfig::default() })]

    #[test]
    fn every_step_is_lawful_and_done_once((mut world, _, _) in world()) {
        let mut before = Vec::new();
        world.to_rest(|world, step| {
            a_step_is_lawful(world, step)?;
            law(!before.contains(&step.describe()), "it was done already")?;
            before.push(step.describe());
            Ok(())
        })?;
    }

    #[test]
    fn an_image_that_is_to_go_goes_for_good((mut world, of_disk, of_source) in world()) {
        let finalizers = world.object.metadata.finalizers.clone().unwrap();
        prop_assume!(world.is_deleting() && finalizers.iter().any(|it| it == labels::IMAGE_FINALIZER));
        world.to_rest(|_, _| Ok(()))?;
        prop_assert!(world.gone);
        prop_assert!(!(world.seen.disk.is_some() && of_disk.is_ours()));
        prop_assert!(!(world.seen.source.is_some() && of_source.is_ours()));
    }

    /// Where nobody is in the way, an image has its disk and its name in the end.
    #[test]
    fn an_image_that_is_wanted_is_made((mut world, of_disk, of_source) in world()) {
        prop_assume!(!world.is_deleting());
        prop_assume!(!of_disk.is_in_the_way() && !of_source.is_in_the_way());
        world.to_rest(|_, _| Ok(()))?;
        prop_assert!(world.seen.source.is_some());
        let is_imported = world.object.spec.source.pvc.is_none();
        prop_assert_eq!(world.seen.disk.is_some(), is_imported);
    }

    /// Nobody clones from what is not filled, or is not the image's.
    #[test]
    fn an_image_is_ready_only_when_it_is((world, of_disk, of_source) in world()) {
        let planned = plan(&world.object, &world.seen).unwrap();
        if planned.steps.is_empty() && planned.status.phase == Some(ImagePhase::Ready) {
            prop_assert!(!world.is_deleting());
            prop_assert!(!of_disk.is_in_the_way() || world.object.spec.source.pvc.is_some());
            prop_assert!(!of_source.is_in_the_way());
        }
    }
}
