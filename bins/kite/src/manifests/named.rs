//! The options of an installation as they were named, so that the next version is
//! installed with the same.

use std::collections::{BTreeMap, BTreeSet};

use clap::{
    Arg, ArgMatches, Args as _, Command, CommandFactory as _, FromArgMatches as _, Parser,
    parser::ValueSource,
};
use kite_admin::install::Memory;
use kite_render::install::Installation;

use super::InstallationOptions;

/// Options that mean nothing without another.
const OF_ANOTHER: [(&str, &str); 5] = [
    ("parameter", "provisioner"),
    ("immediate", "provisioner"),
    ("record-storage-class", "record"),
    ("record-upload", "record"),
    ("record-credentials", "record-upload"),
];

/// Options by name, each with its values; of a flag there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Named(BTreeMap<String, Vec<String>>);

#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Line {
    #[command(flatten)]
    options: InstallationOptions,
}

/// The options of an installation that are kept: its namespace is where they are.
fn options() -> Vec<Arg> {
    let command = InstallationOptions::augment_args(Command::new("options"));
    let all = command.get_arguments();
    let kept = |arg: &&Arg| arg.get_long().is_some_and(|it| it != "namespace");
    all.filter(kept).cloned().collect()
}

/// `command`, which has the options of an installation, with what they need of each other.
/// One that knows the options of the last install as well is judged with them.
pub(crate) fn with_bases(command: Command) -> Command {
    let id = |long: &str| {
        let mut all = options().into_iter();
        all.find(|it| name(it) == long)
            .map(|it| it.get_id().clone())
    };
    OF_ANOTHER
        .into_iter()
        .fold(command, |command, (long, base)| {
            let (Some(option), Some(base)) = (id(long), id(base)) else {
                return command;
            };
            command.mut_arg(option, |it| it.requires(base))
        })
}

fn name(option: &Arg) -> &str {
    option.get_long().unwrap_or_default()
}

impl Named {
    /// What the command line and the variables name.
    pub(crate) fn of(matches: &ArgMatches) -> anyhow::Result<Self> {
        let mut named = BTreeMap::new();
        for option in options() {
            let id = option.get_id().as_str();
            let source = matches.value_source(id);
            if source.is_none_or(|it| it == ValueSource::DefaultValue) {
                continue;
            }
            let values = if option.get_action().takes_values() {
                let values = matches.get_raw(id).into_iter().flatten();
                let texts = values.map(|it| {
                    let text = it.to_str().map(str::to_owned);
                    let (name, given) = (name(&option), it.display());
                    text.ok_or_else(|| anyhow::anyhow!("--{name}: {given} is no UTF-8"))
                });
                texts.collect::<Result<_, _>>()?
            } else if matches.get_flag(id) {
                Vec::new()
            } else {
                continue;
            };
            named.insert(name(&option).to_owned(), values);
        }
        Ok(Self(named))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each as an argument.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let each = self.0.iter().flat_map(|(name, values)| {
            let flag = values.is_empty().then(|| format!("--{name}"));
            let values = values.iter().map(move |value| format!("--{name}={value}"));
            flag.into_iter().chain(values)
        });
        each.collect()
    }

