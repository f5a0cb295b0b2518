//! Chooses a sandbox from the settings and the features of the system.

use std::path::{Path, PathBuf};

use super::bounds::{Availability, CONNECTS, Connect, MOVES, Sandbox, TRUNCATES, Wall};
use super::{bubblewrap, caches};
use pleach_core::config::{self, Environment, HideFrom, Network, SandboxMode};

/// System directories that must be readable if reading is restricted.
const SYSTEM: [&str; 14] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/nix", "/opt", "/proc", "/run", "/sbin", "/sys",
    "/usr",
];

/// Whether and how commands are sandboxed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxChoice {
    /// Disabled by the settings.
    Off,
    /// Unavailable; the missing feature.
    Nothing(String),
    /// Enabled with this policy.
    On(SandboxPolicy),
}

/// A sandbox is required and cannot be enforced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`sandbox.mode` is `required`, but {0}")]
pub struct SandboxUnavailable(String);

/// The sandbox of all commands of a run, except for their working directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPolicy {
    by: Availability,
    write: Vec<PathBuf>,
    /// The targets of links in `write`.
    leading_to: Vec<PathBuf>,
    read: Option<Vec<PathBuf>>,
    hide: Vec<PathBuf>,
    show: Vec<PathBuf>,
    hide_from: HideFrom,
    network: Network,
    /// The variables of unshared caches, and names for them.
    own_caches: Vec<(&'static str, &'static str)>,
}

/// Where a command works.
#[derive(Debug, Clone, Copy)]
pub struct SandboxScope<'a> {
    /// The worktrees, with their private parts of the repositories.
    pub worktrees: &'a [&'a Path],
    /// The git directories of the repositories, in which only objects can be added.
    pub repositories: &'a [&'a Path],
    /// Its other directories: temporary files, the place of its outcome.
    pub own: &'a [PathBuf],
}

/// Decides how to sandbox commands. Bubblewrap is only tried if Landlock is not sufficient.
pub fn choose(
    settings: &config::SandboxSettings,
    environment: &Environment,
    available: Availability,
) -> Result<SandboxChoice, SandboxUnavailable> {
    if settings.mode == SandboxMode::Off {
        return Ok(SandboxChoice::Off);
    }
    let (by, unusable) = usable(available);
    if let Some(missing) = missing(&by, unusable.as_deref()) {
        return match settings.mode {
            SandboxMode::Required => Err(SandboxUnavailable(missing)),
            _ if by.abi() < MOVES && by.bubblewrap.is_none() => Ok(SandboxChoice::Nothing(missing)),
            _ => Ok(SandboxChoice::On(SandboxPolicy::new(settings, environment, by))),
        };
    }
    let policy = SandboxPolicy::new(settings, environment, by);
    if settings.mode == SandboxMode::Required && !policy.limits_agents() {
        let why = if policy.by.filters {
            "restricting agents to their model needs Linux 6.7 or newer"
        } else {
            "agents cannot be restricted to their model: seccomp is not available here"
        };
        return Err(SandboxUnavailable(format!("{why}; set `sandbox.network: open` to let them connect anywhere")));
    }
    Ok(SandboxChoice::On(policy))
}

/// The user's git configuration, without which git does not run at all.
fn git_settings(environment: &Environment) -> impl Iterator<Item = PathBuf> {
    let home = environment.get_os("HOME").map(PathBuf::from);
    let config = environment.get_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(home.as_ref()?.join(".config")));
    home.map(|home| home.join(".gitconfig")).into_iter().chain(config.map(|config| config.join("git")))
}

/// The usable features, and why bubblewrap is not one of them.
fn usable(available: Availability) -> (Availability, Option<String>) {
    match &available.bubblewrap {
        Some(program) if available.abi() < CONNECTS => match bubblewrap::works(program) {
            Ok(()) => (available, None),
            Err(why) => (Availability { bubblewrap: None, ..available }, Some(why)),
        },
        _ => (available, None),
    }
}

