//! What may be registered.

use framefold_core::Error;
use framefold_io::{FORMATS, Format, OptionKind, OptionSpec, Verdict, register};

fn row(name: &'static str, options: &'static [OptionSpec]) -> Format {
    Format {
        name,
        title: "a test",
        extensions: &["test"],
        options,
        detect: &|_| Verdict::No("it never is".into()),
        open: &|_, _| Err(Error::unsupported("nothing is opened")),
    }
}

#[test]
fn names_are_not_taken_twice_and_options_mean_one_thing() {
    const OTHER: &[OptionSpec] =
        &[OptionSpec::new("nav_shape", OptionKind::Text, "Something else")];
    const TWICE: &[OptionSpec] = &[
        OptionSpec::new("gain", OptionKind::Number, "A factor"),
        OptionSpec::new("gain", OptionKind::Number, "A factor"),
    ];
    const ODD: &[OptionSpec] =
        &[OptionSpec::new("gain", OptionKind::Number, "A factor").with_default("one")];
    for (format, part) in [
        (row("mib", &[]), "already"),
        (row("auto", &[]), "cannot be called"),
        (row("My Format", &[]), "cannot be called"),
        (row("of_text", OTHER), "another name"),
        (row("of_two", TWICE), "twice"),
        (row("of_one", ODD), "has the default one, which is not a finite number"),
    ] {
        let error = register(format).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn options_have_flags_that_the_command_line_does_not_use_itself() {
    let mut built_in = FORMATS.iter().flat_map(|format| format.options);
    let corrections = built_in.find(|spec| spec.name == "enable_corrections").unwrap();
    let own = vec![
        OptionSpec::new("gain_of_all", OptionKind::Number, "A factor"),
        OptionSpec::new("roi", OptionKind::Number, "Something").with_flag("threads"),
        OptionSpec::new("nav_shape", OptionKind::Shape, "The scan shape"),
        OptionSpec::new(corrections.name, corrections.kind, "As others").with_flag("roi"),
    ];
    let format = register(row("of_flags", own.leak())).unwrap();
    let found: Vec<String> = format.options.iter().map(OptionSpec::flag_name).collect();
    assert_eq!(found, ["option-gain-of-all", "option-roi", "nav-shape", "corrections"]);
}
