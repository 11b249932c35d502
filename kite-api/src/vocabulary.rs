//! Kite's words for the fields of its custom resources, for people who write bodies.

use kite_rest::Vocabulary;

/// Kite's words.
pub(crate) const VOCABULARY: Vocabulary =
    Vocabulary::new().remedy(of).renamed(renamed).quota(quota);

fn quota(what: &str) -> String {
    let kind = match what {
        _ if what.contains("kitesnapshots") => "snapshot",
        _ if what.contains("kitevolumes") => "volume",
        _ => "VM",
    };
    format!(
        "your quota does not allow it ({what}): delete a {kind}, ask for less, or ask an \
         administrator for more"
    )
}

/// What bodies call what a spec has only as a hash or by reference.
fn renamed(field: &str) -> Option<&'static str> {
    match field {
        "sshPasswordHash" => Some("sshPassword"),
        "passwordHash" | "credential" => Some("password"),
        // A request of its own writes these.
        "restore.snapshot" => Some("snapshot"),
        "restore.disk" => Some("disk"),
        "restore.keep" => Some("keep"),
        "source.http.url" | "source.registry.url" => Some("url"),
        "source.http.checksum" => Some("checksum"),
        _ => None,
    }
}

const NAMESPACE: &str =
    "write the name of a namespace: lowercase letters, digits and hyphens, at most 63";
const STORAGE_CLASS: &str =
    "write the name of a StorageClass: lowercase letters, digits, hyphens and dots";
const NAME: &str = "write the object's name: lowercase letters, digits, hyphens and dots";
const SWITCH: &str = "write true or false";
const PORT: &str = "write a port, a whole number from 1 to 65535";

/// What to write into a field of which the schema refused the value.
fn of(field: &str) -> Option<&'static str> {
    let base = field.split(['[', '.']).next().unwrap_or(field);
    Some(match base {
        "signInProviders" => return of_provider(field),
        "exposure" | "web" | "gateway" => return of_platform(field),
        "baseDomain" => "write a domain such as vms.example.org, in lowercase",
        "storageClass" => STORAGE_CLASS,
        "imageNamespace" => NAMESPACE,
        "blockedNetworks" => "write networks such as 198.51.100.0/24, at most 64",
        "nameservers" => "write addresses such as 192.0.2.53, at most 3, one of them IPv4",
        "reservedDomainPrefixes" => {
            "write labels such as www: lowercase letters, digits and hyphens, at most 256 of them"
        }
        "imageSources" => {
            "write what addresses begin with, such as https://images.example.org/public/, at most 64"
        }
        "url" => {
            "write an address such as https://images.example.org/debian.qcow2, or docker:// and a \
             container disk"
        }
        "checksum" => "write md5, sha1, sha256 or sha512, a colon, and the digest in hexadecimal",
        "displayName" => "write at most 100 characters",
        "defaultUser" => "write at most 32 characters",
        "minDisk" => "write a size such as 5Gi",
        "refreshSchedule" => {
            "write minute, hour, day of the month, month and day of the week, such as 0 3 * * 0"
        }
        "importsToKeep" => "write a whole number from 1 to 20",
        "idleTimeout" | "expiryGracePeriod" | "lifetime" => {
            "write a span of time such as 90m, 12h or 720h"
        }
        "name" => {
            "write 1 to 52 lowercase letters, digits and hyphens, beginning and ending with a \
             letter or digit"
        }
        "username" | "sshId" => {
            "write 2 to 32 lowercase letters, digits and hyphens, beginning with a letter and not \
             ending with a hyphen"
        }
        "email" => "write an address such as ann@example.org",
        "domainPrefix" => {
            "write 1 to 63 lowercase letters, digits and hyphens, beginning and ending with a \
             letter or digit"
        }
        "cpu" => "write a whole number from 1 to 256",
        "memory" => "write a size such as 2Gi, at least 64Mi",
        "disk" | "size" => "write a size such as 20Gi, at least 1Gi",
        "image" => "write the name of an image of the catalogue",
        "sshPublicKeys" => {
            "write at most 32 different keys as they stand in an authorized_keys file, such as \
             \"ssh-ed25519 AAAA… ann@laptop\""
        }
        "description" => "write at most 1024 characters",
        "vm" => "write the name of a VM",
        "fromSnapshot" | "snapshot" => "write the name of a snapshot",
        "snapshots" => return of_schedule(field),
        "volumes" => return of_attachment(field),
        "keep" => "write a span of time from 10m to 8784h, such as 24h",
        "quota" => of_quota(field),
        _ => return None,
    })
}

