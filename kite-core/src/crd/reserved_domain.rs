//! Labels below the base domain that no VM gets: what people, browsers and mail programs
//! take for the platform itself.

use std::fmt;

use super::KitePlatformSpec;

/// The labels that no VM gets where the platform names no others.
pub const RESERVED_DOMAIN_PREFIXES: [&str; 28] = [
    "account",
    "accounts",
    "admin",
    "administrator",
    "api",
    "auth",
    "autoconfig",
    "autodiscover",
    "console",
    "dns",
    "ftp",
    "id",
    "imap",
    "kite",
    "login",
    "mail",
    "mta-sts",
    "mx",
    "ns1",
    "ns2",
    "oauth",
    "pop",
    "root",
    "smtp",
    "ssh",
    "sso",
    "wpad",
    "www",
];

/// The same as JSON, which is CEL, too.
pub(super) const RESERVED_AS_JSON: &str = r#"["account","accounts","admin","administrator","api","auth","autoconfig","autodiscover","console","dns","ftp","id","imap","kite","login","mail","mta-sts","mx","ns1","ns2","oauth","pop","root","smtp","ssh","sso","wpad","www"]"#;

/// Why no VM gets a label below the base domain. Its text says the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReservedDomain {
    /// It is one of those that the platform reserves.
    Listed,
    /// It leads to the host that this setting names, such as `gateway.publicHost`.
    HostOf(&'static str),
    /// It stands for letters of other scripts, which may look like another name.
    Punycode,
}

impl fmt::Display for ReservedDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listed => f.write_str(
                "is reserved for the platform: choose another, or ask an administrator of the \
                 cluster, who can set spec.reservedDomainPrefixes of KitePlatform default",
            ),
            Self::HostOf(setting) => write!(
                f,
                "leads to the platform's own host in {setting}: choose another"
            ),
            Self::Punycode => f.write_str(
                "begins with xn--, which stands for letters of other scripts and can look like \
                 another name: choose one of a-z, 0-9 and hyphens",
            ),
        }
    }
}

impl KitePlatformSpec {
    /// Why no VM gets `prefix` below the base domain; none if one may have it.
    pub fn reserved_domain(&self, prefix: &str) -> Option<ReservedDomain> {
        let prefix = prefix.to_ascii_lowercase();
        if prefix.starts_with("xn--") {
            return Some(ReservedDomain::Punycode);
        }
        if let Some((setting, _)) = self
            .hosts()
            .find(|(_, host)| self.label_of(host) == Some(prefix.as_str()))
        {
            return Some(ReservedDomain::HostOf(setting));
        }
        let is_listed = match &self.reserved_domain_prefixes {
            Some(own) => own.iter().any(|it| it.eq_ignore_ascii_case(&prefix)),
            None => RESERVED_DOMAIN_PREFIXES.contains(&prefix.as_str()),
        };
        is_listed.then_some(ReservedDomain::Listed)
    }

    /// The hosts that settings name, in lower case, with the settings. The web page is
    /// at the base domain itself, which no VM can have.
    fn hosts(&self) -> impl Iterator<Item = (&'static str, String)> {
        let gateway = self.gateway.public_host.as_deref();
        let gateway = gateway.map(|host| ("spec.gateway.publicHost", host));
        let providers = self.sign_in_providers.iter();
        let providers = providers.map(|it| ("spec.signInProviders", host_of_url(&it.issuer)));
        let all = gateway.into_iter().chain(providers);
        all.map(|(setting, host)| (setting, host.trim_end_matches('.').to_ascii_lowercase()))
    }

    /// The label right below the base domain, if `host` is below it.
    fn label_of<'a>(&self, host: &'a str) -> Option<&'a str> {
        let below = host.strip_suffix(self.base_domain.as_deref()?)?;
        below.strip_suffix('.')?.rsplit('.').next()
    }
}

/// The host in `https://host:port/path`.
fn host_of_url(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    host.split(':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn the_two_lists_are_one() {
        let as_json: Vec<String> = serde_json::from_str(RESERVED_AS_JSON).unwrap();
        assert_eq!(as_json, RESERVED_DOMAIN_PREFIXES);
    }

    #[test]
    fn no_vm_gets_what_stands_for_the_platform() {
        let spec = |of: serde_json::Value| -> KitePlatformSpec {
            let mut spec: KitePlatformSpec = serde_json::from_value(of).unwrap();
            spec.base_domain = Some("vm.example.org".to_owned());
            spec
        };
        let plain = spec(json!({}));
        let at = |host: &str| spec(json!({"gateway": {"publicHost": host}}));
        let signed = spec(json!({"signInProviders": [{
            "name": "staff", "clientId": "kite",
            "issuer": "https://Door.vm.example.org:8443/realms/staff",
        }]}));
        let own = spec(json!({"reservedDomainPrefixes": ["intranet"]}));
        let none = spec(json!({"reservedDomainPrefixes": []}));
        let listed = Some(ReservedDomain::Listed);
        let host = Some(ReservedDomain::HostOf("spec.gateway.publicHost"));
        let issuer = Some(ReservedDomain::HostOf("spec.signInProviders"));
        for (platform, prefix, expected) in [
            (&plain, "shop", None),
            (&plain, "www2", None),
            (&plain, "wwww", None),
            (&plain, "www", listed),
            (&plain, "WPAD", listed),
            (&plain, "autodiscover", listed),
            (&plain, "xn--80ak6aa92e", Some(ReservedDomain::Punycode)),
            (&none, "xn--80ak6aa92e", Some(ReservedDomain::Punycode)),
            (&none, "axn--b", None),
            (&none, "www", None),
            (&own, "www", None),
            (&own, "intranet", listed),
            (&at("door.vm.example.org"), "door", host),
            (&at("Door.VM.example.org."), "door", host),
            // Whoever had `door` could set cookies for what is below it.
            (&at("a.door.vm.example.org"), "door", host),
            (&at("a.door.vm.example.org"), "a", None),
            (&at("door.example.org"), "door", None),
            (&at("doorvm.example.org"), "door", None),
            (&at("vm.example.org"), "vm", None),
            (&at("192.0.2.7"), "192", None),
            (&signed, "door", issuer),
            (&signed, "realms", None),
        ] {
            assert_eq!(platform.reserved_domain(prefix), expected, "{prefix}");
        }
    }

    #[test]
    fn without_a_base_domain_no_host_is_below_it() {
        let spec = json!({"gateway": {"publicHost": "shop.example.org"}});
        let spec: KitePlatformSpec = serde_json::from_value(spec).unwrap();
        assert_eq!(spec.reserved_domain("shop"), None);
    }
}
