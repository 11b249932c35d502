//! Consoles in the browser among the connections that are reported.

use kite_api::ApiState;
use kite_core::crd::EndWish;
use kite_gateway::kubernetes::Live;

/// The consoles of the HTTP API, which hears by itself of the wish that one ends.
pub struct ApiConsoles(pub ApiState);

impl Live for ApiConsoles {
    fn is_there(&self, number: u64) -> bool {
        self.0.has_console(number)
    }

    fn client(&self, _: u64) -> Option<String> {
        None
    }

    fn end(&self, _: u64, _: &EndWish) {}
}