/// What is missing to protect files outside.
fn missing(by: &Availability, unusable: Option<&str>) -> Option<String> {
    if by.abi() >= TRUNCATES || by.bubblewrap.is_some() {
        return None;
    }
    let kernel = match by.landlock_abi {
        None => "this kernel has no Landlock, or it is disabled".to_owned(),
        Some(abi) => format!("the Landlock of this kernel is too old (version {abi}; Linux 6.2 has 3)"),
    };
    Some(match unusable {
        None => format!("{kernel}, and bubblewrap is not installed"),
        Some(why) => format!("{kernel}, and bubblewrap does not work here: {why}"),
    })
}

/// Resolves links, because the sandbox works on resolved paths.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

impl SandboxPolicy {
    fn new(settings: &config::SandboxSettings, environment: &Environment, by: Availability) -> Self {
        let mut write = caches::find(environment);
        write.extend(settings.rw.iter().cloned());
        let read = (!settings.ro.is_empty()).then(|| {
            let path = environment.get_os("PATH").map(std::env::split_paths);
            let programs = path.into_iter().flatten().filter(|dir| dir.is_absolute());
            let system = SYSTEM.into_iter().map(PathBuf::from);
            system.chain(programs).chain(git_settings(environment)).chain(settings.ro.iter().cloned()).collect()
        });
        let leading_to = write.iter().map(|path| real(path)).collect();
        let own_caches = caches::linked(environment, &settings.rw);
        let [hide, show] = [&settings.hide, &settings.show]
            .map(|paths| paths.iter().flat_map(|path| path.places(environment)).collect());
        let config::SandboxSettings { network, hide_from, .. } = *settings;
        Self { by, write, leading_to, read, hide, show, hide_from, network, own_caches }
    }

    /// The variables that point package managers to caches in a command's own directory, if the user's are not
    /// writable.
    pub fn own_caches(&self, dir: &Path) -> impl Iterator<Item = (&'static str, PathBuf)> {
        self.own_caches.iter().map(move |(variable, name)| (*variable, dir.join(name)))
    }

    /// The sandbox of an agent that works in this scope. The agent itself widens its connections, because it knows how
    /// it reaches its model.
    pub fn of_agent(&self, place: SandboxScope<'_>) -> Sandbox {
        let connect = match self.network {
            Network::Open => Connect::Anywhere,
            Network::Gateway => Connect::Ports(Vec::new()),
        };
        Sandbox { connect, hide: self.hide.clone(), ..self.of_command(place) }
    }

    /// The sandbox of a tool, a test or a setup command that works in this scope. Its network is open, because the
    /// command was approved.
    pub fn of_command(&self, place: SandboxScope<'_>) -> Sandbox {
        let SandboxScope { worktrees, repositories, own } = place;
        let write = worktrees.iter().map(|dir| dir.to_path_buf());
        let write = write.chain(own.iter().cloned()).chain(self.write.iter().cloned()).collect();
        let add = repositories.iter().map(|repository| repository.join("objects")).collect();
        let hide = match self.hide_from {
            HideFrom::Agents => Vec::new(),
            HideFrom::All => self.hide.clone(),
        };
        let show = repositories.iter().map(|repository| repository.to_path_buf()).chain(self.show.clone()).collect();
        Sandbox { by: self.by.clone(), write, add, read: self.read.clone(), hide, show, connect: Connect::Anywhere }
    }

    /// Whether no sandboxed command can change a directory, wherever else it works.
    pub fn keeps_out_of(&self, dir: &Path) -> bool {
        let is_whole = self.by.abi() >= TRUNCATES || self.by.bubblewrap.is_some();
        let dir = real(dir);
        is_whole && !self.leading_to.iter().any(|open| open.starts_with(&dir) || dir.starts_with(open))
    }

    /// Whether agents can be restricted to their model.
    fn limits_agents(&self) -> bool {
        match self.network {
            Network::Open => true,
            Network::Gateway => self.by.abi() >= CONNECTS && self.by.filters,
        }
    }

