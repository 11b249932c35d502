//! Quotas and limits.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::site::{Site, core};
use crate::{Checked, Failure};

table! { Quota;
    quotas_bound_a_namespace [controllers]:
        "A create beyond a ResourceQuota is 403 and says what was asked, used and allowed.",
        "Tenants stay within their share.";
    quotas_count_what_is_used [controllers]:
        "The status of a quota shows what is used, and deleting frees it.",
        "People see what is left.";
    quotas_hold_for_dry_runs [controllers]:
        "A dry run beyond a quota is refused, one within it uses nothing.",
        "A dry run tells what would happen.";
    limits_complete_claims:
        "A LimitRange bounds what a claim may ask for.",
        "Tenants cannot ask for a disk of any size.";
}

/// A namespace in which two Secrets are allowed; nobody but the check makes any.
async fn place(s: &Site) -> Result<(String, String), Failure> {
    let ns = s.namespace().await?;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"count/secrets": "2"}}});
    s.post(&core(&ns, "resourcequotas"), &quota)
        .await?
        .expect(201)?;
    let quota = format!("{}/q", core(&ns, "resourcequotas"));
    used(s, &quota, "0").await?;
    Ok((ns, quota))
}

async fn used(s: &Site, quota: &str, count: &str) -> Result<Answer, Failure> {
    s.until(quota, "counted", |answer| {
        answer.text("/status/used/count~1secrets") == count
    })
    .await
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
}

async fn quotas_bound_a_namespace(s: Site) -> Checked {
    let (ns, _) = place(&s).await?;
    for name in ["a", "b"] {
        s.post(&core(&ns, "secrets"), &secret(name))
            .await?
            .expect(201)?;
    }
    let answer = s
        .post(&core(&ns, "secrets"), &secret("c"))
        .await?
        .refused(403, "Forbidden")?;
    answer.says("exceeded quota: q, requested: count/secrets=1, used: count/secrets=2, limited: count/secrets=2")?;
    Ok(())
}

async fn quotas_count_what_is_used(s: Site) -> Checked {
    let (ns, quota) = place(&s).await?;
    s.post(&core(&ns, "secrets"), &secret("a"))
        .await?
        .expect(201)?;
    used(&s, &quota, "1")
        .await?
        .is("/status/hard/count~1secrets", "2")?;
    s.delete(&format!("{}/a", core(&ns, "secrets")))
        .await?
        .expect(200)?;
    used(&s, &quota, "0").await?;
    Ok(())
}

async fn quotas_hold_for_dry_runs(s: Site) -> Checked {
    let (ns, quota) = place(&s).await?;
    let dry = format!("{}?dryRun=All", core(&ns, "secrets"));
    for name in ["a", "b"] {
        s.post(&dry, &secret(name)).await?.expect(201)?;
    }
    for name in ["a", "b"] {
        s.post(&core(&ns, "secrets"), &secret(name))
            .await?
            .expect(201)?;
    }
    used(&s, &quota, "2").await?;
    s.post(&dry, &secret("c"))
        .await?
        .refused(403, "Forbidden")?
        .says("exceeded quota")?;
    Ok(())
}

async fn limits_complete_claims(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"},
        "spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "5Gi"}}]}});
    s.post(&core(&ns, "limitranges"), &range)
        .await?
        .expect(201)?;
    let claim = |size: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"},
        "spec": {"storageClassName": "kite-conformance-none", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}}}})
    };
    // A real server's admission hears of the range a moment later.
    let path = format!("{}?dryRun=All", core(&ns, "persistentvolumeclaims"));
    for _ in 0..600 {
        if s.post(&path, &claim("10Gi")).await?.code == 403 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let answer = s
        .post(&path, &claim("10Gi"))
        .await?
        .refused(403, "Forbidden")?;
    answer.says("maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 10Gi")?;
    s.post(&path, &claim("5Gi")).await?.expect(201)?;
    Ok(())
}
