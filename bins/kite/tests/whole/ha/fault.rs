//! What is taken away, and how it comes back.

use std::{
    thread,
    time::{Duration, Instant},
};

use kite_core::crd::KiteConnection;
use kite_render::install::Process as Kite;
use kube::{Api, api::ListParams};

use super::{Play, row::Row, stage::REPLACED_AFTER};

/// How long the API server is away.
const AWAY: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Nothing,
    KillLeader,
    EndLeader,
    KillGateway,
    EndGateway,
    KillApi,
    EndApi,
    ApiServerAway,
}

impl Fault {
    pub const ALL: [Self; 8] = [
        Self::Nothing,
        Self::KillLeader,
        Self::EndLeader,
        Self::KillGateway,
        Self::EndGateway,
        Self::KillApi,
        Self::EndApi,
        Self::ApiServerAway,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Self::Nothing => "nothing, to compare",
            Self::KillLeader => "leading controller, SIGKILL",
            Self::EndLeader => "leading controller, SIGTERM",
            Self::KillGateway => "one gateway, SIGKILL",
            Self::EndGateway => "one gateway, SIGTERM",
            Self::KillApi => "one API replica, SIGKILL",
            Self::EndApi => "one API replica, SIGTERM",
            Self::ApiServerAway => "Kubernetes' API server, 10 s",
        }
    }

    /// Whom it strikes, and whether without a word.
    fn victim(self) -> Option<(Kite, bool)> {
        match self {
            Self::Nothing | Self::ApiServerAway => None,
            Self::KillLeader => Some((Kite::Controller, true)),
            Self::EndLeader => Some((Kite::Controller, false)),
            Self::KillGateway => Some((Kite::Gateway, true)),
            Self::EndGateway => Some((Kite::Gateway, false)),
            Self::KillApi => Some((Kite::Api, true)),
            Self::EndApi => Some((Kite::Api, false)),
        }
    }

    /// Lets it happen, waits until all is as before, and tells what was noticed.
    pub fn happens(self, play: &mut Play) -> Row {
        let index = match self.victim() {
            Some((Kite::Controller, _)) => play.stage.leader(),
            // The one where most are.
            Some((Kite::Gateway, _)) => {
                let at = play.people.at();
                let on = |index| at.iter().filter(|it| **it == Some(index)).count();
                usize::from(on(1) > on(0))
            }
            _ => 0,
        };
        let struck = play
            .people
            .at()
            .iter()
            .filter(|it| **it == Some(index))
            .count();
        let start = Instant::now();
        let mut ending = None;
        let mut away = None;
        match self.victim() {
            Some((kite, true)) => play.stage.kill(kite, index),
            Some((kite, false)) => ending = Some(play.stage.end(kite, index)),
            None if self == Self::ApiServerAway => {
                play.stage.api_server_goes();
                away = Some(play.stage.cluster.clone());
            }
            None => {}
        }
        if away.is_some() {
            thread::sleep(AWAY);
            play.stage.api_server_comes();
        }
        // What a ReplicaSet does, for the next one.
        let replacing = |play: &mut Play| {
            if let Some((kite, _)) = self.victim() {
                thread::sleep(REPLACED_AFTER);
                play.stage.start(kite, index);
            }
        };
        if let Some((Kite::Controller, _)) = self.victim() {
            play.a_new_vm_runs();
        }
        let mut runs_after = start.elapsed();
        if let Some((Kite::Controller, _)) = self.victim() {
            replacing(play);
        } else {
            play.a_new_vm_runs();
            runs_after = start.elapsed();
            replacing(play);
        }
        let ended_after = ending.map(|it| it.join().unwrap());
        while start.elapsed() < play.scale.looks {
            thread::sleep(Duration::from_millis(100));
        }
        play.all_is_well();
        let tidy_after = play.scale.is_full.then(|| tidied_up(play, start));
        play.stage.assert_running();
        Row::of(
            self,
            play,
            start,
            struck,
            runs_after,
            ended_after,
            tidy_after,
        )
    }
}

/// As many sessions are told of as there are. How long after `start` that was so.
fn tidied_up(play: &Play, start: Instant) -> Duration {
    let connections = Api::<KiteConnection>::all(play.stage.fake.client());
    // A session is told of some time after it was opened, and one that was left behind
    // long after its server has gone.
    let patience = Instant::now();
    loop {
        let everything = ListParams::default();
        let list = connections.list(&everything);
        let list = play.stage.runtime.block_on(list).unwrap();
        let live = list.items.iter().filter(|it| it.is_live()).count();
        if live == play.scale.staying {
            return start.elapsed();
        }
        assert!(
            patience.elapsed() < Duration::from_secs(300),
            "{live} sessions are told of, {} are there",
            play.scale.staying
        );
        thread::sleep(Duration::from_millis(200));
    }
}
