//! Every setting there is, with its meaning and its default.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::agent::{AgentChoice, AgentRef};
use super::define::{choice, section};
use super::home_path::HomePath;
use super::mirror_address::MirrorAddress;
use super::provider::{ProviderName, ProvidersSettings};
use super::read::{Setting, SettingKey};
use crate::ids::{BranchName, RepoName};

section! {
    /// The configuration of a run.
    Config {
        /// The agent for nodes that name none; without one, pipelines and prompts use the only one that is installed.
        agent: Option<AgentRef> = None,
        /// The model of that agent, for nodes that name none.
        model: Option<String> = None,
        /// The test of the repository: for prompts, tasks and merges that have no other.
        test_command: Option<String> = None,
        /// How commits credit the agent, besides pleach's own trailers.
        attribution: Attribution = Attribution::None,
        /// Notes on commits that tell other tools which lines are an agent's, on `refs/notes/ai`.
        attribution_notes: AttributionNotes = AttributionNotes::None,
        /// The commits of a task's branch: one per step, or the turns as well.
        commits: CommitGranularity = CommitGranularity::Steps,
        /// Limits for what is committed without a person looking at it.
        commit: CommitSettings = CommitSettings::default(),
        /// Model providers.
        providers: ProvidersSettings = ProvidersSettings::default(),
        /// Named agents, for nodes, steps and runs.
        agents: BTreeMap<String, AgentSettings> = BTreeMap::new(),
        /// Commands that agents can use as tools.
        tools: Vec<ToolSettings> = Vec::new(),
        /// The repositories a run works in.
        workspace: WorkspaceSettings = WorkspaceSettings::default(),
        /// Task trees.
        tree: TreeSettings = TreeSettings::default(),
        /// The worktrees of agents.
        worktrees: Worktrees = Worktrees::default(),
        /// The merge queue.
        merge: MergeSettings = MergeSettings::default(),
        /// What agents see of the run so far.
        context: ContextSettings = ContextSettings::default(),
        /// Limits on spending. 0 is no limit.
        budget: BudgetSettings = BudgetSettings::default(),
        /// Where sessions are recorded.
        record: RecordSettings = RecordSettings::default(),
        /// What agents may access outside their worktree.
        sandbox: SandboxSettings = SandboxSettings::default(),
        /// The variables of agents and commands.
        env: EnvSettings = EnvSettings::default(),
    } beside {
        /// The directory the project's configuration stands in: paths below it are recorded relative to it.
        root: PathBuf,
    }
}

choice! {
    /// How commits credit the agent, besides pleach's own trailers.
    Attribution {
        /// Nothing.
        None = "none",
        /// An `Assisted-by` trailer.
        AssistedBy = "assisted-by",
        /// A `Co-authored-by` trailer.
        CoAuthoredBy = "co-authored-by",
    }
}

choice! {
    /// Notes that tell other tools which lines are an agent's.
    AttributionNotes {
        /// None.
        None = "none",
        /// As git-ai writes them.
        GitAi = "git-ai",
    }
}

choice! {
    /// What a task's branch holds.
    CommitGranularity {
        /// One commit per step.
        Steps = "steps",
        /// The turns as well.
        Turns = "turns",
    }
}

section! {
    /// Limits for what is committed without a person looking at it.
    CommitSettings {
        /// The largest new file that is committed, in MiB; 0 is no limit.
        max_file_mb: u64 = 50,
        /// The most new files a turn may commit; 0 is no limit. Files whose content the repository has already are not new.
        max_new_files: u64 = 5_000,
    }
}

