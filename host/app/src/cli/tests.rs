use super::*;
use crate::controllers::Item;
use clap::CommandFactory;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn who_writes_a_plugin_need_not_say_where_it_is() {
    let dev = Cli::try_parse_from(["pilothouse", "dev"]).unwrap();
    let Command::Dev(args) = dev.command else {
        panic!("it is dev");
    };
    assert_eq!(args.plugins, PathBuf::from("."));
    let run = Cli::try_parse_from(["pilothouse", "run"]).unwrap_err();
    assert!(run.to_string().contains("--plugins <DIR>"), "{run}");
}

#[test]
fn the_version_of_wasmtime_is_the_one_that_is_linked() {
    let lock = include_str!("../../../../Cargo.lock");
    let wanted = format!("name = \"wasmtime\"\nversion = \"{WASMTIME_VERSION}\"\n");
    assert!(lock.contains(&wanted), "{wanted}");
    assert!(LONG_VERSION.contains(WASMTIME_VERSION));
}

/// The error text for a wrong command line.
fn refused(arguments: &[&str]) -> String {
    let arguments = ["pilothouse"].iter().chain(arguments);
    let error = Cli::try_parse_from(arguments).expect_err("it is wrong");
    assert_eq!(error.exit_code(), 2);
    error.to_string()
}

#[test]
fn a_value_that_is_wrong_is_told_what_to_write() {
    let run = |flag| refused(&["run", "--plugins", "x", flag]);
    for (flag, says) in [
        ("--workers=0", "write 1 or more"),
        ("--workers=many", "write 1 or more"),
        ("--allowed-host=http://a.example", "without a scheme"),
        ("--allowed-host=a.example:80", "without a scheme"),
        ("--allowed-host=*", "without a scheme"),
        ("--watch-limit=0", "write 1 or more"),
        ("--controllers=", "write '*' for all"),
        ("--controllers=*,,a", "write '*' for all"),
        ("--controllers=*;-a", "write '*' for all"),
        ("--listen=8080", ":8080 for every address"),
        ("--listen=http://localhost:8080", "write 127.0.0.1:8080"),
    ] {
        let error = run(flag);
        assert!(error.contains(says), "{error}");
    }
    let error = refused(&["plugins", "--host=8080"]);
    assert!(error.contains("localhost:8080"), "{error}");
}

#[test]
fn more_than_one_name_may_be_allowed() {
    let names = ["--allowed-host=a.example", "--allowed-host=[fd00::1]"];
    let all = ["pilothouse", "run", "--plugins", "x"].iter().chain(&names);
    let cli = Cli::try_parse_from(all).unwrap();
    let Command::Run(args) = cli.command else {
        panic!("it is run");
    };
    assert_eq!(args.allowed_host, ["a.example", "[fd00::1]"]);
}

#[test]
fn a_short_help_is_shorter_and_a_line_for_each_flag() {
    let mut program = Cli::command();
    program.build();
    let run = program.find_subcommand_mut("run").expect("it is there");
    let (short, long) = (run.render_help(), run.render_long_help());
    let (short, long) = (short.to_string(), long.to_string());
    assert!(short.len() < long.len(), "{short}");
    for text in ["--listen <ADDR>", "--min-resync-period <DURATION>"] {
        assert!(short.contains(text) && long.contains(text), "{short}");
    }
    assert!(long.contains("An empty directory"), "{long}");
}

