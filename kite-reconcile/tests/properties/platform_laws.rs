//! Laws for the plans of the platform.

use k8s_openapi::api::core::v1::Secret;
use kite_core::{
    crd::{GatewayReference, GatewayServiceType, KitePlatform, KitePlatformSpec},
    gateway_api::{Gateway, GatewaySpec, Listener},
};
use kite_reconcile::{
    Settings,
    plan::{Change, Outcome, Plan, Step},
    platform::{Made, Observed, plan},
};
use kite_render::{
    Platform,
    platform::{
        gateway,
        web::{self, Listeners},
    },
};
use proptest::prelude::*;

use crate::found::{Found, found, is_foreign, place};

const HERE: &str = "kite";
const HOST: &str = "vm.example.org";
const MOST_ROUNDS: usize = 12;

#[derive(Clone, Debug)]
struct World {
    object: KitePlatform,
    seen: Observed,
}

/// A platform of this shape: exposed or not, by Gateway or by Ingress.
fn object(gateway: bool, web: bool, by_gateway: bool, node_port: bool) -> KitePlatform {
    let mut spec = KitePlatformSpec {
        base_domain: Some(HOST.to_owned()),
        ..KitePlatformSpec::default()
    };
    spec.gateway.enabled = gateway;
    spec.web.enabled = web;
    spec.exposure.gateway = by_gateway.then(|| GatewayReference {
        namespace: "edge".to_owned(),
        name: "public".to_owned(),
    });
    if node_port {
        spec.gateway.service_type = GatewayServiceType::NodePort;
    } else {
        spec.gateway.load_balancer_class = Some("example.org/blue".to_owned());
    }
    let mut platform = KitePlatform::new("default", spec);
    platform.metadata.uid = Some("uid-platform".to_owned());
    platform
}

fn edge(https: bool, http: bool) -> Gateway {
    let listeners = [("HTTPS", https), ("HTTP", http)];
    let listeners = listeners.into_iter().filter(|(_, there)| *there);
    let listeners = listeners.map(|(protocol, _)| Listener {
        name: protocol.to_lowercase(),
        protocol: protocol.to_owned(),
        ..Listener::default()
    });
    Gateway::new(
        "public",
        GatewaySpec {
            gateway_class_name: "any".to_owned(),
            listeners: listeners.collect(),
        },
    )
}

prop_compose! {
    /// A world in which things may be left of a platform of another shape.
    fn world()(
        shape in any::<[bool; 4]>(),
        before in any::<[bool; 2]>(),
        (https, http, redirects, has_gateway) in any::<(bool, bool, bool, bool)>(),
        how in [found(), found(), found(), found()],
    ) -> (World, [Found; 4]) {
        let mut object = object(shape[0], shape[1], shape[2], shape[3]);
        object.spec.web.https_redirect = redirects;
        let [service, ingress, route, redirect] = how;
        let seen = {
            let mut earlier = object.clone();
            earlier.spec.gateway.enabled = true;
            if before[0] {
                earlier.spec.gateway.load_balancer_class = None;
            }
            if before[1] {
                earlier.spec.gateway.service_port = 2022;
            }
            earlier.spec.web.https_redirect = true;
            let platform = Platform::of(&earlier, HERE).unwrap();
            let both = Listeners { https: vec!["https".to_owned()], http: vec!["http".to_owned()] };
            let named = GatewayReference { namespace: "edge".to_owned(), name: "public".to_owned() };
            let (main, back) = web::routes(&platform, HOST, &named, &both);
            Observed {
                has_namespace: true,
                made: Made {
                    service: place(gateway::service(&platform).unwrap(), service),
                    ingress: place(web::ingress(&platform, HOST), ingress),
                    route: place(main, route),
                    redirect: place(back.unwrap(), redirect),
                },
                gateway: has_gateway.then(|| edge(https, http)),
                host_key: http.then(Secret::default),
                missing: Vec::new(),
                unseen: Vec::new(),
                nodes: https.then(|| "192.0.2.11/32".to_owned()).into_iter().collect(),
                now: jiff::Timestamp::default(),
            }
        };
        (World { object, seen }, how)
    }
}

fn law(holds: bool, otherwise: &str) -> Result<(), TestCaseError> {
    if holds {
        Ok(())
    } else {
        Err(TestCaseError::fail(otherwise.to_owned()))
    }
}