section! {
    /// A named agent. `role`, `persona`, `personality` and `task` are YAML files with a `content:` key.
    AgentSettings {
        /// The agent that runs it; by default the one of the run.
        runner: Option<AgentChoice> = None,
        /// File with the agent's role.
        role: Option<PathBuf> = None,
        /// File with the agent's persona.
        persona: Option<PathBuf> = None,
        /// File with the agent's tone.
        personality: Option<PathBuf> = None,
        /// File with the agent's task.
        task: Option<PathBuf> = None,
        /// The agent's model.
        model: Option<String> = None,
        /// The tools the agent may use; all when empty. Agents that cannot be limited are refused.
        tools: Vec<String> = Vec::new(),
        /// How the turns of a program are separated. By default: gateway where its provider has a key, else by its
        /// stream, else not at all.
        turns: Option<TurnMode> = None,
        /// The provider the agent's model calls are forwarded to, with `turns: gateway`.
        provider: Option<ProviderName> = None,
        /// The program and its arguments, instead of the usual ones, with {prompt}, {prompt_file}, {model}, {tools},
        /// {cwd} and {session} filled in.
        command: Vec<String> = Vec::new(),
        /// What the program gets on standard input: nothing, or the task.
        stdin: Option<AgentStdin> = None,
        /// The format of the program's output.
        parser: Option<ParserName> = None,
        /// Environment variables of the program.
        env: BTreeMap<String, String> = BTreeMap::new(),
        /// Additional arguments.
        args: Vec<String> = Vec::new(),
        /// What the program may do without asking, in its own terms, such as acceptEdits, workspace-write or yolo.
        permission_mode: Option<String> = None,
        /// Seconds one run of the program may take; no limit without it.
        timeout: Option<u64> = None,
        /// Seconds the program may go without output, a model call through the gateway or a changed file; 1800 by
        /// default.
        idle_timeout: Option<u64> = None,
        /// How many model calls in a row may fail without a changed file before the program is ended, with `turns:
        /// gateway`; 10 by default.
        max_failed_calls: Option<u32> = None,
    }
}

choice! {
    /// How the turns of a program are separated.
    TurnMode {
        /// By the calls of its model, which go through pleach. Turns are exact, and its own logins are not used.
        Gateway = "gateway",
        /// By hooks of the program that wait until the turn is committed. Turns are exact.
        Hooks = "hooks",
        /// By what the program says while it works. Files of the next turn may slip into the one before.
        Stream = "stream",
        /// Not at all: one run is one turn.
        Node = "node",
    }
}

choice! {
    /// What a program that is an agent reads.
    AgentStdin {
        /// Nothing.
        None = "none",
        /// The task.
        Prompt = "prompt",
    }
}

choice! {
    /// What a program's output is read as.
    ParserName {
        /// Words: all of it is the answer.
        None = "none",
        /// The stream of Claude Code.
        Claude = "claude",
        /// The stream of Codex.
        Codex = "codex",
        /// The stream of Gemini CLI.
        Gemini = "gemini",
        /// The stream of OpenCode.
        Opencode = "opencode",
        /// Lines of JSON as pleach's own documentation describes them.
        Jsonl = "jsonl",
    }
}

section! {
    /// A command agents get as a tool.
    ToolSettings {
        /// The name of the tool. Required.
        name: String = String::new(),
        /// The command the tool runs. Required.
        command: String = String::new(),
        /// A description of the tool for the model.
        description: String = String::new(),
    }
}

section! {
    /// The repositories a run works in.
    WorkspaceSettings {
        /// Repositories by name; by default the one the run was started in.
        repos: BTreeMap<RepoName, RepoSettings> = BTreeMap::new(),
        /// Tools of one repository.
        tools: BTreeMap<RepoName, BTreeMap<String, RepoTool>> = BTreeMap::new(),
        /// The test of what lands in several repositories together, in a directory that holds all of them; by default each
        /// is tested like any other merge.
        test_command: Option<String> = None,
    }
}

/// The prefix of branches where the configuration gives none.
pub const DEFAULT_BRANCH_PREFIX: &str = "pleach/";

section! {
    /// One repository of the workspace.
    RepoSettings {
        /// The path of the repository. Required.
        path: Option<PathBuf> = None,
        /// The prefix of session branches in this repository.
        branch_prefix: String = DEFAULT_BRANCH_PREFIX.to_owned(),
        /// The remote to clone from and push to.
        remote: Option<String> = None,
        /// When session branches are pushed; by default on_completion with a remote, otherwise never.
        push: Option<PushPolicy> = None,
        /// The depth of a clone; by default all commits.
        clone_depth: Option<u32> = None,
    }
}

impl RepoSettings {
    /// When session branches are pushed.
    pub fn push_policy(&self) -> PushPolicy {
        let default = if self.remote.is_some() { PushPolicy::OnCompletion } else { PushPolicy::Never };
        self.push.unwrap_or(default)
    }
}

choice! {
    /// When session branches are pushed.
    PushPolicy {
        /// Never.
        Never = "never",
        /// When the pipeline is done.
        OnCompletion = "on_completion",
        /// After every checkpoint.
        OnCheckpoint = "on_checkpoint",
    }
}

