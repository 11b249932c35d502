//! What is said of an installation, and of its end.

use std::fmt::Write as _;

use kite_admin::{
    doctor::{Finding, Report},
    install::{Change, Data, FirstAdmin, Memory, ObjectName, Page, Removed, Setting, Workload},
};
use kite_core::names;
use serde_json::{Value, json};

use crate::output::{Lines, Output, bar, count, print, print_json};

/// A setting that stays as somebody else has set it.
fn shown(setting: &Setting) -> String {
    let (field, by) = (&setting.field, setting.by.join(", "));
    format!(
        "{field} is {} by {by} and not {}",
        setting.value, setting.wanted
    )
}

/// Tells people line by line, and scripts all of it at the end.
pub(super) struct Told {
    output: Output,
    lines: Lines,
    all: usize,
    gone: usize,
    options: Vec<String>,
    warnings: Vec<Finding>,
    rows: Vec<Value>,
}

impl Told {
    pub(super) fn new(output: Output, all: usize) -> Self {
        Self {
            output,
            lines: Lines::new(output),
            all,
            gone: 0,
            options: Vec::new(),
            warnings: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Says what is amiss that keeps nothing from being installed.
    pub(super) fn warn(&mut self, report: &Report) {
        for finding in report.to_look_at() {
            self.lines.line(&format!(
                "warning    {}: {}",
                finding.check, finding.message
            ));
            if let Some(remedy) = &finding.remedy {
                self.lines.line(&format!("           -> {remedy}"));
            }
        }
        self.warnings.extend(report.to_look_at().cloned());
    }

    /// Says which options hold, as not all of them were written.
    pub(super) fn with(&mut self, now: &Memory, last: Option<&Memory>) {
        self.options.clone_from(&now.options);
        let Some(last) = last else {
            return;
        };
        let options = match now.options.as_slice() {
            [] => "no options".to_owned(),
            options => options.join(" "),
        };
        let from = if last.version == now.version {
            String::new()
        } else {
            format!(", from {} to {}", last.version, now.version)
        };
        self.lines.line(&format!("with {options}{from}"));
    }

    pub(super) fn applied(&mut self, object: &ObjectName, change: Change) {
        let mut row = json!({ "object": object });
        if let (Some(row), Ok(Value::Object(change))) =
            (row.as_object_mut(), serde_json::to_value(&change))
        {
            row.extend(change);
        }
        self.rows.push(row);
        let bar = bar(self.rows.len(), self.all);
        match change {
            Change::Created => self.lines.line(&format!("created    {object}")),
            Change::Changed => self.lines.line(&format!("changed    {object}")),
            Change::Kept(kept) => {
                let rest = if kept.changed {
                    "; the rest was changed"
                } else {
                    ""
                };
                let settings: Vec<_> = kept.settings.iter().map(shown).collect();
                self.lines.line(&format!(
                    "kept       {object}: {}{rest}",
                    settings.join(", ")
                ));
                self.lines.line(&format!("           -> {}", kept.remedy));
            }
            Change::Unchanged => {}
        }
        self.lines.progress(&format!("{bar} {object}"));
    }

    pub(super) fn waiting(&mut self, workloads: &[Workload]) {
        let texts: Vec<_> = workloads
            .iter()
            .map(|it| format!("{} {}/{}", it.object.name, it.ready, it.wanted))
            .collect();
        self.lines
            .step(&format!("pods ready: {}", texts.join(", ")));
    }

    pub(super) fn removed(&mut self, object: &ObjectName, removed: Removed) {
        self.rows
            .push(json!({ "object": object, "change": removed }));
        // Of what is deleted so far: what else there is shows as it goes.
        match removed {
            Removed::Deleted => {
                self.lines.line(&format!("deleted    {object}"));
                self.all += 1;
            }
            Removed::Gone => self.gone += 1,
        }
        let bar = bar(self.gone, self.all);
        self.lines.progress(&format!("{bar} gone: {object}"));
    }

    /// Says what came of it, but of a dry run what would.
    pub(super) fn end(
        &mut self,
        made: Option<(&FirstAdmin, &Page)>,
        namespace: &str,
    ) -> anyhow::Result<()> {
        let token = match made {
            Some((FirstAdmin::Token(token), _)) => Some(token),
            Some((FirstAdmin::IsThere, _)) | None => None,
        };
        if self.output == Output::Json {
            let url = match made {
                Some((_, Page::At(url))) => Some(url),
                Some((_, Page::Nowhere(_))) | None => None,
            };
            print_json(&json!({
                "options": self.options,
                "warnings": self.warnings,
                "objects": self.rows,
                "bootstrapToken": token,
                "url": url,
            }))?;
            return Ok(());
        }
        let count = |change: &str| count(&self.rows, change);
        let summary = format!(
            "{} objects: {} created, {} changed, {} as they were, {} kept",
            self.rows.len(),
            count("created"),
            count("changed"),
            count("unchanged"),
            count("kept")
        );
        self.lines.line(&summary);
        let Some((_, page)) = made else {
            self.lines
                .line("Nothing was written: the above is what would be");
            return Ok(());
        };
        let mut text = match page {
            Page::At(url) => format!("The web page: {url}\n"),
            Page::Nowhere(why) => format!(
                "The web page has no address yet: {why}\nUntil then: kubectl port-forward -n \
                 {namespace} svc/{} {}, and http://localhost:{1}\n",
                names::API_SERVICE,
                names::API_PORT
            ),
        };
        if let Some(token) = token {
            writeln!(
                text,
                "The first administrator signs up with this token, once: {token}"
            )?;
        }
        print(&text)?;
        Ok(())
    }

    /// Says what was removed, and what was not.
    pub(super) fn gone(
        &mut self,
        data: Data,
        left: &[ObjectName],
        dry_run: bool,
    ) -> anyhow::Result<()> {
        if self.output == Output::Json {
            let all = json!({ "objects": self.rows, "left": left });
            print(&(serde_json::to_string_pretty(&all)? + "\n"))?;
            return Ok(());
        }
        if self.rows.is_empty() {
            self.lines.line(
                "There is nothing here that kite install made. What another tool installed is \
                 removed with that tool",
            );
            return Ok(());
        }
        for object in left {
            self.lines.line(&format!(
                "left       {object}, which Kite has not made: delete it if nobody needs it"
            ));
        }
        if dry_run {
            self.lines
                .line("Nothing was deleted: the above is what would be");
            return Ok(());
        }
        self.lines.line(match data {
            Data::Keep => {
                "Kite is gone. Its users, VMs with their disks, images and settings are still \
                 there, VMs run on, and kite install takes them up again"
            }
            Data::Delete => "Kite is gone, with all users, VMs and disks",
        });
        Ok(())
    }
}