impl World {
    fn plan(&self) -> Plan<kite_core::crd::KitePlatformStatus> {
        plan(&self.object, &self.seen, &Settings::default()).unwrap()
    }

    /// Plans and carries out until nothing is left to do.
    fn to_rest(
        &mut self,
        judge: impl Fn(&Self, &Step) -> Result<(), TestCaseError>,
    ) -> Result<(), TestCaseError> {
        for _ in 0..MOST_ROUNDS {
            let steps = self.plan().steps;
            if steps.is_empty() {
                return Ok(());
            }
            for step in steps {
                judge(self, &step)?;
                self.seen.absorb(match step {
                    Step::Change(Change::Apply(object)) => Outcome::Stored(object),
                    Step::Change(Change::Delete(object, _)) => Outcome::Gone(object),
                    other => panic!("{} is not done for a platform", other.describe()),
                });
            }
        }
        Err(TestCaseError::fail("it never rests"))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, max_global_rejects: 16_384, ..ProptestConfig::default() })]

    #[test]
    fn nothing_of_others_is_touched((mut world, _) in world()) {
        world.to_rest(|world, step| {
            let Step::Change(Change::Apply(object) | Change::Delete(object, _)) = step else {
                return law(false, "it is neither applied nor deleted");
            };
            law(object.key().namespace.as_deref() == Some(HERE), "it lies elsewhere")?;
            let there = match (object.kind(), object.key().name.as_str()) {
                ("Service", _) => world.seen.service.clone().map(Into::into),
                ("Ingress", _) => world.seen.ingress.clone().map(Into::into),
                (_, "kite-platform") => world.seen.route.clone().map(Into::into),
                _ => world.seen.redirect.clone().map(Into::into),
            };
            law(there.is_none_or(|there| !is_foreign(&there)), "it is somebody else's")?;
            law(object.metadata().deletion_timestamp.is_none(), "it is going already")
        })?;
    }

    #[test]
    fn what_is_not_wanted_goes_and_what_is_wanted_stands((mut world, how) in world()) {
        world.to_rest(|_, _| Ok(()))?;
        let stands = how.map(|found| !found.is_in_the_way() && found != Found::Leaving
            && found != Found::OfAnEarlierLifeLeaving);
        let spec = &world.object.spec;
        let seen = &world.seen;
        if stands[0] {
            prop_assert_eq!(seen.service.is_some(), spec.gateway.enabled);
        }
        let by_gateway = spec.exposure.gateway.is_some();
        if stands.iter().all(|stands| *stands) && (!spec.web.enabled || !by_gateway) {
            prop_assert_eq!(seen.ingress.is_some(), spec.web.enabled);
            prop_assert!(seen.route.is_none() && seen.redirect.is_none());
        }
        let listeners = seen.gateway.as_ref().map(|gateway| Listeners::of(gateway, HOST));
        let listeners = listeners.unwrap_or_default();
        if stands.iter().all(|stands| *stands)
            && spec.web.enabled && by_gateway && !listeners.is_empty()
        {
            prop_assert!(seen.ingress.is_none() && seen.route.is_some());
            let redirects = spec.web.https_redirect
                && !listeners.https.is_empty() && !listeners.http.is_empty();
            prop_assert_eq!(seen.redirect.is_some(), redirects);
        }
    }

    /// The way that stands is not taken down before another one does.
    #[test]
    fn an_ingress_stands_until_the_route_does((mut world, how) in world()) {
        prop_assume!(world.object.spec.web.enabled && world.object.spec.exposure.gateway.is_some());
        prop_assume!(how[1].is_ours());
        world.to_rest(|world, step| {
            let is_removal = matches!(step, Step::Change(Change::Delete(object, _)) if object.kind() == "Ingress");
            law(!is_removal || world.seen.route.is_some(), "there is no route yet")
        })?;
    }

    /// Every step brings the platform nearer to what is wanted.
    #[test]
    fn no_step_is_repeated((mut world, _) in world()) {
        let before = std::cell::RefCell::new(Vec::<String>::new());
        world.to_rest(|_, step| {
            let done = step.describe();
            law(!before.borrow().contains(&done), "it was done already")?;
            before.borrow_mut().push(done);
            Ok(())
        })?;
    }

    #[test]
    fn a_platform_that_goes_is_left_to_garbage_collection((mut world, _) in world()) {
        world.object.metadata.deletion_timestamp = Some(crate::found::now());
        prop_assert!(world.plan().steps.is_empty());
    }
}
