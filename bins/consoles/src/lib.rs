//! Joins the HTTP API's consoles with the SSH gateway's library, which neither of
//! the two knows of: terminals are logins of the gateway's kind, and records go
//! where the gateway's go. Recordings are read from where gateways put them.

mod recordings;
mod reports;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use async_trait::async_trait;
use bytes::Bytes;
use kite_api::console::{
    ConsoleAudit, ConsoleEnded, ConsoleEvent, ConsoleInput, ConsoleOutput, ConsoleRecord,
    ConsoleStream, TerminalError, TerminalRequest, TerminalSize, Terminals,
};
use kite_gateway::{
    AuditSink, LoginName, Routes as _, VmKey,
    audit::{Event, Record},
    kubernetes::RouteTable,
    terminal::{self, Output, Size, TerminalInput, TerminalOutput},
};

pub use self::{recordings::StoredRecordings, reports::ApiConsoles};

/// What a terminal in the browser calls itself.
const TERM: &str = "xterm-256color";

/// Logs in to VMs as the SSH gateway does.
pub struct GatewayTerminals {
    routes: RouteTable,
    terminals: terminal::Terminals,
}

impl GatewayTerminals {
    /// Finds VMs in `routes`, which somebody has to keep
    /// ([`watch_routes`](kite_gateway::kubernetes::watch_routes)).
    pub fn new(routes: RouteTable, terminals: terminal::Terminals) -> Self {
        Self { routes, terminals }
    }
}

fn of(size: TerminalSize) -> Size {
    Size {
        columns: size.columns.into(),
        rows: size.rows.into(),
    }
}

#[async_trait]
impl Terminals for GatewayTerminals {
    async fn open(&self, request: TerminalRequest) -> Result<ConsoleStream, TerminalError> {
        let vm = VmKey {
            namespace: request.vm.namespace.unwrap_or_default(),
            name: request.vm.name,
        };
        let route = self.routes.of_vm(&vm);
        let route = route.filter(|route| route.uid == request.uid);
        let Some(route) = route else {
            return Err(TerminalError::NotRunning(format!(
                "VM {} cannot be entered yet: it is being set up, try again in a moment",
                vm.name
            )));
        };
        let opened = self.terminals.open(&route, TERM, of(request.size)).await;
        if let Err(terminal::TerminalError::Dial { .. }) = &opened {
            self.routes.doubt(&route);
        }
        let (input, output) = opened.map_err(|error| match error {
            terminal::TerminalError::Unavailable { .. } => {
                TerminalError::NotRunning(error.to_string())
            }
            terminal::TerminalError::Dial { .. }
            | terminal::TerminalError::Refused { .. }
            | terminal::TerminalError::Unrecorded(_) => {
                TerminalError::Unavailable(error.to_string())
            }
        })?;
        Ok(ConsoleStream {
            recording: output.recording().map(str::to_owned),
            input: Box::new(Input(input)),
            output: Box::new(Printed(output)),
        })
    }

    fn are_recorded(&self) -> bool {
        self.terminals.are_recorded()
    }
}

struct Input(TerminalInput);

#[async_trait]
impl ConsoleInput for Input {
    async fn write(&mut self, data: Bytes) -> Result<(), ConsoleEnded> {
        if self.0.write(data).await.is_err() {
            // How it ended is told by what it prints last.
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn resize(&mut self, size: TerminalSize) {
        self.0.resize(of(size));
    }
}

struct Printed(TerminalOutput);

#[async_trait]
impl ConsoleOutput for Printed {
    async fn next(&mut self) -> Result<Bytes, ConsoleEnded> {
        match self.0.next().await {
            Output::Data(data) => Ok(data),
            Output::Exited(status) => Err(ConsoleEnded::Exited(status)),
            Output::Killed(signal) => Err(ConsoleEnded::Killed(signal)),
            Output::Closed => Err(ConsoleEnded::Lost("it closed the terminal".to_owned())),
            Output::Lost => Err(ConsoleEnded::Lost("the connection broke".to_owned())),
            Output::Unrecorded => Err(ConsoleEnded::Lost(
                "it has to be recorded, and cannot be any more".to_owned(),
            )),
        }
    }
}

/// Writes records of consoles where those of the SSH gateway go.
pub struct GatewayAudit<S>(pub S);

impl<S: AuditSink> ConsoleAudit for GatewayAudit<S> {
    fn record(&self, record: &ConsoleRecord) {
        let console = |what, bytes_up, bytes_down, seconds, why| Event::Console {
            user: record.user.clone(),
            vm: VmKey {
                namespace: record.namespace.clone(),
                name: record.vm.clone(),
            },
            uid: record.uid.clone(),
            owner: record.owner.clone(),
            kind: record.kind.as_str(),
            what,
            bytes_up,
            bytes_down,
            seconds,
            why,
        };
        let event = match &record.event {
            ConsoleEvent::ConsoleOpened => console("opened", 0, 0, 0.0, None),
            ConsoleEvent::ConsoleRecorded { recording } => {
                // Names of accounts are names for logins, too.
                let Some(login) = LoginName::parse(&record.user) else {
                    return;
                };
                Event::Recording {
                    login,
                    vm: VmKey {
                        namespace: record.namespace.clone(),
                        name: record.vm.clone(),
                    },
                    name: recording.clone(),
                }
            }
            ConsoleEvent::ConsoleRefused { why } => {
                console("refused", 0, 0, 0.0, Some(why.clone()))
            }
            ConsoleEvent::ConsoleEnded {
                bytes_up,
                bytes_down,
                seconds,
                ended,
                // The words say the same, and connections by SSH have no such code.
                code: _,
            } => console(
                "ended",
                *bytes_up,
                *bytes_down,
                *seconds,
                Some(ended.clone()),
            ),
        };
        // Behind a proxy nobody knows the port.
        let address = record.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        self.0.record(&Record {
            time: record.time,
            connection: record.console,
            peer: SocketAddr::new(address, 0),
            event,
        });
    }
}
