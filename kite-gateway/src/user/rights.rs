//! What a user may do in the machine, who logged in with a certificate that allows some of it.

use super::conn::Conn;
use crate::auth::Proof;

/// What is said where a certificate does not allow it.
pub(super) const NOT_VOUCHED_FOR: &str = "kite: the certificate does not permit port forwarding";

/// What a user may do beside running commands.
#[expect(clippy::struct_excessive_bools, reason = "each stands for itself")]
pub(super) struct Rights {
    terminal: bool,
    ports: bool,
    agent: bool,
    x11: bool,
}

impl Rights {
    /// Of whoever is logged in: everything, unless a certificate says otherwise.
    pub(super) fn of(conn: &Conn) -> Self {
        let proofs = conn.identity().map_or(&[][..], |it| &it.proofs);
        let mut rights = Self {
            terminal: true,
            ports: true,
            agent: true,
            x11: true,
        };
        for proof in proofs {
            match proof {
                Proof::Certificate(it) => {
                    rights.terminal &= it.grant.pty;
                    rights.ports &= it.grant.port_forwarding;
                    rights.agent &= it.grant.agent_forwarding;
                    rights.x11 &= it.grant.x11_forwarding;
                }
                Proof::Key(_) | Proof::Password(_) => {}
            }
        }
        rights
    }

    /// Whether a channel of that type may be opened. All but sessions lead elsewhere.
    pub(super) fn may_open(&self, kind: &[u8]) -> bool {
        self.ports || kind == b"session"
    }

    /// Whether that may be asked of a session.
    pub(super) fn may_ask(&self, name: &[u8]) -> bool {
        match name {
            b"pty-req" => self.terminal,
            b"x11-req" => self.x11,
            b"auth-agent-req@openssh.com" | b"agent-req" => self.agent,
            _ => true,
        }
    }

    /// Whether that may be asked of the connection.
    pub(super) fn may_ask_globally(&self, name: &[u8]) -> bool {
        self.ports || !matches!(name, b"tcpip-forward" | b"streamlocal-forward@openssh.com")
    }
}