    /// Whether agents that reach their model through pleach, and whatever they start, can reach nothing else.
    pub fn closes_network(&self) -> bool {
        self.network == Network::Gateway && self.limits_agents()
    }

    /// The protection of a run in a short line. `alone`: some agent calls its model itself, not through pleach.
    pub fn in_words(&self, alone: bool) -> String {
        let wall = match self.by.wall(&Connect::Anywhere) {
            Some(Wall::Bubblewrap(_)) => "bubblewrap",
            Some(Wall::Landlock(abi)) if abi < TRUNCATES => {
                "Landlock (this kernel cannot keep files elsewhere from being truncated)"
            }
            _ => "Landlock",
        };
        let network = match self.network {
            Network::Open => "network open",
            Network::Gateway if alone => "network open to agents outside the gateway",
            Network::Gateway if self.limits_agents() => "agents reach only their model",
            Network::Gateway => "network open (this kernel cannot close it)",
        };
        format!("{wall}; {network}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(abi: u32) -> Availability {
        Availability { landlock_abi: Some(abi).filter(|abi| *abi > 0), bubblewrap: None, filters: true }
    }

    fn settings(mode: SandboxMode, network: Network) -> config::SandboxSettings {
        config::SandboxSettings { mode, network, ..config::SandboxSettings::default() }
    }

    fn chosen(settings: &config::SandboxSettings, abi: u32) -> String {
        match choose(settings, &Environment::default(), by(abi)) {
            Ok(SandboxChoice::Off) => "off".into(),
            Ok(SandboxChoice::Nothing(missing)) => format!("nothing: {missing}"),
            Ok(SandboxChoice::On(policy)) => policy.in_words(false),
            Err(missing) => format!("refused: {missing}"),
        }
    }

    #[test]
    fn what_protects_a_run_is_said_in_a_line() {
        use Network::{Gateway, Open};
        use SandboxMode::{Auto, Off, Required};
        let table = [(Off, Gateway), (Auto, Gateway), (Auto, Open), (Required, Gateway), (Required, Open)];
        let shown = table.map(|(mode, network)| {
            let lines = [0, 1, 2, 3, 4].map(|abi| format!("  {abi}: {}\n", chosen(&settings(mode, network), abi)));
            format!("{mode} {network}\n{}", lines.concat())
        });
        insta::assert_snapshot!(shown.concat(), @"
        off gateway
          0: off
          1: off
          2: off
          3: off
          4: off
        auto gateway
          0: nothing: this kernel has no Landlock, or it is disabled, and bubblewrap is not installed
          1: nothing: the Landlock of this kernel is too old (version 1; Linux 6.2 has 3), and bubblewrap is not installed
          2: Landlock (this kernel cannot keep files elsewhere from being truncated); network open (this kernel cannot close it)
          3: Landlock; network open (this kernel cannot close it)
          4: Landlock; agents reach only their model
        auto open
          0: nothing: this kernel has no Landlock, or it is disabled, and bubblewrap is not installed
          1: nothing: the Landlock of this kernel is too old (version 1; Linux 6.2 has 3), and bubblewrap is not installed
          2: Landlock (this kernel cannot keep files elsewhere from being truncated); network open
          3: Landlock; network open
          4: Landlock; network open
        required gateway
          0: refused: `sandbox.mode` is `required`, but this kernel has no Landlock, or it is disabled, and bubblewrap is not installed
          1: refused: `sandbox.mode` is `required`, but the Landlock of this kernel is too old (version 1; Linux 6.2 has 3), and bubblewrap is not installed
          2: refused: `sandbox.mode` is `required`, but the Landlock of this kernel is too old (version 2; Linux 6.2 has 3), and bubblewrap is not installed
          3: refused: `sandbox.mode` is `required`, but restricting agents to their model needs Linux 6.7 or newer; set `sandbox.network: open` to let them connect anywhere
          4: Landlock; agents reach only their model
        required open
          0: refused: `sandbox.mode` is `required`, but this kernel has no Landlock, or it is disabled, and bubblewrap is not installed
          1: refused: `sandbox.mode` is `required`, but the Landlock of this kernel is too old (version 1; Linux 6.2 has 3), and bubblewrap is not installed
          2: refused: `sandbox.mode` is `required`, but the Landlock of this kernel is too old (version 2; Linux 6.2 has 3), and bubblewrap is not installed
          3: Landlock; network open
          4: Landlock; network open
        ");
    }

    #[test]
    fn agents_are_bound_to_their_place() {
        let settings = config::SandboxSettings { rw: vec!["/more".into()], ..config::SandboxSettings::default() };
        let policy = SandboxPolicy::new(&settings, &Environment::default(), by(7));
        let own = ["/tmp/x".into()];
        let place = SandboxScope {
            worktrees: &[Path::new("/w"), Path::new("/r/worktrees/w")],
            repositories: &[Path::new("/r")],
            own: &own,
        };
        let agent = policy.of_agent(place);
        assert_eq!(agent.write, ["/w", "/r/worktrees/w", "/tmp/x", "/more"].map(PathBuf::from));
        assert_eq!((agent.add.as_slice(), agent.read), ([PathBuf::from("/r/objects")].as_slice(), None));
        assert_eq!(agent.connect, Connect::Ports(Vec::new()));
        assert_eq!(policy.of_command(place).connect, Connect::Anywhere);

        assert!(policy.keeps_out_of(Path::new("/home/me/project")));
        for open in ["/more", "/more/project", "/"] {
            assert!(!policy.keeps_out_of(Path::new(open)), "{open}");
        }
        assert!(!SandboxPolicy::new(&settings, &Environment::default(), by(2)).keeps_out_of(Path::new("/home")));

        let settings = config::SandboxSettings { ro: vec!["/data".into()], network: Network::Open, ..settings };
        let environment = Environment::from_pairs([("PATH", "/tools/bin:relative")]);
        let agent = SandboxPolicy::new(&settings, &environment, by(7)).of_agent(place);
        let read = agent.read.unwrap();
        for path in ["/usr", "/tools/bin", "/data"] {
            assert!(read.contains(&path.into()), "{path}: {read:?}");
        }
        assert_eq!(agent.show, [PathBuf::from("/r")]);
        assert!(!read.contains(&"relative".into()));
        assert_eq!(agent.connect, Connect::Anywhere);
    }

    #[test]
    fn keys_are_hidden_from_commands_only_if_configured() {
        let environment = Environment::from_pairs([("HOME", "/h"), ("XDG_STATE_HOME", "/s")]);
        let place = SandboxScope { worktrees: &[Path::new("/s/pleach/w")], repositories: &[], own: &[] };
        let bounds = |settings: &config::SandboxSettings| {
            let policy = SandboxPolicy::new(settings, &environment, by(7));
            [policy.of_agent(place).hide, policy.of_command(place).hide]
        };
        let [agent, command] = bounds(&config::SandboxSettings::default());
        for path in ["/h/.ssh", "/h/.aws", "/h/.gnupg", "/h/.config/gh", "/h/.mozilla", "/s/pleach"] {
            assert!(agent.contains(&path.into()), "{path}: {agent:?}");
        }
        assert_eq!(command, Vec::<PathBuf>::new());
        let settings = config::SandboxSettings {
            hide: vec!["~/x".into()],
            hide_from: HideFrom::All,
            show: vec!["~/x/y".into()],
            ..config::SandboxSettings::default()
        };
        assert_eq!(SandboxPolicy::new(&settings, &environment, by(7)).of_agent(place).show, [PathBuf::from("/h/x/y")]);
        assert_eq!(bounds(&settings), [["/h/x"], ["/h/x"]].map(|paths| paths.map(PathBuf::from)));
    }
}
