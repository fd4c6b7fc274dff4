//! Whatever the file, an import ends with a valid configuration or an error.

use proptest::prelude::*;

use super::*;

const FORMATS: [ImportFormat; 4] = [
    ImportFormat::Envoy,
    ImportFormat::Limitador,
    ImportFormat::Nginx,
    ImportFormat::Kong,
];
const SOURCES: [&str; 4] = [
    include_str!("../../../tests/cli/data/import/envoy.yaml"),
    include_str!("../../../tests/cli/data/import/limitador.yaml"),
    include_str!("../../../tests/cli/data/import/nginx.conf"),
    include_str!("../../../tests/cli/data/import/kong.yaml"),
];

fn is_valid(text: &str, format: Option<ImportFormat>) -> Option<ImportResult> {
    let result = translate(text, "t", format).ok()?;
    assert_eq!(validate(&result.config), Ok(()), "{}", result.config);
    Some(result)
}

#[test]
fn the_format_is_detected() {
    for (source, format) in SOURCES.iter().zip(FORMATS) {
        let detected = detect(source, "t");
        assert_eq!(detected.map_err(|error| error.reason), Ok(format));
        assert!(is_valid(source, None).is_some_and(|result| result.limits > 1));
    }
    for other in ["", "a: 1", "limits: [{ name: a }]", "limit_req", "[1, 2]"] {
        assert!(detect(other, "t").is_err(), "{other}");
    }
}

/// The numbers of a leaky bucket, as nginx counts them.
#[test]
fn bursts_of_nginx_have_room_for_one_more() {
    let import = |parameters: &str| {
        let text = format!(
            "limit_req_zone $uri zone=z:1m rate=90r/m; location /a {{ limit_req zone=z {parameters}; }}"
        );
        is_valid(&text, Some(ImportFormat::Nginx))
            .expect("a limit")
            .config
    };
    for (parameters, mode, capacity) in [
        ("", "meter", 1),
        ("nodelay", "meter", 1),
        ("burst=20 nodelay", "meter", 21),
        ("burst=20", "queue", 21),
    ] {
        let config = import(parameters);
        let numbers =
            format!("    mode: {mode}\n    capacity: {capacity}\n    leak_rate: 90/minute\n");
        assert!(config.contains(&numbers), "{parameters}: {config}");
        assert!(config.contains("match: { path: [\"/a**\"] }"), "{config}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        for format in FORMATS {
            is_valid(&text, Some(format));
        }
        is_valid(&text, None);
    }

    /// Real files with pieces cut out, repeated and replaced.
    #[test]
    fn damaged_files_never_panic(
        file in 0_usize..4,
        cuts in prop::collection::vec((0_usize..2_000, 0_usize..40, "[-{}$'\";:a0 \n]{0,6}"), 1..6),
    ) {
        let mut text: Vec<char> = SOURCES[file].chars().collect();
        for (start, length, insert) in cuts {
            let start = start.min(text.len());
            let end = (start + length).min(text.len());
            text.splice(start..end, insert.chars());
        }
        let text: String = text.into_iter().collect();
        for format in FORMATS {
            is_valid(&text, Some(format));
        }
    }
}