    fn read(arguments: &[String]) -> anyhow::Result<Self> {
        let mut named = BTreeMap::<_, Vec<_>>::new();
        for argument in arguments {
            let Some(option) = argument.strip_prefix("--") else {
                anyhow::bail!("the last install is said to have had {argument:?}, no option");
            };
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, None),
            };
            let values = named.entry(name.to_owned()).or_default();
            values.extend(value.map(str::to_owned));
        }
        Ok(Self(named))
    }

    /// These, and of what the last install was given what they say nothing of, but for
    /// what is to be forgotten. `version` is that of this program.
    pub(crate) fn over(
        self,
        last: Option<&Memory>,
        forget: &[String],
        version: &str,
    ) -> anyhow::Result<Self> {
        let mut all = match last {
            Some(last) => Self::read(&last.options)?.0,
            None => BTreeMap::new(),
        };
        for name in forget {
            let is_known = options().iter().any(|option| self::name(option) == name);
            // One that is not there is forgotten: a run that broke off may be repeated.
            if all.remove(name).is_none() && !is_known {
                let known: Vec<_> = all.keys().map(String::as_str).collect();
                anyhow::bail!(
                    "--forget {name}: there is no such option, of those that the last install was \
                     given ({})",
                    known.join(", ")
                );
            }
        }
        let command = InstallationOptions::augment_args(Command::new("options"));
        for option in options() {
            for other in command.get_arg_conflicts_with(&option) {
                // It stands at one of the two.
                for (now, before) in [(&option, other), (other, &option)] {
                    if self.0.contains_key(name(now)) && !self.0.contains_key(name(before)) {
                        all.remove(name(before));
                    }
                }
            }
        }
        let is_other = |(name, value): (&String, &Vec<String>)| all.get(name) != Some(value);
        let others = self.0.iter().filter(|it| is_other(*it));
        let others: BTreeSet<_> = others.map(|(name, _)| name.clone()).collect();
        // The parameters of one driver are not another's.
        if others.contains("provisioner") {
            all.remove("parameter");
            all.remove("immediate");
        }
        let is_older = last.is_some_and(|last| last.version != version);
        if let Some(tag) = all.get("tag").filter(|_| is_older)
            && !self.0.contains_key("tag")
        {
            let last = last.map(|last| last.version.as_str()).unwrap_or_default();
            anyhow::bail!(
                "kite {last} installed its images with --tag {}, and this is kite {version}: name \
                 the tag of its images with --tag, or write --forget tag for {version}",
                tag.join(", ")
            );
        }
        all.extend(self.0);
        for (name, base) in OF_ANOTHER {
            if !all.contains_key(base) {
                all.remove(name);
            }
        }
        let known: BTreeSet<_> = options().iter().map(|it| name(it).to_owned()).collect();
        if let Some(name) = all.keys().find(|name| !known.contains(*name)) {
            anyhow::bail!(
                "the last install was given --{name}, which this version does not have: write \
                 --forget {name} if it may go"
            );
        }
        Ok(Self(all))
    }

    /// The installation in `namespace` that they ask for.
    pub(crate) fn installation(&self, namespace: &str) -> anyhow::Result<Installation> {
        let mut arguments = self.arguments();
        arguments.push(format!("--namespace={namespace}"));
        let matches = with_bases(Line::command()).try_get_matches_from(arguments);
        let line = matches.and_then(|it| Line::from_arg_matches(&it));
        let line = line.map_err(|error| {
            let text = error.to_string();
            // What is missing stands in lines of its own.
            let lines = text.lines().map(str::trim).take_while(|it| !it.is_empty());
            let first = lines.collect::<Vec<_>>().join(" ");
            let first = first.trim_start_matches("error: ");
            anyhow::anyhow!(
                "{first} (together with the options of the last install, {}; --forget NAME leaves \
                 one out)",
                self.arguments().join(" ")
            )
        })?;
        line.options.installation()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn named(arguments: &[&str]) -> Named {
        let matches = Line::command().try_get_matches_from(arguments).unwrap();
        Named::of(&matches).unwrap()
    }

    fn memory(arguments: &[&str]) -> Memory {
        Memory {
            version: "1.0.0".to_owned(),
            options: named(arguments).arguments(),
        }
    }

    /// What `now` makes of an installation that was made with `before`.
    fn over(before: &[&str], now: &[&str], forget: &[&str]) -> Result<Vec<String>, String> {
        let forget: Vec<_> = forget.iter().map(|it| (*it).to_owned()).collect();
        let all = named(now).over(Some(&memory(before)), &forget, "1.0.0");
        let all = all.map_err(|error| error.to_string())?;
        let options = all.arguments();
        assert!(all.installation("kite").is_ok(), "{options:?}");
        Ok(options)
    }

    #[test]
    fn what_was_named_is_read_as_it_was_written() {
        let all = [
            "--env=gateway:KITE_DENY=192.0.2.0/24,198.51.100.0/24",
            "--env=api:X=a\nb",
            "--immediate",
            "--namespace=there",
            "--parameter=pool=a=b",
            "--profile=k3s",
            "--provisioner=csi.example.org",
            "--terminals",
            "--web-from=one,two",
        ];
        let named = named(&all);
        let arguments = named.arguments();
        assert!(!arguments.contains(&"--namespace=there".to_owned()));
        assert!(
            arguments.contains(&"--web-from=one".to_owned()),
            "{arguments:?}"
        );
        assert_eq!(Named::read(&arguments).unwrap(), named);
        let direct = Line::try_parse_from(all).unwrap().options.installation();
        assert_eq!(named.installation("there").unwrap(), direct.unwrap());
        assert_eq!(
            super::Named::of(&Line::command().get_matches_from([""; 0])).unwrap(),
            Named::default()
        );
    }

    #[test]
    fn what_is_named_now_takes_the_place_of_what_was() {
        let before = [
            "--profile=k3s",
            "--base-domain=a.example.org",
            "--web-from=one,two",
        ];
        let now = over(&before, &["--web-from=three", "--terminals"], &[]).unwrap();
        assert_eq!(
            now,
            [
                "--base-domain=a.example.org",
                "--profile=k3s",
                "--terminals",
                "--web-from=three"
            ]
        );
        let now = over(&before, &[], &["web-from", "base-domain"]).unwrap();
        assert_eq!(now, ["--profile=k3s"]);
        // Repeated, as after a run that broke off.
        assert_eq!(over(&["--profile=k3s"], &[], &["web-from"]).unwrap(), now);
        let error = over(&before, &[], &["moon"]).unwrap_err();
        assert!(error.contains("base-domain, profile, web-from"), "{error}");
    }

    #[test]
    fn what_does_not_go_with_what_is_named_goes() {
        let driver = ["--provisioner=a", "--parameter=pool=x", "--immediate"];
        assert_eq!(
            over(&driver, &["--longhorn=2"], &[]).unwrap(),
            ["--longhorn=2"]
        );
        assert_eq!(
            over(&["--longhorn=2"], &["--provisioner=a"], &[]).unwrap(),
            ["--provisioner=a"]
        );
        assert_eq!(
            over(&driver, &["--provisioner=b"], &[]).unwrap(),
            ["--provisioner=b"]
        );
        assert_eq!(over(&driver, &["--provisioner=a"], &[]).unwrap().len(), 3);
        assert_eq!(
            over(&["--ingress-class=a"], &["--gateway-api=b/c"], &[]).unwrap(),
            ["--gateway-api=b/c"]
        );
        assert_eq!(
            over(&["--gateway-api=b/c"], &["--ingress-class=a"], &[]).unwrap(),
            ["--ingress-class=a"]
        );
        let records = [
            "--record=1Gi",
            "--record-upload=s3://a/b",
            "--record-credentials=c",
        ];
        assert_eq!(over(&records, &[], &["record"]).unwrap(), [""; 0]);
        assert_eq!(
            over(&records, &[], &["record-upload"]).unwrap(),
            ["--record=1Gi"]
        );
    }

    #[test]
    fn options_that_need_another_are_known() {
        for (name, base) in OF_ANOTHER {
            let all = options();
            let option = all.iter().find(|it| super::name(it) == name).unwrap();
            let value = if option.get_action().takes_values() {
                if name == "parameter" { "=a=1" } else { "=a" }
            } else {
                ""
            };
            let option = format!("--{name}{value}");
            let line = with_bases(Line::command()).try_get_matches_from([&option]);
            let error = line.err().unwrap().to_string();
            assert!(error.contains(&format!("--{base} ")), "{error}");
            // Beside the options of the last install it may stand alone.
            assert!(Line::try_parse_from([&option]).is_ok());
        }
        let records = ["--record=1Gi"];
        assert_eq!(
            over(&records, &["--record-upload=s3://a/b"], &[]).unwrap(),
            ["--record=1Gi", "--record-upload=s3://a/b"]
        );
    }

    #[test]
    fn the_tag_of_another_version_is_not_taken_silently() {
        let last = memory(&["--tag=mine", "--profile=k3s"]);
        let to = |now: &[&str], forget: &[&str], version| {
            let forget: Vec<_> = forget.iter().map(|it| (*it).to_owned()).collect();
            let all = named(now).over(Some(&last), &forget, version);
            all.map(|it| it.arguments()).map_err(|it| it.to_string())
        };
        assert_eq!(
            to(&[], &[], "1.0.0").unwrap(),
            ["--profile=k3s", "--tag=mine"]
        );
        let error = to(&[], &[], "1.1.0").unwrap_err();
        assert!(
            error.contains("--tag mine") && error.contains("--forget tag"),
            "{error}"
        );
        assert_eq!(
            to(&["--tag=new"], &[], "1.1.0").unwrap(),
            ["--profile=k3s", "--tag=new"]
        );
        assert_eq!(to(&[], &["tag"], "1.1.0").unwrap(), ["--profile=k3s"]);
    }

    #[test]
    fn what_this_version_does_not_have_is_told() {
        let last = Memory {
            version: "1.0.0".to_owned(),
            options: vec!["--moon=full".to_owned()],
        };
        let over = |forget: &[String]| Named::default().over(Some(&last), forget, "1.0.0");
        let error = over(&[]).unwrap_err().to_string();
        assert!(error.contains("--forget moon"), "{error}");
        assert_eq!(over(&["moon".to_owned()]).unwrap(), Named::default());
        let wrong = Named::read(&["--profile=moon".to_owned()]).unwrap();
        let error = wrong.installation("kite").unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        assert!(
            error.contains("moon") && error.contains("--profile"),
            "{error}"
        );
        assert!(Named::read(&["moon".to_owned()]).is_err());
    }
}
