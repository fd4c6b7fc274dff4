use proptest::prelude::*;

use super::*;

fn normalised(name: &str, value: &str) -> String {
    let attribute: KeyAttribute = name.parse().unwrap();
    attribute.normalise(value.into()).into_owned()
}

#[test]
fn functions_give_spellings_one_form() {
    for (name, value, expected) in [
        ("email", " Ann@Example.com ", " Ann@Example.com "),
        ("lower(email)", "Ann@EXAMPLE.com", "ann@example.com"),
        ("trim(email)", " \t Ann\u{a0}\u{2003}\n", "Ann"),
        ("lower(trim(email))", "  ANN ", "ann"),
        ("trim(lower(email))", "  ANN ", "ann"),
        // Full-width letters, a ligature, the Kelvin sign, and a letter with a separate accent.
        ("lower(user)", "\u{ff21}\u{ff4e}n", "ann"),
        ("lower(user)", "o\u{fb03}ce", "office"),
        ("lower(user)", "\u{212a}im", "kim"),
        ("lower(user)", "Jose\u{301}", "jos\u{e9}"),
        // Letters that databases take for another one when they compare in upper case.
        ("lower(user)", "m\u{131}\u{212a}e", "mike"),
        ("lower(user)", "\u{17f}am", "sam"),
        ("lower(user)", "stra\u{df}e", "strasse"),
        ("lower(user)", "STRASSE", "strasse"),
        // The final sigma.
        ("lower(user)", "ΟΔΟΣ", "οδοσ"),
        ("lower(user)", "οδος", "οδοσ"),
    ] {
        assert_eq!(normalised(name, value), expected, "{name} of {value:?}");
    }
}

#[test]
fn names_are_written_without_spaces() {
    let name = |text: &str| text.parse::<KeyAttribute>().unwrap().to_string();
    assert_eq!(name(" lower ( trim( email ) ) "), "lower(trim(email))");
    assert_eq!(name("lower(header:X-User)"), "lower(header:x-user)");
    assert_eq!(name("query:lower(x)"), "query:lower(x)");
    assert_eq!(name("trim(query:a(b))"), "trim(query:a(b))");
}

#[test]
fn errors_say_what_is_expected() {
    let error = |text: &str| text.parse::<KeyAttribute>().unwrap_err().to_string();
    for (text, expected) in [
        (
            "upper(email)",
            r#"unknown function "upper"; expected lower or trim"#,
        ),
        ("lower(email", "expected `)` at its end"),
        ("lower(client-ip)", "did you mean `client_ip`?"),
        ("lower(client_ip)", "`client_ip` takes no function"),
        ("lower()", "found 0"),
        ("(email)", r#"unknown function """#),
        ("trim(trim(trim(trim(trim(a)))))", "at most 4 are allowed"),
    ] {
        assert!(error(text).contains(expected), "{text}: {}", error(text));
    }
}

proptest! {
    #[test]
    fn lower_is_idempotent_and_ignores_case(text in "\\PC{0,20}") {
        let once = normalised("lower(user)", &text);
        prop_assert_eq!(&normalised("lower(user)", &once), &once);
        prop_assert_eq!(&normalised("lower(user)", &text.to_uppercase()), &once);
        prop_assert_eq!(&normalised("lower(user)", &text.to_lowercase()), &once);
    }
}