section! {
    /// A tool of one repository.
    RepoTool {
        /// The command the tool runs. Required.
        command: String = String::new(),
        /// A description of the tool for the model.
        description: String = String::new(),
    }
}

section! {
    /// Task trees.
    TreeSettings {
        /// The test for prompts, and for tasks without a test of their own; by default `test_command`.
        test_command: Option<String> = None,
        /// The timeout in seconds of tests without their own.
        test_timeout: u64 = 300,
        /// Seconds an agent may take for one step; no limit by default.
        runner_timeout: Option<u64> = None,
        /// The budget of attempts of a task.
        max_retries: u32 = 5,
        /// The base branch for reading older histories; by default the one `origin/HEAD` names, then `main`, then
        /// `master`.
        base_branch: Option<BranchName> = None,
        /// The directory of reports of tasks.
        report_dir: Option<PathBuf> = None,
        /// The directory of logs of tasks.
        log_dir: Option<PathBuf> = None,
        /// Whether logs and reports are committed: where the target tracks files in their directory, always, or never.
        /// Otherwise they are in the session's record.
        commit_logs: CommitLogs = CommitLogs::Auto,
        /// What gets its own branch: nothing, every phase, or every task.
        isolation: Isolation = Isolation::None,
        /// How many tasks are worked at once with `isolation: task`.
        jobs: u32 = 4,
        /// The pipeline for tasks, instead of the built-in one.
        pipeline: Option<PathBuf> = None,
        /// Whether a task ends early when two attempts in a row make no progress.
        early_stop: bool = true,
        /// Whether the branches of tasks and phases are deleted once their commits are on the target.
        delete_branches: bool = true,
        /// Agent and model of each step.
        steps: BTreeMap<String, StepSettings> = BTreeMap::new(),
    }
}

choice! {
    /// Whether a task's logs and reports are committed.
    CommitLogs {
        /// Where the target tracks files in their directory already.
        Auto = "auto",
        /// Always.
        Always = "true",
        /// Never: they are in the session's record.
        Never = "false",
    }
}

choice! {
    /// What has a branch of its own in a task tree.
    Isolation {
        /// Nothing: one task after another.
        None = "none",
        /// Every phase.
        Phase = "phase",
        /// Every task.
        Task = "task",
    }
}

section! {
    /// Agent and model of one step.
    StepSettings {
        /// The agent of this step.
        runner: Option<AgentRef> = None,
        /// The model of this step.
        model: Option<String> = None,
    }
}

section! {
    /// What agents see of the run so far.
    ContextSettings {
        /// Characters of a failed command's output the next agent sees: its first ten lines and as much of its end as
        /// fits.
        output_chars: u32 = 8000,
    }
}

/// What is left out of worktrees unless something else is said: the settings of the agent of whoever works on the
/// repository, with commands that run by themselves.
pub const EXCLUDED_BY_DEFAULT: &str = ".claude/";

section! {
    /// The worktrees of agents.
    Worktrees {
        /// The directory of worktrees; by default one in the user's state directory.
        base: Option<PathBuf> = None,
        /// A command to run once in each new worktree.
        setup: Option<String> = None,
        /// Tracked files and directories that are left out of worktrees: paths from the root, or patterns as in
        /// .gitignore (`*.bin` at any depth, `docs/**/*.png`). They stay unchanged in every commit, unless an agent
        /// creates them again. A list replaces the default; `[]` leaves nothing out.
        exclude: Vec<String> = vec![EXCLUDED_BY_DEFAULT.to_owned()],
        /// Ignored paths that are copied into worktrees and never committed.
        include_ignored: Vec<String> = Vec::new(),
        /// Whether a session's branches are removed with its worktrees.
        delete_branches: bool = false,
        /// How many idle worktrees are kept: the newest of finished sessions, and for each branch those of its tasks with
        /// the lowest numbers. Others are removed once a branch has all their work.
        pool: u32 = 4,
    }
}

