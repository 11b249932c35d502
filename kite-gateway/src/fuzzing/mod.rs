//! What must hold of whatever comes in, as functions from bytes. Two drivers share
//! them: libFuzzer, guided by coverage (`kite-gateway/fuzz`), and the tests here,
//! which feed them bytes from a seed.

mod login;
mod proxy;
mod recorded;

pub use login::check as login;
pub use proxy::check as proxy;
pub use recorded::check as recorded;

#[cfg(test)]
mod tests {
    use kite_ssh_relay::fuzzing::drive;

    #[test]
    fn proxies_are_understood_or_refused() {
        drive(None, super::proxy);
    }

    #[test]
    fn login_names_are_harmless_or_refused() {
        drive(None, super::login);
    }

    #[test]
    fn whatever_is_printed_is_recorded() {
        drive(None, super::recorded);
    }
}