#[test]
fn names_that_no_server_takes_are_refused() {
    let rbac = |arguments: &[&str]| {
        let all = ["pilothouse", "rbac", "x.wasm"].iter().chain(arguments);
        let parsed = Cli::try_parse_from(all);
        parsed.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(rbac(&["--name=a.b-1", "--namespace=web"]), Ok(()));
    for bad in ["", "A", "a b", "a: b", "-a", "a."] {
        let error = rbac(&[&format!("--name={bad}")]).unwrap_err();
        assert!(error.contains("is not a name"), "{error}");
    }
    for bad in ["", "a.b", "A", "kube_system"] {
        let error = rbac(&[&format!("--namespace={bad}")]).unwrap_err();
        assert!(error.contains("is not a namespace"), "{error}");
    }
}

#[test]
fn a_new_plugin_has_a_name_that_a_manifest_can_have_and_a_language_that_is_known() {
    let new = ["pilothouse", "new", "cert-expiry", "--lang", "rust"];
    let Command::New(args) = Cli::try_parse_from(new).unwrap().command else {
        panic!("it is new");
    };
    assert_eq!(args.name, "cert-expiry");
    assert_eq!(args.lang, Language::Rust);
    for bad in ["", "A", "a.b", "a/b", "..", "a_b", "a-", &"a".repeat(64)] {
        let error = refused(&["new", bad, "--lang", "rust"]);
        assert!(error.contains("is not a plugin's name"), "{error}");
    }
    let error = refused(&["new", "a", "--lang", "cobol"]);
    assert!(error.contains("[possible values: rust, python]"), "{error}");
    assert!(refused(&["new", "a"]).contains("--lang <LANGUAGE>"));
}

fn limits(arguments: &[&str]) -> Result<(), String> {
    let arguments = ["pilothouse", "run", "--plugins", "x"]
        .iter()
        .chain(arguments);
    let cli = Cli::try_parse_from(arguments).map_err(|error| error.to_string())?;
    let Command::Run(args) = cli.command else {
        panic!("it is run");
    };
    args.limits
        .limits()
        .map(drop)
        .map_err(|error| format!("{error:#}"))
}

#[test]
fn a_limit_is_a_rate_and_perhaps_a_burst() {
    assert_eq!(limits(&[]), Ok(()));
    assert_eq!(limits(&["--kube-api-qps=-1"]), Ok(()));
    assert_eq!(limits(&["--kube-api-qps", "-1"]), Ok(()));
    let both = ["--plugin-api-qps=0.5", "--plugin-api-burst=3"];
    assert_eq!(limits(&both), Ok(()));
    let error = limits(&["--kube-api-burst=3"]).unwrap_err();
    assert!(error.contains("--kube-api-qps <QPS>"), "{error}");
    assert_eq!(
        limits(&["--kube-api-qps=nan"]).unwrap_err(),
        "--kube-api-qps, --kube-api-burst: the rate is not a finite number"
    );
}

#[test]
fn controllers_are_a_list_in_which_names_may_begin_with_a_hyphen() {
    let all = Item::All;
    let off = Item::Off("cronjob-controller".into());
    let rows: [(&[&str], &[Item]); 4] = [
        (&[], std::slice::from_ref(&all)),
        (&["--controllers=*,-cronjob"], &[all.clone(), off.clone()]),
        (
            &["--controllers", "-cronjob,*"],
            &[off.clone(), all.clone()],
        ),
        (
            &["--controllers=-cronjob", "--controllers=*"],
            &[off.clone(), all.clone()],
        ),
    ];
    for (arguments, wanted) in rows {
        let run = ["pilothouse", "run", "--plugins", "x"].iter();
        let cli = Cli::try_parse_from(run.chain(arguments)).unwrap();
        let Command::Run(args) = cli.command else {
            panic!("it is run");
        };
        assert_eq!(args.controllers, wanted, "{arguments:?}");
    }
}

#[test]
fn a_host_takes_part_in_an_election_unless_it_is_told_not_to_or_is_for_development() {
    let elects = |arguments: &[&str]| {
        let arguments = ["pilothouse"].iter().chain(arguments);
        match Cli::try_parse_from(arguments).map(|cli| cli.command) {
            Ok(Command::Run(args) | Command::Dev(args)) => args.election.leader_elect,
            other => panic!("{other:?}"),
        }
    };
    let run = ["run", "--plugins", "x"];
    assert!(elects(&run));
    assert!(!elects(&["run", "--plugins", "x", "--leader-elect=false"]));
    assert!(!elects(&["dev"]));
    assert!(elects(&["dev", "--leader-elect"]));
    assert!(elects(&["dev", "--leader-elect=true"]));
}

#[test]
fn times_with_which_two_hosts_could_lead_are_refused() {
    let settings = |arguments: &[&str]| {
        let arguments = ["pilothouse", "run", "--plugins", "x"]
            .iter()
            .chain(arguments);
        match Cli::try_parse_from(arguments).unwrap().command {
            Command::Run(args) => args.election.settings(),
            other => panic!("{other:?}"),
        }
    };
    assert!(settings(&[]).is_ok());
    let error = settings(&["--leader-elect-lease-duration", "10s"]).unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("--leader-elect-lease-duration") && error.contains("renew deadline"));
    assert!(settings(&["--leader-elect-retry-period", "9s"]).is_err());
    assert!(settings(&["--share", "--leader-elect=false"]).is_err());
}