section! {
    /// The merge queue.
    MergeSettings {
        /// Whether finished tasks enter the queue; otherwise they wait for `pleach task merge`.
        enabled: bool = true,
        /// Whether what merges cleanly lands by itself; otherwise it waits for `pleach merge approve`.
        auto_merge_clean: bool = true,
        /// The branch others are merged into; by default the one that is checked out.
        target: Option<BranchName> = None,
        /// The test every merge must pass; by default the tests of the merged tasks, and `test_command` for what brings
        /// none.
        test_command: Option<String> = None,
        /// Seconds until a test of a merge is stopped.
        test_timeout: u64 = 300,
        /// Seconds between two looks at the queue, with `merge process --watch`.
        interval_secs: u64 = 60,
        /// How often an agent may try to resolve a conflict.
        max_conflict_retries: u32 = 2,
        /// How many conflicts agents resolve at once, beside the tests.
        resolvers: u32 = 2,
        /// The agent that resolves conflicts; by default the agent of the run.
        agent: Option<AgentRef> = None,
        /// How work is added to the target. `linear`: the commits of a task are made again on top of it, one by one; a
        /// session or another branch is fast-forwarded, or gets a merge commit where the target has moved. `merge`:
        /// everything gets a merge commit.
        history: HistoryShape = HistoryShape::Linear,
        /// How many branches are merged and tested together.
        batch: u32 = 16,
        /// How many tests of merges run at once; by default four, or one per core if there are fewer.
        slots: Option<u32> = None,
        /// Files that are made by a command: not merged, but made again.
        derived: Vec<DerivedFiles> = Vec::new(),
        /// Whether files are merged by their structure where lines do not.
        structural: Structural = Structural::Auto,
        /// What happens to a conflict resolved in a file that no test covers.
        untested_files: UntestedFiles = UntestedFiles::Escalate,
    }
}

section! {
    /// Files that are made by a command.
    DerivedFiles {
        /// Which: paths from the root, or patterns as in .gitignore.
        paths: Vec<String> = Vec::new(),
        /// What makes them, run at the root of the merged files.
        command: String = String::new(),
    }
}

choice! {
    /// What happens to a conflict resolved in a file that no test covers.
    UntestedFiles {
        /// A person decides.
        Escalate = "escalate",
        /// It lands like any other.
        Allow = "allow",
    }
}

choice! {
    /// How work is added to a target.
    HistoryShape {
        /// As one line of commits where it can be.
        Linear = "linear",
        /// With merge commits.
        Merge = "merge",
    }
}

choice! {
    /// Whether files are merged by their structure.
    Structural {
        /// Where a merge program for it is there.
        Auto = "auto",
        /// Never.
        Off = "off",
    }
}

section! {
    /// What may be spent.
    BudgetSettings {
        /// Tokens a run may use, in a task tree all its tasks together; 0 is no limit.
        tokens: u64 = 0,
        /// US dollars a run may cost, in a task tree all its tasks together; 0 is no limit.
        usd: f64 = 0.0,
        /// Tokens a task of a tree may use, over all its attempts; 0 is no limit.
        per_task_tokens: u64 = 0,
        /// US dollars a task of a tree may cost, over all its attempts; 0 is no limit.
        per_task_usd: f64 = 0.0,
        /// Tokens a day (UTC) may use, in all sessions of the repository; 0 is no limit.
        per_day_tokens: u64 = 0,
        /// US dollars a day (UTC) may cost, in all sessions of the repository; 0 is no limit.
        per_day_usd: f64 = 0.0,
        /// What happens when a limit of the budget is reached.
        on_exceeded: OnExceeded = OnExceeded::Stop,
    }
}

choice! {
    /// What happens when a budget is used up.
    OnExceeded {
        /// The run fails.
        Stop = "stop",
        /// The run pauses and can be resumed.
        Pause = "pause",
        /// A warning, once.
        Warn = "warn",
    }
}

section! {
    /// Where sessions are recorded.
    RecordSettings {
        /// The repository of the workspace that holds the records; the first one without it.
        repo: Option<RepoName> = None,
        /// Whether records are pushed.
        push: RecordPush = RecordPush::Auto,
        /// Seconds between two pushes to a remote; 0 pushes after every commit.
        push_interval: u64 = 10,
        /// A CXDB server that gets a copy of every record.
        cxdb: Option<MirrorAddress> = None,
    }
}

choice! {
    /// Whether records are pushed.
    RecordPush {
        /// Where session branches are.
        Auto = "auto",
        /// Always.
        Always = "always",
        /// Never.
        Never = "never",
    }
}

