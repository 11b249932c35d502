//! Which of two versions is the older one.

use anyhow::bail;
use semver::Version;

/// That this version is none older than that of the last install. A version that cannot
/// be read, as of somebody's own build, is no reason against it.
pub(super) fn require_no_older(this: &str, last: &str) -> anyhow::Result<()> {
    let (Ok(new), Ok(old)) = (Version::parse(this), Version::parse(last)) else {
        return Ok(());
    };
    if new < old {
        bail!(
            "nothing was written: kite {last} made this installation, and this is kite {this}, \
             which is older. Its CRDs drop the fields that it does not know from whatever is \
             written, and its processes do not understand what came since. Use kite {last} or \
             newer; or take a backup (kite backup, with kite {last}) and write --allow-downgrade"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_older_version_is_refused() {
        for (this, last) in [
            ("0.1.0", "0.1.1"),
            ("0.9.0", "0.10.0"),
            ("1.0.0-rc.1", "1.0.0"),
            ("0.2.0", "1.0.0"),
        ] {
            let error = require_no_older(this, last).unwrap_err().to_string();
            assert!(
                error.contains(this) && error.contains(last) && error.contains("--allow-downgrade"),
                "{error}"
            );
            assert!(require_no_older(last, this).is_ok());
            assert!(require_no_older(last, last).is_ok());
        }
        assert!(require_no_older("0.1.0", "mine").is_ok());
    }
}