/// What to write into a field of a schedule of snapshots.
fn of_schedule(field: &str) -> Option<&'static str> {
    let (_, inner) = field.split_once('.')?;
    Some(match inner {
        "schedule" => {
            "write minute, hour, day of the month, month and day of the week, such as 30 3 * * *"
        }
        "timeZone" => "write a time zone such as Europe/Rome",
        "keep" | "maxFailures" => "write a whole number from 1 to 60",
        _ => return None,
    })
}

/// What to write of a volume that a VM has.
fn of_attachment(field: &str) -> Option<&'static str> {
    let Some((_, inner)) = field.split_once('.') else {
        return Some("write at most 8 volumes, each once");
    };
    Some(match inner {
        "volume" => "write the name of a volume",
        "path" => {
            "write a path such as /srv/data, of letters, digits, dots, hyphens and underscores"
        }
        _ => return None,
    })
}

fn of_quota(field: &str) -> &'static str {
    let (_, inner) = field.split_once('.').unwrap_or_default();
    match inner {
        "vms" => "write a whole number from 0 to 10000",
        "cpu" | "snapshots" | "volumes" => "write a whole number from 0 to 100000",
        "memory" | "disk" | "snapshotDisk" | "volumeDisk" => {
            "write a size with its unit, such as 512Mi or 20Gi"
        }
        _ => "write vms and cpu as whole numbers, memory and disk as sizes such as 16Gi",
    }
}

/// What to write into a field of a sign-in provider.
fn of_provider(field: &str) -> Option<&'static str> {
    let (_, inner) = field.split_once('.')?;
    let inner = inner.rsplit('.').next().unwrap_or(inner);
    Some(match inner.split('[').next().unwrap_or(inner) {
        "name" => {
            "write 1 to 32 lowercase letters, digits and hyphens, beginning and ending with a \
             letter or digit"
        }
        "displayName" => "write 1 to 64 characters",
        "issuer" => "write a URL such as https://login.example.org/realms/staff",
        "clientId" => "write the client id under which Kite is registered at the provider",
        "clientSecretKey" => "write letters, digits, dots, hyphens and underscores",
        "scopes" => "write at most 16 scopes such as groups, each without spaces in it",
        "usernameClaim" | "groupsClaim" => "write the name of a claim, of 1 to 128 characters",
        "allowedGroups" => "write at most 32 different groups, each of 1 to 256 characters",
        "accessLevels" => "write at most 32 groups with their access levels",
        "group" => "write the group as it stands in the groups claim",
        _ => return None,
    })
}

/// What to write into a field of the objects that the platform's settings consist of.
fn of_platform(field: &str) -> Option<&'static str> {
    if field.contains(".annotations") {
        return Some("write at most 32 annotations, each a text of at most 4096 characters");
    }
    let inner = field.rsplit('.').next().unwrap_or(field);
    Some(match inner.split('[').next().unwrap_or(inner) {
        "ingressClassName" | "clusterIssuer" | "secretName" | "name" => NAME,
        "namespace" | "controllerNamespaces" => NAMESPACE,
        "enabled" | "httpsRedirect" => SWITCH,
        "servicePort" | "publicPort" | "nodePort" => PORT,
        "publicHost" => "write a host name or an address, such as ssh.example.org",
        "serviceType" => "write LoadBalancer or NodePort",
        "trafficPolicy" => "write Cluster or Local",
        "loadBalancerClass" => "write a class such as example.com/internal",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_providers_have_remedies_of_their_own() {
        for (field, start) in [
            ("signInProviders[0].name", "write 1 to 32 lowercase"),
            ("signInProviders[2].scopes[1]", "write at most 16 scopes"),
            (
                "signInProviders[0].accessLevels[1].group",
                "write the group as",
            ),
        ] {
            let remedy = of(field).unwrap_or_default();
            assert!(remedy.starts_with(start), "{field}: {remedy}");
        }
        // What nothing better is known of.
        assert_eq!(of("signInProviders"), None);
    }

    #[test]
    fn hashes_are_reported_as_the_field_that_the_person_wrote() {
        assert_eq!(renamed("sshPasswordHash"), Some("sshPassword"));
        assert_eq!(renamed("credential"), Some("password"));
        assert_eq!(renamed("sshPublicKeys[1]"), None);
    }
}
