//! `kite manifests`: an installation of Kite, for `kubectl apply`.

mod named;
mod options;
mod values;

use clap::{Args, ValueEnum};
use kite_render::install::Manifest;
use serde_json::json;

pub(crate) use self::{
    named::{Named, with_bases},
    options::InstallationOptions,
};
use crate::output::print;

#[derive(Args)]
pub(crate) struct Options {
    /// Format of what is printed.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    installation: InstallationOptions,
}

/// How objects are written.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Output {
    /// A document for each object.
    #[default]
    Yaml,
    /// One `List`.
    Json,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let manifests = options.installation.installation()?.manifests();
    let text = text(&manifests, options.output)?;
    print(&text)?;
    Ok(())
}

fn text(manifests: &[Manifest], output: Output) -> anyhow::Result<String> {
    match output {
        Output::Yaml => {
            let mut text = String::new();
            for manifest in manifests {
                text.push_str("---\n");
                // By way of a JSON value, so that the keys have one order.
                text.push_str(&serde_saphyr::to_string(&serde_json::to_value(manifest)?)?);
            }
            Ok(text)
        }
        Output::Json => {
            let list = json!({ "apiVersion": "v1", "kind": "List", "items": manifests });
            Ok(serde_json::to_string_pretty(&list)? + "\n")
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::{CommandFactory as _, FromArgMatches as _, Parser};
    use serde_json::Value;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: InstallationOptions,
    }

    fn options(arguments: &[&str]) -> Result<InstallationOptions, String> {
        let command = with_bases(Cli::command());
        let matches = command.try_get_matches_from([&["kite"], arguments].concat());
        let cli = matches.and_then(|it| Cli::from_arg_matches(&it));
        cli.map(|cli| cli.options)
            .map_err(|error| error.to_string())
    }

    fn printed(arguments: &[&str]) -> Vec<Value> {
        let options = options(arguments).unwrap();
        let manifests = options.installation().unwrap().manifests();
        let text = text(&manifests, Output::Yaml).unwrap();
        serde_saphyr::from_multiple(&text).unwrap()
    }

    #[track_caller]
    fn the(objects: &[Value], kind: &str, name: &str) -> Value {
        let mut found = objects
            .iter()
            .filter(|it| it["kind"] == kind && it["metadata"]["name"] == name);
        let object = found.next().unwrap_or(&Value::Null).clone();
        assert!(found.next().is_none(), "{kind} {name} twice");
        object
    }

    #[test]
    fn both_forms_say_the_same() {
        let options = options(&["--profile", "k3s"]).unwrap();
        let manifests = options.installation().unwrap().manifests();
        let list = text(&manifests, Output::Json).unwrap();
        let list: Value = serde_json::from_str(&list).unwrap();
        let yaml = text(&manifests, Output::Yaml).unwrap();
        let yaml: Vec<Value> = serde_saphyr::from_multiple(&yaml).unwrap();
        assert_eq!(list["items"], Value::from(yaml));
    }

    #[test]
    fn a_driver_gets_a_storage_class() {
        let objects = printed(&[
            "--provisioner",
            "csi.example.org",
            "--parameter",
            "pool=a=b",
        ]);
        let class = the(&objects, "StorageClass", "kite-vm-storage");
        assert_eq!(class["volumeBindingMode"], "WaitForFirstConsumer");
        assert_eq!(class["parameters"]["pool"], "a=b");
        assert_eq!(
            the(&printed(&[]), "StorageClass", "kite-vm-storage"),
            Value::Null
        );
        assert!(options(&["--immediate"]).is_err());
        let error = options(&["--provisioner", "x", "--parameter", "y"])
            .err()
            .unwrap();
        assert!(error.contains("NAME=VALUE"), "{error}");
    }

    #[test]
    fn a_class_that_is_there_takes_the_place_of_the_profiles() {
        let objects = printed(&["--profile", "k3s", "--storage-class", "fast"]);
        assert!(objects.iter().all(|it| it["kind"] != "StorageClass"));
        let platform = the(&objects, "KitePlatform", "default");
        assert_eq!(platform["spec"]["storageClass"], "fast");
        let own = ["--storage-class", "fast", "--longhorn", "2"];
        let class = the(&printed(&own), "StorageClass", "fast");
        assert_eq!(class["parameters"]["numberOfReplicas"], "2");
    }

    #[test]
    fn settings_of_the_platform() {
        let objects = printed(&[
            "--base-domain=vm.example.org",
            "--ingress-class=nginx",
            "--cluster-issuer=letsencrypt",
            "--sign-up=invite",
            "--profile=k3s",
            "--gateway-service-type=node-port",
            "--gateway-port=30022",
            "--gateway-host=ssh.example.org",
            "--image-namespace=golden",
        ]);
        let platform = the(&objects, "KitePlatform", "default");
        assert_eq!(
            platform["spec"],
            json!({
                "baseDomain": "vm.example.org",
                "signUp": "Invite",
                "imageNamespace": "golden",
                "exposure": {
                    "ingressClassName": "nginx",
                    "certificate": {"clusterIssuer": "letsencrypt"},
                },
                "gateway": {
                    "serviceType": "NodePort",
                    "nodePort": 30022,
                    "publicHost": "ssh.example.org",
                },
            })
        );
        assert_ne!(the(&objects, "Namespace", "golden"), Value::Null);
    }

    #[test]
    fn what_is_left_out() {
        let objects = printed(&[
            "--without-crds",
            "--without-images",
            "--without-network-policies",
            "--without-admission-policies",
        ]);
        for kind in [
            "CustomResourceDefinition",
            "KiteImage",
            "NetworkPolicy",
            "ValidatingAdmissionPolicy",
            "ServiceMonitor",
            "PrometheusRule",
        ] {
            assert!(objects.iter().all(|it| it["kind"] != kind), "{kind}");
        }
    }

    #[test]
    fn options_of_a_process() {
        let objects = printed(&["--env", "gateway:KITE_DENY=192.0.2.0/24,198.51.100.0/24"]);
        let gateway = the(&objects, "Deployment", "kite-gateway");
        let container = &gateway["spec"]["template"]["spec"]["containers"][0];
        let variables = container["env"].as_array().unwrap();
        let deny = variables.iter().find(|it| it["name"] == "KITE_DENY");
        assert_eq!(deny.unwrap()["value"], "192.0.2.0/24,198.51.100.0/24");
        for wrong in [
            "gateway:KITE_DENY",
            "door:KITE_DENY=x",
            "KITE_DENY=x",
            "gateway:=x",
        ] {
            let error = options(&["--env", wrong]).err().unwrap();
            assert!(
                error.contains("--env") && error.contains("gateway:"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_audit_log_is_sent_elsewhere_or_nowhere() {
        let variable = |arguments: &[&str], name: &str| {
            let objects = printed(arguments);
            let api = the(&objects, "Deployment", "kite-api");
            let container = &api["spec"]["template"]["spec"]["containers"][0];
            let variables = container["env"].as_array().unwrap();
            let found = variables.iter().find(|it| it["name"] == name);
            found.map(|it| it["value"].as_str().unwrap().to_owned())
        };
        let to = "KITE_AUDIT_TO";
        assert_eq!(variable(&[], to).as_deref(), Some("-"));
        assert_eq!(variable(&["--audit=log"], to), None);
        assert_eq!(variable(&["--audit=none"], to), None);
        let log = variable(&["--audit=none"], "KITE_LOG").unwrap();
        assert!(log.contains("kite_api::audit=off"), "{log}");
        let file = variable(&["--env=api:KITE_AUDIT_TO=/audit/log"], to);
        assert_eq!(file.as_deref(), Some("/audit/log"));
        assert!(options(&["--audit=off"]).is_err());
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (arguments, words) in [
            (&["--namespace=Kite"][..], "lower case"),
            (&["--api-server=10.0.0.1"], "10.0.0.1/32"),
            (&["--api-server=10.0.0.0/33"], "10.0.0.0/33"),
            (&["--record=lots"], "lots"),
            (&["--record-upload=s3://a/b"], "--record"),
            (&["--longhorn=2", "--provisioner=x"], "--provisioner"),
            (&["--gateway-replicas=0"], "--gateway-replicas"),
            (&["--base-domain=not a domain!"], "vm.example.org"),
            (&["--tag="], "--tag"),
            (&["--registry=http://x/"], "without http://"),
            (&["--storage-class=a b"], "--storage-class"),
            (&["--pull-secret=a b"], "--pull-secret"),
            (&["--cluster-issuer=a b"], "--cluster-issuer"),
            (&["--ingress-class=A"], "--ingress-class"),
            (&["--gateway-host=a b"], "ssh.example.org"),
            (&["--record=1Gi", "--record-credentials=a b"], "a b"),
            (&["--gateway-api=public"], "NAMESPACE/NAME"),
            (
                &["--gateway-api=a/b", "--ingress-class=c"],
                "--ingress-class",
            ),
            (
                &["--gateway-api=a/b", "--cluster-issuer=c"],
                "--cluster-issuer",
            ),
        ] {
            let error = options(arguments).err().unwrap();
            assert!(error.contains(words), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn what_cannot_be_together_is_named() {
        for (arguments, words) in [
            (
                &["--image-namespace=kite"][..],
                &["--image-namespace \"kite\"", "kite-images"][..],
            ),
            (
                &["--namespace=one", "--image-namespace=one"],
                &["--image-namespace \"one\""],
            ),
            (
                &["--env=gateway:KITE_NAMESPACE=x"],
                &["--env \"gateway:KITE_NAMESPACE=x\"", "pod"],
            ),
            (
                &["--env=gateway:KITE_DRAIN_SECONDS=1h"],
                &["--env", "KITE_DRAIN_SECONDS=1h", "seconds"],
            ),
            (
                &["--gateway-service-type=node-port", "--gateway-port=22"],
                &["--gateway-port 22", "30000", "spec.gateway.nodePort"],
            ),
        ] {
            let installation = options(arguments).unwrap().installation();
            let error = installation.unwrap_err().to_string();
            for word in words {
                assert!(error.contains(word), "{arguments:?}: {error}");
            }
        }
    }

    #[test]
    fn a_gateway_takes_the_place_of_ingresses() {
        let objects = printed(&["--profile=k3s", "--gateway-api=edge/public"]);
        let platform = the(&objects, "KitePlatform", "default");
        assert_eq!(
            platform["spec"]["exposure"],
            json!({"gateway": {"namespace": "edge", "name": "public"}})
        );
        let web_from = |arguments: &[&str]| {
            let objects = printed(&[&["--gateway-api=edge/public"], arguments].concat());
            let policy = the(&objects, "NetworkPolicy", "kite-api");
            policy["spec"]["ingress"][0]["from"].to_string()
        };
        assert!(web_from(&[]).contains("edge") && web_from(&[]).contains("traefik"));
        let own = web_from(&["--web-from=envoy-gateway-system"]);
        assert!(
            !own.contains("edge") && own.contains("envoy-gateway-system"),
            "{own}"
        );
    }

    #[test]
    fn who_makes_pods_and_whom_kites_ask_for_names_can_be_named() {
        let rendered = |arguments: &[&str]| Value::from(printed(arguments)).to_string();
        let plain = rendered(&[]);
        assert!(plain.contains("system:serviceaccounts:kubevirt'"));
        assert!(!plain.contains("KITE_POD_SECURITY"));
        let own = rendered(&[
            "--operators=harvester-system,cdi",
            "--pod-security=privileged",
            "--dns=openshift-dns,192.0.2.53/32",
        ]);
        assert!(own.contains("system:serviceaccounts:harvester-system'"));
        assert!(!own.contains("system:serviceaccounts:kubevirt'"));
        assert!(own.contains(r#"{"name":"KITE_POD_SECURITY","value":"privileged"}"#));
        assert!(own.contains(r#""kubernetes.io/metadata.name":"openshift-dns""#));
        assert!(own.contains(r#""cidr":"192.0.2.53/32""#) && !own.contains("169.254.20.10"));
        for wrong in [
            "--operators=A",
            "--pod-security=restricted",
            "--dns=10.0.0.0/33",
        ] {
            assert!(options(&[wrong]).is_err(), "{wrong}");
        }
    }
}