section! {
    /// What agents may access outside their worktree.
    SandboxSettings {
        /// Whether agents run in a sandbox: where the system has one, always, or never.
        mode: SandboxMode = SandboxMode::Auto,
        /// What agents can reach: their model through pleach, or everything.
        network: Network = Network::Gateway,
        /// Paths outside their worktree agents, tools and tests may write.
        rw: Vec<PathBuf> = Vec::new(),
        /// Paths outside their worktree agents may read, besides the system's; everything when empty.
        ro: Vec<PathBuf> = Vec::new(),
        /// Paths that cannot be read: keys, logins, browsers, pleach's own state. A list replaces the default.
        hide: Vec<HomePath> = HIDDEN.map(HomePath::from).to_vec(),
        /// Paths that can be read although `hide` hides them.
        show: Vec<HomePath> = Vec::new(),
        /// Who cannot read `hide`: agents and what they start, or tools, tests and setup as well.
        hide_from: HideFrom = HideFrom::Agents,
    }
}

/// Paths hardly any work needs, and which give access elsewhere.
const HIDDEN: [&str; 60] = [
    "~/.ssh",
    "~/.aws",
    "~/.gnupg",
    "~/.config/gh",
    "~/.config/glab-cli",
    "~/.git-credentials",
    "~/.config/git/credentials",
    "~/.netrc",
    "~/.npmrc",
    "~/.pypirc",
    "~/.cargo/credentials",
    "~/.cargo/credentials.toml",
    "~/.gem/credentials",
    "~/.docker/config.json",
    "~/.config/containers/auth.json",
    "~/.kube",
    "~/.config/gcloud",
    "~/.azure",
    "~/.terraform.d/credentials.tfrc.json",
    "~/.vault-token",
    "~/.pgpass",
    "~/.password-store",
    "~/.local/share/keyrings",
    "~/.bash_history",
    "~/.zsh_history",
    "~/.zhistory",
    "~/.histfile",
    "~/.sh_history",
    "~/.local/share/fish/fish_history",
    "~/.python_history",
    "~/.node_repl_history",
    "~/.psql_history",
    "~/.mysql_history",
    "~/.claude.json",
    "~/.claude/.claude.json",
    "~/.claude/.credentials.json",
    "~/.codex/auth.json",
    "~/.codex/.credentials.json",
    "~/.codex/.env",
    "~/.gemini/oauth_creds.json",
    "~/.gemini/google_accounts.json",
    "~/.gemini/gemini-credentials.json",
    "~/.gemini/mcp-oauth-tokens.json",
    "~/.gemini/.env",
    "~/.local/share/opencode/auth.json",
    "~/.local/share/opencode/mcp-auth.json",
    "~/.mozilla",
    "~/.config/mozilla",
    "~/.config/google-chrome",
    "~/.config/chromium",
    "~/.config/BraveSoftware",
    "~/.config/microsoft-edge",
    "~/.config/opera",
    "~/.config/vivaldi",
    "~/snap/chromium",
    "~/snap/firefox",
    "~/.var/app/com.google.Chrome",
    "~/.var/app/org.chromium.Chromium",
    "~/.var/app/org.mozilla.firefox",
    "~/.local/state/pleach",
];

impl SandboxSettings {
    /// Whether agents that are plain commands get no network: it is unknown which model they use.
    pub fn closes_commands(&self) -> bool {
        self.mode == SandboxMode::Required && self.network == Network::Gateway
    }
}

choice! {
    /// Whom paths are hidden from.
    HideFrom {
        /// Agents, and what they start.
        Agents = "agents",
        /// Tools, tests and setup as well.
        All = "all",
    }
}

section! {
    /// The variables of agents and commands.
    EnvSettings {
        /// Variables passed to agents and commands although they look like secrets.
        pass: Vec<String> = Vec::new(),
    }
}

choice! {
    /// Whether agents run in a sandbox.
    SandboxMode {
        /// Where the system has one.
        Auto = "auto",
        /// Always; without one nothing runs.
        Required = "required",
        /// Never.
        Off = "off",
    }
}

choice! {
    /// What agents can reach.
    Network {
        /// Their model, through pleach.
        Gateway = "gateway",
        /// Everything.
        Open = "open",
    }
}

/// Every key of the configuration.
pub fn keys() -> Vec<SettingKey> {
    let mut keys = Vec::new();
    Config::keys("", "", serde_json::Value::Null, &mut keys);
    keys
}
